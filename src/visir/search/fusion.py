"""Several rankings of the same candidates as one: reciprocal rank fusion, and a weighted sum of normalised scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, RunError, nearest, raise_faults
from visir.records import Run

Fusion = Literal["rrf", "weighted"]
"""How rankings are joined: by ranks alone, or by scores that were brought to one scale first."""
Normalisation = Literal["maximum", "minmax", "z"]
K = 60
"""Of reciprocal rank fusion, as its authors have it: Cormack, Clarke and Büttcher (SIGIR 2009)."""


def fuse(
    runs: Mapping[str, Run],
    *,
    fusion: Fusion = "rrf",
    weights: Mapping[str, float] | None = None,
    normalisation: Normalisation = "maximum",
    k: float = K,
    depth: int | None = None,
) -> Run:
    """One run from the runs of several systems over the same gallery, for the same queries.

    - "rrf": score(d) = Σ over systems w / (k + rank of d), ranks from 1, k = 60. It asks nothing of the scores, so a
      cosine and a sum of word weights can be joined as they are.
    - "weighted": score(d) = Σ over systems w · s(d), s being the system's score after `normalisation`:
      - "maximum" (default): s = score / the query's best score, 0 for scores below 0. What is 0 stays 0, which both
        systems mean by "nothing in common", and a score does not depend on how deep the list is.
      - "minmax": (score - worst) / (best - worst) *of the list*: the last answer of a list gets 0 whatever it is worth
      - "z": (score - mean) / deviation of the list
      Under the last two a deeper list changes every fused score, so lists must go equally deep for every page of an
      answer, or page 2 does not continue page 1.
    - `weights`: of each system, default 1 for "rrf" and 1 / number of systems for "weighted"

    A document that one system did not list gets nothing from it: 0, which under "rrf" is a rank of infinity and under
    "maximum" and "minmax" the worst score there is. Under "z" that would be a mean score, so it gets the list's worst
    instead. Ties go to the smaller document id.

    Queries are those of all runs; a run without a query lists nothing for it. `depth` cuts the answers (default: the
    deepest of the runs). The provenance names the systems and what was done.

    Raises `ConfigurationError` for faulty options, `RunError` for no run and for runs of another gallery or task.
    """
    _check(runs, fusion, normalisation, weights)
    first = next(iter(runs.values()))
    queries = pc.unique(pa.concat_arrays([run.queries for run in runs.values()]))
    queries = queries.take(pc.sort_indices(queries))
    # Of a large gallery only what the runs mention.
    mentioned = [run.documents.take(pa.array(np.unique(run.indices))) for run in runs.values()]
    documents = pc.unique(pa.concat_arrays(mentioned))
    documents = documents.take(pc.sort_indices(documents))
    default = 1.0 if fusion == "rrf" else 1.0 / len(runs)
    parts = []
    for name, run in runs.items():
        weight = default if weights is None else float(weights[name])
        lengths = np.diff(run.offsets)
        place = pc.index_in(run.queries, queries).to_numpy().astype(np.int64)
        query = np.repeat(place, lengths)
        used, at = np.unique(run.indices, return_inverse=True)
        document = pc.index_in(run.documents.take(pa.array(used)), documents).to_numpy().astype(np.int64)[at]
        if fusion == "rrf":
            ranks = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths) + 1
            gain, absent = 1.0 / (k + ranks), np.zeros(len(queries))
        else:
            gain, lowest = normalised(run, normalisation)
            absent = np.zeros(len(queries))
            absent[place] = lowest
        # What an unlisted document gets is taken off those that are listed, and added to all: it changes no order.
        parts.append((query, document, weight * (gain - absent[query])))
    query, document, gain = (np.concatenate(column) for column in zip(*parts, strict=True))
    pair, at = np.unique(query * len(documents) + document, return_inverse=True)
    score = np.zeros(len(pair))
    np.add.at(score, at, gain)  # in the order of the systems, so that equal parts give equal sums
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


def normalised(run: Run, normalisation: Normalisation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scores of a run on one scale, query by query, and what a document that is not listed gets (one per query)."""
    lengths = np.diff(run.offsets)
    scores, some = run.scores.astype(np.float64), lengths > 0
    first, last = np.zeros(len(run)), np.zeros(len(run))
    first[some] = scores[run.offsets[:-1][some]]
    last[some] = scores[run.offsets[1:][some] - 1]
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
        raise RunError("there is no run to fuse.", hint="give at least one")
    faults = []
    for kind, value, known in (("fusion", fusion, get_args(Fusion)),
                               ("normalisation", normalisation, get_args(Normalisation))):  # fmt: skip
        if value not in known:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), known)})")
    if weights is not None:
        faults += [f"no weight for {name!r}" for name in runs if name not in weights]
        faults += [f"a weight for {name!r}, which is no run" for name in weights if name not in runs]
        faults += [f"the weight of {name!r} is {value}, below 0" for name, value in weights.items() if not value >= 0]
    raise_faults(ConfigurationError, "fusion", faults, hint="mend the options above")
    names = list(runs)
    for name in names[1:]:
        first, run = runs[names[0]], runs[name]
        if first.task != run.task or first.gallery.fingerprint != run.gallery.fingerprint:
            raise RunError(
                f"{names[0]!r} and {name!r} did not search the same candidates: {first.task} over "
                f"{first.gallery.size:,}, {run.task} over {run.gallery.size:,}.",
                hint="fuse runs over one gallery",
            )
