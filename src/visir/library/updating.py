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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError
from visir.files import read_json, write_json
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
from visir.library.leftovers import forget_empty, refuse_foreign, sweep, told_of_disk
from visir.library.models import Models
from visir.library.moving import move
from visir.library.plan import drop_others, planned
from visir.library.record import record
from visir.library.scan import Scan, scan
from visir.library.source import Entry, Source
from visir.library.thumbnails import remove_thumbnails, sweep_thumbnails
from visir.library.vectors import Indexes, add_captions, add_pictures
from visir.locks import locked_or

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
    def same(self) -> bool:
        """Whether every file is where and what it was."""
        return not (self.added or self.changed or self.moved or self.deleted or self.encoded)


def update(
    source: str | Path | None,
    folder: str | Path,
    *,
    model: str | Path | None = None,
    head: str | Path | None = None,
    kind: str | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
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
    - `settings`: of the indexes ({"url": "http://qdrant:6333"}); each index takes those that its kind knows. A library
      keeps both; with others than it has, its indexes are made anew from the vectors they hold
    - `verify`: hash every file, also those whose size and time of change are as they were
    - `loaded`: encoders that are in memory already, by name (new ones are put there)
    - `tell`: called with what is being done

    Raises `LibraryError` when another update is under way, when models or source are not those of the library, and when
    the source is empty (a disk that is not mounted would empty the library).
    """
    folder = Path(folder)
    begun = time.perf_counter()
    refuse_foreign(folder)
    busy = LibraryError(f"{folder}: another process is updating this library.", hint="wait until it is done")
    try:
        with locked_or(folder / LOCK, busy), told_of_disk(folder):
            sweep(folder)
            before = planned(folder, source, model, head, kind, name, split, images, settings)
            opened = Source.open(before.source, images=before.images, split=before.split)
            models = Models(before.model, before.head, device=device, cards=before.cards, loaded=loaded)
            if not is_library(folder):
                # What is wrong with them is said now, not after an hour of reading.
                for encoder in (models.dense, models.sparse):
                    if encoder is not None and "image" not in encoder.modalities:
                        raise encoder.cannot("image")
                drop_others(folder, before, models)
            database = Database.create(folder / DATABASE, before.generation)
            try:
                return _updated(folder, before, opened, models, database, verify, tell, begun)
            finally:
                database.close()
    except VisirError:
        forget_empty(folder)  # a mistyped place leaves no folder behind
        raise


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
    # An index that somebody deleted is made anew, and its files will bear old names.
    files = {name: said for name, said in before.files.items() if (folder / name.partition("/")[0]).exists()}
    before = replace(before, root=str(Path(source.collection.root).absolute()), files=files)
    unfinished = (folder / WORK).exists()
    if is_library(folder):
        before = move(folder, before, database, tell)
    systems = [one for one in SYSTEMS if one in before.kinds]
    indexes = Indexes(folder, before.kinds, before.settings)
    known = {one for (one,) in database.rows("SELECT id FROM items")}
    lost = frozenset(one for system in systems for one in known - indexes.ids(system))
    tell("looking", 0, len(source.entries))
    found = scan(folder, source, database, verify=verify, wanted=lost, tell=tell)
    _keep_unreachable(source, database, found)
    counts = _counts(database, found)
    same = counts.same and not found.first and _as_known(database, source, found)
    encoded = 0
    if not same:
        refuse_changed(folder, before, database)
        broken, encoded = add_pictures(folder, source, found.first, models, indexes, tell)
        _set_aside(found, broken)
        counts = _counts(database, found)
    items = set(found.items.values())
    _refuse_emptied(before, found, known, items)
    if not same:
        captions = {
            one: (found.items[path], text) for one, text, path in source.captions if path in found.items
        }  # fmt: skip
        if CAPTIONS in before.kinds:
            _add_captions(folder, source, database, captions, models, indexes, tell)
        tell("writing", 0, 1)
        record(database, source, found, items, captions)
    for system in systems:
        indexes.keep(system, {one for (one,) in database.rows("SELECT id FROM items")})
    if CAPTIONS in before.kinds:
        indexes.keep(CAPTIONS, {one for (one,) in database.rows("SELECT id FROM captions")})
    if not same or unfinished or database.generation != before.generation or DATABASE not in before.files:
        _publish(folder, before, database, models)
    if unfinished:
        sweep_thumbnails(folder, items)
    remove_thumbnails(folder, known - items)
    shutil.rmtree(folder / WORK, ignore_errors=True)
    return replace(counts, items=len(items), encoded=encoded, seconds=time.perf_counter() - begun)


def _add_captions(
    folder: Path,
    source: Source,
    database: Database,
    captions: Mapping[str, tuple[str, str]],
    models: Models,
    indexes: Indexes,
    tell: Tell,
) -> None:
    """Bring the index of captions up to date with the source, ahead of the database.

    A caption whose text changed is another document under the same id. Which those are is written down first: killed
    between index and database, and the old text restored meanwhile, the index would keep the vector of the new one.
    """
    had = dict(database.rows("SELECT id, text FROM captions"))
    listed = folder / WORK / "captions.json"
    stale = {one for one, (_, text) in captions.items() if one in had and had[one] != text}
    if listed.is_file():
        stale |= set(read_json(listed))
    write_json(listed, sorted(stale))
    indexes.keep(CAPTIONS, indexes.ids(CAPTIONS) - stale)
    missing = captions.keys() - indexes.ids(CAPTIONS)
    if missing:
        tell("captions", 0, len(missing))
        add_captions(folder, source, missing, models, indexes)


def _keep_unreachable(source: Source, database: Database, found: Scan) -> None:
    """Files in a folder that may not be looked into are not gone: they stay as they were known."""
    root = Path(source.collection.root)
    closed: dict[str, bool] = {}
    columns = "path, item, mark, name, place, archive, category"
    for path, item, mark, name, place, archive, category in database.rows(f"SELECT {columns} FROM files"):
        if path in found.items or path in found.broken or place is None or archive is not None:
            continue
        parent = str(Path(place).parent)
        if parent not in closed:
            closed[parent] = _closed(root / parent)
        if closed[parent]:
            found.items[path] = item
            found.entries[path] = Entry(-1, path, mark, name, place, archive, category)


def _closed(folder: Path) -> bool:
    """Whether this folder is there, or may be, and cannot be looked into."""
    try:
        next(folder.iterdir(), None)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _refuse_emptied(before: Manifest, found: Scan, known: set[str], items: set[str]) -> None:
    """An update that leaves nothing is refused: a library does not empty itself because a disk was not mounted."""
    if items:
        return
    some = "; ".join(why for _, why in list(found.broken.values())[:3])
    held = f"; the library keeps its {len(known):,}" if known else ""
    raise LibraryError(
        f"{before.source}: none of its pictures can be used{held}: {some or 'there is none'}",
        hint="is the disk mounted, the path right? A library that is to go: delete its folder",
    )


def _set_aside(found: Scan, broken: Mapping[str, str]) -> None:
    """Take items that could not be encoded out of what was found."""
    for path in [path for path, item in found.items.items() if item in broken]:
        found.broken[path] = (found.entries[path].mark, broken[found.items[path]])
        del found.items[path]


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


def _as_known(database: Database, source: Source, found: Scan) -> bool:
    """Whether captions, fields and broken files are as the database has them."""
    told = database.value("SELECT value FROM meta WHERE name = 'told'")
    broken = dict(database.rows("SELECT path, mark FROM broken"))
    marks = dict(database.rows("SELECT path, mark FROM files"))
    return (
        told == source.told
        and not found.removed
        and broken == {path: mark for path, (mark, _) in found.broken.items()}
        and marks == {path: one.mark for path, one in found.entries.items() if path in found.items}
    )


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
