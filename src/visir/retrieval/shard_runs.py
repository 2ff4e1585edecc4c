"""One collection in several indexes: each is searched for itself, and the answers become one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import counted
from visir.errors import RunError, raise_faults
from visir.records import Gallery, Items, Run
from visir.records.items import PLACES, Modality
from visir.retrieval.answers import Hits, depth_fault

# The time of a search, and its share of the exact answer.

T = TypeVar("T")


def best_of(work: Callable[[], T], times: int = 3) -> tuple[float, T]:
    """Call `work` several times; return the least processor time in seconds, and the last result."""
    # It is the processor time of the whole process. With one thread this is the elapsed time on an idle machine. The
    # minimum is used because other work of the machine can only add to it.
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def kth_scores(run: Run, k: int) -> NDArray[np.float64]:
    """Return the (n,) k-th best score of each query: the last if there are fewer, infinite if there is none."""
    last = np.minimum(run.offsets[:-1] + k, run.offsets[1:]) - 1
    return np.where(np.diff(run.offsets) > 0, run.scores[np.maximum(last, 0)], np.inf)


def share_found(run: Run, least: NDArray[np.float64]) -> float:
    """Return the share of answers that score at least as high as the exact k-th best."""
    # Unlike a comparison of ids, this counts a document that equals one of the exact answers as found.
    # least: (n,) the exact scores of `kth_scores`.
    reached = run.scores >= np.repeat(least, np.diff(run.offsets))
    return float(reached.sum() / (np.isfinite(least).sum() * run.depth))


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
