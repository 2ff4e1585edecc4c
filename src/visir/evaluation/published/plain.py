"""A published table that is not of systems and tasks of search: statistics, counts, speed, words.

Retrieval results have a record of their own (`record.py`), because they are judged against an `Evaluation`: it knows
systems, collections, tasks and measures. A table of how many devices purchasers own has none of these, and giving
it a "task" would be a lie that code could stumble over. What all tables share is rows, columns, and cells that
somebody printed. So that is the whole record, and a cell is *text as printed*: "1,786", "<1", "✓", "09.84", "7.50"
keep their digits and signs, and `number` reads what is a number. A table that has groups of rows says so in the names
of its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.files import read_json

FOLDER = Path(__file__).parent / "plain"


@dataclass(frozen=True)
class CellDoubt:
    """Cells that cannot be right, and the reason; an empty row or column stands for all of them."""

    reason: str
    row: str = ""
    column: str = ""

    def covers(self, row: str, column: str) -> bool:
        """Whether a cell is among the doubtful ones."""
        return self.row in ("", row) and self.column in ("", column)


@dataclass(frozen=True)
class PlainTable:
    """Rows, columns and cells as printed, with the source.

    - `rows[name]`: one text per column, in the order of `columns`; "–" where the paper prints a dash or nothing
    - `units`: unit by column ("%", "ms", "queries per second"); a column without one holds pure numbers or words
    - `conditions`: what the source says about how the numbers came about, in words, by what it is about
    - `notes`: what one should know before comparing; `doubtful`: cells not to be trusted, with the reason
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
        """A cell as printed; unknown names are errors that list the choices."""
        for kind, requested, known in (("row", row, self.rows), ("column", column, self.columns)):
            if requested not in known:
                raise VisirError(f"{self.name}: no {kind} {requested!r}.", hint=nearest(requested, known))
        return self.rows[row][self.columns.index(column)]

    def number(self, row: str, column: str) -> float | None:
        """A cell as a number, thousands separators removed; None when it holds words, a dash, or a bound (`<1`)."""
        text = self.cell(row, column).replace(",", "")
        return float(text) if re.fullmatch(r"[-+]?\d+(\.\d+)?", text) else None

    def doubt(self, row: str, column: str) -> str:
        """Why a cell is doubtful; empty when it is not."""
        return " ".join(doubt.reason for doubt in self.doubtful if doubt.covers(row, column))


def plain_tables() -> tuple[str, ...]:
    """The names of the plain tables that come with visir as files."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def read_plain(path: Path) -> PlainTable:
    """A plain table from a JSON file: `title`, `source`, `columns`, `rows` (name → list of texts), and, optional,
    `units`, `conditions`, `notes`, `doubtful` (a list of `{reason, row?, column?}`).

    Raises `ConfigurationError` listing every fault: unknown keys, rows of another length, cells that are not text,
    doubts about cells that there are not.
    """
    content: Any = read_json(path)
    known = tuple(field.name for field in fields(PlainTable) if field.name != "name")
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: expected an object with {', '.join(known)}.", hint="see docs/published.md")
    faults = [f"unknown key {key!r} ({nearest(key, known)})" for key in content if key not in known]
    faults += [f"{key!r} is missing" for key in known[:4] if not content.get(key)]
    columns = tuple(content.get("columns", ()))
    rows = {name: tuple(cells) for name, cells in content.get("rows", {}).items()}
    faults += [f"column {column!r} stands there twice" for at, column in enumerate(columns) if column in columns[:at]]
    faults += [f"a unit for {name!r}, which is no column" for name in content.get("units", {}) if name not in columns]
    for name, cells in rows.items():
        if len(cells) != len(columns):
            faults.append(f"row {name!r}: {len(cells)} cells for {len(columns)} columns")
        faults += [f"row {name!r}: {cell!r} is not text" for cell in cells if not isinstance(cell, str) or not cell]
    doubtful = []
    for at, entry in enumerate(content.get("doubtful", ())):
        doubt = CellDoubt(entry.get("reason", ""), entry.get("row", ""), entry.get("column", ""))
        if not doubt.reason or set(entry) - {"reason", "row", "column"}:
            faults.append(f"doubt {at + 1}: expected a reason and, if need be, row and column")
        if not any(doubt.covers(row, column) for row in rows for column in columns):
            faults.append(f"doubt {at + 1}: no cell has these names")
        doubtful.append(doubt)
    raise_faults(ConfigurationError, str(path), faults, hint="mend the file; its form is in docs/published.md")
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
