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

    - `items`: path to item id, of everything that can be read
    - `entries`: path to entry, of the same
    - `facts`: item id to facts, of contents that the library has not got; `first`: the entry to encode each from
    - `broken`: path to (mark, reason); `removed`: (item, path, mark) of what was taken out of the library
    - `read`: how many files were read to find all this
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
    wanted: frozenset[str] = frozenset(),
    tell: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Scan:
    """Look at everything in the source.

    - `verify`: read every file, also those whose size and time of change are as they were
    - `wanted`: items that the library knows and that are to be encoded again all the same
    """
    found, folder = Scan(), change.folder
    known = {path: (mark, item) for path, mark, item in database.rows("SELECT path, mark, item FROM files")}
    broken = {path: (mark, why) for path, mark, why in database.rows("SELECT path, mark, reason FROM broken")}
    removed = {(path, mark): item for item, path, mark in database.rows("SELECT item, path, mark FROM removed")}
    out = set(removed.values())
    again = _without_thumbnail(folder, database) - out
    have = {one for (one,) in database.rows("SELECT id FROM items")} - again | out
    already = _already(folder / JOURNAL, folder)
    to_read = []
    for entry in source.entries:
        mark, item = known.get(entry.path, ("", ""))
        if (entry.path, entry.mark) in removed and not verify:
            continue
        if mark == entry.mark and not verify and item not in again:
            _note(found, entry, item)
            if item in wanted:
                found.first.setdefault(item, entry)
        elif broken.get(entry.path, ("",))[0] == entry.mark and not verify:
            found.broken[entry.path] = broken[entry.path]
        elif (entry.path, entry.mark) in already and not verify:
            item, facts = already[entry.path, entry.mark]
            _take(found, entry, item, None if item in have else facts, out, wanted)
        else:
            to_read.append(entry)
    if not to_read:
        return found
    with (
        change.file(JOURNAL, counts=False).open("ab") as journal,
        closing(_read(source, to_read, have, tell)) as reading,
    ):
        for entry, item, result, small in reading:
            found.read += 1
            if isinstance(result, ImageError):
                found.broken[entry.path] = (entry.mark, result.message)
                continue
            _write(journal, packed(entry, item, result))  # first: it says that the thumbnail is ours
            if small is not None:
                write_thumbnail(folder, item, small)
            _take(found, entry, item, result, out, wanted)
    return found


def thumbnails_of_journal(folder: Path) -> set[str]:
    """The items whose thumbnails an unfinished update has written, or was about to."""
    return {line["item"] for line in _lines(folder / JOURNAL) if line["facts"] is not None}


def _take(
    found: Scan, entry: SourceEntry, item: str, facts: Facts | None, out: set[str], wanted: frozenset[str]
) -> None:
    """What reading an entry gave: `facts` where the library has not got its content."""
    if item in out:
        found.removed.append((item, entry.path, entry.mark))
        return
    _note(found, entry, item)
    if facts is not None:
        found.facts.setdefault(item, facts)
    if facts is not None or item in wanted:
        found.first.setdefault(item, entry)


def _without_thumbnail(folder: Path, database: Database) -> set[str]:
    """Items whose thumbnail has gone: somebody deleted it, or it was not copied. They are read again."""
    listed = database.rows("SELECT id FROM items WHERE thumbnail IS NOT NULL")
    there = {path.stem for path in (folder / THUMBNAILS).glob("*/*.webp")} if listed else set()
    return {one for (one,) in listed} - there


def _note(found: Scan, entry: SourceEntry, item: str) -> None:
    found.items[entry.path], found.entries[entry.path] = item, entry


def _read(
    source: PhotoSource, entries: list[SourceEntry], have: set[str], tell: Callable[[str, int, int], None]
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
                tell("reading", done, len(entries))
                yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _already(journal: Path, folder: Path) -> dict[tuple[str, str], tuple[str, Facts | None]]:
    """What a killed update had read, by path and mark; thumbnails that it lost with the power are made again."""
    made: dict[tuple[str, str], tuple[str, Facts | None]] = {}
    for said in _lines(journal):
        facts = None if said["facts"] is None else Facts(**said["facts"])
        shown = facts is not None and facts.thumbnail
        if shown and not is_sound(folder, said["item"], shown):
            continue
        made[said["path"], said["mark"]] = (said["item"], facts)
    return made


def _lines(journal: Path) -> list[dict[str, Any]]:
    """What a journal says; lines that a kill has torn are left out."""
    if not journal.is_file():
        return []
    lines = (unpacked(line) for line in journal.read_bytes().splitlines(keepends=True))
    return [line for line in lines if line is not None]


def _write(journal: IO[bytes], line: bytes) -> None:
    journal.write(line)
    journal.flush()
