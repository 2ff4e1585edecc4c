"""A classification as tables and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow.parquet as pq

from visir.display import counted
from visir.errors import VisirError
from visir.evaluation.classification.labelling import CLASSIFICATION, PREDICTIONS, VALUES, PictureLabels
from visir.evaluation.classification.result import Classification, Estimate, Key, method_title
from visir.reports.formats import to_csv
from visir.reports.page import Block, Figure, Fold, Notice, Page, Paragraph, Section, inline, production, write_page
from visir.reports.plots import DASHES, FAINT, MARKERS, SERIES, drawing, themed
from visir.reports.table import Cell, Column, Table, between, one_line
from visir.reports.views.parts import facts
from visir.storage import new_folder

if TYPE_CHECKING:
    from visir.reports.plot import Plot

# Plots of a classification: accuracy over shots, accuracy by class, and the confusion matrix.

_NAMED = 40
"""Classes up to which each is named on an axis."""


def shot_curves(result: Classification) -> Plot:
    """Accuracy over shots, a line for each method with its 95 % interval; zero-shot and chance are level lines."""
    few = [row for row in result.accuracies if row.shots]
    methods = list(dict.fromkeys(row.method for row in few))
    most = max((row.shots for row in few), default=1)
    numbers = sorted({row.shots if row.shots > 0 else 2 * most for row in few})
    with drawing(6.2, 3.8) as (figure, axes):
        for number, method in enumerate(methods):
            rows = [row for row in few if row.method == method]
            x = np.array([row.shots if row.shots > 0 else 2 * most for row in rows], float)
            low, middle, high = (
                100 * np.array([getattr(row.top1, name) for row in rows]) for name in ("low", "mean", "high")
            )
            colour = SERIES[number % len(SERIES)]
            axes.plot(
                *(x, middle),
                color=colour,
                marker=MARKERS[number % len(MARKERS)],
                linestyle=DASHES[number % len(DASHES)],
                markersize=5,
                label=method,
            )
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        for number, row in enumerate(row for row in result.accuracies if not row.shots):
            level = 100 * row.top1.mean
            axes.axhline(level, color=SERIES[3 + number % 3], linestyle=DASHES[1 + number % 3], label=row.method)
        axes.axhline(100 * result.chance, color=FAINT, linewidth=1.2, linestyle=DASHES[2], label="chance")
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers, [str(n) if n in {row.shots for row in few} else "all" for n in numbers])
        axes.minorticks_off()
        axes.set_xlabel("training pictures of each class")
        axes.set_ylabel("top-1 accuracy, %")
        figure.legend(loc="outside upper center", ncols=3, fontsize=8.5)
        return figure


def class_bars(result: Classification, key: Key) -> Plot:
    """The share of each class that is predicted rightly, best first, with intervals where there are few classes."""
    estimates = {name: value for name, value in result.per_class(*key).items() if not np.isnan(value.mean)}
    ordered = sorted(estimates.items(), key=lambda entry: -entry[1].mean)
    middle = np.array([100 * value.mean for _, value in ordered])
    place = np.arange(len(ordered))
    few = len(ordered) <= _NAMED
    with drawing(6.2, max(2.2, 0.7 + 0.22 * len(ordered)) if few else 3.2) as (figure, axes):
        if few:
            ends = np.array([[100 * value.low, 100 * value.high] for _, value in ordered]).T
            axes.barh(place, middle, color=SERIES[0], alpha=0.55)
            errors = np.maximum(0, [middle - ends[0], ends[1] - middle])
            axes.errorbar(middle, place, xerr=errors, fmt="none", ecolor=SERIES[0], linewidth=1.4)
            axes.set_yticks(place, [one_line(name)[:40] for name, _ in ordered])
            axes.tick_params(axis="y", length=0)
            axes.invert_yaxis()
            axes.axvline(100 * result.chance, color=FAINT, linestyle=DASHES[2])
            axes.set_xlim(0, 100)
            axes.set_xlabel("predicted rightly, % (95 % interval; dotted: chance)")
        else:
            axes.fill_between(place, middle, step="mid", color=SERIES[0], alpha=0.55)
            axes.axhline(100 * result.chance, color=FAINT, linestyle=DASHES[2])
            axes.set_ylim(0, 100)
            axes.set_xlabel("classes, best first")
            axes.set_ylabel("predicted rightly, %")
        return figure


def confusion_matrix(result: Classification, key: Key) -> Plot:
    """Shares of each class (rows) that are taken for each (columns); the darker, the more."""
    counts = result.confusion_counts(*key).astype(float)
    totals = counts.sum(axis=1, keepdims=True)
    shares = 100 * np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    size = len(shares)
    names = [one_line(name)[:24] for name in result.classes]
    side = min(8.0, 2.2 + 0.26 * size)
    with drawing(side + 0.8, side) as (figure, axes):
        axes.grid(visible=False)
        image: Any = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
        if size <= _NAMED:
            axes.set_xticks(range(size), names, rotation=90, fontsize=8)
            axes.set_yticks(range(size), names, fontsize=8)
        if size <= 12:
            for row in range(size):
                for column in range(size):
                    if shares[row, column] >= 0.5:
                        colour = "white" if shares[row, column] > 55 else "#444b55"
                        text = f"{shares[row, column]:.0f}"
                        axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=colour)
        axes.set_xlabel("predicted")
        axes.set_ylabel("right")
        figure.colorbar(image, ax=axes, shrink=0.8, label="% of the row")
        return figure


def curve_figure(result: Classification) -> Figure:
    """The curves over shots, for a page."""
    listed = "; ".join(
        f"{method_title(row.method, row.shots)}: {100 * row.top1.mean:.1f} %" for row in result.accuracies
    )
    return Figure(
        themed(shot_curves(result), "shots", f"Accuracy over shots. {listed}."),
        "",
        "Mean over draws; the bands are 95 % intervals over draws of the shots.",
    )


def class_figure(result: Classification, key: Key) -> Figure:
    """The accuracy of each class, for a page."""
    return Figure(
        themed(class_bars(result, key), "classes", "Accuracy of each class; the numbers are in the table."),
        "",
        "The share of the pictures of each class that are predicted rightly.",
    )


def confusion_figure(result: Classification, key: Key) -> Figure:
    """The confusion matrix, for a page."""
    return Figure(
        themed(confusion_matrix(result, key), "confusion", "Confusion matrix; the most frequent are in the table."),
        "",
        "Each row is the pictures of one class, in percent: what they are taken for.",
    )


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


def _cells(estimate: Estimate) -> list[Cell]:
    if np.isnan(estimate.mean):
        return [None, None]
    column = Column("", 1)
    return [100 * estimate.mean, between(100 * estimate.low, 100 * estimate.high, column)]


def save_classification(result: Classification, folder: Path, *, command: str = "") -> None:
    """Write a classification into a folder: JSON, CSV, every prediction, a page; `result.save` calls this."""
    with new_folder(folder, CLASSIFICATION, replace=True) as change:
        change.write_json(VALUES, result.to_dict())
        change.write("classification.csv", to_csv(tidy_accuracies(result)).encode())
        change.write("classes.csv", to_csv(classes_table(result, best_key(result))).encode())
        pq.write_table(result.predicted(), change.file(PREDICTIONS), compression="zstd")
        beside = {
            VALUES: "every number of this page, and the protocol",
            "classification.csv": "the accuracies",
            "classes.csv": "the table of classes",
            PREDICTIONS: "every prediction: picture, class, method, shots, draw, predicted, rank",
        }
        page = change.file("classification.html")
        write_classification_report(page, result, command=command, beside=beside)


# How classifications and labels look in a notebook.


def classification_blocks(result: Classification) -> list[Block]:
    """The accuracies; classes, confusions and protocol, folded."""
    key = best_key(result)
    return [
        facts(result.model, f"on {result.source}", counted(len(result.classes), "classes")),
        replace(accuracies_table(result), caption=""),
        Fold(f"By class: {method_title(*key)}", [classes_table(result, key)]),
        Fold("Confusions", [confusions_table(result, key)]),
        Fold("Protocol", [classification_protocol(result)]),
    ]


def classification_plot(
    result: Classification,
    by: Literal["shots", "class", "confusion"] | None = None,
    *,
    method: str | None = None,
    shots: int | None = None,
) -> Plot:
    """Accuracy over shots, accuracy by class, or the confusion matrix."""
    few = any(count for _, count in result.predictions)
    by = by or ("shots" if few else "class")
    if by == "shots":
        if not few:
            raise VisirError("there are no shots to draw.", hint='plot(by="class"), or classify(…, shots=(1, 2, 4))')
        return shot_curves(result)
    key = best_key(result) if method is None and shots is None else result.key(method, shots)
    if by not in ("class", "confusion"):
        raise VisirError(f"plot(by={by!r}): choose shots, class or confusion.")
    return class_bars(result, key) if by == "class" else confusion_matrix(result, key)


# Labels of pictures: a table of the best classes.


_ROWS = 20


def labels_blocks(labels: PictureLabels) -> list[Block]:
    """The first pictures."""
    return [
        facts(labels.model, counted(len(labels), "pictures"), counted(len(labels.classes), "classes")),
        labels_table(labels, _ROWS),
    ]


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
