"""The three answers of thesis chapter 2, and the tree of its Figure 2.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from visir.papers.verdict import Pair, Verdict

Answer = Literal["yes", "partly", "no", "not looked at"]
TASKS = {"t2i": "text to image", "i2t": "image to text", "both": "both tasks together"}


@dataclass(frozen=True)
class Answered:
    """One of the three questions: the answer, and what it is made from."""

    question: str
    answer: Answer
    because: str


@dataclass(frozen=True)
class Leaf:
    """One leaf of the tree: a task on a collection, with its values and orders."""

    task: str
    centre: str
    collection: str
    reproduced: int
    judged: int
    kept: int
    pairs: int


def answers(verdicts: Sequence[Verdict], beside: Sequence[Verdict] = ()) -> tuple[Answered, ...]:
    """Reproducible, replicable, generalisable: from all scales of one study, and those of the study `beside` it.

    - reproducible (same data): the values within 5 %, and the order of pairs, of the scales with the table's own data
    - replicable (other data of the kind): the order of pairs where real data of another collection was used. Generated
      scenes are no such data; what their pairs say is said, and answers nothing.
    - generalisable: whether two systems stand in one order on collections of scenes and on those of single objects, by
      our own values alone; asked only where a study, or it with the one beside it, has both
    """
    same = [one for one in verdicts if one.data == "same"]
    quoted = [one for one in verdicts if one.data == "quoted"]
    other = [one for one in verdicts if one.data == "other"]
    generated = [one for one in verdicts if one.data == "generated"]
    return (_reproducible(same, quoted), _replicable(other, generated), _generalisable([*verdicts, *beside]))


def tree(verdict: Verdict) -> tuple[Leaf, ...]:
    """Figure 2.2: task → scene-centric or object-centric → collection, of what was looked at; of images only."""
    if not verdict.study.of_images:
        return ()
    leaves = []
    order = {task: at for at, task in enumerate(TASKS.values())}
    keys = dict.fromkeys((_task(one.label), one.collection) for one in verdict.values)
    for task, collection in sorted(keys, key=lambda one: order.get(one[0], len(order))):
        values = [one for one in verdict.values if (_task(one.label), one.collection) == (task, collection)]
        pairs = [one for one in verdict.pairs if (_task(_of(one, verdict)), one.collection) == (task, collection)]
        judged = [one for one in values if one.relative is not None]
        looked = [one for one in pairs if one.same is not None]
        if judged or looked:
            leaves.append(
                Leaf(
                    task,
                    _centre(verdict, collection),
                    collection,
                    sum(one.state == "reproduced" for one in judged),
                    len(judged),
                    sum(bool(one.same) for one in looked),
                    len(looked),
                )
            )
    return tuple(leaves)


def _reproducible(verdicts: Sequence[Verdict], quoted: Sequence[Verdict]) -> Answered:
    question = "reproducible (same data)"
    values = [one for part in verdicts for one in part.values if one.relative is not None]
    pairs = [one for part in verdicts for one in part.judged]
    shapes = [one for part in verdicts for one in part.shapes if one.came_out is not None]
    of_quoted = _counts(quoted)
    also = f"; of the authors' own numbers, which answers nothing, {of_quoted[2]}" if of_quoted[1] else ""
    if not values and not pairs and not shapes:
        return Answered(question, "not looked at", f"nothing was run on the data of the table{also}")
    good = sum(one.state == "reproduced" for one in values)
    kept, out = sum(bool(one.same) for one in pairs), sum(bool(one.came_out) for one in shapes)
    said = []
    said += [f"{good} of {len(values)} values within 5 %"] if values else []
    said += [f"{kept} of {len(pairs)} pairs in the printed order"] if pairs else []
    said += [f"{out} of {len(shapes)} shapes"] if shapes else []
    return Answered(
        question, _answer(good + kept + out, len(values) + len(pairs) + len(shapes)), ", ".join(said) + also
    )


def _replicable(verdicts: Sequence[Verdict], generated: Sequence[Verdict]) -> Answered:
    question = "replicable (other real data)"
    of_generated = _counts(generated)
    also = f"; on generated data, which answers nothing, {of_generated[2]}" if of_generated[1] else ""
    kept, count, said = _counts(verdicts)
    if not count:
        ran = any(one.states["done"] for one in verdicts)
        said = "other real data was run, and has no order to compare" if ran else "no other real data was used"
        return Answered(question, "not looked at", said + also)
    return Answered(question, _answer(kept, count), said + also)


def _counts(verdicts: Sequence[Verdict]) -> tuple[int, int, str]:
    pairs = [one for part in verdicts for one in part.judged]
    shapes = [one for part in verdicts for one in part.shapes if one.came_out is not None]
    kept, out = sum(bool(one.same) for one in pairs), sum(bool(one.came_out) for one in shapes)
    said = [f"{kept} of {len(pairs)} pairs in the printed order"] if pairs else []
    said += [f"{out} of {len(shapes)} shapes"] if shapes else []
    return kept + out, len(pairs) + len(shapes), ", ".join(said)


def _generalisable(verdicts: Sequence[Verdict]) -> Answered:
    """For every pair of systems, label, scene-centric and object-centric collection: the same order of ours?"""
    question = "generalisable (scenes to single objects)"
    signs: dict[tuple[str, str, str], dict[str, set[int]]] = {}
    for part in verdicts:
        if part.data in ("generated", "quoted") or part.study.pairs != "systems" or not part.study.of_images:
            continue
        ours = {(one.collection, one.label, one.system): one.ours for one in part.values if one.ours is not None}
        for (collection, label, one), mine in ours.items():
            for (where, what, other), theirs in ours.items():
                if (where, what) == (collection, label) and one < other and mine != theirs:
                    centre = _centre(part, collection)
                    signs.setdefault((label, one, other), {}).setdefault(centre, set()).add(1 if mine > theirs else -1)
    both = [one for one in signs.values() if len(one) == 2]
    if not both:
        return Answered(question, "not looked at", "no pair of systems was run on collections of both kinds")
    agreeing = sum(len(set.union(*one.values())) == 1 for one in both)
    said = f"{agreeing} of {len(both)} pairs of systems in one order on all collections"
    return Answered(question, _answer(agreeing, len(both)), said)


def _answer(good: int, count: int) -> Answer:
    return "yes" if good == count else "no" if good == 0 else "partly"


def _centre(verdict: Verdict, collection: str) -> str:
    return "object-centric" if collection in verdict.study.object_centric else "scene-centric"


def _task(label: str) -> str:
    return TASKS.get(label.partition(" ")[0], "neither task")


def _of(pair: Pair, verdict: Verdict) -> str:
    """The label of a pair: where labels are compared, either of them says the task."""
    return pair.higher if verdict.study.pairs == "labels" else pair.label
