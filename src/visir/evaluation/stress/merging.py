"""Merge the answers to plain queries and those to perturbed queries into one run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import Ranks, Run
from visir.retrieval.exact import SearchResult


def merged(plain: SearchResult, anew: SearchResult) -> SearchResult:
    """Replace the answers of the queries that were searched again."""
    # A query that is not in `anew` is one whose caption the perturbation left as it is: it keeps its plain answer. A
    # query that is in `anew` without documents has no answer.
    assert plain.ranks is not None and anew.ranks is not None, "answers come with ranks"
    before, after = plain.ranks, anew.ranks
    row = pc.fill_null(pc.index_in(before.queries, after.queries), -1).to_numpy(zero_copy_only=False)
    is_new = row >= 0
    ranks, grades = before.ranks.copy(), before.grades.copy()
    inside = np.repeat(is_new, before.positives)
    # Both are in the order of the judgements and have the same positives, so the flat arrays line up.
    ranks[inside], grades[inside] = after.ranks, after.grades
    depths = [part.depth for part in (before, after) if part.depth is not None]
    joined = Ranks(before.queries, before.offsets, ranks, grades, min(depths) if depths else None, before.gallery_size)
    return SearchResult(_joined(plain.run, anew.run, before.queries, is_new), joined)


def _joined(plain: Run, anew: Run, queries: pa.StringArray, is_new: NDArray[np.bool_]) -> Run:
    """For each query the answer in `anew` if it was searched again, otherwise that in `plain`; it may be empty."""
    documents = pa.concat_arrays([plain.documents, anew.documents]).unique()
    indices, offsets = [], []
    for run in (plain, anew):
        number = pc.index_in(run.documents, documents).to_numpy(zero_copy_only=False).astype(np.int32)
        indices.append(number[run.indices])
        row = pc.fill_null(pc.index_in(queries, run.queries), -1).to_numpy(zero_copy_only=False)
        starts = np.where(row < 0, 0, run.offsets[row])
        offsets.append((starts, np.where(row < 0, 0, run.offsets[row + 1] - starts)))
    shift = len(plain.indices)
    starts = np.where(is_new, offsets[1][0] + shift, offsets[0][0])
    lengths = np.where(is_new, offsets[1][1], offsets[0][1])
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])
    return Run(
        anew.name,
        plain.task,
        queries,
        ends,
        documents,
        np.concatenate(indices)[flat],
        np.concatenate([plain.scores, anew.scores])[flat],
        plain.gallery,
        min(plain.depth, anew.depth),
        dict(anew.provenance),
    )
