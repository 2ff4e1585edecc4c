"""One collection in several indexes: each is searched for itself, and the answers become one run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import RunError
from visir.records import Gallery, Run
from visir.retrieval.answers import Hits


def merge_shards(runs: Sequence[Run], *, depth: int | None = None) -> Run:
    """Merge the answers of several indexes, each of other documents, as if one index had all of them.

    Scores are compared as they are: the indexes must be of one kind, encoder and similarity. With exact indexes the
    result is that of one index over everything. The recall of approximate ones is the mean of theirs, or a little more.

    Args:
        runs: The run of each shard, of the same queries to the same depth.
        depth: The number of documents per query; None takes that of the runs. More than it would miss documents. Runs
            whose gallery is known to have no more documents than they are deep set no limit.

    Returns:
        The best documents of all shards: by falling score, ties by document id.

    Raises:
        RunError: There is no run; tasks or queries differ; a document is in two shards; or `depth` is too large.

    Example:
        >>> from visir.records import Gallery
        >>> first = Run.ranked("s", "t2i", ["q", "q"], ["a", "b"], [0.9, 0.4], Gallery.of("image", ["a", "b"]))
        >>> second = Run.ranked("s", "t2i", ["q", "q"], ["c", "d"], [0.7, 0.1], Gallery.of("image", ["c", "d"]))
        >>> [document for document, _ in merge_shards([first, second]).answer("q")]
        ['a', 'c']
    """
    if not runs:
        raise RunError("there is no run to merge.", hint="give that of each shard")
    if depth is not None and depth < 1:
        raise RunError(f"depth={depth!r}: a number of documents above 0.", hint="or leave depth out")
    first, deepest = runs[0], max(run.depth for run in runs)
    # A run over a gallery that is no larger than its depth misses nothing, however short it is.
    cut = [run.depth for run in runs if not 0 < run.gallery.size <= run.depth]
    shallowest = min(cut, default=deepest if depth is None else max(depth, deepest))
    wanted = depth or shallowest
    if wanted > shallowest:
        raise RunError(
            f"the best {wanted:,} cannot be known from runs of {shallowest:,} answers.",
            hint=f"search every shard with k={wanted}",
        )
    for number, run in enumerate(runs):
        if run.task != first.task or not run.queries.equals(first.queries):
            raise RunError(
                f"shard {number} did not answer what shard 0 did: {run.task} with {len(run):,} queries, {first.task} "
                f"with {len(first):,}.",
                hint="search all shards with the same queries",
            )
    mentioned = [run.documents.take(pa.array(np.unique(run.indices))) for run in runs]
    documents = pa.concat_arrays(mentioned)
    counts = documents.value_counts()
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise RunError(
            f"the document {twice.field('values')[0].as_py()!r} is in several shards.",
            hint="runs of several systems over the same documents are joined by visir.retrieval.fusion.fuse",
        )
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
    )


def _whole(galleries: Sequence[Gallery]) -> Gallery:
    """All documents: listed where those of every shard are."""
    first = galleries[0]
    ids = [gallery.ids for gallery in galleries if gallery.ids is not None]
    if len(ids) == len(galleries):
        return Gallery.of(first.modality, pa.concat_arrays(ids), first.description, title=first.title)
    if all(gallery.is_known for gallery in galleries):
        size = sum(gallery.size for gallery in galleries)
        return Gallery.stated(first.modality, size, first.description, title=first.title)
    return Gallery.unknown()
