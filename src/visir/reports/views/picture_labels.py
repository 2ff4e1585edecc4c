"""Labels of pictures: a table of the best classes."""

from __future__ import annotations

from visir.display import counted
from visir.evaluation.classification.labelling import PictureLabels
from visir.reports.page import Block
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts

_ROWS = 20


def blocks(labels: PictureLabels) -> list[Block]:
    """The first pictures."""
    return [
        facts(labels.model, counted(len(labels), "pictures"), counted(len(labels.classes), "classes")),
        labels_table(labels, _ROWS),
    ]


def table(labels: PictureLabels) -> Table:
    """One row per picture."""
    return labels_table(labels)


def labels_table(labels: PictureLabels, limit: int | None = None) -> Table:
    """One row per picture: its best classes with scores."""
    columns_of = labels.to_arrow().slice(0, limit)
    names = {"id": Column("picture")}
    for name in columns_of.column_names[1:]:
        word, _, place = name.partition("_")
        heading = {"class": "class", "score": "cosine", "share": "share"}[word] + (f" {place}" if place else "")
        digits = {"class": None, "score": 4, "share": 2}[word]
        if word != "share" or not place:
            names[name] = Column(heading, digits)
    rows: list[list[Cell]] = [[row[name] for name in names] for row in columns_of.to_pylist()]
    more = len(labels) - len(rows)
    note = [f"{more:,} more pictures: .to_pandas(), .save(FILE)"] if more else []
    return Table.of(list(names.values()), rows, notes=[*note, labels.templates])
