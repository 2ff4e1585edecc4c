"""The values of a figure as grids: nothing is printed beside them, so what is compared stands in one row or column."""

from __future__ import annotations

import re
from collections.abc import Sequence

from visir.papers.verdict import Value, Verdict
from visir.reports.table import Cell, Column, Table
from visir.studies.curve_labels import measure_of, point_of

WIDE = 8
"""Curves up to this many stand side by side where they have more points than there are curves; more, one below
another."""


def grids(verdict: Verdict, notes: list[str]) -> list[Table]:
    """Every measured value, a row or a column for each system; none where a table is printed, or of several seeds.

    Systems that share no label (percentiles of devices, curves over lengths) have grids of their own. In the files
    beside the page each value has a row of its own, whatever tables the page shows.
    """
    study = verdict.study
    shown = [one for one in verdict.values if one.ours is not None]
    if study.published is not None or study.figure is not None or not shown or any(one.seeds > 1 for one in shown):
        return []
    caption = f"{study.paper}: {study.title} ({verdict.scale})"
    made: list[Table] = []
    for measure, values in _by_measure(shown).items():
        for block in _blocks(values):
            own = [] if made else [*notes, *_said(verdict.values)]
            made.append(_grid(block, ", ".join(filter(None, (caption, measure))), own))
    return made


def _grid(shown: Sequence[Value], caption: str, notes: list[str]) -> Table:
    values = {(one.system, one.collection, one.label): one.ours for one in shown}
    systems = list(dict.fromkeys((one.system, one.collection) for one in shown))
    labels = _in_order(list(dict.fromkeys(one.label for one in shown)))
    rows: list[list[Cell]]
    if len(labels) > len(systems) <= WIDE or all(map(_is_count, labels)):
        columns = [Column("value"), *(Column(", ".join(filter(None, one)), 2) for one in systems)]
        rows = [[point_of(label), *(values.get((*one, label)) for one in systems)] for label in labels]
    else:
        columns = [Column("system"), Column("collection"), *(Column(point_of(one), 2) for one in labels)]
        rows = [[one[0], one[1] or None, *(values.get((*one, label)) for label in labels)] for one in systems]
        if not any(collection for _, collection in systems):
            columns.pop(1)
            rows = [[row[0], *row[2:]] for row in rows]
    return Table.of(columns, rows, caption=caption, notes=notes)


def _by_measure(shown: Sequence[Value]) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for one in shown:
        found.setdefault(measure_of(one.label), []).append(one)
    return found


def _blocks(shown: Sequence[Value]) -> list[list[Value]]:
    """Values whose systems share labels, directly or over other systems; curves over counts, by collection.

    Two logs are never as long, so their curves have other points.
    """
    by_system: dict[tuple[str, str], list[Value]] = {}
    for one in shown:
        by_system.setdefault((one.system, one.collection), []).append(one)
    blocks: list[tuple[set[str], list[Value]]] = []
    for (_, collection), values in by_system.items():
        labels = {one.label for one in values}
        if all(map(_is_count, labels)):
            labels = {f"{collection}: {one}" for one in labels}
        joined, apart = (labels, list(values)), []
        for block in blocks:
            if block[0] & labels:
                joined = (block[0] | joined[0], block[1] + joined[1])
            else:
                apart.append(block)
        blocks = [*apart, joined]
    return [values for _, values in blocks]


def _said(values: Sequence[Value]) -> list[str]:
    """What the text beside a figure prints of it: once, however many logs stand beside it."""
    said = {(one.system, one.label, one.published): None for one in values if one.published is not None}
    told = [f"{system}, {point_of(label)}: {published:g}" for system, label, published in said]
    return [f"the text prints {'; '.join(told)}"] if told else []


def _in_order(labels: list[str]) -> list[str]:
    return sorted(labels, key=_count) if all(map(_is_count, labels)) else labels


def _is_count(label: str) -> bool:
    """Whether it is a number of something ("1,024"); hours ("07") are names."""
    return re.fullmatch(r"0|[1-9][\d,]*", label) is not None


def _count(label: str) -> int:
    return int(label.replace(",", ""))
