"""A classification as tables and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from visir.display import counted
from visir.evaluation.classification.accuracy import Estimate
from visir.evaluation.classification.result import Classification, Key, method_title
from visir.reports.blocks import Block, Fold, Notice, Paragraph, inline, production
from visir.reports.classification_plots import class_figure, confusion_figure, curve_figure
from visir.reports.page import Page, Section, write_page
from visir.reports.table import Cell, Column, Table, between

_SHOWN = 30
"""Confusions that are listed."""
_MATRIX = 60
"""Classes up to which the confusion matrix is drawn."""


def accuracies_table(result: Classification) -> Table:
    """One row per method and number of shots: accuracies in percent, with intervals."""
    several = any(row.top5 is not None for row in result.accuracies)
    fives = [Column("top-5", 1, best="max"), Column("95 % interval", 1)] if several else []
    columns = [
        *(Column("method"), Column("shots")),
        *(Column("top-1", 1, best="max"), Column("95 % interval", 1)),
        *fives,
        *(Column("mean per class", 1, best="max"), Column("95 % interval", 1), Column("draws", 0), Column("chosen")),
    ]
    rows: list[list[Cell]] = []
    for row in result.accuracies:
        shots = "all" if row.shots < 0 else str(row.shots) if row.shots else ""
        settings = list(dict.fromkeys(filter(None, row.settings)))
        chosen = settings[0] if len(settings) == 1 else f"{settings[0]}, …" if settings else ""
        five = _cells(row.top5) if row.top5 is not None else [None, None]
        cells: list[Cell] = [row.method, shots, *_cells(row.top1), *(five if several else [])]
        rows.append([*cells, *_cells(row.mean_per_class), row.draws, chosen])
    notes = [
        f"{counted(len(result.ids), 'pictures')}, {len(result.classes):,} classes. Chance {100 * result.chance:.1f} %; "
        f"the most frequent class {100 * result.majority:.1f} %.",
        *result.notes,
    ]
    return Table.of(columns, rows, caption=f"{result.model} on {result.source}", notes=notes)


def classes_table(result: Classification, key: Key | None = None) -> Table:
    """One row per class: its pictures, the share that is predicted rightly, and what it is most often taken for."""
    method, shots = key or result.key()
    counts = result.confusion_counts(method, shots)
    draws = len(result.predictions[method, shots].ranks)
    pictures = np.bincount(result.truth, minlength=len(result.classes))
    rows: list[list[Cell]] = []
    for code, (name, estimate) in enumerate(result.per_class(method, shots).items()):
        wrong = counts[code].copy()
        wrong[code] = 0
        most = int(wrong.argmax())
        share = 100 * wrong[most] / (draws * pictures[code]) if pictures[code] else 0
        taken = f"{result.classes[most]} ({share:.0f} %)" if wrong[most] else ""
        prompt = result.names[code] if result.names[code] != name else ""
        rows.append([name, prompt, int(pictures[code]), *_cells(estimate), taken])
    columns = [
        *(Column("class"), Column("name in prompts"), Column("pictures", 0)),
        *(Column("right, %", 1), Column("95 % interval", 1), Column("most often taken for")),
    ]
    if not any(row[1] for row in rows):
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    return Table.of(columns, rows, caption=f"By class: {method_title(method, shots)}")


def confusions_table(result: Classification, key: Key | None = None, limit: int = _SHOWN) -> Table:
    """The most frequent confusions: the right class, what it is taken for, how many pictures."""
    method, shots = key or result.key()
    counts = result.confusion_counts(method, shots)
    draws = len(result.predictions[method, shots].ranks)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:limit]
    places = [divmod(int(place), len(counts)) for place in order]
    rows: list[list[Cell]] = [
        [result.classes[row], result.classes[column], float(counts[row, column] / draws)]
        for row, column in places
        if counts[row, column]
    ]
    columns = [Column("class"), Column("taken for"), Column("pictures" if draws == 1 else "pictures per draw", 1)]
    if draws == 1:
        columns[2] = Column("pictures", 0)
    return Table.of(columns, rows, caption=f"Most frequent confusions: {method_title(method, shots)}")


def classification_protocol(result: Classification) -> Table:
    """What the numbers must not travel without."""
    return Table.of([Column("field"), Column("value")], result.protocol)


def tidy_accuracies(result: Classification) -> Table:
    """All accuracies as shares, one row per method, shots and measure: for CSV."""
    names = ("model", "source", "method", "shots", "draws", "measure", "mean", "low", "high", "deviation")
    rows: list[list[Cell]] = []
    for row in result.accuracies:
        measured = {"top-1": row.top1, "top-5": row.top5, "mean per class": row.mean_per_class}
        for measure, value in measured.items():
            if value is not None:
                ends = [None if np.isnan(end) else end for end in (value.low, value.high)]
                head: list[Cell] = [result.model, result.source, row.method, row.shots, row.draws, measure]
                rows.append([*head, value.mean, *ends, value.deviation])
    return Table.of([Column(name) for name in names], rows)


def write_classification_report(
    path: str | Path, result: Classification, *, command: str = "", beside: Mapping[str, str] | None = None
) -> Path:
    """Write the page of a classification and return its path."""
    lead = (
        "How often the model names the right class: by prompts alone, and with a few training pictures of each class."
    )
    notices: list[Block] = [Notice(result.notes)] if result.notes else []
    sections = [
        Section("numbers", "How often it is right", [Paragraph(lead, "lead"), *notices, accuracies_table(result)]),
    ]
    if any(shots for _, shots in result.predictions):
        sections.append(Section("curves", "What more pictures give", [curve_figure(result)]))
    key = best_key(result)
    by_class: list[Block] = [class_figure(result, key), Fold("All classes", [classes_table(result, key)])]
    sections.append(Section("classes", f"Class by class: {method_title(*key)}", by_class, short="Classes"))
    confused: list[Block] = [confusions_table(result, key)]
    if len(result.classes) <= _MATRIX:
        confused.insert(0, confusion_figure(result, key))
    sections.append(Section("confusions", "What is taken for what", confused))
    sections.append(
        Section("made", "How it was measured", [classification_protocol(result), *production(command, beside)])
    )
    facts = [
        inline("pictures <b>{}</b>", f"{len(result.ids):,}"),
        inline("classes <b>{}</b>", f"{len(result.classes):,}"),
        inline("chance <b>{}</b>", f"{100 * result.chance:.1f} %"),
        inline("most frequent class <b>{}</b>", f"{100 * result.majority:.1f} %"),
    ]
    title = f"{result.model} on {result.source}"
    return write_page(path, Page("classification", title, sections, facts))


def best_key(result: Classification) -> Key:
    """The classifier that is most often right, the first among equals."""
    best = max(result.accuracies, key=lambda row: row.top1.mean)
    return best.method, best.shots


def shown_accuracies(result: Classification) -> Table:
    """The table of accuracies without its heading, for notebooks."""
    return replace(accuracies_table(result), caption="")


def _cells(estimate: Estimate) -> list[Cell]:
    if np.isnan(estimate.mean):
        return [None, None]
    column = Column("", 1)
    return [100 * estimate.mean, between(100 * estimate.low, 100 * estimate.high, column)]
