"""What distinguishes sessions that buy, in a notebook: the findings in sentences, and every statistic folded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visir.reports.page import Block, Bullets, Fold
from visir.reports.views.parts import facts
from visir.sessions.description import Characterisation
from visir.sessions.reports.intent import findings
from visir.sessions.reports.statistic_view import plot as statistic_plot
from visir.sessions.reports.tables import statistic_table, unavailable_table

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(characterisation: Characterisation) -> list[Block]:
    """The counts, the findings, and the statistics."""
    counts = characterisation.counts
    share = f"{100 * counts['purchases'] / counts['sessions']:.1f} % with a purchase"
    shown: list[Block] = [facts(characterisation.name, (counts["sessions"], "sessions"), share)]
    sentences = [sentence for section in findings(characterisation).values() for sentence in section]
    shown += [Bullets(sentences)] if sentences else []
    for statistic in characterisation.statistics:
        if not statistic.unavailable:
            numbers = replace(statistic_table(statistic), caption="")
            shown.append(Fold(f"{statistic.title} ({statistic.name})", [numbers]))
    if any(statistic.unavailable for statistic in characterisation.statistics):
        shown.append(Fold("What this log cannot tell", [unavailable_table(characterisation)]))
    return shown


def plot(characterisation: Characterisation, statistic: str = "table-6-4") -> Plot:
    """The plot of one statistic; by default devices."""
    return statistic_plot(characterisation.statistic(statistic))
