"""Pairs of a table: which stand in the printed order here, which in the other, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from visir.evaluation.stress.effect import GROUPS
from visir.evaluation.stress.stress import Stress
from visir.papers.published_values import ValueKey
from visir.papers.study import Study
from visir.studies.experiment import Draws, difference_interval, finite, unit_means, unit_sums

# Draws of what perturbations do: images are drawn with all their captions.


def rsum_draws(study: Stress) -> dict[str, Draws]:
    """Draws of the rsum of text to image: "rsum" unperturbed, and under each perturbation by its name."""
    effects = [effect for effect in study.effects if effect.outcome.task == "t2i"]
    values = {"rsum": effects[0].before} | {effect.name: effect.after for effect in effects}
    return unit_means(_images(study), values)


def jaccard_draws(study: Stress) -> dict[str, Draws]:
    """Draws of the mean similarity of the sets of captions that two perturbations harm, help or leave."""
    effects = [effect for effect in study.effects if effect.outcome.task == "t2i"]
    changes = np.stack([effect.after - effect.before for effect in effects], axis=1)
    signs = np.where(np.abs(changes) < 1e-9, 0, np.sign(changes))
    draws = {}
    for group, sign in zip(GROUPS, (-1, 1, 0), strict=True):
        member = signs == sign
        pairs = list(combinations(range(len(effects)), 2))
        both = np.stack([member[:, first] & member[:, second] for first, second in pairs], axis=1)
        either = np.stack([member[:, first] | member[:, second] for first, second in pairs], axis=1)
        sums = unit_sums(_images(study), np.concatenate([both, either], axis=1).astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            draws[group] = np.nanmean(sums[:, : len(pairs)] / sums[:, len(pairs) :], axis=1)
    return finite(draws)


def _images(study: Stress) -> list[str]:
    """The image of each caption, in the order of the effects."""
    effect = next(effect for effect in study.effects if effect.outcome.task == "t2i")
    return [study.images[caption] for caption in effect.queries.to_pylist()]


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
