"""Sections of an evaluation's page on the labels of its queries: by language, by category."""

from __future__ import annotations

from visir.errors import VisirError
from visir.evaluation.by_label import by_label
from visir.evaluation.label_differences import LabelDifferences, label_differences
from visir.evaluation.typical_measures import typical_measures
from visir.records import GROUP, IMAGE, Result
from visir.reports.blocks import Block, Figure, Figures
from visir.reports.page import Section
from visir.reports.svg import themed
from visir.reports.views import by_label as by_label_view
from visir.reports.views import label_differences as differences_view
from visir.reports.words import task_words

_MOST = 60
"""A label with more values is no grouping of the queries that a page could show."""


def label_sections(result: Result) -> list[Section]:
    """A section for each label with two values or more: the measures, and how far the values are apart."""
    sections: list[Section] = []
    for label in grouping_labels(result):
        blocks: list[Block] = [by_label_view.table(by_label(result, label))]
        differences = paired_differences(result, label)
        if differences is not None:
            blocks += [differences_view.table(differences), Figures(_maps(differences))]
        sections.append(Section(f"by-{len(sections)}", f"By {label}", blocks))
    return sections


def grouping_labels(result: Result) -> list[str]:
    """The labels that a page can show: of two values or more, and not too many."""
    # They are counted first, because measuring thousands of groups takes long.
    values: dict[str, set[str | None]] = {}
    for labels in result.labels.values():
        for label in labels.column_names[1:]:
            if label not in (GROUP, IMAGE):
                values.setdefault(label, set()).update(labels[label].unique().to_pylist())
    return [label for label, distinct in values.items() if 1 < len(distinct) <= _MOST]


def paired_differences(result: Result, label: str) -> LabelDifferences | None:
    """The differences between the values of a label by its first typical measure; None where no images are shared."""
    try:
        differences = label_differences(result, label, typical_measures(result)[0])
    except (VisirError, IndexError):
        return None
    return differences if any(row.paired for row in differences.rows) else None


def _maps(differences: LabelDifferences) -> list[Figure]:
    caption = (
        f"{differences.measure} of the row's {differences.label} minus that of the column's, over the images that have "
        "both. Blue is better, orange is worse. Numbers are grey where the 95 % interval includes 0."
    )
    return [
        Figure(
            themed(differences_view.plot(differences, task), f"map-{number}", _in_words(differences, task)),
            f"Differences, {task_words(task)}",
            caption,
        )
        for number, task in enumerate(differences.tasks)
    ]


def _in_words(differences: LabelDifferences, task: str) -> str:
    rows = [row for row in differences.rows if row.task == task and row.second == differences.reference]
    listed = ", ".join(f"{row.first} {100 * row.difference:+.1f}" for row in rows)
    return f"Map of differences of {differences.measure}, against {differences.reference}, times 100: {listed}."
