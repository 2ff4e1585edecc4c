"""Ranks of the positives in a given run: the step from what was answered to what can be measured."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import Qrels, Ranks, Run, Ties


def ranks_of(run: Run, qrels: Qrels, ties: Ties = "id") -> Ranks:
    """At which rank each positive of `qrels` stands in `run`, whoever made it and however short its answers are.

    One row per *judged* query, in the order of `qrels`. A judged query that the run does not answer counts as answered
    with nothing (all its positives unretrieved, every measure 0), as trec_eval's `-c` and ir_measures do; the other
    reading, a mean over the answered queries only, rewards a system for leaving out the hard ones. Queries of the run
    that are not judged cannot be measured and are left out.

    Ties: "id" takes the run's own order, because the order is part of the record (`Run.ranked` and our search broke
    ties by id; a file with rounded scores keeps its authors' order). "pessimistic" puts a positive after all
    non-positives of equal score, "optimistic" before them; positives that tie with one another keep the run's order. A
    tie with documents beyond the run's depth cannot be seen.

    `depth` of the result is the run's, or None when every judged query is answered with the whole gallery.
    """
    row = _codes(qrels.queries, run.queries)
    if (row < 0).all():
        raise RunError(
            f"run {run.name} ({run.task}): none of its {len(run):,} queries is judged by {qrels.name!r} "
            f"({len(qrels):,} queries); e.g. the run asks {run.queries[0].as_py()!r}"
            + (f", the judgements {qrels.queries[0].as_py()!r}." if len(qrels) else "."),
            hint="are these the same split and task, and the same way of writing ids?",
        )
    positive = qrels.grades > 0
    query = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[positive]
    document = _codes(qrels.documents, run.documents)[positive]
    ranks = _lookup(run, row[query], document, _run_ranks(run, row, query, document, ties))
    order = np.lexsort((np.arange(len(ranks)), np.where(ranks == 0, np.iinfo(np.int64).max, ranks), query))
    answered = np.diff(run.offsets)[row[row >= 0]]
    whole = bool((row >= 0).all() and (answered >= run.gallery.size).all())
    return Ranks(
        queries=qrels.queries,
        offsets=np.concatenate([[0], np.cumsum(qrels.positives)]).astype(np.int64),
        ranks=ranks[order],
        grades=qrels.grades[positive][order],
        depth=None if whole else run.depth,
        gallery_size=run.gallery.size,
    )


def _codes(ids: pa.StringArray, among: pa.StringArray) -> NDArray[np.int64]:
    """(n,) the position of each id in `among`, -1 where it is not there."""
    positions = pc.fill_null(pc.index_in(ids, among), -1)
    codes: NDArray[np.int64] = positions.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _keys(run: Run) -> NDArray[np.int64]:
    """(m,) one number for each (query row, document) pair of the run."""
    rows = np.repeat(np.arange(len(run), dtype=np.int64), np.diff(run.offsets))
    keys: NDArray[np.int64] = rows * len(run.documents) + run.indices
    return keys


def _lookup(
    run: Run, row: NDArray[np.int64], document: NDArray[np.int64], ranks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(p,) the rank of each wanted pair (query row, document); 0 where the run does not hold it."""
    looked_up = np.zeros(len(row), np.int64)
    known = np.flatnonzero((row >= 0) & (document >= 0))
    if len(known) == 0:
        return looked_up
    # Sorting the few positives and asking each entry of the run for its place is cheaper than sorting the run.
    want = row[known] * len(run.documents) + document[known]
    order = np.argsort(want, kind="stable")
    have = _keys(run)
    at = np.minimum(np.searchsorted(want[order], have), len(want) - 1)
    held = want[order][at] == have
    looked_up[known[order[at[held]]]] = ranks[held]
    return looked_up


def _run_ranks(
    run: Run, row: NDArray[np.int64], query: NDArray[np.int64], document: NDArray[np.int64], ties: Ties
) -> NDArray[np.int64]:
    """(m,) the rank of each entry of the run under the tie rule."""
    lengths = np.diff(run.offsets)
    position = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths)
    if ties == "id":
        return position + 1
    known = (row[query] >= 0) & (document >= 0)
    positives = np.sort(row[query][known] * len(run.documents) + document[known])
    keys = _keys(run)
    at = np.minimum(np.searchsorted(positives, keys), max(len(positives) - 1, 0))
    positive = positives[at] == keys if len(positives) else np.zeros(len(keys), bool)
    rows = np.repeat(np.arange(len(run)), lengths)
    group = np.cumsum(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(run.scores) != 0)]))
    behind = positive if ties == "pessimistic" else ~positive
    order = np.lexsort((position, behind, group))  # groups stay in place: only entries of equal score change seats
    ranks = np.empty(len(position), np.int64)
    ranks[order] = position + 1
    return ranks
