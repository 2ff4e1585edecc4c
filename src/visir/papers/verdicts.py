"""The verdicts on a study, after thesis chapter 2, and the tree of its Figure 2.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import factorial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.display import counted
from visir.papers.comparison import StudyComparison, ValueComparison
from visir.papers.pairs import PairOrder, are_compared
from visir.studies.draws import Draws, difference_interval
from visir.studies.trend_check import TrendCheck
from visir.wilson import wilson

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
    low, high = np.quantile(shares, [0.025, 0.975])
    count = len(same)
    return Agreement(
        len(pairs) + len(checks),
        count,
        sum(same),
        float(count * shares.mean()),
        float(count * low),
        float(count * high),
    )


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
    """The values of all systems on one collection under one label: printed ones, ours, and draws of ours."""

    is_object_centric: bool
    collection: str
    label: str
    groups: Sequence[Sequence[str]]
    published: Mapping[str, float]
    ours: Mapping[str, float]
    draws: Mapping[str, Draws]


def replicated_pairs(comparisons: Sequence[StudyComparison]) -> list[PairOrder]:
    """Pairs with an order printed for scenes, with our difference on single objects."""
    pairs: list[PairOrder] = []
    printed: set[tuple[str, str, int]] = set()
    for scenes, objects in _both_kinds(comparisons):
        key = (scenes.collection, scenes.label, id(objects))
        if key in printed:  # of another scale
            continue
        printed.add(key)
        for first, second in _compared(scenes, scenes.published, objects.ours):
            gap = scenes.published[first] - scenes.published[second]
            if gap:
                pairs.append(_pair(objects, scenes.label, *((first, second) if gap > 0 else (second, first))))
    return pairs


def generalised_pairs(comparisons: Sequence[StudyComparison]) -> list[PairOrder]:
    """Pairs that stand in a certain order on scenes here, with our difference on single objects."""
    pairs: list[PairOrder] = []
    for scenes, objects in _both_kinds(comparisons):
        for first, second in _compared(scenes, scenes.ours, objects.ours):
            order = _pair(scenes, scenes.label, first, second).agrees
            if order is not None:
                pairs.append(_pair(objects, scenes.label, *((first, second) if order else (second, first))))
    return pairs


def _pair(values: _Values, label: str, higher: str, lower: str) -> PairOrder:
    interval = difference_interval(values.draws.get(higher), values.draws.get(lower))
    difference = values.ours[higher] - values.ours[lower]
    return PairOrder(values.collection, label, higher, lower, difference, interval)


def _compared(scenes: _Values, first: Mapping[str, float], second: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """The pairs of systems that are in both, and are compared in the study of scenes."""
    common = [system for system in first if system in second]
    return (pair for pair in combinations(common, 2) if are_compared(scenes.groups, *pair))


def _both_kinds(comparisons: Sequence[StudyComparison]) -> Iterator[tuple[_Values, _Values]]:
    """Every collection of scenes beside every collection of single objects, under each label that both have."""
    values = [of_label for part in comparisons for of_label in _values_of(part)]
    scenes = [of_label for of_label in values if not of_label.is_object_centric]
    objects = [of_label for of_label in values if of_label.is_object_centric and of_label.ours]
    return ((left, right) for left, right in product(scenes, objects) if left.label == right.label)


def _values_of(part: StudyComparison) -> Iterator[_Values]:
    if part.study.pairs != "systems" or not part.study.of_images:
        return
    by_label: dict[tuple[str, str], tuple[dict[str, float], dict[str, float], dict[str, Draws]]] = {}
    for value in part.values:
        published, ours, draws = by_label.setdefault((value.collection, value.label), ({}, {}, {}))
        if value.published is not None:
            published[value.system] = value.published
        if value.ours is not None:
            ours[value.system] = value.ours
        if value.draws is not None:
            draws[value.system] = value.draws
    for (collection, label), (published, ours, draws) in by_label.items():
        is_object_centric = collection in part.study.object_centric
        yield _Values(is_object_centric, collection, label, part.study.groups, published, ours, draws)


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
_NORMAL = 1.959963984540054


@dataclass(frozen=True)
class Verdict:
    """The answer to one question about a study, with what it is made from."""

    question: str  # "reproducible: values (same data)" and so on
    answer: Answer  # see `answer_of` and `answer_of_values`
    reason: str  # the counts behind the answer, and what chance would give


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


def verdicts(
    comparisons: Sequence[StudyComparison], counterpart: Sequence[StudyComparison] = ()
) -> tuple[Verdict, ...]:
    """The verdicts on a study."""
    # - values, on the table's own data: which are within 5 % of the printed ones (thesis 2.5.3).
    # - order, on the table's own data: which pairs and statements agree with the paper (2.6, after Voorhees).
    # - the same order on other real data of the kind (Flickr8k for Flickr30k, another shop's log). The thesis has no
    #   word for it. Generated data is no such data: it is counted in the reason and answers nothing.
    # - replicable (RQ1.2): the order that is printed for collections of scenes, on collections of single objects.
    # - generalisable (RQ1.3): our order on collections of scenes, and on those of single objects.
    # The last two are there for a study whose collections, with those of its counterpart, are of both kinds.
    by_data = {
        data: [comparison for comparison in comparisons if comparison.data == data]
        for data in ("same", "quoted", "other", "generated")
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
    return tuple(answers)


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
    low, high = wilson(reproduced / judged, judged, _NORMAL)
    all_of_them, none = high >= NEARLY_ALL, low <= 1 - NEARLY_ALL
    if all_of_them and none:
        return "undecided"
    return "yes" if all_of_them else "no" if none else "partly"


def tree(comparison: StudyComparison) -> tuple[TreeLeaf, ...]:
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
            if (_task(_label_of(pair, comparison)), pair.collection) == (task, collection)
        ]
        if judged or measured:
            agreements = [pair.agrees for pair in measured if pair.agrees is not None]
            kind = "object-centric" if collection in comparison.study.object_centric else "scene-centric"
            leaves.append(
                TreeLeaf(
                    task,
                    kind,
                    collection,
                    _reproduced(judged),
                    len(judged),
                    sum(agreements),
                    len(agreements),
                    len(measured),
                )
            )
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
    low, high = (100 * end for end in wilson(reproduced / len(values), len(values), _NORMAL))
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
    blocks: dict[str, list[PairOrder]] = {}
    for part in comparisons:
        checks += [check for check in part.trend_checks if check.holds is not None]
        for pair in part.measured_pairs:
            groups = [str(place) for place, group in enumerate(part.study.groups) if pair.higher in group]
            blocks.setdefault("".join(groups[:1]), []).append(pair)
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


def _label_of(pair: PairOrder, comparison: StudyComparison) -> str:
    """The label of a pair; where labels are compared, both name the same task."""
    return pair.higher if comparison.study.pairs == "labels" else pair.label
