"""Join several rankings of the same candidates: reciprocal rank fusion, or a weighted sum of normalised scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, RunError, nearest, raise_faults
from visir.parquet import integer_array
from visir.records import Run

Fusion = Literal["rrf", "weighted"]
"""How rankings are joined: by their ranks, or by scores on one scale."""
Normalisation = Literal["maximum", "minmax", "z"]
K = 60
"""The constant of reciprocal rank fusion, as in Cormack, Clarke and Büttcher (SIGIR 2009)."""


def fuse(
    runs: Mapping[str, Run],
    *,
    fusion: Fusion = "rrf",
    weights: Mapping[str, float] | None = None,
    normalisation: Normalisation = "maximum",
    k: float = K,
    depth: int | None = None,
) -> Run:
    """Join the runs of several systems over the same gallery into one run; ties by document id.

    The result has the queries of all runs. A document that a system did not list gets 0 from it: under "rrf" an
    infinite rank, under "maximum" and "minmax" the worst score. Under "z" 0 would be a mean score, so the document gets
    the worst score of the list. The provenance names the systems and the options.

    Args:
        runs: The run of each system, by name.
        fusion: "rrf" (Cormack, Clarke and Büttcher, SIGIR 2009): score(d) = Σ over systems w / (k + rank of d), ranks
            from 1. It does not use the scores, so it can join a cosine and a sum of word weights. "weighted":
            score(d) = Σ over systems w · s(d), where s is the score after `normalisation`.
        weights: The weight w of each system, at least 0; None is 1 for "rrf" and 1 / number of systems for "weighted".
        normalisation: How "weighted" scales the scores of a query. "maximum": score / best score, and 0 for scores
            below 0; 0 stays 0, and the depth of the list has no influence. "minmax": (score - worst) / (best - worst)
            of the list, so the last answer always gets 0. "z": (score - mean) / standard deviation of the list. Under
            "minmax" and "z" a deeper list changes every fused score. So all pages of an answer need lists of one depth,
            or page 2 does not continue page 1.
        k: The constant of "rrf".
        depth: The number of documents per query; None is the largest depth of the runs.

    Raises:
        ConfigurationError: Options are wrong; the message lists every fault.
        RunError: There is no run, or runs differ in gallery or task.

    Example:
        >>> from visir.records import Gallery
        >>> gallery = Gallery.of("image", ["a", "b", "c"])
        >>> dense = Run.ranked("dense", "t2i", ["q", "q"], ["a", "b"], [0.9, 0.8], gallery)
        >>> words = Run.ranked("words", "t2i", ["q", "q"], ["c", "a"], [7.0, 5.0], gallery)
        >>> fused = fuse({"dense": dense, "words": words}, k=1, depth=3)  # a: 1/2 + 1/3, c: 1/2, b: 1/3
        >>> [(document, round(score, 3)) for document, score in fused.answer("q")]
        [('a', 0.833), ('c', 0.5), ('b', 0.333)]
    """
    _check(runs, fusion, normalisation, weights)
    first = next(iter(runs.values()))
    queries = pc.unique(pa.concat_arrays([run.queries for run in runs.values()]))
    queries = queries.take(pc.sort_indices(queries))
    # Only the documents in the runs: the gallery may be large.
    mentioned = [run.documents.take(integer_array(np.unique(run.indices))) for run in runs.values()]
    documents = pc.unique(pa.concat_arrays(mentioned))
    documents = documents.take(pc.sort_indices(documents))
    default = 1.0 if fusion == "rrf" else 1.0 / len(runs)
    parts = []
    for name, run in runs.items():
        weight = default if weights is None else float(weights[name])
        lengths = np.diff(run.offsets)
        place = _places(run.queries, queries)
        query = np.repeat(place, lengths)
        used, inverse = np.unique(run.indices, return_inverse=True)
        document = _places(run.documents.take(integer_array(used)), documents)[inverse]
        if fusion == "rrf":
            ranks = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths) + 1
            gain, absent = 1.0 / (k + ranks), np.zeros(len(queries))
        else:
            gain, lowest = normalised(run, normalisation)
            absent = np.zeros(len(queries))
            absent[place] = lowest
        # The score of an unlisted document is subtracted from all documents of the query: this changes no order.
        parts.append((query, document, weight * (gain - absent[query])))
    query, document, gain = (np.concatenate(column) for column in zip(*parts, strict=True))
    pair, inverse = np.unique(query * len(documents) + document, return_inverse=True)
    score = np.zeros(len(pair))
    np.add.at(score, inverse, gain)  # in the order of the systems, so that equal parts give equal sums
    query, document = pair // len(documents), pair % len(documents)
    deep = depth or max(run.depth for run in runs.values())
    order = np.lexsort((document, -score, query))
    counts = np.bincount(query, minlength=len(queries))
    rank = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = order[rank < deep]
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, deep))]).astype(np.int64)
    return Run(
        name=f"{fusion}({', '.join(runs)})",
        task=first.task,
        queries=queries,
        offsets=offsets,
        documents=documents,
        indices=document[order].astype(np.int32),
        scores=score[order],
        gallery=first.gallery,
        depth=deep,
        provenance={"fusion": fusion, **({"k": k} if fusion == "rrf" else {"normalisation": normalisation}),
                    "weights": {name: default if weights is None else float(weights[name]) for name in runs},
                    "systems": {name: {"name": run.name, **run.provenance} for name, run in runs.items()}},
    )  # fmt: skip


def _places(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """(n,) where each of these ids is among others, which have all of them."""
    numbers = pc.index_in(ids, among)  # read from its memory: `to_numpy` imports pandas
    return np.frombuffer(numbers.buffers()[1], np.int32, len(numbers), 4 * numbers.offset).astype(np.int64)


def normalised(run: Run, normalisation: Normalisation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scale the scores of a run query by query."""
    # Returns: (m,) the scaled scores, and (n,) the score of an unlisted document of each query.
    lengths = np.diff(run.offsets)
    scores, answered = run.scores.astype(np.float64), lengths > 0
    first, last = np.zeros(len(run)), np.zeros(len(run))
    first[answered] = scores[run.offsets[:-1][answered]]
    last[answered] = scores[run.offsets[1:][answered] - 1]
    if normalisation == "maximum":
        scale = np.repeat(np.where(first > 0, first, np.inf), lengths)
        return np.maximum(scores, 0) / scale, np.zeros(len(run))
    if normalisation == "minmax":
        spread = np.repeat(np.where(first > last, first - last, np.inf), lengths)
        return (scores - np.repeat(last, lengths)) / spread, np.zeros(len(run))
    counts = np.maximum(lengths, 1)
    query = np.repeat(np.arange(len(run)), lengths)
    mean = np.bincount(query, scores, len(run)) / counts
    spread = np.sqrt(np.bincount(query, (scores - mean[query]) ** 2, len(run)) / counts)
    spread = np.where(spread > 0, spread, np.inf)
    return (scores - mean[query]) / spread[query], (last - mean) / spread


def _check(runs: Mapping[str, Run], fusion: str, normalisation: str, weights: Mapping[str, float] | None) -> None:
    if not runs:
        raise RunError("there is no run to fuse.", hint="give at least one", code="no-run-fuse")
    faults = []
    for kind, value, allowed in (("fusion", fusion, get_args(Fusion)),
                                 ("normalisation", normalisation, get_args(Normalisation))):  # fmt: skip
        if value not in allowed:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), allowed)})")
    if weights is not None:
        faults += [f"no weight for {name!r}" for name in runs if name not in weights]
        faults += [f"a weight for {name!r}, which is no run" for name in weights if name not in runs]
        faults += [f"the weight of {name!r} is {value}, below 0" for name, value in weights.items() if not value >= 0]
    raise_faults(ConfigurationError, "fusion", faults, hint="mend the options above")
    names = list(runs)
    for name in names[1:]:
        first, run = runs[names[0]], runs[name]
        same = first.gallery is run.gallery or first.gallery.fingerprint == run.gallery.fingerprint
        if first.task != run.task or not same:
            raise RunError(
                f"{names[0]!r} and {name!r} did not search the same candidates: {first.task} over "
                f"{first.gallery.size:,}, {run.task} over {run.gallery.size:,}.",
                hint="fuse runs over one gallery",
                code="other-candidates",
            )
