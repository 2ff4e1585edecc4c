"""The three verdicts of thesis chapter 2 on a study, and the tree of its Figure 2.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from visir.papers.comparison import PairOrder, StudyComparison, ValueComparison
from visir.studies.trend_check import TrendCheck

Answer = Literal["yes", "partly", "no", "not looked at"]
TASKS = {
    "t2i": "text to image",
    "i2t": "image to text",
    "category": "category to image",
    "both": "both tasks together",
}
"""The tasks of the tree, in its order: the first word of a label → in words."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one of the three questions, with what it is made from.

    Args:
        question: "reproducible (same data)" and so on.
        answer: "yes" where all agree, "no" where none does.
        reason: The counts behind the answer.
    """

    question: str
    answer: Answer
    reason: str


@dataclass(frozen=True)
class TreeLeaf:
    """One leaf of the tree: a task on a collection, with its values and pairs.

    Args:
        task: "text to image" and so on.
        kind: "scene-centric" or "object-centric".
        collection: The collection.
        reproduced: Values within 5 % of the published ones.
        judged: Values that were judged.
        in_order: Pairs in the published order.
        pairs: Pairs that were measured.
    """

    task: str
    kind: str
    collection: str
    reproduced: int
    judged: int
    in_order: int
    pairs: int


def verdicts(
    comparisons: Sequence[StudyComparison], counterpart: Sequence[StudyComparison] = ()
) -> tuple[Verdict, ...]:
    """Whether a study is reproducible, replicable, generalisable.

    - reproducible (same data): the values within 5 %, and the order of pairs, at scales with the table's own data.
    - replicable (other data of the kind): the order of pairs at scales with real data of another collection. Generated
      scenes are no such data: their pairs are counted in the reason and do not change the answer.
    - generalisable: whether two systems have one order on collections of scenes and on those of single objects, by our
      values alone; only where the study, or it and its counterpart, have both kinds.

    Args:
        comparisons: All scales of the study.
        counterpart: All scales of the study on collections of the other kind.
    """
    by_data = {
        data: [comparison for comparison in comparisons if comparison.data == data]
        for data in ("same", "quoted", "other", "generated")
    }
    return (
        _reproducible(by_data["same"], by_data["quoted"]),
        _replicable(by_data["other"], by_data["generated"]),
        _generalisable([*comparisons, *counterpart]),
    )


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
            leaves.append(
                TreeLeaf(
                    task,
                    _kind(comparison, collection),
                    collection,
                    _reproduced(judged),
                    len(judged),
                    _in_order(measured),
                    len(measured),
                )
            )
    return tuple(leaves)


def _reproducible(comparisons: Sequence[StudyComparison], quoted: Sequence[StudyComparison]) -> Verdict:
    question = "reproducible (same data)"
    values = [value for part in comparisons for value in part.values if value.relative is not None]
    pairs, checks = _orders(comparisons)
    _, quoted_count, quoted_counts = _counts(quoted)
    aside = f"; of the authors' own numbers, which answers nothing, {quoted_counts}" if quoted_count else ""
    if not values and not pairs and not checks:
        return Verdict(question, "not looked at", f"nothing was run on the data of the table{aside}")
    good = _reproduced(values) + _in_order(pairs) + _holding(checks)
    counts = [f"{_reproduced(values)} of {len(values)} values within 5 %"] if values else []
    counts += _in_words(pairs, checks)
    return Verdict(question, _answer(good, len(values) + len(pairs) + len(checks)), ", ".join(counts) + aside)


def _replicable(comparisons: Sequence[StudyComparison], generated: Sequence[StudyComparison]) -> Verdict:
    question = "replicable (other real data)"
    _, generated_count, generated_counts = _counts(generated)
    aside = f"; on generated data, which answers nothing, {generated_counts}" if generated_count else ""
    good, count, counts = _counts(comparisons)
    if not count:
        was_run = any(comparison.states["done"] for comparison in comparisons)
        reason = "other real data was run, and has no order to compare" if was_run else "no other real data was used"
        return Verdict(question, "not looked at", reason + aside)
    return Verdict(question, _answer(good, count), counts + aside)


def _generalisable(comparisons: Sequence[StudyComparison]) -> Verdict:
    """For every pair of systems, label, scene-centric and object-centric collection: do ours have the same order?"""
    question = "generalisable (scenes to single objects)"
    signs: dict[tuple[str, str, str], dict[str, set[int]]] = {}
    for part in comparisons:
        if part.data in ("generated", "quoted") or part.study.pairs != "systems" or not part.study.of_images:
            continue
        by_label: dict[tuple[str, str], dict[str, float]] = {}
        for value in part.values:
            if value.ours is not None:
                by_label.setdefault((value.collection, value.label), {})[value.system] = value.ours
        for (collection, label), ours in by_label.items():
            kind = _kind(part, collection)
            for first in ours:
                for second in ours:
                    if first < second and ours[first] != ours[second]:
                        sign = 1 if ours[first] > ours[second] else -1
                        signs.setdefault((label, first, second), {}).setdefault(kind, set()).add(sign)
    both = [kinds for kinds in signs.values() if len(kinds) == 2]
    if not both:
        return Verdict(question, "not looked at", "no pair of systems was run on collections of both kinds")
    agreeing = sum(len(set.union(*kinds.values())) == 1 for kinds in both)
    reason = f"{agreeing} of {len(both)} pairs of systems in one order on all collections"
    return Verdict(question, _answer(agreeing, len(both)), reason)


def _orders(comparisons: Sequence[StudyComparison]) -> tuple[list[PairOrder], list[TrendCheck]]:
    pairs = [pair for part in comparisons for pair in part.measured_pairs]
    checks = [check for part in comparisons for check in part.trend_checks if check.holds is not None]
    return pairs, checks


def _counts(comparisons: Sequence[StudyComparison]) -> tuple[int, int, str]:
    """Pairs and checks that agree, all of them, and both in words."""
    pairs, checks = _orders(comparisons)
    return _in_order(pairs) + _holding(checks), len(pairs) + len(checks), ", ".join(_in_words(pairs, checks))


def _in_words(pairs: Sequence[PairOrder], checks: Sequence[TrendCheck]) -> list[str]:
    words = [f"{_in_order(pairs)} of {len(pairs)} pairs in the printed order"] if pairs else []
    return words + ([f"{_holding(checks)} of {len(checks)} trend checks"] if checks else [])


def _reproduced(values: Sequence[ValueComparison]) -> int:
    return sum(value.state == "reproduced" for value in values)


def _in_order(pairs: Sequence[PairOrder]) -> int:
    return sum(bool(pair.same) for pair in pairs)


def _holding(checks: Sequence[TrendCheck]) -> int:
    return sum(bool(check.holds) for check in checks)


def _answer(good: int, count: int) -> Answer:
    return "yes" if good == count else "no" if good == 0 else "partly"


def _kind(comparison: StudyComparison, collection: str) -> str:
    return "object-centric" if collection in comparison.study.object_centric else "scene-centric"


def _task(label: str) -> str:
    return TASKS.get(label.partition(" ")[0], "neither task")


def _label_of(pair: PairOrder, comparison: StudyComparison) -> str:
    """The label of a pair; where labels are compared, both name the same task."""
    return pair.higher if comparison.study.pairs == "labels" else pair.label
