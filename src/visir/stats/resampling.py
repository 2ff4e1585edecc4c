"""Statistics of resampled units: any number of sums from one resampling, and the intervals of what is made of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from visir.errors import VisirError
from visir.stats.means import NO_INTERVAL, Estimate, Floats, check_finite, check_level, numbers, units_of

_ENTRIES = 4_000_000  # counts in memory at once: 32 MB


def resample(
    statistic: Callable[[Floats], Floats],
    columns: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    level: float = 0.95,
    samples: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """Estimate any statistic of sums, such as a ratio, by the bootstrap over units.

    Units are drawn with replacement, each with all its queries, and the statistic is computed of every draw. The
    interval is the expanded percentile one (Hesterberg 2015, section 5.3): the plain percentile interval is too narrow
    with few units (it covers 80 % with four). It assumes that the units are like those that could have been drawn, and
    needs about ten of them for a ratio; of a single unit there is none.

    Args:
        statistic: Of (draws, k) sums of the columns: (draws,) values. A draw without a value (NaN) is left out.
        columns: (n, k) one row per query.
        clusters: (n,) the unit of each query: the image whose captions they are. None takes each query for its own.
        level: How often the interval is to hold the truth, between 0 and 1.
        samples: How many draws.
        seed: Of the draws.

    Returns:
        The statistic of all queries, with its interval.

    Raises:
        VisirError: There is no query.

    Source:
        Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69(4), 2015.

    Example:
        >>> from visir import stats
        >>> before, after = [3.0, 1, 2, 2, 3, 1, 2, 3, 1, 2, 2, 3], [2.0, 1, 1, 2, 3, 0, 2, 2, 1, 1, 2, 2]
        >>> columns = list(zip(before, after))
        >>> lost = stats.resample(lambda sums: 1 - sums[:, 1] / sums[:, 0], columns)
        >>> round(lost.value, 2), 0.05 < lost.low < 0.15, 0.35 < lost.high < 0.45
        (0.24, True, True)
    """
    check_level(level)
    values = numbers(columns)
    drawn = resampled_sums(values, clusters, samples=samples, seed=seed)
    check_finite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_all, of_draws = (numbers(statistic(sums)) for sums in (values.sum(axis=0, keepdims=True), drawn))
    if of_all.shape != (1,) or of_draws.shape != (len(drawn),):
        raise VisirError(
            f"the statistic of (draws, k) sums is (draws,) values, not {of_draws.shape}.",
            hint="lambda sums: sums[:, 0] / sums[:, 1]",
            code="statistic-of-draws",
        )
    units = len(values) if clusters is None else int(units_of(clusters, len(values)).max()) + 1
    return estimate_of_draws(float(of_all[0]), of_draws, units, level=level)


def resampled_sums(
    columns: Floats, clusters: ArrayLike | None = None, *, samples: int = 2_000, seed: int = 0
) -> Floats:
    """Draw sums of several columns: units are drawn with replacement, each with all its rows (the bootstrap).

    All columns use the same draws, so any statistic of their sums has its distribution by plain arithmetic:
    `sums[:, 0] / sums[:, 1]`. `resample` does it for one statistic.

    Args:
        columns: (n, k) one row per query.
        clusters: (n,) the image of each query, which is drawn with all its captions; None draws queries.
        samples: How many draws.
        seed: Of the draws.

    Returns:
        (samples, k) the sums; NaN for a single unit, because every draw of it is the same.

    Raises:
        VisirError: There is no query.

    Example:
        >>> import numpy as np
        >>> from visir import stats
        >>> stats.resampled_sums(np.ones((5, 2)), samples=3).tolist()
        [[5.0, 5.0], [5.0, 5.0], [5.0, 5.0]]
    """
    values = numbers(columns)
    if values.ndim != 2 or len(values) == 0:
        raise VisirError(
            "a bootstrap needs at least one query.",
            hint="is the split, or the task, right?",
            code="bootstrap-needs-least-one",
        )
    if clusters is None:
        sums = values
    else:
        member = units_of(clusters, len(values))
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


def estimate_of_draws(value: float, draws: Floats, units: int | None = None, *, level: float = 0.95) -> Estimate:
    """Estimate a statistic from its draws: the expanded percentile interval of a bootstrap, or the plain one.

    Resampling n units has the variance (n − 1) / n and the tails of the normal distribution. The expanded interval
    (Hesterberg 2015) takes quantiles further out, such that a mean gets about Student's t interval.

    Args:
        value: The statistic of all units.
        draws: (samples,) the statistic of each draw. A draw without a value (a division by zero) is left out.
        units: How many units were drawn from. None: the draws have the tails that they need (`draws_of_few`), and their
            central part is the interval.
        level: How often the interval is to hold the truth, between 0 and 1.

    Returns:
        The value and its interval; NaN ends of fewer than two units, and where more draws than a tail holds have no
        value.

    Example:
        >>> import numpy as np
        >>> from visir import stats
        >>> few = stats.estimate_of_draws(0.5, np.linspace(0, 1, 1001), 10)
        >>> round(few.low, 3), round(few.high, 3)  # of a thousand units about 0.025 and 0.975
        (0.009, 0.991)
    """
    from scipy.special import ndtr, stdtrit

    if units is None:
        tail = round((1 - level) / 2, 12)  # of 0.95 just 0.025
        low, high = np.quantile(draws, [tail, 1 - tail])
        return Estimate(value, float(low), float(high), level, 0, "central part of draws")
    how, tail = "expanded percentile bootstrap", (1 - level) / 2
    defined = draws[np.isfinite(draws)]
    if units < 2 or len(defined) < (1 - tail) * len(draws):
        return Estimate(value, *NO_INTERVAL, level, units, how)
    outer = float(ndtr(np.sqrt(units / (units - 1)) * stdtrit(units - 1, tail)))
    low, high = np.quantile(defined, [outer, 1 - outer])
    return Estimate(value, float(low), float(high), level, units, how)


def draws_of_few(values: Floats, variance: float, *, samples: int = 1_000, seed: int = 0) -> Floats:
    """Draw deviations of means over few units (seeds, folds): any difference of two has the tails of a paired t-test.

    A bootstrap of three seeds or five folds is far too narrow. Here the deviation of a mean is a random combination of
    the units' deviations, divided by a χ: of one mean, or of the difference of two, it is a scaled t with n − 1
    degrees of freedom, exactly, where values of units are about normal. Two units are needed.

    Args:
        values: (n, k) the value of each of n units, in k columns.
        variance: Of a mean, in variances of a unit: 1 / n; of folds 1 / n + test size / training size; of a jackknife
            (n − 1)² / n.
        samples: How many draws, an even number.
        seed: Of the draws.

    Returns:
        (samples, k) deviations.

    Example:
        >>> import numpy as np
        >>> from visir import stats
        >>> drawn = stats.draws_of_few(np.array([[1.0], [2.0], [3.0]]), 1 / 3)
        >>> round(stats.estimate_of_draws(0, drawn[:, 0]).high, 1)  # Student's t of three: 4.30 · 1 / √3
        2.5
    """
    from scipy.special import chdtri

    freedom, half = len(values) - 1, samples // 2
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((half, len(values))) @ (values - values.mean(axis=0)) / np.sqrt(freedom)
    # The tails of t are those of a small χ: evenly spaced quantiles instead of random ones, and each normal with both
    # signs, keep the ends of an interval where they belong.
    spaced = chdtri(freedom, (np.arange(half) + 0.5) / half)
    deviations = normal * np.sqrt(variance / (rng.permutation(spaced)[:, None] / freedom))
    return np.concatenate([deviations, -deviations])
