"""A table or figure of the characterisation as plain data, and the hiding of its small cells."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class StatisticCell:
    """One cell: a number (or words), its 95 % interval where it is an estimate, and what it rests on.

    - `value`: None where it is not defined (a share of nothing) or hidden
    - `low`, `high`: ends of the interval, in the unit of `value`
    - `support`: the sessions (of Table 6.3 customers, of Figure 6.5 transitions) that the cell counts; cells of fewer
      are the ones that `suppressed` hides. None: nothing to hide.
    - `hidden`: whether it was hidden
    """

    value: float | int | str | None
    low: float | None = None
    high: float | None = None
    support: int | None = None
    hidden: bool = False


StatisticRow = tuple[StatisticCell, ...]


@dataclass(frozen=True)
class Statistic:
    """One table or figure of thesis sections 6.3 and 6.4, computed from a log.

    - `name`: "table-6-4"; `title`; `source`: where the thesis has it
    - `corner`: what the rows are ("device"); `rows`, `columns`: their names; `cells`: rows × columns
    - `units`: unit of each column ("%", "queries per session", "")
    - `of`: what the percentages are percentages of
    - `cannot`: why it cannot be computed from this log, "" where it can; there are no rows then
    - `sums`: along which direction shares add up to a whole, so that one hidden cell would follow from the others
    - `linked`: whether the cells of a row follow from one another, so that a row is hidden as a whole
    - `together`: columns whose every value depends on all rows: hidden as soon as one cell is
    - `rest`: (row, other row): what the other leaves of the whole, and so is hidden with it
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
    cannot: str = ""
    sums: Literal["columns", "rows", ""] = field(default="columns", repr=False)
    linked: bool = field(default=False, repr=False)
    together: tuple[str, ...] = field(default=(), repr=False)
    rest: tuple[str, str] | None = field(default=None, repr=False)

    @classmethod
    def without(cls, name: str, title: str, source: str, why: str) -> Statistic:
        """What a log cannot tell, and why not."""
        return cls(name, title, source, "", (), (), (), (), cannot=f"Cannot be computed: {why}.")

    def value(self, row: str, column: str) -> StatisticCell:
        """One cell by its names. Raises `KeyError` with the names there are."""
        if row not in self.rows or column not in self.columns:
            raise KeyError(f"{self.name} has rows {self.rows} and columns {self.columns}")
        return self.cells[self.rows.index(row)][self.columns.index(column)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {key: value for key, value in asdict(self).items() if key not in ("sums", "linked", "together", "rest")}


def suppressed(statistic: Statistic, fewer_than: int) -> Statistic:
    """The statistic without its cells of fewer than `fewer_than` sessions.

    A single hidden share would follow from the others, which add up to a whole; so the smallest of those is hidden
    with it. Where cells of a row follow from one another (shares and conversion rates), the row is hidden as a whole.
    Standardised rates are hidden all at once: two of them give away mean and deviation, and these two hidden rates.
    Zeros are hidden too: that nobody did something is a statement about everybody. This keeps small cells from sight;
    it is no proof that nobody can be recognised.
    """
    if fewer_than <= 1 or statistic.cannot:
        return statistic
    support = [[cell.support for cell in row] for row in statistic.cells]
    hidden = [[one is not None and one < fewer_than for one in row] for row in support]
    if statistic.linked:
        hidden = [[any(row) and one is not None for one in of] for row, of in zip(hidden, support, strict=True)]
    height, width = len(statistic.rows), len(statistic.columns)
    if statistic.sums:
        down = statistic.sums == "columns"
        lines = [
            [(row, at) for row in range(height)] if down else [(at, column) for column in range(width)]
            for at in range(width if down else height)
        ]
        for line in lines:
            counted = [(row, column) for row, column in line if support[row][column] is not None]
            gone = [(row, column) for row, column in counted if hidden[row][column]]
            rest = [one for one in counted if one not in gone]
            if len(gone) == 1 and rest:
                row, column = min(rest, key=lambda one: (support[one[0]][one[1]] or 0, one))
                for at in range(width) if statistic.linked else (column,):
                    hidden[row][at] = support[row][at] is not None
    for column in map(statistic.columns.index, statistic.together):
        if any(row[column] for row in hidden):
            hidden = [[*row[:column], True, *row[column + 1 :]] for row in hidden]
    if statistic.rest:
        row, other = (statistic.rows.index(one) for one in statistic.rest)
        hidden[row] = list(hidden[other])
    count = sum(map(sum, hidden))
    if not count:
        return statistic
    cells = tuple(
        tuple(StatisticCell(None, hidden=True) if gone else cell for cell, gone in zip(row, away, strict=True))
        for row, away in zip(statistic.cells, hidden, strict=True)
    )
    said = f"{count} {'cell is' if count == 1 else 'cells are'} hidden: fewer than {fewer_than:,}, or would tell those."
    return replace(statistic, cells=cells, notes=(*statistic.notes, said))
