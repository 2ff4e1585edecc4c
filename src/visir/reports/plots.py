"""The plots: each function returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.compare import Comparison
from visir.evaluation.folds import clusters_of
from visir.evaluation.measures import everyday_name, measure_estimate
from visir.records import Result
from visir.reports.page import Block
from visir.reports.page import Figure as PageFigure
from visir.reports.table import one_line
from visir.reports.words import display, heading, in_reading_order, task_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from visir.reports.plot import Plot


# SVG in visir's style: the same input gives the same bytes, and the colours survive a colour-blind reader.

INK, FAINT, GRID = "#444b55", "#7a828e", "#d5d9df"
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, the darker ones first."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D")
_THEME = {
    INK: "var(--plot-ink, #444b55)",
    FAINT: "var(--plot-faint, #7a828e)",
    GRID: "var(--plot-grid, #d5d9df)",
    **{colour: f"var(--plot-{number}, {colour})" for number, colour in enumerate(SERIES, 1)},
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "visir",
    "font.family": ["sans-serif"],
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "white",
    "path.simplify": True,
    "text.usetex": False,
    "text.parse_math": False,  # a "$" in a system's name is a dollar
}


def themed(plot: Figure, prefix: str, label: str) -> str:
    """The plot as an inline fragment of SVG, whose colours are CSS variables of the page."""
    # Texts take the page's font. The variables: `--plot-ink`, `--plot-faint`, `--plot-grid`, `--plot-1` … `--plot-6`.
    return fragment(to_svg(plot), prefix, label)


def fragment(svg: str, prefix: str, label: str) -> str:
    """The SVG document of a plot as `themed` says."""
    body = svg[svg.index("<svg") :]
    for colour, variable in _THEME.items():
        body = re.sub(re.escape(colour), variable, body, flags=re.IGNORECASE)
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", body))
    body = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}-{match[1]}"' if match[1] in used else "", body)
    body = re.sub(r"(url\(|href=\")#", rf"\g<1>#{prefix}-", body)
    view = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+) [\d.]+"', body)
    # On a narrow screen a wide plot is scrolled: its letters stay readable.
    sizes = f"min-width: {0.85 * float(view[1]):.0f}px; max-width: {1.4 * float(view[1]):.0f}px" if view else ""
    size = f"{sizes}; stroke-linejoin: round; stroke-linecap: butt" if view else ""
    head = f'<svg {view[0] if view else ""} style="{size}" role="img" aria-label="{html.escape(label)}">'
    body = re.sub(r"^<svg[^>]*>", lambda _: head, body)
    # matplotlib's own style sheet would apply to the whole page, and its coordinates go to a millionth of a point.
    body = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    return re.sub(r' d="[^"]*"', lambda match: _shorter(match[0]), body).strip()


@contextmanager
def drawing(width: float, height: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Plot, Any]]:
    """A plot in visir's style, whose colours follow the page's light or dark theme.

    matplotlib's own settings are back as they were afterwards.

    Args:
        width: In inches.
        height: In inches.
        rows: How many rows of axes.
        columns: How many columns of axes.

    Yields:
        The figure, which shows itself in notebooks, and its axes (an array of several).

    Example:
        >>> with drawing(4, 2) as (figure, axes):
        ...     _ = axes.plot([1, 2, 3], [2, 4, 3], marker="o")
        >>> type(figure).__name__
        'Plot'
    """
    import matplotlib

    from visir.reports.plot import Plot

    settings = {**matplotlib.rcParamsDefault, **_SETTINGS, "axes.prop_cycle": f"cycler('color', {[*SERIES]})"}
    with matplotlib.rc_context(settings):
        figure = Plot(figsize=(width, height), layout="constrained")
        figure.settings = settings
        yield figure, figure.subplots(rows, columns)


def to_svg(plot: Figure) -> str:
    """The plot as an SVG document without a date."""
    stream = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    plot.savefig(stream, format="svg", metadata=nothing, facecolor="none")
    return stream.getvalue()


def plot_blocks(plot: Figure) -> list[Block]:
    """A plot on its own, in the colours of a notebook."""
    svg = to_svg(plot)
    # Ids of a drawing must be its own among all that a notebook holds.
    prefix = "p" + hashlib.blake2b(svg.encode(), digest_size=4).hexdigest()
    texts = [axes.get_title(loc) for axes in plot.axes for loc in ("left", "center")]
    texts += [name for axes in plot.axes for name in (axes.get_xlabel(), axes.get_ylabel())]
    return [PageFigure(fragment(svg, prefix, "Plot. " + ", ".join(filter(None, texts))), "", "")]


def _shorter(path: str) -> str:
    rounded = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", path)
    return re.sub(r"\s+", " ", rounded)


# The kinds of charts that most studies need: rows with their values and intervals, and squares of a matrix.


class PlotMark(NamedTuple):
    """A value in the row of a chart, with its interval if it has one."""

    row: str  # what the row is called
    values: Sequence[float]  # the value alone, or with the two ends of its interval
    series: str = ""  # rows with several values have one of each series; its name stands in the legend
    group: str = ""  # rows of one group stand together
    filled: bool = True

    @property
    def low(self) -> float:
        """The lower end; NaN for none."""
        return self.values[1] if len(self.values) > 1 else nan


def dots(
    marks: Sequence[PlotMark],
    axis: str,
    *,
    title: str = "",
    size: tuple[float, float] = (5.8, 0),
    apart: float = 0.22,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    heads: Mapping[str, str] | None = None,
    beside: Mapping[str, str] | None = None,
    lines: Mapping[float, Any] | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    legend: int = 0,
) -> Plot:
    """Rows with a dot or a lying bar for each series, and its interval as a line."""
    # size: the width, and the height of a row, in inches; 0 takes what the series need. apart: how far series of a row
    # are apart, in rows. styles: series → colour and shape of its dot, or "bar" with its height; "at" is its place in a
    # row. heads: group → its heading; groups without
    # stand a little apart. beside: row → what stands at its right; "" → what that is. lines: uprights, place → dashes.
    # legend: its columns; by default there is one where there are several series, with up to three.
    series = list(dict.fromkeys([*(styles or {}), *(mark.series for mark in marks)]))
    series = [name for name in series if any(mark.series == name for mark in marks)]
    looks: dict[str, dict[str, Any]] = {
        name: {
            "color": SERIES[number % len(SERIES)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 5.5,
            **(styles or {}).get(name, {}),
        }
        for number, name in enumerate(series)
    }
    places: dict[tuple[str, str], float] = {}
    titles: dict[float, str] = {}
    position = 0.0
    for group in dict.fromkeys(mark.group for mark in marks):
        if heads and group in heads:
            titles[position] = heads[group]
            position += 1
        for row in dict.fromkeys(mark.row for mark in marks if mark.group == group):
            places[group, row] = position
            position += 1
        position += 0.4 if group else 0
    height = size[1] or 0.34 * max(1, 0.6 * len(series))
    shifted = [name for name in series if "at" not in looks[name]]
    shifts = {name: apart * (number - (len(shifted) - 1) / 2) for number, name in enumerate(shifted)}
    shifts |= {name: style.pop("at") for name, style in looks.items() if "at" in style}
    with drawing(size[0], 0.9 + height * position) as (figure, axes):
        for place, dashes in (lines or {}).items():
            axes.axvline(place, color=FAINT, linewidth=1.2, linestyle=dashes, zorder=1)
        for mark in marks:
            style = dict(looks[mark.series])
            bar = style.pop("bar", None)
            at = places[mark.group, mark.row] + shifts[mark.series]
            if bar and not isnan(mark.values[0]):
                axes.barh(at, mark.values[0], bar, color=style["color"], alpha=0.8)
            if not isnan(mark.low):
                line = {"color": INK, "marker": "|", "markersize": 6} if bar else {"color": style["color"]}
                axes.plot(mark.values[1:3], [at, at], linewidth=1.5, **line)
            if not bar:
                fill = {"fillstyle": "full" if mark.filled else "none", "linestyle": "none", "markeredgewidth": 1.4}
                axes.plot(mark.values[0], at, **(fill | style))
        if beside:
            spots = {"": -0.75} | {row: place for (_, row), place in places.items()}
            for row, text in beside.items():
                at_right = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "color": FAINT}
                axes.annotate(text, (1.01, spots[row]), **at_right)
        for place, text in titles.items():
            style = {"va": "center", "weight": "bold", "fontsize": 9.5}
            axes.text(0.005, place, one_line(text), transform=axes.get_yaxis_transform(), **style)
        labels = ["\n".join(map(one_line, row.split("\n"))) for _, row in places]
        axes.set_yticks(list(places.values()), labels)
        axes.set_ylim(position - 0.5 + (0.1 if titles else 0), -1.0 if beside else -0.6)
        axes.set_xlim(*limits)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(axis)
        if title:
            axes.set_title(one_line(title), loc="left")
        if legend or len(series) > 1:
            handles: list[Any] = []
            for name in filter(None, series):
                style = dict(looks[name])
                if style.pop("bar", None):
                    handles.append(axes.barh(0, 0, color=style["color"], alpha=0.8, label=one_line(name)))
                else:
                    style = {"linestyle": "none", "markeredgewidth": 1.4} | style
                    handles += axes.plot([], [], **style, label=one_line(name))
            figure.legend(
                handles=handles, loc="outside upper center", ncols=legend or min(3, len(handles)), fontsize=8.5
            )
        return figure


class Square(NamedTuple):
    """A square of a matrix: its place, how deep its colour is (0 to 1), and what stands in it."""

    column: int
    row: int
    depth: float
    text: str = ""
    colour: str = SERIES[0]
    ink: str = INK
    below: str = ""  # small print in the square


def grid(
    squares: Iterable[Square],
    columns: Sequence[str],
    rows: Sequence[str],
    *,
    size: tuple[float, float],
    letters: float = 7.5,
    upright: bool = False,
    across: str = "",
    down: str = "",
    title: str = "",
) -> Plot:
    """A matrix of coloured squares; many names below it stand upright."""
    with drawing(*size) as (figure, axes):
        from matplotlib.patches import Rectangle

        for column, row, depth, text, colour, ink, below in squares:
            axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, color=colour, alpha=depth, lw=0))
            axes.text(column, row, text, ha="center", va="center", fontsize=letters, color=ink)
            if below:
                axes.text(column, row + 0.3, below, ha="center", va="center", fontsize=7.5, color=FAINT)
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
        axes.set_xticks(range(len(columns)), columns, rotation=90 if upright else 0, fontsize=8.5)
        axes.set_yticks(range(len(rows)), rows, fontsize=8.5)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set(xlabel=across, ylabel=down)
        if title:
            axes.set_title(one_line(title), loc="left")
        return figure


# Measures and their differences as dots with 95 % intervals.


def measure_dots(result: Result, measures: Sequence[str] | None = None) -> Plot:
    """The measures of each task in percent, with 95 % intervals over images (or queries)."""
    recall = result.protocol.recall
    fractions = [name for name in result.measures if display(name).scale == 100]
    named = [name for name in fractions if name.partition("@")[0] == recall] or fractions
    chosen = in_reading_order([name for name in measures if name in fractions] if measures else named, result.protocol)
    if not chosen:
        raise VisirError(
            f"{result.system}: no measure to draw.", hint=f"give some of measures=[…]: {', '.join(fractions) or 'none'}"
        )
    marks: list[PlotMark] = []
    for name in chosen:
        for task in result.tasks:
            if name not in result.per_query[task].column_names:
                continue
            values, units = result.values(task, name), clusters_of(result, task)
            known = np.isfinite(values)
            if known.any():
                shown = measure_estimate(name, values[known], None if units is None else units[known])
                drawn = [100 * value for value in (shown.value, shown.low, shown.high)]
                marks.append(PlotMark(everyday_name(name, recall), drawn, task_words(task)))
    title = f"{result.system} on {result.protocol.collection}"
    return dots(marks, "percent, with 95 % intervals", title=title, limits=(0, None))


def difference_dots(comparison: Comparison) -> Plot:
    """The differences to the baseline in percentage points, with 95 % intervals; those that are significant are
    filled."""
    # Measures that are no fractions (ranks, gains) have another unit and are left out.
    marks = [
        PlotMark(
            f"{task_words(entry.task)}  {heading(entry.measure, comparison)}",
            [100 * value for value in (entry.difference, entry.low, entry.high)],
            entry.system,
            filled=entry.p_corrected < 0.05,
        )
        for entry in comparison.differences
        if display(entry.measure).scale == 100 and entry.baseline == comparison.systems[0]
    ]
    if not marks:
        raise VisirError("no difference is of a measure that is a fraction.", hint="compare by hit@1, recall@10, …")
    axis, title = "percentage points, 95 % intervals (filled: corrected p < 0.05)", f"against {comparison.systems[0]}"
    return dots(marks, axis, title=title, size=(6.2, 0), lines={0: "-"})


_NO_MEASURES = ("second", "time", "rate", "lr", "temperature", "scale")
_RANK_EDGES = (1, 2, 3, 6, 11, 21, 51, 101, 1001)


def hit_curves(
    ranks: Mapping[str, NDArray[np.float64]],
    *,
    chance: Mapping[str, NDArray[np.float64]] | None = None,
    limit: int | None = None,
) -> Plot:
    """hit@k against k (logarithmic), one curve per task."""
    # ranks: Task -> (n,) rank of each query's first positive, from 1; infinite where none was found.
    # chance: Task -> (limit,) hit@1 … hit@limit of a random order, drawn thin and dotted.
    finite = [values[np.isfinite(values)] for values in ranks.values()]
    top = limit or int(max((values.max() for values in finite if len(values)), default=10))
    top = max(top, 10)
    ks = np.unique(np.concatenate([np.arange(1, min(top, 20) + 1), np.geomspace(1, top, 80).astype(int)]))
    with drawing(5.4, 3.5) as (figure, axes):
        for number, (task, of_task) in enumerate(ranks.items()):
            ordered = np.sort(of_task)
            values = 100 * np.searchsorted(ordered, ks, side="right") / len(ordered)
            label = task_words(one_line(task))
            axes.plot(ks, values, **line(number), linewidth=2, label=label)
            marks = [k for k in (1, 5, 10) if k <= top]
            heights = 100 * np.searchsorted(ordered, marks, side="right") / len(ordered)
            axes.plot(marks, heights, MARKERS[number % len(MARKERS)], color=line(number)["color"], markersize=5)
            if chance and task in chance:
                expected = chance[task][ks[ks <= len(chance[task])] - 1]
                colour = line(number)["color"]
                axes.plot(ks[: len(expected)], 100 * expected, color=colour, linewidth=0.9, linestyle=DASHES[2])
        if chance:
            axes.plot([], [], color=FAINT, linewidth=0.9, linestyle=DASHES[2], label="random order")
        axes.set_xscale("log")
        _plain_ticks(axes, [k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 100000) if k <= top])
        axes.set(
            xlim=(0.93, top * 1.04),
            ylim=(0, 102),
            xlabel="k: how far down the answer one looks",
            ylabel="queries with a hit, %",
        )
        axes.legend(loc="best")
        return figure


def rank_distribution(ranks: Mapping[str, NDArray[np.float64]]) -> Plot:
    """How many queries have their first positive at which rank: bars over bands of ranks, one colour per task."""
    finite = [values[np.isfinite(values)] for values in ranks.values()]
    deepest = max((values.max() for values in finite if len(values)), default=1)
    edges = [edge for edge in _RANK_EDGES if edge <= deepest]
    names = [_band(a, b) for a, b in zip(_RANK_EDGES, [*_RANK_EDGES[1:], None], strict=True)][: len(edges)]
    missing = any(len(values) < len(of_task) for values, of_task in zip(finite, ranks.values(), strict=True))
    if missing:
        names.append("not\nfound")
    with drawing(5.4, 3.5) as (figure, axes):
        width = 0.8 / len(ranks)
        for number, (task, values) in enumerate(ranks.items()):
            counts = np.histogram(values[np.isfinite(values)], bins=[*edges, np.inf])[0].tolist()
            shares = 100 * np.array([*counts, *([int(np.isinf(values).sum())] if missing else [])]) / len(values)
            places = np.arange(len(names)) - 0.4 + width * (number + 0.5)
            label = task_words(one_line(task))
            bars = axes.bar(places, shares, width * 0.94, color=line(number)["color"], label=label)
            axes.bar_label(bars, fmt="%.0f", fontsize=7.5, padding=1.5, color=INK)
        axes.set_xticks(range(len(names)), names, fontsize=9)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set(xlabel="rank of the first right answer", ylabel="queries, %")
        axes.legend(loc="best")
        return figure


def training_curves(history: Sequence[Mapping[str, Any]]) -> Plot:
    """Loss and validation measures over training; `history` is one mapping of numbers per epoch (or per log line)."""
    # Mappings inside a row (`"validation": {"t2i hit@1": …}`) are taken apart; what is inside "losses" is a loss, what
    # is inside "facts" is left out. The horizontal axis is "epoch", else "step", else the line's number. Keys with
    # "loss" in them go above, `rsum` (0–600) on a scale of its own, all other numbers between; times, rates and
    # temperatures are no measure of success and are left out. Rows may lack keys.
    rows = [_flat(row) for row in history]
    axis = next((key for key in ("epoch", "step") if any(key in row for row in rows)), "")
    numbers = [
        key
        for key in dict.fromkeys(key for row in rows for key in row)
        if key not in ("epoch", "step") and not any(word in key.lower() for word in _NO_MEASURES)
    ]
    panels = [
        ("loss", [key for key in numbers if "loss" in key.lower()]),
        ("validation", [key for key in numbers if not any(word in key.lower() for word in ("loss", "rsum"))]),
        ("validation rsum", [key for key in numbers if "rsum" in key.lower()]),
    ]
    panels = [(title, keys) for title, keys in panels if keys]
    if not panels:
        raise VisirError(
            "training curves: the history holds no numbers.",
            hint="give one mapping of numbers per epoch",
            code="history-holds-no-numbers",
        )
    with drawing(6.2, 0.6 + 2.0 * len(panels), rows=len(panels)) as (figure, drawn):
        for axes, (title, keys) in zip(drawn if len(panels) > 1 else [drawn], panels, strict=True):
            for number, key in enumerate(keys):
                points = [(row.get(axis, position), row[key]) for position, row in enumerate(rows, 1) if key in row]
                axes.plot(
                    [x for x, _ in points],
                    [y for _, y in points],
                    **line(number),
                    marker=MARKERS[number % len(MARKERS)],
                    markersize=3.5,
                    linewidth=1.7,
                    label=one_line(key),
                )
            axes.set_title(title if len(keys) > 1 else one_line(keys[0]), loc="left")
            axes.xaxis.get_major_locator().set_params(integer=True)
            if len(keys) > 1:
                axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5)  # beside: it hides no line
        axes.set_xlabel(axis or "entry")
        return figure


def _flat(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row and of the mappings in it."""
    numbers: dict[str, float] = {}
    for key, value in row.items():
        if key == "facts":
            continue
        if isinstance(value, Mapping):
            inside = _flat(value)
            if key == "losses":
                # A loss with one part is that part.
                inside = {part if "loss" in part else f"{part} loss": of for part, of in inside.items()}
                inside = {"loss": inside["loss"]} if len(inside) == 2 and "loss" in inside else inside
            numbers |= inside
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[key] = value
    return numbers


def line(number: int, **more: Any) -> dict[str, Any]:
    """The colour and the dashes of a curve; they come again when there are many."""
    return {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[number % len(DASHES)], **more}


def _plain_ticks(axes: Axes, ticks: Sequence[int]) -> None:
    axes.set_xticks(list(ticks), [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def _band(first: int, following: int | None) -> str:
    if following is None:
        return f"{first:,}+"
    if following == first + 1:
        return f"{first:,}"
    one_row = f"{first:,}–{following - 1:,}"
    return one_row if len(one_row) < 8 else one_row.replace("–", "–\n")
