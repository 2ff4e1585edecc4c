"""Statistics of granularity: means with intervals, and differences between two sets of captions of the same images."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted
from visir.errors import CollectionError, ConfigurationError
from visir.evaluation.intervals import difference_interval
from visir.evaluation.significance import Correction, corrected, mean_interval, paired_t
from visir.robustness.granularity import Granularity


@dataclass(frozen=True)
class Mean:
    """The mean of a feature over captions."""

    feature: str  # the name of the feature
    mean: float  # the mean
    # The lower end of its 95 % interval (Student's t over images with all their captions, because the captions of one
    # image describe the same thing). NaN where fewer than two images have the feature.
    low: float
    high: float  # the upper end
    defined: int  # the number of captions with the feature


@dataclass(frozen=True)
class FeatureChange:
    """How one feature differs between two sets of captions of the same images: `refined` against `original`."""

    feature: str  # the name of the feature
    original: float  # the mean over the images in common, each image being the mean of its captions
    refined: float  # the same of the refined captions
    difference: float  # refined − original
    low: float  # the lower end of its 95 % interval (t distribution over images)
    high: float  # the upper end
    p: float  # the p-value of the paired t-test over images
    p_corrected: float  # the same, corrected over all compared features
    images: int  # the number of images with the feature on both sides


@dataclass(frozen=True)
class GranularityComparison(Displayed):
    """All changes between two collections in one profile."""

    original: Granularity  # the features of the original captions
    refined: Granularity  # the features of the refined captions
    changes: tuple[FeatureChange, ...]  # one for each feature
    in_common: int  # the number of images with captions on both sides
    only: tuple[int, int]  # the number of images that only the original, and only the refined collection has
    correction: str  # the correction over the features

    def __repr__(self) -> str:
        changes = [f"{change.feature} {change.difference:+.2f} (p {change.p_corrected:.2g})" for change in self.changes]
        return brief(
            self,
            f"{self.refined.name} against {self.original.name}: {counted(self.in_common, 'images')} in common",
            ", ".join(changes[:4]),
            ", ".join(changes[4:8]),
        )


def means(counted: Granularity) -> tuple[Mean, ...]:
    """The mean of every feature with its 95 % interval, over images with all their captions."""
    images = _numbers(counted.images)
    feature_means = []
    for feature, values in counted.values.items():
        defined = ~np.isnan(values)
        low = high = float("nan")
        if defined.any():
            low, high = mean_interval(values[defined], images[defined])
        feature_means.append(Mean(feature, counted.mean(feature), low, high, int(defined.sum())))
    return tuple(feature_means)


def compare(original: Granularity, refined: Granularity, *, correction: Correction = "holm") -> GranularityComparison:
    """Compare the features over the images that both sides have captions for.

    A pair is an image: the mean over its captions on each side. Nothing tells which refined caption belongs to which
    original one, and captions of one image are not independent.

    Args:
        original: The features of the original captions.
        refined: The features of the refined captions, in the same profile.
        correction: The correction over the features.

    Returns:
        The changes.

    Raises:
        ConfigurationError: The two have different profiles.
        CollectionError: No image is in common.
    """
    if original.profile != refined.profile:
        raise ConfigurationError(
            f"{original.name} was counted in the profile {original.profile!r}, {refined.name} in {refined.profile!r}.",
            hint="count both in one profile",
            code="counted-profile",
        )
    original_images, refined_images = pc.unique(original.images), pc.unique(refined.images)
    both = original_images.filter(pc.is_in(original_images, refined_images))
    if len(both) == 0:
        raise CollectionError(
            f"{original.name} and {refined.name} have no image in common: {original_images[0].as_py()!r}, … against "
            f"{refined_images[0].as_py()!r}, ….",
            hint="differences are paired by image; compare two sets of captions of the same images",
            code="no-image-common",
        )
    uncorrected = []
    for feature in original.values:
        before, after = (_by_image(change, feature, both) for change in (original, refined))
        is_defined = ~np.isnan(before) & ~np.isnan(after)
        if is_defined.sum() > 1:
            first, last = before[is_defined], after[is_defined]
            low, high = difference_interval(last, first)
            p = paired_t(last - first).p
            means_of_both = float(first.mean()), float(last.mean()), float((last - first).mean())
            uncorrected.append(FeatureChange(feature, *means_of_both, low, high, p, p, int(is_defined.sum())))
    adjusted = corrected([change.p for change in uncorrected], correction)
    changes = tuple(replace(change, p_corrected=float(p)) for change, p in zip(uncorrected, adjusted, strict=True))
    only = (len(original_images) - len(both), len(refined_images) - len(both))
    return GranularityComparison(original, refined, changes, len(both), only, correction)


def _by_image(counted: Granularity, feature: str, images: pa.StringArray) -> NDArray[np.float64]:
    """(len(images),) the mean of each image's captions that have the feature; NaN where none has."""
    place = pc.index_in(counted.images, images)
    values = counted.values[feature]
    chosen = pc.is_valid(place).to_numpy(zero_copy_only=False) & ~np.isnan(values)
    rows = pc.fill_null(place, 0).to_numpy(zero_copy_only=False)[chosen]
    sums = np.bincount(rows, values[chosen], len(images))
    counts = np.bincount(rows, minlength=len(images))
    by_image: NDArray[np.float64] = np.full(len(images), np.nan)
    np.divide(sums, counts, out=by_image, where=counts > 0)
    return by_image


def _numbers(ids: pa.StringArray) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = ids.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
