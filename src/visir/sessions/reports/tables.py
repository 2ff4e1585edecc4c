"""What distinguishes sessions that buy, as tables: the printed form, and the tidy one for further computing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.reports.table import Cell, Column, Table
from visir.sessions.definition import FLAGS, REASONS
from visir.sessions.describe import Characterisation, Statistic, StatisticCell

HIDDEN = "hidden"
_DIGITS = {"%": 2, "σ": 2}


def statistic_table(statistic: Statistic, *, intervals: bool = True) -> Table:
    """One table or figure as it is printed: each estimate followed by its 95 % interval, unless these are not wanted.

    A value that is not defined is a dash, a hidden one says so. Raises `ValueError` for one that cannot be computed.
    """
    if statistic.cannot:
        raise ValueError(statistic.cannot)
    columns = [Column(statistic.corner)]
    cells: list[list[Cell]] = [[row] for row in statistic.rows]
    for at, (name, unit) in enumerate(zip(statistic.columns, statistic.units, strict=True)):
        values = [row[at] for row in statistic.cells]
        mixed = any(isinstance(one.value, str) for one in values)
        whole = mixed or not any(isinstance(one.value, float) for one in values)
        digits = 0 if whole else _DIGITS.get(unit, 3)
        columns.append(Column(f"{name} ({unit})" if unit else name, digits, signed=unit == "σ"))
        shown = intervals and any(one.low is not None for one in values)
        if shown:
            columns.append(Column("95 %", digits))
        for row, value in zip(cells, values, strict=True):
            row.append(HIDDEN if value.hidden else _said(value) if mixed else value.value)
            if shown:
                row.append(_interval(value, columns[-2]))
    of = [f"Percentages: {statistic.of}."] if statistic.of else []
    caption = f"{statistic.title} ({statistic.source})"
    return Table.of(columns, cells, caption=caption, notes=[*of, *statistic.notes])


def tidy_statistic(statistic: Statistic) -> Table:
    """One row per value: row, column, unit, value, low, high, hidden."""
    names = (statistic.corner or "what", "column", "unit", "value", "low", "high", "hidden")
    rows: list[list[Cell]] = [
        [row, column, unit, one.value, one.low, one.high, one.hidden]
        for row, cells in zip(statistic.rows, statistic.cells, strict=True)
        for column, unit, one in zip(statistic.columns, statistic.units, cells, strict=True)
    ]
    return Table.of([Column(one) for one in names], rows, caption=statistic.title)


def cannot_table(found: Characterisation) -> Table:
    """What the log cannot tell, and why not."""
    rows = [[one.source, one.title, one.cannot] for one in found.statistics if one.cannot]
    return Table.of([Column("thesis"), Column("what"), Column("why not")], rows, caption="What this log cannot tell")


def rejected_table(counts: Mapping[str, Any]) -> Table:
    """What was set aside and why, and what is remarkable among what was kept, as far as it occurred."""
    read = int(counts["read"])
    rows: list[list[Cell]] = [["rows read", read, 100.0 if read else None, ""]]
    rows.append(["accepted", int(counts["accepted"]), _percent(int(counts["accepted"]), read), ""])
    for heading, told, words in (("rejected", counts["rejected"], REASONS), ("accepted", counts["flags"], FLAGS)):
        for name, count in told.items():
            if count:
                label = f"{heading}: {name.replace('_', ' ')}"
                rows.append([label, int(count), _percent(int(count), read), words.get(name, "")])
    if counts["malformed"]:
        rows.append(["malformed lines", int(counts["malformed"]), None, "no rows; listed in malformed.parquet"])
    return Table.of([Column("events"), Column("count", 0), Column("%", 2), Column("what it is")], rows)


def card_rows(found: Characterisation) -> list[tuple[str, str]]:
    """The log's protocol card: everything beside the events that the numbers depend on, (label, value)."""
    declared = found.declared
    rows = [
        ("folder", found.name),
        ("mapping", str(declared["mapping"])),
        ("what it says of the log", str(declared.get("about") or "")),
        ("hours and weekdays in", str(declared["zone"])),
        ("a session ends after", f"{declared['idle_minutes']:g} minutes without a request"),
        ("events before this left out", str(declared.get("since") or "")),
        ("events from this on left out", str(declared.get("until") or "")),
        ("a session's length", "pages opened, queries, items put into or taken out of the basket; not orders"),
        ("a session's device and channel", "the first that its events name"),
        ("hidden", f"cells of fewer than {found.suppress:,} sessions" if found.suppress > 1 else "nothing"),
        ("intervals", "95 %, sessions of one visitor (or customer) held together"),
        ("engine", found.engine),
    ]
    return [(label, value) for label, value in rows if value]


def _said(value: StatisticCell) -> Cell:
    """A number among words and numbers of other kinds: in digits of its own."""
    if isinstance(value.value, float):
        return f"{value.value:,.2f}"
    return f"{value.value:,}" if isinstance(value.value, int) else value.value


def _interval(value: StatisticCell, column: Column) -> str | None:
    if value.low is None or value.high is None:
        return None
    return f"{column.text(value.low)} … {column.text(value.high)}"


def _percent(count: int, of: int) -> float | None:
    return 100 * count / of if of else None
