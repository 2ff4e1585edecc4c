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
import errno
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import orjson

from visir.collections.readers.locate import LEADS_NOWHERE
from visir.display import Displayed, brief, listed
from visir.encoders.devices import name_model
from visir.files import read_json
from visir.library.check import check_before_change, load_index
from visir.library.database import OWN_FILES, Database
from visir.library.layout import (
    CAPTIONS,
    INDEXES,
    LIBRARY,
    SYSTEMS,
    WORK,
    LibraryCard,
    LibraryError,
    being_updated,
    is_library,
    named_settings,
    thumbnail_name,
)
from visir.library.model_change import begin, going_on, recover_indexes, remove_left, with_models
from visir.library.models import NO_MODEL, TEXT_MODELS, LibraryModels
from visir.library.picture_fields import are_other, look_beside, remarks_of, write_told
from visir.library.pictures import Facts, judged, thumbnails_as_written
from visir.library.plan import (
    Scan,
    are_moved,
    are_written,
    check_apart,
    drop_other_indexes,
    fitted,
    is_as_planned,
    plan_library,
    removals,
    scan,
    thumbnails_of_journal,
    write_decisions,
)
from visir.library.product_source import ProductEntry, ShopTable, open_source
from visir.library.product_words import words_are_there, write_words
from visir.library.source import PhotoSource, SourceEntry, check_source_available
from visir.library.vectors import Indexes, add_captions, add_pictures
from visir.retrieval.index import INDEX
from visir.retrieval.kinds import KINDS, make
from visir.storage import FolderChange, Manifest, changing, is_made_by_visir, remove_own_folders, sweep

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


# Pictures that are away, not gone: in a folder that cannot be looked into, or on a disk that is not there.

_GONE = (errno.ENOENT, errno.ENOTDIR)


def keep_unavailable(source: PhotoSource, database: Database, scanned: Scan) -> dict[str, str]:
    """Leave pictures that are away, or whose folders are, as they were known; those folders and pictures, and why."""
    if isinstance(source, ShopTable):  # a product is gone when the table no longer has it
        return {}
    root, disks = Path(source.collection.root), _disks(database)
    reasons: dict[str, str] = {}
    columns = "path, item, mark, name, place, archive, category"
    for path, item, mark, name, place, archive, category in database.rows(f"SELECT {columns} FROM files"):
        if path in scanned.items or path in scanned.broken or place is None or archive is not None:
            continue
        parent = str(PurePosixPath(place).parent)
        if parent not in reasons:
            reasons[parent] = _reason(root, parent, disks)
        if not reasons[parent] and _leads_nowhere(root / place):
            reasons[place] = LEADS_NOWHERE
        if reasons[parent] or reasons.get(place):
            scanned.items[path] = item
            scanned.entries[path] = SourceEntry(-1, path, mark, name, place, archive, category)
    return {where: reason for where, reason in sorted(reasons.items()) if reason}


def disks_of(source: PhotoSource, database: Database, scanned: Scan) -> str:
    """The folders of the pictures that lie on other disks than the place, or did before they were away; as JSON."""
    root = Path(source.collection.root)
    before = _disks(database)
    places = {entry.place for path, entry in scanned.entries.items() if path in scanned.items and entry.archive is None}
    parents = {str(PurePosixPath(place).parent) for place in places if place is not None}
    folders = {str(folder) for parent in parents for folder in _upwards(parent)} - {"."}
    home = _disk(root)
    other = {
        folder
        for folder in folders
        if _disk(root / folder) not in (None, home) or (folder in before and _is_left(root / folder))
    }
    return orjson.dumps(sorted(other)).decode()


def _disks(database: Database) -> frozenset[str]:
    return frozenset(orjson.loads(database.value("SELECT value FROM meta WHERE name = 'disks'") or "[]"))


def _disk(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _upwards(folder: str) -> list[PurePosixPath]:
    return [PurePosixPath(folder), *PurePosixPath(folder).parents]


def _is_left(folder: Path) -> bool:
    """Whether this is what an unmounted disk leaves: an empty folder on the disk of the folder above it."""
    try:
        return _disk(folder) == _disk(folder.parent) and not any(os.scandir(folder))
    except OSError:
        return False


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _reason(root: Path, parent: str, disks: frozenset[str]) -> str:
    """Why a folder is away; empty where it is there, or gone."""
    try:
        next(os.scandir(root / parent), None)
    except OSError as fault:
        if fault.errno not in _GONE:
            return fault.strerror or str(fault)
    for above in _upwards(parent):
        folder = root / above
        if _leads_nowhere(folder):
            return LEADS_NOWHERE
        if str(above) in disks and _is_left(folder):
            return "its disk is not there"
    return ""


# What an update found, written into the database: only what differs, in one transaction.

_FACTS = tuple(Facts.__dataclass_fields__)


def write_scan(
    database: Database,
    source: PhotoSource,
    scanned: Scan,
    items: Collection[str],
    captions: Mapping[str, tuple[str, str]],
) -> set[str]:
    """Make the database say what was found: `items`, their files, `captions` (id to item and text), fields, broken."""
    # Returns the items that were there before and have other captions or fields now.
    disks = disks_of(source, database, scanned)
    with database.writing():
        known = {item for (item,) in database.rows("SELECT id FROM items")}
        category = _files(database, scanned)
        _items(database, scanned, items, category)
        before = {caption: (item, text) for caption, item, text in database.rows("SELECT id, item, text FROM captions")}
        database.run_many(
            "DELETE FROM captions WHERE id = ?", [(caption,) for caption in before.keys() - captions.keys()]
        )
        other = [
            (caption, *item_and_text)
            for caption, item_and_text in captions.items()
            if before.get(caption) != item_and_text
        ]
        database.run_many("INSERT OR REPLACE INTO captions VALUES (?, ?, ?)", other)
        rewritten = {item for _, item, _ in other} | _fields(database, source, scanned, items)
        database.run("DELETE FROM broken")
        database.run_many(
            "INSERT INTO broken VALUES (?, ?, ?)",
            [(path, *mark_and_reason) for path, mark_and_reason in scanned.broken.items()],
        )
        database.run_many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", scanned.removed)
        database.run("INSERT OR REPLACE INTO meta VALUES ('text_fingerprint', ?)", (source.text_fingerprint,))
        database.run("INSERT OR REPLACE INTO meta VALUES ('disks', ?)", (disks,))
    return rewritten & known & set(items)


def _files(database: Database, scanned: Scan) -> dict[str, str]:
    """Write the files; from item to the category of its first file."""
    before = {
        row[0]: row for row in database.rows("SELECT path, item, mark, name, place, archive, category FROM files")
    }
    now: dict[str, tuple[Any, ...]] = {}
    category: dict[str, str] = {}
    for path in sorted(scanned.items):
        entry, item = scanned.entries[path], scanned.items[path]
        now[path] = (path, item, entry.mark, entry.name, entry.place, entry.archive, entry.category)
        for number, picture in enumerate(entry.pictures if isinstance(entry, ProductEntry) else (), start=1):
            own = f"{path}#{number}"
            now[own] = (own, item, picture.mark, picture.name, picture.place, picture.archive, "")
        category.setdefault(item, entry.category)
    database.run_many("DELETE FROM files WHERE path = ?", [(path,) for path in before.keys() - now.keys()])
    changed = [row for path, row in now.items() if before.get(path) != row]
    database.run_many("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", changed)
    return category


def _items(database: Database, scanned: Scan, items: Collection[str], category: Mapping[str, str]) -> None:
    before = dict(database.rows("SELECT id, category FROM items"))
    # For people to read: nothing depends on the clock, which may have been set back.
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    database.run_many("DELETE FROM items WHERE id = ?", [(item,) for item in before.keys() - set(items)])
    rows: list[tuple[Any, ...]] = [
        (item, category[item], now, *(getattr(scanned.facts[item], name) for name in _FACTS))
        for item in sorted(set(items) - before.keys())
    ]
    marks = ", ".join("?" * (3 + len(_FACTS)))
    database.run_many(f"INSERT INTO items(id, category, added, {', '.join(_FACTS)}) VALUES ({marks})", rows)
    moved = [(category[item], item) for item in items if item in before and before[item] != category[item]]
    database.run_many("UPDATE items SET category = ? WHERE id = ?", moved)
    healed = [(facts.thumbnail, item) for item, facts in scanned.facts.items() if item in before]
    database.run_many("UPDATE items SET thumbnail = ? WHERE id = ?", healed)


def _fields(database: Database, source: PhotoSource, scanned: Scan, items: Collection[str]) -> set[str]:
    """Write the fields, the source's and the pictures' own; the items that have others now."""
    before: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    after: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    for item, name, value in database.rows("SELECT item, name, value FROM fields"):
        before[item].add((name, value))
    for path, name, value in source.fields:
        if path in scanned.items:
            after[scanned.items[path]].add((name, value))
    for item, answers in write_told(database, scanned, items).items():
        of_source = {name for name, _ in after[item]}  # what the source says under a name is what counts
        after[item] |= {(name, value) for name, values in answers.items() if name not in of_source for value in values}
    changed = sorted(item for item in before.keys() | after.keys() if before.get(item) != after.get(item))
    database.run_many("DELETE FROM fields WHERE item = ?", [(item,) for item in changed])
    rows = [
        (item, *pair)
        for item in changed
        for pair in sorted(after.get(item, ()), key=lambda pair: tuple(map(str, pair)))
    ]
    database.run_many("INSERT INTO fields VALUES (?, ?, ?)", rows)
    return set(changed)


# Committing a change: a new database, then indexes without what it no longer holds. Every picture of the database is in
# every index at all times, so a kill at any moment shows nothing wrong.


def commit(
    change: FolderChange, card: LibraryCard, write: Callable[[Database], None], *, removed: Mapping[str, str | None]
) -> LibraryCard:
    """Write a new database, from what the last one holds, and make it count; the new card."""
    generation = card.generation + 1
    before = change.folder / card.database
    number = change.free_number(generation, "items-{}.sqlite", "words-{}", "decisions-{}.json")
    path = change.file(f"items-{number}.sqlite", fresh=True)
    draft = Database.draft(path, before if card.database and before.is_file() else None)
    try:
        write(draft)
        card = write_words(change, card, draft, f"words-{number}")
        card = replace(card, decisions=write_decisions(change, card, draft, f"decisions-{number}.json"))
        items = {item for (item,) in draft.rows("SELECT id FROM items")}
    finally:
        draft.close()
    indexes = tuple(name for name in INDEXES if name in card.kinds and (change.folder / card.place(name)).is_dir())
    card = replace(card, generation=generation, database=path.name, indexes=indexes)
    # What a killed update wrote, and its journal, end with this commit, whichever verb it is of.
    written = set(map(thumbnail_name, thumbnails_of_journal(change) - items))
    change.unclaim(*map(thumbnail_name, items))  # a killed removal of an item that is back by now
    removing = [*thumbnails_as_written(change.folder, removed), *written]
    change.keep_only(path.name, *filter(None, [card.words.get("place"), card.decisions]))
    change.commit(card.to_content(), removing=removing)
    return card


def clean_indexes(change: FolderChange, card: LibraryCard, indexes: Indexes | None = None) -> bool:
    """Delete from the indexes what the database does not know (any more); whether there was anything."""
    # It is committed too, so that a service takes the indexes as they are now.
    indexes = indexes or Indexes.of(change, card)
    database = Database.open(change.folder / card.database)
    try:
        known = {id for (id,) in database.rows("SELECT id FROM items")}
        captions = {id for (id,) in database.rows("SELECT id FROM captions")}
    finally:
        database.close()
    deleted = sum(indexes.keep(name, captions if name == CAPTIONS else known) for name in card.indexes)
    if deleted:
        change.commit(card.to_content())
    return deleted > 0


# Indexes of a library that are to be of another kind, or in another place: made anew from the vectors they hold.


def migrate_indexes(change: FolderChange, plan: LibraryCard, callback: Callable[[str, int, int], None]) -> LibraryCard:
    """Bring the indexes to where and what `plan` says, and say in the manifest that they are; the new card."""
    # Nothing is encoded. The library can be searched all the while: the new index is complete before it takes the place
    # of the old one. A kill leaves one or the other, and the next update goes on from there; only between two renames
    # there is neither, and it is the next update that does the second. A collection that was left on a server stays
    # there.
    folder = change.folder
    systems = [name for name in INDEXES if name in plan.kinds]
    for system in systems:
        for work in change.works(WORK):
            new, old = _places(folder / work, system)
            if not (folder / plan.place(system)).exists() and is_made_by_visir(new, INDEX.name):
                new.rename(folder / plan.place(system))
            remove_own_folders(change, _name(change, old))
    wrong = [name for name in systems if (folder / plan.place(name)).is_dir() and not is_as_planned(folder, name, plan)]
    if not wrong:
        return plan
    check_before_change(folder)
    for position, system in enumerate(wrong):
        callback("moving", position, len(wrong))
        place = folder / plan.place(system)
        strangers = Manifest.read(place, INDEX).strangers(place)
        if strangers:
            raise LibraryError(
                f"{place}: holds files that visir did not write ({', '.join(strangers[:3])}).",
                hint="move them away, and run the same again",
            )
        index, (new, old) = load_index(place), _places(change.work_folder(WORK), system)
        if new.exists() and not _is_complete(new, system, plan, index.ids.to_pylist()):
            remove_own_folders(change, _name(change, new))
        if not new.exists():
            kind = KINDS.get(plan.kinds[system])
            settings = named_settings(folder, system, plan.kinds[system], plan.settings.get(system, {}))
            make(kind, index.documents(), new, **settings)
        change.commit(plan.to_content())  # from here on the library is to have the new kind
        old.parent.mkdir(exist_ok=True)
        place.rename(old)
        new.rename(place)
        remove_own_folders(change, _name(change, old))
    callback("moving", len(wrong), len(wrong))
    plan = replace(plan, generation=plan.generation + 1)
    change.commit(plan.to_content())
    return plan


def _name(change: FolderChange, path: Path) -> str:
    return path.relative_to(change.folder).as_posix()


def _places(work: Path, system: str) -> tuple[Path, Path]:
    """Where the new index is made, and where the old one waits for its removal."""
    return work / f"{system}-moved", work / f"{system}-old"


def _is_complete(new: Path, system: str, plan: LibraryCard, ids: list[str]) -> bool:
    """Whether a killed move has come so far that its new index only needs to take its place."""
    if not is_made_by_visir(new, INDEX.name):
        return False
    as_one = replace(plan, kinds={new.name: plan.kinds[system]}, settings={new.name: plan.settings.get(system, {})})
    return is_as_planned(new.parent, new.name, as_one) and load_index(new).ids.to_pylist() == ids


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
        remarks: Of a table of products: how it was read, and what was counted in it. Of tars: what was not read. Of
            photos: metadata that is damaged, places without a name.
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
        model: A name as `visir.encoders.load` takes it; "none" for a library that is searched by words alone. Leave
            it out to update with the model that the library has. Another one encodes everything anew, beside the
            vectors that are there; these answer until it is done. A kill loses nothing: the next update goes on.
        head: Likewise, a sparse head, for search by weighted words.
        kind: The kind of index ("hnsw"), or one for each form of vectors. Default: exact, and inverted for words.
        settings: Of the indexes ({"url": "http://qdrant:6333"}); each index takes those that its kind knows. A library
            keeps kind and settings; with others than it has, its indexes are made anew from the vectors they hold.
        name: A name: what the library is called. Default: the folder's name.
        split: One split of the source only.
        images: Where the pictures of the source are.
        verify: Read every file, also those whose size and time are as they were.
        language: How words are compared: plural (English plurals; the default), none, german, french, …
        synonyms: A file of synonyms: lines a, b, c and a => b; the library copies it. See
            `visir.retrieval.text.words.Synonyms`.
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
            f"{models.model} takes pictures, no texts: words find names, places and captions of this library, not what "
            f"its pictures show. Models that take both: {TEXT_MODELS}",
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
    unfinished |= not has_database
    database = Database.open(folder / before.database) if has_database else Database.empty()
    with contextlib.closing(database):
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
        look_beside(source, database, scanned)
        other_fields = are_other(database, scanned)
        counts = _counts(database, scanned)
        same = counts.same and not scanned.first and _as_known(database, source, scanned)
        encoded = 0
        if (not same or other_fields) and change.manifest.generation:
            check_before_change(folder)
        if not same:
            broken, encoded = add_pictures(change, source, scanned.first, models, indexes, scanned.contents, callback)
            for path in [path for path, item in scanned.items.items() if item in broken]:  # it could not be encoded
                fault = broken[scanned.items[path]]
                scanned.broken[path] = judged(scanned.entries[path].mark, fault), fault.reason
                del scanned.items[path]
            counts = _counts(database, scanned)
        items = set(scanned.items.values())
        rewritten: set[str] = set()
        remarks = list(source.remarks)
        _check_not_emptied(before, scanned, known.keys(), items)
        card = replace(before, cards=models.cards_of(before))
        if card.texts is None:
            card = replace(card, texts=models.takes_texts)
        if not same or not card.database or unfinished or other_fields:
            captions = {id: (scanned.items[path], text) for id, text, path in source.captions if path in scanned.items}
            if CAPTIONS in card.kinds:
                _add_captions(change, source, database, captions, models, indexes, callback)
            callback("writing", 0, 1)
            gone = {item: digest for item, digest in known.items() if item not in items}

            def write(draft: Database) -> None:
                rewritten.update(write_scan(draft, source, scanned, items, captions))
                remarks.extend(remarks_of(draft))

            card = commit(change, card, write, removed=gone)
            clean_indexes(change, card, indexes)
            for work in {WORK, *change.works(WORK)}:
                remove_own_folders(change, work)
        elif card.to_content() != change.manifest.content:
            change.commit(card.to_content())
        else:
            change.abandon()
        if not card.model and card.unit == "pictures":
            remarks.append("without a model: searched by words (keywords, titles, people, places, names of files)")
        same_files = dict(database.rows(f"SELECT path, item FROM files WHERE {OWN_FILES}"))
        with_other_fields = sum(
            item in rewritten and same_files.get(path) == item for path, item in scanned.items.items()
        )
        change.settle()
        return replace(
            counts,
            unchanged=counts.unchanged - with_other_fields,
            items=len(items),
            encoded=encoded,
            seconds=time.perf_counter() - started,
            unavailable=unavailable,
            left_out=source.left_out,
            rewritten=len(rewritten),
            remarks=tuple(remarks),
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
