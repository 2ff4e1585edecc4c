"""Statistics of granularity: means with intervals, and what differs between two sets of captions of the same images."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import CollectionError, ConfigurationError
from visir.evaluation.significance import Correction, bootstrap_interval, corrected, mean_interval, paired_t
from visir.robustness.granularity import Granularity


@dataclass(frozen=True)
class Mean:
    """The mean of a feature over captions, its 95 % interval, and for how many captions it is defined.

    `low`, `high`: the captions of one image describe the same thing and are one draw, so whole images are drawn
    (percentile bootstrap). NaN where no caption has the feature.
    """

    feature: str
    mean: float
    low: float
    high: float
    defined: int


@dataclass(frozen=True)
class FeatureChange:
    """How one feature differs between two sets of captions of the same images: `refined` against `original`.

    - `original`, `refined`: the means over the images in common, each image the mean of its captions
    - `difference`: refined − original; `low`, `high`: its 95 % interval (images drawn with replacement)
    - `p`: of the paired t-test over images; `p_corrected`: within the family of all features compared
    - `images`: how many images have the feature on both sides
    """

    feature: str
    original: float
    refined: float
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    images: int


@dataclass(frozen=True)
class GranularityComparison:
    """All changes between two collections in one profile.

    `in_common`: images with captions on both sides; `only`: how many images only the original, only the refined has.
    """

    original: Granularity
    refined: Granularity
    changes: tuple[FeatureChange, ...]
    in_common: int
    only: tuple[int, int]
    correction: str


def means(counted: Granularity, *, seed: int = 0) -> tuple[Mean, ...]:
    """The mean of every feature with its 95 % interval, images drawn with all their captions."""
    images = _numbers(counted.images)
    feature_means = []
    for feature, values in counted.values.items():
        defined = ~np.isnan(values)
        low = high = float("nan")
        if defined.any():
            low, high = bootstrap_interval(values[defined], images[defined], seed=seed)
        feature_means.append(Mean(feature, counted.mean(feature), low, high, int(defined.sum())))
    return tuple(feature_means)


def compare(
    original: Granularity, refined: Granularity, *, correction: Correction = "holm", seed: int = 0
) -> GranularityComparison:
    """Paired differences over the images that both have captions for.

    A pair is an image: the mean over its captions on one side against that on the other, because nothing says which
    refined caption stems from which original one, and captions of one image are not independent. `correction` is over
    the features. Raises `ConfigurationError` for granularities of two profiles, `CollectionError` when no image is in
    common.
    """
    if original.profile != refined.profile:
        raise ConfigurationError(
            f"{original.name} was counted in the profile {original.profile!r}, {refined.name} in {refined.profile!r}.",
            hint="count both in one profile",
        )
    mine, theirs = pc.unique(original.images), pc.unique(refined.images)
    both = mine.filter(pc.is_in(mine, theirs))
    if len(both) == 0:
        raise CollectionError(
            f"{original.name} and {refined.name} have no image in common: {mine[0].as_py()!r}, … against "
            f"{theirs[0].as_py()!r}, ….",
            hint="differences are paired by image; compare two sets of captions of the same images",
        )
    uncorrected = []
    for feature in original.values:
        before, after = (_by_image(change, feature, both) for change in (original, refined))
        known = ~np.isnan(before) & ~np.isnan(after)
        if known.sum() > 1:
            gaps = (after - before)[known]
            low, high = mean_interval(gaps)
            p = paired_t(gaps).p
            at_first, at_last = float(before[known].mean()), float(after[known].mean())
            uncorrected.append(
                FeatureChange(feature, at_first, at_last, float(gaps.mean()), low, high, p, p, int(known.sum()))
            )
    adjusted = corrected([change.p for change in uncorrected], correction)
    changes = tuple(replace(change, p_corrected=float(p)) for change, p in zip(uncorrected, adjusted, strict=True))
    only = (len(mine) - len(both), len(theirs) - len(both))
    return GranularityComparison(original, refined, changes, len(both), only, correction)


def _by_image(counted: Granularity, feature: str, images: pa.StringArray) -> NDArray[np.float64]:
    """(len(images),) the mean of each image's captions that have the feature; NaN where none has."""
    place = pc.index_in(counted.images, images)
    values = counted.values[feature]
    chosen = pc.is_valid(place).to_numpy(zero_copy_only=False) & ~np.isnan(values)
    at = pc.fill_null(place, 0).to_numpy(zero_copy_only=False)[chosen]
    sums = np.bincount(at, values[chosen], len(images))
    counts = np.bincount(at, minlength=len(images))
    by_image: NDArray[np.float64] = np.full(len(images), np.nan)
    np.divide(sums, counts, out=by_image, where=counts > 0)
    return by_image


def _numbers(ids: pa.StringArray) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = ids.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
