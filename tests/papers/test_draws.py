"""Draws: the bootstrap over units, and few units with the tails of Student's t, against textbook intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from visir.stats import estimate
from visir_papers.cells import TableCell
from visir_papers.draws import difference_interval, few_units, unit_means, unit_sums
from visir_papers.experiment import Measurement
from visir_papers.verdicts import mean_draws


def ends(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def test_units_are_drawn_with_all_their_rows_and_the_same_units_alike() -> None:
    rng = np.random.default_rng(0)
    images = [f"i{number:03d}" for number in range(300)]
    effect = rng.normal(size=300)
    captions, values = np.repeat(images, 5), np.repeat(effect, 5) + 0.1 * rng.normal(size=1500)
    means = unit_means(captions.tolist(), {"a": values, "b": values + 0.5})
    low, high = ends(means["a"])
    by_image = values.reshape(300, 5).mean(axis=1)
    half = 1.96 * by_image.std(ddof=1) / 300**0.5  # √5 times that of 1,500 independent captions
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    np.testing.assert_allclose(means["b"] - means["a"], 0.5)
    shuffled = rng.permutation(1500)
    again = unit_means(captions[shuffled].tolist(), {"a": values[shuffled]})
    np.testing.assert_allclose(again["a"], means["a"])
    others = unit_means([f"j{name}" for name in captions], {"a": values})
    assert abs(np.corrcoef(others["a"], means["a"])[0, 1]) < 0.2, "other images have other draws"


def test_values_that_are_not_defined_do_not_count() -> None:
    values = np.array([1.0, np.nan, 3.0, 3.0])
    means = unit_means(["a", "b", "c", "d"], {"x": values})
    assert means == {}, "a draw of b alone has no mean"
    many = unit_means([str(number) for number in range(400)], {"x": np.tile(values, 100)})
    assert many["x"].mean() == pytest.approx(7 / 3, abs=0.05)
    assert np.isnan(unit_sums(["a", "a"], np.ones((2, 1)))).all(), "a single unit has no interval"


@pytest.mark.parametrize("count", [3, 5, 10])
def test_a_difference_over_few_units_has_the_interval_of_a_paired_t_test(count: int) -> None:
    rng = np.random.default_rng(count)
    first, second = rng.normal(size=(2, count))
    values = np.stack([first, second], axis=1)
    deviations = few_units(values, 1 / count, "seeds")
    low, high = ends(deviations[:, 0] - deviations[:, 1])
    gaps = first - second
    half = student.ppf(0.975, count - 1) * gaps.std(ddof=1) / count**0.5
    assert -low == pytest.approx(half, rel=0.1)
    assert high == pytest.approx(half, rel=0.1)
    # Folds: the corrected resampled t-test.
    ratio = 0.25
    low, high = ends(few_units(gaps[:, None], 1 / count + ratio, "folds")[:, 0])
    assert (high - low) / 2 == pytest.approx(estimate(gaps, kind="folds", ratio=ratio).high - gaps.mean(), rel=0.1)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(1).normal(size=20)
    left_out = np.array([np.delete(values, place).mean() for place in range(20)])
    low, high = ends(few_units(left_out[:, None], 19**2 / 20, "visitors")[:, 0])
    half = student.ppf(0.975, 19) * values.std(ddof=1) / 20**0.5
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)


def test_queries_and_seeds_together_are_the_crossed_interval() -> None:
    """Three seeds, 500 images, a system that is 1 better: draws of cells, put together, against minF′."""
    rng = np.random.default_rng(2)
    images = [str(number) for number in range(500)]
    base = rng.normal(size=500)
    hits = {
        name: base + shift + rng.normal(size=(3, 1), scale=0.1) + rng.normal(size=(3, 500), scale=1.5)
        for name, shift in (("A", 1.0), ("B", 0.0))
    }
    draws = {
        name: mean_draws(
            [
                TableCell(name, "", seed, {}, "done", measured=Measurement(
                    {"x": float(values[seed].mean())}, {}, draws=unit_means(images, {"x": values[seed]})))
                for seed in range(3)
            ],
            "x",
        )
        for name, values in hits.items()
    }  # fmt: skip
    found = difference_interval(draws["A"], draws["B"])
    low, high = estimate(hits["A"] - hits["B"]).ends
    assert found is not None
    assert found[0] == pytest.approx(low, abs=0.12)
    assert found[1] == pytest.approx(high, abs=0.12)
