"""Files that the engine cannot read as they are: what is a row goes on, what is none is told with its line.

The engine reads a log at full speed and gives up on a whole file for one line, or worse: after an open quote it goes on
to the end of the file and calls all of that one line. So where it gives up or meets an open quote, the log's files are
read once more, line by line. Of a file with faults a copy is made in which every line that is no row is left empty, so
that the numbers of the other lines stay what they are.

- **JSON**: a line that is no JSON object, or names a key twice.
- **CSV** (RFC 4180): a quoted field that goes on after its closing quote, or that does not end with the row. A row may
  be several lines long; if those lines make no row with as many fields as the head has, only the first of them is
  refused, and reading goes on with the second.

What is wrong with a file as a whole (a transfer that broke off, an array instead of lines) is an error, and all such
files are named at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from visir.errors import VisirError, raise_faults
from visir.files import iter_lines, open_binary
from visir.progress import Progress
from visir.storage import Scratch

MOST_LINES = 1_000
"""A quoted field does not go on over more lines than this."""

LONGEST = {"csv": 2_000_000, "json": 16_000_000}
"""Bytes of a line that the engine reads."""

DAMAGED = "fetch the file again and compare its size; what is there of a .gz: gzip -dc FILE > NEW"
_HEAD = "a head holds the names under [raw], with commas between them, in UTF-8 (iconv -f … -t utf-8)"
_NO_LINES = {
    b"[": "one object a line is read; an array becomes that by: jq -c '.[]' FILE > NEW.jsonl",
    b"{": "one object a line is read; objects of several lines become that by: jq -c . FILE > NEW.jsonl",
}


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that is no row: its number from 1, its bytes, and what is wrong."""

    line: int
    text: bytes
    fault: str


REFUSED = "repaired/refused.jsonl"
"""Where what was refused stands."""


def repaired_files(files: Sequence[Path], kind: str, scratch: Scratch) -> list[Path]:
    """`files` (of the format `kind`, "csv" or "json"), where one has faults its copy in `scratch`.

    What was refused stands in `REFUSED`: file, line, text (bytes that are no UTF-8 as "\\xff") and fault.
    Files without any row are left out. Raises `VisirError` for all files that are damaged as a whole.
    """
    found: list[Path] = []
    faults = _Faults()
    with (
        scratch.file(REFUSED).open("wb") as told,
        Progress("reading line by line", len(files), "files") as advance,
    ):
        for number, file in enumerate(files):
            name = f"repaired/{number}/{file.name.removesuffix('.gz')}"
            try:
                rows, changed = _repair(file, kind, scratch, name, told)
            except VisirError as fault:
                faults.add(fault)
            else:
                if rows:
                    found.append(scratch.path / name if changed else file)
            advance()
    faults.throw()
    if not found:
        raise _nothing_in(files)
    return found


def check_heads(files: Sequence[Path], columns: Iterable[str]) -> None:
    """Raise `VisirError` for all CSV files whose first line is no head, or names none of `columns`.

    An empty file passes, unless all are empty.
    """
    known = {one.casefold() for one in columns}
    faults, heads = _Faults(), 0
    for file in files:
        try:
            head = _head(file, next(iter(iter_lines(file)), None))
        except VisirError as fault:
            faults.add(fault)
            continue
        heads += bool(head)
        if head and known and not known & {one.strip().casefold() for one in head}:
            named = repr(", ".join(head)[:200])
            faults.add(VisirError(f"{file}, line 1: none of the mapping's columns; it has {named}", hint=_HEAD))
    faults.throw()
    if not heads:
        raise _nothing_in(files)


class _Faults:
    """Files that are wrong as a whole, and what to do about them."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.hints: dict[str, None] = {}

    def add(self, fault: VisirError) -> None:
        self.faults.append(fault.message)
        self.hints[DAMAGED if "decompressed" in fault.message else fault.hint] = None

    def throw(self) -> None:
        raise_faults(VisirError, "files of the log cannot be read", self.faults, hint="; ".join(self.hints))


def _nothing_in(files: Sequence[Path]) -> VisirError:
    return VisirError(f"{files[0]}: no row in {'it' if len(files) == 1 else 'any file'}.", hint=DAMAGED)


def _repair(file: Path, kind: str, scratch: Scratch, name: str, told: IO[bytes]) -> tuple[bool, bool]:
    """Whether there is any row, and whether there is a copy `name` now; lines that are no rows are `told`."""
    rows, first, refused = False, None, set()
    lines = _json_lines if kind == "json" else _csv_lines(file)
    for one in lines(iter_lines(file)):
        if isinstance(one, bytes):
            rows = rows or bool(one.strip())
            continue
        first = first or one
        refused.add(one.line)
        text = one.text.decode("utf-8", "backslashreplace")
        told.write(orjson.dumps({"file": file.name, "line": one.line, "text": text, "fault": one.fault}) + b"\n")
    if kind == "json" and first is not None and not rows:
        hint = _NO_LINES.get(first.text.lstrip()[:1], "is it the right file? one JSON object a line is read")
        raise VisirError(f"{file}: no line is a JSON object; line {first.line} is {first.fault}", hint=hint)
    if not refused and not (kind == "json" and _is_marked(file)):
        return rows, False
    with scratch.file(name).open("wb") as target:
        for number, line in enumerate(iter_lines(file), start=1):
            target.write((b"" if number in refused else line) + b"\n")
    return rows, True


def _is_marked(file: Path) -> bool:
    """Whether a file begins with a byte order mark, which the copy lacks."""
    with open_binary(file) as stream:
        return stream.read(3) == b"\xef\xbb\xbf"


def _json_lines(lines: Iterable[bytes]) -> Iterator[bytes | RejectedLine]:
    for number, line in enumerate(lines, start=1):
        fault = _json_fault(line)
        yield line if fault is None else RejectedLine(number, line, fault)


class _TwiceError(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for place, name in enumerate(names) if name in names[:place]))
    return made


_READER = json.JSONDecoder(object_pairs_hook=_once)


def _json_fault(line: bytes) -> str | None:
    """What is wrong with a line; blank ones and `null` are read as they are."""
    if len(line) > LONGEST["json"]:
        return f"longer than {LONGEST['json']:,} bytes"
    try:
        text = line.decode()
        if not text.strip():
            return None
        value = _READER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as fault:
        return f"not UTF-8 (byte 0x{line[fault.start]:02x} at {fault.start + 1})"
    except UnicodeEncodeError:
        return "not JSON: half of a surrogate pair"
    except _TwiceError as fault:
        return f"the key {str(fault)!r} twice"
    except json.JSONDecodeError as fault:
        return f"not JSON: {fault.msg} at {fault.pos + 1}"
    except (ValueError, RecursionError) as fault:
        return f"not JSON: {fault}"
    return None if value is None or isinstance(value, dict) else "JSON, but no object"


def _csv_lines(file: Path) -> Callable[[Iterable[bytes]], Iterator[bytes | RejectedLine]]:
    def lines(source: Iterable[bytes]) -> Iterator[bytes | RejectedLine]:
        waiting: list[bytes] = []  # read ahead for a row of several lines that was none
        more = iter(source)
        number = 0
        width: int | str | None = None

        def take() -> bytes | None:
            return waiting.pop(0) if waiting else next(more, None)

        while (line := take()) is not None:
            number += 1
            if width is None and _head(file, line):
                width = _fields(line)
            if len(line) > LONGEST["csv"]:
                yield RejectedLine(number, line, f"longer than {LONGEST['csv']:,} bytes")
            elif b'"' not in line or isinstance(_fields(line), int):
                yield line
            else:
                row = [line]
                state = _fields(line)
                while state == "open" and len(row) < MOST_LINES and (next_line := take()) is not None:
                    row.append(next_line)
                    state = _fields(b"\n".join(row))
                if state == width:
                    yield from row
                    number += len(row) - 1
                else:
                    waiting[:0] = row[1:]
                    yield RejectedLine(number, line, _QUOTES["open" if len(row) > 1 else str(state)])

    return lines


_QUOTES = {"open": "a quoted field that does not end", "after": "text after a closing quote"}


def _fields(row: bytes) -> int | str:
    """How many fields a row has; "open" where a quoted one does not end, "after" where text follows a closing quote."""
    at, fields = 0, 1
    while True:
        if row[at : at + 1] == b'"':
            at += 1
            while (at := row.find(b'"', at)) >= 0 and row[at + 1 : at + 2] == b'"':
                at += 2
            if at < 0:
                return "open"
            at += 1
            while row[at : at + 1] == b" ":
                at += 1
            if at < len(row) and row[at : at + 1] != b",":
                return "after"
        else:
            comma = row.find(b",", at)
            at = len(row) if comma < 0 else comma
        if at >= len(row):
            return fields
        at, fields = at + 1, fields + 1


def _head(file: Path, line: bytes | None) -> list[str]:
    """The names in the first line of a file; none of an empty file."""
    if not line:
        return []
    try:
        text = line.decode()
    except UnicodeDecodeError as fault:
        raise VisirError(f"{file}, line 1: not UTF-8 (byte 0x{line[fault.start]:02x})", hint=_HEAD) from fault
    fields = _fields(line)
    if isinstance(fields, str):
        raise VisirError(f"{file}, line 1: {_QUOTES[fields]}", hint=_HEAD)
    return [one.strip().strip('"') for one in text.partition("\r")[0].split(",")]
