"""A second stage: score the best answers of any run again, with a model that reads query and document together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.pairs import match_pairs
from visir.errors import ConfigurationError, RunError, nearest, raise_faults
from visir.records import Collection, Items, Role, Run, Task
from visir.retrieval.answers import depth_fault

Tail = Literal["dropped", "kept"]
"""What follows the re-ranked candidates: nothing, or the rest of the first stage's answer in its old order."""
Fusion = Literal["matching", "sum"]
"""The score of the candidates: the matching score alone, or its sum with the first stage's score."""


@dataclass(frozen=True, eq=False)
class Reranked:
    """The new runs and their cost."""

    runs: dict[str, Run]  # the new run of each task
    pairs: int  # the number of distinct pairs of image and text, over all tasks
    computed: int  # how many of these pairs were scored now; the others were stored
    seconds: float  # the time of scoring


Content = Collection | Mapping[str, Task]
"""Where the texts and images of a run's ids are: a collection of images and captions, or the task of each name."""


def rerank(
    run: Run,
    source: Content,
    cross_encoder: CrossEncoder,
    k: int,
    *,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    root: str | Path | None = None,
    workers: int | None = None,
) -> Run:
    """Return the run with the best `k` answers of each query ordered by matching score, ties by document id.

    The depth of the new run is the whole gallery when the tail is dropped (there are no answers after k), and the depth
    of the old run when it is kept. Kept answers after the candidates keep their order and distances; their scores are
    shifted below the last candidate.

    Args:
        run: A run of any first stage (dense, sparse, BM25, imported), at least `k` deep.
        source: The images and texts under the ids of the run: a collection, or {name of the task: task}.
        cross_encoder: The model that scores pairs.
        k: The number of candidates per query.
        tail: "dropped": there is nothing after k, as in the official evaluation of ALBEF, BLIP and X-VLM. There k is
            called `k_test`, and all other documents get a score of −100. It is the default because the published
            numbers of these models are computed so. (Their −100s tie and are ranked by array order. So about one of 200
            positives that were missed among 1,000 candidates is by chance at ranks 6 to 10. Here it is not found.)
            "kept": the rest of the first stage's answer follows in its old order, as in a search engine.
        fusion: "matching": the matching score, as in ALBEF and X-VLM; "sum": plus the score of the first stage, as in
            BLIP's own evaluation.
        root: The folder of stored scores; see `visir.encoders.pairs.match_pairs`, which continues after a kill.
        workers: As in `match_pairs`.

    Raises:
        ConfigurationError: An option is wrong.
        RunError: The run is less than k deep, or its queries or documents are not there.
        EncoderError: The model scores no such pairs.
    """
    return rerank_runs(
        {run.task: run}, source, cross_encoder, k, tail=tail, fusion=fusion, root=root, workers=workers
    ).runs[run.task]


def rerank_runs(
    runs: Mapping[str, Run],
    source: Content,
    cross_encoder: CrossEncoder,
    k: int,
    *,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    root: str | Path | None = None,
    workers: int | None = None,
) -> Reranked:
    """Re-rank several runs as `rerank` does; a pair or an image of several tasks is encoded once."""
    check_second_stage(k, tail, fusion)
    for run in runs.values():
        if run.gallery.is_known and run.depth < min(k, run.gallery.size):
            raise RunError(
                f"run {run.name} ({run.task}) is {run.depth} deep; the best {k} of it cannot be re-ranked.",
                hint=f"search deeper, or re-rank fewer (k_test={run.depth})",
                code="run-deep",
            )
    heads = {task: run.cut(k) for task, run in runs.items()}
    of_task, matched = _scored(heads, source, cross_encoder, root=root, workers=workers)
    reranked = {}
    for task, head in heads.items():
        scores = of_task[task]
        if fusion == "sum":
            scores += head.scores
        ordered = _ordered(head, scores)
        stage = {"matcher": cross_encoder.card.name, "head": cross_encoder.head, "k": k, "tail": tail, "fusion": fusion}
        provenance: dict[str, Any] = {**runs[task].provenance, "rerank": stage}
        name = f"{runs[task].name} + {cross_encoder.card.name}"
        whole = ordered if tail == "dropped" else _with_rest(ordered, runs[task])
        ends = tail == "dropped" and head.gallery.is_known  # nothing is behind what was re-ranked, by the protocol
        depth = head.gallery.size if ends else ordered.depth if tail == "dropped" else runs[task].depth
        reranked[task] = replace(whole, name=name, depth=depth, provenance=provenance)
    pairs, computed = sum(part.pairs for part in matched), sum(part.computed for part in matched)
    return Reranked(reranked, pairs, computed, sum(part.seconds for part in matched))


def check_second_stage(k: int, tail: str, fusion: str) -> None:
    """Check the options of a second stage."""
    faults = [fault] if (fault := depth_fault(k, "k_test")) else []
    for kind, value, allowed in (("tail", tail, get_args(Tail)), ("fusion", fusion, get_args(Fusion))):
        if value not in allowed:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), allowed)})")
    raise_faults(ConfigurationError, "re-ranking", faults, hint="mend the options above")


_Side: TypeAlias = tuple[Items, NDArray[np.int64]]
"""Queries or documents, and a row of them for each entry of a run."""


def _scored(
    heads: Mapping[str, Run], source: Content, cross_encoder: CrossEncoder, **how: Any
) -> tuple[dict[str, NDArray[np.float64]], Sequence[Any]]:
    """The scores of the pairs of each run, and what was matched."""
    if isinstance(source, Collection) and not cross_encoder.ordered:
        # A pair of image and caption is one pair, whichever of them is the query.
        sides = [_sides(head, source)[:: 1 if head.task == "i2t" else -1] for head in heads.values()]
        images, texts = (np.concatenate([rows for _, rows in side]) for side in zip(*sides, strict=True))
        matched = match_pairs(cross_encoder, source.items("image"), source.items("text"), images, texts, **how)
        ends = np.cumsum([len(head.indices) for head in heads.values()])[:-1]
        return dict(zip(heads, np.split(matched.scores.astype(np.float64), ends), strict=True)), [matched]
    parts = {}
    for task, head in heads.items():
        queries, documents = _sides(head, source)
        outer: Role = "query" if documents[0].places is None and queries[0].places is not None else "document"
        (first, first_rows), (second, second_rows) = (queries, documents) if outer == "query" else (documents, queries)
        parts[task] = match_pairs(cross_encoder, first, second, first_rows, second_rows, outer_role=outer, **how)
    return {task: part.scores.astype(np.float64) for task, part in parts.items()}, list(parts.values())


def _items(run: Run, source: Content) -> tuple[Items, Items]:
    """The queries and the documents of a run's task."""
    if isinstance(source, Collection):
        images, captions = source.items("image"), source.items("text")
        return (images, captions) if run.task == "i2t" else (captions, images)
    if run.task not in source:
        raise RunError(
            f"run {run.name}: there is no task {run.task!r} with its texts and images.",
            hint=f"tasks given: {', '.join(source) or 'none'}",
            code="no-task-texts-images",
        )
    return source[run.task].queries, source[run.task].documents


def _name(source: Content, task: str) -> str:
    return f"the collection {source.name}" if isinstance(source, Collection) else f"the task {task}"


def _sides(run: Run, source: Content) -> tuple[_Side, _Side]:
    """The queries and the documents of a run's task, each with the row of every entry of the run."""
    queries, documents = _items(run, source)
    mixed = [f"the {items.title} are {items.holding}" for items in (queries, documents) if items.is_mixed]
    if mixed:
        raise RunError(
            f"run {run.name} ({run.task}): {' and '.join(mixed)}; a pair is read as two texts or images.",
            hint="leave re-ranking out: rerank=None",
        )
    query = _rows(run, run.queries, queries.ids, "queries", _name(source, run.task))
    document = _rows(run, run.documents, documents.ids, "documents", _name(source, run.task))
    return (queries, np.repeat(query, np.diff(run.offsets))), (documents, document[run.indices])


def _rows(run: Run, ids: pa.StringArray, among: pa.StringArray, kind: str, where: str) -> Any:
    rows = pc.index_in(ids, among)
    if rows.null_count:
        missing = ids.filter(pc.is_null(rows))
        raise RunError(
            f"run {run.name} ({run.task}): {len(missing):,} of its {len(ids):,} {kind} are not in {where}, e.g. "
            f"{missing[0].as_py()!r}; their pictures and texts are needed.",
            hint="is it the same split, and the same way of writing ids?",
            code="of-its-are-not",
        )
    return rows.to_numpy().astype(np.int64)


def _ordered(run: Run, scores: NDArray[np.float64]) -> Run:
    """Return the run with new scores, each answer by falling score, ties by document id."""
    query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    by_id = pc.rank(run.documents, sort_keys="ascending").to_numpy().astype(np.int64)
    order = np.lexsort((by_id[run.indices], -scores, query))
    return replace(run, indices=run.indices[order], scores=scores[order])


def _with_rest(head: Run, run: Run) -> Run:
    """Append to each answer of `head` (the reordered start of `run`) the rest of the answer of `run`."""
    lengths, heads = np.diff(run.offsets), np.diff(head.offsets)
    query = np.repeat(np.arange(len(run)), lengths)
    place = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths)
    inside = place < heads[query]
    indices, scores = run.indices.copy(), np.array(run.scores, np.float64)
    indices[inside] = head.indices
    # Old scores are on another scale, so they are shifted: the first of them is 1 below the last candidate.
    last = np.zeros(len(run))
    answered = heads > 0
    last[answered] = head.scores[head.offsets[1:][answered] - 1]
    first = np.minimum(run.offsets[:-1] + heads, max(len(scores) - 1, 0))
    shifted = last[query] - 1 + scores - scores[first][query]
    scores = np.where(inside, 0.0, shifted)
    scores[inside] = head.scores
    return replace(run, indices=indices, scores=scores)
