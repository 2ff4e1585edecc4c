"""`update`: make a library, or bring it up to date with its source.

Order, so that a kill at any moment loses nothing and shows nothing wrong:

1. look at the source; what was read is written down in `work/`
2. encode what is new, and add it to the indexes (each addition is atomic; the database does not know of it yet)
3. one transaction in the database: from here on the new state counts
4. delete from the indexes what the database no longer knows, write `library.json`, remove thumbnails and `work/`

Between any two steps every item of the database is in every index; the next update does what is left.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.encoders.locks import locked_or
from visir.library.check import digests, refuse_changed
from visir.library.database import Database
from visir.library.layout import (
    CAPTIONS,
    DATABASE,
    LOCK,
    SYSTEMS,
    WORK,
    LibraryError,
    Manifest,
    is_library,
)
from visir.library.models import Models, names_of, refuse_other_names
from visir.library.scan import Scan, scan
from visir.library.source import Source, absolute
from visir.library.thumbnails import sweep_thumbnails
from visir.library.vectors import Indexes, add_captions, add_pictures

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

Tell = Callable[[str, int, int], None]
"""What is being done ("reading", "encoding", "writing"), how much is done, of how much."""


@dataclass(frozen=True)
class Update:
    """What an update found and did; all but `items` and `seconds` count files.

    - `added`: under a new path; `changed`: other content under a known path; `moved`: known content under a new path
      whose old path is gone; `deleted`: paths that are gone; `unchanged`
    - `broken`: path to reason, of everything that cannot be read; it is tried again when it changes
    - `duplicates`: files whose content another file has too
    - `items`: how many pictures the library now holds; `encoded`: how many of them went through the model now
    """

    added: int
    changed: int
    moved: int
    deleted: int
    unchanged: int
    broken: Mapping[str, str]
    duplicates: int
    items: int
    encoded: int
    seconds: float

    @property
    def anything(self) -> bool:
        """Whether the library is another one than before."""
        return bool(self.added or self.changed or self.moved or self.deleted or self.encoded)


def update(
    source: str | Path | None,
    folder: str | Path,
    *,
    model: str | Path | None = None,
    head: str | Path | None = None,
    kind: str | Sequence[str] | None = None,
    name: str | None = None,
    split: str | None = None,
    images: Sequence[str | Path] = (),
    verify: bool = False,
    device: str | None = None,
    loaded: dict[str, Encoder] | None = None,
    tell: Tell = lambda stage, done, total: None,
) -> Update:
    """Make the library `folder` of `source`, or bring it up to date.

    - `source`: a folder of photos, or anything `visir.collections.open_collection` takes; None: what it was made of
    - `model`, `head`: names as `visir.encoders.load` takes them. `head`: a sparse head, for search by weighted words. A
      library keeps them: leave them out to update it
    - `kind`: the kind of index ("hnsw"), or one for each form of vectors; default: exact, and inverted for words
    - `verify`: hash every file, also those whose size and time of change are as they were
    - `loaded`: encoders that are in memory already, by name (new ones are put there)
    - `tell`: called with what is being done

    Raises `LibraryError` when another update is under way, when models or source are not those of the library, and when
    the source is empty (a disk that is not mounted would empty the library).
    """
    folder = Path(folder)
    begun = time.perf_counter()
    if not is_library(folder) and folder.is_dir() and any(one.name not in _OURS for one in folder.iterdir()):
        raise LibraryError(f"{folder}: exists and is no library.", hint="name a new folder: --out FOLDER")
    busy = LibraryError(f"{folder}: another process is updating this library.", hint="wait until it is done")
    with locked_or(folder / LOCK, busy):
        before = _manifest(folder, source, model, head, kind, name, split, images)
        opened = Source.open(before.source, images=before.images, split=before.split)
        models = Models(before.model, before.head, device=device, cards=before.cards, loaded=loaded)
        if not is_library(folder):
            _ = models.dense, models.sparse  # what is wrong with them is said now, not after an hour of reading
        database = Database.create(folder / DATABASE, before.generation)
        try:
            return _updated(folder, before, opened, models, database, verify, tell, begun)
        finally:
            database.close()


_OURS = {LOCK, WORK, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", *SYSTEMS, CAPTIONS, "thumbnails"}


def _updated(
    folder: Path,
    before: Manifest,
    source: Source,
    models: Models,
    database: Database,
    verify: bool,
    tell: Tell,
    begun: float,
) -> Update:
    before = replace(before, root=str(Path(source.collection.root).absolute()))
    # An index that somebody deleted is made anew, and its files will bear old names.
    files = {name: said for name, said in before.files.items() if (folder / name.partition("/")[0]).exists()}
    before = replace(before, files=files)
    systems, named = [one for one in SYSTEMS if one in before.kinds], dict(before.kinds)
    indexes = Indexes(folder, named)
    known = {one for (one,) in database.rows("SELECT id FROM items")}
    lost = frozenset(one for system in systems for one in known - indexes.ids(system))
    found = scan(folder, source, database, verify=verify, wanted=lost, tell=tell)
    if found.first or not same_files(database, found):
        refuse_changed(folder, before, database)
    if found.first:
        broken = add_pictures(folder, source, found.first, models, indexes, tell)
        _set_aside(found, broken)
    removed = {one for (one,) in database.rows("SELECT item FROM removed")}
    items = set(found.items.values()) - removed
    if not items and not known:
        some = "; ".join(why for _, why in list(found.broken.values())[:3])
        raise LibraryError(f"{before.source}: none of its pictures can be used: {some}")
    captions = {one: (found.items[path], text) for one, text, path in source.captions if found.items.get(path) in items}
    encoded = len(found.first) if found.first else 0
    counts = _counts(database, found)
    same = not (
        counts.added or counts.changed or counts.moved or counts.deleted or lost or found.first
    ) and _told(database) == source.told and _broken_as_known(database, found)  # fmt: skip
    stale: set[str] = set()
    if not same:
        tell("writing", 0, 1)
        with_captions = CAPTIONS in named
        if with_captions:
            old = dict(database.rows("SELECT id, text FROM captions"))
            stale = {one for one, (_, text) in captions.items() if one in old and old[one] != text}
            indexes.keep(CAPTIONS, indexes.ids(CAPTIONS) - stale)
            missing = set(captions) - indexes.ids(CAPTIONS)
            if missing:
                add_captions(folder, source, missing, models, indexes)
        with database.writing():
            _write(database, source, found, items, captions)
    for system in systems:
        indexes.keep(system, {one for (one,) in database.rows("SELECT id FROM items")})
    if CAPTIONS in named:
        indexes.keep(CAPTIONS, set(captions))
    generation = database.generation
    if not same or generation != before.generation or DATABASE not in before.files:
        _publish(folder, before, database, models)
        sweep_thumbnails(folder, items)
    shutil.rmtree(folder / WORK, ignore_errors=True)
    return replace(counts, items=len(items), encoded=encoded, seconds=time.perf_counter() - begun)


def _manifest(
    folder: Path,
    source: str | Path | None,
    model: str | Path | None,
    head: str | Path | None,
    kind: str | Sequence[str] | None,
    name: str | None,
    split: str | None,
    images: Sequence[str | Path],
) -> Manifest:
    """What the library is, or is to be."""
    if not is_library(folder):
        if source is None or model is None:
            raise LibraryError(
                f"{folder}: there is no library yet.", hint="say of what, and with which model: visir index PLACE -m M"
            )
        spec, places = absolute(source, [str(one) for one in images], split)
        first, second = names_of(model, head)
        made = Manifest(name or folder.absolute().name.removesuffix(".visir"), spec, places, split, "", first, second)
        return replace(made, kinds=_kinds(kind, first, second))
    held = Manifest.read(folder)
    given = names_of(model, head) if model is not None else (None, None)
    refuse_other_names(held, given[0], given[1] if head is not None else None, folder)
    if source is not None:
        spec, places = absolute(source, [str(one) for one in images], split)
        held = replace(held, source=spec, images=places or held.images, split=split or held.split)
    return held if name is None else replace(held, name=name)


def _kinds(kind: str | Sequence[str] | None, model: str, head: str | None) -> dict[str, str]:
    """The kind of each index, and whether there is one."""
    from visir.search.kinds import KINDS

    made = {} if head == model else {"dense": "exact", CAPTIONS: "exact"}
    if head is not None:
        made["sparse"] = "inverted"
    for one in [kind] if isinstance(kind, str) else kind or ():
        described = KINDS.get(one)
        if described.vectors not in made:
            raise LibraryError(
                f"--kind {one}: holds {described.vectors} vectors, and this library has none.",
                hint="visir index kinds lists the kinds",
            )
        described.index()  # says now, not after hours, that a package is missing
        made[described.vectors] = one
    return made


def _set_aside(found: Scan, broken: Mapping[str, str]) -> None:
    """Take items that could not be encoded out of what was found."""
    for path in [path for path, item in found.items.items() if item in broken]:
        found.broken[path] = (found.entries[path].mark, broken[found.items[path]])
        del found.items[path]


def same_files(database: Database, found: Scan) -> bool:
    """Whether every file is where and what it was."""
    return dict(database.rows("SELECT path, item FROM files")) == found.items


def _counts(database: Database, found: Scan) -> Update:
    old = dict(database.rows("SELECT path, item FROM files"))
    gone: dict[str, int] = defaultdict(int)
    for path, item in old.items():
        if path not in found.items:
            gone[item] += 1
    total_gone = sum(gone.values())
    added = changed = moved = 0
    for path, item in found.items.items():
        if path in old:
            changed += old[path] != item
        elif gone.get(item, 0):
            moved += 1
            gone[item] -= 1
        else:
            added += 1
    unchanged = len(found.items) - added - changed - moved
    reasons = {path: why for path, (_, why) in sorted(found.broken.items())}
    duplicates = len(found.items) - len(set(found.items.values()))
    return Update(added, changed, moved, total_gone - moved, unchanged, reasons, duplicates, 0, 0, 0.0)


def _told(database: Database) -> str | None:
    told: str | None = database.value("SELECT value FROM meta WHERE name = 'told'")
    return told


def _broken_as_known(database: Database, found: Scan) -> bool:
    known = dict(database.rows("SELECT path, mark FROM broken"))
    return known == {path: mark for path, (mark, _) in found.broken.items()}


def _write(
    database: Database, source: Source, found: Scan, items: set[str], captions: Mapping[str, tuple[str, str]]
) -> None:
    """The new state, inside a transaction."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    had = {one for (one,) in database.rows("SELECT id FROM items")}
    files = [(e.path, found.items[e.path], e.mark, e.name, e.place, e.archive, e.category)
             for e in found.entries.values() if found.items.get(e.path) in items]  # fmt: skip
    category: dict[str, str] = {}
    for _, item, *_, folder in sorted(files):
        category.setdefault(item, folder)
    database.run("DELETE FROM files")
    database.run_many("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", files)
    database.run_many("DELETE FROM items WHERE id = ?", [(one,) for one in had - items])
    columns = ("width", "height", "format", "bytes", "taken", "camera", "phash", "thumbnail")
    rows: list[tuple[Any, ...]] = []
    for item in sorted(items - had):
        facts = found.facts[item]
        rows.append((item, category[item], now, *(getattr(facts, column) for column in columns)))
    marks = ", ".join("?" * (3 + len(columns)))
    database.run_many(f"INSERT INTO items(id, category, added, {', '.join(columns)}) VALUES ({marks})", rows)
    database.run_many("UPDATE items SET category = ? WHERE id = ?", [(category[one], one) for one in sorted(items)])
    database.run("DELETE FROM captions")
    database.run_many("INSERT INTO captions VALUES (?, ?, ?)", [(one, *said) for one, said in captions.items()])
    database.run("DELETE FROM fields")
    fields = {(found.items[path], name, value) for path, name, value in source.fields if found.items.get(path) in items}
    database.run_many("INSERT INTO fields VALUES (?, ?, ?)", sorted(fields, key=lambda one: tuple(map(str, one))))
    database.run("DELETE FROM broken")
    database.run_many("INSERT INTO broken VALUES (?, ?, ?)", [(path, *why) for path, why in found.broken.items()])
    database.run("INSERT OR REPLACE INTO meta VALUES ('told', ?)", (source.told,))
    database.run("UPDATE meta SET value = value + 1 WHERE name = 'generation'")


def _publish(folder: Path, before: Manifest, database: Database, models: Models) -> None:
    """Write `library.json` for the state that the database has now."""
    cards = dict(before.cards)
    for system in SYSTEMS:
        if system in before.kinds and system not in cards:
            encoder = models.dense if system == "dense" else models.sparse
            cards[system] = {} if encoder is None else encoder.card.to_dict()
    generation = database.generation
    files = digests(folder, before.files, at_rest=database.settle(), generation=generation)
    replace(before, cards=cards, generation=generation, files=files).write(folder)
