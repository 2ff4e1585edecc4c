"""What has changed: the source as it is now against the library as it was left.

Every file whose mark is another is read once: hashed, and if its content is new to the library, decoded, for facts and
thumbnail. What was read is written down at once, so that a killed update reads nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from visir.collections.images import ImageReader
from visir.errors import ImageError
from visir.library.database import Database
from visir.library.layout import THUMBNAILS, WORK
from visir.library.pictures import Facts, content_id, look_at, packed, read, unpacked
from visir.library.source import PhotoSource, SourceEntry
from visir.library.thumbnails import is_sound, write_thumbnail
from visir.progress import Progress
from visir.storage import FolderChange
from visir.threads import usable_cores

JOURNAL = f"{WORK}/read.jsonl"
_AHEAD = 64


@dataclass
class Scan:
    """What a source holds, file by file.

    Attributes:
        items: From path to item id, of everything that can be read.
        entries: From path to entry, of the same.
        facts: From item id to facts, of contents that are new to the library.
        first: From item id to the entry that it is encoded from.
        broken: From path to (mark, reason).
        removed: (item, path, mark) of what was taken out of the library.
        read: How many files were read.
    """

    items: dict[str, str] = field(default_factory=dict)
    entries: dict[str, SourceEntry] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    first: dict[str, SourceEntry] = field(default_factory=dict)
    broken: dict[str, tuple[str, str]] = field(default_factory=dict)
    removed: list[tuple[str, str, str]] = field(default_factory=list)
    read: int = 0


def scan(
    change: FolderChange,
    source: PhotoSource,
    database: Database,
    *,
    verify: bool = False,
    encode_again: frozenset[str] = frozenset(),
    callback: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Scan:
    """Look at everything in the source.

    Args:
        change: Of the library.
        source: What the library is made of.
        database: What the library knows.
        verify: Whether to read every file, also those whose size and time of change are as they were.
        encode_again: Items that the library knows and that are to be encoded again all the same.
        callback: Called with the stage, how much of it is done, and of how much.
    """
    scanned, folder = Scan(), change.folder
    known = {path: (mark, item) for path, mark, item in database.rows("SELECT path, mark, item FROM files")}
    broken = {path: (mark, reason) for path, mark, reason in database.rows("SELECT path, mark, reason FROM broken")}
    removed = {(path, mark): item for item, path, mark in database.rows("SELECT item, path, mark FROM removed")}
    taken_out = set(removed.values())
    again = _without_thumbnail(folder, database) - taken_out
    have = {item for (item,) in database.rows("SELECT id FROM items")} - again | taken_out
    already = _already(folder / JOURNAL, folder)
    to_read = []
    for entry in source.entries:
        mark, item = known.get(entry.path, ("", ""))
        if (entry.path, entry.mark) in removed and not verify:
            continue
        if mark == entry.mark and not verify and item not in again:
            _note(scanned, entry, item)
            if item in encode_again:
                scanned.first.setdefault(item, entry)
        elif broken.get(entry.path, ("",))[0] == entry.mark and not verify:
            scanned.broken[entry.path] = broken[entry.path]
        elif (entry.path, entry.mark) in already and not verify:
            item, facts = already[entry.path, entry.mark]
            _take(scanned, entry, item, None if item in have else facts, taken_out, encode_again)
        else:
            to_read.append(entry)
    if not to_read:
        return scanned
    with (
        change.file(JOURNAL, counts=False).open("ab") as journal,
        closing(_read(source, to_read, have, callback)) as reading,
    ):
        for entry, item, result, small in reading:
            scanned.read += 1
            if isinstance(result, ImageError):
                scanned.broken[entry.path] = (entry.mark, result.message)
                continue
            _write(journal, packed(entry, item, result))  # first: it says that the thumbnail is ours
            if small is not None:
                write_thumbnail(folder, item, small)
            _take(scanned, entry, item, result, taken_out, encode_again)
    return scanned


def thumbnails_of_journal(folder: Path) -> set[str]:
    """The items whose thumbnails an unfinished update has written, or was about to."""
    return {line["item"] for line in _lines(folder / JOURNAL) if line["facts"] is not None}


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


def _read(
    source: PhotoSource, entries: list[SourceEntry], have: set[str], callback: Callable[[str, int, int], None]
) -> Generator[tuple[SourceEntry, str, Facts | ImageError | None, bytes | None], None, None]:
    """Each entry with its id and the facts of a new content, or why it cannot be read, and its thumbnail.

    In order, threads ahead.
    """
    reader = ImageReader(source.collection)

    def read_one(entry: SourceEntry) -> tuple[SourceEntry, str, Facts | ImageError | None, bytes | None]:
        try:
            data = read(reader, entry)
            item = content_id(data)
            if item in have:
                return entry, item, None, None
            facts, small = look_at(reader, entry, data)
        except ImageError as fault:
            return entry, "", fault, None
        return entry, item, facts, small

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


def _already(journal: Path, folder: Path) -> dict[tuple[str, str], tuple[str, Facts | None]]:
    """What a killed update had read, by path and mark; thumbnails that it lost with the power are made again."""
    entries: dict[tuple[str, str], tuple[str, Facts | None]] = {}
    for record in _lines(journal):
        facts = None if record["facts"] is None else Facts(**record["facts"])
        shown = facts is not None and facts.thumbnail
        if shown and not is_sound(folder, record["item"], shown):
            continue
        entries[record["path"], record["mark"]] = (record["item"], facts)
    return entries


def _lines(journal: Path) -> list[dict[str, Any]]:
    """What a journal says; lines that a kill has torn are left out."""
    if not journal.is_file():
        return []
    lines = (unpacked(line) for line in journal.read_bytes().splitlines(keepends=True))
    return [line for line in lines if line is not None]


def _write(journal: IO[bytes], line: bytes) -> None:
    journal.write(line)
    journal.flush()
