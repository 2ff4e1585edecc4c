"""The plots of sessions and purchases; each returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

from visir.reports.plots import DASHES, FAINT, INK, SERIES, drawing
from visir.reports.table import one_line
from visir.sessions.description import Statistic, StatisticCell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot


BUYING, OTHER = SERIES[0], SERIES[4]
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
        for number, (column, label, colour) in enumerate(zip(columns, labels, (BUYING, OTHER), strict=True)):
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
        for number, (column, label, colour) in enumerate(zip(columns, labels, (BUYING, OTHER), strict=True)):
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
