"""A classification as tables and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from visir.display import counted
from visir.errors import VisirError
from visir.evaluation.classification.labelling import CLASSIFICATION, PREDICTIONS, VALUES, PictureLabels
from visir.evaluation.classification.result import Accuracy, Classification, Key, method_title
from visir.reports.page import Block, Fold, Notice, Paragraph, Section
from visir.reports.plots import DASHES, FAINT, MARKERS, SERIES, PlotMark, Square, dots, drawing, grid, line
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Cell, Column, Table, at, one_line
from visir.reports.views.parts import facts

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
            axes.plot(
                *(x, middle),
                **line(number, marker=MARKERS[number % len(MARKERS)], markersize=5, label=method),
            )
            axes.fill_between(x, low, high, color=line(number)["color"], alpha=0.15, linewidth=0)
        for number, row in enumerate(row for row in result.accuracies if not row.shots):
            level = 100 * row.top1.mean
            axes.axhline(level, color=SERIES[3 + number % 3], linestyle=DASHES[1 + number % 3], label=row.method)
        axes.axhline(100 * result.chance, color=FAINT, linewidth=1.2, linestyle=DASHES[2], label="chance")
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers, [str(n) if n in {row.shots for row in few} else "all" for n in numbers])
        axes.minorticks_off()
        axes.set(xlabel="training pictures of each class", ylabel="top-1 accuracy, %")
        figure.legend(loc="outside upper center", ncols=3, fontsize=8.5)
        return figure


def class_bars(result: Classification, key: Key) -> Plot:
    """The share of each class that is predicted rightly, best first, with intervals where there are few classes."""
    estimates = {name: value for name, value in result.per_class(*key).items() if not np.isnan(value.mean)}
    ordered = sorted(estimates.items(), key=lambda entry: -entry[1].mean)
    if len(ordered) <= _NAMED:
        names = {f"{name[:40]}{' ' * number if name[40:] else ''}": of for number, (name, of) in enumerate(ordered)}
        marks = [PlotMark(name, [100 * value for value in (of.mean, of.low, of.high)]) for name, of in names.items()]
        axis, lines = "predicted rightly, % (95 % interval; dotted: chance)", {100 * result.chance: DASHES[2]}
        bars = {"": {"bar": 0.7}}
        return dots(marks, axis, size=(6.2, 0.24), styles=bars, lines=lines, limits=(0, 100))
    with drawing(6.2, 3.2) as (figure, axes):
        middle = [100 * value.mean for _, value in ordered]
        axes.fill_between(range(len(middle)), middle, step="mid", color=SERIES[0], alpha=0.55)
        axes.axhline(100 * result.chance, color=FAINT, linestyle=DASHES[2])
        axes.set(ylim=(0, 100), xlabel="classes, best first", ylabel="predicted rightly, %")
        return figure


def confusion_matrix(result: Classification, key: Key) -> Plot:
    """Shares of each class (rows) that are taken for each (columns), in percent; the darker, the more."""
    counts = result.confusion_counts(*key).astype(float)
    totals = counts.sum(axis=1, keepdims=True)
    shares = 100 * np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    size = len(shares)
    squares = [
        Square(int(column), int(row), 0.04 + 0.0062 * share, f"{share:.0f}" if size <= 12 and share >= 0.5 else "")
        for (row, column), share in np.ndenumerate(shares)
        if share
    ]
    names = [one_line(name)[:24] if size <= _NAMED else "" for name in result.classes]
    side = min(8.0, 2.2 + 0.26 * size)
    return grid(squares, names, names, size=(side + 0.8, side), upright=True, across="predicted", down="right")


_SHOWN = 30
"""Confusions that are listed."""
_MATRIX = 60
"""Classes up to which the confusion matrix is drawn."""


def accuracies_table(result: Classification) -> Table:
    """One row per method and number of shots: accuracies in percent, with intervals."""

    def accuracy(name: str, of: str) -> Column:
        return Column(name, 1, "max", of=f"{of}.mean", scale=100, ends=(f"{of}.low", f"{of}.high"))

    def chosen(row: Any) -> str:
        settings = list(dict.fromkeys(filter(None, row.settings)))
        return settings[0] if len(settings) == 1 else f"{settings[0]}, …" if settings else ""

    several = any(row.top5 is not None for row in result.accuracies)
    columns = [
        Column("method", of="method"),
        Column("shots", of=lambda row: "all" if row.shots < 0 else str(row.shots) if row.shots else ""),
        accuracy("top-1", "top1"),
        *([accuracy("top-5", "top5")] if several else []),
        accuracy("mean per class", "mean_per_class"),
        Column("draws", 0, of="draws"),
        Column("chosen", of=chosen),
    ]
    notes = [
        f"{counted(len(result.ids), 'pictures')}, {len(result.classes):,} classes. Chance {100 * result.chance:.1f} %; "
        f"the most frequent class {100 * result.majority:.1f} %.",
        *result.notes,
    ]
    return Table.over(result.accuracies, columns, caption=f"{result.model} on {result.source}", notes=notes)


def classes_table(result: Classification, key: Key | None = None) -> Table:
    """One row per class: its pictures, the share that is predicted rightly, and what it is most often taken for."""
    method, shots = key or result.key()
    counts = result.confusion_counts(method, shots)
    draws = len(result.predictions[method, shots].ranks)
    pictures = np.bincount(result.truth, minlength=len(result.classes))
    np.fill_diagonal(counts, 0)

    def taken_for(row: tuple[int, str, Accuracy]) -> str:
        most = int(counts[row[0]].argmax())
        share = 100 * counts[row[0], most] / (draws * pictures[row[0]]) if pictures[row[0]] else 0
        return f"{result.classes[most]} ({share:.0f} %)" if counts[row[0], most] else ""

    rows = [(code, *entry) for code, entry in enumerate(result.per_class(method, shots).items())]
    prompts = Column("name in prompts", of=lambda row: "" if result.names[row[0]] == row[1] else result.names[row[0]])
    columns = [
        Column("class", of=lambda row: row[1]),
        *([prompts] if any(prompts.cells(row)[0] for row in rows) else []),
        Column("pictures", 0, of=lambda row: int(pictures[row[0]])),
        Column("right, %", 1, of=lambda row: row[2].mean, scale=100, ends=lambda row: (row[2].low, row[2].high)),
        Column("most often taken for", of=taken_for),
    ]
    return Table.over(rows, columns, caption=f"By class: {method_title(method, shots)}")


def confusions_table(result: Classification, key: Key | None = None, limit: int = _SHOWN) -> Table:
    """The most frequent confusions: the right class, what it is taken for, how many pictures."""
    method, shots = key or result.key()
    counts = result.confusion_counts(method, shots)
    draws = len(result.predictions[method, shots].ranks)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:limit]
    columns = [
        Column("class", of=lambda place: result.classes[place[0]]),
        Column("taken for", of=lambda place: result.classes[place[1]]),
        Column(
            *("pictures" if draws == 1 else "pictures per draw", 0 if draws == 1 else 1),
            of=lambda place: float(counts[place] / draws),
        ),
    ]
    places = [place for place in (divmod(int(place), len(counts)) for place in order) if counts[place]]
    return Table.over(places, columns, caption=f"Most frequent confusions: {method_title(method, shots)}")


def classification_protocol(result: Classification) -> Table:
    """What the numbers must not travel without."""
    return Table.pairs(result.protocol)


def tidy_accuracies(result: Classification) -> Table:
    """All accuracies as shares, one row per method, shots and measure: for CSV."""
    rows = [
        (row, measure, value)
        for row in result.accuracies
        for measure, value in (("top-1", row.top1), ("top-5", row.top5), ("mean per class", row.mean_per_class))
        if value is not None
    ]
    columns = [
        *(Column("model", of=lambda _: result.model), Column("source", of=lambda _: result.source)),
        *(Column(name, of=at(0, name)) for name in ("method", "shots", "draws")),
        Column("measure", of=at(1)),
        *(Column(name, of=at(2, name)) for name in ("mean", "low", "high", "deviation")),
    ]
    return Table.over(rows, columns)


def classification_report(result: Classification) -> StudyReport:
    """How often a model names the right class: by shots, class by class, what is taken for what."""
    lead = (
        "How often the model names the right class: by prompts alone, and with a few training pictures of each class."
    )
    key = best_key(result)
    listed = "; ".join(
        f"{method_title(row.method, row.shots)}: {100 * row.top1.mean:.1f} %" for row in result.accuracies
    )
    curves = Chart(
        "shots",
        lambda: shot_curves(result),
        caption="Mean over draws; the bands are 95 % intervals over draws of the shots.",
        label=f"Accuracy over shots. {listed}.",
    )
    bars = Chart(
        "classes",
        lambda: class_bars(result, key),
        caption="The share of the pictures of each class that are predicted rightly.",
        label="Accuracy of each class; the numbers are in the table.",
    )
    matrix = Chart(
        "confusion",
        lambda: confusion_matrix(result, key),
        caption="Each row is the pictures of one class, in percent: what they are taken for; the deeper, the more.",
        label="Confusion matrix; the most frequent are in the table.",
    )
    notices: list[Block] = [Notice(result.notes)] if result.notes else []
    confused: list[Block] = [matrix] if len(result.classes) <= _MATRIX else []
    few_shots = any(shots for _, shots in result.predictions)
    sections = [
        Section("numbers", "How often it is right", [Paragraph(lead, "lead"), *notices, accuracies_table(result)]),
        Section("curves", "What more pictures give", [curves] if few_shots else []),
        Section(
            *("classes", f"Class by class: {method_title(*key)}"),
            [bars, Fold("All classes", [classes_table(result, key)])],
            short="Classes",
        ),
        Section("confusions", "What is taken for what", [*confused, confusions_table(result, key)]),
        Section("made", "How it was measured", [classification_protocol(result)]),
    ]
    facts = {
        "pictures": f"{len(result.ids):,}",
        "classes": f"{len(result.classes):,}",
        "chance": f"{100 * result.chance:.1f} %",
        "most frequent class": f"{100 * result.majority:.1f} %",
    }
    printed = [accuracies_table(result), classes_table(result, key), classification_protocol(result)]
    files = {
        VALUES: (result.to_dict, "every number of this page, and the protocol"),
        "classification.csv": (tidy_accuracies(result), "the accuracies"),
        "classes.csv": (classes_table(result, key), "the table of classes"),
        PREDICTIONS: (result.predicted, "every prediction: picture, class, method, shots, draw, predicted, rank"),
    }
    return StudyReport(
        *("classification", f"{result.model} on {result.source}", sections, facts),
        printed=printed if len(result.classes) <= _ROWS else printed[::2],
        name="classification",
        files=files,
        folder=CLASSIFICATION,
    )


def best_key(result: Classification) -> Key:
    """The classifier that is most often right, the first among equals."""
    best = max(result.accuracies, key=lambda row: row.top1.mean)
    return best.method, best.shots


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
