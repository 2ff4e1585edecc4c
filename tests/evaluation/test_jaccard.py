"""Jaccard similarity of perturbations, by hand and against sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.stress.effect import GROUPS, jaccard


def test_by_hand() -> None:
    """Five captions.    a: − − + 0 0    b: − 0 + + 0    c: − − − 0 0

    decreased: a {0, 1}, b {0}, c {0, 1, 2}: ab 1/2, ac 2/3, bc 1/3; mean 1/2
    increased: a {2}, b {2, 3}, c {}: ab 1/2, ac 0, bc 0; mean 1/6
    unchanged: a {3, 4}, b {1, 4}, c {3, 4}: ab 1/3, ac 1, bc 1/3; mean 5/9
    """
    changes = {
        "a": np.array([-100.0, -200.0, 100.0, 0.0, 0.0]),
        "b": np.array([-300.0, 0.0, 100.0, 200.0, 1e-12]),
        "c": np.array([-100.0, -100.0, -100.0, -1e-13, 0.0]),
    }
    found = jaccard(changes)
    assert found.names == ("a", "b", "c") and found.queries == 5
    assert [found.mean(group) for group in GROUPS] == pytest.approx([1 / 2, 1 / 6, 5 / 9])
    assert found.range("decreased") == pytest.approx((1 / 3, 2 / 3))
    assert found.counts["unchanged"].tolist() == [2, 2, 2]
    # Two of five and one of five at random: 2/25 over 2/5 + 1/5 − 2/25 = 2/13; 6/25 over 19/25; 3/25 over 17/25.
    assert found.by_chance("decreased") == pytest.approx((2 / 13 + 6 / 19 + 3 / 17) / 3)


def test_two_empty_sets_are_no_pair() -> None:
    found = jaccard({"a": np.zeros(3), "b": np.zeros(3), "c": np.array([-1.0, 0, 0])})
    assert found.mean("decreased") == 0.0  # ac and bc: nothing shared with {0}; ab has no sets at all
    assert np.isnan(found.mean("increased")) and np.isnan(found.range("increased")[0])


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 2**32))
def test_against_sets(perturbations: int, queries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes = {str(one): rng.integers(-1, 2, queries).astype(float) for one in range(perturbations)}
    found = jaccard(changes)
    for group, sign in zip(GROUPS, (-1, 1, 0), strict=True):
        sets = [set(np.flatnonzero(one == sign)) for one in changes.values()]
        pairs = [len(a & b) / len(a | b) for a, b in combinations(sets, 2) if a | b]
        assert found.mean(group) == pytest.approx(np.mean(pairs) if pairs else float("nan"), nan_ok=True)


def test_faults() -> None:
    with refused(ConfigurationError, code="similarity-sets-needs-two"):
        jaccard({"a": np.zeros(3)})
    with refused(ConfigurationError, code="perturbations-over-different-queries", hint=False):
        jaccard({"a": np.zeros(3), "b": np.zeros(4)})
