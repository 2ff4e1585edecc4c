"""Curves of trainings, of one or of several beside each other; each function returns a complete SVG document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.reports.plots import DASHES, FAINT, INK, MARKERS, SERIES, drawing
from visir.reports.table import one_line
from visir.reports.training_runs import TrainingRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot

SMOOTHING = 0.02
"""The share of a training's steps over which a curve of steps is averaged."""

_POINTS = 400
_SMALLEST_MULTIPLIER, _LARGEST_MULTIPLIER = 1e-2, 100.0
_SIZE = (5.4, 2.7)

Floats = NDArray[np.float64]


def loss_curves(runs: Sequence[TrainingRun]) -> Plot:
    """What is made small over the steps and, of a single training, its contrastive part; averaged."""
    # Behind the line of a single training stand the raw values. Reconstruction losses have scales, and plots, of their
    # own.
    names = ["loss", "contrastive"] if len(runs) == 1 and runs[0].auxiliaries else ["loss"]
    return _over_steps(runs, names, "loss")


def reconstruction_curves(runs: Sequence[TrainingRun], name: str = "ltd") -> Plot:
    """A reconstruction loss over the steps, and dotted the bound η under which a constraint is to bring it."""
    # Where trainings have different bounds, each is dotted in the colour of its training.
    return _over_steps(runs, [name], f"{name.upper()}, reconstruction", bounds=name)


def multiplier_curves(runs: Sequence[TrainingRun], name: str = "ltd") -> Plot:
    """The multiplier λ of a constraint over the steps, on a logarithmic axis; below 0.01 it is drawn at 0.01."""
    # Where it came near its upper bound, 100, that is drawn too.
    with drawing(*_SIZE) as (figure, axes):
        low, high = 0.5, 2.0  # at least this much of the axis, so that there are numbers on it
        for number, run in enumerate(runs):
            if f"{name} multiplier" in run.steps:
                x, y = _thinned(run.steps["step"], np.maximum(run.steps[f"{name} multiplier"], _SMALLEST_MULTIPLIER))
                axes.plot(x, y, **_line(number), label=one_line(run.label))
                low, high = min(low, 0.9 * float(np.nanmin(y))), max(high, 1.1 * float(np.nanmax(y)))
        if high > _LARGEST_MULTIPLIER / 2:
            axes.axhline(_LARGEST_MULTIPLIER, color=FAINT, linewidth=1.2, linestyle=DASHES[2])
            high = 1.3 * _LARGEST_MULTIPLIER
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        _decimal(axes)
        _dress(axes, f"λ of {name.upper()}", runs)
        return figure


def temperature_curves(runs: Sequence[TrainingRun]) -> Plot:
    """The temperature τ over the steps."""
    return _over_steps(runs, ["temperature"], "temperature τ", smooth=False)


def learning_rate_curves(runs: Sequence[TrainingRun]) -> Plot:
    """The learning rate over the steps."""
    return _over_steps(runs, ["learning rate"], "learning rate", smooth=False)


def rsum_curves(runs: Sequence[TrainingRun]) -> Plot:
    """The validation rsum (0–600) at the end of each epoch, over the steps; a ring around the epoch that was kept."""
    with drawing(*_SIZE) as (figure, axes):
        for number, run in enumerate(runs):
            x, y = run.epochs["step"], run.epochs["rsum"]
            axes.plot(x, y, **_line(number), marker=_marker(number, y), markersize=3.5, label=one_line(run.label))
            if run.chosen is not None:
                axes.plot(x[run.chosen - 1], y[run.chosen - 1], "o", markersize=9, fillstyle="none", color=INK)
        _dress(axes, "validation rsum", runs)
        return figure


def hit_curves(run: TrainingRun) -> Plot:
    """hit@1, @5 and @10 of each task on the validation split, in percent, at the end of each epoch."""
    with drawing(*_SIZE) as (figure, axes):
        # The legend is filled column by column: one for each cut-off.
        for number, cutoff in enumerate((1, 5, 10)):
            for task, name in enumerate(run.tasks):
                y = run.epochs[f"{name} hit@{cutoff}"]
                axes.plot(
                    run.epochs["step"],
                    y,
                    color=SERIES[number],
                    linestyle=DASHES[task],
                    marker=_marker(task, y),
                    markersize=3.5,
                    label=f"{name} hit@{cutoff}",
                )
        axes.set_ylabel("queries with a hit, %")
        axes.set_xlabel("step")
        _whole(axes)
        figure.legend(loc="outside upper center", fontsize=8.5, ncols=3)
        return figure


def _over_steps(
    runs: Sequence[TrainingRun], names: Sequence[str], label: str, *, smooth: bool = True, bounds: str = ""
) -> Plot:
    drawn = [(run, name) for run in runs for name in names if name in run.steps]
    if not drawn:
        raise VisirError(
            f"no training has steps with {' or '.join(map(repr, names))}.",
            hint="look at its steps.jsonl",
            code="no-training-steps",
        )
    with drawing(*_SIZE) as (figure, axes):
        for number, (run, name) in enumerate(drawn):
            x, y = run.steps["step"], run.steps[name]
            if smooth and len(runs) == 1:
                _behind(axes, x, y, SERIES[number])
            shown = _thinned(x, _averaged(y) if smooth else y)
            axes.plot(*shown, **_line(number), label=one_line(run.label if len(runs) > 1 else name))
        levels = {number: run.bounds[bounds] for number, (run, _) in enumerate(drawn) if bounds in run.bounds}
        alone = len(set(levels.values())) == 1
        for number, bound in levels.items():
            axes.axhline(
                bound, color=FAINT if alone else SERIES[number % len(SERIES)], linewidth=1.2, linestyle=DASHES[2]
            )
        if alone:
            bound = next(iter(levels.values()))
            # On the left, where a training begins far above its bound; later the curve runs along the line.
            axes.annotate(f"η {bound:g}", (0.01, bound), xycoords=("axes fraction", "data"), va="bottom")
        _dress(axes, label, drawn)
        return figure


def _averaged(values: Floats) -> Floats:
    """The mean over the steps up to each one, as far back as `SMOOTHING` of them all; NaN values do not enter."""
    width = max(1, int(SMOOTHING * len(values)))
    is_finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(is_finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(is_finite)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    count = counts[ends] - counts[starts]
    return np.asarray(np.where(count > 0, (sums[ends] - sums[starts]) / np.maximum(count, 1), np.nan), np.float64)


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most `_POINTS` of the points, the first and the last among them."""
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(int))
    return x[rows], y[rows]


def _behind(axes: Axes, x: Floats, y: Floats, colour: str) -> None:
    """The raw values: a thin line; of many steps the band between the smallest and the largest of each stretch."""
    if len(x) <= _POINTS:
        axes.plot(x, y, color=colour, alpha=0.35, linewidth=0.8)
        return
    cuts = np.unique(np.linspace(0, len(x), _POINTS + 1).astype(int))[:-1]
    low, high = np.fmin.reduceat(y, cuts), np.fmax.reduceat(y, cuts)
    axes.fill_between(x[cuts], low, high, color=colour, alpha=0.25, linewidth=0)


def _line(number: int) -> dict[str, object]:
    return {
        "color": SERIES[number % len(SERIES)],
        "linestyle": DASHES[number % len(DASHES)],
        "linewidth": 1.7,
    }


def _marker(number: int, values: Floats) -> str:
    """Markers where they do not run into each other."""
    return MARKERS[number % len(MARKERS)] if len(values) <= 40 else ""


def _dress(axes: Axes, label: str, drawn: Sequence[object]) -> None:
    axes.set_ylabel(label)
    axes.set_xlabel("step")
    _whole(axes)
    if len(drawn) > 1:
        axes.legend(loc="best", fontsize=8.5)


def _whole(axes: Axes) -> None:
    """Steps are whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _decimal(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis, 1, 2 and 5 of each power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
