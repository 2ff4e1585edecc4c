"""Figures of a study: one drawing for each collection, with the values that the paper's text prints."""

from __future__ import annotations

from visir.papers.comparison import StudyComparison
from visir.papers.registries import DRAWINGS
from visir.reports.blocks import Figure
from visir.reports.svg import themed


def figures_of(comparison: StudyComparison) -> list[Figure]:
    """The drawings of a study, collection by collection; empty where no application registers one."""
    draw = DRAWINGS.get(comparison.study.trend_checks or "")
    if draw is None:
        return []
    by_collection: dict[str, dict[str, dict[str, float]]] = {}
    published: dict[tuple[str, str], float] = {}
    for value in comparison.values:
        if value.ours is not None:
            by_collection.setdefault(value.collection, {}).setdefault(value.system, {})[value.label] = value.ours
        if value.published is not None:
            published[value.system, value.label] = value.published
    figures = []
    for collection, means in by_collection.items():
        for number, (plot, caption) in enumerate(draw(means, published)):
            prefix = "-".join(filter(None, (comparison.name, comparison.scale, collection, str(number))))
            title = f"{comparison.study.title}: {collection}" if collection else comparison.study.title
            label = f"{title}; the numbers are in the tables below"
            figures.append(Figure(themed(plot, prefix, label), title, caption))
    return figures
