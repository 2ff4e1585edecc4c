"""Pairs of a table: which stand in the printed order here, which in the other, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from visir.papers.published_values import ValueKey
from visir.papers.study import Study
from visir.studies.experiment import Draws, difference_interval

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
            if not are_compared(study.groups, first, second):
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


def are_compared(groups: Sequence[Sequence[str]], first: str, second: str) -> bool:
    """Whether two systems are in one group; all are where there are no groups."""
    return not groups or any(first in group and second in group for group in groups)


def _sets(study: Study, published: Mapping[ValueKey, float]) -> dict[tuple[str, str], dict[str, ValueKey]]:
    """(collection, label) → system → key; where labels are compared (collection, system) → label → key."""
    sets: dict[tuple[str, str], dict[str, ValueKey]] = {}
    for key in published:
        system, collection, label = key
        name, member = (system, label) if study.pairs == "labels" else (label, system)
        sets.setdefault((collection, name), {})[member] = key
    return sets
