"""A table or figure of the characterisation as plain data, and the hiding of its small cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, listed
from visir.splitmix import wilson


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


# Intervals of shares and rates over sessions, when sessions of one visitor are not independent.
#
# A share is estimated from visitors, each of whom brings all sessions; so its variance is that of a ratio of two sums
# over visitors (linearised): with y sessions of n counted at visitor u, p = Σy / Σn,
#
#     var p = m / (m − 1) · Σ (y − p·n)² / (Σn)²,   m = (Σn)² / Σn².
#
# m is how many visitors of equally many sessions these are worth (Kish 1965). Where all come equally often it is their
# number; where a few have most of the sessions it is small, and the number of all visitors would promise too much.
#
# The *design effect* is that variance over p(1 − p) / Σn, and Wilson's interval is taken over Σn / design effect
# sessions with the quantile of Student's t at m − 1 degrees of freedom (Korn and Graubard 1998; Dean and Pagano 2015).
# The other common way, Wilson over all sessions as if they were independent, is too narrow where visitors come often.
#
# None of these says how another week, or another shop, would differ.

CONFIDENCE = 0.95
DRAWS = 4000
SMALL = 5.0
"""A rate worth fewer sessions than this, of either outcome, is left out of standardised rates."""
DOMINATED = 10.0
"""Sessions that are worth those of fewer visitors than this are a few visitors', if there are many more."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over visitors, of a count y among a count n."""

    y: float  # Σ y
    yy: float  # Σ y²
    yn: float  # Σ y·n
    n: float  # Σ n
    nn: float  # Σ n²
    units: int  # visitors with n > 0

    @property
    def visitors(self) -> float:
        """How many visitors of equally many sessions these are worth (Kish); 0 without any."""
        return self.n**2 / self.nn if self.nn else 0.0

    @property
    def is_dominated(self) -> bool:
        """Whether a few visitors have most of the sessions; the largest then has more than a tenth."""
        return self.visitors < min(DOMINATED, self.units / 2)

    @property
    def variance(self) -> float:
        """Variance of y / n; infinite where fewer than two visitors leave it open, 0 where all have the same rate."""
        if self.units < 2:
            return float("inf")
        p = self.y / self.n
        terms = (self.yy, -2 * p * self.yn, p * p * self.nn)
        left = sum(terms)
        if left <= 1e-9 * max(terms):  # nothing but rounding
            return 0.0
        return self.visitors / (self.visitors - 1) * left / self.n**2

    @property
    def effective(self) -> float:
        """How many independent sessions the share is worth; no more than there are."""
        # Where all or none count, or all visitors have the same rate, the variance says nothing: sessions of a visitor
        # are then taken to be all alike.
        p = self.y / self.n
        if not 0 < p < 1 or self.variance in (0.0, float("inf")):
            return self.visitors
        return min(p * (1 - p) / self.variance, self.n)

    @property
    def is_small(self) -> bool:
        """Whether the share is worth fewer than five sessions that count, or five that do not."""
        return not self.n or min(self.y, self.n - self.y) / self.n * self.effective < SMALL


def dominated_note(moments: Mapping[str, Moments], unit: str = "visitors", of: str = "sessions") -> list[str]:
    """A warning where a few visitors have most of the sessions, for the notes of a statistic."""
    names = [name for name, group in moments.items() if group.is_dominated]
    if not names:
        return []
    return [
        f"A few {unit} have most of the {of} of {', '.join(names)}: the intervals there may be too narrow, above all "
        "where those who come often also act otherwise."
    ]


def share(moments: Moments, *, scale: float = 100.0, confidence: float = CONFIDENCE) -> StatisticCell:
    """y / n in percent with its interval; no value where n is 0."""
    if not moments.n:
        return StatisticCell(None, support=0)
    low, high = wilson(moments.y / moments.n, moments.effective, quantile(moments, confidence))
    return StatisticCell(scale * moments.y / moments.n, scale * low, scale * high, support=int(moments.y))


def mean(moments: Moments, *, support: int, confidence: float = CONFIDENCE) -> StatisticCell:
    """y / n for a y that is no part of n (queries per session), with its interval; no value where n is 0."""
    # The interval is Garwood's for a Poisson count, of as many counts as the mean is worth by its variance over
    # visitors: that many, r² / var, give the mean that much spread. It stays above 0 and is wide where little was
    # counted, where a normal interval would be a point at 0. Where nothing was counted, or all visitors have the same
    # mean, sessions of a visitor are taken to be alike. The counts are lowered by (z / t)², with t as in `share` (Korn
    # and Graubard 1998): a few visitors are no Poisson count.
    from scipy.special import chdtri

    if not moments.n:
        return StatisticCell(None, support=0)
    value = moments.y / moments.n
    tail = (1 - confidence) / 2
    if not moments.y:
        return StatisticCell(value, 0.0, float(chdtri(2, tail)) / 2 * moments.nn / moments.n**2, support=support)
    spread = moments.variance if 0 < moments.variance < float("inf") else value / moments.visitors
    counts = value**2 / spread * (quantile(None, confidence) / quantile(moments, confidence)) ** 2
    low, high = (
        float(chdtri(2 * k, probability)) / (2 * counts) for k, probability in ((counts, 1 - tail), (counts + 1, tail))
    )
    return StatisticCell(value, value * low, value * high, support=support)


def quantile(moments: Moments | None, confidence: float = CONFIDENCE) -> float:
    """Student's t at the upper 2.5 %, with the degrees of freedom of so many visitors; without moments 1.96."""
    from scipy.special import ndtri, stdtrit

    upper = 0.5 + confidence / 2
    return float(ndtri(upper)) if moments is None else float(stdtrit(max(moments.visitors - 1, 1.0), upper))


def standardised(groups: Sequence[Moments]) -> list[StatisticCell]:
    """Rates y / n, minus their mean over the groups, divided by their standard deviation over the groups."""
    # The deviation is that of a population: rates {0.5, 0.2, 0.3} give {1.34, −1.07, −0.27} (thesis section 6.2). That
    # of a sample (n − 1), which Table 6.2 seems to use, would make all values smaller by √((k − 1) / k) of k groups.
    # Mean and deviation are over groups, not over sessions: a rare device counts as much as a common one. So a group
    # whose rate is hardly known (`Moments.is_small`) would move all the others; it is left out and has no value. There
    # are no values where all rates are equal or there is only one group.
    # Intervals are of `DRAWS` draws of all rates: each from the Beta distribution of Jeffreys with as many sessions as
    # the rate is worth, the groups independent. The derivatives of z (delta method) would do for common groups, but not
    # where one has hardly any purchases: it moves all the others.
    standing = [group for group in groups if not group.is_small]
    rates = np.array([group.y / group.n for group in standing])
    if len(rates) < 2 or rates.std() <= 1e-12:
        return [StatisticCell(None) for _ in groups]
    worth = np.array([group.effective for group in standing])
    drawn = np.random.default_rng(0).beta(rates * worth + 0.5, (1 - rates) * worth + 0.5, (DRAWS, len(rates)))
    ends = np.quantile(_standard(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    z = _standard(rates[None])[0]
    # Near the bound of √(k − 1) all draws can lie on one side of the value.
    cells = iter(
        StatisticCell(float(value), min(float(low), float(value)), max(float(high), float(value)))
        for value, low, high in zip(z, *ends, strict=True)
    )
    return [StatisticCell(None) if group.is_small else next(cells) for group in groups]


def _standard(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row: rates minus their mean, divided by their standard deviation."""
    standard: NDArray[np.float64] = (rates - rates.mean(axis=1, keepdims=True)) / rates.std(axis=1, keepdims=True)
    return standard
