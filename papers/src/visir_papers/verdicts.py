"""The verdicts on a study, after thesis chapter 2, and the tree of its Figure 2.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, permutations, product
from math import factorial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Tabular, brief, counted
from visir.evaluation.published import Published
from visir.evaluation.published.denominators import ends_early, remarks
from visir.evaluation.published.judge import TOLERANCE
from visir_papers.cells import TableCell
from visir_papers.draws import DRAWS, SURE, Draws, Means, TrendCheck, difference_interval, few_units
from visir_papers.experiment import Data
from visir_papers.published_values import ValueKey, row_of
from visir_papers.study import TREND_CHECKS, Study

# Pairs of a table: which stand in the printed order here, which in the other, and which cannot be told apart.

Interval = tuple[float, float]


@dataclass(frozen=True)
class PairOrder:
    """Two systems (or labels) with different published values."""

    collection: str  # the collection of both
    label: str  # the label under which two systems are compared, or the system whose labels are
    higher: str  # the one with the higher published value, whichever is better
    lower: str  # the other
    difference: float | None  # ours of the higher minus ours of the lower; None when one of them was not measured
    # The 95 % interval of `difference` over queries, visitors, folds and seeds; None where the values have no draws.
    interval: Interval | None = None

    @property
    def systems(self) -> tuple[str, str]:
        """Both."""
        return self.higher, self.lower

    @property
    def agrees(self) -> bool | None:
        """Whether ours stand in the printed order for certain; None where the interval includes 0, or there is none."""
        # A pair *counts* where this is not None.
        if self.interval is None or not (self.interval[0] > 0 or self.interval[1] < 0):
            return None
        return self.interval[0] > 0


def pairs_of(
    study: Study,
    published: Mapping[ValueKey, float],
    means: Mapping[ValueKey, float],
    draws: Mapping[ValueKey, Draws],
) -> tuple[PairOrder, ...]:
    """All pairs of a table whose published values differ."""
    if study.pairs == "none" or not published:
        return ()
    pairs = []
    for (collection, name), members in _sets(study, published).items():
        for first, second in combinations(members, 2):
            if not study.groups_of(first) & study.groups_of(second):
                continue
            gap = published[members[first]] - published[members[second]]
            if gap == 0:
                continue
            higher, lower = (first, second) if gap > 0 else (second, first)
            above, below = members[higher], members[lower]
            ours = means[above] - means[below] if above in means and below in means else None
            interval = None if ours is None else difference_interval(draws.get(above), draws.get(below))
            pairs.append(PairOrder(collection, name, higher, lower, ours, interval))
    return tuple(pairs)


def _sets(study: Study, published: Mapping[ValueKey, float]) -> dict[tuple[str, str], dict[str, ValueKey]]:
    """(collection, label) → system → key; where labels are compared (collection, system) → label → key."""
    sets: dict[tuple[str, str], dict[str, ValueKey]] = {}
    for key in published:
        system, collection, label = key
        name, member = (system, label) if study.pairs == "labels" else (label, system)
        sets.setdefault((collection, name), {})[member] = key
    return sets


# Sentences on rows whose numbers show how they came about: published rows, and ours beside them.

NO_SECOND_STAGE = "without a second stage"


def row_annotations(study: Study, cells: Sequence[TableCell]) -> tuple[tuple[str, str], ...]:
    """(row, sentence) for every row whose ranking ends early (R@10 equals R@5), in print or here, with the cause."""
    # For a row that was run, the sentence also says what our values are and how many candidates were re-ranked: it
    # shows whether the protocol that is thought to be the cause has this effect.
    table = study.table()
    rows = table.rows if isinstance(table, Published) else ()
    cells_of_row: dict[tuple[str, str], dict[str, TableCell]] = {}  # of each reading the first seed
    for cell in cells:
        if cell.state == "done":
            key = row_of(cell.system), row_of(cell.collection)
            cells_of_row.setdefault(key, {}).setdefault(cell.system, cell)
    annotated: list[tuple[str, str]] = []
    for row in rows:
        name = f"{row.system}, {row.collection}" if row.collection else row.system
        sentences = [remark.partition(": ")[2] for remark in remarks(row)]
        for system, cell in cells_of_row.get((row.system, row.collection), {}).items():
            ours = _recalls(cell)
            if sentences or any(map(ends_early, ours.values())):
                sentences.append(f"{system}: " * (system != row.system) + _our_values(cell, ours))
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
    # Queries and seeds are both samples, so their deviations add up (as in `visir.stats`): those over
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
    # Draws of our mean (`visir_papers.verdicts`); None where it has no interval.
    draws: Draws | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class StudyComparison(Tabular):
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

    @cached_property
    def data_of(self) -> dict[tuple[str, str], Data]:
        """(system, collection) → the data of the row, where it is not that of the scale."""
        return _data_of(self.cells)

    def part(self, *, data: Data | None = None, reading: str | None = None) -> StudyComparison:
        """The rows with such data, or that follow a reading of the protocol."""
        own = self.data if data is None else data
        if own == self.data and not self.data_of and reading is None:
            return self

        def is_in(collection: str, *systems: str) -> bool:
            kinds = {self.data_of.get((system, collection), self.data) for system in systems}
            kind = kinds.pop() if len(kinds) == 1 else "other"  # a pair of the table's own and of other data
            return data in (None, kind) and all(reading in (None, self.study.reading_of(each)) for each in systems)

        labels = self.study.pairs == "labels"
        return replace(
            self,
            data=own,
            cells=tuple(cell for cell in self.cells if is_in(cell.collection, cell.system)),
            values=tuple(value for value in self.values if is_in(value.collection, value.system)),
            pairs=tuple(
                pair for pair in self.pairs if is_in(pair.collection, *([pair.label] if labels else pair.systems))
            ),
            trend_checks=self.trend_checks if own == self.data else (),
        )

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
        """(row, sentence) for rows whose ranking ends early; see `visir_papers.verdicts`."""
        return row_annotations(self.study, self.cells)

    @property
    def explained(self) -> tuple[tuple[str, str], ...]:
        """(cell, sentence): which reading comes nearest, for cells with values that are not reproduced."""
        judged = (cell for cell in self.cells if self.data_of.get((cell.system, cell.collection), self.data) == "same")
        explained = [cell for cell in judged if cell.measured.explained]
        return tuple(
            (cell.row + f", seed {cell.seed}" * bool(cell.seed), cell.measured.explained) for cell in explained
        )


def compare_cells(name: str, study: Study, scale: str, cells: Sequence[TableCell]) -> StudyComparison:
    """Compare the cells of a scale (`run.saved_cells`) with the published table."""
    data = study.scale(scale).data
    published = study.published_numbers(_rows(cells))
    values = _compared_values(study, data, published, cells)
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


def _compared_values(
    study: Study, data: Data, published: Mapping[ValueKey, float], cells: Sequence[TableCell]
) -> tuple[ValueComparison, ...]:
    """Every published value; also every measured value of a figure, and of a table that prints no numbers."""
    # Where only the text prints values of a figure, the measured ones come first, in the order of the cells.
    by_row: dict[tuple[str, str], list[TableCell]] = {}
    for cell in cells:
        by_row.setdefault((cell.system, cell.collection), []).append(cell)
    other = _data_of(cells)
    keys: list[ValueKey] = list(published)
    if not published or study.figure is not None or study.text_values:
        measured = [
            (system, collection, label)
            for (system, collection), row_cells in by_row.items()
            for label in dict.fromkeys(label for cell in row_cells for label in cell.measured.values)
        ]
        keys = list(dict.fromkeys([*measured, *keys] if study.text_values else [*keys, *measured]))
    doubts = study.doubts(_rows(cells))
    return tuple(
        _value(key, published.get(key), by_row.get(key[:2], []), other.get(key[:2], data), doubts.get(key, ""))
        for key in keys
    )


def _data_of(cells: Sequence[TableCell]) -> dict[tuple[str, str], Data]:
    return {(cell.system, cell.collection): of for cell in cells if (of := cell.settings.get("data"))}


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
            # The first note about a label ("t2i typos: …"), or about its task ("t2i: …").
            notes = [note for cell in cells for note in cell.measured.notes]
            about = (note for name in (label, label.partition(" ")[0]) for note in notes if note.startswith(f"{name}:"))
            reason = next(about, "not measured at this scale")
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


# What chance would give: how many pairs and statements agree with the paper if our systems stood in random order.

SAMPLES = 4_000
_ALL = 7
"""Up to so many systems every order is looked at; of more, random ones."""

Counts = NDArray[np.int64]
"""(SAMPLES,) counts under random orders."""


@dataclass(frozen=True)
class Agreement:
    """How many of the pairs and statements that count agree with the paper, beside what chance gives."""

    measured: int  # pairs and statements that were measured
    counted: int  # those whose interval excludes 0, or that hold or fail in nearly all draws
    agreeing: int  # those of them that agree with the paper
    expected: float  # how many of them chance makes agree, the mean
    low: float  # the lower end of the central 95 % of what chance makes agree
    high: float  # the upper end


def agreement(blocks: Sequence[Sequence[PairOrder]], checks: Sequence[TrendCheck], *, seed: int = 0) -> Agreement:
    """Count what agrees, and what would agree by chance."""
    rng = np.random.default_rng(seed)
    pairs = [pair for block in blocks for pair in block]
    counted_checks = [check for check in checks if check.agrees is not None]
    agreeing, counted = np.zeros(SAMPLES, np.int64), np.full(SAMPLES, len(counted_checks), np.int64)
    for block in blocks:
        of_block = _of_random_orders(block, rng)
        picks = rng.integers(0, of_block.shape[1], SAMPLES)
        agreeing, counted = agreeing + of_block[0, picks], counted + of_block[1, picks]
    for check in counted_checks:
        agreeing = agreeing + (rng.random(SAMPLES) < check.chance)
    shares = np.divide(agreeing, counted, out=np.zeros(SAMPLES), where=counted > 0)
    same = [pair.agrees for pair in pairs if pair.agrees is not None] + [bool(check.agrees) for check in counted_checks]
    by_chance = len(same) * np.array([shares.mean(), *stats.estimate_of_draws(0.0, shares).ends])
    return Agreement(len(pairs) + len(checks), len(same), sum(same), *by_chance.tolist())


def _of_random_orders(pairs: Sequence[PairOrder], rng: np.random.Generator) -> Counts:
    """(2, orders) of pairs that agree and of pairs that count, if the members stood in other orders."""
    members = list(dict.fromkeys(name for pair in pairs for name in (pair.higher, pair.lower)))
    labels = _measurements(pairs)
    row = {name: number for number, name in enumerate(members)}
    column = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    ours = np.zeros((len(column), len(members), len(members)), np.int64)  # who is above whom here: 1, -1, 0 for neither
    printed = np.zeros_like(ours)
    for pair, name in zip(pairs, labels, strict=True):
        above, below, label = row[pair.higher], row[pair.lower], column[name]
        sign = 0 if pair.agrees is None else 1 if pair.agrees else -1
        printed[label, above, below] = 1
        ours[label, above, below], ours[label, below, above] = sign, -sign
    if len(members) <= _ALL:
        orders = np.array(list(permutations(range(len(members)))))
    else:
        orders = np.stack([rng.permutation(len(members)) for _ in range(factorial(6))])
    counts = np.zeros((2, len(orders)), np.int64)
    for number, order in enumerate(orders):
        exchanged = ours[:, order][:, :, order] * printed
        counts[:, number] = (exchanged > 0).sum(), (exchanged != 0).sum()
    return counts


def _measurements(pairs: Sequence[PairOrder]) -> list[tuple[str, str, int]]:
    """(n,) what each pair was measured by: collection, label, and a number where one was measured more than once."""
    seen: Counter[tuple[str, str, frozenset[str]]] = Counter()
    names = []
    for pair in pairs:
        key = pair.collection, pair.label, frozenset((pair.higher, pair.lower))
        names.append((pair.collection, pair.label, seen[key]))
        seen[key] += 1
    return names


# Orders on collections of scenes beside orders on collections of single objects (thesis 2.5.3, RQ1.2 and RQ1.3).


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of all systems on one collection under one label."""

    study: Study
    collection: str
    label: str
    by_system: Mapping[str, ValueComparison]

    def pair(self, higher: str, lower: str) -> PairOrder | None:
        """Ours of two systems; None where one of them was not measured."""
        above, below = (self.by_system.get(system) for system in (higher, lower))
        if above is None or below is None or above.ours is None or below.ours is None:
            return None
        interval = difference_interval(above.draws, below.draws)
        return PairOrder(self.collection, self.label, higher, lower, above.ours - below.ours, interval)

    def compared(self) -> Iterator[tuple[ValueComparison, ValueComparison]]:
        """The pairs of systems that the study compares."""
        groups_of = self.study.groups_of
        pairs = combinations(self.by_system.values(), 2)
        return (pair for pair in pairs if groups_of(pair[0].system) & groups_of(pair[1].system))


def replicated_pairs(comparisons: Sequence[StudyComparison]) -> list[PairOrder]:
    """Pairs with an order printed for scenes, with our difference on single objects."""
    pairs: list[PairOrder | None] = []
    printed: set[tuple[str, str, int]] = set()
    for scenes, objects in _both_kinds(comparisons):
        key = (scenes.collection, scenes.label, id(objects))
        if key in printed:  # of another scale
            continue
        printed.add(key)
        for first, second in scenes.compared():
            if first.published is not None and second.published is not None and first.published != second.published:
                order = (first, second) if first.published > second.published else (second, first)
                pairs.append(objects.pair(order[0].system, order[1].system))
    return [pair for pair in pairs if pair is not None]


def generalised_pairs(comparisons: Sequence[StudyComparison]) -> list[PairOrder]:
    """Pairs that stand in a certain order on scenes here, with our difference on single objects."""
    pairs: list[PairOrder | None] = []
    for scenes, objects in _both_kinds(comparisons):
        for first, second in scenes.compared():
            ours = scenes.pair(first.system, second.system)
            if ours is not None and ours.agrees is not None:
                pairs.append(objects.pair(*(ours.systems if ours.agrees else ours.systems[::-1])))
    return [pair for pair in pairs if pair is not None]


def _both_kinds(comparisons: Sequence[StudyComparison]) -> Iterator[tuple[_Values, _Values]]:
    """Every collection of scenes beside every collection of single objects, under each label that both have."""
    kinds: tuple[list[_Values], list[_Values]] = ([], [])
    for part in comparisons:
        if part.study.pairs != "systems" or not part.study.of_images:
            continue
        by_label: dict[tuple[str, str], dict[str, ValueComparison]] = {}
        for value in part.values:
            by_label.setdefault((value.collection, value.label), {})[value.system] = value
        for (collection, label), by_system in by_label.items():
            kinds[collection in part.study.object_centric].append(_Values(part.study, collection, label, by_system))
    return ((scenes, objects) for scenes, objects in product(*kinds) if scenes.label == objects.label)


Answer = Literal["yes", "partly", "no", "undecided", "not looked at"]
TASKS = {
    "t2i": "text to image",
    "i2t": "image to text",
    "category": "category to image",
    "both": "both tasks together",
}
"""The tasks of the tree, in its order: the first word of a label → in words."""
NEARLY_ALL = 0.95
"""The share that counts as all."""
VALUES, ORDER = "reproducible: values (same data)", "reproducible: order (same data)"
OTHER = "the same order on other real data"
REPLICABLE = "replicable (printed for scenes, looked at on single objects)"
GENERALISABLE = "generalisable (ours on scenes and on single objects)"


@dataclass(frozen=True)
class Verdict:
    """The answer to one question about a study, with what it is made from."""

    question: str  # "reproducible: values (same data)" and so on, after the reading where a study has several
    answer: Answer  # see `answer_of` and `answer_of_values`
    reason: str  # the counts behind the answer, and what chance would give
    reading: str | None = None  # of the protocol, where the study has several


@dataclass(frozen=True)
class TreeLeaf:
    """One leaf of the tree: a task on a collection, with its values and pairs."""

    task: str  # "text to image" and so on
    kind: str  # "scene-centric" or "object-centric"
    collection: str  # the collection
    reproduced: int  # values within 5 % of the published ones
    judged: int  # values that were judged
    in_order: int  # pairs that count and stand in the published order
    counted: int  # pairs that count
    pairs: int  # pairs that were measured
    reading: str | None = None  # of the protocol, where the study has several


def verdicts(
    comparisons: Sequence[StudyComparison], counterpart: Sequence[StudyComparison] = ()
) -> tuple[Verdict, ...]:
    """The verdicts on a study; where it has several readings of the protocol, on each of them."""
    readings: dict[str | None, None] = {reading: None for part in comparisons for reading in part.study.readings}
    return tuple(
        replace(verdict, question=f"{reading}, {verdict.question}", reading=reading) if reading else verdict
        for reading in readings or {None: None}
        for verdict in _verdicts(
            [part.part(reading=reading) for part in comparisons], [part.part(reading=reading) for part in counterpart]
        )
    )


def _verdicts(comparisons: Sequence[StudyComparison], counterpart: Sequence[StudyComparison]) -> list[Verdict]:
    # - values, on the table's own data: which are within 5 % of the printed ones (thesis 2.5.3).
    # - order, on the table's own data: which pairs and statements agree with the paper (2.6, after Voorhees).
    # - the same order on other real data of the kind (Flickr8k for Flickr30k, another shop's log). The thesis has no
    #   word for it. Generated data is no such data: it is counted in the reason and answers nothing.
    # - replicable (RQ1.2): the order that is printed for collections of scenes, on collections of single objects.
    # - generalisable (RQ1.3): our order on collections of scenes, and on those of single objects.
    # The last two are there for a study whose collections, with those of its counterpart, are of both kinds.
    by_data: dict[Data, list[StudyComparison]] = {
        data: [part.part(data=data) for part in comparisons if data in (part.data, *part.data_of.values())]
        for data in get_args(Data)
    }
    answers = [
        _values(by_data["same"]),
        _order(ORDER, by_data["same"], "nothing was run on the data of the table", by_data["quoted"],
               "the authors' own numbers"),
        _order(OTHER, by_data["other"], "no other real data was used", by_data["generated"], "generated data"),
    ]  # fmt: skip
    real = [part for part in (*comparisons, *counterpart) if part.data in ("same", "other")]
    if any(part.study.object_centric for part in (*comparisons, *counterpart)):
        nothing = "no pair of systems was run on collections of single objects"
        answers.append(_pairs_verdict(REPLICABLE, replicated_pairs(real), nothing))
        nothing = "no pair of systems was run on collections of both kinds"
        answers.append(_pairs_verdict(GENERALISABLE, generalised_pairs(real), nothing))
    return answers


def answer_of(counts: Agreement) -> Answer:
    """Whether what counts agrees with the paper: the first of these that fits."""
    # - yes: nearly all that counts agrees (19 in 20), and that is most of what was measured;
    # - no: nearly all that counts disagrees, and that is most of what was measured; or no more agrees than chance gives
    #   (the upper end of its central 95 %), where chance could give less than everything;
    # - partly: more agrees than chance gives;
    # - undecided: nothing counts, or there are so few systems that chance can give everything.
    disagreeing = counts.counted - counts.agreeing
    if not counts.counted:
        return "undecided"
    if counts.agreeing >= NEARLY_ALL * counts.counted and 2 * counts.agreeing > counts.measured:
        return "yes"
    if disagreeing >= NEARLY_ALL * counts.counted and 2 * disagreeing > counts.measured:
        return "no"
    if counts.agreeing > counts.high:
        return "partly"
    return "no" if counts.high < counts.counted else "undecided"


def answer_of_values(reproduced: int, judged: int) -> Answer:
    """Whether the values are reproduced, by Wilson's 95 % interval of the share."""
    # yes where it reaches 19 in 20 and not 1 in 20, no where it reaches 1 in 20 and not 19 in 20, partly where it
    # reaches neither, undecided where it reaches both.
    low, high = stats.of_counts(reproduced, judged).ends
    all_of_them, none = high >= NEARLY_ALL, low <= 1 - NEARLY_ALL
    if all_of_them and none:
        return "undecided"
    return "yes" if all_of_them else "no" if none else "partly"


def tree(comparison: StudyComparison, reading: str | None = None) -> tuple[TreeLeaf, ...]:
    """Figure 2.2: task → scene-centric or object-centric → collection, of what was measured; of images only."""
    if not comparison.study.of_images:
        return ()
    leaves = []
    order = {task: position for position, task in enumerate(TASKS.values())}
    keys = dict.fromkeys((_task(value.label), value.collection) for value in comparison.values)
    for task, collection in sorted(keys, key=lambda key: order.get(key[0], len(order))):
        judged = [
            value
            for value in comparison.values
            if (_task(value.label), value.collection) == (task, collection) and value.relative is not None
        ]
        measured = [
            pair
            for pair in comparison.measured_pairs
            if (_task(pair.higher if comparison.study.pairs == "labels" else pair.label), pair.collection)
            == (task, collection)
        ]
        if judged or measured:
            agreements = [pair.agrees for pair in measured if pair.agrees is not None]
            kind = "object-centric" if collection in comparison.study.object_centric else "scene-centric"
            counts = (_reproduced(judged), len(judged), sum(agreements), len(agreements), len(measured))
            leaves.append(TreeLeaf(task, kind, collection, *counts, reading))
    return tuple(leaves)


def _values(comparisons: Sequence[StudyComparison]) -> Verdict:
    printed = {_key(value) for part in comparisons for value in part.values if value.published is not None}
    values = [value for part in comparisons for value in part.values if value.relative is not None]
    if not values:
        measured = sum(value.ours is not None for part in comparisons for value in part.values)
        nothing = "nothing was run on the data of the table"
        if measured:
            nothing = f"none of the {counted(measured, 'measured values')} can be compared with a printed one"
        return Verdict(VALUES, "not looked at", nothing)
    reproduced = _reproduced(values)
    low, high = (100 * end for end in stats.of_counts(reproduced, len(values)).ends)
    reason = (
        f"{reproduced} of {len(values)} within 5 % (95 % interval of the share: {low:.0f} to {high:.0f} %); "
        f"{len({_key(value) for value in values})} of {counted(len(printed), 'printed values')} could be compared"
    )
    return Verdict(VALUES, answer_of_values(reproduced, len(values)), reason)


def _order(
    question: str,
    comparisons: Sequence[StudyComparison],
    nothing: str,
    others: Sequence[StudyComparison],
    what_they_are: str,
) -> Verdict:
    """The verdict on pairs and statements; those of `others` answer nothing and are told beside it."""
    beside = f"; {what_they_are} cannot answer this: {words}" if (words := in_words(_agreement(others))) else ""
    counts = _agreement(comparisons)
    if not counts.measured:
        was_run = any(comparison.states["done"] for comparison in comparisons)
        return Verdict(
            question, "not looked at", ("what was run has no order to compare" if was_run else nothing) + beside
        )
    return Verdict(question, answer_of(counts), in_words(counts) + beside)


def _pairs_verdict(question: str, pairs: Sequence[PairOrder], nothing: str) -> Verdict:
    counts = agreement([pairs] if pairs else [], ())
    if not counts.measured:
        return Verdict(question, "not looked at", nothing)
    return Verdict(question, answer_of(counts), in_words(counts))


def _agreement(comparisons: Sequence[StudyComparison]) -> Agreement:
    """Of all pairs and statements; systems (or labels, where they are compared) are exchanged on all collections."""
    checks: list[TrendCheck] = []
    blocks: dict[tuple[str | None, int], list[PairOrder]] = {}
    for part in comparisons:
        checks += [check for check in part.trend_checks if check.holds is not None]
        for pair in part.measured_pairs:
            blocks.setdefault(min(part.study.groups_of(pair.higher), default=(None, -1)), []).append(pair)
    return agreement(list(blocks.values()), checks)


def in_words(counts: Agreement) -> str:
    """What agrees of what counts, and what chance would give; "" where nothing was measured."""
    if not counts.measured:
        return ""
    if not counts.counted:
        return f"none of {counts.measured} counts: every interval includes 0, or there is none"
    return (
        f"{counts.agreeing} of {counts.counted} that count agree with the paper (of {counts.measured} measured); "
        f"chance gives {counts.expected:.1f} (95 %: {counts.low:.0f} to {counts.high:.0f})"
    )


def _reproduced(values: Sequence[ValueComparison]) -> int:
    return sum(value.state == "reproduced" for value in values)


def _key(value: ValueComparison) -> tuple[str, str, str]:
    return value.system, value.collection, value.label


def _task(label: str) -> str:
    return TASKS.get(label.partition(" ")[0], "neither task")
