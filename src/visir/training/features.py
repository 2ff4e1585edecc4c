"""Frozen features of one split, in memory: what heads are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import CollectionError
from visir.records import Collection, Embeddings


@dataclass(frozen=True, eq=False)
class Features:
    """The vectors of a split's images and captions, and which caption belongs to which image.

    - `images`: (v, n, d_i), v views of each of n images; `texts`: (m, d_t): what the backbones gave, float32
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
    def of(cls, split: Collection, images: Sequence[Embeddings], texts: Embeddings) -> Features:
        """Bring together a split, the embeddings of its images under one or more views, and those of its captions.

        Images without a caption stay: they are candidates in validation. A split without captions is an error.
        """
        if split.captions.num_rows == 0:
            raise CollectionError(
                f"{split.name}: no captions in {' and '.join(map(repr, split.splits))}; heads learn from pairs.",
                hint="choose other splits: data.train and data.validation",
            )
        views = [view.select(split.images["id"]) for view in images]
        texts = texts.select(split.captions["id"])
        return cls(
            np.stack([view.vectors for view in views]).astype(np.float32, copy=False),
            np.asarray(texts.vectors, np.float32),
            views[0].rows(split.captions["image_id"]),
            split.captions["id"].to_pylist(),
            {
                "split": split.fingerprint,
                "image backbone": [view.encoder.fingerprint for view in views],
                "text backbone": texts.encoder.fingerprint,
            },
        )
