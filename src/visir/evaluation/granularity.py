"""The granularity of the captions of one collection, or of two with the same images, under a declared protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import pyarrow.compute as pc

from visir.display import Plotted, Tabular, brief
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.captions import choose
from visir.evaluation.granularity_statistics import GranularityComparison, Mean, compare, means
from visir.evaluation.saved import Saved
from visir.evaluation.significance import Correction, corrected
from visir.evaluation.sources import open_collection_of
from visir.records import Collection
from visir.robustness.granularity import FEATURES, PROFILES, Granularity, Profile, cut_captions
from visir.robustness.granularity import granularity as count_features

BOTH: tuple[Profile, ...] = ("paper", "strict")


@dataclass(frozen=True)
class GranularityStudy(
    Tabular, Plotted, Saved, view="visir.reports.views.granularity", writer="visir.reports.saving:save_granularity"
):
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
                        profile: [_plain(asdict(mean)) for mean in by_feature] for profile, by_feature in of_one.items()
                    },
                }
                for counted, of_one in zip(self.counted, self.means, strict=True)
            ],
            "changes": {
                profile: [_plain(asdict(change)) for change in by_feature.changes]
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
        against: Other captions of the same images; differences are `source` − `against`, paired by image.
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
    corrected([], correction)  # refuses an unknown name before the tagging, not after
    profiles = (profiles,) if isinstance(profiles, str) else tuple(profiles)
    faults = [f"unknown profile {name!r} ({nearest(name, PROFILES)})" for name in profiles if name not in PROFILES]
    raise_faults(ConfigurationError, "granularity", faults)
    given = (source, *([] if against is None else [against]))
    sides = [open_collection_of(side, None, "granularity").split(split) for side in given]
    counted = tuple(granularities(side, profiles, captions=captions) for side in sides)
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
    return GranularityStudy(counted, all_means, comparisons, tuple(rows))


def granularities(
    collection: Collection, profiles: Sequence[Profile] = BOTH, *, captions: str = "all"
) -> dict[Profile, Granularity]:
    """Count every feature in each profile; the words are cut and tagged once."""
    chosen = choose(collection, captions)
    words = cut_captions(chosen) if chosen.captions.num_rows else None
    return {profile: count_features(chosen, profile, words=words) for profile in profiles}


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


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in row.items()}
