"""The granularity of a collection: every feature of every caption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import pyarrow as pa

from visir.display import Displayed
from visir.errors import CollectionError, ConfigurationError, nearest
from visir.records import Collection
from visir.records.columns import strings
from visir.robustness.granularity.features import FEATURES, PROFILES, Profile, TokenColumns, Values, share
from visir.robustness.language.tagged_captions import TaggedCaptions


@dataclass(frozen=True, eq=False, repr=False)
class Granularity(Displayed):
    """The features of the captions of a collection, in one profile.

    Args:
        name: The name of the collection.
        fingerprint: The fingerprint of the collection.
        profile: Which definitions were used.
        captions: (n,) the id of each caption, in the collection's order.
        images: (n,) the id of its image.
        values: Feature → (n,) its value for each caption; NaN where it is not defined (the depth of a caption without a
            known word).
        language: Who cut and tagged the words, and which WordNet.
    """

    name: str
    fingerprint: str
    profile: Profile
    captions: pa.StringArray
    images: pa.StringArray
    values: Mapping[str, Values]
    language: str

    def __len__(self) -> int:
        return len(self.captions)

    def mean(self, feature: str) -> float:
        """The mean over the captions for which the feature is defined; NaN when there is none."""
        values = self.values[feature]
        defined = values[~np.isnan(values)]
        return float(defined.mean()) if len(defined) else float("nan")

    def to_arrow(self) -> pa.Table:
        """One row per caption: `caption_id`, `image_id`, a column per feature (null where it is not defined)."""
        columns = {name: pa.array(values, from_pandas=True) for name, values in self.values.items()}
        return pa.table({"caption_id": self.captions, "image_id": self.images, **columns})


def granularity(
    collection: Collection, profile: Profile = "strict", *, words: TaggedCaptions | None = None
) -> Granularity:
    """Count every feature (`FEATURES`) in every caption of a collection.

    Which captions take part is the caller's choice: COCO's test split has five per image in the papers, and six of ten
    images in the file.

    Args:
        collection: The collection.
        profile: "strict" counts what the names say; "paper" comes nearest to Table 1; "per-noun" is strict with the
            features of noun phrases divided by the caption's nouns, as the paper's text words it.
        words: The captions, cut and tagged, in the collection's order, where that has been done (`language.tagging`).

    Raises:
        CollectionError: Where there are no captions.
        ConfigurationError: For an unknown profile.

    Example:
        >>> from visir.collections import open_collection
        >>> features = granularity(open_collection("scenes:12?size=64"))
        >>> round(features.mean("words"), 1)
        14.9
    """
    if profile not in PROFILES:
        raise ConfigurationError(
            f"unknown profile {profile!r}", hint=nearest(profile, PROFILES), code="unknown-profile"
        )
    if collection.captions.num_rows == 0:
        raise CollectionError(
            f"{collection.name}: no captions to look at.", hint="is the split right?", code="no-captions-look"
        )
    if words is None:
        words = cut_captions(collection)
    tokens = TokenColumns(words)
    values = {
        name: feature.paper(tokens) if profile == "paper" else feature.strict(tokens)
        for name, feature in FEATURES.items()
    }
    if profile == "per-noun":
        nouns = tokens.sum(tokens.nouns)
        values |= {name: share(values[name], nouns) for name, feature in FEATURES.items() if feature.per_noun}
    return Granularity(
        collection.name,
        collection.fingerprint,
        profile,
        strings(collection.captions["id"]),
        strings(collection.captions["image_id"]),
        values,
        f"HanTa {version('HanTa')}, WordNet 3.0",
    )


def cut_captions(collection: Collection) -> TaggedCaptions:
    """The collection's captions, cut into words and tagged (kept on disk from then on)."""
    from visir.robustness.language.tagging import cut

    return cut(strings(collection.captions["text"]))
