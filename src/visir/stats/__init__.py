"""The one place for intervals and p-values: nothing else in visir computes them.

One mean or share        estimate(values, clusters), of_counts(count, of)
Two systems              difference(a, b, clusters), adjust(p) for many of them
Places of many systems   places(values, clusters)
Any statistic of sums    resample(statistic, columns, clusters)
Sums over visitors       of_moments(moments), difference_of_moments(first, second)
Looks at any time        sequential(variant, control), sample_ratio(counts, shares)

**Clusters.** Five captions of one image are five queries of text-to-image search, but they are not independent: an
image that is hard to find is hard to find with each of its captions. A test that treats the captions as independent
counts the same evidence up to five times: instead of the nominal 5 % false positives it has 17 to 52 %
(`benchmarks/calibration.py`). Functions therefore take `clusters`, (n,) the image of each query: the sampled units are
then *images* with all their captions (Cameron, Gelbach & Miller 2008; for retrieval tests in general Smucker, Allan &
Carterette, CIKM 2007). Without `clusters` each query is its own unit.

**Few units.** Below ten units the t-test becomes the exact sign-flip test. Student's t needs differences that are about
normal: differences of one size (+0.1 or −0.1) are "significant" in 11 to 13 % of cases with seven units. With fewer
than six units no sign-flip p is below 0.05. A single unit cannot be tested: p is NaN, and the result gives the reason.

No interval, or no p, is NaN. What each function was measured to keep: docs/background/statistics.md.
"""

from visir.stats.differences import Correction, TestedDifference, TestName, adjust, difference
from visir.stats.looks import DifferenceOverTime, RunningSums, counts_by_chance, sample_ratio, sequential
from visir.stats.means import NO_INTERVAL, Estimate, estimate, of_counts
from visir.stats.moments import Moments, difference_of_moments, of_moments, standardised_rates
from visir.stats.ranks import FEWEST_FOR_PLACES, Places, places
from visir.stats.resampling import draws_of_few, estimate_of_draws, resample, resampled_sums

__all__ = [
    "FEWEST_FOR_PLACES",
    "NO_INTERVAL",
    "Correction",
    "DifferenceOverTime",
    "Estimate",
    "Moments",
    "Places",
    "RunningSums",
    "TestName",
    "TestedDifference",
    "adjust",
    "counts_by_chance",
    "difference",
    "difference_of_moments",
    "draws_of_few",
    "estimate",
    "estimate_of_draws",
    "of_counts",
    "of_moments",
    "places",
    "resample",
    "resampled_sums",
    "sample_ratio",
    "sequential",
    "standardised_rates",
]
