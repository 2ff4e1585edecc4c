"""The granularity of the captions of one collection, or of two with the same images, under a declared protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Displayed, Plotted, Tabular, brief, counted
from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults
from visir.evaluation.assembly import choose
from visir.evaluation.results import Saved, plain
from visir.evaluation.sources import open_collection_of
from visir.robustness.granularity import FEATURES, PROFILES, Granularity, Profile, cut_captions
from visir.robustness.granularity import granularity as count_features
from visir.stats import Correction

COUNTS = (0.0, np.inf)
"""Between which values the features of a caption lie."""

# Statistics of granularity: means with intervals, and differences between two sets of captions of the same images.


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
    images = counted.images.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    feature_means = []
    for feature, values in counted.values.items():
        defined = ~np.isnan(values)
        low = high = float("nan")
        if defined.any():
            low, high = stats.estimate(values[defined], images[defined], kind="mean", bounds=COUNTS).ends
        feature_means.append(Mean(feature, counted.mean(feature), low, high, int(defined.sum())))
    return tuple(feature_means)


def compare(original: Granularity, refined: Granularity, *, correction: Correction = "holm") -> GranularityComparison:
    """Compare the features, counted in one profile, over the images that both sides have captions for."""
    # A pair is an image: the mean over its captions on each side. Nothing tells which refined caption belongs to which
    # original one, and captions of one image are not independent.
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
            change = stats.difference(last, first, bounds=COUNTS)
            both_means = float(first.mean()), float(last.mean()), change.value
            uncorrected.append(FeatureChange(feature, *both_means, *change.ends, change.p, change.p, change.units))
    adjusted = stats.adjust([change.p for change in uncorrected], correction)
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


BOTH: tuple[Profile, ...] = ("paper", "strict")


@dataclass(frozen=True)
class GranularityStudy(Tabular, Plotted, Saved):
    """The granularity of one or two collections, by profile."""

    # For each collection (the studied one first): the features by profile.
    counted: tuple[Mapping[Profile, Granularity], ...]
    means: tuple[Mapping[Profile, tuple[Mean, ...]], ...]  # the same of the means
    # By profile: the collection against the other; empty without another.
    comparisons: Mapping[Profile, GranularityComparison]
    protocol: tuple[tuple[str, str], ...]  # (label, value) rows: everything on which the numbers depend

    def __repr__(self) -> str:
        profile = self.profiles[0]
        names = [next(iter(counted.values())).name for counted in self.counted]
        lines = [
            f"{name}: " + ", ".join(f"{mean.feature} {mean.mean:.2f}" for mean in of_one[profile][:4])
            for name, of_one in zip(names, self.means, strict=True)
        ]
        return brief(self, " against ".join(names), *lines, f"profiles: {', '.join(self.profiles)}")

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The counted profiles, in the order of the request."""
        return tuple(self.counted[0])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of single captions, as plain values for JSON; undefined values are None."""
        return {
            "protocol": dict(self.protocol),
            "features": {name: {profile: says(name, profile) for profile in self.profiles} for name in FEATURES},
            "collections": [
                {
                    "name": next(iter(counted.values())).name,
                    "fingerprint": next(iter(counted.values())).fingerprint,
                    "means": {
                        profile: [plain(asdict(mean)) for mean in by_feature] for profile, by_feature in of_one.items()
                    },
                }
                for counted, of_one in zip(self.counted, self.means, strict=True)
            ],
            "changes": {
                profile: [plain(asdict(change)) for change in by_feature.changes]
                for profile, by_feature in self.comparisons.items()
            },
        }


def granularity(
    source: Any,
    against: Any = None,
    *,
    profiles: Sequence[Profile] | Profile = BOTH,
    split: str | None = None,
    captions: str = "all",
    correction: Correction = "holm",
) -> GranularityStudy:
    """Count every feature in the captions of a collection, and compare with another collection of the same images.

    Args:
        source: The collection, or what `visir.open` takes.
        against: Other captions of the same images; differences are those of the collection minus these, paired by
            image.
        profiles: The profiles of counting: "paper", "strict", "per-noun".
        split: The split, on both sides; None is everything.
        captions: The choice of captions, on both sides ("first 5" gives COCO's usual 25,000).
        correction: The correction over the features of a profile.

    Returns:
        The study.

    Raises:
        VisirError: The correction or a profile is unknown.
        CollectionError: The two have no image in common.

    Example:
        >>> import visir
        >>> study = visir.granularity("scenes:12?size=64", profiles="strict")
        >>> study.profiles, {mean.feature: mean.mean for mean in study.means[0]["strict"]}["words"] > 5
        (('strict',), True)
    """
    stats.adjust([], correction)  # refuses an unknown name before the tagging, not after
    profiles = (profiles,) if isinstance(profiles, str) else tuple(profiles)
    faults = [f"unknown profile {name!r} ({nearest(name, PROFILES)})" for name in profiles if name not in PROFILES]
    raise_faults(ConfigurationError, "granularity", faults)
    given = (source, *([] if against is None else [against]))
    sides = [open_collection_of(side, None, "granularity").split(split) for side in given]
    counted = []
    for side in sides:
        chosen = choose(side, captions)
        words = cut_captions(chosen) if chosen.captions.num_rows else None  # cut and tagged once for all profiles
        counted.append({profile: count_features(chosen, profile, words=words) for profile in profiles})
    all_means = tuple({profile: means(features) for profile, features in by_profile.items()} for by_profile in counted)
    comparisons = {
        profile: compare(counted[1][profile], counted[0][profile], correction=correction)
        for profile in (profiles if against is not None else ())
    }
    rows: list[tuple[str, str]] = []
    for by_profile, role in zip(counted, ("collection", "against"), strict=False):
        first = by_profile[profiles[0]]
        rows.append((role, f"{first.name} · {first.fingerprint[:12]}"))
        images = pc.count_distinct(first.images).as_py()
        rows.append((f"{role}: captions", f"{len(first):,} of {images:,} images ({captions} of each image)"))
    rows.append(("split", split or "everything"))
    rows.append(("words", counted[0][profiles[0]].language))
    rows.append(("intervals", "95 %, of means: Student's t over images with all their captions"))
    for compared in list(comparisons.values())[:1]:
        alone = f"and {compared.only[1]:,} and {compared.only[0]:,} with captions on one side only"
        rows.append(("images in common", f"{compared.in_common:,} ({alone})"))
        test = "two-sided paired t-test over images"
        rows.append(("differences", f"{test}; {correction} over {len(compared.changes)} features of a profile"))
    return GranularityStudy(tuple(counted), all_means, comparisons, tuple(rows))


def says(feature: str, profile: Profile) -> str:
    """Describe a feature in a profile, in one line."""
    counted_feature = FEATURES.get(feature)
    if profile == "paper":
        return counted_feature.paper_says
    return (
        f"{counted_feature.strict_says}; per noun"
        if profile == "per-noun" and counted_feature.per_noun
        else counted_feature.strict_says
    )
