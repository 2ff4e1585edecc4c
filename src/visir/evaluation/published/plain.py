"""A published table without systems and search tasks: statistics, counts, speed, words.

Retrieval results have a record of their own (`record.py`) with systems, collections, tasks and measures, because they
are compared with an `Evaluation`. A table of how many devices purchasers own has none of these. All tables have rows,
columns and printed cells, so this record has only those. A cell is *text as printed*: "1,786", "<1", "✓", "09.84",
"7.50" keep their digits and signs, and `number` reads the numbers. A table with groups of rows names the group in the
names of its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, VisirError, docs_page, nearest, raise_faults
from visir.files import read_json

FOLDER = Path(__file__).parent / "plain"


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
    """The names of the plain tables that come with visir as files."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def read_plain(path: Path) -> PlainTable:
    """Read a plain table from a JSON file."""
    content: Any = read_json(path)
    known = tuple(field.name for field in fields(PlainTable) if field.name != "name")
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{path}: expected an object with {', '.join(known)}.",
            hint=f"see {docs_page('background/published-values')}",
        )
    faults = [f"unknown key {key!r} ({nearest(key, known)})" for key in content if key not in known]
    faults += [f"{key!r} is missing" for key in known[:4] if not content.get(key)]
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
    doubtful = []
    for index, entry in enumerate(content.get("doubtful", ())):
        doubt = CellDoubt(entry.get("reason", ""), entry.get("row", ""), entry.get("column", ""))
        if not doubt.reason or set(entry) - {"reason", "row", "column"}:
            faults.append(f"doubt {index + 1}: expected a reason and, if need be, row and column")
        if not any(doubt.covers(row, column) for row in rows for column in columns):
            faults.append(f"doubt {index + 1}: no cell has these names")
        doubtful.append(doubt)
    raise_faults(
        ConfigurationError,
        str(path),
        faults,
        hint=f"mend the file; its form is in {docs_page('background/published-values')}",
    )
    return PlainTable(
        path.stem,
        content["title"],
        content["source"],
        columns,
        rows,
        content.get("units", {}),
        content.get("conditions", {}),
        tuple(content.get("notes", ())),
        tuple(doubtful),
    )
