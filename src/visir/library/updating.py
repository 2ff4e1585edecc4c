"""`update`: make a library, or bring it up to date with its source.

Order, so that a kill at any moment loses nothing and shows nothing wrong:

1. look at the source; what was read is written down in `work/`
2. encode what is new, and add it to the indexes (each addition is atomic; the database does not know of it yet)
3. write a new database and name it in `visir.json`: from here on the new state counts
4. delete from the indexes what the database no longer knows, remove thumbnails and `work/`

Between any two steps every item of the database is in every index; the next update does what is left.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.files import read_json
from visir.library.check import check_before_change
from visir.library.commit import clean_indexes, commit, told_of_disk
from visir.library.database import Database
from visir.library.database_update import write_scan
from visir.library.index_migration import migrate_indexes
from visir.library.layout import (
    CAPTIONS,
    INDEXES,
    LIBRARY,
    SYSTEMS,
    WORK,
    LibraryCard,
    LibraryError,
    is_library,
    thumbnail_name,
)
from visir.library.models import LibraryModels
from visir.library.plan import check_apart, drop_other_indexes, plan_library
from visir.library.scan import Scan, scan, thumbnails_of_journal
from visir.library.source import PhotoSource, check_source_available
from visir.library.unavailable import disks_of, keep_unavailable
from visir.library.vectors import Indexes, add_captions, add_pictures
from visir.search.folder import INDEX
from visir.storage import FolderChange, changing, recover, remove_own_folders, sweep
from visir.storage.removal import remove_files

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

_STALE = f"{WORK}/captions.json"
Tell = Callable[[str, int, int], None]
"""What is being done ("reading", "encoding", "writing"), how much is done, of how much."""


@dataclass(frozen=True)
class UpdateReport:
    """What an update found and did; all but `items` and `seconds` count files.

    - `added`: under a new path; `changed`: other content under a known path; `moved`: known content under a new path
      whose old path is gone; `deleted`: paths that are gone; `unchanged`
    - `broken`: path to reason, of everything that cannot be read; it is tried again when it changes
    - `away`: folders that cannot be looked into, or whose disk is not there, and why: their pictures are kept
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
    away: Mapping[str, str] = field(default_factory=dict)

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
) -> UpdateReport:
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
    asked = (source, model, head, kind, name, split, images, settings)
    busy = LibraryError(f"{folder}: another process is updating this library.", hint="wait until it is done")
    check_apart(folder, source)
    # What is wrong with the words of the command is said before anything is made or waited for.
    before = plan_library(folder, *asked)
    check_source_available(folder, before.source, before.images)
    opened = PhotoSource.open(before.source, images=before.images, split=before.split)
    models = LibraryModels(before.model, before.head, device=device, cards=before.cards, loaded=loaded)
    if not is_library(folder):
        _check_models(models)
    with told_of_disk(folder), changing(folder, LIBRARY, busy=busy, resume=True) as change:
        sweep(change.folder)
        for name in INDEXES:
            recover(change.folder / name, INDEX)
        before = plan_library(folder, *asked)  # another process may have been at work meanwhile
        if change.manifest.generation == 0:
            drop_other_indexes(change, before, models)
        before = replace(before, root=str(Path(opened.collection.root).absolute()))
        return _updated(change, before, opened, models, verify, tell, begun)


def _check_models(models: LibraryModels) -> None:
    """What is wrong with them is said now, not after an hour of reading."""
    for encoder in (models.dense, models.sparse):
        if encoder is None:
            continue
        if "image" not in encoder.modalities:
            raise encoder.cannot("image")
        encoder.check_versioned("a library keeps its vectors")


def _updated(
    change: FolderChange,
    before: LibraryCard,
    source: PhotoSource,
    models: LibraryModels,
    verify: bool,
    tell: Tell,
    begun: float,
) -> UpdateReport:
    folder = change.folder
    unfinished = (folder / WORK).exists()
    if change.manifest.generation:
        before = migrate_indexes(change, before, tell)
    there = bool(before.database) and (folder / before.database).is_file()
    database = Database.open(folder / before.database) if there else Database.empty()
    try:
        return _compared(change, before, source, models, database, unfinished or not there, verify, tell, begun)
    finally:
        database.close()


def _compared(
    change: FolderChange,
    before: LibraryCard,
    source: PhotoSource,
    models: LibraryModels,
    database: Database,
    unfinished: bool,
    verify: bool,
    tell: Tell,
    begun: float,
) -> UpdateReport:
    folder = change.folder
    systems = [system for system in SYSTEMS if system in before.kinds]
    indexes = Indexes(folder, before.kinds, before.settings, change=change)
    known = dict(database.rows("SELECT id, thumbnail FROM items"))
    lost = frozenset(item for system in systems for item in known.keys() - indexes.ids(system))
    tell("looking", 0, len(source.entries))
    found = scan(change, source, database, verify=verify, wanted=lost, tell=tell)
    away = keep_unavailable(source, database, found)
    counts = _counts(database, found)
    same = counts.same and not found.first and _as_known(database, source, found)
    encoded = 0
    if not same:
        if change.manifest.generation:
            check_before_change(folder)
        broken, encoded = add_pictures(change, source, found.first, models, indexes, tell)
        _set_aside(found, broken)
        counts = _counts(database, found)
    items = set(found.items.values())
    _check_not_emptied(before, found, known.keys(), items)
    card = replace(before, cards=_cards(before, models))
    if not same or not card.database or unfinished:
        captions = {id: (found.items[path], text) for id, text, path in source.captions if path in found.items}
        if CAPTIONS in card.kinds:
            _add_captions(change, source, database, captions, models, indexes, tell)
        tell("writing", 0, 1)
        torn = thumbnails_of_journal(folder) - items
        gone = {item: digest for item, digest in known.items() if item not in items}
        card = commit(change, card, lambda draft: write_scan(draft, source, found, items, captions), gone=gone)
        clean_indexes(change, card, indexes)
        remove_files(folder, map(thumbnail_name, torn - known.keys()))
        remove_own_folders(change, WORK)
    elif card.to_content() != change.manifest.content:
        change.commit(card.to_content())
    else:
        change.abandon()
    return replace(counts, items=len(items), encoded=encoded, seconds=time.perf_counter() - begun, away=away)


def _add_captions(
    change: FolderChange,
    source: PhotoSource,
    database: Database,
    captions: Mapping[str, tuple[str, str]],
    models: LibraryModels,
    indexes: Indexes,
    tell: Tell,
) -> None:
    """Bring the index of captions up to date with the source, ahead of the database.

    A caption whose text changed is another document under the same id. Which those are is written down first: killed
    between index and database, and the old text restored meanwhile, the index would keep the vector of the new one.
    """
    had = dict(database.rows("SELECT id, text FROM captions"))
    listed = change.folder / _STALE
    stale = {one for one, (_, text) in captions.items() if one in had and had[one] != text}
    if listed.is_file():
        stale |= set(read_json(listed))
    change.write_json(_STALE, sorted(stale), counts=False)
    indexes.keep(CAPTIONS, indexes.ids(CAPTIONS) - stale)
    missing = captions.keys() - indexes.ids(CAPTIONS)
    if missing:
        tell("captions", 0, len(missing))
        add_captions(change, source, missing, models, indexes)


def _check_not_emptied(before: LibraryCard, found: Scan, known: Collection[str], items: Collection[str]) -> None:
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


def _counts(database: Database, found: Scan) -> UpdateReport:
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
    return UpdateReport(added, changed, moved, total_gone - moved, unchanged, reasons, duplicates, 0, 0, 0.0)


def _as_known(database: Database, source: PhotoSource, found: Scan) -> bool:
    """Whether captions, fields and broken files are as the database has them."""
    told = database.value("SELECT value FROM meta WHERE name = 'told'")
    broken = dict(database.rows("SELECT path, mark FROM broken"))
    marks = dict(database.rows("SELECT path, mark FROM files"))
    return (
        told == source.told
        and database.value("SELECT value FROM meta WHERE name = 'disks'") in (None, disks_of(source, database, found))
        and not found.removed
        and broken == {path: mark for path, (mark, _) in found.broken.items()}
        and marks == {path: one.mark for path, one in found.entries.items() if path in found.items}
    )


def _cards(before: LibraryCard, models: LibraryModels) -> dict[str, Mapping[str, Any]]:
    """The cards of the library's encoders; those that it has already stay, and load no model."""
    cards = dict(before.cards)
    for system in SYSTEMS:
        if system in before.kinds and system not in cards:
            encoder = models.dense if system == "dense" else models.sparse
            cards[system] = {} if encoder is None else encoder.card.to_dict()
    return cards
