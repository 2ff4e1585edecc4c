"""Validation while training: hits and their sum, nothing else.

Published figures come from `visir.evaluation`, under a protocol. This is the quick count by which an epoch is chosen; a
test checks that it equals the measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.records import Collection
from visir.shortcuts.view import plain
from visir.training.data import image_rows_of
from visir.training.inputs.base import EpochRandom, InputSource, Mined, made_ahead
from visir.training.sides import MinedNegatives

# The search for hard negatives in the training split, by the trained model as it is, or by a given one.

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]

CUTOFFS = (1, 5, 10)
_ENCODED = 128
SCORES = 1 << 24
"""Scores held at a time: 64 MiB, whatever the size of the split."""


def plain_words(text: str) -> str:
    """Return a text without its case and with single spaces: texts that differ in these alone say the same."""
    return " ".join(text.casefold().split())


def right_pairs(
    anchor_rows: Rows, texts: Sequence[str], judged: Rows, images: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Which pairs of a split are right: links, captions of one text, and what was judged relevant."""
    # anchor_rows: (m,) the image of each caption.
    # texts: (m,) the captions.
    # judged: (k, 2) rows of images and captions that belong together besides.
    same: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        same.setdefault(plain_words(text), []).append(row)
    of_image: list[set[int]] = [set() for _ in range(images)]
    of_caption: list[set[int]] = [set() for _ in texts]
    for rows in same.values():
        owners = set(anchor_rows[rows].tolist())
        for row in rows:
            of_caption[row] |= owners
        for owner in owners:
            of_image[owner].update(rows)
    for image, caption in judged.tolist():
        of_image[image].add(caption)
        of_caption[caption].add(image)
    return [sorted(rows) for rows in of_image], [sorted(rows) for rows in of_caption]


def mined_over(split: Collection, settings: MinedNegatives) -> Mined:
    """What a search for a split's hard negatives begins from."""
    # A pair with a grade above 0 in any of the collection's judgements is right.
    anchor_rows = image_rows_of(split)
    judgements = split.judgements.filter(pc.greater(split.judgements["grade"], 0))
    images = pc.index_in(judgements["image_id"], split.images["id"].combine_chunks())
    captions = pc.index_in(judgements["caption_id"], split.captions["id"].combine_chunks())
    judged = np.stack([np.asarray(rows.to_numpy(), np.int64) for rows in (images, captions)], axis=1)
    texts: list[str] = plain(split).captions["text"].to_pylist()
    first = np.full(split.images.num_rows, -1, np.int64)
    first[anchor_rows[::-1]] = np.arange(len(anchor_rows))[::-1]
    right = right_pairs(anchor_rows, texts, judged, split.images.num_rows)
    return Mined(settings, first, right, as_trained=split.injected is not None)


def nearest_wrong(
    queries: Vectors, candidates: Vectors, right: Sequence[Sequence[int]], count: int, skip: int = 0
) -> Rows:
    """(n, count) rows of the candidates nearest to each query that are not right for it, the nearest first; -1 is
    none."""
    # queries: (n, d) unit vectors.
    # candidates: (m, d) unit vectors.
    chosen = np.full((len(queries), count), -1, np.int64)
    wanted = min(count + skip, len(candidates))
    block = max(1, SCORES // max(1, len(candidates)))
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


def search(mined: Mined, anchors: Vectors, positives: Vectors) -> tuple[Rows | None, Rows | None]:
    """The captions that are near each image and wrong, and the images that are near each caption and wrong."""
    # anchors: (n, d) unit vectors of all images of the split.
    # positives: (m, d) unit vectors of all captions.
    settings, (of_anchors, of_positives) = mined.settings, mined.right
    depth = settings.nearest, settings.skip
    captions = None if settings.of == "images" else nearest_wrong(anchors, positives, of_anchors, *depth)
    images = None if settings.of == "captions" else nearest_wrong(positives, anchors, of_positives, *depth)
    return captions, images


# Hits and their sum on a split.


def encode_source(
    source: InputSource,
    vectors_of: Callable[[Inputs], Tensor],
    draw: EpochRandom | None = None,
    keys: Rows | None = None,
) -> Vectors:
    """(n, …) vectors of a whole source, in blocks; the next one is read meanwhile."""
    # As in use, where nothing is drawn; or as the training of an epoch sees it, `keys` (n,) being the pair beside which
    # each item stands.

    def read(rows: Rows) -> Inputs:
        return source.batch(rows) if keys is None else source.batch(rows, draw, np.maximum(keys[rows], 0))

    blocks = []
    cuts = np.array_split(np.arange(len(source)), -(-len(source) // _ENCODED))
    with torch.inference_mode(), closing(made_ahead(read, cuts, 1, 2)) as coming:
        for inputs in coming:
            blocks.append(vectors_of(inputs).float().cpu().numpy())  # noqa: PERF401 (one block at a time)
    return np.concatenate(blocks)


def validate(
    anchors: NDArray[np.float32],
    positives: NDArray[np.float32],
    anchor_rows: NDArray[np.int64],
    tasks: tuple[str, str] = ("i2t", "t2i"),
) -> dict[str, float]:
    """Count hits in both directions. An anchor without a positive is a candidate but no query."""
    # anchors: (n, d) unit vectors.
    # positives: (m, d) unit vectors.
    # anchor_rows: (m,) the row of each positive's anchor.
    rows = np.arange(len(anchors))
    queries = np.unique(anchor_rows)
    to_positives, to_anchors = tasks
    ranks = {
        to_positives: _first_ranks(anchors[queries], queries, positives, anchor_rows),
        to_anchors: _first_ranks(positives, anchor_rows, anchors, rows),
    }
    return figures_of(ranks)


def figures_of(ranks: Mapping[str, NDArray[np.int64]]) -> dict[str, float]:
    """hit@1, @5, @10 of each direction in percent, and "rsum", their sum."""
    values = {f"{task} hit@{k}": 100.0 * float((first <= k).mean()) for task, first in ranks.items() for k in CUTOFFS}
    return {**values, "rsum": sum(values.values())}


def _first_ranks(
    queries: NDArray[np.float32],
    query_anchors: NDArray[np.int64],
    candidates: NDArray[np.float32],
    candidate_anchors: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The rank, from 1, of each query's best positive: the candidates of the same anchor are its positives."""
    ranks = np.empty(len(queries), np.int64)
    block = max(1, SCORES // len(candidates))
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        scores = queries[part] @ candidates.T
        positive = query_anchors[part, None] == candidate_anchors[None, :]
        ranks[part] = ranks_of(scores, positive)
    return ranks


def ranks_of(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(n,) the rank, from 1, of each query's best positive; `positive` (n, m) says which candidates are."""
    # Ties, and NaN, count against the query (`~(a < b)` rather than `a >= b`), so that a space that collapsed to one
    # point scores nothing.
    best = np.where(positive, scores, -np.inf).max(axis=1, keepdims=True)
    ranks: NDArray[np.int64] = 1 + (~(scores < best) & ~positive).sum(axis=1)
    return ranks
