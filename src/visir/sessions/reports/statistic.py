"""The plots of sessions and purchases; each returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError
from visir.reports.page import Block, Fold, Paragraph
from visir.reports.plots import DASHES, FAINT, INK, SERIES, Square, drawing, grid
from visir.reports.report import Chart
from visir.reports.table import Cell, Column, Table, at, one_line, shortened
from visir.sessions.description import Statistic, StatisticCell
from visir.sessions.description.outcomes import BUYING, OTHER, OUTCOME_LABELS, RATE

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot


_COLOURS = (SERIES[0], SERIES[4])
"""Of sessions with a purchase, and of those without."""
_LONGEST = 20
MOST_LINES = len(SERIES)
"""Devices that the figure of session lengths draws; the rarer ones are in its table."""


def survival(statistic: Statistic) -> Plot:
    """Figure 6.2: the share of sessions longer than x, both axes logarithmic."""
    # One colour per device, solid for sessions with a purchase and dashed for those without.
    groups = [tuple(name.rsplit(", ", 1)) for name in statistic.columns]
    devices = list(dict.fromkeys(device for device, _ in groups))[:MOST_LINES]
    x = [int(length.replace(",", "")) for length in statistic.rows]
    lowest = 100.0
    with drawing(7.6, 4.6) as (figure, axes):
        for column, (device, outcome) in enumerate(groups):
            if device not in devices:
                continue
            points = [
                (length, value)
                for length, row in zip(x, statistic.cells, strict=True)
                if length >= 1 and (value := _number(row[column]))
            ]
            if not points:
                continue
            lowest = min(lowest, *(y for _, y in points))
            buys = outcome == "purchase"
            axes.plot(
                *zip(*points, strict=True),
                color=SERIES[devices.index(device)],
                linestyle=DASHES[0] if buys else DASHES[1],
                linewidth=2.0 if buys else 1.6,
            )
        axes.set(xscale="log", yscale="log", xlim=(1, max(x[-1], 10) * 1.1), ylim=(min(lowest / 1.6, 5), 130))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,g} %")
        axes.minorticks_off()
        for share, name in ((50, "P50"), (10, "P90")):
            axes.axhline(share, color=FAINT, linewidth=0.9, linestyle=DASHES[2])
            axes.annotate(
                name, (1.008, share), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, color=FAINT
            )
        axes.set(xlabel="session length x, actions", ylabel="sessions longer than x")
        for number, device in enumerate(devices):
            axes.plot([], [], color=SERIES[number], linewidth=2.2, label=_short(device))
        axes.plot([], [], color=INK, linestyle=DASHES[0], label="with a purchase")
        axes.plot([], [], color=INK, linestyle=DASHES[1], label="without")
        figure.legend(loc="outside upper left", ncols=5 if len(devices) <= 3 else 4, fontsize=9)
        return figure


def outcome_bars(statistic: Statistic, columns: tuple[str, str], *, labels: tuple[str, str], axis: str) -> Plot:
    """Two bars for each row, upright: sessions with a purchase and those without, with their 95 % intervals."""
    count = len(statistic.rows)
    with drawing(7.6, 3.3) as (figure, axes):
        for number, (column, label, colour) in enumerate(zip(columns, labels, _COLOURS, strict=True)):
            index = statistic.columns.index(column)
            for place, row in enumerate(statistic.cells):
                middle = place + (number - 0.5) * 0.4
                _bar(axes, row[index], middle, 0.37, colour, upright=True)
            axes.bar(0, 0, color=colour, label=label)
        names = [name[:3] if name.endswith("day") else name for name in map(_short, statistic.rows)]
        axes.set_xticks(range(count), names)
        axes.set(xlim=(-0.7, count - 0.3), ylim=(0, None))
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set(xlabel=axis, ylabel="% of their sessions")
        figure.legend(loc="outside upper left", ncols=2, fontsize=9)
        return figure


def lying_bars(
    statistic: Statistic,
    columns: tuple[str, str],
    *,
    labels: tuple[str, str],
    axis: str,
    skip: Sequence[str] = (),
    rates: str = "",
) -> Plot:
    """Two bars for each row, lying, with their intervals."""
    # skip: Rows that are left out (totals).
    shown = [(name, row) for name, row in zip(statistic.rows, statistic.cells, strict=True) if name not in skip]
    with drawing(7.6, max(2.2, 1.1 + 0.5 * len(shown)), columns=2 if rates else 1) as (figure, drawn):
        left = drawn[0] if rates else drawn
        if rates:
            figure.set_layout_engine("constrained", wspace=0.08)
        for number, (column, label, colour) in enumerate(zip(columns, labels, _COLOURS, strict=True)):
            index = statistic.columns.index(column)
            for place, (_, row) in enumerate(shown):
                _bar(left, row[index], place + (number - 0.5) * 0.38, 0.35, colour, upright=False)
            left.barh(0, 0, color=colour, label=label)
        _name_rows(left, [name for name, _ in shown])
        left.set(xlim=(0, None), xlabel=axis)
        if rates:
            right = drawn[1]
            values = [row[statistic.columns.index(rates)] for _, row in shown]
            for place, cell in enumerate(values):
                _dot(right, cell, place)
            numbers = [each for cell in values if (each := _number(cell)) is not None]
            if numbers and not any(cell.hidden for cell in values):
                right.axvline(sum(numbers) / len(numbers), color=FAINT, linewidth=1, linestyle=DASHES[1])
            _name_rows(right, ["" for _ in shown])
            right.set(xlim=(0, None), xlabel=f"{rates.lower()}, %")
        figure.legend(loc="outside upper left", ncols=2, fontsize=9)
        return figure


def transition_map(statistic: Statistic, *, printed: Mapping[tuple[str, str], float] | None = None) -> Plot:
    """Figure 6.5 as a matrix: from the device of the row to that of the column; the deeper the blue, the likelier."""
    # printed: (row, column) → a published value, written small below the measured one.
    names = [_short(name) for name in statistic.rows]
    squares = []
    for row, cells in enumerate(statistic.cells):
        for column, cell in enumerate(cells[: len(names)]):
            number = _number(cell)
            text = "hidden" if cell.hidden else "–" if number is None else f"{number:.1f}"
            other = (printed or {}).get((statistic.rows[row], statistic.columns[column]))
            depth = 0.0 if number is None else 0.04 + 0.0062 * number
            squares.append(Square(column, row, depth, text, below="" if other is None else f"{other:g}"))
    side = max(len(names), 3)
    size, columns = (1.6 + 0.82 * side, 0.9 + 0.62 * side), [name.replace(" ", "\n", 1) for name in names]
    across = "to the next session's device, %"
    return grid(squares, columns, names, size=size, letters=9.5, across=across, down="from")


def transition_diagram(statistic: Statistic, *, threshold: float = 0.5) -> Plot:
    """Figure 6.5 as the thesis draws it: devices on a circle, arrows as thick as the transition is likely."""
    # A device's own number is its self-transition; the weakest arrow is dashed.
    names = [_short(name) for name in statistic.rows]
    count = len(names)
    turn = [pi / 2 - 2 * pi * number / count for number in range(count)]
    spots = [(cos(angle), sin(angle)) for angle in turn]
    arrows = [
        (row, column, value)
        for row, cells in enumerate(statistic.cells)
        for column, cell in enumerate(cells[:count])
        if row != column and (value := _number(cell)) is not None and value >= threshold
    ]
    weakest = min((value for *_, value in arrows), default=0.0)
    with drawing(5.0, 4.6) as (figure, axes):
        from matplotlib.patches import Circle, FancyArrowPatch

        for row, column, value in arrows:
            axes.add_patch(
                FancyArrowPatch(
                    spots[row],
                    spots[column],
                    connectionstyle="arc3,rad=0.16",
                    arrowstyle=f"-|>,head_length={4 + value / 12:.2f},head_width={2.4 + value / 20:.2f}",
                    linewidth=0.8 + value / 9,
                    linestyle=DASHES[1] if value == weakest and len(arrows) > 2 else "-",
                    color=SERIES[row % len(SERIES)],
                    shrinkA=37,
                    shrinkB=38,
                    alpha=0.9,
                )
            )
        for number, (x, y) in enumerate(spots):
            colour = SERIES[number % len(SERIES)]
            axes.add_patch(Circle((x, y), 0.26, facecolor=colour, alpha=0.16, lw=0))
            axes.add_patch(Circle((x, y), 0.26, fill=False, edgecolor=colour, linewidth=1.6))
            cell = statistic.cells[number][number]
            text = f"{cell.value:.0f} %" if isinstance(cell.value, (int, float)) else "–"
            broken = names[number].replace(" ", "\n", 1) if len(names[number]) > 10 else names[number]
            axes.text(x, y + 0.02, broken, ha="center", va="bottom", fontsize=8.5, color=INK, linespacing=1.0)
            axes.text(x, y - 0.03, text, ha="center", va="top", fontsize=10, color=INK)
        low = min(y for _, y in spots)
        axes.set(xlim=(-1.32, 1.32), ylim=(low - 0.32, 1.32), aspect="equal")
        axes.set_axis_off()
        return figure


def _short(name: str) -> str:
    """A log's own word, on one line, cut where it would push the plot aside."""
    return shortened(one_line(name), _LONGEST)


def _number(cell: StatisticCell) -> float | None:
    return float(cell.value) if isinstance(cell.value, (int, float)) else None


def _bar(axes: Axes, cell: StatisticCell, middle: float, width: float, colour: str, *, upright: bool) -> None:
    if cell.hidden and not upright:
        axes.annotate("hidden", (0, middle), (4, 0), textcoords="offset points", va="center", fontsize=7.5, color=FAINT)
    if not isinstance(cell.value, (int, float)):
        return
    draw: Any = axes.bar if upright else axes.barh
    draw(middle, cell.value, width, color=colour, alpha=0.88)
    if cell.low is not None and cell.high is not None:
        ends, across = [cell.low, cell.high], [middle, middle]
        axes.plot(*((across, ends) if upright else (ends, across)), color=INK, linewidth=1.1, solid_capstyle="butt")


def _dot(axes: Axes, cell: StatisticCell, place: float) -> None:
    if not isinstance(cell.value, (int, float)):
        return
    if cell.low is not None and cell.high is not None:
        axes.plot([cell.low, cell.high], [place, place], color=INK, linewidth=1.3, solid_capstyle="butt")
    axes.plot(cell.value, place, "o", color=SERIES[2], markersize=6)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


HIDDEN = "hidden"


_DIGITS = {"%": 2, "σ": 2}


def statistic_table(statistic: Statistic, *, intervals: bool = True) -> Table:
    """One table or figure as it is printed: each estimate followed by its 95 % interval."""
    # A value that is not defined is a dash; a hidden one says so.
    if statistic.unavailable:
        raise ValueError(statistic.unavailable)
    columns = [Column(statistic.corner, of=at(0))]
    for position, (name, unit) in enumerate(zip(statistic.columns, statistic.units, strict=True)):
        values = [row[position] for row in statistic.cells]
        mixed = any(isinstance(cell.value, str) for cell in values)
        whole = mixed or not any(isinstance(cell.value, float) for cell in values)
        shown = intervals and any(cell.low is not None for cell in values)
        columns.append(
            Column(
                *(f"{name} ({unit})" if unit else name, 0 if whole else _DIGITS.get(unit, 3)),
                signed=unit == "σ",
                of=_value(position, mixed),
                ends=_ends(position) if shown else None,
                interval="95 %",
            )
        )
    percentages = [f"Percentages: {statistic.of}."] if statistic.of else []
    rows = list(zip(statistic.rows, statistic.cells, strict=True))
    caption = f"{statistic.title} ({statistic.source})"
    return Table.over(rows, columns, caption=caption, notes=[*percentages, *statistic.notes])


def _value(position: int, mixed: bool) -> Callable[[Any], Cell]:
    def value(row: tuple[str, Sequence[StatisticCell]]) -> Cell:
        cell = row[1][position]
        if cell.hidden or not mixed or cell.value is None or isinstance(cell.value, str):
            return HIDDEN if cell.hidden else cell.value
        # A number among words and numbers of other kinds: in digits of its own.
        return f"{cell.value:,.2f}" if isinstance(cell.value, float) else f"{cell.value:,}"

    return value


def _ends(position: int) -> Callable[[Any], Any]:
    return lambda row: (row[1][position].low, row[1][position].high)


def tidy_statistic(statistic: Statistic) -> Table:
    """One row per value: row, column, unit, value, low, high, hidden."""
    columns = [Column(statistic.corner or "what", of=at(0)), Column("column", of=at(1)), Column("unit", of=at(2))]
    columns += [Column(name, of=at(3, name)) for name in ("value", "low", "high", "hidden")]
    return Table.over(_tidy(statistic), columns, caption=statistic.title)


def _tidy(statistic: Statistic) -> list[tuple[str, str, str, StatisticCell]]:
    return [
        (row, column, unit, cell)
        for row, cells in zip(statistic.rows, statistic.cells, strict=True)
        for column, unit, cell in zip(statistic.columns, statistic.units, cells, strict=True)
    ]


# The plots of a table or figure of the characterisation, each with a sentence on how to read it.


def plots_of(statistic: Statistic) -> list[Chart]:
    """The plots of one statistic; empty where a table says all."""

    def chart(draw: Callable[..., Plot], caption: str, *columns: str, title: str = "", **options: Any) -> Chart:
        name = f"{statistic.name}{'-round' if draw is transition_diagram else ''}"
        label = f"{statistic.title}; the numbers are in the table"
        return Chart(name, partial(draw, statistic, *([columns] if columns else []), **options), title, caption, label)

    name, pair, lines = statistic.name, (BUYING, OTHER), "Thin lines: 95 % intervals."
    if name == "figure-6-2":
        caption = (
            "Share of sessions longer than x actions, both axes logarithmic. Where a curve crosses the dotted lines, "
            "half of its sessions (P50), or one in ten (P90), are longer."
        )
        return [chart(survival, caption)]
    if name in ("figure-6-3", "figure-6-4"):
        axis = "day on which the session begins" if name == "figure-6-3" else statistic.corner
        caption = f"Bars of one colour add up to 100 %. {lines}"
        return [chart(outcome_bars, caption, *pair, labels=OUTCOME_LABELS, axis=axis)]
    if name in ("table-6-2", "table-6-4"):
        thing = statistic.corner
        left = "on which devices sessions happen" if name == "table-6-4" else f"through which {thing}s sessions came"
        caption = (
            f"Left: {left}; bars of one colour add up to 100 %. Right: the share of each {thing}'s sessions that end "
            f"in a purchase; dashed, the mean over {thing}s, from which standardised rates are counted. {lines}"
        )
        return [chart(lying_bars, caption, *pair, labels=OUTCOME_LABELS, axis="% of their sessions", rates=RATE)]
    if name == "table-6-3":
        labels = ("customers who bought", "customers who did not")
        return [chart(lying_bars, lines, "Purchasers", "Non-purchasers", labels=labels, axis="% of these customers")]
    if name == "figure-6-5":
        charts = [
            chart(transition_map, "Each row adds up to 100 %. A dash: nobody left from there.", title="In numbers")
        ]
        if 2 <= len(statistic.rows) <= 6:
            caption = (
                "In each circle the chance of staying. Arrows are as thick as the step is likely, in the colour of the "
                "device left; steps below 0.5 % are not drawn, the weakest drawn is dashed."
            )
            charts.append(chart(transition_diagram, caption, title="As a diagram"))
        return charts
    if name == "table-6-5":
        columns = ("Purchase: queries per session", "Non-purchase: queries per session")
        return [chart(lying_bars, lines, *columns, labels=OUTCOME_LABELS, axis="queries per session")]
    if name == "table-6-6":
        columns, axis, skip = ("Purchase: texts", "Non-purchase: texts"), "different queries", ("Total",)
        return [chart(lying_bars, "Counts of this log.", *columns, labels=OUTCOME_LABELS, axis=axis, skip=skip)]
    return []


# One table or figure of the characterisation: its plots and its table.


def blocks(statistic: Statistic) -> list[Block]:
    """The plots with how to read them, and the table; a figure's table is folded."""
    if statistic.unavailable:
        return [Paragraph(statistic.unavailable, "missing")]
    charts, numbers = plots_of(statistic), replace(table(statistic), caption="")
    return [*charts, Fold("The numbers", [numbers]) if charts else numbers]


def table(statistic: Statistic) -> Table:
    """Rows and columns as the thesis has them, each estimate with its 95 % interval."""
    return statistic_table(statistic, intervals=statistic.name != "figure-6-2")


def arrow(statistic: Statistic) -> pa.Table:
    """One row per value: row, column, unit, value, low, high, hidden."""
    import pyarrow as pa

    names = (statistic.corner or "what", "column", "unit", "value", "low", "high", "hidden")
    cells = [(*row[:3], _number(row[3]), row[3].low, row[3].high, row[3].hidden) for row in _tidy(statistic)]
    types = (pa.string(), pa.string(), pa.string(), pa.float64(), pa.float64(), pa.float64(), pa.bool_())
    columns = list(zip(*cells, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names=names)


def plot(statistic: Statistic) -> Plot:
    """The first of its plots."""
    drawn = plots_of(statistic)
    if statistic.unavailable or not drawn:
        raise VisirError(
            f"{statistic.name}: {statistic.unavailable or 'no plot; it is a table'}",
            hint=f"description.statistic({statistic.name!r}) shows it",
        )
    return drawn[0].plot()
