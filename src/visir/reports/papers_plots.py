"""Plots of Figures 6.6 and 6.7 out of the values of a study's cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from visir.reports.papers_grid import measure_of, point_of
from visir.reports.svg import DASHES, FAINT, INK, SERIES, drawing, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = ("", "ROC-AUC", "PR-AUC", "calibration error")
"""What stands before the step in a label: nothing for F1."""
ALL_BOUGHT = "all bought"
PRINTED_IDENTIFIED = 96
"""Section 6.5.3: "stays around 96 %"."""
_MARKERS = ("o", "s", "^", "D", "v", "P")
_Curves = dict[tuple[str, str, str], dict[int, float]]
"""(setting, model, feature set) → step → value."""


def shares(values: Mapping[str, float], axis: str) -> str:
    """One lying bar for each name, the largest on top."""
    names = sorted(values, key=lambda name: values[name])
    with drawing(7.4, 0.9 + 0.3 * len(names)) as (figure, axes):
        axes.barh(names, [values[name] for name in names], color=SERIES[0], height=0.62)
        axes.set_xlabel(axis)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        return to_svg(figure)


def over_steps(values: Mapping[str, float], printed: Mapping[str, float], axis: str) -> str:
    """A curve over the steps of a session; `printed` values are hollow marks."""
    with drawing(4.6, 2.8) as (figure, axes):
        own, theirs = _steps(values), _steps(printed)
        axes.plot(list(own), list(own.values()), color=SERIES[0], marker="o", linewidth=1.8)
        axes.plot(
            list(theirs), list(theirs.values()), "D", color=SERIES[1], fillstyle="none", markersize=10, clip_on=False
        )
        axes.set_ylim(0, 106)
        _at_steps(axes)
        axes.set_ylabel(axis)
        return to_svg(figure)


def predictions(means: Mapping[str, Mapping[str, float]]) -> str:
    """A row of panels for each measure, a column for each setting; a colour and a marker for each model."""
    by_measure = {one: _curves(means, one) for one in MEASURES}
    by_measure = {one: curves for one, curves in by_measure.items() if curves}
    settings = list(dict.fromkeys(key[0] for curves in by_measure.values() for key in curves))
    models = list(dict.fromkeys(key[1] for curves in by_measure.values() for key in curves if key[1] != ALL_BOUGHT))
    height, width = len(by_measure), len(settings)
    with drawing(1.2 + 3.9 * width, 0.9 + 2.7 * height, rows=height, columns=width) as (figure, drawn):
        panels = [[drawn]] if height == width == 1 else drawn.reshape(height, width).tolist()
        for row, (measure, curves) in zip(panels, by_measure.items(), strict=True):
            for axes, setting in zip(row, settings, strict=True):
                for (of, model, which), values in curves.items():
                    if of != setting:
                        continue
                    if model == ALL_BOUGHT:
                        axes.plot(list(values), list(values.values()), color=INK, linestyle=DASHES[2], linewidth=1.4)
                        continue
                    at, solid = models.index(model), which == "extended"
                    axes.plot(
                        list(values),
                        list(values.values()),
                        color=SERIES[at % len(SERIES)],
                        linestyle="-" if solid else DASHES[1],
                        marker=_MARKERS[at % len(_MARKERS)],
                        markersize=4.2,
                        fillstyle="full" if solid else "none",
                        linewidth=1.6 if solid else 1.1,
                    )
                if not measure and setting == "identified":
                    axes.axhline(PRINTED_IDENTIFIED, color=FAINT, linewidth=1)
                    axes.annotate(
                        "thesis: around 96", (0, PRINTED_IDENTIFIED), (2, -3), textcoords="offset points",
                        va="top", fontsize=8, color=FAINT,
                    )  # fmt: skip
                _at_steps(axes)
            row[0].set_ylabel(f"{measure or 'F1'}, × 100")
        for axes, setting in zip(panels[0], settings, strict=True):
            axes.set_title(setting, loc="left")
        first = panels[0][0]
        for at, model in enumerate(models):
            mark = _MARKERS[at % len(_MARKERS)]
            first.plot([], [], color=SERIES[at % len(SERIES)], marker=mark, markersize=4.2, label=model)
        first.plot([], [], color=INK, label="extended")
        first.plot([], [], color=INK, linestyle=DASHES[1], label="baseline")
        first.plot([], [], color=INK, linestyle=DASHES[2], label="all called a purchase")
        handles, labels = first.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3 if width == 1 else 5, fontsize=8.5)
        return to_svg(figure)


def _curves(means: Mapping[str, Mapping[str, float]], measure: str) -> _Curves:
    found: _Curves = {}
    for name, values in means.items():
        setting, _, rest = name.partition(", ")
        model, _, which = rest.partition(", ")
        steps = _steps({point_of(one): value for one, value in values.items() if measure_of(one) == measure})
        if steps:
            found[setting, model, which] = steps
    return found


def _steps(values: Mapping[str, float]) -> dict[int, float]:
    return {int(label.removeprefix("step ")): one for label, one in values.items()}


def _at_steps(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step: pages opened so far")
