"""What distinguishes sessions that buy, as tables: the printed form, and the tidy one for further computing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.reports.table import Cell, Column, Table
from visir.sessions.definition import FLAGS, REASONS
from visir.sessions.description import Characterisation, Statistic, StatisticCell
from visir.sessions.description.differences import COUNTS_BELOW, LEAST_CASES
from visir.sessions.description.statistic import percent
from visir.sessions.reports.intent import WORDS, value_words
from visir.sessions.table_labels import passed_over_words

HIDDEN = "hidden"
_DIGITS = {"%": 2, "σ": 2}


def statistic_table(statistic: Statistic, *, intervals: bool = True) -> Table:
    """One table or figure as it is printed: each estimate followed by its 95 % interval."""
    # A value that is not defined is a dash; a hidden one says so.
    if statistic.unavailable:
        raise ValueError(statistic.unavailable)
    columns = [Column(statistic.corner)]
    cells: list[list[Cell]] = [[row] for row in statistic.rows]
    for position, (name, unit) in enumerate(zip(statistic.columns, statistic.units, strict=True)):
        values = [row[position] for row in statistic.cells]
        mixed = any(isinstance(cell.value, str) for cell in values)
        whole = mixed or not any(isinstance(cell.value, float) for cell in values)
        digits = 0 if whole else _DIGITS.get(unit, 3)
        columns.append(Column(f"{name} ({unit})" if unit else name, digits, signed=unit == "σ"))
        shown = intervals and any(cell.low is not None for cell in values)
        if shown:
            columns.append(Column("95 %", digits))
        for row, value in zip(cells, values, strict=True):
            row.append(HIDDEN if value.hidden else _cell_text(value) if mixed else value.value)
            if shown:
                row.append(_interval(value, columns[-2]))
    percentages = [f"Percentages: {statistic.of}."] if statistic.of else []
    caption = f"{statistic.title} ({statistic.source})"
    return Table.of(columns, cells, caption=caption, notes=[*percentages, *statistic.notes])


def tidy_statistic(statistic: Statistic) -> Table:
    """One row per value: row, column, unit, value, low, high, hidden."""
    names = (statistic.corner or "what", "column", "unit", "value", "low", "high", "hidden")
    rows: list[list[Cell]] = [
        [row, column, unit, cell.value, cell.low, cell.high, cell.hidden]
        for row, cells in zip(statistic.rows, statistic.cells, strict=True)
        for column, unit, cell in zip(statistic.columns, statistic.units, cells, strict=True)
    ]
    return Table.of([Column(name) for name in names], rows, caption=statistic.title)


def difference_tables(characterisation: Characterisation) -> dict[str, Table]:
    """Every comparison: whether it is real, both values with their counts, the difference. What is compared → table."""
    columns = [Column("result"), Column("group"), Column("other group"), Column("difference", 2, signed=True)]
    columns += [Column("95 %"), Column("p (Holm)", 3, positive=True)]
    rows: dict[str, list[list[Cell]]] = {}
    for each in characterisation.differences:
        groups = zip((each.first, each.second), each.values, each.cases, strict=True)
        first, second = (f"{name}: {value_words(each.kind, value, cases)}" for name, value, cases in groups)
        ends = None if each.low is None else f"{columns[3].text(each.low)} … {columns[3].text(each.high)}"
        cells: list[Cell] = [WORDS[each.verdict][0], first, second, each.difference, ends, each.corrected]
        rows.setdefault(each.what, []).append(cells)
    return {what: Table.of(columns, rows_of_what) for what, rows_of_what in rows.items()}


def difference_notes(characterisation: Characterisation) -> list[str]:
    """How to read the tables of differences."""
    tested = sum(each.p is not None for each in characterisation.differences)
    return [
        "Differences of shares are in percentage points. Interval and test are of the difference itself, and hold all "
        "sessions of a visitor (or customer) together.",
        f"p is corrected for all {tested} comparisons of this page (Holm). Real difference: p below 0.05. May be "
        "chance: the interval leaves 0 out, but among so many comparisons that can happen by chance.",
        f"Too few to compare: were both groups alike, one of them would have fewer than {LEAST_CASES} cases. Of fewer "
        f"than {COUNTS_BELOW} sessions counts are given, and no percentages.",
        "A real difference is no cause: visitors of two groups differ in more than the group.",
    ]


def unavailable_table(characterisation: Characterisation) -> Table:
    """The statistics that cannot be computed from the log, with the reasons."""
    rows = [
        [statistic.source, statistic.title, statistic.unavailable]
        for statistic in characterisation.statistics
        if statistic.unavailable
    ]
    return Table.of([Column("thesis"), Column("what"), Column("why not")], rows, caption="What this log cannot tell")


def rejected_table(counts: Mapping[str, Any]) -> Table:
    """How many rows were rejected and why, and what is remarkable among the accepted, as far as it occurred."""
    read = int(counts["read"])
    rows: list[list[Cell]] = [["rows read", read, 100.0 if read else None, ""]]
    rows.append(["accepted", int(counts["accepted"]), percent(int(counts["accepted"]), read), ""])
    for heading, counts_of_kind, words in (
        ("rejected", counts["rejected"], REASONS),
        ("accepted", counts["flags"], FLAGS),
    ):
        for name, count in counts_of_kind.items():
            if count:
                label = f"{heading}: {name.replace('_', ' ')}"
                rows.append([label, int(count), percent(int(count), read), words.get(name, "")])
    if counts["malformed"]:
        rows.append(["malformed lines", int(counts["malformed"]), None, "no rows; listed in malformed.parquet"])
    names = counts.get("passed_over", ())
    if names:
        rows.append(["files passed over", len(names), None, passed_over_words(names)])
    return Table.of([Column("events"), Column("count", 0), Column("%", 2), Column("what it is")], rows)


def card_rows(characterisation: Characterisation) -> list[tuple[str, str]]:
    """The log's protocol card: everything beside the events that the numbers depend on, (label, value)."""
    declared = characterisation.declared
    rows = [
        ("folder", characterisation.name),
        ("mapping", str(declared["mapping"])),
        ("about the log", str(declared.get("about") or "")),
        ("hours, weekdays and days in", str(declared["zone"])),
        ("a session ends after", f"{declared['idle_minutes']:g} minutes without a request"),
        ("events before this left out", str(declared.get("since") or "")),
        ("events from this on left out", str(declared.get("until") or "")),
        ("a session's length", "pages opened, queries, items put into or taken out of the basket; not orders"),
        ("a session's device and channel", "the first that its events name"),
        (
            "hidden",
            f"cells of fewer than {characterisation.suppress:,} sessions"
            if characterisation.suppress > 1
            else "nothing",
        ),
        ("intervals", "95 %, sessions of one visitor (or customer) held together"),
        ("engine", characterisation.engine),
    ]
    return [(label, value) for label, value in rows if value]


def _cell_text(value: StatisticCell) -> Cell:
    """A number among words and numbers of other kinds: in digits of its own."""
    if isinstance(value.value, float):
        return f"{value.value:,.2f}"
    return f"{value.value:,}" if isinstance(value.value, int) else value.value


def _interval(value: StatisticCell, column: Column) -> str | None:
    if value.low is None or value.high is None:
        return None
    return f"{column.text(value.low)} … {column.text(value.high)}"
