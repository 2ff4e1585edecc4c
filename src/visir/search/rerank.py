"""A second stage: the best few answers of any run, scored again by a model that looks at image and text at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.pairs import match_pairs
from visir.errors import ConfigurationError, RunError, nearest, raise_faults
from visir.records import Collection, Run
from visir.search.depth import depth_fault

Tail = Literal["dropped", "kept"]
"""What is behind the re-ranked candidates: nothing, or the rest of the first stage's answer in its old order."""
Fusion = Literal["matching", "sum"]
"""By what the candidates are ordered: the matching score alone, or its sum with the first stage's score."""


@dataclass(frozen=True, eq=False)
class Reranked:
    """The new runs, and what they cost.

    - `pairs`: distinct pairs of image and text, over all tasks; `computed`: how many of them were scored now (the
      others had been kept), in `seconds`
    """

    runs: dict[str, Run]
    pairs: int
    computed: int
    seconds: float


def rerank(
    run: Run,
    collection: Collection,
    cross_encoder: CrossEncoder,
    k: int,
    *,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    root: str | Path | None = None,
    workers: int | None = None,
) -> Run:
    """The run with the best `k` answers of each query in the order of their matching scores; ties by document id.

    - `run`: of any first stage: dense, sparse, BM25, imported. It must go `k` deep.
    - `collection`: has the pictures and the texts, by the run's ids
    - `tail`: "dropped" finds nothing beyond k, as in the official evaluation of ALBEF, BLIP and X-VLM, where k is
      called `k_test` and whatever was not matched gets a score of −100. It is the default because published numbers of
      these models are made so. (There the −100s tie and are ranked by array order, so one of 200 positives that were
      missed among 1,000 candidates comes to stand at ranks 6 to 10 by chance. Here it is not found.) "kept" puts the
      rest of the first stage's answer behind, in its old order, as a search engine would: what is there can be found.
    - `fusion`: "matching", as ALBEF and X-VLM do; "sum" adds the first stage's score, as BLIP's own evaluation does
    - `root`, `workers`: see `visir.encoders.pairs.match_pairs`, which keeps scores and goes on after a kill

    The depth of the new run is the whole gallery when the tail is dropped (more than k answers were asked for, and
    there are none), and the old run's when it is kept. Behind the candidates, kept answers have scores that say only
    their order and distances: they are shifted below the last candidate.

    Raises `ConfigurationError` for a faulty option, `RunError` for a run that is less than k deep, or whose queries or
    documents are not in the collection.
    """
    return rerank_runs(
        {run.task: run}, collection, cross_encoder, k, tail=tail, fusion=fusion, root=root, workers=workers
    ).runs[run.task]


def rerank_runs(
    runs: Mapping[str, Run],
    collection: Collection,
    cross_encoder: CrossEncoder,
    k: int,
    *,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    root: str | Path | None = None,
    workers: int | None = None,
) -> Reranked:
    """Several runs as by `rerank`, together: a pair that both tasks ask for is scored once, and so is an image."""
    check_second_stage(k, tail, fusion)
    for run in runs.values():
        if run.depth < min(k, run.gallery.size):
            raise RunError(
                f"run {run.name} ({run.task}) is {run.depth} deep; the best {k} of it cannot be re-ranked.",
                hint=f"search deeper, or re-rank fewer (k_test={run.depth})",
            )
    heads = {task: run.cut(k) for task, run in runs.items()}
    pairs = [_pairs(head, collection) for head in heads.values()]
    images, texts = (np.concatenate(column) for column in zip(*pairs, strict=True))
    matched = match_pairs(
        cross_encoder, collection.items("image"), collection.items("text"), images, texts, root=root, workers=workers
    )
    at, made = 0, {}
    for task, head in heads.items():
        scores = matched.scores[at : at + len(head.indices)].astype(np.float64)
        at += len(scores)
        if fusion == "sum":
            scores += head.scores
        ordered = _ordered(head, scores)
        stage = {"matcher": cross_encoder.card.name, "head": cross_encoder.head, "k": k, "tail": tail, "fusion": fusion}
        provenance: dict[str, Any] = {**runs[task].provenance, "rerank": stage}
        name = f"{runs[task].name} + {cross_encoder.card.name}"
        whole = ordered if tail == "dropped" else _with_rest(ordered, runs[task])
        depth = runs[task].gallery.size if tail == "dropped" else runs[task].depth
        made[task] = replace(whole, name=name, depth=depth, provenance=provenance)
    return Reranked(made, matched.pairs, matched.computed, matched.seconds)


def check_second_stage(k: int, tail: str, fusion: str) -> None:
    """Raise `ConfigurationError` listing every faulty option."""
    faults = [fault] if (fault := depth_fault(k, "k_test")) else []
    for kind, value, known in (("tail", tail, get_args(Tail)), ("fusion", fusion, get_args(Fusion))):
        if value not in known:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), known)})")
    raise_faults(ConfigurationError, "re-ranking", faults, hint="mend the options above")


def _pairs(run: Run, collection: Collection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each entry of the run the row of its image, and the row of its caption, in the collection."""
    images, captions = collection.images["id"], collection.captions["id"]
    query_ids, document_ids = (images, captions) if run.task == "i2t" else (captions, images)
    query = _rows(run, run.queries, query_ids, "queries", collection)
    document = _rows(run, run.documents, document_ids, "documents", collection)
    query, document = np.repeat(query, np.diff(run.offsets)), document[run.indices]
    return (query, document) if run.task == "i2t" else (document, query)


def _rows(run: Run, ids: pa.StringArray, among: pa.ChunkedArray, kind: str, collection: Collection) -> Any:
    rows = pc.index_in(ids, among.combine_chunks())
    if rows.null_count:
        missing = ids.filter(pc.is_null(rows))
        raise RunError(
            f"run {run.name} ({run.task}): {len(missing):,} of its {len(ids):,} {kind} are not in the collection "
            f"{collection.name}, e.g. {missing[0].as_py()!r}; their pictures and texts are needed.",
            hint="is it the same split, and the same way of writing ids?",
        )
    return rows.to_numpy().astype(np.int64)


def _ordered(run: Run, scores: NDArray[np.float64]) -> Run:
    """The run with new scores, each answer by falling score, ties by document id."""
    query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    by_id = pc.rank(run.documents, sort_keys="ascending").to_numpy().astype(np.int64)
    order = np.lexsort((by_id[run.indices], -scores, query))
    return replace(run, indices=run.indices[order], scores=scores[order])


def _with_rest(head: Run, run: Run) -> Run:
    """`head` (the first of each answer of `run`, in another order) with the rest of each answer behind."""
    lengths, heads = np.diff(run.offsets), np.diff(head.offsets)
    query = np.repeat(np.arange(len(run)), lengths)
    place = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths)
    inside = place < heads[query]
    indices, scores = run.indices.copy(), np.array(run.scores, np.float64)
    indices[inside] = head.indices
    # Old scores are on another scale: what counts is that they fall, from a unit below the last candidate on.
    last = np.zeros(len(run))
    some = heads > 0
    last[some] = head.scores[head.offsets[1:][some] - 1]
    first = np.minimum(run.offsets[:-1] + heads, max(len(scores) - 1, 0))
    shifted = last[query] - 1 + scores - scores[first][query]
    scores = np.where(inside, 0.0, shifted)
    scores[inside] = head.scores
    return replace(run, indices=indices, scores=scores)
