"""Several rankings become one: of systems over the same candidates (reciprocal rank fusion, or a weighted sum of
normalised scores), or of indexes of other documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import counted
from visir.errors import ConfigurationError, RunError, nearest, raise_faults
from visir.parquet import integer_array
from visir.records import Gallery, Items, Run
from visir.records.items import PLACES, Modality
from visir.retrieval.answers import Hits, depth_fault

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
        weights: The weight w of each system, at least 0, one above it; None is 1 for "rrf" and 1 / number of systems
            for "weighted".
        normalisation: How "weighted" scales the scores of a query. "maximum": score / best score, and 0 for scores
            below 0; 0 stays 0, and the depth of the list has no influence. "minmax": (score - worst) / (best - worst)
            of the list, so the last answer always gets 0. "z": (score - mean) / standard deviation of the list. Under
            "minmax" and "z" a deeper list changes every fused score. So all pages of an answer need lists of one depth,
            or page 2 does not continue page 1.
        k: The constant of "rrf", a finite number from 0.
        depth: The number of documents per query, from 1; None is the largest depth of the runs.

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
    _check(runs, fusion, normalisation, weights, k, depth)
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
        place = _rows_in(run.queries, queries)
        query = np.repeat(place, lengths)
        used, inverse = np.unique(run.indices, return_inverse=True)
        document = _rows_in(run.documents.take(integer_array(used)), documents)[inverse]
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
    deep = max(run.depth for run in runs.values()) if depth is None else int(depth)
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


def _rows_in(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
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


def constant_faults(constant: object, name: str) -> list[str]:
    """What is wrong with the constant of reciprocal rank fusion."""
    return [] if _at_least_0(constant) else [f"{name} must be a finite number from 0, not {constant!r} ({K} is usual)"]


def weight_faults(weights: Mapping[str, object]) -> list[str]:
    """What is wrong with the weights of rankings."""
    faults = []
    for name, value in weights.items():
        if not _at_least_0(value):
            below = isinstance(value, Real) and value < 0
            faults.append(f"the weight of {name!r} is {value!r}, {'below 0' if below else 'not a finite number'}")
    if weights and not faults and not any(weights.values()):
        faults.append("every weight is 0: one must be above it")
    return faults


def _at_least_0(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 0 <= float(value) < np.inf
    except OverflowError:
        return False


def _check(runs: Mapping[str, Run], fusion: str, normalisation: str, weights: object, k: object, depth: object) -> None:
    if not runs:
        raise RunError("there is no run to fuse.", hint="give at least one", code="no-run-fuse")
    faults = []
    for kind, value, allowed in (("fusion", fusion, get_args(Fusion)),
                                 ("normalisation", normalisation, get_args(Normalisation))):  # fmt: skip
        if value not in allowed:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), allowed)})")
    faults += constant_faults(k, "k")
    if depth is not None and (fault := depth_fault(depth, "depth")):
        faults.append(fault)
    if isinstance(weights, Mapping):
        faults += [f"no weight for {name!r}" for name in runs if name not in weights]
        faults += [f"a weight for {name!r}, which is no run" for name in weights if name not in runs]
        faults += weight_faults(weights)
    elif weights is not None:
        faults.append(f"weights must be {{name of a run: weight}}, not {weights!r}")
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


# One collection in several indexes: each is searched for itself, and the answers become one run.


def merge_shards(runs: Iterable[Run], *, depth: int | None = None) -> Run:
    """Merge the answers of several indexes, each of other documents, as if one index had all of them.

    Scores are compared as they are: the indexes must be of one kind, encoder and similarity. With exact indexes the
    result is that of one index over everything. The recall of approximate ones is the mean of theirs, or a little more.

    Args:
        runs: The run of each shard, of the same queries, in any order.
        depth: The number of documents per query; None takes that of the shallowest run. More than it would miss
            documents. Runs whose gallery is known to have no more documents than they are deep set no limit.

    Returns:
        The best documents of all shards: by falling score, ties by document id; queries in the order of the first run.

    Raises:
        RunError: There is no run; tasks, queries, encoders or similarities differ; a document is in two shards; or
            `depth` is no whole number from 1, or too large. The last ones are said at once.

    Example:
        >>> from visir.records import Gallery
        >>> first = Run.ranked("s", "t2i", ["q", "q"], ["a", "b"], [0.9, 0.4], Gallery.of("image", ["a", "b"]))
        >>> second = Run.ranked("s", "t2i", ["q", "q"], ["c", "d"], [0.7, 0.1], Gallery.of("image", ["c", "d"]))
        >>> [document for document, _ in merge_shards([first, second]).answer("q")]
        ['a', 'c']
    """
    runs = _listed(runs)
    first, deepest = runs[0], max(run.depth for run in runs)
    # A run over a gallery that is no larger than its depth misses nothing, however short it is.
    cut = [run.depth for run in runs if not 0 < run.gallery.size <= run.depth]
    faults = [] if depth is None else [fault for fault in [depth_fault(depth, "depth")] if fault]
    shallowest = min(cut, default=deepest if depth is None or faults else max(depth, deepest))
    wanted = shallowest if depth is None or faults else int(depth)
    if wanted > shallowest:
        faults.append(
            f"the best {wanted:,} cannot be known from runs of {shallowest:,} answers (search every shard with "
            f"k={wanted})"
        )
    for number, run in enumerate(runs):
        faults += [fault for differs in (_other_questions, _other_scores) if (fault := differs(number, run, first))]
    mentioned = [run.documents.take(pa.array(np.unique(run.indices))) for run in runs]
    documents = pa.concat_arrays(mentioned)
    counts = documents.value_counts()
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        more = f", and {len(twice) - 1:,} more" if len(twice) > 1 else ""
        faults.append(
            f"the document {twice.field('values')[0].as_py()!r}{more} is in several shards (runs of several systems "
            "over the same documents are joined by visir.retrieval.fusion.fuse)"
        )
    raise_faults(RunError, "these runs cannot be merged", faults, hint="search each shard once, with the same queries")
    runs = [run if run.queries.equals(first.queries) else run.select(first.queries) for run in runs]
    documents = documents.take(pc.sort_indices(documents))
    hits = Hits.joined(
        [
            Hits(
                np.repeat(np.arange(len(run)), np.diff(run.offsets)),
                pc.index_in(run.documents, documents).fill_null(-1).to_numpy().astype(np.int64)[run.indices],
                run.scores,
            )
            for run in runs
        ]
    )
    offsets, places, scores = hits.best(len(first), wanted)
    return Run(
        name=first.name,
        task=first.task,
        queries=first.queries,
        offsets=offsets,
        documents=documents,
        indices=places.astype(np.int32),
        scores=scores,
        gallery=_whole([run.gallery for run in runs]),
        depth=wanted,
        provenance={"shards": [{"name": run.name, **run.provenance} for run in runs]},
        query_items=first.query_items,
        document_items=_items([run.document_items for run in runs], mentioned),
    )


def _listed(runs: Iterable[Run]) -> list[Run]:
    if isinstance(runs, Run) or not isinstance(runs, Iterable):
        given = "one run" if isinstance(runs, Run) else repr(runs)
        raise RunError(
            f"a list of runs is wanted, not {given}.",
            hint="give that of each shard: [first, second]",
            code="list-runs-wanted-not",
        )
    runs = list(runs)
    if not runs:
        raise RunError("there is no run to merge.", hint="give that of each shard", code="no-run-merge")
    for number, run in enumerate(runs):
        if not isinstance(run, Run):
            raise RunError(
                f"shard {number} is no run, but {type(run).__name__}.",
                hint="visir.retrieval.read_run reads a file",
                code="shard-no-run",
            )
    return runs


def _other_questions(number: int, run: Run, first: Run) -> str:
    """What a shard was asked that the first was not, and the reverse; "" where they are equal but for their order."""
    differences = [] if run.task == first.task else [f"the task {run.task!r}, not {first.task!r}"]
    for ids, others, what in ((run.queries, first.queries, "more"), (first.queries, run.queries, "fewer")):
        alone = ids.filter(pc.invert(pc.is_in(ids, others)))
        if len(alone):
            more = ", …" if len(alone) > 1 else ""
            differences.append(f"{counted(len(alone), 'queries')} {what} ({alone[0].as_py()!r}{more})")
    return f"shard {number} did not answer what shard 0 did: {'; '.join(differences)}" if differences else ""


def _other_scores(number: int, run: Run, first: Run) -> str:
    """How the scores of a shard differ in kind from those of the first, as far as both runs say; "" if they do not."""
    mine, theirs = run.provenance, first.provenance
    differences = []
    if all("similarity" in facts for facts in (mine, theirs)) and mine["similarity"] != theirs["similarity"]:
        differences.append(f"by {mine['similarity']!r}, not {theirs['similarity']!r}")
    for side, name in (("queries", "queries"), ("candidates", "documents")):
        this, other = mine.get(side), theirs.get(side)
        if isinstance(this, dict) and isinstance(other, dict) and this.get("fingerprint") != other.get("fingerprint"):
            differences.append(f"of {name} by {this.get('encoder')!r}, not {other.get('encoder')!r}")
    if not differences:
        return ""
    return (
        f"the scores of shard {number} cannot be compared with those of shard 0: they are {' and '.join(differences)}"
    )


def _items(shards: Sequence[Items | None], named: Sequence[pa.StringArray]) -> Items | None:
    """What the documents are that each run names; None where a run does not say so."""
    parts = [shard.select(ids) for shard, ids in zip(shards, named, strict=True) if shard is not None]
    if len(parts) < len(shards):
        return None
    first = parts[0]
    if any((part.injected, part.corrupted) != (first.injected, first.corrupted) for part in parts):
        return None  # what is shown of one shard is not what is shown of another
    texts = [pa.nulls(len(part), pa.string()) if part.texts is None else part.texts for part in parts]
    places = [_places(part, absolute=any(other.root != first.root for other in parts)) for part in parts]
    return replace(
        first,
        ids=pa.concat_arrays([part.ids for part in parts]),
        texts=None if all(part.texts is None for part in parts) else pa.concat_arrays(texts),
        places=None if all(part.places is None for part in parts) else pa.concat_tables(places),
    )


def _places(items: Items, *, absolute: bool) -> pa.Table:
    """Where the pictures are; `absolute` where their folders differ: then the folder of each is part of its place."""
    if items.places is None:
        return pa.table({name: pa.nulls(len(items), pa.string()) for name in PLACES.names}, schema=PLACES)
    if not absolute:
        return items.places
    root = items.root.absolute()
    rows = [
        {"path": row["path"], "archive": str(root / row["archive"])}
        if row["archive"] is not None
        else {"path": None if row["path"] is None else str(root / row["path"]), "archive": None}
        for row in items.places.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=PLACES)


def _whole(galleries: Sequence[Gallery]) -> Gallery:
    """All documents: listed where those of every shard are."""
    first = galleries[0]
    held = {gallery.modality for gallery in galleries}
    modality: Modality = first.modality if len(held) == 1 else "text+image"
    ids = [gallery.ids for gallery in galleries if gallery.ids is not None]
    if len(ids) == len(galleries):
        return Gallery.of(modality, pa.concat_arrays(ids), first.description, title=first.title)
    if all(gallery.is_known for gallery in galleries):
        size = sum(gallery.size for gallery in galleries)
        return Gallery.stated(modality, size, first.description, title=first.title)
    return Gallery.unknown()
