"""The verdicts on a study, after thesis chapter 2, and the tree of its Figure 2.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from visir.display import counted
from visir.papers.chance import Agreement, agreement
from visir.papers.comparison import StudyComparison, ValueComparison
from visir.papers.pairs import PairOrder
from visir.papers.scenes_to_objects import generalised_pairs, replicated_pairs
from visir.studies.trend_check import TrendCheck
from visir.wilson import wilson

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
