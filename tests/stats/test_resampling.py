"""The bootstrap over clusters: by a slow oracle, and beside the interval of Student's t."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from refusals import refused
from visir.errors import VisirError
from visir.stats import estimate_of_draws, resampled_sums, resampling
from visir.stats.means import mean_interval


def interval(drawn: np.ndarray, units: int) -> tuple[float, float]:
    return estimate_of_draws(0.0, drawn, units).ends


def test_against_drawing_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same generator, cluster after cluster; and in blocks of one sample."""
    rng = np.random.default_rng(3)
    columns, clusters = rng.normal(size=(7, 2)), np.array(list("aabbbcd"))
    groups = [columns[clusters == one].sum(axis=0) for one in "abcd"]
    generator = np.random.default_rng(5)
    slow = np.array([np.sum([groups[at] for at in generator.integers(0, 4, 4)], axis=0) for _ in range(50)])
    assert np.allclose(resampled_sums(columns, clusters, samples=50, seed=5), slow)
    monkeypatch.setattr(resampling, "_ENTRIES", 4)
    assert np.allclose(resampled_sums(columns, clusters, samples=50, seed=5), slow)


def test_agrees_with_the_interval_of_a_mean() -> None:
    rng = np.random.default_rng(0)
    gaps, clusters = rng.normal(1, 3, 400), np.repeat(np.arange(80), 5)
    sums = resampled_sums(np.stack([gaps, np.ones(400)], axis=1), clusters, samples=4_000)
    assert interval(sums[:, 0] / sums[:, 1], 80) == pytest.approx(mean_interval(gaps, clusters), abs=0.03)


@pytest.mark.parametrize("units", [8, 30])
def test_expanded_as_far_as_students_t(units: int) -> None:
    """A mean of n normal units: the expanded interval is about Student's, the plain percentile one is narrower."""
    values = np.random.default_rng(1).normal(size=units)
    values = (values - values.mean()) / values.std(ddof=1)
    drawn = resampled_sums(values[:, None], samples=20_000)[:, 0] / units
    low, high = interval(drawn, units)
    theirs = scipy.stats.t.ppf(0.975, units - 1) / np.sqrt(units)
    assert (high - low) / 2 == pytest.approx(theirs, rel=0.06)
    plain = np.quantile(drawn, [0.025, 0.975])
    assert np.ptp(plain) < (0.85 if units == 8 else 0.97) * (high - low)


def test_a_ratio_has_no_interval_where_it_has_no_value() -> None:
    assert np.isnan(interval(np.array([1.0, np.inf]), 20)).all()
    assert np.isnan(interval(np.array([1.0, 2.0]), 1)).all()
    few = np.r_[np.linspace(0, 1, 99), np.nan]  # one draw of a hundred without a value is left out
    assert interval(few, 10**6) == pytest.approx((0.025, 0.975), abs=1e-3)
    with refused(VisirError, code="bootstrap-needs-least-one"):
        resampled_sums(np.empty((0, 2)))
