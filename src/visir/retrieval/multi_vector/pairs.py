"""Exact MaxSim scores of single pairs, equal to the scores of a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.multi_vector import kernels
from visir.retrieval.multi_vector.sides import TokenSide, cut
from visir.threads import Share, piece, spread

PAIRS = 65_536
"""Pairs scored at once."""
VECTORS = 2**18
"""Vectors of documents read at once (128 MiB of 128 float32)."""


def score_token_places(
    queries: TokenSide, query_places: NDArray[np.int64], documents: TokenSide, document_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    # query_places: (p,) positions among the queries.
    # document_places: (p,) positions among the documents.
    scores = np.empty(len(query_places), np.float32)
    order = np.argsort(document_places, kind="stable") if documents.on_disk else np.arange(len(scores))
    counts = np.diff(documents.offsets)[document_places[order]]
    for start, stop in cut(np.concatenate([[0], np.cumsum(counts)]), VECTORS, PAIRS):
        pairs = order[start:stop]
        pairs = pairs[np.argsort(query_places[pairs], kind="stable")]
        left, right = queries.gather(query_places[pairs]), documents.gather(document_places[pairs])
        out = np.empty(len(pairs), np.float32)

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            kernels.score_pairs(*left[:2], left[2][a:b], *right[:2], right[2][a:b], out[a:b])  # noqa: B023

        spread(share)
        scores[pairs] = out
    return scores
