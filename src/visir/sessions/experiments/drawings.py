"""Figures 6.2 to 6.7 of the thesis, drawn from what a study found in one log, beside what the text prints.

The values behind the printed figures are not available; the numbers of the text are drawn or quoted below.
"""

from __future__ import annotations

from collections.abc import Iterator

from visir.sessions.description import Statistic, StatisticCell
from visir.sessions.description.outcome_shares import BUYING, OTHER, OUTCOME_LABELS
from visir.sessions.experiments.plots import over_steps, prediction_panels, shares
from visir.sessions.reports.plots import outcome_bars, survival, transition_diagram, transition_map
from visir.sessions.table_labels import DEVICES
from visir.studies.trend_check import Drawing, Means, PublishedValues

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
