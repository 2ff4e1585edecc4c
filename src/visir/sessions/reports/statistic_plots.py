"""The plots of a table or figure of the characterisation, each with a sentence on how to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from visir.sessions.description import Statistic
from visir.sessions.description.journeys import BUYING, OTHER, OUTCOME_LABELS, RATE
from visir.sessions.reports.plots import lying_bars, outcome_bars, survival, transition_diagram, transition_map

if TYPE_CHECKING:
    from visir.reports.plot import Plot


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
