"""The plan of an update: models, kinds of index and source, settled before anything is read."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from visir.collections.images import ImageReader, content_id, decoders
from visir.encoders.store import is_same, without_change
from visir.errors import ConfigurationError, ImageError, VisirError, nearest, raise_faults
from visir.files import json_bytes
from visir.library.check import PICTURE, load_index
from visir.library.database import OWN_FILES, Database
from visir.library.extractors import Told, extractors, told_of
from visir.library.layout import (
    CAPTIONS,
    COPY_AGAIN,
    INDEXES,
    THUMBNAILS,
    WORK,
    LibraryCard,
    LibraryError,
    check_library_name,
    is_library,
)
from visir.library.models import LibraryModels, names_of, with_moved_models
from visir.library.pictures import (
    Facts,
    brings_fields,
    is_sound,
    judged,
    look_at,
    packed,
    read,
    told_of_entry,
    unpacked,
    write_thumbnail,
)
from visir.library.product_source import ProductEntry, ShopTable, is_table_of_products, see
from visir.library.product_words import planned_words
from visir.library.source import PhotoSource, SourceEntry, absolute, is_empty, place_of
from visir.progress import Progress
from visir.retrieval.index import INDEX, read_index
from visir.storage import FolderChange, is_made_by_visir, remove_own_folders
from visir.storage.disk import check_version
from visir.threads import usable_cores

if TYPE_CHECKING:
    from visir.records import VectorForm
    from visir.retrieval.settings import Kind


# What the user decided about a library, in a file beside the database, which can be made anew from the photos.

FORMAT = 1
Removal = tuple[str, str, str]
"""Item, path, mark."""


def removals(folder: Path, card: LibraryCard, database: Database) -> set[Removal]:
    """What was taken out for good. Raises `LibraryError` for decisions of a newer visir."""
    return _in_file(folder, card) | set(database.rows("SELECT item, path, mark FROM removed"))


def write_decisions(change: FolderChange, card: LibraryCard, draft: Database, name: str) -> str:
    """Bring the file and the new database up to date with each other; the name of the file that is to count."""
    decided = removals(change.folder, card, draft)
    draft.run_many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", sorted(decided))
    if not decided or decided == _in_file(change.folder, card):
        return card.decisions if decided else ""
    change.file(name, fresh=True).write_bytes(json_bytes({"visir_decisions": FORMAT, "removed": sorted(decided)}))
    return name


def are_written(folder: Path, card: LibraryCard, decided: set[Removal]) -> bool:
    """Whether the file says all that was decided: a library of an older visir has none, and a file can be lost."""
    return decided == _in_file(folder, card)


def _in_file(folder: Path, card: LibraryCard) -> set[Removal]:
    """What the file says; nothing where it is missing or damaged, which `check` reports: the database has the same."""
    path = folder / (card.decisions or "-")
    try:
        values = orjson.loads(path.read_bytes())
        version = values["visir_decisions"]
        check_version(version, FORMAT, path, what="decisions", remedy=COPY_AGAIN, error=LibraryError)
        rows = [tuple(row) for row in values["removed"]]
    except VisirError:
        raise
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {row for row in rows if len(row) == 3 and all(isinstance(value, str) for value in row)}


# What has changed: the source as it is now against the library as it was left.

_JOURNAL = "read.jsonl"
_AHEAD = 64


@dataclass
class Scan:
    """What a source holds, file by file."""

    items: dict[str, str] = field(default_factory=dict)  # from path to item id, of everything that can be read
    entries: dict[str, SourceEntry] = field(default_factory=dict)  # from path to entry, of the same
    # From item id to facts, of contents that are new to the library.
    facts: dict[str, Facts] = field(default_factory=dict)
    first: dict[str, SourceEntry] = field(default_factory=dict)  # from item id to the entry that it is encoded from
    broken: dict[str, tuple[str, str]] = field(default_factory=dict)  # from path to (mark and judge, reason)
    # From path to reason, of what the library has and what cannot be read for now: it is kept as it was.
    away: dict[str, str] = field(default_factory=dict)
    # (item, path, mark) of what was taken out of the library.
    removed: list[tuple[str, str, str]] = field(default_factory=list)
    answers: dict[tuple[str, str], Told] = field(default_factory=dict)  # from (item, extractor) to what it told now
    untold: list[tuple[str, str]] = field(default_factory=list)  # the same, of files beside pictures that went
    read: int = 0  # how many files were read

    @property
    def contents(self) -> dict[str, str]:
        """From image id to the hash of its bytes."""
        contents: dict[str, str] = {}
        for path, entry in self.entries.items():
            if isinstance(entry, ProductEntry):
                contents |= {picture.path: picture.mark.removeprefix(PICTURE) for picture in entry.pictures}
            else:
                contents[path] = self.items[path]
        return contents


def scan(
    change: FolderChange,
    source: PhotoSource,
    database: Database,
    removals: Collection[Removal],
    *,
    verify: bool = False,
    encode_again: frozenset[str] = frozenset(),
    callback: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Scan:
    """Look at everything in the source."""
    scanned, folder = Scan(), change.folder
    known = {path: (mark, item) for path, mark, item in database.rows("SELECT path, mark, item FROM files")}
    broken = {path: (mark, reason) for path, mark, reason in database.rows("SELECT path, mark, reason FROM broken")}
    of_products = _pictures_of_products(database)
    removed = {(path, mark): item for item, path, mark in removals}
    taken_out = set(removed.values())
    # A thumbnail that has gone was deleted, or not copied: its item is read again.
    shown = database.rows("SELECT id FROM items WHERE thumbnail IS NOT NULL")
    existing = {path.stem for path in (folder / THUMBNAILS).glob("*/*.webp")} if shown else set()
    again = {item for (item,) in shown} - existing - taken_out
    have = {item for (item,) in database.rows("SELECT id FROM items")} - again | taken_out
    already = _already(change)
    judge = decoders()
    complete = _with_fields(database)
    to_read: list[SourceEntry] = []
    fields_of: dict[str, SourceEntry] = {}  # from items whose fields alone are to be read to an entry of each

    def lacks_fields(entry: SourceEntry, item: str) -> bool:
        return item not in complete and brings_fields(entry) and not isinstance(source, ShopTable)

    for entry in source.entries:
        mark, item = known.get(entry.path, ("", ""))
        if not verify and ((entry.path, entry.mark) in removed or (entry.path, without_change(entry.mark)) in removed):
            continue
        if is_same(mark, entry.mark) and not verify and item not in again and of_products.are_settled(mark, judge):
            _note(scanned, of_products.entry(entry), item)
            scanned.broken |= of_products.broken.get(mark, {})
            if item in encode_again:
                scanned.first.setdefault(item, entry)
            if lacks_fields(entry, item):
                answers = already[entry.path, entry.mark][3] if (entry.path, entry.mark) in already else {}
                if _is_complete(answers):
                    _hold(scanned, item, answers)
                    complete.add(item)
                else:
                    fields_of.setdefault(item, entry)
        elif broken.get(entry.path, ("",))[0] == f"{entry.mark} {judge}" and not verify:
            scanned.broken[entry.path] = broken[entry.path]
        elif (record := already.get((entry.path, entry.mark))) and (record[1] or record[0] in have) and not verify:
            # A killed update read all that is needed: it took no facts of what its database had, which may be gone.
            item, facts, contents, answers = record
            if isinstance(entry, ProductEntry):
                marks = dict(zip(map(int, contents[::2]), contents[1::2], strict=True))
                there = [picture for picture in entry.pictures if picture.row in marks]
                entry = replace(entry, pictures=tuple(replace(each, mark=marks[each.row]) for each in there))
            _take(scanned, entry, item, None if item in have else facts, taken_out, encode_again)
            if _is_complete(answers):
                _hold(scanned, item, answers)
                complete.add(item)
            elif lacks_fields(entry, item) and item not in taken_out:
                fields_of.setdefault(item, entry)
        else:
            to_read.append(entry)
    only_fields = {entry.path: item for item, entry in fields_of.items() if item not in complete}
    to_read += [entry for item, entry in fields_of.items() if item not in complete]
    if not to_read:
        return scanned
    with (
        change.file(f"{change.work_folder(WORK).name}/{_JOURNAL}", counts=False).open("ab") as journal,
        closing(_read(source, to_read, have, complete, only_fields, callback)) as reading,
    ):
        for seen in reading:
            scanned.read += 1
            if seen.answers:
                _hold(scanned, seen.item, seen.answers)
            if seen.entry.path in only_fields:
                if seen.answers:  # what cannot be read now is looked at again by the next update
                    journal.write(packed(seen.entry, seen.item, None, answers=seen.answers))
                continue
            if seen.fault is not None:
                mark, item = known.get(seen.entry.path, ("", ""))
                if item and not seen.fault.lasting and item not in encode_again:
                    _note(scanned, replace(seen.entry, mark=mark), item)
                    scanned.away[seen.entry.path] = seen.fault.reason
                else:
                    scanned.broken[seen.entry.path] = judged(seen.entry.mark, seen.fault), seen.fault.reason
                continue
            # First: it says that the thumbnail is ours.
            pictures = seen.entry.pictures if isinstance(seen.entry, ProductEntry) else ()
            contents = [text for picture in pictures for text in (str(picture.row), picture.mark)]
            journal.write(packed(seen.entry, seen.item, seen.facts, seen.broken, contents, seen.answers))
            journal.flush()
            if seen.thumbnail is not None:
                write_thumbnail(folder, seen.item, seen.thumbnail)
            for name, fault in seen.broken.items():
                scanned.broken[name] = judged(seen.entry.mark, fault), fault.reason
            _take(scanned, seen.entry, seen.item, seen.facts, taken_out, encode_again)
    return scanned


def _with_fields(database: Database) -> set[str]:
    """The items of which every extractor has told what there is, at its present version."""
    if not database.has_extracted:
        return set()
    rows = database.rows
    sets = [
        {item for (item,) in rows("SELECT item FROM extracted WHERE part = ? AND mark = ?", (name, each.version))}
        for name, each in extractors().items()
    ]
    return set.intersection(*sets)


def _is_complete(answers: Mapping[str, Told]) -> bool:
    return all(name in answers and answers[name].mark == each.version for name, each in extractors().items())


def _hold(scanned: Scan, item: str, answers: Mapping[str, Told]) -> None:
    scanned.answers |= {(item, name): each for name, each in answers.items()}


@dataclass(frozen=True)
class _ProductPictures:
    """What the library knows of the pictures of products."""

    # From the place of a picture (product, place, archive) to its mark in the table of files.
    marks: dict[tuple[str, str | None, str | None], str]
    # From the mark of a product to the pictures of it that cannot be read.
    broken: dict[str, dict[str, tuple[str, str]]]

    def entry(self, entry: SourceEntry) -> SourceEntry:
        """A product that has not changed, with the pictures that could be read."""
        if not isinstance(entry, ProductEntry):
            return entry
        marks = [self.marks.get((entry.path, picture.place, picture.archive)) for picture in entry.pictures]
        pictures = zip(entry.pictures, marks, strict=True)
        return replace(entry, pictures=tuple(replace(picture, mark=mark) for picture, mark in pictures if mark))

    def are_settled(self, mark: str, judge: str) -> bool:
        """Whether what cannot be read of a product with this mark would be refused again."""
        return all(verdict == f"{mark} {judge}" for verdict, _ in self.broken.get(mark, {}).values())


def _pictures_of_products(database: Database) -> _ProductPictures:
    rows = database.rows(f"SELECT path, place, archive, mark FROM files WHERE NOT {OWN_FILES}")
    marks = {(path.rpartition("#")[0], place, archive): mark for path, place, archive, mark in rows}
    broken: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    products = {mark for (mark,) in database.rows("SELECT mark FROM files")}
    for path, verdict, reason in database.rows("SELECT path, mark, reason FROM broken"):
        mark = verdict.rpartition(" ")[0] or verdict  # earlier versions wrote no judge
        if mark in products:
            broken[mark][path] = (verdict, reason)
    return _ProductPictures(marks, broken)


def thumbnails_of_journal(change: FolderChange) -> set[str]:
    """The items whose thumbnails an unfinished update has written, or was about to."""
    return {line["item"] for line in _lines(change) if line["facts"] is not None}


def _take(
    scanned: Scan, entry: SourceEntry, item: str, facts: Facts | None, taken_out: set[str], encode_again: frozenset[str]
) -> None:
    """What reading an entry gave: `facts` where the library has not got its content."""
    if item in taken_out:
        scanned.removed.append((item, entry.path, entry.mark))
        return
    _note(scanned, entry, item)
    if facts is not None:
        scanned.facts.setdefault(item, facts)
    if facts is not None or item in encode_again:
        scanned.first.setdefault(item, entry)


def _note(scanned: Scan, entry: SourceEntry, item: str) -> None:
    scanned.items[entry.path], scanned.entries[entry.path] = item, entry


@dataclass(frozen=True)
class _Seen:
    """An entry that was read: its id, the facts of a new content and its thumbnail; or why it cannot be read."""

    entry: SourceEntry
    item: str = ""
    facts: Facts | None = None
    thumbnail: bytes | None = None
    fault: ImageError | None = None
    broken: dict[str, ImageError] = field(default_factory=dict)
    answers: dict[str, Told] = field(default_factory=dict)


def _read(
    source: PhotoSource,
    entries: list[SourceEntry],
    have: set[str],
    complete: set[str],
    only_fields: Mapping[str, str],
    callback: Callable[[str, int, int], None],
) -> Generator[_Seen, None, None]:
    """Each entry as it was read; of the paths in `only_fields` (from path to item) the fields alone."""
    # have: the items that the library knows; complete: those of them whose fields it has too.
    # In order, threads ahead.
    reader = ImageReader(source.collection)

    def read_one(entry: SourceEntry) -> _Seen:
        try:
            if isinstance(entry, ProductEntry):
                product = see(reader, entry, have)
                return _Seen(product.entry, product.item, product.facts, product.thumbnail, None, product.broken)
            data = read(reader, entry)
            if entry.path in only_fields:
                return _Seen(entry, only_fields[entry.path], answers=told_of_entry(reader, entry, data))
            item = content_id(data)
            if item in have:
                fields_missing = item not in complete and brings_fields(entry)
                return _Seen(entry, item, answers=told_of_entry(reader, entry, data) if fields_missing else {})
            answers: dict[str, Told] = {}
            facts, small = look_at(reader, entry, data, answers)
        except ImageError as fault:
            return _Seen(entry, fault=fault)
        except MemoryError:
            reason = f"{reader.where(entry.row)}: there is too little memory to decode it."
            return _Seen(entry, fault=ImageError(reason, hint="close other programs, and update again"))
        return _Seen(entry, item, facts, small, answers=answers)

    if not entries:
        return
    pool = ThreadPoolExecutor(usable_cores(), "visir-read")
    coming = iter(entries)
    try:
        with Progress("reading pictures", len(entries), "pictures") as advance:
            waiting = [pool.submit(read_one, entry) for entry in islice(coming, _AHEAD)]
            done = 0
            while waiting:
                result = waiting.pop(0).result()
                waiting += [pool.submit(read_one, entry) for entry in islice(coming, 1)]
                done += 1
                advance(1)
                callback("reading", done, len(entries))
                yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_Record: TypeAlias = "tuple[str, Facts | None, list[str], dict[str, Told]]"


def _already(change: FolderChange) -> dict[tuple[str, str], _Record]:
    """What a killed update had read, by path and mark; thumbnails that it lost with the power are made again."""
    entries: dict[tuple[str, str], _Record] = {}
    for record in _lines(change):
        facts = None if record["facts"] is None else Facts(**record["facts"])
        shown = facts is not None and facts.thumbnail
        if record.get("broken"):  # the next reading may find more
            continue
        if shown and not is_sound(change.folder, record["item"], shown):
            continue
        answers = {part: each for part, value in record.get("told", {}).items() if (each := told_of(value))}
        entries[record["path"], record["mark"]] = (record["item"], facts, record.get("contents", []), answers)
    return entries


def _lines(change: FolderChange) -> list[dict[str, Any]]:
    """What the journal says; lines that a kill has torn are left out."""
    journals = [change.folder / work / _JOURNAL for work in change.works(WORK)]
    lines = [
        unpacked(line) for path in journals if path.is_file() for line in path.read_bytes().splitlines(keepends=True)
    ]
    return [line for line in lines if line is not None]


def plan_library(
    folder: Path,
    source: str | Path | None,
    model: str | Path | None,
    head: str | Path | None,
    kind: str | Sequence[str] | None,
    name: str | None,
    split: str | None,
    images: Sequence[str | Path],
    settings: Mapping[str, Any] | None = None,
    language: str | None = None,
    synonyms: str | Path | None = None,
) -> LibraryCard:
    """The card of the library in `folder` after the update: what it is now, with what the caller requests."""
    # Raises `LibraryError` when that does not fit, `ConfigurationError` for settings that are wrong or of no index.
    if not is_library(folder):
        if source is None or model is None:
            raise LibraryError(
                f"{folder}: there is no library yet.",
                hint="make one: visir library make PLACE --model MODEL",
                code="no-library-yet",
            )
        spec, places = absolute(source, [str(place) for place in images], split)
        first, second = names_of(model, head)
        title = name if name is not None else folder.absolute().name.removesuffix(".visir")
        check_library_name(title)
        new = LibraryCard(title, spec, places, split, "", first, second)
        return _with_words(_with_kinds(new, kind, settings), language, synonyms)
    current = LibraryCard.read(folder)
    if current.next and model is None and head is None:  # a killed change of models: any update goes on with it
        model, head = current.next["model"], current.next["head"]
        current = replace(current, kinds=current.next["kinds"], settings=current.next["settings"])
    names = names_of(model if model is not None else current.model, head)
    had_model, had_head = bool(current.model), current.head
    current = with_moved_models(current, names[0] if model is not None else None, names[1] if head else None, folder)
    if current.model and not had_model:
        current = _with_kinds(current, kind, settings)
    elif current.head and not had_head:
        kinds = _kinds(kind, current.model, current.head, current.kinds)
        current = replace(current, kinds=kinds, settings=_settings(settings or {}, kinds, current.settings))
    elif kind or settings:
        kinds = _kinds(kind, current.model, current.head, current.kinds)
        same = {
            system: current.settings.get(system, {}) for system in kinds if kinds[system] == current.kinds.get(system)
        }
        current = replace(current, kinds=kinds, settings=_settings(settings or {}, kinds, same))
    if source is not None:
        spec, places = absolute(source, [str(place) for place in images], split)
        if spec != current.source and _is_available(current.source):
            raise LibraryError(
                f"{folder}: this library is of {current.source}, not of {spec}.",
                hint="make another library: --out NEW_FOLDER",
            )
        current = replace(current, source=spec, images=places or current.images, split=split or current.split)
    current = _with_words(current, language, synonyms)
    if name is None:
        return current
    check_library_name(name)
    return replace(current, name=name)


def _with_kinds(new: LibraryCard, kind: str | Sequence[str] | None, settings: Mapping[str, Any] | None) -> LibraryCard:
    """The card of a library whose first vectors are to come."""
    kinds = _kinds(kind, new.model, new.head, {})
    if is_table_of_products(new.source):  # the titles are in the vectors of the products
        kinds.pop(CAPTIONS, None)
    return replace(new, kinds=kinds, settings=_settings(settings or {}, kinds, {}))


def _with_words(card: LibraryCard, language: str | None, synonyms: str | Path | None) -> LibraryCard:
    """The card with the search by words."""
    return replace(card, words=planned_words(card.words, language, synonyms))


def check_apart(folder: Path, source: str | Path | None) -> None:
    """Raise `LibraryError` when a place and its library are one folder, or the place lies inside the library."""
    if source is None or "://" in str(source):
        return
    text = str(source)
    for path in (Path(text), Path(text.partition(":")[2])):
        if path.is_dir() and str(path) != ".":
            break
        if text in (".", "photos:."):
            path = Path.cwd()
            break
    else:
        return
    place, library = os.path.realpath(path), os.path.realpath(folder)
    if place == library or place.startswith(library + os.sep):
        raise LibraryError(
            f"{folder}: a place and its library cannot be one folder"
            + (f": {source} lies inside it." if place != library else "."),
            hint=f"give the library a folder of its own: --out {Path(library).with_suffix('.visir')}",
        )


def _is_available(source: str) -> bool:
    """Whether a source still is where it was; if not, another one may be the same under a new path."""
    path = place_of(source)
    return (path.exists() and not is_empty(path)) or not path.is_absolute()


def _kinds(
    kind: str | Sequence[str] | None, model: str, head: str | None, current: Mapping[str, str]
) -> dict[str, str]:
    """The kind of each index, and whether there is one: those that are named, with what belongs beside them; else those
    that are there."""
    # Captions are indexed as pictures are where these are in an engine that has both forms, so that it holds all
    # vectors.
    from visir.retrieval.kinds import KINDS, USUAL_KINDS

    kinds = {} if head == model or not model else {"dense": "exact", CAPTIONS: "exact"}
    if head is not None:
        kinds["sparse"] = "inverted"
    kinds |= current
    named = [kind] if isinstance(kind, str) else list(kind or ())
    of_model = [KINDS.get(kind_name) for kind_name in named if _system(KINDS.get(kind_name)) == "dense"]
    if CAPTIONS in kinds and of_model:
        kinds[CAPTIONS] = of_model[0].name if of_model[0].beside else USUAL_KINDS[of_model[0].vectors]
    with_them = [
        other
        for kind_name in named
        for other in KINDS.get(kind_name).beside
        if _system(KINDS.get(other)) in kinds and _system(KINDS.get(other)) != _system(KINDS.get(kind_name))
    ]
    for kind_name in [*with_them, *named]:
        described = KINDS.get(kind_name)
        if _system(described) not in kinds:
            raise LibraryError(
                f"--kind {kind_name}: holds {described.vectors} vectors, and this library has none.",
                hint="visir index kinds lists the kinds",
                code="holds-vectors-library-none",
            )
        described.implemented()  # says now, not after hours, that a package is missing
        kinds[_system(described)] = kind_name
    return of_form(kinds, KINDS.get(current["dense"]).vectors) if "dense" in current else kinds


def _system(kind: Kind) -> str:
    """The index of a library that a kind is for: vectors of its model, one or several for each picture, or words."""
    return "sparse" if kind.vectors == "sparse" else "dense"


def fitted(card: LibraryCard, models: LibraryModels) -> LibraryCard:
    """The card with kinds of index for the form of vectors that the model makes."""
    encoder = models.dense
    return card if encoder is None else replace(card, kinds=of_form(card.kinds, encoder.form))


def of_form(kinds: Mapping[str, str], form: VectorForm) -> dict[str, str]:
    """Kinds of index for vectors of a form. "exact" means the exact kind of every form; an engine's kind all of its."""
    from visir.retrieval.kinds import KINDS, USUAL_KINDS

    fitting = dict(kinds)
    for system in ("dense", CAPTIONS):
        kind = KINDS.get(kinds[system]) if system in kinds else None
        if kind is None or kind.vectors == form:
            continue
        beside = [name for name in kind.beside if KINDS.get(name).vectors == form]
        if kind.name == "exact":
            fitting[system] = USUAL_KINDS[form]
        elif beside:
            fitting[system] = beside[0]
        else:
            possible = [name for name in KINDS if KINDS.get(name).vectors == form]
            raise LibraryError(
                f"--kind {kind.name}: holds {kind.vectors} vectors, and the model makes {form} ones.",
                hint=f"one of {', '.join(possible)}; or another model (visir models --form {kind.vectors})",
                code="holds-vectors-model-makes",
            )
    return fitting


def _settings(
    settings: Mapping[str, Any], kinds: Mapping[str, str], current: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The named settings of each index: those it has, and of those given what its kind knows."""
    # A name for a collection is the beginning of the names of several.
    from visir.retrieval.kinds import KINDS, settings_of_kind
    from visir.retrieval.remote.engine import name_address
    from visir.retrieval.settings import settings_of

    known = {system: {name for name, *_ in settings_of_kind(KINDS.get(kind))} for system, kind in kinds.items()}
    every = set().union(*known.values())
    faults = [
        f"no index of it has a setting {name!r} ({nearest(name, every)})" for name in settings if name not in every
    ]
    raise_faults(ConfigurationError, "the settings of a library", faults, hint="visir index kinds lists them")
    result = {}
    for system, kind in kinds.items():
        own = {name: value for name, value in settings.items() if name in known[system]}
        if own.get("collection"):
            own["collection"] = f"{own['collection']}-{system}"
        stated = KINDS.get(kind).settings_type
        named = {n: value for n, value in current.get(system, {}).items() if n in known[system]} | own
        if named.get("collection") == "":
            named.pop("collection")  # the index gets a name of its own, which its folder holds
        read = settings_of(kind, stated, named)  # also where none is named: some kinds need an address
        if named:
            result[system] = {name: getattr(read, name) for name in named}
            if own.get("url"):
                name_address(own["url"], getattr(read, "grpc", 0))
    return result


def drop_other_indexes(change: FolderChange, plan: LibraryCard, models: LibraryModels) -> None:
    """Remove the indexes that a killed first update left, unless they are of the same models and kinds."""
    folder = change.folder
    for system in INDEXES:
        change.own_folder(system)
        if not is_made_by_visir(folder / system, INDEX.name):
            continue
        if not is_made_by(models, folder, system, plan):
            remove_own_folders(change, system)


def is_made_by(models: LibraryModels, folder: Path, system: str, plan: LibraryCard) -> bool:
    """Whether the index that lies there was made by these models, and is as it is to be."""
    encoder = models.sparse if system == "sparse" else models.dense
    try:
        index = load_index(folder / plan.place(system))
        made_by = index.select(index.ids[:1]).encoder
        return encoder is not None and made_by == encoder.card and is_as_planned(folder, system, plan)
    except LibraryError:
        return False


def is_as_planned(folder: Path, system: str, plan: LibraryCard) -> bool:
    """Whether the index that lies there is of the kind, and has the settings, that the library is to have."""
    content = read_index(folder / plan.place(system)).content
    stated = plan.settings.get(system, {})
    has = content.get("settings", {})
    return content["kind"] == plan.kinds.get(system) and all(has.get(name) == value for name, value in stated.items())


def are_moved(folder: Path, before: LibraryCard) -> bool:
    """Whether the models of the library lie elsewhere than it says."""
    card = LibraryCard.read(folder)
    return (card.model, card.head) != (before.model, before.head)
