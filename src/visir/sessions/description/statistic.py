"""A table or figure of the characterisation as plain data, and the hiding of its small cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isnan
from typing import Any, Literal

import visir.stats as stats
from visir.display import Plotted, Tabular, brief, listed


@dataclass(frozen=True, slots=True)
class StatisticCell:
    """One cell: a number (or words), its 95 % interval where it is an estimate, and what it rests on.

    Args:
        value: None where it is not defined (a share of nothing) or hidden.
        low: Lower end of the interval, in the unit of `value`.
        high: Upper end.
        support: The sessions (of Table 6.3 customers, of Figure 6.5 transitions) that the cell counts; `suppressed`
            hides cells of few. None: nothing to hide.
        hidden: Whether it was hidden.
    """

    value: float | int | str | None
    low: float | None = None
    high: float | None = None
    support: int | None = None
    hidden: bool = False


StatisticRow = tuple[StatisticCell, ...]


@dataclass(frozen=True, repr=False)
class Statistic(Tabular, Plotted):
    """One table or figure of thesis sections 6.3 and 6.4, computed from a log.

    Args:
        name: "table-6-4".
        title: In words.
        source: Where the thesis has it.
        corner: What the rows are ("device").
        rows: Names of the rows.
        columns: Names of the columns.
        units: Unit of each column ("%", "queries per session", "").
        cells: Rows × columns.
        of: What the percentages are percentages of.
        notes: Sentences for readers.
        unavailable: Why it cannot be computed from this log, "" where it can; without rows then.
        sums: Along which direction shares add up to a whole, so that one hidden cell would follow from the others.
        linked: Whether the cells of a row follow from one another, so that a row is hidden as a whole.
        together: Columns whose every value depends on all rows: hidden as soon as one cell is.
        rest: (row, other row): the first is what the other leaves of the whole, and so is hidden with it.
    """

    name: str
    title: str
    source: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    units: tuple[str, ...]
    cells: tuple[StatisticRow, ...]
    of: str = ""
    notes: tuple[str, ...] = ()
    unavailable: str = ""
    sums: Literal["columns", "rows", ""] = field(default="columns", repr=False)
    linked: bool = field(default=False, repr=False)
    together: tuple[str, ...] = field(default=(), repr=False)
    rest: tuple[str, str] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        size = f"{self.corner} × {listed(self.columns, len(self.columns))}"
        return brief(self, f"{self.name}: {self.title}", self.unavailable or size)

    @classmethod
    def without(cls, name: str, title: str, source: str, why: str) -> Statistic:
        """A statistic that cannot be computed from this log, with the reason."""
        return cls(name, title, source, "", (), (), (), (), unavailable=f"Cannot be computed: {why}.")

    def value(self, row: str, column: str) -> StatisticCell:
        """One cell by the names of its row and column.

        Raises:
            KeyError: There is no such row or column; the names are listed.
        """
        if row not in self.rows or column not in self.columns:
            raise KeyError(f"{self.name} has rows {self.rows} and columns {self.columns}")
        return self.cells[self.rows.index(row)][self.columns.index(column)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {key: value for key, value in asdict(self).items() if key not in ("sums", "linked", "together", "rest")}


NEEDS = {
    "customer": ("customer", "the log names no customer"),
    "browsers": ("customer", "the log names no customer, and a visitor is one browser"),
    "device": ("device", "the log names no device"),
    "channel": ("channel", "the log names no channel"),
    "query": ("query", "the log records no search"),
}
"""What must be known in some session, and what is said where it is not."""


@dataclass(frozen=True)
class StatisticEntry:
    """A table or figure of the thesis: what it is called, what a log must hold for it, and how it is computed."""

    name: str
    title: str
    source: str
    corner: str
    compute: Callable[[Any, StatisticEntry], Statistic]  # of a `SessionLog`
    needs: tuple[str, ...] = ()  # of `NEEDS`

    def of(self, log: Any) -> Statistic:
        """The statistic of a log, or why the log cannot tell it."""
        for column, reason in map(NEEDS.__getitem__, self.needs):
            if not log.known_counts[column]:
                return self.without(reason)
        return self.compute(log, self)

    def statistic(self, **values: Any) -> Statistic:
        """The statistic with these rows, columns and cells."""
        return Statistic(self.name, self.title, self.source, **{"corner": self.corner, **values})

    def without(self, why: str) -> Statistic:
        """The statistic that cannot be computed from this log, with the reason."""
        return Statistic.without(self.name, self.title, self.source, why)


def percent(count: int, whole: int) -> float | None:
    """`count` in percent of `whole`; None where there is nothing."""
    return 100 * count / whole if whole else None


def suppressed(statistic: Statistic, fewer_than: int) -> Statistic:
    """The statistic without its cells of fewer than `fewer_than` sessions.

    A single hidden share would follow from the others, which add up to a whole; so the smallest of those is hidden with
    it. Where cells of a row follow from one another (shares and conversion rates), the row is hidden as a whole.
    Standardised rates are hidden all at once: two of them give away mean and deviation, and these two hidden rates.
    Zeros are hidden too: that nobody did something is a statement about everybody. This hides small cells;
    it is no proof that nobody can be recognised.

    Args:
        statistic: With all its cells.
        fewer_than: Cells of fewer sessions are hidden; 0 or 1 hides nothing.
    """
    if fewer_than <= 1 or statistic.unavailable:
        return statistic
    support = [[cell.support for cell in row] for row in statistic.cells]
    hidden = [[count is not None and count < fewer_than for count in row] for row in support]
    if statistic.linked:
        hidden = [
            [any(row) and count is not None for count in counts] for row, counts in zip(hidden, support, strict=True)
        ]
    height, width = len(statistic.rows), len(statistic.columns)
    if statistic.sums:
        by_column = statistic.sums == "columns"
        lines = [
            [(row, number) for row in range(height)] if by_column else [(number, column) for column in range(width)]
            for number in range(width if by_column else height)
        ]
        for line in lines:
            counted = [(row, column) for row, column in line if support[row][column] is not None]
            hidden_cells = [(row, column) for row, column in counted if hidden[row][column]]
            rest = [position for position in counted if position not in hidden_cells]
            if len(hidden_cells) == 1 and rest:
                row, column = min(rest, key=lambda position: (support[position[0]][position[1]] or 0, position))
                for other_column in range(width) if statistic.linked else (column,):
                    hidden[row][other_column] = support[row][other_column] is not None
    for column in map(statistic.columns.index, statistic.together):
        if any(row[column] for row in hidden):
            hidden = [[*row[:column], True, *row[column + 1 :]] for row in hidden]
    if statistic.rest:
        row, other = (statistic.rows.index(name) for name in statistic.rest)
        hidden[row] = list(hidden[other])
    count = sum(map(sum, hidden))
    if not count:
        return statistic
    cells = tuple(
        tuple(
            StatisticCell(None, hidden=True) if is_hidden else cell
            for cell, is_hidden in zip(row, hidden_row, strict=True)
        )
        for row, hidden_row in zip(statistic.cells, hidden, strict=True)
    )
    note = f"{count} {'cell is' if count == 1 else 'cells are'} hidden: fewer than {fewer_than:,}, or would tell those."
    return replace(statistic, cells=cells, notes=(*statistic.notes, note))


# Shares, means and standardised rates of `visir.stats`, where the units are visitors and sessions of one are not
# independent.


def dominated_note(moments: Mapping[str, stats.Moments], unit: str = "visitors", of: str = "sessions") -> list[str]:
    """A warning where a few visitors have most of the sessions, for the notes of a statistic."""
    names = [name for name, group in moments.items() if group.is_dominated]
    if not names:
        return []
    return [
        f"A few {unit} have most of the {of} of {', '.join(names)}: the intervals there may be too narrow, above all "
        "where those who come often also act otherwise."
    ]


def share(moments: stats.Moments) -> StatisticCell:
    """y / n in percent with its interval; no value where n is 0."""
    if not moments.n:
        return StatisticCell(None, support=0)
    low, high = stats.of_moments(moments).ends
    return StatisticCell(100 * moments.y / moments.n, 100 * low, 100 * high, support=int(moments.y))


def mean(moments: stats.Moments, *, support: int) -> StatisticCell:
    """y / n for a y that is no part of n (queries per session), with its interval; no value where n is 0."""
    if not moments.n:
        return StatisticCell(None, support=0)
    estimate = stats.of_moments(moments, kind="mean")
    return StatisticCell(estimate.value, estimate.low, estimate.high, support=support)


def standardised(groups: Sequence[stats.Moments]) -> list[StatisticCell]:
    """The standardised rate of each group; no value for one whose rate is hardly known."""
    # Rare devices count as much as common ones: mean and deviation are over groups, not over sessions.
    return [
        StatisticCell(None) if isnan(rate.value) else StatisticCell(rate.value, rate.low, rate.high)
        for rate in stats.standardised_rates(groups)
    ]
