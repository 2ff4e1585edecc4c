"""Draws of measured values: what a value could have been with other queries, folds, visitors or seeds.

A value may come with `DRAWS` draws of it. Draw i of all values that rest on the same units is of the same resample, so
they are paired: the interval of a difference, or how sure a sentence about several values is, comes from the same
function of their draws. Values that rest on different units have independent draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.resampling import resampled_sums
from visir.fingerprint import hash_json

Draws = NDArray[np.float64]
"""(DRAWS,) values in the units of the measured one."""
DRAWS = 1_000
SURE = 0.975
"""The share of draws that decides: that of a two-sided interval of 95 %."""


def unit_sums(units: Sequence[str], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draws of sums: units are drawn with replacement, each with all its rows (the bootstrap)."""
    # units: (n,) the unit of each row: the image of a caption, the category of a query. Its rows are no independent
    # samples.
    # columns: (n, k) what is summed.
    names, member = np.unique(np.asarray(units, dtype=str), return_inverse=True)
    return resampled_sums(columns, member, samples=DRAWS, seed=_seed(names.tolist()))


def unit_means(units: Sequence[str], columns: Mapping[str, NDArray[np.float64]]) -> dict[str, Draws]:
    """Draws of means over rows, as `unit_sums` draws; NaN values do not count."""
    # units: (n,) the unit of each row.
    # columns: Label → (n,) values.
    if not columns:
        return {}
    values = np.stack(list(columns.values()), axis=1)
    defined = ~np.isnan(values)
    sums = unit_sums(units, np.concatenate([np.where(defined, values, 0.0), defined], axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums[:, : len(columns)] / sums[:, len(columns) :]
    return finite(dict(zip(columns, means.T, strict=True)))


def few_units(values: NDArray[np.float64], variance: float, name: str) -> NDArray[np.float64]:
    """Draws of deviations of means over few units: any difference of two has the interval of a paired t-test."""
    # A bootstrap of three seeds or five folds is far too narrow. Here the deviation of a mean is a random combination
    # of the units' deviations, divided by a χ: of one mean, or of the difference of two, it is a scaled t with n − 1
    # degrees of freedom, exactly.
    # values: (n, k) the value of each of n units (2 at least), in k columns.
    from scipy.special import chdtri

    freedom = len(values) - 1
    rng = np.random.default_rng(_seed([name]))
    normal = rng.standard_normal((DRAWS // 2, len(values))) @ (values - values.mean(axis=0)) / np.sqrt(freedom)
    # The tails of t are those of a small χ: evenly spaced quantiles instead of random ones, and each normal with both
    # signs, keep the ends of an interval where they belong.
    spaced = chdtri(freedom, (np.arange(DRAWS // 2) + 0.5) / (DRAWS // 2))
    half = normal * np.sqrt(variance / (rng.permutation(spaced)[:, None] / freedom))
    deviations: NDArray[np.float64] = np.concatenate([half, -half])
    return deviations


def finite(draws: Mapping[str, Draws]) -> dict[str, Draws]:
    """Those of which every draw is defined."""
    return {label: values for label, values in draws.items() if np.isfinite(values).all()}


def difference_interval(first: Draws | None, second: Draws | None) -> tuple[float, float] | None:
    """The 95 % interval of first − second; None where one of them has no draws."""
    if first is None or second is None:
        return None
    low, high = np.quantile(first - second, [0.025, 0.975])  # draws of few units have the tails of t already
    return float(low), float(high)


def _seed(names: Sequence[str]) -> int:
    return int(hash_json({"units": list(names)})[:12], 16)
