"""Measured values beside published ones: a judgement of every value, and of every pair of systems in an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from visir.display import Tabular, brief, counted
from visir.evaluation.published import Published
from visir.evaluation.published.judge import TOLERANCE
from visir.evaluation.signatures import ends_early, remarks
from visir.papers.cells import TableCell
from visir.papers.pairs import PairOrder, pairs_of
from visir.papers.published_values import ValueKey
from visir.papers.registries import TREND_CHECKS
from visir.papers.study import Data, Study
from visir.studies.draws import DRAWS, SURE, Draws, few_units
from visir.studies.trend_check import Means, TrendCheck

# Sentences on rows whose numbers show how they came about: published rows, and ours beside them.

NO_SECOND_STAGE = "without a second stage"


def row_annotations(study: Study, cells: Sequence[TableCell]) -> tuple[tuple[str, str], ...]:
    """(row, sentence) for every row whose ranking ends early (R@10 equals R@5), in print or here, with the cause."""
    # For a row that was run, the sentence also says what our values are and how many candidates were re-ranked: it
    # shows whether the protocol that is thought to be the cause has this effect.
    table = study.table()
    rows = table.rows if isinstance(table, Published) else ()
    cells_of_row: dict[tuple[str, str], list[TableCell]] = {}
    for cell in cells:
        if cell.state == "done":
            cells_of_row.setdefault((cell.system, cell.collection), []).append(cell)
    annotated: list[tuple[str, str]] = []
    for row in rows:
        name = f"{row.system}, {row.collection}" if row.collection else row.system
        sentences = [remark.partition(": ")[2] for remark in remarks(row)]
        for cell in cells_of_row.get((row.system, row.collection), [])[:1]:
            ours = _recalls(cell)
            if sentences or any(map(ends_early, ours.values())):
                sentences.append(_our_values(cell, ours))
        annotated += [(name, " ".join(sentences))] if sentences else []
    return tuple(annotated)


def _recalls(cell: TableCell) -> dict[str, dict[str, float]]:
    """task → label → value, of directions that have both R@5 and R@10."""
    values: dict[str, dict[str, float]] = {}
    for label, value in cell.measured.values.items():
        task, _, name = label.partition(" ")
        values.setdefault(task, {})[name] = value
    return {task: part for task, part in values.items() if {"R@5", "R@10"} <= set(part)}


def _our_values(cell: TableCell, ours: dict[str, dict[str, float]]) -> str:
    early = [task for task, part in ours.items() if ends_early(part)]
    word = "so too" if len(early) == len(ours) else "not so" if not early else f"so in {', '.join(early)} only"
    values = ", ".join(f"{task} {part['R@5']:.2f} and {part['R@10']:.2f}" for task, part in ours.items())
    stage = cell.measured.protocol.get("rerank")
    return f"Here it is {word} ({values}), {f're-ranked: {stage}' if stage else NO_SECOND_STAGE}."


# How sure a statement about a figure is: it is looked at in every draw of the values.


def sure_checks(
    check: Callable[[Means], list[TrendCheck]], means: Mapping[ValueKey, float], draws: Mapping[ValueKey, Draws] | None
) -> list[TrendCheck]:
    """The statements about each collection, with the share of the draws in which they hold."""
    # A statement that needs a value without draws, or that some draws cannot decide, has no such share.
    collections = dict.fromkeys(collection for _, collection, _ in means)
    checks: list[TrendCheck] = []
    for collection in collections:
        prefix = f"{collection}: " if len(collections) > 1 else ""
        holds: Counter[str] = Counter()
        made: Counter[str] = Counter()
        of_collection = {key: drawn for key, drawn in (draws or {}).items() if key[1] == collection}
        for number in range(DRAWS if of_collection else 0):
            for drawn in check(_by_system({key: float(values[number]) for key, values in of_collection.items()})):
                if drawn.holds is not None:
                    made[drawn.statement] += 1
                    holds[drawn.statement] += drawn.holds
        for at_means in check(_by_system({key: mean for key, mean in means.items() if key[1] == collection})):
            count = made[at_means.statement]
            sure = holds[at_means.statement] / count if count >= SURE * DRAWS else None
            if draws is None and at_means.holds is not None:
                sure = float(at_means.holds)
            checks.append(replace(at_means, statement=prefix + at_means.statement, sure=sure))
    return checks


def _by_system(values: Mapping[ValueKey, float]) -> dict[str, dict[str, float]]:
    by_system: dict[str, dict[str, float]] = {}
    for (system, _, label), value in values.items():
        by_system.setdefault(system, {})[label] = value
    return by_system


# The mean of a value over the seeds of its cells, and draws of that mean: new queries and new trainings.


def mean_draws(cells: Sequence[TableCell], label: str) -> Draws | None:
    """Draws of the mean of a value over finished cells of one row, one for each seed."""
    # Queries and seeds are both samples, so their deviations add up (as in `visir.evaluation.crossed`): those over
    # queries are the mean of the cells' own, which are of the same queries; those over seeds have the tails of
    # Student's t. Seed i of one system is paired with seed i of another. Where the seeds are folds, the value of a fold
    # already has the chance of its queries in it.
    values = np.array([cell.measured.values[label] for cell in cells])
    own = [cell.measured.draws[label] - value for cell, value in zip(cells, values, strict=True)
           if label in cell.measured.draws]  # fmt: skip
    ratio = cells[0].measured.fold_ratio
    if len(cells) == 1:
        return cells[0].measured.draws.get(label)
    name = f"seeds {', '.join(str(cell.seed) for cell in cells)}"
    variance = 1 / len(cells) + (ratio or 0.0)
    draws: Draws = values.mean() + few_units(values[:, None], variance, name)[:, 0]
    if ratio is None and len(own) == len(cells):
        draws = draws + np.mean(own, axis=0)
    return draws


ValueState = Literal["reproduced", "not reproduced", "not judged", "failed", "not run"]


@dataclass(frozen=True)
class ValueComparison:
    """One published value and ours."""

    system: str  # the row
    collection: str  # the collection of the row
    label: str  # what is measured, "i2t R@1"
    published: float | None  # as printed; None for a figure without printed values
    ours: float | None  # the mean over seeds
    spread: float | None  # the standard deviation over seeds; None for one seed
    seeds: int  # the number of seeds
    relative: float | None  # (ours − published) / |published|
    # "reproduced" when |relative| ≤ 5 % (thesis 2.5.3, after Petrov & Macdonald 2022) on the table's own data; "not
    # judged" on other data.
    state: ValueState
    reason: str = ""  # why it is not judged, failed, or was not run
    doubt: str = ""  # why the published value cannot be right; "" when nothing is known against it
    # Draws of our mean (`visir.papers.comparison`); None where it has no interval.
    draws: Draws | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class StudyComparison(Tabular, view="visir.papers.reports.comparison_view"):
    """A study at one scale beside its published table."""

    name: str  # the study's name
    study: Study  # the study
    scale: str  # the scale
    data: Data  # what data the scale has
    cells: tuple[TableCell, ...]  # all cells of the scale
    values: tuple[ValueComparison, ...]  # every published value, and every measured one where nothing is published
    pairs: tuple[PairOrder, ...]  # pairs whose published values differ
    trend_checks: tuple[TrendCheck, ...]  # statements about a figure

    def __repr__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        lines = [f"{counted(self.states.total(), 'cells')}: {states}"]
        if judged := self.count("reproduced") + self.count("not reproduced"):
            lines.append(f"within 5 % of the printed value: {self.count('reproduced')} of {judged}")
        if pairs := self.measured_pairs:
            ordered = f"{self.pairs_in_order} of {len(self.counted_pairs)} that count"
            lines.append(f"in the printed order: {ordered} (of {counted(len(pairs), 'pairs')})")
        return brief(self, f"{self.study.paper}, scale {self.scale}, {self.data} data", *lines)

    def count(self, state: ValueState) -> int:
        """How many values have a state."""
        return sum(value.state == state for value in self.values)

    @property
    def measured_pairs(self) -> tuple[PairOrder, ...]:
        """Pairs of which both values were measured."""
        return tuple(pair for pair in self.pairs if pair.difference is not None)

    @property
    def counted_pairs(self) -> tuple[PairOrder, ...]:
        """Pairs that count: the interval of their difference excludes 0."""
        return tuple(pair for pair in self.pairs if pair.agrees is not None)

    @property
    def pairs_in_order(self) -> int:
        """How many pairs that count have the published order."""
        return sum(bool(pair.agrees) for pair in self.pairs)

    @property
    def states(self) -> Counter[str]:
        """How many cells are done, failed, not run."""
        return Counter(cell.state for cell in self.cells)

    @property
    def not_measured(self) -> dict[str, tuple[ValueComparison, ...]]:
        """Why printed values were not measured → these values; the reason of most values first."""
        reasons: dict[str, tuple[ValueComparison, ...]] = {}
        for value in self.values:
            if value.state == "not run" and value.published is not None:
                reasons[value.reason] = (*reasons.get(value.reason, ()), value)
        return dict(sorted(reasons.items(), key=lambda item: -len(item[1])))

    @property
    def row_annotations(self) -> tuple[tuple[str, str], ...]:
        """(row, sentence) for rows whose ranking ends early; see `visir.papers.comparison`."""
        return row_annotations(self.study, self.cells)

    @property
    def explained(self) -> tuple[tuple[str, str], ...]:
        """(cell, sentence): which reading comes nearest, for cells with values that are not reproduced."""
        if self.data != "same":
            return ()
        sentences = {_name_of(cell): cell.measured.explained for cell in self.cells if cell.measured.explained}
        return tuple(sentences.items())


def compare_cells(name: str, study: Study, scale: str, cells: Sequence[TableCell]) -> StudyComparison:
    """Compare the cells of a scale (`run.saved_cells`) with the published table."""
    data = study.scale(scale).data
    published = study.published_numbers(_rows(cells))
    values = _values(study, data, published, cells)
    keys = [(value.system, value.collection, value.label) for value in values]
    means = {key: value.ours for key, value in zip(keys, values, strict=True) if value.ours is not None}
    draws = {key: value.draws for key, value in zip(keys, values, strict=True) if value.draws is not None}
    checks: list[TrendCheck] = []
    if study.trend_checks is not None:
        checks = sure_checks(TREND_CHECKS[study.trend_checks], means, None if data == "quoted" else draws)
    pairs = pairs_of(study, published, means, draws)
    return StudyComparison(name, study, scale, data, tuple(cells), values, pairs, tuple(checks))


def _rows(cells: Sequence[TableCell]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((cell.system, cell.collection) for cell in cells))


def _values(
    study: Study, data: Data, published: Mapping[ValueKey, float], cells: Sequence[TableCell]
) -> tuple[ValueComparison, ...]:
    """Every published value; also every measured value of a figure, and of a table that prints no numbers."""
    # Where only the text prints values of a figure, the measured ones come first, in the order of the cells.
    by_row: dict[tuple[str, str], list[TableCell]] = {}
    for cell in cells:
        by_row.setdefault((cell.system, cell.collection), []).append(cell)
    keys: list[ValueKey] = list(published)
    if not published or study.figure is not None or study.text_values:
        measured = [
            (system, collection, label)
            for (system, collection), row_cells in by_row.items()
            for label in dict.fromkeys(label for cell in row_cells for label in cell.measured.values)
        ]
        keys = list(dict.fromkeys([*measured, *keys] if study.text_values else [*keys, *measured]))
    doubts = study.doubts(_rows(cells))
    return tuple(_value(key, published.get(key), by_row.get(key[:2], []), data, doubts.get(key, "")) for key in keys)


def _value(
    key: ValueKey, published: float | None, cells: Sequence[TableCell], data: Data, doubt: str
) -> ValueComparison:
    label = key[2]
    done = [cell for cell in cells if cell.state == "done" and label in cell.measured.values]
    values = [cell.measured.values[label] for cell in done]
    if not values:
        states = {cell.state for cell in cells}
        state: ValueState = "failed" if "failed" in states else "not run"
        reason = next((cell.reason for cell in cells if cell.reason), "")
        if "done" in states:
            reason = _why_missing(label, [note for cell in cells for note in cell.measured.notes])
        reason = reason or ("not run yet" if cells else "not a row of this scale")
        return ValueComparison(*key, published, None, None, 0, None, state, reason, doubt)
    ours = float(np.mean(values))
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    # What is quoted is what it is: no queries, no seeds.
    draws = np.full(DRAWS, ours) if data == "quoted" else mean_draws(done, label)
    partial = next((cell.measured.not_judged[label] for cell in cells if label in cell.measured.not_judged), "")
    if published is None or data != "same" or partial:
        reason = partial or ("no printed value" if published is None else f"{data} data: only orders compare")
        return ValueComparison(*key, published, ours, spread, len(values), None, "not judged", reason, doubt, draws)
    gap = ours - published
    relative = gap / abs(published) if published else (0.0 if not gap else float("inf"))
    # As decimal numbers: 1.05 is within 5 % of 1, whatever binary makes of it.
    state = "reproduced" if abs(relative) <= TOLERANCE + 1e-12 else "not reproduced"
    return ValueComparison(*key, published, ours, spread, len(values), relative, state, "", doubt, draws)


def _why_missing(label: str, notes: Sequence[str]) -> str:
    """The first note about a label ("t2i typos: …"), or about its task ("t2i: …")."""
    about = (note for name in (label, label.partition(" ")[0]) for note in notes if note.startswith(f"{name}:"))
    return next(about, "not measured at this scale")


def _name_of(cell: TableCell) -> str:
    return f"{cell.row}, seed {cell.seed}" if cell.seed else cell.row
