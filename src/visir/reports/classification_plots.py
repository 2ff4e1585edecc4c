"""Plots of a classification: accuracy over shots, accuracy by class, and the confusion matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from visir.evaluation.classification.result import Classification, Key, method_title
from visir.reports.blocks import Figure
from visir.reports.svg import DASHES, FAINT, MARKERS, SERIES, drawing, themed
from visir.reports.table import one_line

if TYPE_CHECKING:
    from visir.reports.plot import Plot

_NAMED = 40
"""Classes up to which each is named on an axis."""


def shot_curves(result: Classification) -> Plot:
    """Accuracy over shots, a line for each method with its 95 % interval; zero-shot and chance are level lines."""
    few = [row for row in result.accuracies if row.shots]
    methods = list(dict.fromkeys(row.method for row in few))
    most = max((row.shots for row in few), default=1)
    numbers = sorted({row.shots if row.shots > 0 else 2 * most for row in few})
    with drawing(6.2, 3.8) as (figure, axes):
        for number, method in enumerate(methods):
            rows = [row for row in few if row.method == method]
            x = np.array([row.shots if row.shots > 0 else 2 * most for row in rows], float)
            low, middle, high = (
                100 * np.array([getattr(row.top1, name) for row in rows]) for name in ("low", "mean", "high")
            )
            colour = SERIES[number % len(SERIES)]
            axes.plot(
                *(x, middle),
                color=colour,
                marker=MARKERS[number % len(MARKERS)],
                linestyle=DASHES[number % len(DASHES)],
                markersize=5,
                label=method,
            )
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        for number, row in enumerate(row for row in result.accuracies if not row.shots):
            level = 100 * row.top1.mean
            axes.axhline(level, color=SERIES[3 + number % 3], linestyle=DASHES[1 + number % 3], label=row.method)
        axes.axhline(100 * result.chance, color=FAINT, linewidth=1.2, linestyle=DASHES[2], label="chance")
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers, [str(n) if n in {row.shots for row in few} else "all" for n in numbers])
        axes.minorticks_off()
        axes.set_xlabel("training pictures of each class")
        axes.set_ylabel("top-1 accuracy, %")
        figure.legend(loc="outside upper center", ncols=3, fontsize=8.5)
        return figure


def class_bars(result: Classification, key: Key) -> Plot:
    """The share of each class that is predicted rightly, best first, with intervals where there are few classes."""
    estimates = {name: value for name, value in result.per_class(*key).items() if not np.isnan(value.mean)}
    ordered = sorted(estimates.items(), key=lambda entry: -entry[1].mean)
    middle = np.array([100 * value.mean for _, value in ordered])
    place = np.arange(len(ordered))
    few = len(ordered) <= _NAMED
    with drawing(6.2, max(2.2, 0.7 + 0.22 * len(ordered)) if few else 3.2) as (figure, axes):
        if few:
            ends = np.array([[100 * value.low, 100 * value.high] for _, value in ordered]).T
            axes.barh(place, middle, color=SERIES[0], alpha=0.55)
            errors = np.maximum(0, [middle - ends[0], ends[1] - middle])
            axes.errorbar(middle, place, xerr=errors, fmt="none", ecolor=SERIES[0], linewidth=1.4)
            axes.set_yticks(place, [one_line(name)[:40] for name, _ in ordered])
            axes.tick_params(axis="y", length=0)
            axes.invert_yaxis()
            axes.axvline(100 * result.chance, color=FAINT, linestyle=DASHES[2])
            axes.set_xlim(0, 100)
            axes.set_xlabel("predicted rightly, % (95 % interval; dotted: chance)")
        else:
            axes.fill_between(place, middle, step="mid", color=SERIES[0], alpha=0.55)
            axes.axhline(100 * result.chance, color=FAINT, linestyle=DASHES[2])
            axes.set_ylim(0, 100)
            axes.set_xlabel("classes, best first")
            axes.set_ylabel("predicted rightly, %")
        return figure


def confusion_matrix(result: Classification, key: Key) -> Plot:
    """Shares of each class (rows) that are taken for each (columns); the darker, the more."""
    counts = result.confusion_counts(*key).astype(float)
    totals = counts.sum(axis=1, keepdims=True)
    shares = 100 * np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    size = len(shares)
    names = [one_line(name)[:24] for name in result.classes]
    side = min(8.0, 2.2 + 0.26 * size)
    with drawing(side + 0.8, side) as (figure, axes):
        axes.grid(visible=False)
        image: Any = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
        if size <= _NAMED:
            axes.set_xticks(range(size), names, rotation=90, fontsize=8)
            axes.set_yticks(range(size), names, fontsize=8)
        if size <= 12:
            for row in range(size):
                for column in range(size):
                    if shares[row, column] >= 0.5:
                        colour = "white" if shares[row, column] > 55 else "#444b55"
                        text = f"{shares[row, column]:.0f}"
                        axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=colour)
        axes.set_xlabel("predicted")
        axes.set_ylabel("right")
        figure.colorbar(image, ax=axes, shrink=0.8, label="% of the row")
        return figure


def curve_figure(result: Classification) -> Figure:
    """The curves over shots, for a page."""
    listed = "; ".join(
        f"{method_title(row.method, row.shots)}: {100 * row.top1.mean:.1f} %" for row in result.accuracies
    )
    return Figure(
        themed(shot_curves(result), "shots", f"Accuracy over shots. {listed}."),
        "",
        "Mean over draws; the bands are 95 % intervals over draws of the shots.",
    )


def class_figure(result: Classification, key: Key) -> Figure:
    """The accuracy of each class, for a page."""
    return Figure(
        themed(class_bars(result, key), "classes", "Accuracy of each class; the numbers are in the table."),
        "",
        "The share of the pictures of each class that are predicted rightly.",
    )


def confusion_figure(result: Classification, key: Key) -> Figure:
    """The confusion matrix, for a page."""
    return Figure(
        themed(confusion_matrix(result, key), "confusion", "Confusion matrix; the most frequent are in the table."),
        "",
        "Each row is the pictures of one class, in percent: what they are taken for.",
    )
