"""Figures 6.2 to 6.7 of the thesis, drawn from what a study found in one log, beside what the text prints.

The values behind the printed figures are not available; the numbers of the text are drawn or quoted below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from visir.reports.plots import DASHES, FAINT, INK, SERIES, drawing
from visir.sessions.description import Statistic, StatisticCell
from visir.sessions.description.journeys import BUYING, OTHER, OUTCOME_LABELS
from visir.sessions.reports.intent_plots import MARKERS
from visir.sessions.reports.plots import outcome_bars, survival, transition_diagram, transition_map
from visir.sessions.table_labels import DEVICES
from visir.studies.experiment import Drawing, Means, PublishedValues, measure_of, point_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot


# Plots of Figures 6.6 and 6.7 out of the values of a study's cells.

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


OUTCOMES = (BUYING, OTHER)
MOST_ROUND = 6
"""Devices that the round diagram has room for."""


def lengths(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.2: how many sessions are longer than so many actions."""
    curves = {name: curve for name, curve in means.items() if name.partition(", ")[2] in ("purchase", "non-purchase")}
    counts = {length for curve in curves.values() for length in curve}
    if counts:
        lengths = sorted(counts, key=lambda length: int(length.replace(",", "")))
        yield (
            survival(_statistic("figure-6-2", lengths, curves)),
            "Share of sessions longer than x actions. Where a curve crosses the dotted lines, half of its sessions "
            "(P50), or one in ten (P90), are longer. The thesis prints no number of it.",
        )


def weekdays(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.3: on which days sessions begin."""
    yield from _bars(
        "figure-6-3",
        "day on which the session begins",
        "The thesis: Tuesday, Wednesday and Thursday hold 48.55 % of the purchase sessions; Monday, Wednesday and "
        "Thursday 58.55 % of the others.",
        means,
    )


def hours(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.4: at which hours sessions begin."""
    yield from _bars("figure-6-4", "hour in which the session begins", "The thesis prints no number of it.", means)


def _bars(name: str, axis: str, thesis: str, means: Means) -> Iterator[Drawing]:
    outcomes = {outcome: means.get(outcome, {}) for outcome in OUTCOMES}
    rows = list(dict.fromkeys(label for values in outcomes.values() for label in values))
    if rows:
        svg = outcome_bars(_statistic(name, rows, outcomes), OUTCOMES, labels=OUTCOME_LABELS, axis=axis)
        yield svg, f"Bars of one colour add up to 100 %; intervals are in visir sessions describe. {thesis}"


def switches(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.5: from which device people go on to which."""
    devices = [device for device in DEVICES if device in means]
    if not devices:
        return
    transitions = _statistic("figure-6-5", devices, {device: means[device] for device in devices})
    printed_chances = {(left, to): value for (to, left), value in printed.items()}
    caption = "From the device of the row to that of the column; each row adds up to 100 %. A dash: nobody left there."
    yield transition_map(transitions, printed=printed_chances), f"{caption} Small: what the text of the thesis prints."
    if 2 <= len(devices) <= MOST_ROUND:
        yield (
            transition_diagram(transitions),
            "As the thesis draws it: in each circle the chance of staying, arrows as thick as the step is likely; "
            "steps below 0.5 % are left out, the weakest drawn is dashed.",
        )


def importance(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.6: which features a prediction uses."""
    for setting, thesis in (
        ("anonymous", "The thesis: week day first, then dwell times and the page score."),
        ("identified", "The thesis: number of orders and days since the last, then dwell times and the page score."),
    ):
        if means.get(setting):
            yield shares(means[setting], f"{setting}: % of the decrease in impurity"), thesis
    static = means.get("static features", {})
    if static:
        printed_shares = {label: value for (system, label), value in printed.items() if system == "static features"}
        yield (
            over_steps(static, printed_shares, "static features, %"),
            "Anonymous setting: the share of all static features. Hollow: printed in the text.",
        )


def predictions(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.7: how well purchase is predicted, step by step."""
    if means:
        yield (
            prediction_panels(means),
            "Solid and filled: extended feature set; dashed and hollow: baseline. Dotted: calling every session a "
            "purchase. The thesis prints F1 alone, as a figure, and says that identified sessions stay around 96 %; "
            "ROC-AUC, PR-AUC and the calibration error are not the thesis's.",
        )


def _statistic(name: str, rows: list[str], columns: Means) -> Statistic:
    """Values as `visir sessions describe` has them, without their intervals, which cells of a study do not have."""
    cells = tuple(tuple(StatisticCell(column.get(row)) for column in columns.values()) for row in rows)
    return Statistic(name, "", "", "", tuple(rows), tuple(columns), ("%",) * len(columns), cells)
