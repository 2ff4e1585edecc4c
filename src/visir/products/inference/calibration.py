"""Shares become confidences: how often an answer with such a share was right among products that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GROUP, MOST_GROUPS = 25, 20
"""How many answers a group has at least, and how many groups there are at most."""
FEWEST_OF_LEVEL = 100
"""A level of the tree with fewer held-out answers than this has no map of its own."""


@dataclass(frozen=True, eq=False)
class ConfidenceMap:
    """Straight lines between points; flat beyond the first and the last. A larger share never has less confidence."""

    shares: Floats  # (k,) rising
    confidences: Floats  # (k,) never falling, between 0 and 1

    def __call__(self, shares: Floats) -> Floats:
        """Confidences of shares, of any shape."""
        return np.asarray(np.interp(shares, self.shares, self.confidences))


def fit_confidence(shares: Floats, right: NDArray[np.bool_]) -> ConfidenceMap:
    """Fit the map to answers whose outcome is known: isotonic regression over groups of equally many answers."""
    # A group has `GROUP` answers or more; with r right ones among n its confidence is (r + p) / (n + 1), p the same for
    # all m answers, (R + 1) / (m + 2). So a few answers that are all right do not give the confidence 1. Groups that
    # would fall are joined (Zadrozny and Elkan, 2002).
    # shares: (m,) shares in [0, 1].
    # right: (m,) whether each answer is right.
    if not len(shares):
        return ConfidenceMap(np.zeros(1), np.full(1, 0.5))
    order = np.argsort(shares, kind="stable")
    groups = np.array_split(order, min(MOST_GROUPS, max(1, len(order) // GROUP)))
    points = np.array([shares[group].mean() for group in groups])
    overall = (right.sum() + 1) / (len(right) + 2)
    confidences = [(right[group].sum() + overall) / (len(group) + 1) for group in groups]
    rising = never_falling(np.array(confidences))
    distinct, first = np.unique(points, return_index=True)  # groups of one and the same share
    joined = np.add.reduceat(rising, first) / np.diff([*first, len(rising)])
    return ConfidenceMap(distinct, joined)


def never_falling(values: Floats) -> Floats:
    """The nearest values, in squares, that never fall (pool adjacent violators)."""
    # values: (d,) any numbers.
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        total, size = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / size:
            before, width = pools.pop()
            total, size = total + before, size + width
        pools.append((total, size))
    means = np.array([total / size for total, size in pools], np.float64)
    return np.repeat(means, [size for _, size in pools])


@dataclass(frozen=True)
class PathConfidence:
    """Confidences of the categories of a path, level by level."""

    # The confidence of the most general category comes from its share. That of every other one is the confidence of the
    # category above it, times how likely this category is where the one above is right; that comes from the ratio of
    # their shares. So no category has more confidence than the one above it.

    levels: tuple[ConfidenceMap, ...]  # the map of level 1, of level 2, …; deeper levels have the last

    def __call__(self, shares: Floats) -> Floats:
        """(d,) confidences of the shares of a path, the most general category first."""
        last = len(self.levels) - 1
        each = [self.levels[min(level, last)](ratio) for level, ratio in enumerate(ratios(shares))]
        return np.asarray(np.cumprod(np.array(each, np.float64)))


def ratios(shares: Floats) -> Floats:
    """(d,) the share of each category of a path, divided by that of the category above it."""
    return np.asarray(np.minimum(shares / np.maximum(np.concatenate([[1.0], shares[:-1]]), 1e-12), 1))


def fit_path_confidence(shares: Sequence[Floats], right: Sequence[NDArray[np.bool_]]) -> PathConfidence:
    """Fit the map of each level to the paths on which the category above is right."""
    # A level with fewer than 100 such paths shares its map with the levels below it, and with the one above where these
    # are fewer together.
    deepest = max(map(len, shares), default=1)
    inputs: list[list[float]] = [[] for _ in range(deepest)]
    outcomes: list[list[bool]] = [[] for _ in range(deepest)]
    for path, is_right in zip(shares, right, strict=True):
        for level, (ratio, hit) in enumerate(zip(ratios(path), is_right, strict=True)):
            inputs[level].append(float(ratio))
            outcomes[level].append(bool(hit))
            if not hit:
                break
    own = max(1, sum(len(level) >= FEWEST_OF_LEVEL for level in inputs))
    ends = [*range(1, own), deepest]
    maps = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        part = [ratio for level in inputs[start:end] for ratio in level]
        outcome = [hit for level in outcomes[start:end] for hit in level]
        maps.append(fit_confidence(np.array(part), np.array(outcome, np.bool_)))
    return PathConfidence(tuple(maps))
