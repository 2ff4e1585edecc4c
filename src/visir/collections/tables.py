"""Tables as rows: `read_table` takes any table, `pick` says which of its columns has what.

What a cell means is said in `visir.collections.cells`.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import orjson

from visir.collections.cells import Counts
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import head, json_head, plain_name
from visir.errors import CollectionError, VisirError
from visir.files import iter_lines, open_binary, read_bytes, user_path
from visir.remote import local_path

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
    names_delimiter: bool = False  # whether a line before it says "sep=;", as Excel writes it
    quotes: bool = True  # whether quotes enclose a cell; otherwise they are letters of it
    old_mac: bool = False  # whether lines end with a carriage return alone


def is_text_table(path: Path) -> bool:
    """Whether the name of a file ends like that of a text table."""
    return plain_name(path).lower().endswith(TEXT_TABLES)


def text_layout(
    path: Path, *, delimiter: str = "", encoding: str = "", header: str = "", quotes: str = ""
) -> TextLayout:
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
    lines = [line for line in text.splitlines(keepends=True) if line.strip()][:21]
    of_excel = _OF_EXCEL.fullmatch(lines[0]) if lines else None
    lines = lines[1:] if of_excel else lines[:20]
    usual = "\t" if plain_name(path).lower().endswith(".tsv") else ","
    delimiter = DELIMITERS.get(delimiter, delimiter) or (of_excel[1] if of_excel else find_delimiter(lines, usual))
    first = next(iter(_parsed(lines[:1], delimiter)), [])
    has_header = header == "yes" or (header != "no" and not any(is_picture_name(cell.strip()) for cell in first))
    old_mac = b"\r" in data and b"\n" not in data
    return TextLayout(delimiter, encoding, has_header, of_excel is not None, quotes != "none", old_mac)


_OF_EXCEL = re.compile(r"\ufeff?sep=(.)\s*", re.IGNORECASE)


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
    lines = [line for line in text.splitlines(keepends=True) if line.strip()][: rows + layout.names_delimiter]
    lines = lines[layout.names_delimiter :]
    return [[cell.strip() for cell in cells] for cells in _parsed(lines, layout.delimiter)]


def _parsed(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []


# Tables as people keep them: CSV, TSV, JSON lines and Parquet files as rows with the place of each.


LONGEST_CELL = 1 << 26
"""A cell of a CSV file may have this many characters; longer ones are more likely a quote that was never closed."""
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
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
NOT_CSV = RowFault(
    "rows that are not readable as CSV", "not readable as CSV ({}); where quotes are letters: quotes=none"
)
NOT_JSON = RowFault("lines that are not valid JSON", "not valid JSON: {}")
NO_OBJECT = RowFault("lines that are no JSON object", "expected an object {{…}}, found {}")

OnFault = Callable[[RowFault, str, str], None]
"""Takes a row that cannot be read: what is wrong with it, the place, and the detail."""


@dataclass
class BadRows:
    """Takes what cannot be read in a table: each such row is a fault, or is left out and counted."""

    name: str  # of the table
    fault: Callable[[str], object]  # takes the faults
    how: str = "refuse"  # "skip" leaves out
    left_out: Counts = field(default_factory=Counts)  # what was left out
    advised: set[str] = field(default_factory=set)  # the tables of which the remedy was said

    def notes(self) -> list[str]:
        """What was left out, in sentences."""
        return self.left_out.lines("{what} (left out): {count:,} ({shown})", ", ")

    def row(self, kind: RowFault, place: str, detail: str) -> None:
        """A row that is none: an `OnFault`."""
        self.reject(kind.plural, place, detail, f"{self.name}, {place}: {kind.message.format(detail)}")

    def reject(self, plural: str, place: str, detail: str, message: str) -> None:
        """A row that has not what it needs; `plural` is what such rows are called when they are counted."""
        if self.how == "skip":
            self.left_out.count(plural, f"{place}: {detail}" if detail else place, longest=_LONGEST)
        else:
            remedy = "" if self.name in self.advised else "; mend it, or leave such rows out: bad_rows=skip"
            self.advised.add(self.name)
            self.fault(f"{message}{remedy}")


_LONGEST = 160
"""Characters of an example of what was left out."""


def faults_into(report: Callable[[str], None], file: Path) -> OnFault:
    """What writes each row of a file that cannot be read down as a fault."""
    return lambda fault, place, detail: report(f"{file.name}, {place}: {fault.message.format(detail)}")


def parse_json(line: bytes) -> Any:
    """A line of JSON; programs of Python also write NaN into it, which is nothing."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if b"NaN" not in line and b"Infinity" not in line:
            raise
    return json.loads(line, parse_constant=lambda word: None)


def read_rows(
    path: Path,
    on_fault: OnFault | None = None,
    parse: Callable[[bytes], Any] = parse_json,
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
    path: Path, on_fault: OnFault | None = None, parse: Callable[[bytes], Any] = parse_json
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a file of JSON lines, as `read_rows`. A line may also hold a list of objects, each a row."""
    # A file that is called .json may be one list of objects, over many lines.
    on_fault = on_fault or _raising(path)
    if plain_name(path).lower().endswith(".json") and (rows := whole_json(path)) is not None:
        yield from ((f"object {number}", row) for number, row in enumerate(rows, start=1))
        return
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


def whole_json(path: Path) -> list[Row] | None:
    """The rows of a file that is one list of objects, a dictionary with such a list, or {picture: captions}."""
    if json_head(path)[:1] not in (b"[", b"{"):
        return None
    with open_binary(path) as stream:
        first = stream.readline(LONGEST_CELL).removeprefix(b"\xef\xbb\xbf").strip()
        try:
            if isinstance(parse_json(first), dict) and stream.read(1):
                return None  # lines
        except ValueError:
            pass
    try:
        value = orjson.loads(read_bytes(path).removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        return None
    if isinstance(value, dict):
        parts = [*value.values()]
        objects = [part for part in parts if isinstance(part, dict)]
        lists = [part for part in parts if isinstance(part, list)]
        if {"columns", "data"} <= value.keys():  # as pandas writes it: orient="split"
            value = [dict(zip(value["columns"], row, strict=False)) for row in value["data"]]
        elif parts and len(objects) == len(parts) and all(part.keys() == parts[0].keys() for part in parts):
            value = [{name: cells[key] for name, cells in value.items()} for key in parts[0]]  # orient="columns"
        elif captions_by_picture(value) and all(map(is_picture_name, value)):
            value = [{"image": name, "caption": captions} for name, captions in value.items()]
        else:
            value = lists[0] if len(lists) == 1 else None
    return value if value and all(isinstance(row, dict) for row in value) else None


def captions_by_picture(value: Any) -> bool:
    """Whether a value of JSON can be {"a.jpg": "a dog", "b.jpg": ["a cat", "a pet"]}."""
    texts = [*chain.from_iterable(part if isinstance(part, list) else [part] for part in value.values())]
    return bool(texts) and all(isinstance(text, str) for text in texts)


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
    known: dict[str, str] = {}  # a cell that stands often is one text in memory: colours, brands, prices
    for number, (start, values) in enumerate(cells):
        if len(values) != len(columns):
            report(UNEVEN, f"line {start}", f"{len(values)} values for {len(columns)} columns")
        else:
            shared = known.setdefault if number < _LOOKED_AT else known.get
            yield f"line {start}", dict(zip(columns, map(shared, values, values), strict=True))


_LOOKED_AT = 5_000
"""Rows whose cells are kept, so that they are shared with later rows."""


def _cells(path: Path, on_fault: OnFault, layout: TextLayout) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row that is readable as CSV and not empty, the header first."""
    csv.field_size_limit(LONGEST_CELL)
    lines = _text_lines(path, layout.old_mac) if layout.encoding == UTF_8 else _decoded_lines(path, layout.encoding)
    if layout.names_delimiter:
        next(lines, None)
        lines = chain(["\n"], lines)  # an empty line, so that the others keep their numbers
    if layout.delimiter == "\t":
        yield from _tabbed(lines)
        return
    # "a.jpg| 0| a dog": bars stand with a space behind them
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if layout.quotes else csv.QUOTE_NONE
    blanks = layout.delimiter == "|"
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True, skipinitialspace=blanks, quoting=quoting)
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


def _text_lines(path: Path, old_mac: bool = False) -> Iterator[str]:
    source = read_bytes(path).rstrip(b"\r").split(b"\r") if old_mac else iter_lines(path)
    for number, line in enumerate(source, start=1):
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
            columns = [to_microseconds(column) for column in batch.columns]
            for row in pa.record_batch(columns, batch.schema.names).to_pylist():
                number += 1
                yield (
                    f"row {number}",
                    {
                        name: None if (not isinstance(value, list | dict) and bool(value != value)) else value
                        for name, value in row.items()
                    },
                )


def to_microseconds(column: pa.Array) -> pa.Array:
    """Moments and durations as Python has them; what is finer needs pandas, and is lost there as well."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column


# Any table: a file, or something in memory.

Row = dict[str, Any]


@dataclass(frozen=True)
class OpenTable:
    """A table wherever it is: its columns, and its rows, each with its place."""

    name: str  # what errors call it
    columns: list[str]  # of JSON lines, whose rows may differ, those of the first thousand
    # The rows; the callback takes those that cannot be read (without one they raise), and the names are the columns
    # that are wanted, as far as leaving others out saves work.
    read: Callable[[OnFault | None, Sequence[str] | None], Iterator[tuple[str, Row]]] = lambda on_fault, names: iter(())
    path: Path | None = None  # its file; None for one in memory
    layout: TextLayout | None = None  # of a text table
    held: Mapping[str, Sequence[Any]] | None = None  # the columns of one in memory

    def rows(self, on_fault: OnFault | None = None, columns: Sequence[str] | None = None) -> Iterator[tuple[str, Row]]:
        """The rows as (place, row): the place is "line 7" or "row 7", as errors name it."""
        return self.read(on_fault, columns)


def read_table(
    source: Any,
    name: str = "the table",
    *,
    header: str = "",
    encoding: str = "",
    delimiter: str = "",
    quotes: str = "",
) -> OpenTable:
    """Read any table: a file, a data frame, an Arrow table, a data set, columns or rows in dictionaries.

    Args:
        source: The path or the address of a CSV, TSV, JSON, JSON lines or Parquet file, which may be compressed; a
            DataFrame of pandas or polars, an Arrow table, a `datasets.Dataset`; `{column: [cell, …]}`, or a list of
            `{column: cell}`.
        name: What errors call a table that is in memory.
        header: Of a text table: whether its first line has names, "yes" or "no"; "" finds out.
        encoding: Of a text table; "" finds out.
        delimiter: Of a text table; "" finds out.
        quotes: Of a text table: "none" where quotes are letters, and enclose nothing.

    Raises:
        CollectionError: The source is no table, or its columns differ in length.

    Example:
        >>> table = read_table([{"image": "a.jpg", "caption": "a dog"}])
        >>> table.columns, list(table.rows())
        (['image', 'caption'], [('row 1', {'image': 'a.jpg', 'caption': 'a dog'})])
    """
    if isinstance(source, OpenTable):
        return source
    if isinstance(source, (str, Path)):
        path = user_path(local_path(str(source)))
        layout = None
        if is_text_table(path):
            layout = text_layout(path, header=header, encoding=encoding, delimiter=delimiter, quotes=quotes)
        return OpenTable(
            str(path), first_columns(path, layout),
            lambda on_fault, names: read_rows(path, on_fault, columns=names, layout=layout), path, layout,
        )  # fmt: skip
    columns = columns_of(source, plain=True)
    if columns is None:
        raise CollectionError(
            f"{name}: a {type(source).__name__} is no table.",
            hint="a table is a file, a data frame, an Arrow table, {column: [cell, …]}, or a list of {column: cell}",
            code="no-table",
        )
    return OpenTable(name, list(columns), lambda on_fault, names: table_rows(columns, name), held=columns)


def columns_of(value: Any, *, plain: bool = False) -> dict[str, list[Any]] | None:
    """Return the columns of a table in memory as lists by name; None for anything that is no table."""
    # Missing values (NaN, NaT, NA in pandas) become None, lists that are arrays become lists.
    # plain: Whether dictionaries of lists and lists of dictionaries are tables, too.
    import pyarrow as pa

    package = type(value).__module__.partition(".")[0]
    if package == "pandas" and hasattr(value, "columns"):  # cells may hold what Arrow does not know, such as pictures
        if isinstance(value.index.name, str) and value.index.name not in value.columns:  # read_csv(index_col=0)
            value = value.reset_index()
        return {str(name): _series(value[name]) for name in value.columns}
    if hasattr(value, "to_dict") and package == "polars" and hasattr(value, "columns"):
        return {str(name): values for name, values in value.to_dict(as_series=False).items()}
    if package == "datasets" and hasattr(value, "with_format") and hasattr(value, "column_names"):
        value = value.with_format("arrow")[:]
    if plain and isinstance(value, Mapping) and all(isinstance(cells, list | tuple) for cells in value.values()):
        return {str(name): list(cells) for name, cells in value.items()}
    if plain and isinstance(value, list | tuple) and value and all(isinstance(row, dict) for row in value):
        names = dict.fromkeys(name for row in value for name in row)
        return {str(name): [row.get(name) for row in value] for name in names}
    if isinstance(value, Mapping) or not hasattr(value, "__arrow_c_stream__"):
        return None
    try:
        table = pa.table(value)
    except (TypeError, ValueError, pa.ArrowInvalid):  # a single column
        return None
    return {name: [_not_nan(cell) for cell in table.column(name).to_pylist()] for name in table.schema.names}


def _series(series: Any) -> list[Any]:
    """The cells of a column of pandas as Python has them."""
    cells = series.tolist()
    if series.dtype == object:
        cells = [_of_numpy(cell) for cell in cells]
    return [None if gone is True else cell for cell, gone in zip(cells, series.isna().tolist(), strict=True)]


def _of_numpy(cell: Any) -> Any:
    """A list or a number of NumPy as one of Python."""
    dimensions = getattr(cell, "ndim", None)
    return cell.tolist() if dimensions == 1 or (dimensions == 0 and hasattr(cell, "dtype")) else cell


def _not_nan(cell: Any) -> Any:
    return None if isinstance(cell, float) and cell != cell else cell


def arrow_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Columns as an Arrow table; one whose values Arrow cannot hold (a number, a text) as text."""
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # whole numbers beyond 64 bits with sign
            arrays[name] = pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.table(arrays)


def table_rows(table: Mapping[str, Sequence[Any]], where: str) -> Iterator[tuple[str, Row]]:
    """Go through columns row by row."""
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise CollectionError(f"{where}: the columns differ in length: {shown}.", code="columns-differ-length")
    for number, values in enumerate(zip(*table.values(), strict=True), 1):
        yield f"row {number}", dict(zip(table, values, strict=True))


# Which columns a table has, and which of them holds what.


IMAGE_COLUMNS = ("file_name", "image", "filename", "file", "image_path", "filepath", "img", "image_name")
CAPTION_COLUMNS = ("text", "caption", "captions", "texts", "sentence", "sentences", "raw", "description", "title")
IMAGE_ALSO = ("photo", "picture", "path", "img_path", "image_file", "file_path", "img_name", "image_url", "img_url",
              "url")  # fmt: skip
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
    rows = islice(json_lines(path, _ignore), _FIRST_ROWS)
    return list(dict.fromkeys(name for _, row in rows for name in row))


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
        if name.endswith(".json"):
            return _json_columns(path)
        with open_binary(path) as stream:  # the first row may be longer than any head of the file
            row = parse_json(stream.readline(LONGEST_CELL).removeprefix(b"\xef\xbb\xbf"))
    except (VisirError, OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, ValueError):
        return []
    row = row[0] if isinstance(row, list) and row else row
    return list(row) if isinstance(row, dict) else []


Usual = tuple[str, ...] | tuple[tuple[str, ...], ...]
"""What a column is usually called; of several such lists one counts where there is none of those before."""


@dataclass(frozen=True)
class Picked:
    """Which column holds what."""

    columns: dict[str, str | None]  # by role; None where there is no such column
    notes: list[str]  # what else could have been taken, in sentences

    def __getitem__(self, role: str) -> str | None:
        return self.columns[role]


def pick(
    table: OpenTable,
    given: Mapping[str, str | int | None] = MappingProxyType({}),
    /,
    *,
    first: Collection[str] = (),
    prefix: str = "",
    **usual: Usual,
) -> Picked:
    """Choose the columns of a table by their usual names.

    Args:
        table: The table.
        given: The columns that somebody named, by role: by name, or by their number from 1.
        first: The roles of which the first usual name counts; of the others two such columns are refused.
        prefix: What stands before the role in errors: "query ".
        **usual: By role what its column is usually called.

    Raises:
        CollectionError: There is no column of a name that somebody gave, or two that nothing tells apart.

    Example:
        >>> picked = pick(read_table({"Image Name": ["a.jpg"], "comment": ["a dog"], "alt": ["dog"]}),
        ...               image=("image_name",), caption=(("caption",), ("comment",), ("alt",)))
        >>> picked["image"], picked["caption"], picked.notes
        ('Image Name', 'comment', ["caption: column 'comment' (not 'alt', caption= names another)"])
    """
    columns: dict[str, str | None] = {}
    near: dict[str, list[str]] = {}
    for role, names in usual.items():
        named = given.get(role)
        if named is not None:
            columns[role] = _named(table, str(named))
            continue
        lists: list[tuple[str, ...]] = [entry for entry in names if isinstance(entry, tuple)] or [names]  # type: ignore[list-item]
        levels = [fitting for entry in lists if (fitting := _fitting(table.columns, entry))]
        if levels and len(levels[0]) > 1 and role not in first:
            raise CollectionError(
                f"{table.name}: the {prefix}{role.replace('_', ' ')} could be in {' or '.join(map(repr, levels[0]))}.",
                hint=f"say which: {_option(prefix, role)}={levels[0][0]}",
                code="several-columns",
            )
        fitting = list(dict.fromkeys(chain.from_iterable(levels)))
        columns[role], near[role] = (fitting[0], fitting[1:]) if fitting else (None, [])
    taken = {*columns.values()}
    notes = [
        f"{role}: column {columns[role]!r} (not {', '.join(map(repr, others))}, {_option(prefix, role)}= names another)"
        for role, names in near.items()
        if (others := [name for name in names if name not in taken])
    ]
    return Picked(columns, notes)


def _named(table: OpenTable, name: str) -> str:
    if name not in table.columns and name.isdecimal() and 0 < int(name) <= len(table.columns):
        return table.columns[int(name) - 1]
    if name not in table.columns:
        raise CollectionError(
            f"{table.name}: no column {name!r}.", hint=f"there are: {', '.join(table.columns)}", code="no-such-column"
        )
    return name


def _option(prefix: str, role: str) -> str:
    """The option that names the column."""
    name = f"{prefix.replace(' ', '_')}{role}"
    return name if name in ("image", "caption", "id", "caption_id") else f"{name}_column"


def plain_column(name: str) -> str:
    """The name of a column without the ways in which people write it."""
    return re.sub(r"[\W_]+", "_", name.strip().lower()).strip("_")


def _fitting(columns: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The columns with these names, in their order: written so, in any case; else in other ways: "Image Name"."""
    for form in (str.lower, plain_column):
        fitting = [column for name in usual for column in columns if form(column) == form(name)]
        if fitting:
            return list(dict.fromkeys(fitting))
    return []


class ColumnPicker:
    """Picks values out of rows by the names of their columns; JSON rows may bring new columns at any time."""

    def __init__(
        self,
        name: str,
        given: Mapping[str, str | None],
        /,
        *,
        first: Collection[str] = (),
        prefix: str = "",
        **usual: Usual,
    ) -> None:
        self._table = OpenTable(name, [])
        self._known: dict[str, None] = {}
        self._given = {role: named for role, named in given.items() if named is not None and role in usual}
        self._usual, self._first, self._prefix = usual, first, prefix
        self._columns: dict[str, str | None] = {}

    def __call__(self, row: Row) -> Row:
        """The value of each role; None where the row has none."""
        if not row.keys() <= self._known.keys():
            self._known |= dict.fromkeys(row)
            self._table.columns[:] = self._known
            usual = {role: names for role, names in self._usual.items() if role not in self._given}
            picked = pick(self._table, first=self._first, prefix=self._prefix, **usual)
            self._columns = {role: self._given.get(role) or picked[role] for role in self._usual}
        return {role: None if column is None else row.get(column) for role, column in self._columns.items()}

    def never_seen(self) -> list[str]:
        """What is wrong with the columns that somebody named: those that no row has."""
        return [
            f"{self._table.name}: no column {named!r}; there are: {', '.join(self._known)}"
            for named in self._given.values()
            if named not in self._known
        ]


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    from visir.parquet import reading_parquet

    with reading_parquet(path, CollectionError):
        return list(pq.read_schema(path).names)


def _json_columns(path: Path) -> list[str]:
    """The columns of a JSON file whose rows are in a list or in lines, by its beginning; of a large one no other."""
    text = json_head(path).decode("utf-8", "replace")
    start = text.find("{")
    if text[:1] not in ("[", "{") or start < 0:
        return []
    row, end = json.JSONDecoder().raw_decode(text, start)
    if text[:1] == "{" and not text[end:].strip():  # one object: what has the rows in it
        row = next(iter(whole_json(path) or []), {})
    return list(row)


def _ignore(fault: RowFault, place: str, detail: str) -> None:
    """Rows are read once more for what they hold, and counted then."""
