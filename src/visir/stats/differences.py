"""Differences of two means: tests, intervals that belong to them, and corrections for many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from visir.errors import VisirError, nearest
from visir.stats.means import (
    ANYTHING,
    NO_INTERVAL,
    ROUNDING,
    Floats,
    Interval,
    check_bounds,
    check_finite,
    check_level,
    check_no_clusters,
    crossed_error,
    crossed_interval,
    effective,
    folds_error,
    folds_interval,
    mean_and_error,
    mean_interval,
    no_spread,
    numbers,
    unit_sums,
    units_of,
    within,
    without_rounding,
)

TestName = Literal["t", "randomisation", "wilcoxon"]
AnyTest = Literal["t", "randomisation", "wilcoxon", "inverted", "folds"]
Correction = Literal["holm", "bonferroni", "bh", "none"]

FEW_UNITS = 10
"""With fewer units than this, signs are flipped instead of asking Student's t."""
FEWEST_UNITS = 6
"""With fewer units than this no p of flipped signs is below 0.05: 2 / 2^5 is 0.0625."""
EXACT_UP_TO = 16
"""With at most this many clusters that differ, every assignment of signs is tried (2^16 = 65,536)."""
FEW_VALUES = 512
"""Up to this many distinct values, the randomisation test draws counts per value instead of signs per query."""


@dataclass(frozen=True)
class TestedDifference:
    """A difference of two means with its interval and its p-value.

    Attributes:
        value: The mean of the first minus that of the second.
        low: The lower end of the interval; NaN where there is none.
        high: The upper end.
        p: The two-sided p-value, in [0, 1]; NaN where the difference cannot be tested.
        level: How often such intervals hold the truth: 0.95.
        units: How many independent units it rests on; of different ones, those of both sides together.
        method: The test in words.
        reason: Why it cannot be tested, or "".
    """

    __test__ = False  # nothing for pytest

    value: float
    low: float
    high: float
    p: float
    level: float = 0.95
    units: int = 0
    method: str = ""
    reason: str = ""

    @property
    def ends(self) -> Interval:
        """(low, high), of any level."""
        return self.low, self.high


def difference(
    a: ArrayLike,
    b: ArrayLike,
    clusters: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    *,
    paired: bool = True,
    test: AnyTest = "t",
    level: float = 0.95,
    bounds: Interval = ANYTHING,
    ratio: float = 0.0,
    seed: int = 0,
) -> TestedDifference:
    """Test whether the means of two systems differ, and estimate by how much.

    **Paired** (values of the same queries, in one order). The tests are of the mean difference over units:

    - "t": the paired t-test, which assumes that the mean of the differences is about normal. Below ten units it is the
      exact test of sign flips, because differences of one size would be "significant" too often. With fewer than six
      units no p is below 0.05. A single unit has no p.
    - "randomisation": signs are flipped, all ways with up to 16 units that differ, else 10,000 ways. It assumes only
      that the two systems are exchangeable for each unit. Of hits it is McNemar's exact test, for any number.
    - "wilcoxon": signed ranks; whether the differences are symmetric about 0, which few large ones do not decide.
    - "inverted": the test that belongs to the interval: p is below 1 − `level` exactly where the interval leaves out 0.
      Of hits the larger of McNemar's and Agresti and Min's; of other values "t", with an interval from six units on.
    - "folds": the corrected resampled t-test of Nadeau and Bengio (2003), for values of folds with the `ratio` of
      test to training size. Values of one fold are one unit; two folds are needed.

    Values of two dimensions, (seeds, images), are tested for new seeds and new images together (minF′, Clark 1973).

    The interval of hits (both sides 0 or 1) is that of Agresti and Min (2005), over as many queries as they are worth;
    of other values with six to nine units that of sign flips (Hartigan 1969); otherwise Student's t, which with two to
    five units rests on differences that are about normal.

    **Not paired** (`paired=False`): different units. Hits: exact intervals of both shares (Clopper and Pearson 1934;
    MOVER: Zou and Donner 2008), good for rare hits and sides of very unequal size. Other values: Welch's t, judged by
    what it is where units are given to the sides at random (Janssen 1997; Chung and Romano 2013), which is exact where
    both sides have one distribution. The test is always the one that the interval inverts. A side with a single unit is
    not tested.

    Args:
        a: (n,) one finite value per query of the first system; or (seeds, images).
        b: Those of the second: in the same order, or (m,) of other queries. One number stands for all.
        clusters: (n,) the unit of each query: the image whose captions they are. Not paired: those of both sides, as a
            pair. None takes each query for its own.
        paired: Whether both sides have the same queries.
        test: The test, by name.
        level: How often the interval is to hold the truth, between 0 and 1.
        bounds: Between which values the measure itself lies, such as (0, 1); the interval of the difference then ends
            at -1 and 1.
        ratio: Of "folds": the size of the test part by that of the training part.
        seed: Of the draws of a randomisation test that is not exact.

    Returns:
        The difference of the means, its interval and p.

    Raises:
        VisirError: There is no query, a value is not finite, or there is no such test.

    Source:
        Smucker, Allan and Carterette, "A comparison of statistical significance tests for information retrieval
        evaluation", CIKM 2007; clusters: Cameron, Gelbach and Miller 2008.

    Example:
        >>> from visir import stats
        >>> first, second = [1, 1, 1, 1, 1, 1, 1, 0, 1, 1], [1, 0, 0, 1, 0, 0, 0, 0, 0, 1]
        >>> found = stats.difference(first, second)
        >>> round(found.value, 2), round(found.low, 2), round(found.p, 3)
        (0.6, 0.17, 0.005)
    """
    check_level(level)
    if test not in get_args(AnyTest):
        raise VisirError(f"unknown test {test!r}", hint=nearest(test, get_args(AnyTest)), code="unknown-test")
    first, second = numbers(a), numbers(b)
    for side in (first, second):
        check_finite(np.atleast_1d(side))
    check_bounds(bounds)
    lowest, highest = bounds[0] - bounds[1], bounds[1] - bounds[0]
    if not paired:
        tested = _independent(list(zip((first, second), _of_both(clusters, test), strict=True)), level)
    else:
        if not first.ndim:
            raise VisirError("one number is no sample.", hint="a list or an array of them", code="no-values")
        if second.ndim and second.shape != first.shape:
            raise VisirError(
                f"{first.shape[0]} values of one system and {second.shape[0]} of the other.",
                hint="of the same queries, in one order; or paired=False",
                code="values-of-two-systems",
            )
        second = np.broadcast_to(second, first.shape)
        if first.ndim == 2 or test in ("inverted", "folds"):
            check_no_clusters(clusters, "seeds and images" if first.ndim == 2 else f"values of the test {test!r}")
        if first.ndim == 2:
            tested = _crossed(first - second, level)
        elif test == "inverted":
            tested = _inverted_pairs(first, second, level)
        elif test == "folds":
            tested = _over_folds(first - second, ratio, level)
        else:
            tested = _paired(first, second, clusters, test, level, seed)
    check_bounds((lowest, highest), tested.value)
    low, high = within(tested.ends, (lowest, highest))
    return replace(tested, low=low, high=high)


def adjust(p: ArrayLike, method: Correction = "holm") -> Floats:
    """Correct p-values for the size of their family: who looks at twenty differences finds one below 0.05 by chance.

    Bonferroni multiplies each by the family's size m. Holm (1979) multiplies the i-th smallest by m − i + 1 and keeps
    the order: it controls the same error and never rejects fewer hypotheses, hence the default. Both promise that all
    rejections are right in 95 % of families, whatever the p-values have to do with each other. Benjamini and Hochberg
    (1995, "bh") promise less: of the rejections, 5 % are wrong in the mean, for p-values that are independent or
    positively dependent.

    Args:
        p: (m,) in [0, 1]; a NaN (not testable) stays NaN and does not count for the family.
        method: "holm", "bonferroni", "bh" or "none".

    Returns:
        (m,) the corrected values in the same order, at most 1.

    Raises:
        VisirError: There is no such correction, or a value is not in [0, 1].

    Example:
        >>> from visir import stats
        >>> stats.adjust([0.01, 0.04, 0.03]).round(2).tolist()
        [0.03, 0.06, 0.06]
    """
    every = numbers(p)
    if every.ndim != 1 or (every < 0).any() or (every > 1).any():
        raise VisirError("p-values are a list of numbers from 0 to 1.", code="no-p-values")
    result = every.copy()
    tested = np.flatnonzero(~np.isnan(every))
    family = every[tested]
    if method == "bonferroni":
        result[tested] = np.minimum(1.0, family * len(family))
    elif method == "holm":
        order = np.argsort(family, kind="stable")
        stepped = np.maximum.accumulate(family[order] * (len(family) - np.arange(len(family))))
        result[tested[order]] = np.minimum(1.0, stepped)
    elif method == "bh":
        from scipy.stats import false_discovery_control

        result[tested] = false_discovery_control(family) if len(family) else family
    elif method != "none":
        raise VisirError(f"unknown correction {method!r}", hint=nearest(method, get_args(Correction)))
    return result


def _of_both(clusters: object, test: str) -> tuple[object, object]:
    """The units of both sides of a test that is not paired."""
    if test not in ("t", "inverted"):
        raise VisirError(
            f"the test {test!r} is of pairs.", hint="leave test= out with paired=False", code="test-of-pairs"
        )
    if clusters is None:
        return None, None
    if not isinstance(clusters, (tuple, list)) or len(clusters) != 2:
        raise VisirError("clusters of two sides are a pair.", hint="(of the first, of the second)", code="no-pair")
    return clusters[0], clusters[1]


# Paired tests.


@dataclass(frozen=True)
class TestOutcome:
    """The result of a paired test."""

    __test__ = False  # nothing for pytest

    p: float  # the two-sided p-value, in [0, 1]; NaN if the differences cannot be tested
    statistic: float  # t, or the mean difference
    how: str  # the test in words
    reason: str = ""  # why the differences cannot be tested, or ""


def _paired(first: Floats, second: Floats, clusters: object, test: str, level: float, seed: int) -> TestedDifference:
    gaps = first - second
    units = None if clusters is None else units_of(clusters, len(gaps))
    if test == "t":
        outcome = paired_t(gaps, units)
    elif test == "randomisation":
        outcome = randomisation(gaps, units, seed=seed)
    else:
        outcome = wilcoxon(gaps, units)
    low, high = difference_interval(first, second, units, level=level)
    number = len(gaps) if units is None else int(units.max()) + 1
    return TestedDifference(float(gaps.mean()), low, high, outcome.p, level, number, outcome.how, outcome.reason)


def paired_t(differences: object, clusters: object = None) -> TestOutcome:
    """Two-sided paired t-test; below ten units the exact sign-flip test (`randomisation`)."""
    # With clusters, the mean is that over all queries, and its standard error is estimated over clusters. Without
    # clusters this equals `scipy.stats.ttest_rel`; with clusters of equal size, the t-test of the cluster means. For
    # clusters of unequal size see `mean_and_error`. Differences without spread leave t nothing to divide by; then, too,
    # signs are flipped.
    sums, sizes = unit_sums(differences, clusters)
    if len(sums) < FEW_UNITS or no_spread(sums, sizes):
        return randomisation(differences, clusters)
    from scipy.special import stdtr

    mean, error, freedom = mean_and_error(sums, sizes)
    how = _how("paired t-test", len(sums), clusters)
    return TestOutcome(float(2 * stdtr(freedom, -abs(mean) / error)), mean / error, how)


def randomisation(differences: object, clusters: object = None, *, samples: int = 10_000, seed: int = 0) -> TestOutcome:
    """Two-sided paired randomisation (sign-flip) test of the mean difference."""
    # Under the null hypothesis the two systems are exchangeable for each query (or cluster), so each difference could
    # have the other sign. p is the share of sign assignments whose mean difference is at least as far from zero as the
    # observed one. With at most 16 differing clusters all assignments are tried and p is exact. Where all that differ
    # do so by the same amount (queries that are right or wrong), p is exact for any number of them: the test is
    # McNemar's (1947). Otherwise `samples` are drawn and p = (1 + hits) / (1 + samples) (Phipson & Smyth 2010: never
    # 0).
    sums, sizes = unit_sums(differences, clusters)
    name = _how("randomisation test", len(sums), clusters)
    if len(sums) < 2:
        return TestOutcome(nan, nan, name, _single(clusters))
    parts = sums[sums != 0]
    mean = float(sums.sum() / sizes.sum())
    if (exact := _exact_flips(parts)) is not None:
        return TestOutcome(exact, mean, f"{name}, exact")
    rng = np.random.default_rng(seed)
    hits = int((np.abs(_flipped(np.abs(parts), samples, rng)) >= _as_far(parts)).sum())
    return TestOutcome((1 + hits) / (1 + samples), mean, f"{name}, {samples:,} samples, seed {seed}")


def _exact_flips(parts: Floats) -> float | None:
    """The share of signs of `parts`, (n,) without zeros, whose sum is as far from 0; None where signs are too many."""
    if len(parts) == 0:
        return 1.0
    sizes = np.abs(parts)
    if np.ptp(sizes) <= 1e-12 * sizes.max():  # equal steps: a sum of n signs has a binomial distribution
        from scipy.special import bdtr

        ahead = int((parts > 0).sum())
        return min(1.0, 2 * float(bdtr(min(ahead, len(parts) - ahead), len(parts), 0.5)))
    if len(parts) > EXACT_UP_TO:
        return None
    signs = ((np.arange(2 ** len(parts))[:, None] >> np.arange(len(parts))) & 1) * 2 - 1
    return float(np.mean(np.abs(signs @ sizes) >= _as_far(parts)))


def _as_far(parts: Floats) -> float:
    """The least size of a sum that is as far from 0: equal sums, added in another order, differ in the last bits."""
    return float(abs(parts.sum()) - 1e-9 * np.abs(parts).sum())


def wilcoxon(differences: object, clusters: object = None) -> TestOutcome:
    """Two-sided Wilcoxon signed-rank test (1945)."""
    # It ranks the sizes of the differences, so that a few very large ones do not decide. It asks whether the
    # differences are symmetric about 0, not whether their mean is 0. Differences of 0 are left out. With clusters the
    # mean of each cluster is ranked. Up to 16 differences, and of any number that are all as large, p is exact, with
    # ties too: signs of ranks are flipped. (The normal distribution calls 8 % of sixteen hits gained or lost a
    # difference.) Otherwise it is that of `scipy.stats.wilcoxon`.
    sums, sizes = unit_sums(differences, clusters)
    name = _how("Wilcoxon signed-rank test", len(sums), clusters)
    if len(sums) < 2:
        return TestOutcome(nan, nan, name, _single(clusters))
    means = sums / sizes
    if not means.any():
        return TestOutcome(1.0, 0.0, name)
    from scipy.stats import rankdata
    from scipy.stats import wilcoxon as by_scipy

    # 1/2 − 1/3 and 1/3 − 1/6 differ in the last bit, and must have the same rank.
    steps = _in_steps(means[means != 0])
    ranks = np.copysign(rankdata(np.abs(steps)), steps)
    statistic = min(float(ranks[ranks > 0].sum()), -float(ranks[ranks < 0].sum()))
    if (exact := _exact_flips(ranks)) is not None:
        return TestOutcome(exact, statistic, f"{name}, exact")
    return TestOutcome(float(by_scipy(steps).pvalue), statistic, name)


def _in_steps(values: Floats) -> Floats:
    """The values in steps of `ROUNDING` of the largest."""
    steps = np.round(values / np.abs(values).max() / ROUNDING)
    rounded: Floats = steps[steps != 0]
    return rounded


def _flipped(sizes: Floats, samples: int, rng: np.random.Generator) -> Floats:
    """(samples,) sums of `sizes` under random signs."""
    distinct, counts = np.unique(sizes, return_counts=True)
    if len(distinct) <= FEW_VALUES:
        # c equal values under random signs sum to value · (2·Binomial(c, ½) − c): hits differ by −1, 0 or 1 only, so
        # this is nearly always the path taken, at a cost that does not grow with the number of queries.
        sums: Floats = (2.0 * rng.binomial(counts, 0.5, size=(samples, len(counts))) - counts) @ distinct
        return sums
    sums = np.empty(samples)
    step = max(1, 32_000_000 // len(sizes))
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        bits = np.unpackbits(rng.integers(0, 256, (rows, -(-len(sizes) // 8)), np.uint8), axis=1)[:, : len(sizes)]
        sums[start : start + rows] = 2.0 * (bits @ sizes) - sizes.sum()
    return sums


def _single(clusters: object) -> str:
    """Why a single unit is not tested."""
    return f"there is only one {'query' if clusters is None else 'image'}"


def _how(name: str, groups: int, clusters: object) -> str:
    return f"{name} over {groups:,} {'queries' if clusters is None else 'images (captions of one image together)'}"


def _over_folds(gaps: Floats, ratio: float, level: float) -> TestedDifference:
    """The corrected resampled t-test of a difference per fold; `ratio` is that of test to training size."""
    from scipy.stats import t as student

    mean, how = float(gaps.mean()), "corrected resampled t-test over folds"
    if len(gaps) < 2:
        return TestedDifference(mean, *NO_INTERVAL, nan, level, len(gaps), how, "there is only one fold")
    spread = folds_error(gaps, ratio)
    if spread <= 1e-12:  # no spread to judge chance by: no p unless all folds give 0
        p, reason = (nan, "all folds give the same") if abs(mean) > 1e-12 else (1.0, "")
    else:
        p, reason = float(2 * student.sf(abs(mean) / spread, len(gaps) - 1)), ""
    return TestedDifference(mean, *folds_interval(gaps, ratio, level), p, level, len(gaps), how, reason)


def _crossed(gaps: Floats, level: float) -> TestedDifference:
    """The test over seeds and images together."""
    error, degrees = crossed_error(gaps)
    mean = float(gaps.mean())
    if error == 0:
        p = 1.0 if mean == 0 else nan
    else:
        from scipy.special import stdtr

        p = float(2 * stdtr(degrees, -abs(mean) / error))
    low, high = crossed_interval(gaps, level)
    return TestedDifference(mean, low, high, p, level, gaps.shape[1], "minF′ over seeds and images")


# Intervals of paired differences.


def difference_interval(
    values: object, baseline: object, clusters: object = None, *, level: float = 0.95
) -> tuple[float, float]:
    """The confidence interval of the mean of `values` − `baseline`, paired."""
    # - Hits (both sides 0 or 1): Agresti and Min (2005), half a query added to each of the four outcomes. Near a
    #   ceiling most differences are 0, and Student's t is then too narrow, or has no interval at all. With clusters the
    #   number of queries is the effective one, as of a share.
    # - Six to nine units: the interval that belongs to the exact sign-flip test, from the means of all subsets of units
    #   (Hartigan 1969). It contains 0 exactly when p of `paired_t` is above 1 − `level`.
    # - Otherwise `mean_interval`. With two to five units it rests on differences that are about normal.
    # Returns: (low, high); (NaN, NaN) of a single unit, and where there is no spread.
    check_level(level)
    sides = np.asarray(values, np.float64), np.asarray(baseline, np.float64)
    differences = sides[0] - sides[1]
    sums, sizes = unit_sums(differences, clusters)
    if len(sums) > 1 and np.isin(sides, (0.0, 1.0)).all():
        return _of_paired_hits(differences, sums, sizes, level)
    rank = int(2 ** len(sums) * (1 - level) / 2 + 1e-9) if len(sums) < FEW_UNITS else 0
    return _of_subsets(sums, sizes, rank) if rank else mean_interval(differences, clusters, level=level)


def _of_paired_hits(values: Floats, sums: Floats, sizes: Floats, level: float) -> tuple[float, float]:
    """Agresti and Min: both discordant counts plus ½, the number of pairs plus 2; it holds the difference."""
    count, quantile = effective(values, sums, sizes, level)
    gained, lost = ((values == sign).mean() * count + 0.5 for sign in (1, -1))
    pairs = count + 2
    middle = (gained - lost) / pairs
    half = quantile * np.sqrt(gained + lost - (gained - lost) ** 2 / pairs) / pairs
    mean = float(values.mean())
    return min(mean, max(-1.0, float(middle - half))), max(mean, min(1.0, float(middle + half)))


def _of_subsets(sums: Floats, sizes: Floats, rank: int) -> tuple[float, float]:
    """The `rank`-th smallest and largest mean of all non-empty subsets of units; no interval without spread."""
    chosen = (np.arange(1, 2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1).astype(np.float64)
    means = np.sort(without_rounding(chosen @ sums, chosen @ np.abs(sums)) / (chosen @ sizes))
    low, high = float(means[rank - 1]), float(means[-rank])
    return (low, high) if high - low > 1e-12 * np.abs(means).max() else NO_INTERVAL


# Differences whose p and interval belong together: p is below α exactly where the interval of the level 1 − α leaves
# out 0, because the interval holds every difference that the test does not reject.


def _inverted_pairs(first: Floats, second: Floats, level: float) -> TestedDifference:
    """Over the same units, one value each."""
    # - Hits: p is the larger of McNemar's exact one and that of Agresti and Min; the interval holds theirs and the
    #   exact one of the hits that differ. So neither few units nor hits that all differ make it too narrow.
    # - Other values: from ten units on the paired t-test; from six on sign flips and their interval
    #   (`difference_interval`). Fewer cannot be significant at 5 % by sign flips, and have no interval.
    units, gaps = len(first), first - second
    value = float(gaps.mean())
    if units < 2:
        return TestedDifference(value, *NO_INTERVAL, nan, level, units, "", _single(None))
    if np.isin((first, second), (0.0, 1.0)).all():
        gained, lost = float((gaps > 0).sum()), float((gaps < 0).sum())

        def ends(error: float) -> Interval:
            wide = _of_paired_hits(gaps, gaps, np.ones(units), 1 - error)
            low, high = (2 * end - 1 for end in _exact_ends(gained, gained + lost, error))
            share = (gained + lost) / units
            return min(wide[0], share * low), max(wide[1], share * high)

        p, low, high = _inverted(ends, level)
        return TestedDifference(value, low, high, p, level, units, "McNemar, or Agresti and Min")
    low, high = difference_interval(first, second, level=level) if units >= FEWEST_UNITS else NO_INTERVAL
    outcome = paired_t(gaps)
    return TestedDifference(value, low, high, outcome.p, level, units, outcome.how)


def _independent(sides: Sequence[tuple[Floats, object]], level: float) -> TestedDifference:
    """Over different units: (values, the unit of each) of both sides."""
    units = [unit_sums(*side) for side in sides]
    value, number = float(sides[0][0].mean()) - float(sides[1][0].mean()), sum(len(sums) for sums, _ in units)
    if all(np.isin(side, (0.0, 1.0)).all() for side, _ in sides):
        shares = _shares([side for side, _ in sides], units)
        p, low, high = _inverted(lambda error: _of_two_shares(shares, error), level)
        return TestedDifference(value, low, high, p, level, number, "exact intervals of both shares")
    p, low, high = _of_shuffles(units, level)
    reason = "too few images, or no spread" if np.isnan(p) else ""
    return TestedDifference(value, low, high, p, level, number, "Welch's t, judged by shuffles of units", reason)


Tested = tuple[float, float, float]
"""p and the ends of the interval."""
NOT_TESTED: Tested = (nan, nan, nan)

_SHUFFLES = 1_999
"""How often units are given to the two groups at random; (shuffles + 1) · 5 % is a whole number."""
_TAIL = 0.01
"""Below this p the shuffles are too few to count; the tail goes on as Student's t does."""
_SMALLEST = 1e-100
"""p is not looked for below this."""


def _inverted(ends: Callable[[float], tuple[float, float]], level: float) -> Tested:
    """p as the error at which an interval, `ends` of the error, begins to hold 0."""
    from scipy.optimize import brentq

    def gap(logarithm: float) -> float:
        low, high = ends(float(np.exp(logarithm)))
        return max(low, -high)

    first, last = float(np.log(_SMALLEST)), 0.0
    if gap(last) <= 0:
        p = 1.0
    elif gap(first) > 0:
        p = 0.0
    else:
        p = float(np.exp(brentq(gap, first, last, xtol=1e-10)))
    return p, *ends(1 - level)


def _exact_ends(hits: float, count: float, error: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share; `count` need not be a whole number."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, count - hits + 1, error / 2)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - error / 2)) if hits < count else 1.0
    return low, high


@dataclass(frozen=True)
class _Share:
    """A share, how many independent queries it is worth, and the degrees of freedom that this was estimated with."""

    share: float
    worth: float
    freedom: float

    def ends(self, error: float) -> tuple[float, float]:
        """The exact interval of this share; with few units it is as much wider as Student's t is than the normal."""
        from scipy.special import ndtri, stdtrit

        tail = min(error, 0.999) / 2  # at an error of 1 both quantiles are 0
        wider = 1.0 if np.isinf(self.freedom) else float(stdtrit(self.freedom, tail) / ndtri(tail))
        count = self.worth / wider**2
        low, high = _exact_ends(self.share * count, count, error)
        return min(low, self.share), max(high, self.share)


def _shares(sides: Sequence[Floats], units: Sequence[tuple[Floats, Floats]]) -> list[_Share]:
    """What the hits of each side are worth."""
    # Queries of one unit are at least as alike as they are on both sides together: a side of few units, or with few
    # hits, shows by chance that its queries are independent.
    parts = [(hits, float(hits.mean()), *own) for hits, own in zip(sides, units, strict=True)]
    between = sum(
        float(((sums - sizes * share) ** 2).sum() - ((hits - share) ** 2).sum()) for hits, share, sums, sizes in parts
    )
    most = sum(share * (1 - share) * float((sizes * (sizes - 1)).sum()) for _, share, _, sizes in parts)
    alike = min(1.0, max(0.0, between / most)) if most > 0 else 1.0
    shares = []
    for hits, share, sums, sizes in parts:
        count, squares = float(len(hits)), float((sizes**2).sum())
        if sizes.max() == 1:
            shares.append(_Share(share, count, np.inf))
        elif len(sizes) == 1:
            shares.append(_Share(share, 0.0, np.inf))  # one unit with several queries says nothing: 0 to 1
        else:
            worth = min(effective(hits, sums, sizes, 0.95)[0], count / (1 + (squares / count - 1) * alike))
            shares.append(_Share(share, worth, count**2 / squares - 1))
    return shares


def _of_two_shares(shares: Sequence[_Share], error: float) -> tuple[float, float]:
    """The interval of the difference of two independent shares, from the exact intervals of both."""
    (low, high), (other_low, other_high) = (share.ends(error) for share in shares)
    first, second = (share.share for share in shares)
    below, above = np.hypot(first - low, other_high - second), np.hypot(high - first, second - other_low)
    return first - second - float(below), first - second + float(above)


def _of_shuffles(sides: Sequence[tuple[Floats, Floats]], level: float) -> Tested:
    """Welch's t of units with sums and sizes, judged by shuffles of them."""
    if any(len(sums) < 2 for sums, _ in sides):
        return NOT_TESTED
    means = [float(sums.sum() / sizes.sum()) for sums, sizes in sides]
    difference = means[0] - means[1]
    parts = [mean_and_error(*side)[1:] for side in sides]
    error = float(np.sqrt(sum(part**2 for part, _ in parts)))
    if error <= 1e-12 * max(1.0, abs(difference)):
        return NOT_TESTED
    freedom = error**4 / sum(part**4 / free for part, free in parts)
    shuffles = _Shuffles(error, freedom, *_shuffled(sides, means), *(len(sums) for sums, _ in sides))
    p, alpha = shuffles.p(-difference), round(1 - level, 12)  # 1 − 0.95 is a little above 0.05, and p may be 0.05
    ends = [shuffles.end(sign, alpha, -difference, p) for sign in (-1, 1)]
    if np.isinf(ends).any():
        return p, *NO_INTERVAL
    return p, difference + ends[0], difference + ends[1]


@dataclass(frozen=True, eq=False)
class _Shuffles:
    """What Welch's t is where units are given to the sides at random, for every supposed difference."""

    error: float  # the standard error of the observed difference
    freedom: float  # its degrees of freedom
    # (shuffles, 2) the shuffled difference: its constant, and what is taken off for each unit of a shift.
    of_mean: Floats
    of_square: Floats  # (shuffles, 3) its squared error: constant, per shift, per squared shift
    first: int  # how many units the first side has
    second: int  # how many the second

    def p(self, shift: float) -> float:
        """p of the difference that lies `shift` above the observed one: values of the first side are moved by it."""
        from scipy.special import binom, stdtr, stdtrit

        squares = self.of_square @ [1.0, shift, shift**2]
        squares[squares <= 1e-12 * (self.of_square[:, 0] + self.of_square[:, 2] * shift**2)] = 0.0
        gaps = np.abs(self.of_mean @ [1.0, -shift])
        gaps[gaps <= 1e-9 * abs(shift)] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.where(gaps == 0, 0.0, gaps / np.sqrt(squares))
        statistic = abs(shift) / self.error * (1 - 1e-9)  # equal sums, added in another order, differ in the last bits
        hits, tail = int((drawn >= statistic).sum()), round(_TAIL * (_SHUFFLES + 1))
        if hits >= tail:
            return (1 + hits) / (_SHUFFLES + 1)
        # Too few to count: from where 1 % are as far out, p falls as that of Student's t does, but not below that of
        # the shuffles there are.
        begins = float(np.partition(drawn, -tail)[-tail])
        scale = min(1.0, float(-stdtrit(self.freedom, _TAIL / 2)) / begins)
        students = float(2 * stdtr(self.freedom, -statistic * scale))
        least = max(hits / (_SHUFFLES + 1), 2 / float(binom(self.first + self.second, self.first)))
        return max(least, min(_TAIL, students))

    def end(self, sign: int, alpha: float, zero: float, p_zero: float) -> float:
        """The shift at which p falls below `alpha` on one side, infinite for never; `zero` lies where its p says."""
        inner, outer = 0.0, sign * self.error
        if sign * zero > 0:  # a difference of 0 lies on this side
            if p_zero < alpha:
                outer = zero
            else:
                inner, outer = zero, zero + sign * self.error
        if not (sign * zero > 0 and p_zero < alpha):
            for _ in range(40):
                if self.p(outer) < alpha:
                    break
                inner, outer = outer, 2 * outer
            else:
                return sign * np.inf
        for _ in range(40):
            middle = (inner + outer) / 2
            inner, outer = (inner, middle) if self.p(middle) < alpha else (middle, outer)
        return inner


def _shuffled(sides: Sequence[tuple[Floats, Floats]], means: Sequence[float]) -> tuple[Floats, Floats]:
    """The parts of Welch's t, as in `_Shuffles`, where units are given to the sides at random; a fixed seed."""
    rest = np.concatenate([sums - mean * sizes for (sums, sizes), mean in zip(sides, means, strict=True)])
    rest = without_rounding(rest, np.concatenate([np.abs(sums) for sums, _ in sides]))
    sizes, first = np.concatenate([sizes for _, sizes in sides]), len(sides[0][0])
    moved = np.where(np.arange(len(rest)) < first, sizes, 0.0)
    rng, of_mean, of_square = np.random.default_rng(0), np.zeros((_SHUFFLES, 2)), np.zeros((_SHUFFLES, 3))
    step = max(1, 1_000_000 // len(rest))
    for start in range(0, _SHUFFLES, step):
        rows = slice(start, min(start + step, _SHUFFLES))
        order = rng.permuted(np.broadcast_to(np.arange(len(rest)), (rows.stop - start, len(rest))), axis=1)
        for sign, chosen in ((1, order[:, :first]), (-1, order[:, first:])):
            of, units = sizes[chosen], chosen.shape[1]
            queries = of.sum(axis=1, keepdims=True)
            gaps = []  # the mean without a unit, minus the mean: of what is left over, and of a shift of 1
            for number, own in enumerate((rest[chosen], moved[chosen])):
                mean = own.sum(axis=1, keepdims=True) / queries
                of_mean[rows, number] += sign * mean[:, 0]
                gaps.append((of * mean - own) / (queries - of))
            products = [(gaps[0] ** 2).sum(axis=1), -2 * (gaps[0] * gaps[1]).sum(axis=1), (gaps[1] ** 2).sum(axis=1)]
            of_square[rows] += (units - 1) / units * np.stack(products, axis=1)
    return of_mean, of_square
