"""Paired tests against scipy, against enumeration, and on degenerate input."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import VisirError
from visir.evaluation.measures import measure_estimate
from visir.stats import TestedDifference, adjust, difference
from visir.stats.differences import difference_interval, paired_t, randomisation, wilcoxon
from visir.stats.means import mean_and_error, mean_interval

RNG = np.random.default_rng(3)


def paired_test(name: str, differences: object, clusters: object = None) -> TestedDifference:
    return difference(differences, 0, clusters, test=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [10, 30, 1000])
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
    low, high = mean_interval(fivefold)
    clustered_low, clustered_high = mean_interval(fivefold, images)
    assert clustered_high - clustered_low > 2.2 * (high - low)  # √5 ≈ 2.24


def test_randomisation_is_exact_when_few_queries_differ() -> None:
    """Differences 1, 1, 1, -1 (and zeros): |sum| = 2; of 16 sign patterns those with |sum| >= 2 are 4+4+1+1 = 10."""
    outcome = randomisation([1, 0, 1, 1, -1, 0, 0])
    assert outcome.p == pytest.approx(10 / 16)
    assert outcome.statistic == pytest.approx(2 / 7)
    assert outcome.how.endswith("exact")


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=9))
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


def test_identical_systems() -> None:
    zeros = np.zeros(50)
    assert paired_t(zeros).p == randomisation(zeros).p == 1.0
    assert np.isnan(mean_interval(zeros)).all()


@pytest.mark.parametrize("count", [2, 3, 9, 30])
def test_of_a_constant_difference_signs_are_flipped(count: int) -> None:
    """There is no spread to divide by. 2 of the 2^n assignments of signs are as far from 0."""
    constant = np.full(count, 0.1)
    for differences in (constant, -constant):
        assert paired_t(differences).p == randomisation(differences).p == pytest.approx(2 / 2**count)
        assert (
            np.isnan(mean_interval(differences)).all()
            and np.isnan(difference_interval(differences, 0 * differences)).all()
        )
    # images of unequal numbers of captions, all with the same mean
    assert paired_t([0.1, 0.3, 0.2, 0.2, 0.2], ["a", "a", "b", "b", "c"]).p == pytest.approx(2 / 2**3)


@pytest.mark.parametrize("count", range(2, 10))
def test_below_ten_units_signs_are_flipped(count: int) -> None:
    differences = RNG.normal(0.5, 1, size=count)
    outcome = paired_t(differences)
    assert outcome == randomisation(differences)
    assert outcome.how == f"randomisation test over {count} queries, exact"
    assert outcome.p >= 2 / 2**count
    assert (min(outcome.p, *(paired_t(np.full(count, 1.0)).p,)) < 0.05) <= (count > 5)
    assert "t-test" in paired_t(RNG.normal(size=10)).how


def test_the_subsets_of_six_by_hand() -> None:
    """Of 2^6 assignments one may be on each side (1.6 rounded down): the smallest and the largest mean of a subset."""
    assert difference_interval([0.3, -0.1, 0.2, 0.5, 0.4, 0.25], [0.0] * 6) == pytest.approx((-0.1, 0.5))
    images = [0, 0, 1, 2, 3, 4, 5]  # the first image has two captions: mean 0.1
    assert difference_interval([0.3, -0.1, 0.2, 0.5, 0.4, 0.25, 0.35], [0.0] * 7, images) == pytest.approx((0.1, 0.5))


@given(st.lists(st.integers(-20, 20), min_size=6, max_size=9))
@settings(max_examples=100, deadline=None)
def test_the_interval_of_few_units_belongs_to_its_test(values: list[int]) -> None:
    differences = np.array(values) + 0.5
    p, (low, high) = paired_t(differences).p, difference_interval(differences, np.zeros(len(values)))
    if not np.isnan(low):
        assert (low <= 1e-9 and high >= -1e-9) == (p > 0.05)


def test_agresti_and_min_by_hand() -> None:
    """30 pairs, 5 gained and 1 lost: (5.5 − 1.5) / 32 = 1/8, variance (5.5 + 1.5 − 4² / 32) / 32² = 6.5 / 1024."""
    hits, others = [1] * 5 + [0] + [1] * 24, [0] * 5 + [1] + [1] * 24
    half = 1.959964 * np.sqrt(6.5) / 32
    assert difference_interval(hits, others) == pytest.approx((1 / 8 - half, 1 / 8 + half), abs=1e-6)
    assert difference_interval(hits, others, np.arange(30)) == difference_interval(hits, others)
    # two systems that are alike on 50 queries may differ on others: (0.5 + 0.5) / 52²
    assert difference_interval(np.ones(50), np.ones(50))[1] == pytest.approx(1.959964 / 52, abs=1e-6)
    # five copies of each pair are no new evidence: about the same interval, with t of 29 degrees of freedom
    low, high = difference_interval(np.repeat(hits, 5), np.repeat(others, 5), np.repeat(np.arange(30), 5))
    assert high - low == pytest.approx(2 * half, rel=0.1)
    assert difference_interval([1.0], [0.0]) == pytest.approx((np.nan, np.nan), nan_ok=True)


def test_near_a_ceiling_the_interval_holds_the_difference() -> None:
    """98 and 98.5 % of 50 hits, the better right wherever the other is: t has no interval in four of five cases."""
    rng = np.random.default_rng(5)
    covered = {"t": 0, "Agresti and Min": 0}
    for draw in rng.random((400, 50)):
        hits, others = (draw < 0.985) * 1.0, (draw < 0.98) * 1.0
        ends = {"t": mean_interval(hits - others), "Agresti and Min": difference_interval(hits, others)}
        for name, (low, high) in ends.items():
            covered[name] += bool(low <= 0.005 <= high)
    assert covered["t"] < 120
    assert covered["Agresti and Min"] >= 380


@pytest.mark.parametrize("name", ["t", "randomisation"])
def test_a_single_query_or_image_is_not_tested(name: str) -> None:
    for gap in (0.0, 0.5):
        outcome = paired_test(name, [gap])
        assert np.isnan(outcome.p) and outcome.reason == "there is only one query"
        assert np.isnan(mean_interval([gap])).all() and np.isnan(difference_interval([gap], [0.0])).all()
    assert paired_test(name, [0.1, 0.5, 0.2], ["a", "a", "a"]).reason == "there is only one image"


def test_what_is_not_tested_is_no_part_of_the_family() -> None:
    """p = .01, –, .04: a family of two. Bonferroni: ×2. Holm: .01×2 = .02; .04×1 = .04."""
    p = [0.01, float("nan"), 0.04]
    assert adjust(p, "bonferroni") == pytest.approx([0.02, np.nan, 0.08], nan_ok=True)
    assert adjust(p, "holm") == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
    assert np.isnan(adjust([np.nan, np.nan])).all()


def test_unequal_clusters_by_hand() -> None:
    """Images of 1, 1 and 2 captions, sums 1, 0, 4: mean 5/4. Without each: 4/3, 5/3, 1/2.

    Their distances from 5/4 are 1/12, 5/12 and -3/4, in squares 1/144 + 25/144 + 81/144 = 107/144; times 2/3 that is
    the squared error. As many equal images would weigh (1+1+2)² / (1+1+4) = 8/3: 5/3 degrees of freedom.
    """
    differences, images = [1.0, 0.0, 3.0, 1.0], ["a", "b", "c", "c"]
    error = np.sqrt(2 / 3 * 107 / 144)
    assert mean_and_error(np.array([1.0, 0, 4]), np.array([1.0, 1, 2])) == pytest.approx((1.25, error, 5 / 3))
    # sums 1, 0, 4: of the 8 assignments of signs 4 have |sum| >= 5
    assert paired_t(differences, images).p == 4 / 8
    half = scipy.stats.t.ppf(0.975, 5 / 3) * error
    assert mean_interval(differences, images) == pytest.approx((1.25 - half, 1.25 + half))


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1, 1)), min_size=2, max_size=30))
@settings(max_examples=100, deadline=None)
def test_the_interval_holds_zero_exactly_when_the_test_does_not_reject(pairs: list[tuple[int, float]]) -> None:
    images, differences = list(range(10)) + [one for one, _ in pairs], [0.1, -0.2] * 5 + [value for _, value in pairs]
    outcome, (low, high) = paired_t(differences, images), mean_interval(differences, images)
    assert not np.isnan(low)
    if abs(outcome.p - 0.05) > 1e-9:
        assert (low <= 0 <= high) == (outcome.p > 0.05)


@pytest.mark.parametrize("correlation", [0.3, 0.9])
@pytest.mark.parametrize("kind", ["five", "unequal"])
@pytest.mark.parametrize("images", [8, 100])
def test_five_percent_by_image_and_far_more_by_caption(images: int, kind: str, correlation: float) -> None:
    """1,000 pairs of systems that do not differ: how often each test says that they do (see benchmarks)."""
    rng = np.random.default_rng(11)
    by_image, by_caption, covered = 0, 0, 0
    for _ in range(1000):
        sizes = np.full(images, 5) if kind == "five" else rng.choice([1, 2, 5, 20], images, p=[0.5, 0.2, 0.2, 0.1])
        owners = np.repeat(np.arange(images), sizes)
        shared, own = rng.normal(size=images)[owners], rng.normal(size=len(owners))
        differences = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
        by_image += paired_t(differences, owners).p < 0.05
        by_caption += paired_t(differences).p < 0.05
        low, high = difference_interval(differences, np.zeros(len(owners)), owners)
        covered += low <= 0 <= high
    # 1,000 draws of 5 % are within 2.5 and 7.5 % but for one in 3,000; few unequal images are tested more cautiously
    assert (15 if kind == "unequal" else 25) <= by_image <= 75
    assert covered == 1000 - by_image
    assert by_caption >= 130


def test_a_randomisation_test_over_images_promises_what_it_holds() -> None:
    rng = np.random.default_rng(12)
    sizes = rng.choice([1, 2, 5, 20], 40, p=[0.5, 0.2, 0.2, 0.1])
    owners = np.repeat(np.arange(40), sizes)
    found = {"image": 0, "caption": 0}
    for seed in range(500):
        differences = np.sqrt(0.5) * (rng.normal(size=40)[owners] + rng.normal(size=len(owners)))
        found["image"] += randomisation(differences, owners, samples=999, seed=seed).p < 0.05
        found["caption"] += randomisation(differences, samples=999, seed=seed).p < 0.05
    assert 8 <= found["image"] <= 45 and found["caption"] > 150


def test_corrections_by_hand() -> None:
    """p = .01, .04, .03 (m = 3). Bonferroni: ×3. Holm: .01×3 = .03; .03×2 = .06; .04×1 = .04, lifted to .06."""
    p = [0.01, 0.04, 0.03]
    assert adjust(p, "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert adjust(p, "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert adjust(p, "none") == pytest.approx(p)


def test_benjamini_and_hochberg_by_hand() -> None:
    """p = .01, .04, .03 (m = 3): .01·3/1 = .03; .03·3/2 = .045, lowered to the next; .04·3/3 = .04."""
    assert adjust([0.01, 0.04, 0.03], "bh") == pytest.approx([0.03, 0.04, 0.04])
    assert adjust([0.01, np.nan, 0.04], "bh") == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
    assert np.isnan(adjust([np.nan], "bh")).all() and len(adjust([], "bh")) == 0


def test_signed_ranks_by_hand() -> None:
    """3, −1, 4 (and 0): ranks 2, 1, 3; the ranks of one sign sum to 5 and 1. Of 8 assignments 4 are as uneven."""
    assert wilcoxon([3, 0, -1, 4]).p == 4 / 8
    assert wilcoxon([0, 0]).p == 1.0
    assert paired_test("wilcoxon", [1.0]).reason == "there is only one query"
    differences, images = RNG.normal(0.1, 1, size=200), np.repeat(np.arange(50), 4)
    theirs = scipy.stats.wilcoxon(differences.reshape(50, 4).mean(axis=1))
    outcome = paired_test("wilcoxon", differences, images)
    assert outcome.p == pytest.approx(theirs.pvalue)
    assert outcome.method == "Wilcoxon signed-rank test over 50 images (captions of one image together)"
    # one query that is 1,000 times as large does not decide
    few = np.r_[np.linspace(0.5, 1.5, 30), -1_000]
    assert wilcoxon(few).p < 0.001 < paired_t(few).p


@pytest.mark.parametrize("count", [1, 5, 9, 14, 16])
def test_signed_ranks_with_ties_are_exact(count: int) -> None:
    """Against every assignment of signs to the ranks. The normal distribution has 0.025 for five gains, not 1/16."""
    for sizes in ([1.0], [1.0, 2.0], [0.0, 1.0, 2.0, 5.0]):
        drawn = RNG.choice(sizes, size=count) * RNG.choice([-1.0, 1.0], size=count)
        differences = np.r_[drawn, 0.0, 0.0]
        ranks = scipy.stats.rankdata(np.abs(drawn[drawn != 0])) * np.sign(drawn[drawn != 0])
        signs = np.array(list(itertools.product((-1, 1), repeat=len(ranks))))
        expected = np.mean(np.abs(signs @ np.abs(ranks)) >= abs(ranks.sum()) - 1e-9) if len(ranks) else 1.0
        assert wilcoxon(differences).p == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("count", [16, 17, 60, 200])
def test_signed_ranks_of_hits_call_no_more_than_five_percent_a_difference(count: int) -> None:
    """Where each query is gained or lost by a coin; the normal distribution has 7.7 % of 16, 5.6 % of 200."""
    called = [wilcoxon(np.repeat([1.0, -1.0], [gained, count - gained])).p < 0.05 for gained in range(count + 1)]
    assert scipy.stats.binom.pmf(np.flatnonzero(called), count, 0.5).sum() <= 0.05


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_interval_of_hits_holds_the_difference_at_any_level(level: float) -> None:
    """All of eight gained: half a query in each outcome moves the middle to 8/10, further than 50 % reach."""
    low, high = difference_interval(np.ones(8), np.zeros(8), level=level)
    assert low < high == 1.0


@pytest.mark.parametrize("images", [5, 8, 20, 200])
@pytest.mark.parametrize("name", ["t", "randomisation", "wilcoxon"])
def test_rounding_is_no_difference(name: str, images: int) -> None:
    """Each image has captions at ranks 1, 2 and 3 under both systems, in another order: sums of 5e-17, not of 0."""
    values, baseline = np.tile([1 / 1, 1 / 2, 1 / 3], images), np.tile([1 / 3, 1 / 1, 1 / 2], images)
    owners = np.repeat(np.arange(images), 3)
    assert np.bincount(owners, values - baseline).any()
    assert paired_test(name, values - baseline, owners).p == 1.0
    assert np.isnan(difference_interval(values, baseline, owners)).all()


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=8, max_size=30))
@settings(max_examples=50, deadline=None)
def test_signed_ranks_of_reciprocal_ranks_have_the_ties_of_fractions(pairs: list[tuple[int, int]]) -> None:
    """1/2 − 1/3 and 1/3 − 1/6 are one size: all are whole sixtieths."""
    ranks = np.array(pairs)
    sixtieths = np.round(60 / ranks[:, 0] - 60 / ranks[:, 1])
    assert wilcoxon(1 / ranks[:, 0] - 1 / ranks[:, 1]).p == pytest.approx(wilcoxon(sixtieths).p, abs=1e-12)


def test_the_interval_of_few_images_ends_at_zero_and_not_beside_it() -> None:
    """One image of six has captions that outweigh each other: p is 2/64 doubled, and the interval begins at 0."""
    differences = [0.1, 0.2, -0.3, *[0.5, 0.4, 0.3, 0.2, 0.1]]
    images = [0, 0, 0, 1, 2, 3, 4, 5]
    assert paired_t(differences, images).p == 2 / 2**5
    assert difference_interval(differences, np.zeros(8), images)[0] == 0.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_lies_between_raw_and_bonferroni(p: list[float]) -> None:
    raw, holm, bonferroni = np.array(p), adjust(p, "holm"), adjust(p, "bonferroni")
    assert (raw <= holm + 1e-15).all()
    assert (holm <= bonferroni + 1e-15).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(holm[order]) >= 0).all()


def test_faults_are_named() -> None:
    with refused(VisirError, code="paired-test-needs-least"):
        paired_t([])
    with refused(VisirError, "1", "3", "1", code="differences-not-finite-numbers"):
        randomisation([0.0, np.nan, 1.0])
    with refused(VisirError, "2", "3", code="clusters-differences", hint=False):
        paired_t([1, 2, 3], ["a", "b"])
    with refused(VisirError, meant="holm"):
        adjust([0.1], "hol")  # type: ignore[arg-type]
    with refused(VisirError, "u", code="unknown-test"):
        paired_test("u", [1.0, 2.0])


def test_twenty_five_thousand_queries_take_no_time() -> None:
    hits = RNG.integers(-1, 2, 25_000).astype(float)
    start = time.perf_counter()
    randomisation(hits)
    difference_interval(hits, np.zeros(25_000))
    assert time.perf_counter() - start < 2


def test_clusters_of_the_same_mean_have_no_error() -> None:
    with np.errstate(all="raise"):
        assert mean_and_error(np.array([1.0, 2.0]), np.array([2.0, 4.0]))[:2] == (0.5, 0.0)


def test_an_interval_ends_where_its_measure_does() -> None:
    """Student's t of three queries would reach 1.46, and rank -29."""
    assert mean_interval([0.9, 1.0, 0.5])[1] > 1
    low, high = measure_estimate("ndcg@10", [0.9, 1.0, 0.5]).ends
    assert low == mean_interval([0.9, 1.0, 0.5])[0] and high == 1.0
    assert measure_estimate("mean_rank", [1.0, 2.0, 30.0]).low == 1.0
    assert np.isnan(measure_estimate("ndcg@10", [0.5]).ends).all()
