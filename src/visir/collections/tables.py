"""Tables as rows: how a text table is laid out, the rows of any table with their places, and which column has what."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import lzma
import re
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from visir.collections.draft import MANY
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import head, plain_name
from visir.errors import CollectionError, VisirError
from visir.files import iter_lines, open_binary, read_lines

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "bar": "|"}
TEXT_TABLES = (".csv", ".tsv", ".txt")
UTF_8 = "utf-8-sig"


@dataclass(frozen=True)
class TextLayout:
    """How a text table is written."""

    delimiter: str = ","  # the character between two cells
    encoding: str = UTF_8  # of the file
    has_header: bool = True  # whether the first line has the names of the columns; without, they are called "1", "2", …


def is_text_table(path: Path) -> bool:
    """Whether the name of a file ends like that of a text table."""
    return plain_name(path).lower().endswith(TEXT_TABLES)


def text_layout(path: Path, *, delimiter: str = "", encoding: str = "", header: str = "") -> TextLayout:
    """Return how a text table is written, by its beginning."""
    data = head(path)
    encoding = encoding or find_encoding(data)
    try:
        text = data.decode(encoding, "replace")
    except LookupError:
        raise CollectionError(
            f"{path}: there is no encoding {encoding!r}.",
            hint="for example latin-1, cp1252, utf-16 or gbk",
            code="no-encoding",
        ) from None
    lines = [line for line in text.splitlines(keepends=True) if line.strip()][:20]
    usual = "\t" if plain_name(path).lower().endswith(".tsv") else ","
    delimiter = DELIMITERS.get(delimiter, delimiter) or find_delimiter(lines, usual)
    first = next(iter(_parsed(lines[:1], delimiter)), [])
    has_header = header == "yes" or (header != "no" and not any(is_picture_name(cell.strip()) for cell in first))
    return TextLayout(delimiter, encoding, has_header)


def find_delimiter(lines: Sequence[str], usual: str = ",") -> str:
    r"""Return the character that separates the cells of some lines."""
    # The right one cuts the lines into the same number of cells, and into more than one.
    best, best_share = usual, 0.0
    for delimiter in (usual, *(other for other in DELIMITERS.values() if other != usual)):
        counts = [len(cells) for cells in _parsed(lines, delimiter) if cells]
        share = counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0
        if share > best_share:
            best, best_share = delimiter, share
    return best


def find_encoding(data: bytes) -> str:
    """Return the encoding that the first bytes of a file tell: UTF-16 or UTF-32, else "utf-8-sig"."""
    if data.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = data[:200]  # without a mark: every other byte of letters without accents is 0
    for zeros, encoding in ((start[1::2], "utf-16-le"), (start[::2], "utf-16-be")):
        if zeros.count(0) * 2 > max(1, len(zeros)):
            return encoding
    return UTF_8


def first_cells(path: Path, layout: TextLayout, rows: int = 5) -> list[list[str]]:
    """Return the cells of the first rows of a text table."""
    text = head(path).decode(layout.encoding, "replace")
    lines = [line for line in text.splitlines(keepends=True) if line.strip()][:rows]
    return [[cell.strip() for cell in cells] for cells in _parsed(lines, layout.delimiter)]


def _parsed(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []


# Tables as people keep them: CSV, TSV, JSON lines and Parquet files as rows with the place of each.


LONGEST_CELL = 1 << 26
"""A cell of a CSV file may have this many characters; longer ones are more likely a quote that was never closed."""
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
JSON_LINES = (".jsonl", ".ndjson", ".json")


def is_table(path: Path) -> bool:
    """Whether the file's name ends like one of the tables read here."""
    return plain_name(path).lower().endswith(TABLES)


@dataclass(frozen=True)
class RowFault:
    """What can be wrong with a row."""

    plural: str  # what such rows are called when they are counted
    message: str  # what an error says of one of them; {} is the place of the detail


UNEVEN = RowFault("rows with too few or too many values", "{}")
NOT_CSV = RowFault("rows that are not readable as CSV", "not readable as CSV ({})")
NOT_JSON = RowFault("lines that are not valid JSON", "not valid JSON: {}")
NO_OBJECT = RowFault("lines that are no JSON object", "expected an object {{…}}, found {}")

OnFault = Callable[[RowFault, str, str], None]
"""Takes a row that cannot be read: what is wrong with it, the place, and the detail."""


def faults_into(report: Callable[[str], None], file: Path) -> OnFault:
    """What writes each row of a file that cannot be read down as a fault."""
    return lambda fault, place, detail: report(f"{file.name}, {place}: {fault.message.format(detail)}")


def read_rows(
    path: Path,
    on_fault: OnFault | None = None,
    parse: Callable[[bytes], Any] = orjson.loads,
    columns: Sequence[str] | None = None,
    layout: TextLayout | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table, each with its place."""
    # Yields: (place, row): the place is "line 7" or "row 7", as errors name it.
    name = plain_name(path).lower()
    if is_text_table(path):
        yield from _delimited(path, on_fault, layout)
    elif name.endswith(JSON_LINES):
        yield from json_lines(path, on_fault, parse)
    elif name.endswith(".parquet"):
        yield from _parquet(path, columns)
    else:
        raise CollectionError(f"{path}: not a table.", hint=f"known: {', '.join(TABLES)}")


def json_lines(
    path: Path, on_fault: OnFault | None = None, parse: Callable[[bytes], Any] = orjson.loads
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a file of JSON lines, as `read_rows`. A line may also hold a list of objects, each a row."""
    on_fault = on_fault or _raising(path)
    for number, line in enumerate(iter_lines(path), start=1):
        if not line or line.isspace():
            continue
        place = f"line {number}"
        try:
            value = parse(line)
        except ValueError as fault:
            on_fault(NOT_JSON, place, str(fault)[:100])
            continue
        if isinstance(value, dict):
            yield place, value
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            for count, entry in enumerate(value, start=1):
                yield f"{place}, object {count}", entry
        else:
            on_fault(NO_OBJECT, place, repr(line[:40].decode(errors="replace")))


def csv_columns(path: Path, on_fault: OnFault | None = None, layout: TextLayout | None = None) -> list[str]:
    """The names of the columns of a text table; none when it is empty."""
    layout = layout or _named_layout(path)
    _, first = next(_cells(path, on_fault or _raising(path), layout), (0, []))
    return [name.strip() for name in first] if layout.has_header else [str(n) for n in range(1, len(first) + 1)]


def _raising(path: Path) -> OnFault:
    def raise_fault(fault: RowFault, place: str, detail: str) -> None:
        raise CollectionError(f"{path}, {place}: {fault.message.format(detail)}.")

    return raise_fault


def _named_layout(path: Path) -> TextLayout:
    """How a text table is written whose first line has the names of its columns."""
    return text_layout(path, header="yes")


def _delimited(path: Path, on_fault: OnFault | None, layout: TextLayout | None) -> Iterator[tuple[str, dict[str, Any]]]:
    report = on_fault or _raising(path)
    layout = layout or _named_layout(path)
    columns = csv_columns(path, report, layout)
    cells = _cells(path, report, layout)
    if layout.has_header:
        next(cells, None)
    if not columns and on_fault is None:
        raise CollectionError(f"{path}: empty; expected a header line.")
    if len(set(columns)) != len(columns):
        raise CollectionError(
            f"{path}, line 1: a column is named twice: {', '.join(columns)}.", code="column-named-twice"
        )
    for start, values in cells:
        if len(values) != len(columns):
            report(UNEVEN, f"line {start}", f"{len(values)} values for {len(columns)} columns")
        else:
            yield f"line {start}", dict(zip(columns, values, strict=True))


def _cells(path: Path, on_fault: OnFault, layout: TextLayout) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row that is readable as CSV and not empty, the header first."""
    csv.field_size_limit(LONGEST_CELL)
    lines = _text_lines(path) if layout.encoding == UTF_8 else _decoded_lines(path, layout.encoding)
    if layout.delimiter == "\t":
        yield from _tabbed(lines)
        return
    # "a.jpg| 0| a dog": bars stand with a space behind them
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True, skipinitialspace=layout.delimiter == "|")
    while True:
        start = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as fault:
            place = f"line {start}" if reader.line_num <= start else f"lines {start} to {reader.line_num}"
            on_fault(NOT_CSV, place, str(fault))
            continue
        if values is None:
            return
        if values:
            yield start, values


_LONGEST_ROW = 1_000
"""A cell of a table with tabs may have this many lines."""


def _tabbed(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """As `_cells`, of a table with tabs, where few programs quote: a quote that closes no cell is a letter of it."""
    # A cell may go on in the next line where that one is no row by itself, as programs write that do quote.
    width, last, ahead = 0, 0, deque[str]()
    while line := ahead.popleft() if ahead else next(lines, ""):
        number = last = last + 1
        text = line.rstrip("\n")
        if not text:
            continue
        cells = plain = text.split("\t")
        if '"' in text:
            joined, taken = _quoted(line), 0
            may_go_on = any(cell.startswith('"') for cell in plain)
            while joined is None and may_go_on and taken < _LONGEST_ROW:
                if taken == len(ahead) and (further := next(lines, "")):
                    ahead.append(further)
                if taken == len(ahead) or ahead[taken].count("\t") + 1 == width:
                    break
                taken += 1
                joined = _quoted(line + "".join(list(ahead)[:taken]))
            if joined is not None and width in (0, len(joined)):
                cells, last = joined, last + taken
                for _ in range(taken):
                    ahead.popleft()
        width = width or len(cells)
        yield number, cells


def _quoted(text: str) -> list[str] | None:
    """The cells of a row with tabs whose quotes close; None where one does not."""
    try:
        return next(csv.reader(io.StringIO(text, newline="\n"), delimiter="\t", strict=True), None)
    except csv.Error:
        return None


def _text_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(iter_lines(path), start=1):
        try:
            yield f"{line.decode()}\n"
        except UnicodeDecodeError as fault:
            raise CollectionError(
                f"{path}, line {number}: not UTF-8 (byte 0x{line[fault.start]:02x}).",
                hint=f'say its encoding ("{path.name}?encoding=latin-1" opens a table of pictures and captions), or '
                f"convert it: iconv -f latin1 -t utf-8 {path.name} > fixed{path.suffix}",
                code="table-not-utf-8",
            ) from fault


def _decoded_lines(path: Path, encoding: str) -> Iterator[str]:
    with io.TextIOWrapper(open_binary(path), encoding=encoding, newline="\n") as stream:
        number = 0
        try:
            for line in stream:
                number += 1
                yield line.removesuffix("\n").removesuffix("\r") + "\n"
        except UnicodeError as fault:
            raise CollectionError(f"{path}, after line {number}: not {encoding} ({fault}).") from fault


def _parquet(path: Path, names: Sequence[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from visir.parquet import reading_parquet

    number = 0
    with reading_parquet(path, CollectionError):
        for batch in pq.ParquetFile(path).iter_batches(columns=names):
            columns = [_to_microseconds(column) for column in batch.columns]
            for row in pa.record_batch(columns, batch.schema.names).to_pylist():
                number += 1
                yield (
                    f"row {number}",
                    {
                        name: None if (not isinstance(value, list | dict) and bool(value != value)) else value
                        for name, value in row.items()
                    },
                )


def _to_microseconds(column: pa.Array) -> pa.Array:
    """Moments and durations as Python has them; what is finer needs pandas, and is lost there as well."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column


# Tables in memory, and the cells of tables wherever they are.


def columns_of(value: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a table in memory as lists by name; None for anything that is no table."""
    # Missing values (NaN, NaT, NA in pandas) become None, lists that are arrays become lists.
    import pyarrow as pa

    package = type(value).__module__.partition(".")[0]
    if package == "pandas" and hasattr(value, "columns"):  # cells may hold what Arrow does not know, such as pictures
        return {
            str(name): [
                None if gone is True else cell.tolist() if getattr(cell, "ndim", 0) == 1 else cell
                for cell, gone in zip(value[name].tolist(), value[name].isna().tolist(), strict=True)
            ]
            for name in value.columns
        }
    if hasattr(value, "to_dict") and package == "polars" and hasattr(value, "columns"):
        return {str(name): values for name, values in value.to_dict(as_series=False).items()}
    if isinstance(value, Mapping) or not hasattr(value, "__arrow_c_stream__"):
        return None
    try:
        table = pa.table(value)
    except (TypeError, ValueError, pa.ArrowInvalid):  # a single column
        return None
    return {name: table.column(name).to_pylist() for name in table.schema.names}


def table_rows(table: Mapping[str, Sequence[Any]], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Go through columns row by row."""
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise CollectionError(f"{where}: the columns differ in length: {shown}.", code="columns-differ-length")
    for number, values in enumerate(zip(*table.values(), strict=True), 1):
        yield f"row {number}", dict(zip(table, values, strict=True))


_ENTRY = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|None)\s*,?\s*""", re.DOTALL)
"""An entry of a list as Python prints it; NumPy prints no commas."""


_CAPTIONS: tuple[set[type], ...] = (set(), {str}, {str, type(None)})
"""The types in a list that can be one of captions."""


def entries_of(cell: Any, *, texts: bool = False) -> list[Any]:
    """The values in a cell: those of a list, also of one that is written out, else the value; none if null."""
    # texts: A list of anything but texts is no list of captions, so that "[1]" is what somebody wrote.
    if isinstance(cell, str):
        written = written_list(cell) if cell.startswith(("[", " [")) else None
        if written is None or (texts and {*map(type, written)} not in _CAPTIONS):
            return [cell]
        return written
    return [] if cell is None else list(cell) if isinstance(cell, list | tuple) else [cell]


def written_list(text: str) -> list[Any] | None:
    """The list that a text is as JSON, Python or NumPy write it; None for any other text."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = orjson.loads(text)
        return value if isinstance(value, list) else None
    except orjson.JSONDecodeError:
        pass
    entries, place = [], 1
    while place < len(text) - 1:
        entry = _ENTRY.match(text, place)
        if entry is None:
            return None
        entries.append(ast.literal_eval(entry[1]))
        place = entry.end()
    return entries


# Which columns a table has, and which of them holds what.


IMAGE_COLUMNS = ("file_name", "image", "filename", "file", "image_path", "filepath", "img", "image_name")
CAPTION_COLUMNS = ("text", "caption", "captions", "texts", "sentence", "sentences", "raw", "description", "title")
IMAGE_ALSO = ("photo", "picture", "path", "img_path", "image_file", "file_path", "img_name", "image_url")
CAPTION_ALSO = ("comment", "comments", "alt_text", "alt", "sentence1")
"""Names that count where there is none of the usual ones."""
CLASS_COLUMNS = ("class", "label", "category", "class_name", "label_name", "classname", "labels", "target")
"""What columns of classes are usually called."""
IMAGE_ID_COLUMNS = ("image_id", "imgid")
CAPTION_ID_COLUMNS = ("caption_id", "caption_ids", "sentid", "sentids")
SPLIT_COLUMNS = ("split", "set", "partition")
LANGUAGE_COLUMNS = ("language",)


_FIRST_ROWS = 1_000


def first_columns(path: Path, layout: TextLayout | None = None) -> list[str]:
    """The columns of a table, for reading it; of JSON lines, whose rows may differ, those of the first thousand."""
    if plain_name(path).lower().endswith(".parquet"):
        return _parquet_columns(path)
    if is_text_table(path):
        return csv_columns(path, layout=layout)
    rows = itertools.islice(json_lines(path, _ignore), _FIRST_ROWS)
    return list(dict.fromkeys(name for _, row in rows for name in row))


def all_columns(path: Path) -> list[str]:
    """All columns of a table. JSON lines, whose rows may differ, are read through for it; faulty rows are left out."""
    name = plain_name(path).lower()
    if name.endswith(JSON_LINES):
        names: dict[str, None] = {}
        for _, row in json_lines(path, _ignore):
            if not names.keys() >= row.keys():
                names |= dict.fromkeys(row)
        return list(names)
    if name.endswith((".csv", ".tsv")):
        return csv_columns(path, _ignore)
    return first_columns(path)


def sniffed_columns(path: Path) -> list[str]:
    """The columns that the beginning of a file shows, for telling formats apart; none where it cannot be read."""
    name = plain_name(path).lower()
    try:
        if name.endswith(".parquet"):
            return _parquet_columns(path)
        if name.endswith((".csv", ".tsv")):
            return next(iter(first_cells(path, text_layout(path), rows=1)), [])
        if not name.endswith(JSON_LINES):
            return []
        with open_binary(path) as stream:  # the first row may be longer than any head of the file
            row = orjson.loads(stream.readline(LONGEST_CELL).removeprefix(b"\xef\xbb\xbf"))
    except (VisirError, OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, ValueError):
        return []
    row = row[0] if isinstance(row, list) and row else row
    return list(row) if isinstance(row, dict) else []


def one_column(
    path: Path | str, columns: list[str], name: str | int | None, usual: tuple[str, ...], content: str
) -> str | None:
    """The column that holds something."""
    if name is not None:
        name = str(name)
        if name not in columns and name.isdecimal() and 0 < int(name) <= len(columns):
            return columns[int(name) - 1]
        if name not in columns:
            raise CollectionError(
                f"{path}: no column {name!r}.", hint=f"there are: {', '.join(columns)}", code="no-such-column"
            )
        return name
    matching = (column for usual_name in usual for column in columns if column.lower() == usual_name.lower())
    candidates = list(dict.fromkeys(matching))
    if len(candidates) > 1:
        option = content.replace(" ", "_")
        option += "" if option in ("image", "caption", "id", "caption_id") else "_column"
        raise CollectionError(
            f"{path}: the {content} could be in {' or '.join(map(repr, candidates))}.",
            hint=f"say which: {option}={candidates[0]}",
            code="several-columns",
        )
    return candidates[0] if candidates else None


class ColumnPicker:
    """Picks values out of rows by the names of their columns; JSON rows may bring new columns at any time."""

    def __init__(
        self,
        file: Path,
        prefix: str = "",
        /,
        *,
        first: tuple[str, ...] = (),
        **names: tuple[str | None, tuple[str, ...]],
    ) -> None:
        self._file = file
        self._prefix = prefix
        self._first = first
        self._names = names
        self._known: dict[str, None] = {}
        self._columns: dict[str, str | None] = {}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The value of each name; None where the row has none."""
        if not row.keys() <= self._known.keys():
            self._known |= dict.fromkeys(row)
            self._columns = {name: named or self._usual(name, usual) for name, (named, usual) in self._names.items()}
        return {name: None if column is None else row.get(column) for name, column in self._columns.items()}

    def _usual(self, name: str, usual: tuple[str, ...]) -> str | None:
        columns = list(self._known)
        if name in self._first:
            lowered = {column.lower(): column for column in columns[::-1]}
            return next((lowered[usual_name] for usual_name in usual if usual_name in lowered), None)
        return one_column(self._file, columns, None, usual, f"{self._prefix}{name}")

    def never_seen(self) -> list[str]:
        """What is wrong with the columns that somebody named: those that no row has."""
        return [
            f"{self._file.name}: no column {named!r}; there are: {', '.join(self._known)}"
            for named, _ in self._names.values()
            if named is not None and named not in self._known
        ]


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    from visir.parquet import reading_parquet

    with reading_parquet(path, CollectionError):
        return list(pq.read_schema(path).names)


def _ignore(fault: RowFault, place: str, detail: str) -> None:
    """Rows are read once more for what they hold, and counted then."""


# Rows in batches, looked at column by column.

Row = dict[str, Any]
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
