"""Answers found here and there, in any order, as one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import EncoderCard, Gallery, Modality, Run, task_name


@dataclass(frozen=True)
class Hits:
    """Parallel columns: the query (its place), the document (its place in the gallery, -1 for deleted), the score."""

    queries: NDArray[np.int64]
    places: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def joined(cls, some: list[Hits]) -> Hits:
        """All of them."""
        if not some:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        if len(some) == 1:
            return some[0]
        return cls(*(np.concatenate([getattr(hits, name) for hits in some]) for name in cls.__dataclass_fields__))


def check_finite_scores(run: Run) -> Run:
    """The run, unless a score is not a finite number: what does not fit into float32 can be in no order.

    Every search passes this, exact and indexed. Raises `EmbeddingError` naming the first such pair.
    """
    bad = np.flatnonzero(~np.isfinite(run.scores))
    if len(bad) == 0:
        return run
    query = run.queries[int(np.searchsorted(run.offsets, bad[0], side="right")) - 1].as_py()
    document = run.documents[int(run.indices[bad[0]])].as_py()
    raise EmbeddingError(
        f"the score of query {query!r} and document {document!r} ({run.task}) is too large for float32.",
        hint="scale the vectors down; weights of a sparse encoder stay below 10",
    )


def run_of(
    hits: Hits,
    queries: pa.StringArray,
    by: tuple[Modality, EncoderCard],
    gallery: Gallery,
    k: int,
    held_by: EncoderCard,
    about: Any,
) -> Run:
    """The best `k` of each query as a `Run`: by falling score, ties by id. No document may be found twice.

    `by`: what the queries hold, and who encoded them.

    A query for which nothing was found is answered with nothing. Raises `EmbeddingError` for a score beyond float32.
    """
    modality, encoder = by
    alive = hits.places >= 0
    query, place, score = hits.queries[alive], hits.places[alive], hits.scores[alive] + np.float32(0)  # no -0
    order = np.lexsort((place, -score, query))
    query, place, score = query[order], place[order], score[order]
    counts = np.bincount(query, minlength=len(queries))
    rank = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    within = rank < k
    run = Run(
        name=" + ".join(dict.fromkeys([encoder.name, held_by.name])),
        task=task_name(modality, gallery.modality),
        queries=queries,
        offsets=np.concatenate([[0], np.cumsum(np.minimum(counts, k))]).astype(np.int64),
        documents=gallery.ids,
        indices=place[within].astype(np.int32),
        scores=score[within],
        gallery=gallery,
        depth=k,
        provenance={
            **about,
            "queries": {"encoder": encoder.name, "fingerprint": encoder.fingerprint},
            "candidates": {"encoder": held_by.name, "fingerprint": held_by.fingerprint},
        },
    )
    return check_finite_scores(run)
