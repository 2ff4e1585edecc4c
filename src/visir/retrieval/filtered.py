"""The best k among allowed documents, for any kind of index."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import Gallery, Run, SparseEmbeddings, Vectors, strings, task_name
from visir.retrieval.answers import check_depth, part_of
from visir.retrieval.exact import search
from visir.retrieval.index import Index

SCANNED = 2_000
"""Up to this many allowed documents are scored one by one, without the index. This takes a few milliseconds, less than
a search of a large index for the many answers of which few are allowed."""
SELECTED = 20_000
"""Up to this many are scored one by one when they are at most a twentieth of the index: 40 MB of 512 dimensions."""
_SPARE = 1.5


class FilteredIndex:
    """A set of allowed documents of an index, prepared once and searched many times."""

    # Few allowed documents are scored one by one, which is exact for every kind of index. With many, the index is
    # searched for more than `k` answers, as many as should contain `k` allowed ones. Queries with too few are searched
    # again for twice as many, until they have `k` or the index has no more. So an exact kind returns exactly the best
    # `k` of the allowed documents, with the scores of an unfiltered search. An approximate kind returns the best of
    # those that it finds.
    # (The other way is to filter inside the search. For a graph this is often worse, because the nodes on the path to
    # an allowed neighbour are not allowed themselves. For exact kinds every search would need code for filters.)
    # The allowed documents are the gallery of the run. Make a new object after a change of the index.

    def __init__(self, index: Index[Any], allowed: object, rows: NDArray[np.int64] | None = None) -> None:
        self.index = index
        ids = strings(allowed)
        ascending = len(ids) < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py()
        self.allowed: pa.StringArray = ids if ascending else ids.take(pc.sort_indices(ids))
        self._selected: Vectors | None = None
        self._similarity: Any = getattr(getattr(index, "settings", None), "similarity", None)
        self._mask: tuple[Any, NDArray[np.bool_]] | None = None
        self._gallery: Gallery | None = None
        # An engine behind an address filters by itself, among up to so many documents (`RemoteIndex.filters_up_to`).
        self.index_filters = len(ids) <= getattr(index, "filters_up_to", -1)
        if self.index_filters:  # it passes over ids that it does not have, and is not asked for all that it has
            self.indexed: pa.StringArray = self.allowed
            return
        indexed_ids = index.ids
        is_indexed = pc.is_in(self.allowed, indexed_ids) if rows is None else pa.array(rows >= 0)
        self.indexed = self.allowed.filter(is_indexed)
        self._rows = None if rows is None else rows[rows >= 0]
        self.size = len(indexed_ids)
        few = len(self.indexed) <= SCANNED or (len(self.indexed) <= SELECTED and len(self.indexed) * 20 <= self.size)
        if few and len(self.indexed):
            self._selected = index.select(self.indexed)

    @property
    def gallery(self) -> Gallery:
        """The allowed documents."""
        if self._gallery is None:
            self._gallery = Gallery.of(self._modality(), self.allowed, "documents that pass the filter")
        return self._gallery

    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """Return the best `k` allowed documents of each query, or fewer if fewer are allowed."""
        check_depth(k)
        if len(self.allowed) == 0:
            raise RunError("no document is allowed.", hint="is the filter right?", code="no-document-allowed")
        if self.index_filters:
            return self.index.search_among(queries, self.indexed, k, **options)  # type: ignore[attr-defined, no-any-return]
        if self._selected is not None:
            return self._scanned(queries, k, self._selected)
        if len(self.indexed) == 0:
            return _nothing(queries, self.gallery, k)
        return self._filtered(queries, k, options)

    def _scanned(self, queries: Vectors, k: int, selected: Vectors) -> Run:
        run = search(queries, selected, depth=k, similarity=self._similarity).run
        if isinstance(selected, SparseEmbeddings):
            run = part_of(run, run.scores > 0)  # every sparse index leaves out what shares no term with the query
        return replace(run, gallery=self.gallery, depth=k, provenance={**run.provenance, "filtered": len(self.allowed)})

    def _filtered(self, queries: Vectors, k: int, options: dict[str, Any]) -> Run:
        depth = min(self.size, int(k * self.size / len(self.indexed) * _SPARE) + 10)
        open_queries, answered = queries, []
        while True:
            run = self.index.search(open_queries, depth, **options)
            entries = self._allowed_entries(run)
            query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
            counts = np.bincount(query[entries], minlength=len(run))
            done = (counts >= min(k, len(self.indexed))) | (np.diff(run.offsets) < depth) | (depth >= self.size)
            if done.any():
                answered.append(part_of(run, entries & done[query], done))
            if done.all():
                break
            open_queries = open_queries.select(run.queries.filter(pa.array(~done)))
            depth = min(self.size, 2 * depth)
        whole = _joined(answered).cut(k)
        about = {**run.provenance, "filtered": len(self.allowed)}
        return replace(whole, gallery=self.gallery, depth=k, provenance=about)

    def _allowed_entries(self, run: Run) -> NDArray[np.bool_]:
        """Return a mask of the entries of a run that are allowed."""
        if self._mask is None or self._mask[0] is not run.documents:  # an index lists its ids as one object
            if self._rows is not None and run.documents.equals(self.index.ids):
                allowed = np.zeros(len(run.documents), np.bool_)
                allowed[self._rows] = True
            else:
                allowed = pc.is_in(run.documents, self.indexed).to_numpy(zero_copy_only=False)
            self._mask = (run.documents, allowed)
        mask: NDArray[np.bool_] = self._mask[1][run.indices]
        return mask

    def _modality(self) -> Any:
        if self._selected is not None:
            return self._selected.modality
        return self.index.select(self.index.ids[:1]).modality


def search_among(index: Index[Any], queries: Vectors, allowed: object, k: int = 10, **options: Any) -> Run:
    """Return `FilteredIndex(index, allowed).search(queries, k, **options)`."""
    return FilteredIndex(index, allowed).search(queries, k, **options)


def _joined(runs: list[Run]) -> Run:
    """Join runs of one index over different queries, in order of query ids."""
    if len(runs) == 1:
        return runs[0]
    queries = pa.concat_arrays([run.queries for run in runs])
    order = pc.sort_indices(queries).to_numpy().astype(np.int64)
    lengths = np.concatenate([np.diff(run.offsets) for run in runs])
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1][order]
    offsets = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    flat = np.repeat(starts - offsets[:-1], lengths[order]) + np.arange(offsets[-1])
    indices, scores = (np.concatenate([getattr(run, name) for run in runs])[flat] for name in ("indices", "scores"))
    return replace(runs[0], queries=queries.take(pa.array(order)), offsets=offsets, indices=indices, scores=scores)


def _nothing(queries: Vectors, gallery: Gallery, k: int) -> Run:
    query_ids = queries.ids.take(pc.sort_indices(queries.ids))
    none = np.empty(0, np.int32)
    task = task_name(queries.modality, gallery.modality)
    assert gallery.ids is not None
    return Run("nothing", task, query_ids, np.zeros(len(query_ids) + 1, np.int64), gallery.ids[:0], none,
               np.empty(0, np.float32), gallery, k, {"filtered": gallery.size})  # fmt: skip
