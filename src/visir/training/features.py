"""Frozen features of one split, in memory: what heads are trained on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import CollectionError
from visir.fingerprint import hash_json
from visir.records import Collection, Embeddings


@dataclass(frozen=True, eq=False)
class Features:
    """The vectors of a split's images and captions, and which caption belongs to which image.

    - `images`: (n, d_i); `texts`: (m, d_t): what the two backbones gave, float32
    - `owners`: (m,) int64, the row in `images` of each caption's image
    - `captions`: (m,) caption ids, for messages
    - `origin`: what the vectors are: fingerprints of the split and of both backbones
    """

    images: NDArray[np.float32]
    texts: NDArray[np.float32]
    owners: NDArray[np.int64]
    captions: list[str]
    origin: dict[str, Any]

    @classmethod
    def of(cls, split: Collection, images: Embeddings, texts: Embeddings) -> Features:
        """Bring together a split and the embeddings of (at least) its images and captions.

        Images without a caption stay: they are candidates in validation. A split without captions is an error.
        """
        if split.captions.num_rows == 0:
            raise CollectionError(
                f"{split.name}: no captions in {' and '.join(map(repr, split.splits))}; heads learn from pairs.",
                hint="choose other splits: data.train and data.validation",
            )
        images = images.select(split.images["id"])
        texts = texts.select(split.captions["id"])
        return cls(
            np.asarray(images.vectors, np.float32),
            np.asarray(texts.vectors, np.float32),
            images.rows(split.captions["image_id"]),
            split.captions["id"].to_pylist(),
            {
                "split": split.fingerprint,
                "image backbone": images.encoder.fingerprint,
                "text backbone": texts.encoder.fingerprint,
            },
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over `origin`: an interrupted training goes on only over the same features."""
        return hash_json(self.origin)

    @property
    def bytes(self) -> int:
        """What the vectors take in memory."""
        return self.images.nbytes + self.texts.nbytes
