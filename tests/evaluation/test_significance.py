"""Paired tests against scipy, against enumeration, and on degenerate input."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.errors import VisirError
from visir.evaluation.significance import bootstrap_interval, corrected, paired_t, paired_test, randomisation

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("n", [2, 3, 30, 1000])
def test_t_equals_scipy(n: int) -> None:
    a, b = RNG.normal(size=n), RNG.normal(size=n)
    theirs = scipy.stats.ttest_rel(a, b)
    ours = paired_t(a - b)
    assert ours.p == pytest.approx(theirs.pvalue, abs=1e-12)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9)


def test_t_of_equal_clusters_is_the_t_test_of_cluster_means() -> None:
    differences, images = RNG.normal(size=500), np.repeat(np.arange(100).astype(str), 5)
    theirs = scipy.stats.ttest_1samp(differences.reshape(100, 5).mean(axis=1), 0)
    ours = paired_t(differences, images)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert "100 images" in ours.how


def test_clusters_of_one_change_nothing() -> None:
    differences, own = RNG.normal(size=40), np.arange(40)
    assert paired_t(differences, own).p == pytest.approx(paired_t(differences).p, rel=1e-12)
    assert randomisation(differences, own, seed=5).p == randomisation(differences, seed=5).p


def test_five_copies_of_each_image_are_no_new_evidence() -> None:
    """The same 60 differences, each counted five times: without clusters p shrinks, with clusters it stays."""
    once = RNG.normal(0.2, 1, size=60)
    fivefold, images = np.repeat(once, 5), np.repeat(np.arange(60), 5)
    honest = paired_t(once).p
    assert paired_t(fivefold).p < honest / 5
    assert paired_t(fivefold, images).p == pytest.approx(honest, rel=1e-9)
    low, high = bootstrap_interval(fivefold)
    clustered_low, clustered_high = bootstrap_interval(fivefold, images)
    assert clustered_high - clustered_low > 1.8 * (high - low)  # √5 ≈ 2.24, up to sampling


def test_randomisation_is_exact_when_few_queries_differ() -> None:
    """Differences 1, 1, 1, -1 (and zeros): |sum| = 2; of 16 sign patterns those with |sum| >= 2 are 4+4+1+1 = 10."""
    outcome = randomisation([1, 0, 1, 1, -1, 0, 0])
    assert outcome.p == pytest.approx(10 / 16)
    assert outcome.statistic == pytest.approx(2 / 7)
    assert outcome.how.endswith("exact")


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_randomisation_equals_enumeration(values: list[int]) -> None:
    observed = abs(sum(values))
    patterns = list(itertools.product((-1, 1), repeat=len(values)))
    slow = np.mean([abs(sum(s * v for s, v in zip(signs, values, strict=True))) >= observed for signs in patterns])
    assert randomisation(values).p == pytest.approx(slow)


@pytest.mark.parametrize("kind", ["hits", "reals"])
def test_sampled_randomisation_agrees_with_scipy(kind: str) -> None:
    """Both sampled paths (few distinct values: binomial counts; many: random bits) against scipy's sign flips."""
    differences = RNG.integers(-1, 2, 300).astype(float) if kind == "hits" else RNG.normal(0.08, 1, 700)
    theirs = scipy.stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
        batch=2000,
    )
    assert randomisation(differences, samples=20_000).p == pytest.approx(theirs.pvalue, abs=0.015)


def test_sampled_tests_are_seeded() -> None:
    differences = RNG.normal(0.05, 1, 800)
    assert randomisation(differences, seed=1) == randomisation(differences, seed=1)
    assert randomisation(differences, seed=1).p != randomisation(differences, seed=2).p
    assert bootstrap_interval(differences, seed=1) == bootstrap_interval(differences, seed=1)


@pytest.mark.parametrize("kind", ["hits", "reals"])
def test_bootstrap_interval_agrees_with_scipy(kind: str) -> None:
    differences = RNG.integers(-1, 2, 400).astype(float) if kind == "hits" else RNG.normal(0.1, 1, 900)
    theirs = scipy.stats.bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=5000, rng=np.random.default_rng(1)
    ).confidence_interval
    ours = bootstrap_interval(differences, samples=5000)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_identical_systems() -> None:
    zeros = np.zeros(50)
    assert paired_t(zeros).p == randomisation(zeros).p == 1.0
    assert bootstrap_interval(zeros) == (0.0, 0.0)
    assert paired_t([0.0]).p == 1.0


def test_a_constant_difference() -> None:
    constant = np.full(30, 0.1)
    assert paired_t(constant).p == 0.0
    assert paired_t(constant).statistic == np.inf
    assert paired_t(-constant).statistic == -np.inf
    # the randomisation test keeps its head: 2 of 2^30 patterns; sampled, at least 1 / 10,001
    assert randomisation(constant).p == pytest.approx(1 / 10_001)


def test_corrections_by_hand() -> None:
    """p = .01, .04, .03 (m = 3). Bonferroni: ×3. Holm: .01×3 = .03; .03×2 = .06; .04×1 = .04, lifted to .06."""
    p = [0.01, 0.04, 0.03]
    assert corrected(p, "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert corrected(p, "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert corrected(p, "none") == pytest.approx(p)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_lies_between_raw_and_bonferroni(p: list[float]) -> None:
    raw, holm, bonferroni = np.array(p), corrected(p, "holm"), corrected(p, "bonferroni")
    assert (raw <= holm + 1e-15).all()
    assert (holm <= bonferroni + 1e-15).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(holm[order]) >= 0).all()


def test_faults_are_named() -> None:
    with pytest.raises(VisirError, match="at least one query"):
        paired_t([])
    with pytest.raises(VisirError, match="1 of 3 differences are not finite numbers \\(the first at position 1\\)"):
        randomisation([0.0, np.nan, 1.0])
    with pytest.raises(VisirError, match="at least two queries"):
        paired_t([0.5])
    with pytest.raises(VisirError, match="2 clusters for 3 differences"):
        paired_t([1, 2, 3], ["a", "b"])
    with pytest.raises(VisirError, match="did you mean 'holm'"):
        corrected([0.1], "hol")  # type: ignore[arg-type]
    with pytest.raises(VisirError, match="unknown test 'u'"):
        paired_test("u", [1.0, 2.0])


def test_twenty_five_thousand_queries_take_no_time() -> None:
    hits = RNG.integers(-1, 2, 25_000).astype(float)
    start = time.perf_counter()
    randomisation(hits)
    bootstrap_interval(hits)
    assert time.perf_counter() - start < 2
