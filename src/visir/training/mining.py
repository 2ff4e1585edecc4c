"""The search for hard negatives in the training split, by the trained model as it is, or by a given one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import Collection
from visir.training.inputs.negatives import Mined

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]

_SCORES = 1 << 24
"""Scores held at a time: 64 MiB, whatever the size of the split."""


class Relevant:
    """Which pairs of a split are right: links, captions of one text, and what a judgement calls relevant.

    Args:
        anchor_rows: (m,) the image of each caption.
        texts: (m,) the captions.
        judged: (k, 2) rows of images and captions that belong together besides.
        images: How many there are.
    """

    def __init__(self, anchor_rows: Rows, texts: Sequence[str], judged: Rows, images: int) -> None:
        same: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            same.setdefault(" ".join(text.casefold().split()), []).append(row)
        self._of_image: list[set[int]] = [set() for _ in range(images)]
        self._of_caption: list[set[int]] = [set() for _ in texts]
        for rows in same.values():
            owners = set(anchor_rows[rows].tolist())
            for row in rows:
                self._of_caption[row] |= owners
            for owner in owners:
                self._of_image[owner].update(rows)
        for image, caption in judged.tolist():
            self._of_image[image].add(caption)
            self._of_caption[caption].add(image)

    def captions(self, image: int) -> list[int]:
        """The rows of captions that are right for an image."""
        return list(self._of_image[image])

    def images(self, caption: int) -> list[int]:
        """The rows of images for which a caption is right."""
        return list(self._of_caption[caption])


def relevant_in(split: Collection, anchor_rows: Rows) -> Relevant:
    """What is right in a split; a pair with a grade above 0 in any of its judgements is relevant."""
    judgements = split.judgements.filter(pc.greater(split.judgements["grade"], 0))
    images = pc.index_in(judgements["image_id"], split.images["id"].combine_chunks())
    captions = pc.index_in(judgements["caption_id"], split.captions["id"].combine_chunks())
    judged = np.stack([np.asarray(rows.to_numpy(), np.int64) for rows in (images, captions)], axis=1)
    return Relevant(anchor_rows, split.captions["text"].to_pylist(), judged, split.images.num_rows)


def nearest_wrong(
    queries: Vectors, candidates: Vectors, right: Sequence[Sequence[int]], count: int, skip: int = 0
) -> Rows:
    """(n, count) rows of the candidates nearest to each query that are not right for it, the nearest first; -1 is none.

    Args:
        queries: (n, d) unit vectors.
        candidates: (m, d) unit vectors.
        right: Of each query, the candidates that are right.
        count: How many.
        skip: So many of the nearest are left out.
    """
    chosen = np.full((len(queries), count), -1, np.int64)
    wanted = min(count + skip, len(candidates))
    block = max(1, _SCORES // max(1, len(candidates)))
    for start in range(0, len(queries), block):
        scores = queries[start : start + block] @ candidates.T
        for row, answers in enumerate(right[start : start + block]):
            scores[row, list(answers)] = -np.inf
        nearest = np.argpartition(-scores, wanted - 1, axis=1)[:, :wanted]
        values = np.take_along_axis(scores, nearest, axis=1)
        order = np.lexsort((nearest, -values), axis=1)[:, skip:]  # of equally near ones, the first row
        nearest, values = np.take_along_axis(nearest, order, axis=1), np.take_along_axis(values, order, axis=1)
        chosen[start : start + block, : nearest.shape[1]] = np.where(np.isneginf(values), -1, nearest)
    return chosen


def search(mined: Mined, relevant: Relevant, images: Vectors, captions: Vectors) -> None:
    """Fill `mined` from unit vectors of all images and captions of the split."""
    settings = mined.settings
    if settings.of != "images":
        right = [relevant.captions(row) for row in range(len(images))]
        mined.captions = nearest_wrong(images, captions, right, settings.nearest, settings.skip)
    if settings.of != "captions":
        right = [relevant.images(row) for row in range(len(captions))]
        mined.images = nearest_wrong(captions, images, right, settings.nearest, settings.skip)
