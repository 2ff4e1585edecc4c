"""A published table of retrieval results: its source, its protocol in words, and its values."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from sys import float_info
from typing import Any, TypeVar

from visir.display import Displayed
from visir.errors import ConfigurationError, VisirError, docs_page, nearest, raise_faults
from visir.evaluation.published.hub import is_of_hub, read_of_hub
from visir.files import parse_toml, read_json, read_text
from visir.plugins import PUBLISHED, plugin_folders

TASKS = ("i2t", "t2i", "both", "category")
_FILES = (".json", ".toml", ".csv", ".tsv", ".md", ".yaml", ".yml")
_ROW_KEYS = ("system", "collection", *TASKS, "spread")


@dataclass(frozen=True)
class PublishedRow:
    """The values of one system on one collection, as printed.

    Attributes:
        system: The name of the system.
        values: By task and label. Labels are those of the paper. "R@5" is not translated, because the recall that it
            means may be unknown; every other label is the name of a measure, or "rsum" (in percentage points), or "DCG"
            (`dcg_cm@10`), or "R-P" (`rprecision`, printed as a fraction of 1).
        collection: The name of the collection.
        spread: By task and label: the number after a ±, where there is one. The table's notes explain it (variance,
            standard deviation, over which samples).
        in_percent: Whether a percent sign says that values are percentages. Without one, 0.59 may be 59 %.
    """

    system: str
    values: Mapping[str, Mapping[str, float]]
    collection: str = ""
    spread: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    in_percent: bool = False


@dataclass(frozen=True)
class Doubt:
    """Printed values that cannot be right, or do not agree with their label.

    An empty name means all: `Doubt(reason, system="X-VLM", label="R@10")` is one column of one system, in every
    collection and task. The values themselves stay as printed.

    Attributes:
        reason: Why they are doubtful.
        system: The system.
        collection: The collection.
        task: The task.
        label: The label.
    """

    reason: str
    system: str = ""
    collection: str = ""
    task: str = ""
    label: str = ""

    def covers(self, row: PublishedRow, task: str, label: str) -> bool:
        """Whether one printed value is among the doubtful ones."""
        here = (row.system, row.collection, task, label)
        names = (self.system, self.collection, self.task, self.label)
        return all(not name or name == value for name, value in zip(names, here, strict=True))


@dataclass(frozen=True)
class CellDoubt:
    """Cells that cannot be right.

    Attributes:
        reason: Why they are doubtful.
        row: The row; empty for all rows.
        column: The column; empty for all columns.
    """

    reason: str
    row: str = ""
    column: str = ""

    def covers(self, row: str, column: str) -> bool:
        """Whether a cell is among the doubtful ones."""
        return self.row in ("", row) and self.column in ("", column)


@dataclass(frozen=True, repr=False)
class Published(Displayed):
    """A table from a paper, with its source.

    Attributes:
        name: The name of the table.
        title: Its title.
        source: The document and the number.
        rows: One per system and collection.
        decimals: How many decimals are printed.
        protocol: The source's description of its protocol, in words, by field of `Protocol`; hints for a reader, never
            used to change a number.
        notes: What a reader should know before a comparison.
        doubtful: Doubtful printed values, with the reason; `doubt()` looks up one value.
    """

    name: str
    title: str
    source: str
    rows: tuple[PublishedRow, ...]
    decimals: int = 2
    protocol: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    doubtful: tuple[Doubt, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems in the order of the table."""
        return tuple(dict.fromkeys(row.system for row in self.rows))

    @property
    def collections(self) -> tuple[str, ...]:
        """The collections in the order of the table."""
        return tuple(dict.fromkeys(row.collection for row in self.rows))

    def doubt(self, row: PublishedRow, task: str, label: str) -> str:
        """Why a printed value is doubtful.

        Args:
            row: The row.
            task: The task.
            label: The label.

        Returns:
            The reasons; empty if the value is not doubtful.
        """
        return " ".join(doubt.reason for doubt in self.doubtful if doubt.covers(row, task, label))

    def row(self, system: str | None = None, collection: str | None = None) -> PublishedRow:
        """The one row of a system and a collection.

        Args:
            system: The system; case, spaces and punctuation do not matter. None if there is only one.
            collection: The collection, likewise.

        Returns:
            The row.

        Raises:
            VisirError: A name is unknown, or not exactly one row fits; the choices are listed.
        """
        matching = self.rows_of(system, collection)
        if len(matching) != 1:
            choices = ", ".join(
                f"{row.system} on {row.collection}" if row.collection else row.system for row in matching
            )
            raise VisirError(
                f"{self.name}: {len(matching)} rows fit: {choices or 'none'}.",
                hint="say which: --as SYSTEM, --on COLLECTION (in Python system=, collection=)",
                code="rows-fit",
            )
        return matching[0]

    def rows_of(self, system: str | None = None, collection: str | None = None) -> tuple[PublishedRow, ...]:
        """The rows of a system, of a collection, or of both; all of them where neither is named.

        Args:
            system: The system; case, spaces and punctuation do not matter.
            collection: The collection, likewise.

        Returns:
            The rows in the order of the table.

        Raises:
            VisirError: A name is unknown; the nearest ones are named.
        """
        faults = []
        for kind, requested, known in (("system", system, self.systems), ("collection", collection, self.collections)):
            if requested is not None and _plain(requested) not in map(_plain, known):
                faults.append(f"no {kind} {requested!r} ({nearest(requested, known)})")
        hint = "say which: --as SYSTEM, --on COLLECTION (in Python system=, collection=)"
        raise_faults(VisirError, self.name, faults, hint=hint)
        return tuple(
            row
            for row in self.rows
            if (system is None or _plain(row.system) == _plain(system))
            and (collection is None or _plain(row.collection) == _plain(collection))
        )


PAPERS = "the tables of the papers: pip install visir-papers"
"""What is said where no package with tables is installed."""


def files_of_tables(folder: str = "") -> dict[str, Path]:
    """Name → file of the tables that installed packages have: of retrieval results, or of any other kind ("plain")."""
    files = (path for parent in plugin_folders(PUBLISHED) for path in (parent / folder).glob("*.json"))
    return dict(sorted((path.stem, path) for path in files))


def shipped() -> tuple[str, ...]:
    """The names of the installed tables of retrieval results (`visir-papers` has some); `every_table` has all."""
    return tuple(files_of_tables())


def load(name_or_path: str | Path) -> Published:
    """Read a published table of retrieval results.

    Args:
        name_or_path: A name of `shipped`, or a `.json` or `.toml` file with `title`, `source`, optional `decimals`,
            `protocol`, `notes`, `doubtful` (a list of `{reason, system?, collection?, task?, label?}`), and `rows`: a
            list of `{system, collection?, i2t?: {label: value}, t2i?: {…}, both?: {…}, spread?: {i2t?: {…}, …}}`. Or a
            `.csv` or `.tsv` file with the columns `system`, `collection` (may be left out), and one for each value,
            named "t2i R@1"; a cell is empty, 37.82, or 37.82 ± 0.3. Or a model of the Hugging Face Hub as a folder, its
            card (`README.md`), or a `.yaml` file of its `.eval_results`.

    Returns:
        The table.

    Raises:
        VisirError: There is no such file or table, or the table has no retrieval results.
        ConfigurationError: The file has faults; all are listed.

    Example:
        >>> load("brittleness-table-3").systems
        ('ALIGN', 'AltCLIP', 'CLIP', 'GroupViT')
    """
    path, name = Path(name_or_path), str(name_or_path)
    if not path.suffix and name in shipped():
        path = files_of_tables()[name]
    elif not path.suffix and name in plain_tables():
        raise VisirError(
            f"{name_or_path}: this table is not of systems and tasks of search, so no result compares with it.",
            hint="read it with visir.evaluation.published.open_table; it is printed on "
            + docs_page("background/published-values"),
            code="table-not-systems-tasks",
        )
    elif is_of_hub(path):
        title, of_hub, notes = read_of_hub(path)
        listed = tuple(PublishedRow(system, part, data) for (system, data), part in of_hub.items())
        most = max(2, _most_decimals(list(of_hub.values()), ()))
        return Published(path.stem, title, str(path), listed, most, notes=notes)
    elif path.is_dir():
        raise VisirError(
            f"{name_or_path}: the folder has no README.md and no .eval_results.",
            hint="hf download OWNER/NAME README.md --local-dir DIR, and name DIR",
            code="no-card-in-folder",
        )
    elif (
        not path.is_file()
        and not path.is_absolute()
        and re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)
        and path.suffix.lower() not in _FILES
    ):
        raise VisirError(
            f"{name_or_path}: no such file or folder; a model of the Hub is not fetched.",
            hint=f"hf download {name} README.md --local-dir DIR, and name DIR",
            code="published-not-fetched",
        )
    elif not path.is_file():
        raise VisirError(
            f"{name_or_path}: no such file, and no published table of that name.",
            hint=nearest(name, shipped()) if shipped() else PAPERS,
        )
    known = ("title", "source", "decimals", "protocol", "notes", "doubtful", "rows")
    content, faults = _content(path, known, ("title", "source", "rows"), "background/significance")
    decimals = content.get("decimals", max(2, _most_decimals(content.get("rows") or [])))
    if not isinstance(decimals, int) or decimals < 0:
        faults.append(f"'decimals' is the number of printed decimals, not {decimals!r}")
    rows = []
    for index, row in enumerate(content.get("rows") or []):
        where = f"row {index + 1} ({row.get('system', 'no system')}, {row.get('collection', 'no collection')})"
        if not row.get("system"):
            faults.append(f"{where}: 'system' is missing")
        faults += [f"{where}: unknown key {key!r} ({nearest(key, _ROW_KEYS)})" for key in row if key not in _ROW_KEYS]
        values = {task: row[task] for task in TASKS if task in row}
        if not values:
            faults.append(f"{where}: no values under i2t, t2i, both or category")
        spread = row.get("spread", {})
        faults += [
            f"{where}: {task} {label} is {value!r}, not a number"
            for task, part in (*values.items(), *((f"± {name}", part) for name, part in spread.items()))
            for label, value in part.items()
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= float_info.max
        ]
        faults += [
            f"{where}: ± of {task} {label}, which has no value"
            for task, part in spread.items()
            for label in part
            if label not in values.get(task, {})
        ]
        rows.append(PublishedRow(str(row.get("system", "")), values, str(row.get("collection", "")), spread))
    printed = [(row, task, label) for row in rows for task, part in row.values.items() for label in part]
    doubtful = _doubts(Doubt, content, printed, faults)
    _raise(path, faults, "background/significance")
    return Published(
        path.stem,
        content["title"],
        content["source"],
        tuple(rows),
        decimals,
        content.get("protocol", {}),
        tuple(content.get("notes", ())),
        doubtful,
    )


def _rows_of_table(path: Path) -> dict[str, Any]:
    """The content of a table of comma- or tab-separated values, in the form of the other files."""
    lines = csv.DictReader(read_text(path).splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
    names = [name for name in lines.fieldnames or () if name not in ("system", "collection")]
    faults = [] if "system" in (lines.fieldnames or ()) else ["the column 'system' is missing"]
    faults += [
        f"column {name!r}: of which task? Write one of {', '.join(f'{task} {name}' for task in TASKS[:2])}"
        for name in names
        if name.partition(" ")[0] not in TASKS or not name.partition(" ")[2]
    ]
    rows = []
    try:
        listed = list(lines)
    except csv.Error as fault:
        raise ConfigurationError(f"{path}: no table: {fault}.", hint="is it the right file?", code="no-csv") from fault
    for number, cells in enumerate(listed, 2):
        row: dict[str, Any] = {"system": cells.get("system"), "collection": cells.get("collection") or "", "spread": {}}
        for name in names:
            task, _, label = name.partition(" ")
            value, _, spread = (part.strip(" %*") for part in (cells.get(name) or "").partition("±"))
            for kind, cell in ((row, value), (row["spread"], spread)):
                if cell in ("", "-", "–", "—"):
                    continue
                if not re.fullmatch(r"\d+(\.\d+|,\d{1,2})?", cell):  # three digits after a comma are thousands
                    faults.append(f"line {number}, {name}: {cell!r} is no number")
                    continue
                kind.setdefault(task, {})[label.strip()] = float(cell.replace(",", "."))
        rows.append(row)
    hint = f"mend the file; its form is in {docs_page('how-to/explain')}"
    raise_faults(ConfigurationError, str(path), faults, hint=hint)
    return {"title": path.stem, "source": path.name, "rows": rows}


def _content(path: Path, known: Sequence[str], needed: Sequence[str], page: str) -> tuple[dict[str, Any], list[str]]:
    """What is in the file of a table, and what is wrong with its keys."""
    if path.suffix == ".toml":
        content: Any = parse_toml(read_text(path), path)
    elif path.suffix in (".csv", ".tsv"):
        content = _rows_of_table(path)
    else:
        content = read_json(path)
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: expected an object with {', '.join(known)}.", hint=f"see {docs_page(page)}")
    faults = [f"unknown key {key!r} ({nearest(key, known)})" for key in content if key not in known]
    return content, faults + [f"{key!r} is missing" for key in needed if not content.get(key)]


def _raise(path: Path, faults: Sequence[str], page: str) -> None:
    raise_faults(ConfigurationError, str(path), faults, hint=f"mend the file; its form is in {docs_page(page)}")


AnyDoubt = TypeVar("AnyDoubt", Doubt, CellDoubt)


def _doubts(
    kind: type[AnyDoubt], content: Mapping[str, Any], printed: Sequence[tuple[Any, ...]], faults: list[str]
) -> tuple[AnyDoubt, ...]:
    """The doubts of a file; each has a reason, and covers something that is printed."""
    known = tuple(entry.name for entry in fields(kind))
    doubts = []
    for index, entry in enumerate(content.get("doubtful", ()), 1):
        faults += [f"doubt {index}: unknown key {key!r} ({nearest(key, known)})" for key in entry if key not in known]
        doubt = kind(**{"reason": "", **{key: value for key, value in entry.items() if key in known}})
        if not doubt.reason:
            faults.append(f"doubt {index}: 'reason' is missing")
        if not any(doubt.covers(*place) for place in printed):
            faults.append(f"doubt {index}: no printed value has these names")
        doubts.append(doubt)
    return tuple(doubts)


def _most_decimals(rows: Sequence[Any], tasks: Sequence[str] = TASKS) -> int:
    """The most decimals of a value of a table that does not state them: fractions of 1 have three or four."""
    parts = [row.get(task) for row in rows if isinstance(row, dict) for task in tasks or row]
    values = [value for part in parts if isinstance(part, dict) for value in part.values()]
    return max((len(repr(value).partition(".")[2]) for value in values if isinstance(value, float)), default=0)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class PlainTable:
    """Rows, columns and cells as printed, with the source.

    Attributes:
        name: The name of the table.
        title: Its title.
        source: The document and the number.
        columns: The names of the columns.
        rows: By name: one text per column; "–" where the paper prints a dash or nothing.
        units: By column: its unit ("%", "ms", "queries per second"); a column without one holds pure numbers or words.
        conditions: The source's description of how the numbers were measured, in words, by subject.
        notes: What a reader should know before a comparison.
        doubtful: Doubtful cells, with the reason.
    """

    name: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    units: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    doubtful: tuple[CellDoubt, ...] = ()

    def cell(self, row: str, column: str) -> str:
        """A cell as printed.

        Args:
            row: The name of the row.
            column: The name of the column.

        Returns:
            The text.

        Raises:
            VisirError: A name is unknown.
        """
        for kind, requested, known in (("row", row, self.rows), ("column", column, self.columns)):
            if requested not in known:
                raise VisirError(
                    f"{self.name}: no {kind} {requested!r}.", hint=nearest(requested, known), code="no-such-name"
                )
        return self.rows[row][self.columns.index(column)]

    def number(self, row: str, column: str) -> float | None:
        """A cell as a number, without thousands separators.

        Args:
            row: The name of the row.
            column: The name of the column.

        Returns:
            The number; None for words, a dash, or a bound (`<1`).

        Raises:
            VisirError: A name is unknown.
        """
        text = self.cell(row, column).replace(",", "")
        return float(text) if re.fullmatch(r"[-+]?\d+(\.\d+)?", text) else None

    def doubt(self, row: str, column: str) -> str:
        """Why a cell is doubtful.

        Args:
            row: The name of the row.
            column: The name of the column.

        Returns:
            The reasons; empty if the cell is not doubtful.
        """
        return " ".join(doubt.reason for doubt in self.doubtful if doubt.covers(row, column))


def plain_tables() -> tuple[str, ...]:
    """The names of the installed plain tables."""
    return tuple(files_of_tables("plain"))


def read_plain(path: Path) -> PlainTable:
    """Read a plain table from a JSON file."""
    known = tuple(field.name for field in fields(PlainTable) if field.name != "name")
    content, faults = _content(path, known, known[:4], "background/published-values")
    columns = tuple(content.get("columns", ()))
    rows = {name: tuple(cells) for name, cells in content.get("rows", {}).items()}
    faults += [
        f"column {column!r} stands there twice" for index, column in enumerate(columns) if column in columns[:index]
    ]
    faults += [f"a unit for {name!r}, which is no column" for name in content.get("units", {}) if name not in columns]
    for name, cells in rows.items():
        if len(cells) != len(columns):
            faults.append(f"row {name!r}: {len(cells)} cells for {len(columns)} columns")
        faults += [f"row {name!r}: {cell!r} is not text" for cell in cells if not isinstance(cell, str) or not cell]
    doubtful = _doubts(CellDoubt, content, [(row, column) for row in rows for column in columns], faults)
    _raise(path, faults, "background/published-values")
    return PlainTable(
        path.stem,
        content["title"],
        content["source"],
        columns,
        rows,
        content.get("units", {}),
        content.get("conditions", {}),
        tuple(content.get("notes", ())),
        doubtful,
    )
