"""What has changed: the source as it is now against the library as it was left.

Every file whose mark is another is read once: hashed, and if its content is new to the library, decoded, for facts and
thumbnail. What was read is written down at once, so that a killed update reads nothing twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

from visir.collections.digests import content_id
from visir.collections.images import ImageReader, decoders
from visir.encoders.content import is_same, without_change
from visir.errors import ImageError
from visir.library.database import OWN_FILES, Database
from visir.library.decisions import Removal
from visir.library.item import PICTURE
from visir.library.layout import THUMBNAILS, WORK
from visir.library.pictures import Facts, judged, look_at, packed, read, unpacked
from visir.library.product_source import ProductEntry, see
from visir.library.source import PhotoSource, SourceEntry
from visir.library.thumbnails import is_sound, write_thumbnail
from visir.progress import Progress
from visir.storage import FolderChange
from visir.threads import usable_cores

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
    again = _without_thumbnail(folder, database) - taken_out
    have = {item for (item,) in database.rows("SELECT id FROM items")} - again | taken_out
    already = _already(change)
    judge = decoders()
    to_read = []
    for entry in source.entries:
        mark, item = known.get(entry.path, ("", ""))
        if not verify and ((entry.path, entry.mark) in removed or (entry.path, without_change(entry.mark)) in removed):
            continue
        if is_same(mark, entry.mark) and not verify and item not in again and of_products.are_settled(mark, judge):
            _note(scanned, of_products.entry(entry), item)
            scanned.broken |= of_products.broken.get(mark, {})
            if item in encode_again:
                scanned.first.setdefault(item, entry)
        elif broken.get(entry.path, ("",))[0] == f"{entry.mark} {judge}" and not verify:
            scanned.broken[entry.path] = broken[entry.path]
        elif _is_read(already.get((entry.path, entry.mark)), have) and not verify:
            item, facts, contents = already[entry.path, entry.mark]
            entry = _with_contents(entry, contents)
            _take(scanned, entry, item, None if item in have else facts, taken_out, encode_again)
        else:
            to_read.append(entry)
    if not to_read:
        return scanned
    with (
        change.file(f"{change.work_folder(WORK).name}/{_JOURNAL}", counts=False).open("ab") as journal,
        closing(_read(source, to_read, have, callback)) as reading,
    ):
        for seen in reading:
            scanned.read += 1
            if seen.fault is not None:
                mark, item = known.get(seen.entry.path, ("", ""))
                if item and not seen.fault.lasting and item not in encode_again:
                    _note(scanned, replace(seen.entry, mark=mark), item)
                    scanned.away[seen.entry.path] = seen.fault.reason
                else:
                    scanned.broken[seen.entry.path] = judged(seen.entry.mark, seen.fault), seen.fault.reason
                continue
            # First: it says that the thumbnail is ours.
            _write(journal, packed(seen.entry, seen.item, seen.facts, seen.broken, _contents(seen.entry)))
            if seen.thumbnail is not None:
                write_thumbnail(folder, seen.item, seen.thumbnail)
            for name, fault in seen.broken.items():
                scanned.broken[name] = judged(seen.entry.mark, fault), fault.reason
            _take(scanned, seen.entry, seen.item, seen.facts, taken_out, encode_again)
    return scanned


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


def _contents(entry: SourceEntry) -> list[str]:
    """The places and marks of a product's pictures, for the journal; empty for a photo."""
    pictures = entry.pictures if isinstance(entry, ProductEntry) else ()
    return [text for picture in pictures for text in (str(picture.row), picture.mark)]


def _with_contents(entry: SourceEntry, contents: list[str]) -> SourceEntry:
    """A product with the pictures that a killed update had read."""
    if not isinstance(entry, ProductEntry):
        return entry
    marks = dict(zip(map(int, contents[::2]), contents[1::2], strict=True))
    pictures = [replace(picture, mark=marks[picture.row]) for picture in entry.pictures if picture.row in marks]
    return replace(entry, pictures=tuple(pictures))


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


def _without_thumbnail(folder: Path, database: Database) -> set[str]:
    """Items whose thumbnail has gone: it was deleted, or not copied. They are read again."""
    listed = database.rows("SELECT id FROM items WHERE thumbnail IS NOT NULL")
    existing = {path.stem for path in (folder / THUMBNAILS).glob("*/*.webp")} if listed else set()
    return {item for (item,) in listed} - existing


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


def _read(
    source: PhotoSource, entries: list[SourceEntry], have: set[str], callback: Callable[[str, int, int], None]
) -> Generator[_Seen, None, None]:
    """Each entry as it was read."""
    # In order, threads ahead.
    reader = ImageReader(source.collection)

    def read_one(entry: SourceEntry) -> _Seen:
        try:
            if isinstance(entry, ProductEntry):
                product = see(reader, entry, have)
                return _Seen(product.entry, product.item, product.facts, product.thumbnail, None, product.broken)
            data = read(reader, entry)
            item = content_id(data)
            if item in have:
                return _Seen(entry, item)
            facts, small = look_at(reader, entry, data)
        except ImageError as fault:
            return _Seen(entry, fault=fault)
        except MemoryError:
            reason = f"{reader.where(entry.row)}: there is too little memory to decode it."
            return _Seen(entry, fault=ImageError(reason, hint="close other programs, and update again"))
        return _Seen(entry, item, facts, small)

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


_Record: TypeAlias = "tuple[str, Facts | None, list[str]]"


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
        entries[record["path"], record["mark"]] = (record["item"], facts, record.get("contents", []))
    return entries


def _is_read(record: _Record | None, have: set[str]) -> bool:
    """Whether a killed update read all that is needed: it took no facts of what its database had, which may be gone."""
    return record is not None and (record[1] is not None or record[0] in have)


def _lines(change: FolderChange) -> list[dict[str, Any]]:
    """What the journal says; lines that a kill has torn are left out."""
    journals = [change.folder / work / _JOURNAL for work in change.works(WORK)]
    lines = [
        unpacked(line) for path in journals if path.is_file() for line in path.read_bytes().splitlines(keepends=True)
    ]
    return [line for line in lines if line is not None]


def _write(journal: IO[bytes], line: bytes) -> None:
    journal.write(line)
    journal.flush()
