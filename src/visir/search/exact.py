"""Exact search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from visir.records import CANDIDATES, Direction, Embeddings, Gallery, Qrels, Ranks, Run, Ties
from visir.search.ranks import ranks_of

Similarity = Literal["cosine", "dot"]


@dataclass(frozen=True)
class Searched:
    """What a search returns: the run, and the ranks of all positives (to the end of the gallery) if qrels were given."""

    run: Run
    ranks: Ranks | None


def search(
    queries: Embeddings,
    candidates: Embeddings,
    direction: Direction,
    *,
    gallery: Gallery | None = None,
    depth: int = 100,
    similarity: Similarity = "cosine",
    ties: Ties = "id",
    qrels: Qrels | None = None,
    name: str | None = None,
) -> Searched:
    """Search one direction."""
    gallery = gallery or Gallery.of(CANDIDATES[direction], candidates.ids, f"all encoded {CANDIDATES[direction]}s")
    asked = qrels.queries if qrels is not None else queries.ids.take(pa.compute.sort_indices(queries.ids))
    q, c = queries.select(asked), candidates.select(gallery.ids)
    if similarity == "cosine":
        q, c = q.normalise(), c.normalise()
    scores = (q.vectors.astype(np.float64) @ c.vectors.astype(np.float64).T).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")
    full = Run(
        name or queries.encoder.name,
        direction,
        asked,
        np.arange(len(asked) + 1, dtype=np.int64) * gallery.size,
        gallery.ids,
        order.ravel().astype(np.int32),
        np.take_along_axis(scores, order, 1).ravel(),
        gallery,
        gallery.size,
    )
    return Searched(full.cut(depth), None if qrels is None else ranks_of(full, qrels, ties))


def search_both(
    images: Embeddings,
    texts: Embeddings,
    *,
    galleries: Mapping[Direction, Gallery] | None = None,
    depth: int = 100,
    similarity: Similarity = "cosine",
    ties: Ties = "id",
    qrels: Mapping[Direction, Qrels] | None = None,
    name: str | None = None,
) -> dict[Direction, Searched]:
    """Search both directions."""
    galleries, qrels = galleries or {}, qrels or {}
    sides: dict[Direction, tuple[Embeddings, Embeddings]] = {"i2t": (images, texts), "t2i": (texts, images)}
    return {
        d: search(
            a,
            b,
            d,
            gallery=galleries.get(d),
            depth=depth,
            similarity=similarity,
            ties=ties,
            qrels=qrels.get(d),
            name=name,
        )
        for d, (a, b) in sides.items()
    }
