"""Estimates and tests: is a difference between two systems, measured query by query, more than chance?

Functions take `values`, (n,) one finite value per query; `baseline`, (n,) those of another system for the same queries
in the same order; or `differences`, (n,) the former minus the latter. No interval, or no p, is NaN.

**Clusters.** Five captions of one image are five queries of text-to-image search, but they are not independent: an
image that is hard to find is hard to find with each of its captions. A test that treats the captions as independent
counts the same evidence up to five times: instead of the nominal 5 % false positives it has 17 to 52 %
(`benchmarks/calibration.py`). Every function therefore takes `clusters`, (n,) the image of each query: the sampled
units are then *images* with all their captions (Cameron, Gelbach & Miller 2008; for retrieval tests in general Smucker,
Allan & Carterette, CIKM 2007). Without `clusters` each query is its own unit.

**Few units.** Below ten units (`FEW_UNITS`) the t-test becomes the exact sign-flip test. Student's t needs differences
that are about normal: differences of one size (+0.1 or −0.1) are "significant" in 11 to 13 % of cases with seven units.
With fewer than six units no sign-flip p is below 0.05. A single unit cannot be tested: p is NaN, and the result gives
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import VisirError, nearest
from visir.evaluation.measures import MEASURES, base_of
from visir.records import GROUP, IMAGE, Result
from visir.splitmix import wilson

# Which queries of a result are not independent: those of one image, or of one item.

CAPTION_TASK = "t2i"


def clusters_of(result: Result, task: str) -> NDArray[Any] | None:
    """The cluster of each query: its image, or its item, as far as either is known."""
    # The labels decide: queries with the same label "image", or with the same label "group", are in one cluster.
    # Without labels the captions of one image are a cluster of the task "t2i".
    # Returns: (n,) numbers in the order of the queries; None where every query is independent, or nothing is known.
    if names := labels_clusters(result, task):
        return joined([result.labels[task][name].combine_chunks() for name in names])
    if result.captions is None or task != CAPTION_TASK:
        return None
    rows = pc.index_in(result.per_query[task]["query_id"].combine_chunks(), result.captions["id"].combine_chunks())
    if rows.null_count:
        return None
    return name_codes(result.captions["image_id"].combine_chunks().take(rows))


def labels_clusters(result: Result, task: str) -> list[str]:
    """The labels of a task that say which queries are not independent: "image", "group"."""
    known = result.labels[task].column_names if task in result.labels else []
    return [name for name in (IMAGE, GROUP) if name in known]


def name_codes(names: pa.Array) -> NDArray[np.int64]:
    """A number for each name; a query without one is alone."""
    # names: (n,) the image or item of each query; null for none.
    numbers: NDArray[np.int64] = (
        names.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = numbers.max(initial=-1) + 1 + np.arange(len(alone))
    return numbers


def joined(columns: list[pa.Array]) -> NDArray[np.int64]:
    """A number for each row: rows that share a value in any of the columns, or are tied by others, have the same."""
    if len(columns) == 1:
        return name_codes(columns[0])
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = (name_codes(column) for column in columns)
    ends = int(first.max(initial=-1)) + 1
    size = ends + int(second.max(initial=-1)) + 1
    graph = coo_array((np.ones(len(first), bool), (first, ends + second)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    components: NDArray[np.int64] = component[first].astype(np.int64)
    return components


TestName = Literal["t", "randomisation", "wilcoxon"]
Correction = Literal["holm", "bonferroni", "bh", "none"]

FEW_UNITS = 10
"""With fewer units than this, signs are flipped instead of asking Student's t."""
FEWEST_UNITS = 6
"""With fewer units than this no p of flipped signs is below 0.05: 2 / 2^5 is 0.0625."""
EXACT_UP_TO = 16
"""With at most this many clusters that differ, every assignment of signs is tried (2^16 = 65,536)."""
FEW_VALUES = 512
"""Up to this many distinct values, the randomisation test draws counts per value instead of signs per query."""

ROUNDING = 1e-12
"""Sums that are smaller than this share of their parts are 0; values that are as close have the same rank."""

NO_INTERVAL = (nan, nan)
"""The ends of an interval that does not exist."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TestOutcome:
    """The result of a test."""

    p: float  # the two-sided p-value, in [0, 1]; NaN if the differences cannot be tested
    statistic: float  # t, or the mean difference
    how: str  # the test in words
    reason: str = ""  # why the differences cannot be tested, or ""


def paired_t(differences: object, clusters: object = None) -> TestOutcome:
    """Two-sided paired t-test; below ten units the exact sign-flip test (`randomisation`)."""
    # With clusters, the mean is that over all queries, and its standard error is estimated over clusters. Without
    # clusters this equals `scipy.stats.ttest_rel`; with clusters of equal size, the t-test of the cluster means. For
    # clusters of unequal size see `mean_and_error`. Differences without spread leave t nothing to divide by; then, too,
    # signs are flipped.
    sums, sizes = unit_sums(differences, clusters)
    if len(sums) < FEW_UNITS or _no_spread(sums, sizes):
        return randomisation(differences, clusters)
    from scipy.special import stdtr

    mean, error, freedom = mean_and_error(sums, sizes)
    how = _how("paired t-test", len(sums), clusters)
    return TestOutcome(float(2 * stdtr(freedom, -abs(mean) / error)), mean / error, how)


def mean_interval(differences: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a mean by Student's t. For paired differences see `intervals.difference_interval`."""
    # From ten units on it contains 0 exactly when p of `paired_t` is above 1 − `level`.
    # Returns: (low, high); (NaN, NaN) where there is no spread.
    check_level(level)
    sums, sizes = unit_sums(differences, clusters)
    if len(sums) < 2 or _no_spread(sums, sizes):
        return NO_INTERVAL
    from scipy.special import stdtrit

    mean, error, freedom = mean_and_error(sums, sizes)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return mean - half, mean + half


def mean_and_error(sums: Floats, sizes: Floats) -> tuple[float, float, float]:
    """Return the mean over all queries, its standard error, and the degrees of freedom."""
    # The error is the jackknife's: the mean is computed without each cluster in turn. The usual sandwich estimator
    # underestimates the error when one large cluster dominates the mean (up to 18 % false positives with 4 to 20
    # clusters of 1 to 20 queries). The degrees of freedom are those of the effective number of equal clusters: (Σn)² /
    # Σn² − 1.
    # sums: (c,) the sum of the values of each cluster; not all clusters have the same mean.
    # sizes: (c,) the number of its queries.
    count, total = len(sums), float(sizes.sum())
    mean = float(sums.sum()) / total
    without = (sums.sum() - sums) / (total - sizes)
    gaps = without - mean
    widest = float(np.abs(gaps).max()) or 1.0  # the squares of tiny gaps are 0
    error = widest * float(np.sqrt((count - 1) / count * ((gaps / widest) ** 2).sum()))
    return mean, error, total**2 / float((sizes**2).sum()) - 1


def _no_spread(sums: Floats, sizes: Floats) -> bool:
    """Whether all clusters have the same mean, up to rounding."""
    residuals = sums - sizes * (sums.sum() / sizes.sum())
    return bool((np.abs(residuals) <= max(1e-12 * np.abs(sums).max(), 1e-300)).all())


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


def corrected(p_values: object, correction: Correction = "holm") -> Floats:
    """Correct p-values for the size of their family."""
    # Bonferroni multiplies each by the family's size m. Holm (1979) multiplies the i-th smallest by m − i + 1 and keeps
    # the order: it controls the same error and never rejects fewer hypotheses, hence the default. Both promise that all
    # rejections are right in 95 % of families. Benjamini and Hochberg (1995) promise less: of the rejections, 5 % are
    # wrong in the mean, for p-values that are independent or positively dependent.
    # p_values: (m,) in [0, 1]; a NaN (not testable) stays NaN and does not count for the family.
    # Returns: (m,) the corrected values in the same order, at most 1.
    every = np.asarray(p_values, np.float64)
    result = every.copy()
    tested = np.flatnonzero(~np.isnan(every))
    p = every[tested]
    if correction == "bonferroni":
        result[tested] = np.minimum(1.0, p * len(p))
    elif correction == "holm":
        order = np.argsort(p, kind="stable")
        stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
        result[tested[order]] = np.minimum(1.0, stepped)
    elif correction == "bh":
        from scipy.stats import false_discovery_control

        result[tested] = false_discovery_control(p) if len(p) else p
    elif correction != "none":
        raise VisirError(f"unknown correction {correction!r}", hint=nearest(correction, get_args(Correction)))
    return result


def paired_test(name: str, differences: object, clusters: object = None, *, seed: int = 0) -> TestOutcome:
    """Run the paired test of a given name, with its defaults."""
    if name == "t":
        return paired_t(differences, clusters)
    if name == "randomisation":
        return randomisation(differences, clusters, seed=seed)
    if name == "wilcoxon":
        return wilcoxon(differences, clusters)
    raise VisirError(f"unknown test {name!r}", hint=nearest(name, get_args(TestName)), code="unknown-test")


def check_level(level: float) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    if not 0 < level < 1:
        raise VisirError(f"the level of an interval lies between 0 and 1, not {level}.", hint="0.95 is usual")


def unit_sums(differences: object, clusters: object) -> tuple[Floats, Floats]:
    """Add up the values of each unit."""
    # Returns: (c,) the sum and (c,) the number of queries of each unit.
    values = np.asarray(differences, np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise VisirError(
            "a paired test needs at least one query.",
            hint="is the split, or the task, right?",
            code="paired-test-needs-least",
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise VisirError(
            f"{len(bad)} of {len(values)} differences are not finite numbers (the first at position {int(bad[0])}).",
            hint="leave the measure out, or the queries for which it is not defined",
            code="differences-not-finite-numbers",
        )
    if clusters is None:
        return values, np.ones(len(values))
    names = np.asarray(clusters)
    if len(names) != len(values):
        raise VisirError(f"{len(names)} clusters for {len(values)} differences.", code="clusters-differences")
    _, member = np.unique(names, return_inverse=True)
    sums, sizes = (np.bincount(member, column).astype(np.float64) for column in (values, np.abs(values)))
    return without_rounding(sums, sizes), np.bincount(member).astype(np.float64)


def without_rounding(sums: Floats, sizes: Floats) -> Floats:
    """Sums with 0 in the place of those that are nothing but rounding: 1/2 + 1/3 − 1/2 − 1/3 is not 0 in floats."""
    # sums: (n,) sums.
    # sizes: (n,) the sums of the absolute values.
    return np.where(np.abs(sums) <= ROUNDING * sizes, 0.0, sums)


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


# The bootstrap over clusters for many columns at once: one resampling, any number of sums.

_ENTRIES = 4_000_000  # counts in memory at once: 32 MB


def resampled_sums(columns: Floats, clusters: object = None, *, samples: int = 2_000, seed: int = 0) -> Floats:
    """Bootstrap the sums of several columns over clusters drawn with replacement."""
    # All columns use the same draws. So any statistic of their sums (a mean difference, a ratio) has its bootstrap
    # distribution by plain arithmetic: `sums[:, 0] / sums[:, 1]`. Why clusters are drawn, the head of this file says.
    # columns: (n, k) one row per query.
    # clusters: (n,) the image of each query, which is drawn with all its captions; None draws queries.
    # Returns: (samples, k) the sums; NaN for a single cluster, because every draw of it is the same.
    values = np.asarray(columns, np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise VisirError(
            "a bootstrap needs at least one query.",
            hint="is the split, or the task, right?",
            code="bootstrap-needs-least-one",
        )
    if clusters is None:
        sums = values
    else:
        _, member = np.unique(np.asarray(clusters), return_inverse=True)
        sums = np.stack([np.bincount(member, column) for column in values.T], axis=1)
    count, rng = len(sums), np.random.default_rng(seed)
    if count < 2:
        return np.full((samples, values.shape[1]), np.nan)
    drawn = np.empty((samples, values.shape[1]))
    step = max(1, _ENTRIES // count)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        picks = rng.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times = np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count)
        drawn[start : start + rows] = times.astype(np.float64) @ sums
    return drawn


def interval(values: Floats, units: int, level: float = 0.95) -> tuple[float, float]:
    """The expanded percentile interval of a resampled statistic."""
    # The plain percentile interval is too narrow with few units (it covers 80 % with four): resampling n units has the
    # variance (n − 1) / n and the tails of the normal distribution. The expanded one (Hesterberg 2015, section 5.3)
    # takes quantiles further out, such that a mean gets about Student's t interval.
    # values: (samples,) the resampled statistic. A draw without a value (a division by zero) is left out.
    # Returns: (low, high); (NaN, NaN) of a single unit, and where more draws than a tail holds have no value.
    from scipy.special import ndtr, stdtrit

    tail = (1 - level) / 2
    defined = values[np.isfinite(values)]
    if units < 2 or len(defined) < (1 - tail) * len(values):
        return NO_INTERVAL
    outer = float(ndtr(np.sqrt(units / (units - 1)) * stdtrit(units - 1, tail)))
    low, high = np.quantile(defined, [outer, 1 - outer])
    return float(low), float(high)


# The 95 % interval of one measure: of a share, a mean, a median, and of differences, some with their own test.


_SHUFFLES = 1_999
"""How often units are given to the two groups at random; (shuffles + 1) · 5 % is a whole number."""
_TAIL = 0.01
"""Below this p the shuffles are too few to count; the tail goes on as Student's t does."""
_SMALLEST = 1e-100
"""p is not looked for below this."""


def interval_of(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a mean: `share_interval` of values that are all 0 or 1, else `mean_interval`."""
    # Returns: (low, high); (NaN, NaN) where there is none.
    array = np.asarray(values, np.float64)
    if len(array) and np.isin(array, (0.0, 1.0)).all():
        return share_interval(array, clusters, level=level)
    return mean_interval(array, clusters, level=level)


def measure_interval(measure: str, values: object, clusters: object = None) -> tuple[float, float]:
    """The 95 % interval of what is printed of a measure, within its range: of its median where that is printed, else
    `interval_of`."""
    base = base_of(measure)
    known = MEASURES.get(base) if base in MEASURES else None
    if known is not None and known.aggregate == "median":
        return median_interval(values, clusters)
    # Student's t knows no range: of two or three queries it would end beyond 100 %, or below rank 1.
    low, high = interval_of(values, clusters)
    lowest, highest = {"fraction": (0.0, 1.0), "rank": (1.0, np.inf)}.get(
        known.unit if known else "", (-np.inf, np.inf)
    )
    return max(low, lowest), min(high, highest)


def median_interval(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a median: two of the values themselves (Woodruff 1952)."""
    # A value is below the median or not, so Wilson's interval of a share of one half says which of the sorted values
    # are the ends. With clusters, queries count as many as they are worth, as in `share_interval`.
    # values: (n,) one value per query; infinite ones are allowed ("not found").
    # Returns: (low, high); (NaN, NaN) of fewer than six values, which need not hold the median between them.
    check_level(level)
    array = np.sort(np.asarray(values, np.float64))
    if not len(array) or np.isnan(array).any():
        return NO_INTERVAL
    # Values that equal the median are half below it; without a spread the clusters count.
    below = (np.asarray(values, np.float64) <= np.median(array)).astype(np.float64)
    low, _ = wilson(0.5, *_effective(below, clusters, level))
    first = int(np.floor(len(array) * low + 1e-9))  # `first` values lie below the lower end, or at it
    return (float(array[first - 1]), float(array[-first])) if first else NO_INTERVAL


def share_interval(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share (1927), which is good for few queries and for shares near 0 and 1."""
    # With clusters, the number of queries is replaced by the effective one, which has the same error as the clusters
    # (Korn & Graubard 1998). Where all values are equal there is no such error; then every cluster counts as one query.
    # values: (n,) zeros and ones.
    # Returns: (low, high), in [0, 1].
    array = np.asarray(values, np.float64)
    return wilson(float(array.mean()), *_effective(array, clusters, level))


def difference_interval(
    values: object, baseline: object, clusters: object = None, *, level: float = 0.95
) -> tuple[float, float]:
    """The confidence interval of the mean of `values` − `baseline`, paired."""
    # - Hits (both sides 0 or 1): Agresti and Min (2005), half a query added to each of the four outcomes. Near a
    #   ceiling most differences are 0, and Student's t is then too narrow, or has no interval at all. With clusters the
    #   number of queries is the effective one, as in `share_interval`.
    # - Six to nine units: the interval that belongs to the exact sign-flip test, from the means of all subsets of units
    #   (Hartigan 1969). It contains 0 exactly when p of `paired_t` is above 1 − `level`.
    # - Otherwise `mean_interval`. With two to five units it rests on differences that are about normal.
    # Returns: (low, high); (NaN, NaN) of a single unit, and where there is no spread.
    check_level(level)
    sides = np.asarray(values, np.float64), np.asarray(baseline, np.float64)
    differences = sides[0] - sides[1]
    sums, sizes = unit_sums(differences, clusters)
    if len(sums) > 1 and np.isin(sides, (0.0, 1.0)).all():
        return _of_paired_hits(differences, clusters, level)
    rank = int(2 ** len(sums) * (1 - level) / 2 + 1e-9) if len(sums) < FEW_UNITS else 0
    return _of_subsets(sums, sizes, rank) if rank else mean_interval(differences, clusters, level=level)


def _of_paired_hits(values: Floats, clusters: object, level: float) -> tuple[float, float]:
    """Agresti and Min: both discordant counts plus ½, the number of pairs plus 2; it holds the difference."""
    count, quantile = _effective(values, clusters, level)
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


def _effective(values: Floats, clusters: object, level: float) -> tuple[float, float]:
    """How many independent queries the mean is worth, and the quantile of its interval (normal, or t over clusters)."""
    from scipy.special import ndtri, stdtrit

    count, quantile = float(len(values)), float(ndtri((1 + level) / 2))
    if clusters is None:
        return count, quantile
    sums, sizes = unit_sums(values, clusters)
    if sizes.max() == 1:
        return count, quantile
    worth, variance = count**2 / float((sizes**2).sum()), float(values.var())
    if len(sums) > 1 and variance > 0:
        _, error, freedom = mean_and_error(sums, sizes)
        worth = min(count, variance / error**2) if error > 0 else worth
        quantile = float(stdtrit(freedom, (1 + level) / 2))
    return worth, quantile


@dataclass(frozen=True)
class TestedDifference:
    """A difference of two means with an interval and a p that belong together."""

    # p is below α exactly where the interval of the level 1 − α leaves out 0: the interval holds every difference that
    # the test does not reject.

    p: float  # the two-sided p-value; NaN where there is no test
    low: float  # the lower end of the interval; NaN where there is none
    high: float  # the upper end


NOT_TESTED = TestedDifference(nan, nan, nan)


def paired_with_test(values: Floats, baseline: Floats, *, level: float = 0.95) -> TestedDifference:
    """The difference of two means over the same units, with the test that its interval inverts."""
    # - Hits: p is the larger of McNemar's exact one and that of Agresti and Min; the interval holds theirs and the
    #   exact one of the hits that differ. So neither few units nor hits that all differ make it too narrow.
    # - Other values: from ten units on the paired t-test; from six on sign flips and their interval
    #   (`difference_interval`). Fewer cannot be significant at 5 % by sign flips, and have no interval.
    check_level(level)
    if len(values) < 2:
        return NOT_TESTED
    differences = values - baseline
    if np.isin((values, baseline), (0.0, 1.0)).all():
        gained, lost = float((differences > 0).sum()), float((differences < 0).sum())

        def ends(error: float) -> tuple[float, float]:
            wide = _of_paired_hits(differences, None, 1 - error)
            low, high = (2 * end - 1 for end in _exact_ends(gained, gained + lost, error))
            share = (gained + lost) / len(differences)
            return min(wide[0], share * low), max(wide[1], share * high)

        return _inverted(ends, level)
    low, high = difference_interval(values, baseline, level=level) if len(values) >= FEWEST_UNITS else NO_INTERVAL
    return TestedDifference(paired_t(differences).p, low, high)


def independent_with_test(
    values: Floats, units: object, baseline: Floats, baseline_units: object, *, level: float = 0.95
) -> TestedDifference:
    """The difference of two means over different units, with the test that its interval inverts."""
    # - Hits: each side has the exact interval of a share (Clopper and Pearson 1934), over as many queries as it is
    #   worth where several are of one unit (Korn and Graubard 1998). Both make that of the difference (Newcombe 1998;
    #   MOVER: Zou and Donner 2008). It holds for rare hits, for sides of very unequal size, and for a side without a
    #   hit.
    # - Other values: Welch's t, judged by what it is where units are given to the sides at random (Janssen 1997; Chung
    #   and Romano 2013), exact where both sides have one distribution. For the interval the values of one side are
    #   moved by each supposed difference. A side with a single unit is not tested, and of few units there is no
    #   interval.
    # values: (n,) one value per query of one side; finite.
    # units: (n,) the image or item of each query.
    # baseline: (m,) those of the other side.
    # baseline_units: (m,) likewise.
    check_level(level)
    sides = [(values, units), (baseline, baseline_units)]
    if all(np.isin(side, (0.0, 1.0)).all() for side, _ in sides):
        shares = _shares(sides)
        return _inverted(lambda error: _of_two_shares(shares, error), level)
    return _of_shuffles([unit_sums(*side) for side in sides], level)


def _inverted(ends: Callable[[float], tuple[float, float]], level: float) -> TestedDifference:
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
    return TestedDifference(p, *ends(1 - level))


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


def _shares(sides: Sequence[tuple[Floats, object]]) -> list[_Share]:
    """What the hits of each side are worth."""
    # Queries of one unit are at least as alike as they are on both sides together: a side of few units, or with few
    # hits, shows by chance that its queries are independent.
    parts = [(hits, float(hits.mean()), *unit_sums(hits, units)) for hits, units in sides]
    between = sum(
        float(((sums - sizes * share) ** 2).sum() - ((hits - share) ** 2).sum()) for hits, share, sums, sizes in parts
    )
    most = sum(share * (1 - share) * float((sizes * (sizes - 1)).sum()) for _, share, _, sizes in parts)
    alike = min(1.0, max(0.0, between / most)) if most > 0 else 1.0
    shares = []
    for (hits, share, _, sizes), (_, units) in zip(parts, sides, strict=True):
        count, squares = float(len(hits)), float((sizes**2).sum())
        if sizes.max() == 1:
            shares.append(_Share(share, count, np.inf))
        elif len(sizes) == 1:
            shares.append(_Share(share, 0.0, np.inf))  # one unit with several queries says nothing: 0 to 1
        else:
            worth = min(_effective(hits, units, 0.95)[0], count / (1 + (squares / count - 1) * alike))
            shares.append(_Share(share, worth, count**2 / squares - 1))
    return shares


def _of_two_shares(shares: Sequence[_Share], error: float) -> tuple[float, float]:
    """The interval of the difference of two independent shares, from the exact intervals of both."""
    (low, high), (other_low, other_high) = (share.ends(error) for share in shares)
    first, second = (share.share for share in shares)
    below, above = np.hypot(first - low, other_high - second), np.hypot(high - first, second - other_low)
    return first - second - float(below), first - second + float(above)


def _of_shuffles(sides: Sequence[tuple[Floats, Floats]], level: float) -> TestedDifference:
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
    return TestedDifference(p, *(NO_INTERVAL if np.isinf(ends).any() else (difference + end for end in ends)))


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


# Significance over queries *and* trainings: is a recipe better than another, for new photos and new seeds?


def crossed_test(differences: Floats) -> float:
    """Test the mean of paired differences over seeds and images, where both are samples (minF′, Clark 1973)."""
    # A test over queries alone treats the few available trainings as the recipe itself, and finds differences between
    # two seeds of one recipe. A test over three seeds alone ignores thousands of queries. This test uses both: it adds
    # the squared standard errors of the mean over images (each averaged over seeds) and over seeds (each averaged over
    # images), and takes the degrees of freedom from Satterthwaite's formula. Seed i of one recipe is paired with seed i
    # of the other, which has the same batches.
    # In simulated studies without a true difference (three seeds, 1,000 images with a standard deviation of the
    # differences of 2.6 points, and of 0.15 between seeds), p < 0.05 in 6 %; with a test by images alone in 17 %. With
    # two seeds it is 8 % (22 % by images alone), with five at most 5 % (`benchmarks/calibration.py`).
    # differences: (seeds, images), two of each at least.
    error, degrees = _error(differences)
    if error == 0:
        return 1.0 if differences.mean() == 0 else float("nan")
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(differences.mean()) / error))


def crossed_interval(differences: Floats, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of the mean of `crossed_test`: for new photos and new seeds."""
    # differences: (seeds, images), two of each at least; values of one system alone give the interval of its mean.
    # Returns: (low, high); (NaN, NaN) where there is no spread.
    error, degrees = _error(differences)
    if error == 0:
        return float("nan"), float("nan")
    from scipy.special import stdtrit

    half = float(stdtrit(degrees, (1 + level) / 2)) * error
    return float(differences.mean()) - half, float(differences.mean()) + half


def _error(differences: Floats) -> tuple[float, float]:
    """The standard error of the mean over seeds and images, and its degrees of freedom."""
    if min(differences.shape) < 2:
        raise VisirError(
            f"{differences.shape[0]} seeds and {differences.shape[1]} images: both are samples, of two at least.",
            hint="train more seeds",
            code="both-samples-two-least",
        )
    parts = [differences.mean(axis).var(ddof=1) / differences.shape[1 - axis] for axis in (0, 1)]
    freedom = [differences.shape[1 - axis] - 1 for axis in (0, 1)]
    total = sum(parts)
    degrees = total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True)) if total else 1.0
    return float(np.sqrt(total)), float(degrees)
