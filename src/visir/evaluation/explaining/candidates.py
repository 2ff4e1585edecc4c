"""Which readings are tried, plainest first: none, one departure, pairs, a few named triples."""

from __future__ import annotations

from functools import cache
from itertools import combinations, groupby

from visir.evaluation.explaining.axes import AXES, Axis, AxisChoice
from visir.evaluation.explaining.reading import Reading

USUAL_TIES = ("optimistic", "pessimistic", "any order")
"""What scripts do that count the scores above, or at least, that of the right one, and what noise does: a few equal
scores show beside another departure only, so these go with every one."""
ALONE = frozenset({"cutoffs", "depth", "queries", "links", "copies", "unit"})
"""Axes whose rare choices are tried alone only: with a second departure they fit small values by accident."""
NEVER_TOGETHER = (
    frozenset({"positives", "recall"}),
    frozenset({"positives", "copies"}),
    frozenset({"copies", "folds"}),
    frozenset({"ties", "positives"}),
    frozenset({"depth", "cutoffs"}),
)
"""Pairs of axes that mean nothing together, or the same as a choice of one of them."""
BESIDE_LINKS = frozenset({"recall", "unit", "digits", "similarity"})
"""The axes that a mix-up of captions goes with: with more freedom it fits noise."""
TRIPLES: tuple[tuple[tuple[str, str], ...], ...] = tuple(
    (*pair, third)
    for pair in (
        (("split", "val"), ("captions", "first")),
        (("split", "test"), ("captions", "first")),
        (("captions", "first"), ("similarity", "dot")),
        (("captions", "first"), ("folds", "5")),
        (("folds", "5"), ("similarity", "dot")),
        (("split", "val"), ("folds", "5")),
        (("split", "val"), ("similarity", "dot")),
        (("captions", "first 5"), ("folds", "5")),
    )
    for third in (
        ("folds", "5"), ("similarity", "dot"), ("recall", "recall"), ("recall", "capped_recall"), ("digits", "cut"),
        ("unit", "fraction"),
    )
    if third[0] not in {axis for axis, _ in pair}
)  # fmt: skip
"""The triples that are tried."""


@cache
def singles() -> tuple[Reading, ...]:
    """Every reading with one departure, the plainest first."""
    every = [Reading.of(**{axis.name: choice.name}) for axis in AXES for choice in axis.choices]
    return tuple(sorted(every, key=lambda reading: reading.cost))


@cache
def pairs() -> tuple[Reading, ...]:
    """Every reading of two departures that go together, one of them a usual one, the plainest first."""
    every = [
        Reading.of(**{first.name: choice.name, second.name: other.name})
        for first, second in combinations(AXES, 2)
        if _go_together({first.name, second.name})
        for choice in first.choices
        for other in second.choices
        if (_is_usual(first, choice, second, other) and _goes_with_more(choice, second, other))
        or {(first.name, choice.name), (second.name, other.name)} & {("ties", name) for name in USUAL_TIES}
    ]
    return tuple(sorted(every, key=lambda reading: reading.cost))


def _go_together(axes: set[str]) -> bool:
    if "links" in axes:
        return bool(axes & BESIDE_LINKS)
    return frozenset(axes) not in NEVER_TOGETHER


def _is_usual(first: Axis, choice: AxisChoice, second: Axis, other: AxisChoice) -> bool:
    return choice.cost + other.cost <= 3 and _goes_with_others(first, choice) and _goes_with_others(second, other)


def _goes_with_more(choice: AxisChoice, second: Axis, other: AxisChoice) -> bool:
    """Whether candidates of other splits, where a choice adds them, go with another choice."""
    # They are in no fold, and a rare similarity beside a rare gallery is not worth its time: it scores them all anew.
    if not (isinstance(choice.value, tuple) and choice.value[0] == "with"):
        return True
    return second.name != "folds" and not (second.name == "similarity" and other.cost > 1)


def _goes_with_others(axis: Axis, choice: AxisChoice) -> bool:
    return choice.cost == 1 or axis.name not in ALONE


@cache
def triples() -> tuple[Reading, ...]:
    """The named triples."""
    return tuple(dict.fromkeys(Reading.of(**dict(triple)) for triple in TRIPLES))


@cache
def tiers() -> tuple[tuple[int, tuple[Reading, ...]], ...]:
    """(cost, readings) by rising cost: the plain one, single departures, pairs, and the triples as one tier."""
    tiers: list[tuple[int, tuple[Reading, ...]]] = []
    for readings in ((Reading(),), singles(), pairs()):
        tiers += [(cost, tuple(group)) for cost, group in groupby(readings, key=lambda reading: reading.cost)]
    return (*tiers, (min(reading.cost for reading in triples()), triples()))
