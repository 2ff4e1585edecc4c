"""Search within pools: every query has its own few candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import (
    Embeddings,
    Gallery,
    MultiVectorEmbeddings,
    Pools,
    Qrels,
    Ranks,
    Run,
    SparseEmbeddings,
    Ties,
    Vectors,
)
from visir.retrieval.exact import similarity_of
from visir.retrieval.multi_vector.pairs import score_token_places
from visir.retrieval.multi_vector.sides import TokenSide
from visir.retrieval.pairs import score_places
from visir.retrieval.ranks import ranks_of
from visir.retrieval.vectors import Side, Similarity, check_same_dimension


def search_pools(
    queries: Vectors,
    documents: Vectors,
    pools: Pools,
    gallery: Gallery,
    *,
    task: str,
    similarity: Similarity | None = None,
    name: str | None = None,
) -> Run:
    """Return a run that orders the candidates of each query by score, ties by document id."""
    # A score is the same number that `visir.retrieval.exact.search` gives the pair.
    if len(pools) == 0:
        raise RunError(f"task {task}: no query has a pool.", hint="do judgements and pools name the same queries?")
    scored_by = similarity_of(similarity, queries, documents)
    candidates = pools.documents.unique()
    rows, columns = queries.rows(pools.queries), documents.rows(candidates)
    column = pc.index_in(pools.documents, candidates).to_numpy().astype(np.int64)
    scores = _scores(queries, rows, documents, columns, pools.query_rows, column, scored_by)
    return Run.ranked(
        name or " + ".join(dict.fromkeys([queries.encoder.name, documents.encoder.name])),
        task,
        pools.queries.take(pa.array(pools.query_rows)),
        pools.documents,
        scores,
        gallery,
        depth=int(np.diff(pools.offsets).max()),
        provenance={
            "search": "exact, within pools",
            "similarity": scored_by,
            "pools": pools.fingerprint,
            "queries": {"encoder": queries.encoder.name, "fingerprint": queries.encoder.fingerprint},
            "candidates": {"encoder": documents.encoder.name, "fingerprint": documents.encoder.fingerprint},
        },
    )


def in_pools(run: Run, pools: Pools) -> NDArray[np.bool_]:
    """Return (m,) whether each answer of a run is in the pool of its query."""
    listed = pc.fill_null(pc.index_in(run.queries, pools.queries), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    row = np.repeat(listed, np.diff(run.offsets))
    names = pools.documents.unique()
    # int64: a row times the number of documents exceeds 32 bits soon.
    place = pc.fill_null(pc.index_in(run.documents, names), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    column = place[run.indices]
    pairs = pools.query_rows * len(names) + pc.index_in(pools.documents, names).to_numpy()
    inside: NDArray[np.bool_] = (row >= 0) & (column >= 0) & np.isin(row * len(names) + column, pairs)
    return inside


def within_pools(run: Run, pools: Pools) -> Run:
    """Return the run with only the candidates of each query."""
    inside = in_pools(run, pools)
    if not inside.any():
        raise RunError(f"run {run.name} ({run.task}): none of its answers is a candidate of its query.")
    query = np.repeat(np.arange(len(run)), np.diff(run.offsets))[inside]
    lengths = np.bincount(query, minlength=len(run))
    return replace(
        run,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=run.indices[inside],
        scores=run.scores[inside],
    )


def ranks_in_pools(run: Run, pools: Pools, qrels: Qrels, ties: Ties = "id") -> Ranks:
    """Return the ranks of the positives among the candidates of each query."""
    part = within_pools(run, pools)
    ranks = ranks_of(part, qrels, ties)
    candidates = _lengths(pools.queries, pools.offsets, qrels.queries)
    answered = _lengths(part.queries, part.offsets, qrels.queries)
    short = answered < candidates
    depth = int(answered[short].min()) if short.any() else None  # a run that was cut before its candidates end
    return replace(ranks, depth=depth, gallery_size=max(int(candidates.max(initial=1)), 1))


def _lengths(queries: pa.StringArray, offsets: NDArray[np.int64], wanted: pa.StringArray) -> NDArray[np.int64]:
    """(n,) how many entries each of the wanted queries has; 0 where it has none."""
    row = pc.fill_null(pc.index_in(wanted, queries), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(row < 0, 0, np.diff(offsets)[row])


def _scores(
    queries: Vectors,
    rows: NDArray[np.int64],
    documents: Vectors,
    columns: NDArray[np.int64],
    row: NDArray[np.int64],
    column: NDArray[np.int64],
    similarity: Similarity,
) -> NDArray[Any]:
    """(p,) the score of each pair (`row`, `column`) of positions in `rows` and in `columns`."""
    if isinstance(queries, Embeddings) and isinstance(documents, Embeddings):
        check_same_dimension(queries, documents)
        return score_places(Side(queries, rows, similarity), row, Side(documents, columns, similarity), column)
    if isinstance(queries, MultiVectorEmbeddings) and isinstance(documents, MultiVectorEmbeddings):
        check_same_dimension(queries, documents)
        return score_token_places(TokenSide(queries, rows), row, TokenSide(documents, columns), column)
    assert isinstance(queries, SparseEmbeddings) and isinstance(documents, SparseEmbeddings)
    from visir.retrieval.sparse.scan import check_same_vocabulary

    check_same_vocabulary(queries, documents)
    left = queries.to_scipy().astype(np.float64)[rows[row]]
    right = documents.to_scipy().astype(np.float64)[columns[column]]
    products: NDArray[np.float64] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
    return products.astype(np.float32)
