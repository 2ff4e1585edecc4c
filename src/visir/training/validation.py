"""Validation while training: hits and their sum, nothing else.

Published figures come from `visir.evaluation`, under a protocol. This is the quick count by which an epoch is chosen; a
test checks that it equals the measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.training.inputs.base import InputSource

CUTOFFS = (1, 5, 10)
_ENCODED = 128
SCORES = 1 << 24
"""Scores held at a time: 64 MiB, whatever the size of the split."""


def encode_source(source: InputSource, vectors_of: Callable[[Inputs], Tensor]) -> NDArray[np.float32]:
    """(n, …) vectors of a whole source as in use (nothing drawn), in blocks; the next one is read meanwhile."""
    blocks = []
    with torch.inference_mode():
        for inputs in _inputs(source):
            blocks.append(vectors_of(inputs).float().cpu().numpy())  # noqa: PERF401 (one block at a time)
    return np.concatenate(blocks)


def _inputs(source: InputSource) -> Iterator[Inputs]:
    rows = np.array_split(np.arange(len(source)), -(-len(source) // _ENCODED))
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(source.batch, rows[0])
        for following in rows[1:]:
            inputs, coming = coming.result(), reader.submit(source.batch, following)
            yield inputs
        yield coming.result()


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
    """(n,) the rank, from 1, of each query's best positive.

    Ties, and NaN, count against the query (`~(a < b)` rather than `a >= b`), so that a space that collapsed to one
    point scores nothing.

    Args:
        scores: (n, m) of queries and candidates.
        positive: (n, m) whether a candidate is one of the query's positives.
    """
    best = np.where(positive, scores, -np.inf).max(axis=1, keepdims=True)
    ranks: NDArray[np.int64] = 1 + (~(scores < best) & ~positive).sum(axis=1)
    return ranks
