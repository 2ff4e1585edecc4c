"""Ranks of the positives in a run: the step from answers to measures."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import Qrels, Ranks, Run, Ties
from visir.retrieval.answers import positions


def ranks_of(run: Run, qrels: Qrels, ties: Ties = "id") -> Ranks:
    """Return the rank of each positive of `qrels` in a run.

    There is one row per *judged* query, in the order of `qrels`. A judged query without an answer counts as an empty
    answer (no positive is retrieved, every measure is 0), as in trec_eval's `-c` and in ir_measures. The other reading,
    a mean over the answered queries only, rewards a system that leaves out hard queries. Queries without judgements are
    left out.

    Args:
        run: The run, of any source and depth.
        qrels: The judgements.
        ties: "id" takes the order of the run, because the order is part of the record (`Run.ranked` and visir's search
            break ties by id; a file with rounded scores keeps the order of its authors). "pessimistic" puts a positive
            after all non-positives of equal score, "optimistic" before them; positives of equal score keep the order of
            the run. "trec" puts the larger id first, as trec_eval, pytrec_eval and mteb do. Ties with documents
            beyond the depth of the run are unknown.

    Returns:
        The ranks. Their `depth` is that of the run, or None if every judged query is answered with the whole gallery,
        which nobody can say of a gallery that is not known.

    Raises:
        RunError: No query of the run is judged.

    Example:
        >>> from visir.records import Gallery
        >>> gallery = Gallery.of("image", ["a", "b", "c"])
        >>> run = Run.ranked("toy", "t2i", ["q", "q"], ["a", "b"], [0.9, 0.8], gallery)
        >>> ranks_of(run, Qrels.of(["q", "q"], ["b", "c"])).ranks.tolist()  # c was not retrieved
        [2, 0]
    """
    row = positions(qrels.queries, run.queries)
    if (row < 0).all():
        raise RunError(
            f"run {run.name} ({run.task}): none of its {len(run):,} queries is judged by {qrels.name!r} "
            f"({len(qrels):,} queries); e.g. the run asks {run.queries[0].as_py()!r}"
            + (f", the judgements {qrels.queries[0].as_py()!r}." if len(qrels) else "."),
            hint="are these the same split and task, and the same way of writing ids?",
            code="none-queries-judged-queries",
        )
    positive = qrels.grades > 0
    query = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[positive]
    document = positions(qrels.documents, run.documents)[positive]
    ranks = _lookup(run, row[query], document, _run_ranks(run, row, query, document, ties))
    order = np.lexsort((np.arange(len(ranks)), np.where(ranks == 0, np.iinfo(np.int64).max, ranks), query))
    answered = np.diff(run.offsets)[row[row >= 0]]
    whole = bool((row >= 0).all()) and run.gallery.ends_by(int(answered.min()))
    return Ranks(
        queries=qrels.queries,
        offsets=np.concatenate([[0], np.cumsum(qrels.positives)]).astype(np.int64),
        ranks=ranks[order],
        grades=qrels.grades[positive][order],
        depth=None if whole else run.depth,
        gallery_size=run.gallery.size if run.gallery.is_known else None,
    )


def _keys(run: Run) -> NDArray[np.int64]:
    """(m,) one number for each (query row, document) pair of the run."""
    rows = np.repeat(np.arange(len(run), dtype=np.int64), np.diff(run.offsets))
    keys: NDArray[np.int64] = rows * len(run.documents) + run.indices
    return keys


def _lookup(
    run: Run, row: NDArray[np.int64], document: NDArray[np.int64], ranks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the (p,) rank of each pair (query row, document); 0 where the run does not have it."""
    looked_up = np.zeros(len(row), np.int64)
    resolved = np.flatnonzero((row >= 0) & (document >= 0))
    if len(resolved) == 0:
        return looked_up
    # It is cheaper to sort the few positives and to look up each entry of the run than to sort the run.
    requested = row[resolved] * len(run.documents) + document[resolved]
    order = np.argsort(requested, kind="stable")
    keys = _keys(run)
    positions = np.minimum(np.searchsorted(requested[order], keys), len(requested) - 1)
    matches = requested[order][positions] == keys
    looked_up[resolved[order[positions[matches]]]] = ranks[matches]
    return looked_up


def _run_ranks(
    run: Run, row: NDArray[np.int64], query: NDArray[np.int64], document: NDArray[np.int64], ties: Ties
) -> NDArray[np.int64]:
    """(m,) the rank of each entry of the run under the tie rule."""
    lengths = np.diff(run.offsets)
    position = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths)
    if ties == "id":
        return position + 1
    if ties == "trec":
        places = np.empty(len(run.documents), np.int64)  # of each id in the order of ids, which is that of their bytes
        places[pc.array_sort_indices(run.documents).to_numpy()] = np.arange(len(places))
        within = -places[run.indices]
    else:  # only entries of equal score change their order
        resolved = (row[query] >= 0) & (document >= 0)
        positives = np.sort(row[query][resolved] * len(run.documents) + document[resolved])
        keys = _keys(run)
        places = np.minimum(np.searchsorted(positives, keys), max(len(positives) - 1, 0))
        positive = positives[places] == keys if len(positives) else np.zeros(len(keys), bool)
        within = positive if ties == "pessimistic" else ~positive
    ranks = np.empty(len(position), np.int64)
    ranks[np.lexsort((position, within, _groups(run)))] = position + 1
    return ranks


def _groups(run: Run) -> NDArray[np.int64]:
    """(m,) a rising number for each stretch of answers of one query with equal scores."""
    rows = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    return np.cumsum(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(run.scores) != 0)]))
