"""`update`: make a library, or bring it up to date with its source.

Order, so that a kill at any moment loses nothing and shows nothing wrong:

1. look at the source; what was read is written down in `work/`
2. encode what is new, and add it to the indexes (each addition is atomic; the database does not know of it yet)
3. write a new database and name it in `visir.json`: from here on the new state counts
4. delete from the indexes what the database no longer knows, remove thumbnails and `work/`

Between any two steps every item of the database is in every index; the next update does what is left.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.display import Displayed, brief, listed
from visir.encoders.own_code import name_model
from visir.errors import ImageError
from visir.files import read_json
from visir.library.check import check_before_change
from visir.library.commit import clean_indexes, commit
from visir.library.database import OWN_FILES, Database
from visir.library.database_update import write_scan
from visir.library.decisions import are_written, removals
from visir.library.default_model import TEXT_MODELS
from visir.library.index_migration import migrate_indexes
from visir.library.layout import (
    CAPTIONS,
    LIBRARY,
    SYSTEMS,
    WORK,
    LibraryCard,
    LibraryError,
    being_updated,
    is_library,
)
from visir.library.model_change import begin, going_on, recover_indexes, remove_left, with_models
from visir.library.models import NO_MODEL, LibraryModels
from visir.library.pictures import judged
from visir.library.plan import are_moved, check_apart, drop_other_indexes, fitted, plan_library
from visir.library.product_source import ShopTable
from visir.library.product_words import words_are_there
from visir.library.scan import Scan, scan
from visir.library.source import PhotoSource, check_source_available
from visir.library.sources import open_source
from visir.library.unavailable import disks_of, keep_unavailable
from visir.library.vectors import Indexes, add_captions, add_pictures
from visir.storage import FolderChange, changing, remove_own_folders, sweep

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

_STALE = "captions.json"
Tell = Callable[[str, int, int], None]
"""What is being done ("reading", "encoding", "writing", "keeping the text tower"), how much is done, of how much."""


@dataclass(frozen=True, repr=False)
class UpdateReport(Displayed):
    """What an update did. All but `items`, `encoded` and `seconds` count files.

    Attributes:
        added: Under a new path.
        changed: Other content under a known path.
        moved: Known content under a new path whose old path is gone.
        deleted: Paths that are gone.
        unchanged: All else: neither content, nor captions, nor fields are other ones.
        broken: From path to the reason and what to do, of everything that cannot be read. It is tried again when it
            changes, or the limits and decoders that refused it do; what may pass (rights, disks) at each update.
        duplicates: Files whose content another file has too.
        items: How many pictures the library now holds.
        encoded: How many of them went through the model now.
        seconds: How long it took.
        unavailable: From folders that cannot be looked into, or whose disk is gone, and from pictures that cannot be
            read for now, to the reason; what the library has of them is kept.
        left_out: The files that are no pictures, or none that can be read here, counted by kind; "" without any.
        rewritten: The items that have other captions or fields now: a new price, for example. None is encoded again.
        remarks: Of a table of products: how it was read, and what was counted in it. Of tars: what was not read.
        unit: What the items are: "pictures" or "products"; of products, rows are counted instead of files.
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
    unavailable: Mapping[str, str] = field(default_factory=dict)
    left_out: str = ""
    rewritten: int = 0
    remarks: tuple[str, ...] = ()
    unit: str = "pictures"

    @property
    def same(self) -> bool:
        """Whether every file is where and what it was."""
        return not (self.added or self.changed or self.moved or self.deleted or self.encoded or self.rewritten)

    def __repr__(self) -> str:
        names = ("added", "changed", "moved", "deleted", "unchanged", "duplicates")
        counts = [f"{getattr(self, name):,} {name}" for name in names if getattr(self, name)]
        return brief(
            self,
            f"{self.items:,} {self.unit}; {'files: ' * (self.unit == 'pictures')}{', '.join(counts) or 'none'}; "
            f"{self.seconds:,.1f} s",
            f"cannot be read: {listed(self.broken, len(self.broken))}" if self.broken else "",
            f"away, and kept: {listed(self.unavailable, len(self.unavailable))}" if self.unavailable else "",
            self.left_out,
            f"other fields: {self.rewritten:,}" if self.rewritten else "",
            *self.remarks[:1],
        )


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
    language: str | None = None,
    synonyms: str | Path | None = None,
    device: str | None = None,
    loaded: dict[str, Encoder] | None = None,
    callback: Tell = lambda stage, done, total: None,
) -> UpdateReport:
    """Make the library `folder` of `source`, or bring it up to date.

    Args:
        source: A folder of photos, or anything `visir.collections.open_collection` takes; None: what it was made of.
        folder: The library's folder.
        model: A name as `visir.encoders.load` takes it; "none" for products that are searched by words alone. Leave it
            out to update with the model that the library has. Another one encodes everything anew, beside the vectors
            that are there; these answer until it is done. A kill loses nothing: the next update goes on.
        head: Likewise, a sparse head, for search by weighted words.
        kind: The kind of index ("hnsw"), or one for each form of vectors. Default: exact, and inverted for words.
        settings: Of the indexes ({"url": "http://qdrant:6333"}); each index takes those that its kind knows. A library
            keeps kind and settings; with others than it has, its indexes are made anew from the vectors they hold.
        name: What to call the library. Default: the folder's name.
        split: One split of the source only.
        images: Where the pictures of the source are.
        verify: Whether to hash every file, also those whose size and time of change are as they were.
        language: Of products: how words are compared, "plural" (English plurals, the default), "none", or a Snowball
            stemmer such as "german".
        synonyms: Of products: a file of rules (`visir.retrieval.text.synonyms.Synonyms`), which the library copies.
        device: Of the models; None for the best there is.
        loaded: Encoders in memory, by name; new ones are added.
        callback: Called with the stage ("reading", "encoding", "writing"), how much of it is done, and of how much.

    Raises:
        LibraryError: Another update is under way; models or source are not those of the library; the source is empty (a
            disk that is not mounted would empty the library).

    Example:
        >>> from PIL import Image
        >>> Path("photos").mkdir()
        >>> Image.new("RGB", (64, 48), "red").save("photos/red.png")
        >>> report = update("photos", "photos.visir", model="pixels")
        >>> report.added, report.encoded
        (1, 1)
        >>> update(None, "photos.visir").same
        True
    """
    folder = Path(folder)
    started = time.perf_counter()
    request = (source, model, head, kind, name, split, images, settings, language, synonyms)
    check_apart(folder, source)
    # Errors in the arguments are raised before anything is made or waited for.
    before = plan_library(folder, *request)
    for given in filter(None, (model, head)):
        if str(given) != NO_MODEL:
            name_model(str(given))
    check_source_available(folder, before.source, before.images)
    opened = open_source(before.source, images=before.images, split=before.split)
    loaded = {} if loaded is None else loaded
    models = LibraryModels(before.model, before.head, device=device, cards=before.cards, loaded=loaded, folder=folder)
    others = LibraryModels(before.model, before.head, device=device, loaded=loaded, folder=folder)
    if not is_library(folder) or (before.model and not LibraryCard.read(folder).model):
        _check_models(models, of_products=isinstance(opened, ShopTable))
        _ = fitted(before, models)
    elif are_moved(folder, before):
        with going_on(folder, named=model is not None or head is not None):
            target = with_models(folder, before, others)
        if target.places != before.places:
            _check_models(others, of_products=isinstance(opened, ShopTable))
    elif before.model in loaded:
        _ = models.dense, models.sparse  # one in memory, whose code may have changed since
    with changing(folder, LIBRARY, busy=being_updated(folder), resume=True) as change:
        sweep(change.folder)
        recover_indexes(change)
        before = plan_library(folder, *request)  # another process may have been at work meanwhile
        if change.manifest.generation == 0 or (before.model and not LibraryCard.of(change.manifest).model):
            before = fitted(before, models)
            drop_other_indexes(change, before, models)
        elif are_moved(folder, before) or before.next:
            before = with_models(folder, before, others)
            models = LibraryModels(
                before.model, before.head, device=device, cards=before.cards, loaded=loaded, folder=folder
            )
            if before.places != LibraryCard.of(change.manifest).places:
                begin(change, before, models)
        before = replace(before, root=str(Path(opened.collection.root).absolute()))
        report = _updated(change, before, opened, models, verify, callback, started)
        remove_left(change)
    models.keep_texts(lambda: callback("keeping the text tower", 0, 1))
    return report


def _check_models(models: LibraryModels, *, of_products: bool) -> None:
    """Raise the errors of the models now, not after an hour of reading."""
    for encoder in (models.dense, models.sparse):
        if encoder is None:
            continue
        if "image" not in encoder.modalities and not of_products:
            raise encoder.cannot("image")
        encoder.check_versioned("a library keeps its vectors")
    if not models.takes_texts and not of_products:
        warnings.warn(
            f"{models.model} takes pictures, no texts: this library can be searched with a picture, not with words. "
            f"Models that take both: {TEXT_MODELS}",
            stacklevel=3,
        )


def _updated(
    change: FolderChange,
    before: LibraryCard,
    source: PhotoSource,
    models: LibraryModels,
    verify: bool,
    callback: Tell,
    started: float,
) -> UpdateReport:
    folder = change.folder
    unfinished = bool(change.works(WORK) or change.own_folders(WORK)) or not words_are_there(
        folder, before, [*change.manifest.files]
    )
    unfinished |= any(system in before.kinds and system not in before.indexes for system in SYSTEMS)
    current = LibraryCard.of(change.manifest) if change.manifest.generation else before
    if change.manifest.generation:
        # Going over to other models nothing of the plan counts before all of it does; moves that were killed end first.
        moved = migrate_indexes(change, before if current.places == before.places else current, callback)
        before = moved if current.places == before.places else replace(before, generation=moved.generation)
    has_database = bool(before.database) and (folder / before.database).is_file()
    database = Database.open(folder / before.database) if has_database else Database.empty()
    try:
        report = _compared(
            change, before, source, models, database, unfinished or not has_database, verify, callback, started
        )
        change.settle()
        return report
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
    callback: Tell,
    started: float,
) -> UpdateReport:
    folder = change.folder
    systems = [system for system in SYSTEMS if system in before.kinds]
    indexes = Indexes.of(change, before)
    known = dict(database.rows("SELECT id, thumbnail FROM items"))
    lost = frozenset(item for system in systems for item in known.keys() - indexes.ids(system))
    unfinished |= any(indexes.ids(system) - known.keys() for system in systems)
    callback("looking", 0, len(source.entries))
    removed = removals(folder, before, database)
    unfinished |= not are_written(folder, before, removed)
    scanned = scan(change, source, database, removed, verify=verify, encode_again=lost, callback=callback)
    if isinstance(source, ShopTable):
        source.check_pictures(any(known.values()))
    unavailable = {**scanned.away, **keep_unavailable(source, database, scanned)}
    counts = _counts(database, scanned)
    same = counts.same and not scanned.first and _as_known(database, source, scanned)
    encoded = 0
    if not same:
        if change.manifest.generation:
            check_before_change(folder)
        broken, encoded = add_pictures(change, source, scanned.first, models, indexes, scanned.contents, callback)
        _set_aside(scanned, broken)
        counts = _counts(database, scanned)
    items = set(scanned.items.values())
    rewritten: set[str] = set()
    _check_not_emptied(before, scanned, known.keys(), items)
    card = replace(before, cards=models.cards_of(before))
    if card.texts is None:
        card = replace(card, texts=models.takes_texts)
    if not same or not card.database or unfinished:
        captions = {id: (scanned.items[path], text) for id, text, path in source.captions if path in scanned.items}
        if CAPTIONS in card.kinds:
            _add_captions(change, source, database, captions, models, indexes, callback)
        callback("writing", 0, 1)
        gone = {item: digest for item, digest in known.items() if item not in items}

        def write(draft: Database) -> None:
            rewritten.update(write_scan(draft, source, scanned, items, captions))

        card = commit(change, card, write, removed=gone)
        clean_indexes(change, card, indexes)
        for work in {WORK, *change.works(WORK)}:
            remove_own_folders(change, work)
    elif card.to_content() != change.manifest.content:
        change.commit(card.to_content())
    else:
        change.abandon()
    same_files = dict(database.rows(f"SELECT path, item FROM files WHERE {OWN_FILES}"))
    with_other_fields = sum(item in rewritten and same_files.get(path) == item for path, item in scanned.items.items())
    return replace(
        counts,
        unchanged=counts.unchanged - with_other_fields,
        items=len(items),
        encoded=encoded,
        seconds=time.perf_counter() - started,
        unavailable=unavailable,
        left_out=source.left_out,
        rewritten=len(rewritten),
        remarks=source.remarks,
        unit=card.unit,
    )


def _add_captions(
    change: FolderChange,
    source: PhotoSource,
    database: Database,
    captions: Mapping[str, tuple[str, str]],
    models: LibraryModels,
    indexes: Indexes,
    callback: Tell,
) -> None:
    """Bring the index of captions up to date with the source, ahead of the database."""
    # A caption whose text changed is another document under the same id. Which those are is written down first: killed
    # between index and database, and the old text restored meanwhile, the index would keep the vector of the new one.
    before = dict(database.rows("SELECT id, text FROM captions"))
    work = change.work_folder(WORK).name
    stale = {caption for caption, (_, text) in captions.items() if caption in before and before[caption] != text}
    for path in change.folder.glob(f"{WORK}*/{_STALE}"):  # of whatever update: to encode one again is never wrong
        with contextlib.suppress(OSError, ValueError, TypeError):
            stale |= set(read_json(path)) & captions.keys()
    change.write_json(f"{work}/{_STALE}", sorted(stale), counts=False)
    indexes.keep(CAPTIONS, indexes.ids(CAPTIONS) - stale)
    missing = captions.keys() - indexes.ids(CAPTIONS)
    if missing:
        callback("captions", 0, len(missing))
        add_captions(change, source, missing, models, indexes)


def _check_not_emptied(before: LibraryCard, scanned: Scan, known: Collection[str], items: Collection[str]) -> None:
    """An update that leaves nothing is refused: a library does not empty itself because a disk was not mounted."""
    if items:
        return
    reasons = "; ".join(reason for _, reason in list(scanned.broken.values())[:3])
    kept_items = f"; the library keeps its {len(known):,}" if known else ""
    raise LibraryError(
        f"{before.source}: none of its pictures can be used{kept_items}: {reasons or 'there is none'}",
        hint="is the disk mounted, the path right? A library that is to go: delete its folder",
    )


def _set_aside(scanned: Scan, broken: Mapping[str, ImageError]) -> None:
    """Take items that could not be encoded out of what was found."""
    for path in [path for path, item in scanned.items.items() if item in broken]:
        fault = broken[scanned.items[path]]
        scanned.broken[path] = judged(scanned.entries[path].mark, fault), fault.reason
        del scanned.items[path]


def _counts(database: Database, scanned: Scan) -> UpdateReport:
    old = dict(database.rows(f"SELECT path, item FROM files WHERE {OWN_FILES}"))
    missing: dict[str, int] = defaultdict(int)
    for path, item in old.items():
        if path not in scanned.items:
            missing[item] += 1
    total_gone = sum(missing.values())
    added = changed = moved = 0
    for path, item in scanned.items.items():
        if path in old:
            changed += old[path] != item
        elif missing.get(item, 0):
            moved += 1
            missing[item] -= 1
        else:
            added += 1
    unchanged = len(scanned.items) - added - changed - moved
    reasons = {path: reason for path, (_, reason) in sorted(scanned.broken.items())}
    duplicates = len(scanned.items) - len(set(scanned.items.values()))
    return UpdateReport(added, changed, moved, total_gone - moved, unchanged, reasons, duplicates, 0, 0, 0.0)


def _as_known(database: Database, source: PhotoSource, scanned: Scan) -> bool:
    """Whether captions, fields and broken files are as the database has them."""
    recorded = database.value("SELECT value FROM meta WHERE name = 'text_fingerprint'")
    broken = {path: (mark, reason) for path, mark, reason in database.rows("SELECT path, mark, reason FROM broken")}
    marks = dict(database.rows(f"SELECT path, mark FROM files WHERE {OWN_FILES}"))
    return (
        recorded == source.text_fingerprint
        and database.value("SELECT value FROM meta WHERE name = 'disks'") in (None, disks_of(source, database, scanned))
        and not scanned.removed
        and broken == scanned.broken
        and marks == {path: entry.mark for path, entry in scanned.entries.items() if path in scanned.items}
    )
