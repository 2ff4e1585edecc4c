"""Places: how often all of them are right at once, and what differs for certain."""

from __future__ import annotations

import numpy as np
import pytest

from visir import stats


def _wrong(systems: int, sizes: list[int], tables: int) -> float:
    """The share of tables of systems that are equal in truth, in which some system has not all places."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    wrong = 0
    for seed in range(tables):
        drawn = np.random.default_rng(seed).standard_normal((systems, len(sizes)))[:, clusters]
        wrong += bool(stats.places(drawn, clusters, samples=500, seed=seed).differs.any())
    return wrong / tables


@pytest.mark.parametrize(
    ("systems", "sizes"),
    [(2, [1] * 10), (10, [1] * 10), (30, [1] * 10), (30, [1] * 15), (10, [1] * 30), (10, [1] * 20 + [50] * 3)],
)
def test_all_places_are_right_at_once_as_often_as_promised(systems: int, sizes: list[int]) -> None:
    assert _wrong(systems, sizes, 300) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_what_differs_by_the_same_everywhere_differs_for_certain() -> None:
    found = stats.places([[1] * 20, [0] * 20, [0.5] * 20, [0.5] * 20])
    assert (found.best.tolist(), found.worst.tolist()) == ([1, 4, 2, 2], [1, 4, 3, 3])
