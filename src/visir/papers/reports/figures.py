"""Figures that a study found: one drawing for each collection, beside what the text prints."""

from __future__ import annotations

from visir.papers.registered import DRAWINGS
from visir.papers.verdict import Verdict
from visir.reports.blocks import Figure
from visir.reports.svg import themed


def figures_of(verdict: Verdict) -> list[Figure]:
    """What can be drawn of a study of Figures 6.2 to 6.7, log by log; nothing of other studies."""
    draw = DRAWINGS.get(verdict.study.shape or "")
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
