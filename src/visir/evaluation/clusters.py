"""Which queries of a result are not independent: those of one image, or of one item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import GROUP, IMAGE, Result

CAPTION_TASK = "t2i"


def clusters_of(result: Result, task: str) -> NDArray[Any] | None:
    """The cluster of each query: its image, or its item, as far as either is known."""
    # The labels decide: queries with the same label "image", or with the same label "group", are in one cluster.
    # Without labels the captions of one image are a cluster of the task "t2i".
    # Returns: (n,) numbers in the order of the queries; None where every query is independent, or nothing is known.
    if names := labels_clusters(result, task):
        return _joined([result.labels[task][name].combine_chunks() for name in names])
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


def _joined(columns: list[pa.Array]) -> NDArray[np.int64]:
    """The components of queries that share a value in any of the columns."""
    if len(columns) == 1:
        return name_codes(columns[0])
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = (name_codes(column) for column in columns)
    ends = int(first.max(initial=-1)) + 1
    size = ends + int(second.max(initial=-1)) + 1
    graph = coo_array((np.ones(len(first), bool), (first, ends + second)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    joined: NDArray[np.int64] = component[first].astype(np.int64)
    return joined
