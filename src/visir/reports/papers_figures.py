"""Figures 6.2 to 6.7 of the thesis as a study found them: one drawing for each log, beside what the text prints.

The values behind the printed figures are not at hand; what the text says of them in numbers is drawn or said below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from visir.reports import papers_plots as plots
from visir.reports.figures import Figure
from visir.reports.sessions_plots import outcome_bars, survival, transition_diagram, transition_map
from visir.reports.svg import themed
from visir.sessions.describe import Statistic, Value
from visir.studies.papers.log_words import DEVICES
from visir.studies.papers.shapes import Means
from visir.studies.papers.verdict import Verdict

Said = Mapping[tuple[str, str], float]
"""(system, label) → what the text prints."""
Drawn = tuple[str, str]
"""An SVG document, and a sentence on how to read it."""
OUTCOMES = ("Purchase sessions", "Non-purchase sessions")
NAMES = ("sessions with a purchase", "sessions without")
MOST_ROUND = 6
"""Devices that the round diagram has room for."""


def figures_of(verdict: Verdict) -> list[Figure]:
    """What can be drawn of a study of Figures 6.2 to 6.7, log by log; nothing of other studies."""
    draw = DRAWN.get(verdict.study.shape or "")
    if draw is None:
        return []
    by_log: dict[str, dict[str, dict[str, float]]] = {}
    said: dict[tuple[str, str], float] = {}
    for one in verdict.values:
        if one.ours is not None:
            by_log.setdefault(one.collection, {}).setdefault(one.system, {})[one.label] = one.ours
        if one.published is not None:
            said[one.system, one.label] = one.published
    made = []
    for log, means in by_log.items():
        for number, (svg, caption) in enumerate(draw(means, said)):
            prefix = "-".join(filter(None, (verdict.name, verdict.scale, log, str(number))))
            title = f"{verdict.study.title}: {log}" if log else verdict.study.title
            made.append(Figure(themed(svg, prefix, f"{title}; the numbers are in the tables below"), title, caption))
    return made


def _lengths(means: Means, said: Said) -> Iterator[Drawn]:
    curves = {name: one for name, one in means.items() if name.partition(", ")[2] in ("purchase", "non-purchase")}
    counts = {length for one in curves.values() for length in one}
    if counts:
        lengths = sorted(counts, key=lambda one: int(one.replace(",", "")))
        yield (
            survival(_statistic("figure-6-2", lengths, curves)),
            "Share of sessions longer than x actions. Where a curve crosses the dotted lines, half of its sessions "
            "(P50), or one in ten (P90), are longer. The thesis prints no number of it.",
        )


def _bars(name: str, axis: str, thesis: str, means: Means, said: Said) -> Iterator[Drawn]:
    outcomes = {one: means.get(one, {}) for one in OUTCOMES}
    rows = list(dict.fromkeys(label for one in outcomes.values() for label in one))
    if rows:
        svg = outcome_bars(_statistic(name, rows, outcomes), OUTCOMES, labels=NAMES, axis=axis)
        yield svg, f"Bars of one colour add up to 100 %; intervals are in visir intent describe. {thesis}"


def _switches(means: Means, said: Said) -> Iterator[Drawn]:
    devices = [one for one in DEVICES if one in means]
    if not devices:
        return
    told = _statistic("figure-6-5", devices, {one: means[one] for one in devices})
    printed = {(left, to): value for (to, left), value in said.items()}
    caption = "From the device of the row to that of the column; each row adds up to 100 %. A dash: nobody left there."
    yield transition_map(told, printed=printed), f"{caption} Small: what the text of the thesis prints."
    if 2 <= len(devices) <= MOST_ROUND:
        yield (
            transition_diagram(told),
            "As the thesis draws it: in each circle the chance of staying, arrows as thick as the step is likely; "
            "steps below 0.5 % are left out, the weakest drawn is dashed.",
        )


def _importance(means: Means, said: Said) -> Iterator[Drawn]:
    for setting, thesis in (
        ("anonymous", "The thesis: week day first, then dwell times and the page score."),
        ("identified", "The thesis: number of orders and days since the last, then dwell times and the page score."),
    ):
        if means.get(setting):
            yield plots.shares(means[setting], f"{setting}: % of the decrease in impurity"), thesis
    static = means.get("static features", {})
    if static:
        printed = {label: value for (system, label), value in said.items() if system == "static features"}
        yield (
            plots.over_steps(static, printed, "static features, %"),
            "Anonymous setting: the share of all static features. Hollow: printed in the text.",
        )


def _predictions(means: Means, said: Said) -> Iterator[Drawn]:
    if means:
        yield (
            plots.predictions(means),
            "Solid and filled: extended feature set; dashed and hollow: baseline. Dotted: calling every session a "
            "purchase. The thesis prints F1 alone, as a figure, and says that identified sessions stay around 96 %; "
            "ROC-AUC, PR-AUC and the calibration error are not the thesis's.",
        )


DRAWN: dict[str, Callable[[Means, Said], Iterator[Drawn]]] = {
    "figure-6-2": _lengths,
    "figure-6-3": partial(
        _bars,
        "figure-6-3",
        "day on which the session begins",
        "The thesis: Tuesday, Wednesday and Thursday hold 48.55 % of the purchase sessions; Monday, Wednesday and "
        "Thursday 58.55 % of the others.",
    ),
    "figure-6-4": partial(
        _bars, "figure-6-4", "hour in which the session begins", "The thesis prints no number of it."
    ),
    "figure-6-5": _switches,
    "figure-6-6": _importance,
    "figure-6-7": _predictions,
}
"""Shape of a study → how its figure is drawn."""


def _statistic(name: str, rows: list[str], columns: Means) -> Statistic:
    """Values as `visir intent describe` has them, without their intervals: cells of a study keep none."""
    cells = tuple(tuple(Value(column.get(row)) for column in columns.values()) for row in rows)
    return Statistic(name, "", "", "", tuple(rows), tuple(columns), ("%",) * len(columns), cells)
