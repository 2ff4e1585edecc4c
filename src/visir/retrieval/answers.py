"""What a search finds: the check of k, rows and documents with their scores, and the run of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError, RunError
from visir.records import EncoderCard, Gallery, Run, Vectors, task_name

MOST = 2**31 - 1
"""The longest answer: documents of a gallery are numbered in 32 bits."""


def depth_fault(k: object, name: str = "k", *, most: int = MOST) -> str:
    """Return what is wrong with a number of answers, or ""."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        return f"{name} must be a whole number, not {k!r}"
    k = int(k)
    if k < 1:
        return f"{name} must be at least 1, not {k}"
    return f"{name} must be at most {most:,}" if k > most else ""


def check_depth(k: object, name: str = "k") -> None:
    """Check a number of answers."""
    if fault := depth_fault(k, name):
        raise RunError(f"{fault}.", hint="more than there are documents is no harm")


@dataclass(frozen=True)
class CandidateRows:
    """Rows of an index that may be the best of each query, and are still to be scored."""

    rows: NDArray[np.int64]  # (n, c) rows; -1 where there are fewer, and for deleted ones
    # (rows, d) float32, all vectors as they are compared, where a kind has them in memory.
    vectors: NDArray[np.float32] | None = None
    device: str = ""  # where all documents are compared for queries of too few candidates

    @classmethod
    def of_spans(cls, rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> CandidateRows:
        """Take the rows from `offsets[q]` to `offsets[q + 1]` for each query q."""
        counts = np.diff(offsets)
        held = np.arange(int(counts.max(initial=0))) < counts[:, None]
        matrix = np.full(held.shape, -1, np.int64)
        matrix[held] = rows
        return cls(matrix)


@dataclass(frozen=True)
class Hits:
    """Results of a search as parallel columns, in any order."""

    queries: NDArray[np.int64]  # (m,) the row of each query
    places: NDArray[np.int64]  # (m,) the position of each document in the sorted gallery; -1 for a deleted document
    scores: NDArray[np.float32]  # (m,) the scores
    in_order: bool = False  # whether they are the best k of each query as `best` returns them

    @classmethod
    def joined(cls, parts: list[Hits]) -> Hits:
        """Join several results into one."""
        if len(parts) == 1:
            return parts[0]
        columns = [(hits.queries, hits.places, hits.scores) for hits in parts]
        none: Any = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        queries, places, scores = map(np.concatenate, zip(none, *columns, strict=True))
        return cls(queries, places, scores)

    @classmethod
    def ordered(cls, places: NDArray[np.int64], scores: NDArray[np.float32], fill: NDArray[np.int64]) -> Hits:
        """Take the first `fill[q]` of the (n, k) best of each query q."""
        if len(fill) == 1:
            n = int(fill[0])
            return cls(np.zeros(n, np.int64), places[0, :n], scores[0, :n], in_order=True)
        filled = np.arange(places.shape[1]) < fill[:, None]
        return cls(np.repeat(np.arange(len(fill)), fill), places[filled], scores[filled], in_order=True)

    def best(self, queries: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the best `k` of each query: by falling score, ties by place."""
        query, place, score = self.queries, self.places, self.scores
        if self.in_order:
            if queries == 1:
                return np.array([0, len(place)]), place, score
            return np.searchsorted(query, np.arange(queries + 1)), place, score
        if len(place) and place.min() < 0:
            alive = place >= 0
            query, place, score = query[alive], place[alive], score[alive]
        score = score + np.float32(0)  # no -0
        order = np.lexsort((place, -score, query))
        counts = np.bincount(query, minlength=queries)
        if len(counts) and counts.max() > k:
            rank = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
            order, counts = order[rank < k], np.minimum(counts, k)
        offsets = np.zeros(queries + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        return offsets, place[order], score[order]


def check_finite_scores(run: Run) -> Run:
    """Return the run if all its scores are finite. Every search does this check, exact and indexed."""
    if np.isfinite(run.scores).all():
        return run
    bad = np.flatnonzero(~np.isfinite(run.scores))
    query = run.queries[int(np.searchsorted(run.offsets, bad[0], side="right")) - 1].as_py()
    document = run.documents[int(run.indices[bad[0]])].as_py()
    raise EmbeddingError(
        f"the score of query {query!r} and document {document!r} ({run.task}) is too large for float32.",
        hint="scale the vectors down; weights of a sparse encoder stay below 10",
        code="score-query-document-too",
    )


def run_of(
    hits: Hits, queries: Vectors, gallery: Gallery, k: int, held_by: EncoderCard, about: Any, documents: Any = None
) -> Run:
    """Return the best `k` documents of each query as a run: by falling score, ties by id."""
    # A query without a hit has an empty answer. documents: the ids of the places of the hits; None: the gallery's.
    encoder = queries.encoder
    offsets, places, scores = hits.best(len(queries), k)
    # What a server says is checked; what visir found itself is not.
    run = (Run.of_search if documents is None else Run)(
        name=encoder.name if encoder.name == held_by.name else f"{encoder.name} + {held_by.name}",
        task=task_name(queries.modality, gallery.modality),
        queries=queries.ids,
        offsets=offsets,
        documents=gallery.ids if documents is None else documents,
        indices=places.astype(np.int32),
        scores=scores,
        gallery=gallery,
        depth=k,
        provenance={
            **about,
            "queries": {"encoder": encoder.name, "fingerprint": encoder.fingerprint},
            "candidates": {"encoder": held_by.name, "fingerprint": held_by.fingerprint},
        },
    )
    return check_finite_scores(run)


def part_of(run: Run, entries: NDArray[np.bool_], queries: NDArray[np.bool_] | None = None) -> Run:
    """Return some entries of a run, for some of its queries; None: for all, also those without an entry."""
    # entries: (m,) mask of the entries; queries: (n,) mask of the queries.
    query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    counts = np.bincount(query[entries], minlength=len(run))
    ids = run.queries
    if queries is not None:
        ids, counts = ids.filter(pa.array(queries)), counts[queries]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(run, queries=ids, offsets=offsets, indices=run.indices[entries], scores=run.scores[entries])


def positions(ids: pa.StringArray, among: pa.StringArray | None) -> NDArray[np.int64]:
    """Return the (n,) position of each id in `among`, -1 for an unknown id."""
    places: NDArray[np.int64] = (
        pc.fill_null(pc.index_in(ids, among), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return places
