"""Disjoint folds of a gallery: COCO's "5-fold 1k" is the mean over five galleries of 1,000 images each.

The convention since VSE++ (Faghri et al. 2018, section 4.1): the test images, in the order of the source, are cut into
consecutive, equal, disjoint parts. Each part is searched by its own queries only, and the numbers are averaged over the
parts. Galleries are five times smaller, so numbers are far higher than on the "5k" protocol (for CLIP by about 20
points): the two are never comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, RunError
from visir.records import GROUP, IMAGE, Collection, Gallery, Ranks, Result, Run
from visir.records.columns import strings

# Which queries of a result are not independent: those of one image, or of one item.

CAPTION_TASK = "t2i"


def clusters_of(result: Result, task: str) -> NDArray[Any] | None:
    """The cluster of each query: its image, or its item, as far as either is known."""
    # The labels decide: queries with the same label "image", or with the same label "group", are in one cluster.
    # Without labels the captions of one image are a cluster of the task "t2i".
    # Returns: (n,) numbers in the order of the queries; None where every query is independent, or nothing is known.
    if names := labels_clusters(result, task):
        return tied_codes([result.labels[task][name].combine_chunks() for name in names])
    if result.captions is None or task != CAPTION_TASK:
        return None
    rows = pc.index_in(result.per_query[task]["query_id"].combine_chunks(), result.captions["id"].combine_chunks())
    if rows.null_count:
        return None
    return name_codes(result.captions["image_id"].combine_chunks().take(rows))


def labels_clusters(result: Result, task: str) -> list[str]:
    """The labels of a task that say which queries are not independent: "image", "group"."""
    known = result.labels[task].column_names if task in result.labels else []
    return [name for name in (IMAGE, GROUP) if name in known]


def name_codes(names: pa.Array) -> NDArray[np.int64]:
    """A number for each name; a query without one is alone."""
    # names: (n,) the image or item of each query; null for none.
    numbers: NDArray[np.int64] = (
        names.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = numbers.max(initial=-1) + 1 + np.arange(len(alone))
    return numbers


def tied_codes(columns: list[pa.Array]) -> NDArray[np.int64]:
    """A number for each row: rows that share a value in any of the columns, or are tied by others, have the same."""
    if len(columns) == 1:
        return name_codes(columns[0])
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = (name_codes(column) for column in columns)
    ends = int(first.max(initial=-1)) + 1
    size = ends + int(second.max(initial=-1)) + 1
    graph = coo_array((np.ones(len(first), bool), (first, ends + second)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    components: NDArray[np.int64] = component[first].astype(np.int64)
    return components


Ranked = tuple[dict[str, list[Ranks]], dict[str, Run]]
"""By task: the ranks of each fold, and one run."""


def cut(collection: Collection, folds: int) -> list[Collection]:
    """Cut a collection into equal consecutive parts of its images, with their captions."""
    images = collection.images.num_rows
    if folds < 1 or images < folds:
        raise ConfigurationError(f"{images:,} images cannot be cut into {folds} folds.", hint="5 is usual, on COCO")
    if images % folds:
        raise ConfigurationError(
            f"{images:,} images do not divide into {folds} equal folds.",
            hint=f"choose a split of a multiple of {folds} images, or another number of folds",
            code="images-not-divide-equal",
        )
    if folds == 1:
        return [collection]
    fold = np.arange(images) // (images // folds)
    return [collection.keep_images(fold == number) for number in range(folds)]


def joined(parts: list[Ranks]) -> Ranks:
    """Join the ranks of all folds into one record."""
    if len(parts) == 1:
        return parts[0]
    depths = {part.depth for part in parts}
    stated = [depth for depth in depths if depth is not None]
    sizes = [part.gallery_size for part in parts]
    ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    return Ranks(
        pa.concat_arrays([part.queries for part in parts]),
        np.concatenate([[0], *(part.offsets[1:] + end for part, end in zip(parts, ends, strict=False))]).astype(
            np.int64
        ),
        np.concatenate([part.ranks for part in parts]),
        np.concatenate([part.grades for part in parts]),
        min(stated) if stated else None,
        None if any(size is None for size in sizes) else max(size for size in sizes if size is not None),
    )


def joined_runs(parts: Sequence[Run]) -> Run:
    """Join the runs of all folds into one, over the union of their galleries; `runs_of_folds` is the inverse."""
    # A query was compared with the candidates of its own fold only, and nothing else in the run shows this. So the
    # provenance lists the number of queries and candidates of each fold.
    if len(parts) == 1:
        return parts[0]
    ids = [part.gallery.ids for part in parts if part.gallery.ids is not None]
    table = pa.concat_tables([part.to_arrow() for part in parts])
    documents = pa.concat_arrays([part.documents for part in parts]).unique()
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    folds = [{"queries": len(part), "candidates": part.gallery.size} for part in parts]
    return Run(
        parts[0].name,
        parts[0].task,
        pa.concat_arrays([part.queries for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        documents,
        pc.index_in(table["document_id"].combine_chunks(), documents).to_numpy(zero_copy_only=False).astype(np.int32),
        table["score"].to_numpy(),
        Gallery.of(parts[0].gallery.modality, pa.concat_arrays(ids), f"{len(parts)} folds"),
        min(part.depth for part in parts),
        parts[0].provenance | {"folds": folds},
    )


def folds_of(run: Run) -> int:
    """The number of folds of a run."""
    folds = run.provenance.get("folds", 1)
    return folds if isinstance(folds, int) else len(folds)


def runs_of_folds(run: Run) -> list[Run]:
    """Split a run into the runs of its folds."""
    if folds_of(run) == 1:
        return [run]
    folds = run.provenance["folds"]
    if isinstance(folds, int) or sum(fold["queries"] for fold in folds) != len(run):
        raise RunError(
            f"run {run.name} ({run.task}) was made within {folds_of(run)} folds and does not say which query "
            "belongs to which.",
            hint="evaluate again",
        )
    parts, query = [], 0
    for number, fold in enumerate(folds, 1):
        ends = run.offsets[query : query + fold["queries"] + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        parts.append(
            replace(
                run,
                queries=run.queries[query : query + fold["queries"]],
                offsets=ends - ends[0],
                indices=run.indices[entries],
                scores=run.scores[entries],
                gallery=Gallery.stated(run.gallery.modality, fold["candidates"], f"fold {number} of {len(folds)}"),
            )
        )
        query += fold["queries"]
    return parts


# Restrict a run to some of its queries and to a smaller gallery.


def is_whole(run: Run) -> bool:
    """Whether a run ranks the whole gallery for every query."""
    return run.gallery.ends_by(int(np.diff(run.offsets).min()))


def restrict(run: Run, gallery: Gallery, queries: object = None) -> Run:
    """Restrict a run to a smaller gallery and to some queries."""
    # The rest of a ranking is the ranking that a search over the smaller gallery gives, as far as it reaches. A run
    # that was cut at some depth then has fewer documents, and a different number for each query. The depth of the
    # result is that of the *shortest* answer, so that no measure looks deeper than every query reaches.
    if gallery.ids is None:
        raise RunError(f"the gallery ({gallery.description}) is only stated; a run cannot be restricted to it.")
    is_kept = np.ones(len(run), bool)
    if queries is not None:
        is_kept = pc.is_in(run.queries, strings(queries)).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    inside = pc.is_in(run.documents, gallery.ids).to_numpy(zero_copy_only=False)
    keep = is_kept[row] & inside[run.indices]
    lengths = np.bincount(row[keep], minlength=len(run))[is_kept]
    if len(lengths) == 0:
        raise RunError(f"run {run.name} ({run.task}): none of the wanted queries is in it.")
    return replace(
        run,
        queries=run.queries.filter(pa.array(is_kept)),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=run.indices[keep],
        scores=run.scores[keep],
        gallery=gallery,
        depth=gallery.size if is_whole(run) else int(lengths.min()),
    )
