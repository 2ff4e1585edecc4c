"""Search within pools, where every query has its own few candidates, and searches that leave candidates out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import (
    Gallery,
    Pools,
    Qrels,
    Ranks,
    Run,
    Task,
    Ties,
    Vectors,
)
from visir.retrieval.answers import part_of, positions
from visir.retrieval.exact import SearchResult, sides_of, similarity_of
from visir.retrieval.multi_vector.scan import TokenSide, score_token_places
from visir.retrieval.ranks import ranks_of
from visir.retrieval.scan import Side, Similarity, score_places
from visir.retrieval.sparse.scan import score_word_places


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
    left, right = sides_of(queries, rows, documents, columns, scored_by)
    scores = _scores(left, pools.query_rows, right, column)
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
    row = np.repeat(positions(run.queries, pools.queries), np.diff(run.offsets))
    names = pools.documents.unique()
    column = positions(run.documents, names)[run.indices]
    pairs = pools.query_rows * len(names) + pc.index_in(pools.documents, names).to_numpy()
    inside: NDArray[np.bool_] = (row >= 0) & (column >= 0) & np.isin(row * len(names) + column, pairs)
    return inside


def within_pools(run: Run, pools: Pools) -> Run:
    """Return the run with only the candidates of each query."""
    inside = in_pools(run, pools)
    if not inside.any():
        raise RunError(f"run {run.name} ({run.task}): none of its answers is a candidate of its query.")
    return part_of(run, inside)


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
    row = positions(wanted, queries)
    return np.where(row < 0, 0, np.diff(offsets)[row])


def _scores(left: Any, row: NDArray[np.int64], right: Any, column: NDArray[np.int64]) -> NDArray[Any]:
    """(p,) the score of each pair of positions on two sides."""
    if isinstance(left, Side):
        return score_places(left, row, right, column)
    if isinstance(left, TokenSide):
        return score_token_places(left, row, right, column)
    return score_word_places(left, row, right, column)


_MARK = np.float32(np.finfo(np.float32).tiny)
"""The grade of an excluded pair while it is searched; no judgement has it."""


def marked(task: Task) -> Task:
    """Judge the excluded documents of a task with a mark."""
    excluded = _of_judged(task)
    if excluded is None:
        return task
    qrels = task.judgements()
    queries = qrels.queries.take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    left = pc.invert(pc.is_in(_keys(queries, qrels.documents), _keys(*_pairs(excluded))))
    added_queries, added = _pairs(excluded)
    grades = np.concatenate([qrels.grades[left.to_numpy(zero_copy_only=False)], np.full(len(added), _MARK)])
    joined = Qrels.of(
        pa.concat_arrays([queries.filter(left), added_queries]),
        pa.concat_arrays([qrels.documents.filter(left), added]),
        grades,
        name=qrels.name,
    )
    return replace(task, qrels={qrels.name: joined}, excluded=None)


def most_excluded(task: Task) -> int:
    """The greatest number of documents that one query excludes."""
    return 0 if task.excluded is None else int(np.diff(task.excluded.offsets).max(initial=0))


def unmarked_ranks(ranks: Ranks, task: Task) -> Ranks:
    """Take the marked documents out of the ranks of `marked(task)`."""
    excluded = _of_judged(task)
    if excluded is None:
        return ranks
    qrels = task.judgements()
    row = np.repeat(np.arange(len(ranks)), ranks.positives)
    is_mark = ranks.grades == _MARK
    passed = np.cumsum(is_mark & (ranks.ranks > 0))
    before = np.concatenate([[0], passed])[ranks.offsets[:-1]]
    moved = np.where(ranks.ranks > 0, ranks.ranks - (passed - before[row]), 0)
    row, moved, grades = row[~is_mark], moved[~is_mark], ranks.grades[~is_mark]
    lost_row, lost_grades = _lost(qrels, excluded)
    if len(lost_row):
        row = np.concatenate([row, lost_row])
        moved, grades = (
            np.concatenate([moved, np.zeros(len(lost_row), np.int64)]),
            np.concatenate([grades, lost_grades]),
        )
        order = np.lexsort((np.where(moved == 0, np.iinfo(np.int64).max, moved), row))
        row, moved, grades = row[order], moved[order], grades[order]
    counts = np.bincount(row, minlength=len(ranks))
    inside = 0
    if task.gallery.ids is not None:
        listed = pc.is_in(excluded.documents, task.gallery.ids).to_numpy(zero_copy_only=False)
        inside = int(np.bincount(excluded.query_rows[listed]).max(initial=0)) if listed.any() else 0
    return replace(
        ranks,
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        ranks=moved.astype(np.int64),
        grades=grades.astype(np.float32),
        gallery_size=None if ranks.gallery_size is None else max(ranks.gallery_size - inside, 1),
    )


def without_excluded(run: Run, task: Task, depth: int | None = None) -> Run:
    """Take the excluded documents out of a run."""
    if task.excluded is None:
        return run
    left = ~in_pools(run, task.excluded)
    row = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    if depth is not None:
        place = np.cumsum(left) - 1
        first = np.concatenate([[0], np.cumsum(left)])[run.offsets[:-1]]
        left &= place - first[row] < depth
    part = part_of(run, left)
    shallower = run.depth - int(np.diff(run.offsets - part.offsets).max(initial=0)) if depth is None else depth
    return replace(part, depth=max(shallower, 1))


def without_excluded_answers(result: SearchResult, task: Task, depth: int) -> SearchResult:
    """The result of a search of `marked(task)` without the marked documents."""
    if task.excluded is None or result.ranks is None:
        return result
    ranks = unmarked_ranks(result.ranks, task)
    if ranks.depth is not None:
        ranks = replace(ranks, depth=min(ranks.depth, depth))
    return SearchResult(without_excluded(result.run, task, depth), ranks)


def _of_judged(task: Task) -> Pools | None:
    excluded = None if task.excluded is None else task.excluded.select(task.judgements().queries)
    return excluded if excluded is not None and len(excluded.documents) else None


def _pairs(pools: Pools) -> tuple[pa.StringArray, pa.StringArray]:
    return pools.queries.take(pa.array(pools.query_rows)), pools.documents


def _keys(queries: pa.StringArray, documents: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(queries, documents, "\0")


def _lost(qrels: Qrels, excluded: Pools) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(p,) the query row and the grade of each positive that is excluded."""
    row = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    keys = _keys(qrels.queries.take(pa.array(row)), qrels.documents)
    lost = pc.is_in(keys, _keys(*_pairs(excluded))).to_numpy(zero_copy_only=False) & (qrels.grades > 0)
    return row[lost], qrels.grades[lost]
