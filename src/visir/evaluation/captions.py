"""The choice of captions of each image: all, the first, the first N, or one at random.

Papers differ in this choice and rarely report it: COCO's "25,000 captions" are the first five of each image (ten images
of the test split have a sixth), product collections have one, and some studies draw one of five at random. A caption
that takes part is both a query of text-to-image search and a candidate of image-to-text search.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest
from visir.records import Collection

FORMS = ("all", "first", "first 5", "random", "random(seed=0)")


@dataclass(frozen=True)
class CaptionChoice:
    """A choice of captions."""

    kind: str  # "all", "first" (the first `count` of each image) or "random" (one of each image)
    count: int = 1  # how many of each image, for "first"
    seed: int = 0  # the seed, for "random"

    @classmethod
    def parse(cls, text: str) -> CaptionChoice:
        """Read a choice from its written form."""
        if text == "all":
            return cls("all")
        match = re.fullmatch(r"first(?: (\d+))?", text)
        if match and match[1] != "0":
            return cls("first", count=int(match[1] or 1))
        match = re.fullmatch(r"random(?:\(seed=(\d+)\))?", text)
        if match:
            return cls("random", seed=int(match[1] or 0))
        raise ConfigurationError(f"unknown choice of captions {text!r}", hint=nearest(text, FORMS))

    def __str__(self) -> str:
        if self.kind == "first":
            return "first" if self.count == 1 else f"first {self.count}"
        return f"random(seed={self.seed})" if self.kind == "random" else "all"

    def keep(self, ids: pa.Array, images: pa.Array) -> NDArray[np.bool_]:
        """Choose among captions."""
        # The random caption of an image is the one with the lowest hash of (seed, caption id). So the choice does not
        # depend on the order of the captions, and more images in a collection do not change it for the others.
        # ids: (n,) the ids of the captions, in the source's order.
        # images: (n,) the image of each.
        # Returns: (n,) which captions take part.
        if self.kind == "all":
            return np.ones(len(ids), bool)
        group = images.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        if self.kind == "first":
            order = np.argsort(group, kind="stable")
        else:
            order = np.lexsort((_hashes(ids, self.seed), group))
        grouped = group[order]
        starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
        place = np.arange(len(order)) - np.repeat(starts, np.diff(np.concatenate([starts, [len(order)]])))
        keep = np.zeros(len(ids), bool)
        keep[order[place < self.count]] = True
        return keep


def choose(collection: Collection, captions: str) -> Collection:
    """Reduce a collection to the chosen captions and their judgements."""
    choice = CaptionChoice.parse(captions)
    if choice.kind == "all" or collection.captions.num_rows == 0:
        return collection
    columns = collection.captions
    keep = choice.keep(columns["id"].combine_chunks(), columns["image_id"].combine_chunks())
    return keep_captions(collection, pa.array(keep))


def keep_captions(collection: Collection, keep: pa.Array) -> Collection:
    """Reduce a collection to some of its captions and their judgements."""
    # keep: (n,) a mask over its captions.
    captions = collection.captions.filter(keep)
    left = captions["id"]
    judged = collection.judgements.filter(pc.is_in(collection.judgements["caption_id"], left))
    facts = collection.caption_facts
    if facts is not None:
        facts = facts.filter(pc.is_in(facts["caption_id"], left))
    return replace(collection, captions=captions, judgements=judged, caption_facts=facts)


def _hashes(ids: pa.Array, seed: int) -> NDArray[np.uint64]:
    key = f"visir captions {seed}".encode()
    digests = b"".join(
        hashlib.blake2b(identifier.encode(), key=key, digest_size=8).digest() for identifier in ids.to_pylist()
    )
    return np.frombuffer(digests, dtype="<u8")
