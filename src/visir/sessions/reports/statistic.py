"""The plots of sessions and purchases; each returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any, NamedTuple

from visir.errors import VisirError
from visir.reports.page import Block, Fold, Paragraph
from visir.reports.plots import DASHES, FAINT, INK, SERIES, drawing
from visir.reports.table import Cell, Column, Table, one_line
from visir.reports.views.plot import blocks as plot_blocks
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
                if length >= 1 and isinstance(value := row[column].value, (int, float)) and value
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
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1, max(x[-1], 10) * 1.1)
        axes.set_ylim(min(lowest / 1.6, 5), 130)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,g} %")
        axes.minorticks_off()
        for share, name in ((50, "P50"), (10, "P90")):
            axes.axhline(share, color=FAINT, linewidth=0.9, linestyle=DASHES[2])
            axes.annotate(
                name, (1.008, share), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, color=FAINT
            )
        axes.set_xlabel("session length x, actions")
        axes.set_ylabel("sessions longer than x")
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
        axes.set_xlim(-0.7, count - 0.3)
        axes.set_ylim(bottom=0)
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(axis)
        axes.set_ylabel("% of their sessions")
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
        left.set_xlim(left=0)
        left.set_xlabel(axis)
        if rates:
            right = drawn[1]
            values = [row[statistic.columns.index(rates)] for _, row in shown]
            for place, cell in enumerate(values):
                _dot(right, cell, place)
            numbers = [float(cell.value) for cell in values if isinstance(cell.value, (int, float))]
            if numbers and not any(cell.hidden for cell in values):
                right.axvline(sum(numbers) / len(numbers), color=FAINT, linewidth=1, linestyle=DASHES[1])
            _name_rows(right, ["" for _ in shown])
            right.set_xlim(left=0)
            right.set_xlabel(f"{rates.lower()}, %")
        figure.legend(loc="outside upper left", ncols=2, fontsize=9)
        return figure


def transition_map(statistic: Statistic, *, printed: Mapping[tuple[str, str], float] | None = None) -> Plot:
    """Figure 6.5 as a matrix: from the device of the row to that of the column; the deeper the blue, the likelier."""
    # printed: (row, column) → a published value, written small below the measured one.
    names = [_short(name) for name in statistic.rows]
    count = len(names)
    with drawing(1.6 + 0.82 * max(count, 3), 0.9 + 0.62 * max(count, 3)) as (figure, axes):
        from matplotlib.patches import Rectangle

        for row, cells in enumerate(statistic.cells):
            for column, cell in enumerate(cells[:count]):
                is_number = isinstance(cell.value, (int, float))
                depth = 0.04 + 0.62 * float(cell.value) / 100 if is_number else 0.0  # type: ignore[arg-type]
                box = Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, color=SERIES[0], alpha=depth, lw=0)
                axes.add_patch(box)
                text = f"{cell.value:.1f}" if is_number else "hidden" if cell.hidden else "–"
                axes.text(column, row, text, ha="center", va="center", fontsize=9.5, color=INK)
                other = (printed or {}).get((statistic.rows[row], statistic.columns[column]))
                if other is not None:
                    axes.text(column, row + 0.3, f"{other:g}", ha="center", va="center", fontsize=7.5, color=FAINT)
        axes.set_xlim(-0.55, count - 0.45)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_xticks(range(count), [name.replace(" ", "\n", 1) for name in names], fontsize=9)
        axes.set_yticks(range(count), names, fontsize=9)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("to the next session's device, %")
        axes.set_ylabel("from")
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return figure


def transition_diagram(statistic: Statistic, *, threshold: float = 0.5) -> Plot:
    """Figure 6.5 as the thesis draws it: devices on a circle, arrows as thick as the transition is likely."""
    # A device's own number is its self-transition; the weakest arrow is dashed.
    names = [_short(name) for name in statistic.rows]
    count = len(names)
    turn = [pi / 2 - 2 * pi * number / count for number in range(count)]
    spots = [(cos(angle), sin(angle)) for angle in turn]
    arrows = [
        (row, column, float(cell.value))
        for row, cells in enumerate(statistic.cells)
        for column, cell in enumerate(cells[:count])
        if row != column and isinstance(cell.value, (int, float)) and cell.value >= threshold
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
        axes.set_xlim(-1.32, 1.32)
        axes.set_ylim(low - 0.32, 1.32)
        axes.set_aspect("equal")
        axes.set_axis_off()
        return figure


def _short(name: str) -> str:
    """A log's own word, on one line, cut where it would push the plot aside."""
    line = one_line(name)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


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


def _cell_text(value: StatisticCell) -> Cell:
    """A number among words and numbers of other kinds: in digits of its own."""
    if isinstance(value.value, float):
        return f"{value.value:,.2f}"
    return f"{value.value:,}" if isinstance(value.value, int) else value.value


def _interval(value: StatisticCell, column: Column) -> str | None:
    if value.low is None or value.high is None:
        return None
    return f"{column.text(value.low)} … {column.text(value.high)}"


# The plots of a table or figure of the characterisation, each with a sentence on how to read it.


class StatisticPlot(NamedTuple):
    """A plot, how to read it, and its title where there are several."""

    plot: Plot
    caption: str
    title: str = ""


def plots_of(statistic: Statistic) -> list[StatisticPlot]:
    """The plots of one statistic; empty where a table says all."""
    pair = (BUYING, OTHER)
    name = statistic.name

    if name == "figure-6-2":
        caption = (
            "Share of sessions longer than x actions, both axes logarithmic. Where a curve crosses the dotted lines, "
            "half of its sessions (P50), or one in ten (P90), are longer."
        )
        return [StatisticPlot(survival(statistic), caption)]
    if name in ("figure-6-3", "figure-6-4"):
        axis = "day on which the session begins" if name == "figure-6-3" else statistic.corner
        plot = outcome_bars(statistic, pair, labels=OUTCOME_LABELS, axis=axis)
        caption = "Bars of one colour add up to 100 %. Thin lines: 95 % intervals."
        return [StatisticPlot(plot, caption)]
    if name in ("table-6-2", "table-6-4"):
        thing = statistic.corner
        plot = lying_bars(statistic, pair, labels=OUTCOME_LABELS, axis="% of their sessions", rates=RATE)
        caption = (
            f"Left: through which {thing}s sessions came; bars of one colour add up to 100 %. Right: the share of each "
            f"{thing}'s sessions that end in a purchase; dashed, the mean over {thing}s, from which standardised rates "
            "are counted. Thin lines: 95 % intervals."
        )
        if name == "table-6-4":
            caption = caption.replace("through which devices sessions came", "on which devices sessions happen")
        return [StatisticPlot(plot, caption)]
    if name == "table-6-3":
        columns = ("Purchasers", "Non-purchasers")
        plot = lying_bars(
            statistic, columns, labels=("customers who bought", "customers who did not"), axis="% of these customers"
        )
        return [StatisticPlot(plot, "Thin lines: 95 % intervals.")]
    if name == "figure-6-5":
        caption = "Each row adds up to 100 %. A dash: nobody left from there."
        figures = [StatisticPlot(transition_map(statistic), caption, "In numbers")]
        if 2 <= len(statistic.rows) <= 6:
            diagram_caption = (
                "In each circle the chance of staying. Arrows are as thick as the step is likely, in the colour of the "
                "device left; steps below 0.5 % are not drawn, the weakest drawn is dashed."
            )
            figures.append(StatisticPlot(transition_diagram(statistic), diagram_caption, "As a diagram"))
        return figures
    if name == "table-6-5":
        columns = ("Purchase: queries per session", "Non-purchase: queries per session")
        plot = lying_bars(statistic, columns, labels=OUTCOME_LABELS, axis="queries per session")
        return [StatisticPlot(plot, "Thin lines: 95 % intervals.")]
    if name == "table-6-6":
        columns = ("Purchase: texts", "Non-purchase: texts")
        plot = lying_bars(statistic, columns, labels=OUTCOME_LABELS, axis="different queries", skip=("Total",))
        return [StatisticPlot(plot, "Counts of this log.")]
    return []


# One table or figure of the characterisation: its plots and its table.


def blocks(statistic: Statistic) -> list[Block]:
    """The plots with how to read them, and the table; a figure's table is folded."""
    if statistic.unavailable:
        return [Paragraph(statistic.unavailable, "missing")]
    shown: list[Block] = []
    for drawn, caption, _ in plots_of(statistic):
        shown += [*plot_blocks(drawn), Paragraph(caption, "soft")]
    numbers = replace(table(statistic), caption="")
    return [*shown, Fold("The numbers", [numbers]) if shown else numbers]


def table(statistic: Statistic) -> Table:
    """Rows and columns as the thesis has them, each estimate with its 95 % interval."""
    return statistic_table(statistic, intervals=statistic.name != "figure-6-2")


def arrow(statistic: Statistic) -> pa.Table:
    """One row per value: row, column, unit, value, low, high, hidden."""
    import pyarrow as pa

    names = (statistic.corner or "what", "column", "unit", "value", "low", "high", "hidden")
    cells = [
        (row, column, unit, cell.value if not isinstance(cell.value, str) else None, cell.low, cell.high, cell.hidden)
        for row, of_row in zip(statistic.rows, statistic.cells, strict=True)
        for column, unit, cell in zip(statistic.columns, statistic.units, of_row, strict=True)
    ]
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
    return drawn[0].plot
