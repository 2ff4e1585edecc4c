"""Documents that are no candidates of one query, such as the picture that a composed query begins from.

A system searches as if all documents were candidates. The excluded pairs are judged with a mark meanwhile, so that
their exact ranks are known; then they are taken out of the run, and every rank behind one of them moves up. So any
system answers such tasks, and each search keeps its one gallery.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import Pools, Qrels, Ranks, Run, Task
from visir.retrieval.exact import SearchResult
from visir.retrieval.pools import in_pools

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
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row[left], minlength=len(run)))]).astype(np.int64)
    shallower = run.depth - int(np.diff(run.offsets - offsets).max(initial=0)) if depth is None else depth
    return replace(run, offsets=offsets, indices=run.indices[left], scores=run.scores[left], depth=max(shallower, 1))


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
