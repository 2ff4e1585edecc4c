"""The values of a figure as grids: nothing is printed beside them, so what is compared shares a row or a column."""

from __future__ import annotations

import re
from collections.abc import Sequence

from visir.papers.comparison import StudyComparison, ValueComparison
from visir.reports.table import Cell, Column, Table
from visir.studies.curve_labels import measure_of, point_of

WIDE = 8
"""Up to this many curves are columns where they have more points than there are curves; more of them are rows."""


def grids(comparison: StudyComparison, notes: list[str]) -> list[Table]:
    """Every measured value, a row or a column for each system."""
    # Systems that share no label (percentiles of devices, curves over lengths) have grids of their own. In the files
    # beside the page each value has a row of its own, whatever tables the page shows.
    study = comparison.study
    values = [value for value in comparison.values if value.ours is not None]
    if study.published is not None or study.figure is not None or any(value.seeds > 1 for value in values):
        return []
    caption = f"{study.paper}: {study.title} ({comparison.scale})"
    tables: list[Table] = []
    for measure, values_of_measure in _by_measure(values).items():
        for block in _blocks(values_of_measure):
            block_notes = [] if tables else [*notes, *_text_values(comparison.values)]
            tables.append(_grid(block, ", ".join(filter(None, (caption, measure))), block_notes))
    return tables


def _grid(values: Sequence[ValueComparison], caption: str, notes: list[str]) -> Table:
    by_key = {(value.system, value.collection, value.label): value.ours for value in values}
    systems = list(dict.fromkeys((value.system, value.collection) for value in values))
    labels = _in_order(list(dict.fromkeys(value.label for value in values)))
    rows: list[list[Cell]]
    if len(labels) > len(systems) <= WIDE or all(map(_is_count, labels)):
        columns = [Column("value"), *(Column(", ".join(filter(None, system)), 2) for system in systems)]
        rows = [[point_of(label), *(by_key.get((*system, label)) for system in systems)] for label in labels]
    else:
        columns = [Column("system"), Column("collection"), *(Column(point_of(label), 2) for label in labels)]
        rows = [
            [system, collection or None, *(by_key.get((system, collection, label)) for label in labels)]
            for system, collection in systems
        ]
        if not any(collection for _, collection in systems):
            columns.pop(1)
            rows = [[row[0], *row[2:]] for row in rows]
    return Table.of(columns, rows, caption=caption, notes=notes)


def _by_measure(values: Sequence[ValueComparison]) -> dict[str, list[ValueComparison]]:
    groups: dict[str, list[ValueComparison]] = {}
    for value in values:
        groups.setdefault(measure_of(value.label), []).append(value)
    return groups


def _blocks(values: Sequence[ValueComparison]) -> list[list[ValueComparison]]:
    """Values whose systems share labels, directly or over other systems; curves over counts, by collection."""
    # Two logs are never as long, so their curves have other points.
    by_system: dict[tuple[str, str], list[ValueComparison]] = {}
    for value in values:
        by_system.setdefault((value.system, value.collection), []).append(value)
    blocks: list[tuple[set[str], list[ValueComparison]]] = []
    for (_, collection), system_values in by_system.items():
        labels = {value.label for value in system_values}
        if all(map(_is_count, labels)):
            labels = {f"{collection}: {label}" for label in labels}
        joined, apart = (labels, list(system_values)), []
        for block in blocks:
            if block[0] & labels:
                joined = (block[0] | joined[0], block[1] + joined[1])
            else:
                apart.append(block)
        blocks = [*apart, joined]
    return [block_values for _, block_values in blocks]


def _text_values(values: Sequence[ValueComparison]) -> list[str]:
    """What the text beside a figure prints, once for all logs."""
    printed = dict.fromkeys(
        (value.system, value.label, value.published) for value in values if value.published is not None
    )
    words = [f"{system}, {point_of(label)}: {published:g}" for system, label, published in printed]
    return [f"the text prints {'; '.join(words)}"] if words else []


def _in_order(labels: list[str]) -> list[str]:
    return sorted(labels, key=_count) if all(map(_is_count, labels)) else labels


def _is_count(label: str) -> bool:
    """Whether it is a number of something ("1,024"); hours ("07") are names."""
    return re.fullmatch(r"0|[1-9][\d,]*", label) is not None


def _count(label: str) -> int:
    return int(label.replace(",", ""))
