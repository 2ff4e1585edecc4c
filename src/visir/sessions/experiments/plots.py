"""Plots of Figures 6.6 and 6.7 out of the values of a study's cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from visir.reports.svg import DASHES, FAINT, INK, SERIES, drawing
from visir.sessions.reports.intent_plots import MARKERS
from visir.studies.curve_labels import measure_of, point_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot

MEASURES = ("", "ROC-AUC", "PR-AUC", "calibration error")
"""What precedes the step in a label: nothing for F1."""
ALL_BOUGHT = "all bought"
PRINTED_IDENTIFIED = 96
"""Section 6.5.3: "stays around 96 %"."""
_Curves = dict[tuple[str, str, str], dict[int, float]]
"""(setting, model, feature set) → step → value."""


def shares(values: Mapping[str, float], axis: str) -> Plot:
    """One lying bar for each name, the largest on top."""
    names = sorted(values, key=lambda name: values[name])
    with drawing(7.4, 0.9 + 0.3 * len(names)) as (figure, axes):
        axes.barh(names, [values[name] for name in names], color=SERIES[0], height=0.62)
        axes.set_xlabel(axis)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        return figure


def over_steps(values: Mapping[str, float], printed: Mapping[str, float], axis: str) -> Plot:
    """A curve over the steps of a session; `printed` values are hollow marks."""
    with drawing(4.6, 2.8) as (figure, axes):
        measured, printed_steps = _steps(values), _steps(printed)
        axes.plot(list(measured), list(measured.values()), color=SERIES[0], marker="o", linewidth=1.8)
        axes.plot(
            list(printed_steps),
            list(printed_steps.values()),
            "D",
            color=SERIES[1],
            fillstyle="none",
            markersize=10,
            clip_on=False,
        )
        axes.set_ylim(0, 106)
        _at_steps(axes)
        axes.set_ylabel(axis)
        return figure


def prediction_panels(means: Mapping[str, Mapping[str, float]]) -> Plot:
    """A panel for each measure and setting, two in a row; a colour and a marker for each model."""
    # Of two settings each has a column; one alone has its measures in both.
    by_measure = {measure: _curves(means, measure) for measure in MEASURES}
    settings = list(dict.fromkeys(key[0] for curves in by_measure.values() for key in curves))
    models = list(dict.fromkeys(key[1] for curves in by_measure.values() for key in curves if key[1] != ALL_BOUGHT))
    shown = [(measure, setting) for measure, curves in by_measure.items() if curves for setting in settings]
    rows = -(-len(shown) // 2)
    with drawing(9.0, 0.9 + 2.7 * rows, rows=rows, columns=2) as (figure, drawn):
        panels = drawn.ravel()
        for axes, (measure, setting) in zip(panels, shown, strict=False):
            for (curve_setting, model, feature_set), values in by_measure[measure].items():
                if curve_setting == setting:
                    _curve(
                        axes, values, None if model == ALL_BOUGHT else models.index(model), feature_set == "extended"
                    )
            if not measure and setting == "identified":
                axes.axhline(PRINTED_IDENTIFIED, color=FAINT, linewidth=1)
                axes.annotate(
                    "thesis: around 96", (0, PRINTED_IDENTIFIED), (2, -3), textcoords="offset points",
                    va="top", fontsize=8, color=FAINT,
                )  # fmt: skip
            axes.set_title(setting, loc="left")
            axes.set_ylabel(f"{measure or 'F1'}, × 100")
            _at_steps(axes)
        for axes in panels[len(shown) :]:
            axes.set_axis_off()
        first = panels[0]
        for position, model in enumerate(models):
            mark = MARKERS[position % len(MARKERS)]
            first.plot([], [], color=SERIES[position % len(SERIES)], marker=mark, markersize=4.2, label=model)
        first.plot([], [], color=INK, label="extended")
        first.plot([], [], color=INK, linestyle=DASHES[1], label="baseline")
        first.plot([], [], color=INK, linestyle=DASHES[2], label="all called a purchase")
        figure.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8.5)
        return figure


def _curve(axes: Axes, values: Mapping[int, float], model: int | None, solid: bool) -> None:
    """One curve: of the model of that number, or dotted, for none, of calling everything a purchase."""
    if model is None:
        axes.plot(list(values), list(values.values()), color=INK, linestyle=DASHES[2], linewidth=1.4)
        return
    axes.plot(
        list(values),
        list(values.values()),
        color=SERIES[model % len(SERIES)],
        linestyle="-" if solid else DASHES[1],
        marker=MARKERS[model % len(MARKERS)],
        markersize=4.2,
        fillstyle="full" if solid else "none",
        linewidth=1.6 if solid else 1.1,
    )


def _curves(means: Mapping[str, Mapping[str, float]], measure: str) -> _Curves:
    curves: _Curves = {}
    for name, values in means.items():
        setting, _, rest = name.partition(", ")
        model, _, feature_set = rest.partition(", ")
        steps = _steps({point_of(label): value for label, value in values.items() if measure_of(label) == measure})
        if steps:
            curves[setting, model, feature_set] = steps
    return curves


def _steps(values: Mapping[str, float]) -> dict[int, float]:
    return {int(label.removeprefix("step ")): value for label, value in values.items()}


def _at_steps(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step: pages opened so far")
