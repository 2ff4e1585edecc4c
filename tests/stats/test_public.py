"""What people call in `visir.stats`: by hand, beside textbooks, and at the ends of a measure's range."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

import visir
from refusals import refused
from visir import stats
from visir.errors import VisirError
from visir.evaluation.by_label import value_difference
from visir.evaluation.folds import clusters_of
from visir.evaluation.granularity import Granularity, means
from visir.evaluation.measures import bounds_of, measure_estimate
from visir.stats.means import mean_interval, wilson

Z = 1.959963984540054


def test_an_estimate_says_what_it_is() -> None:
    share = stats.estimate([1, 1, 0, 1], ["a", "a", "b", "c"])
    assert (share.value, share.units, share.level, share.method) == (0.75, 3, 0.95, "Wilson")
    mean = stats.estimate([0.5, 1.0, 0.25], level=0.9)
    assert (mean.value, mean.units, mean.level, mean.method) == (pytest.approx(7 / 12), 3, 0.9, "Student's t")
    assert mean.ends == pytest.approx(scipy.stats.t.interval(0.9, 2, 7 / 12, scipy.stats.sem([0.5, 1.0, 0.25])))
    median = stats.estimate([1, 1, 2, 3, 5, 8, 13, 21, 34, inf], kind="median")
    assert (median.value, median.ends, median.units) == (6.5, (1.0, 34.0), 10)
    assert stats.estimate([0, 1, 1, 1], kind="mean").ends == mean_interval([0, 1, 1, 1])
    assert stats.estimate([0, 1, 1, 1]).ends == stats.estimate([0, 1, 1, 1], kind="share").ends == wilson(0.75, 4, Z)


def test_a_share_of_counts_is_that_of_its_cases() -> None:
    hits = [1] * 18 + [0] * 2
    assert (
        stats.of_counts(18, 20) == stats.estimate(hits) == stats.Estimate(0.9, *wilson(0.9, 20, Z), 0.95, 20, "Wilson")
    )
    assert stats.of_counts(18, 20, level=0.5).ends == stats.estimate(hits, level=0.5).ends


def test_classes_are_fixed_and_their_pictures_random() -> None:
    """Two of two and one of four: mean 3/4. Half a picture added: 2.5/3 and 1.5/5, each with variance p(1 − p)/n/4."""
    found = stats.estimate([1, 1, 1, 0, 0, 0], strata=["a", "a", "b", "b", "b", "b"])
    parts = np.array([5 / 6 * 1 / 6 / 2, 0.3 * 0.7 / 4]) / 4
    middle = (5 / 6 + 0.3) / 2
    freedom = parts.sum() ** 2 / (parts**2 / [2, 4]).sum()
    worth = min(middle * (1 - middle) / parts.sum(), 6)
    assert found.value == pytest.approx((1 + 1 / 4) / 2)
    assert found.ends == pytest.approx(wilson(found.value, worth, scipy.stats.t.ppf(0.975, freedom)))
    assert found.units == 6


def test_the_mean_over_folds_by_hand() -> None:
    """Folds 0.7, 0.8, 0.9: variance 0.01, times 1/3 + 1/4."""
    found = stats.estimate([0.7, 0.8, 0.9], kind="folds", ratio=0.25)
    half = scipy.stats.t.ppf(0.975, 2) * np.sqrt(0.01 * (1 / 3 + 0.25))
    assert found.ends == pytest.approx((0.8 - half, 0.8 + half))
    assert stats.estimate([0.7, 0.8, 0.9], kind="folds", ratio=0.25, bounds=(0, 1)).high == 1.0
    assert np.isnan(stats.estimate([0.7], kind="folds").ends).all()


@pytest.mark.parametrize("values", [[0.9, 0.1], [1.0, 0.5, 0.2], [0.0, 0.0, 0.5]])
def test_intervals_of_two_and_three_queries_end_where_the_measure_does(values: list[float]) -> None:
    low, high = stats.estimate(values).ends
    assert low < 0 or high > 1
    assert stats.estimate(values, bounds=(0, 1)).ends == (max(low, 0), min(high, 1))
    low, high = stats.difference(values, values[::-1]).ends
    cut = stats.difference(values, values[::-1], bounds=(0, 1))
    assert (low < -1 or high > 1) and cut.ends == (max(low, -1), min(high, 1))
    assert all(isinstance(end, float) for end in cut.ends)


def test_what_measures_print_stays_within_their_range() -> None:
    assert (bounds_of("ndcg@10"), bounds_of("hit@1"), bounds_of("mean_rank")) == ((0, 1), (0, 1), (1, inf))
    assert bounds_of("rsum") == (0, 300)
    assert bounds_of("no measure") == (-inf, inf)
    assert measure_estimate("mrr", [0.1, 1.0]).low >= 0 and measure_estimate("mrr", [0.1, 1.0]).high <= 1
    one, other = (
        {"q1": {"a": 3.0, "b": 2.0}, "q2": {"b": 3.0, "a": 2.0}},
        {"q1": {"b": 3.0, "a": 2.0}, "q2": {"a": 1.0}},
    )
    compared = visir.compare(
        {"one": one, "other": other}, qrels={"q1": {"a": 1}, "q2": {"a": 1}}, measures=["RR", "R@1"]
    )
    for entry in compared.differences:
        assert isnan(entry.low) or -1 <= entry.low <= entry.difference <= entry.high <= 1
    sides = (np.array([0.85, 1.0, 0.65, 0.71]), np.arange(4), np.array([0.01, 0.4, 0.0]), np.arange(4, 7))
    assert value_difference(*sides)[5] > 1.2 and value_difference(*sides, bounds=(0, 1))[5] == 1


def test_the_plot_of_measures_has_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    from visir.reports import plots

    drawn: list[plots.PlotMark] = []
    monkeypatch.setattr(plots, "dots", lambda marks, *_, **__: drawn.extend(marks))
    evaluation = visir.evaluate("scenes:30?size=64", "colours")
    plots.measure_dots(evaluation.result, ["hit@1"])
    owners = clusters_of(evaluation.result, "t2i")
    expected = stats.estimate(evaluation.result.values("t2i", "hit@1"), owners)
    marks = [mark for mark in drawn if mark.values[0] == 100 * expected.value]
    assert any(mark.values == [100 * end for end in (expected.value, expected.low, expected.high)] for mark in marks)


def test_a_mean_of_normalised_accuracies_is_at_most_1() -> None:
    """Of five images two facts are named but once: Student's t would end above 1."""
    from visir.evaluation.probes import Examples, ProbeReading, _means

    fact, images = SimpleNamespace(role="shared"), np.arange(5)
    hits = np.array([True, True, True, True, False])
    example = Examples(fact, "image", images, images, images)  # type: ignore[arg-type]
    reading = ProbeReading(0.8, 0.3, 0.95, 0.5, 5)
    (mean,) = _means([example], [reading], [hits], [f"g{image}" for image in images])
    assert (mean.mean, mean.high) == (pytest.approx(0.6), 1.0)


def test_scores_of_a_profile_and_their_differences_stay_shares() -> None:
    from visir.studies.profile.profile import _score
    from visir.studies.profile.result import Measured, Skill

    def measured(*values: float) -> Measured:
        return Measured(np.array(values), None, 0.5, "2", ())

    task = SimpleNamespace(source="mine")
    row = _score(task, Skill("a", "A", "retrieval"), measured(1, 1, 0.5), measured(0, 0.1, 0), None, "k")  # type: ignore[arg-type]
    assert row.difference is not None and (row.high, row.difference.high) == (1, 1)
    assert row.low == pytest.approx(stats.estimate([1, 1, 0.5]).low)


def test_the_mean_of_a_count_of_words_is_not_negative() -> None:
    counted = visir.granularity("scenes:3?size=64")
    for profile in counted if isinstance(counted, tuple) else (counted,):
        for part in vars(profile).values():
            if isinstance(part, Granularity):
                assert all(isnan(mean.low) or mean.low >= 0 for mean in means(part))


def test_one_number_stands_for_all_of_the_second_side() -> None:
    gaps = np.random.default_rng(0).normal(0.3, 1, 40)
    assert stats.difference(gaps, 0) == stats.difference(gaps, np.zeros(40))
    assert stats.difference(gaps, 0).p == pytest.approx(scipy.stats.ttest_1samp(gaps, 0).pvalue)
    assert stats.difference(gaps, 0).units == 40


def test_the_names_of_clusters_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    first, second, owners = rng.random(60), rng.random(60), rng.integers(0, 15, 60)
    for test in ("t", "randomisation", "wilcoxon"):
        by_name = stats.difference(first, second, [f"image {owner:02d}" for owner in owners], test=test)
        assert by_name == stats.difference(first, second, owners, test=test)
        assert by_name.units == len(np.unique(owners)) and "images" in by_name.method


def test_sides_of_different_queries_are_no_pairs() -> None:
    with refused(VisirError, code="values-of-two-systems"):
        stats.difference([1.0, 2.0, 3.0], [1.0, 2.0])
    apart = stats.difference([1.0, 2.0, 3.0, 2.5], [8.0, 9.0, 7.0], paired=False)
    assert apart.value == pytest.approx(2.125 - 8) and apart.units == 7 and apart.p < 0.05 and apart.high < 0
    clustered = stats.difference([1.0, 2.0, 3.0, 2.5], [8.0, 9.0], (list("aabb"), list("cd")), paired=False)
    assert clustered.units == 4
    alone = stats.difference([1.0, 2.0], [3.0], paired=False)
    assert isnan(alone.p) and alone.reason


def test_what_is_asked_must_be_there() -> None:
    with refused(VisirError, meant="median", code="unknown-kind"):
        stats.estimate([1.0, 2.0], kind="medain")  # type: ignore[arg-type]
    with refused(VisirError, meant="wilcoxon", code="unknown-test"):
        stats.difference([1.0, 2.0], 0, test="wilcoxn")  # type: ignore[arg-type]
    for level in (0, 1, 95):
        with refused(VisirError):
            stats.estimate([1.0, 2.0], level=level)
        with refused(VisirError):
            stats.difference([1.0, 2.0], 0, level=level)


def test_a_statistic_of_sums_is_that_of_its_draws() -> None:
    rng = np.random.default_rng(2)
    columns, owners = rng.random((60, 2)) + 0.5, np.repeat(np.arange(20), 3)
    found = stats.resample(lambda sums: sums[:, 0] / sums[:, 1], columns, owners, seed=4)
    drawn = stats.resampled_sums(columns, owners, seed=4)
    value = columns[:, 0].sum() / columns[:, 1].sum()
    assert found == stats.estimate_of_draws(found.value, drawn[:, 0] / drawn[:, 1], 20)
    assert found.value == pytest.approx(value) and found.low < value < found.high and found.units == 20


def test_draws_with_tails_of_their_own_have_their_central_part() -> None:
    draws = np.arange(1001.0)
    assert stats.estimate_of_draws(0, draws).ends == (25.0, 975.0)
    assert stats.estimate_of_draws(0, draws, level=0.5).ends == (250.0, 750.0)


def test_a_percentile_turned_around_asks_what_its_share_is_worth() -> None:
    sums = stats.Moments(y=40, yy=80, yn=80, n=100, nn=220, units=50)
    assert stats.of_moments(sums, at=0.5).ends == wilson(0.5, sums.effective, sums.quantile())
    assert stats.of_moments(sums).ends == wilson(0.4, sums.effective, sums.quantile())
    wide, narrow = (stats.of_moments(sums, level=level) for level in (0.99, 0.5))
    assert wide.low < narrow.low < 0.4 < narrow.high < wide.high
    assert np.isnan(stats.of_moments(stats.Moments(0, 0, 0, 0, 0, 0)).ends).all()


def test_too_few_cases_leave_a_difference_open() -> None:
    few, many = stats.Moments(1, 1, 1, 20, 20, 20), stats.Moments(50, 50, 50, 100, 100, 100)
    found = stats.difference_of_moments(few, stats.Moments(2, 2, 2, 20, 20, 20))
    assert isnan(found.p) and np.isnan(found.ends).all() and found.reason == "too few cases"
    assert found.value == pytest.approx(-0.05)
    assert isnan(stats.difference_of_moments(stats.Moments(0, 0, 0, 0, 0, 0), many).value)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_p_of_two_groups_is_where_the_interval_begins_to_hold_0(level: float) -> None:
    first, second = (stats.Moments(y, y, y, 200, 200, 200) for y in (90, 72))
    found = stats.difference_of_moments(first, second, level=level)
    assert (found.p < 1 - level) == (found.low > 0 or found.high < 0)


def test_what_chance_gives_is_binomial() -> None:
    low, high = stats.counts_by_chance(300, 1 / 60, 1 / 60)
    assert (low, high) == tuple(scipy.stats.binom.ppf([1e-4, 1 - 1e-4], 300, 1 / 60))
    assert stats.counts_by_chance(300, 0.1, 0.2)[1] == scipy.stats.binom.ppf(1 - 1e-4, 300, 0.2)


def test_a_family_is_what_was_tested() -> None:
    assert stats.adjust([0.01, nan, 0.04]) == pytest.approx([0.02, nan, 0.04], nan_ok=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.estimate([1.0, nan, 2.0], kind="median"),
        lambda: stats.estimate([1.0, nan, 2.0], kind="folds", ratio=0.25),
        lambda: stats.estimate([[1.0, nan], [2.0, 3.0]]),
        lambda: stats.estimate([], kind="median"),
        lambda: stats.estimate([], kind="folds"),
        lambda: stats.estimate(3.0),
        lambda: stats.estimate([1e308, 1e308, -1e308]),
        lambda: stats.estimate(np.ma.array([1.0, 2.0, 900.0], mask=[False, False, True])),
        lambda: stats.estimate(np.array(["2020-01-01", "2021-01-01"], "M8[D]")),
        lambda: stats.estimate(np.array([1 + 2j, 2])),
        lambda: stats.estimate(["a", "b"]),
        lambda: stats.estimate([0.5, 2.0], kind="share"),
        lambda: stats.estimate([5.0, 6.0, 7.0], bounds=(0, 1)),
        lambda: stats.estimate([0.5, 0.6], bounds=(1, 0)),
        lambda: stats.estimate([0.5, 0.6], level=nan),
        lambda: stats.estimate([0.5, 0.6], level="0.95"),  # type: ignore[arg-type]
        lambda: stats.estimate([0.5, 0.7], kind="folds", ratio=-1),
        lambda: stats.estimate([1, 0, 1, 1], ["a", "a", "b", "b"], strata=[1, 1, 2, 2]),
        lambda: stats.estimate([1, 0, 1, 1], strata=[1, 2]),
        lambda: stats.estimate([0.5, 0.2, 1], strata=[1, 2, 2]),
        lambda: stats.estimate([1.0, 2, 3, 5], ["a", "a", "b", "b"], kind="folds"),
        lambda: stats.estimate([[1.0, 2], [3, 5]], ["a", "b"]),
        lambda: stats.difference([1, 0, 1, 1], [0, 1, 1, 0], ["a", "a", "b", "b"], test="inverted"),
        lambda: stats.difference([1.0, 2], [0, 1], ["a", "a"], test="folds"),
        lambda: stats.difference([1.0, nan], [0, 1], test="folds"),
        lambda: stats.difference([], [], test="inverted"),
        lambda: stats.difference([1.0, 2, 3], [0, 1, 2], paired=False, test="wilcoxon"),
        lambda: stats.difference([1.0, 2, 3], [0, 1, 2], ["a", "b", "c"], paired=False),
        lambda: stats.difference(3.0, 4.0),
        lambda: stats.adjust([0.5, 1.5]),
        lambda: stats.adjust(0.5),
        lambda: stats.of_counts(5, 3),
        lambda: stats.of_counts(-1, 3),
        lambda: stats.of_counts(0, 0),
        lambda: stats.of_moments(stats.Moments(9, 9, 9, 5, 5, 5)),
        lambda: stats.of_moments(stats.Moments(2, 2, 2, 5, 5, 5), level=1.5),
        lambda: stats.sample_ratio([[10, 10], [5, 12]], [0.5, 0.5]),
        lambda: stats.sample_ratio([[10, 10]], [0.5, 0.9]),
        lambda: stats.sample_ratio([10, 10], [0.5, 0.5]),
        lambda: stats.sample_ratio([[-1, 10]], [0.5, 0.5]),
        lambda: stats.resample(lambda sums: sums, np.ones((3, 2))),
        lambda: stats.resample(lambda sums: sums[:, 0], np.array([[1.0], [nan]])),
        lambda: stats.resample(lambda sums: sums[:, 0], np.ones((3, 1)), ["a", "b"]),
    ],
)
def test_what_has_no_right_number_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(VisirError):
        call()


@pytest.mark.parametrize("clusters", [["a", None], ["a", nan], [nan, 1.0], [[1], [2]], "ab", 5, np.array([nan, nan])])
def test_a_value_without_a_unit_is_refused(clusters: Any) -> None:
    with pytest.raises(VisirError):
        stats.estimate([1.0, 2.0], clusters)


def test_units_of_several_types_are_told_apart() -> None:
    assert stats.estimate([1.0, 2.0, 4.0, 5.0], [1, "1", "b", "b"]).units == 3
    assert stats.estimate([1.0, 2.0, 4.0], np.array([1, "b", 1], object)).units == 2


def test_one_fold_is_not_tested() -> None:
    found = stats.difference([0.5], [0.25], test="folds", ratio=0.25)
    assert isnan(found.p) and found.reason == "there is only one fold"


def test_systems_that_differ_alike_in_every_unit_have_places_of_their_own() -> None:
    right, wrong = np.ones(20), np.zeros(20)
    placed = stats.places([wrong, right, right])
    assert placed.best.tolist() == [3, 1, 1] and placed.worst.tolist() == [3, 2, 2]
