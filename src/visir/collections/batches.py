"""Rows in batches, looked at column by column: what layouts read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any

from visir.collections.draft import MANY
from visir.collections.tables import OnFault, Row, faults_into
from visir.files import read_lines

FIELD = re.compile(r"\{([^{}]+)\}")
"""A field in a column, a line or a name of files."""
BATCH = 2_000
"""How many rows are looked at together: so many that a call for each batch costs nothing, and few enough for caches."""


def fields_of(text: str, *, ends: bool = False) -> re.Pattern[str]:
    """What a name ("captions_{split}*.json") or a line with fields looks like; a number has digits alone."""
    # ends: Whether the last field of a line takes the rest of it, and no other field a tab.
    parts = FIELD.split(text)
    plain = [re.escape(part).replace(r"\ ", "[ \t]") if ends else re.escape(part).replace(r"\*", ".*")
             for part in parts[::2]]  # fmt: skip
    built = plain[0]
    for place, name in enumerate(parts[1::2], 1):
        last, after = ends and place == len(plain) - 1, parts[2 * place][:1]
        # A field of a line ends at the last such letter before the tab, or, in lines without tabs, at the first.
        field = r"[^\t]+" if "\t" in text else f"[^\t{re.escape(after)}]+"
        kind = ".*" if last else r"\d+" if name in ("number", "year") else field if ends else ".+?"
        built += f"(?P<{name}>{kind}){plain[place]}"
    return re.compile(f"^{built}$", re.DOTALL)


@dataclass
class ListColumn:
    """A column of lists: how many entries each has, None where there is no list, and all entries behind each other."""

    counts: list[int | None]
    entries: list[Any]

    def __iter__(self) -> Iterator[list[Any] | None]:
        entries = iter(self.entries)
        return (None if count is None else list(islice(entries, count)) for count in self.counts)


@dataclass
class Batch:
    """Some rows of a file, looked at column by column."""

    place: Callable[[int], str]  # where a row is, as errors say it
    rows: list[Row]
    # What is not, or no longer, as the rows have it: fields of lines, columns that a hook changed; and those looked up.
    columns: dict[str, list[Any]] = field(default_factory=dict)
    # ListColumn of objects in JSON, by the column that has them, with all their objects behind each other.
    lists: dict[str, tuple[list[int | None], Batch]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column by its name; None where a row has none."""
        if name not in self.columns:
            self.columns[name] = [row.get(name) for row in self.rows]
        return self.columns[name]

    def values(self, column: str) -> Any:
        """The same for a column as layouts write it: "a | b", "{a}/{b}", "a[].b", "a.b"."""
        if "|" in column:
            first, _, others = column.partition("|")
            values = self.values(first.strip())
            if None not in values:
                return values
            further = self.values(others.strip())
            return [other if value is None else value for value, other in zip(values, further, strict=True)]
        if names := FIELD.findall(column):
            form = "%s".join(part.replace("%", "%%") for part in FIELD.split(column)[::2])
            rows = zip(*(self[name] for name in names), strict=True)
            return [None if None in row or "" in row else form % row for row in rows]
        outside, _, entry = column.partition("[].")
        if entry:
            if outside not in self.lists:
                lists = [parts if type(parts) is list else None for parts in self.values(outside)]
                objects = _objects(list(chain.from_iterable(filter(None, lists))))
                self.lists[outside] = [None if parts is None else len(parts) for parts in lists], objects
            counts, objects = self.lists[outside]
            return ListColumn(counts, objects.values(entry))
        outside, _, entry = column.partition(".")
        if entry:
            parts = zip(self[outside], _objects(self[outside]).values(entry), self[column], strict=True)
            return [value if isinstance(part, dict) else whole for part, value, whole in parts]
        return self[column]

    def keep(self, wanted: Sequence[bool]) -> None:
        """Leave all other rows out."""
        numbers, place = list(compress(range(len(wanted)), wanted)), self.place
        self.place = lambda number: place(numbers[number])
        self.rows = list(compress(self.rows, wanted))
        self.columns = {name: list(compress(values, wanted)) for name, values in self.columns.items()}
        self.lists = {}


def _objects(parts: list[Any]) -> Batch:
    """What is in a column of objects in JSON; what is none has nothing."""
    return Batch(str, parts if are(parts, {dict}) else [part if isinstance(part, dict) else {} for part in parts])


def are(values: Any, kinds: Collection[type]) -> bool:
    """Whether all values are of these types, and of no type under them."""
    return {*map(type, values)} <= {*kinds}


def as_lists(values: Any) -> ListColumn:
    """A column as lists; what is none is one that has no length."""
    if isinstance(values, ListColumn):
        return values
    if not are(values, {list}):
        return ListColumn([None], [])
    return ListColumn(list(map(len, values)), list(chain.from_iterable(values)))


def as_text(ids: list[Any]) -> list[str]:
    """Ids, numbers or text, as text."""
    return ids if are(ids, {str}) else list(map(str, ids))


def lines_of(line: str, file: Path, fault: Callable[[str], None], is_whole: bool) -> Iterator[Batch]:
    """Lines with fields; one of another form is a fault, and ends a batch, so that all faults come in their order."""
    pattern, lines, start = fields_of(line, ends=True), read_lines(file), 0
    names = list(pattern.groupindex)
    needed = "\t" in line  # where tabs part fields, an empty line is a row that lost them
    while start < len(lines):
        matches = list(map(pattern.match, lines[start : start + BATCH]))
        wrong, numbers = None, list(range(start + 1, start + 1 + len(matches)))
        if not all(matches):
            unlike = (at for at, match in enumerate(matches) if match is None and (needed or lines[start + at].strip()))
            wrong = next(unlike, None)
            numbers = [number for number, match in zip(numbers, matches[:wrong], strict=False) if match]
        fields = [match.groups() for match in matches[:wrong] if match]
        whole = [dict(zip(names, values, strict=True)) for values in fields] if is_whole else [{}] * len(fields)
        columns = {} if is_whole or not fields else dict(zip(names, map(list, zip(*fields, strict=True)), strict=True))
        yield Batch(lambda number, at=numbers: f"{file.name}, line {at[number]}", whole, columns)  # type: ignore[misc]
        start += len(matches[:wrong])
        if wrong is not None:
            fault(f"{file.name}, line {start + 1}: expected {_in_words(line)}, found {lines[start][:60]!r}")
            start += 1


def rows_of(
    file: Path, fault: Callable[[str], None], read: Callable[[OnFault], Iterator[tuple[str, Row]]]
) -> Iterator[Batch]:
    """The rows of a table in batches; a fault ends a batch, so that all faults come in their order."""
    waiting: list[str] = []
    places: list[str] = []
    rows: list[Row] = []

    def tell() -> None:
        for text in waiting:
            fault(text)
        waiting.clear()

    def later(text: str) -> None:
        waiting.append(text)
        if not rows or len(waiting) == MANY:
            tell()

    for place, row in read(faults_into(later, file)):
        if waiting or len(rows) == BATCH:
            yield _placed(file.name, places, rows)
            tell()
            places, rows = [], []
        places.append(place)
        rows.append(row)
    yield _placed(file.name, places, rows)
    tell()


def _placed(name: str, places: list[str], rows: list[Row]) -> Batch:
    return Batch(lambda number: f"{name}, {places[number]}", rows)


def _in_words(line: str) -> str:
    """A line with fields as people read it."""
    return FIELD.sub(r"\1", line).replace("\t", "<TAB>")
