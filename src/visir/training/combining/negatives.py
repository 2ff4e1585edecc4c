"""Hard negatives of composed queries: pictures that are like the one the query begins from, and not right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.training.inputs.base import EpochRandom, InputSource
from visir.training.inputs.positional_random import NEGATIVES, uniform
from visir.training.inputs.vectors import VectorSource

POOL = 32
"""How many pictures that are alike a query draws its negatives from."""
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class AlikeNegatives:
    """The nearest pictures of each query's picture, by the frozen vectors; a `NegativeSource`."""

    # A model that gives back the picture it was given, or one like it, has not read the text. The pictures of other
    # queries in a batch do not teach that: they are unlike. The picture itself is among its nearest where it is a
    # document.

    documents: VectorSource  # the vectors of all documents
    nearest: NDArray[np.int64]  # (n, p) rows of documents for each query, −1 where there are fewer
    count: int  # how many of them stand beside each pair

    def positives(
        self, source: InputSource, anchor_rows: NDArray[np.int64], rows: NDArray[np.int64], draw: EpochRandom
    ) -> tuple[tuple[Inputs, ...], Tensor]:
        """`count` pictures of each pair, drawn anew every epoch; none of them belongs to a query of the batch."""
        own = self.nearest[anchor_rows[rows]]
        there = (own >= 0).sum(axis=1)
        inputs: list[Inputs] = []
        belong = []
        for number in range(self.count):
            drawn = uniform(draw, NEGATIVES, rows * self.count + number)
            chosen = own[np.arange(len(rows)), (drawn * np.maximum(there, 1)).astype(np.int64)]
            inputs.append(self.documents.batch(np.maximum(chosen, 0)))
            # A row that no query has; a query without such pictures gets one that counts for nothing: its own.
            belong.append(np.where(chosen < 0, anchor_rows[rows], len(self.nearest) + chosen))
        return tuple(inputs), torch.from_numpy(np.stack(belong, axis=1))

    def anchors(
        self, source: InputSource, anchor_rows: NDArray[np.int64], rows: NDArray[np.int64], draw: EpochRandom
    ) -> None:
        """None: a picture has no hard queries."""


def nearest_pictures(
    images: NDArray[np.float32], documents: NDArray[np.float32], right: NDArray[np.bool_], count: int = POOL
) -> NDArray[np.int64]:
    """The documents that are nearest to the picture of each query by cosine, and not right."""
    # images: (q, d) the pictures of the queries.
    # documents: (m, d) all documents of their task.
    # right: (q, m) whether a document is right.
    # Returns: (q, count) rows of documents, nearest first, −1 where there are fewer.
    unit = [part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in (images, documents)]
    width = min(count, len(documents))
    nearest = np.full((len(images), count), -1, np.int64)
    for start in range(0, len(images), _BLOCK):
        scores = unit[0][start : start + _BLOCK] @ unit[1].T
        scores[right[start : start + _BLOCK]] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :width]
        left = np.take_along_axis(scores, best, axis=1) > -np.inf
        nearest[start : start + len(scores), :width] = np.where(left, best, -1)
    return nearest
