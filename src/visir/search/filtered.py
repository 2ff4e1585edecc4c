"""The best k among allowed documents, for any kind of index."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import Embeddings, Gallery, Run, Vectors, strings, task_name
from visir.search.depth import check_depth
from visir.search.exact import search
from visir.search.index import Index

SCANNED = 2_000
"""Allowed documents that are scored one by one without asking the index. Scoring these takes a few milliseconds, less
than asking a large index for the many answers of which so few are allowed."""
SELECTED = 20_000
"""The most that are copied out of a large index for that, when they are no more than a twentieth of it: 40 MB of
512 dimensions."""
_SPARE = 1.5


@runtime_checkable
class Filters(Protocol):
    """An index that can keep to allowed ids by itself (a remote engine): then it is asked to."""

    def search_among(self, queries: Any, allowed: pa.StringArray, k: int = 10, **options: Any) -> Run:
        """The best `k` of `allowed` for each query."""


class FilteredIndex:
    """A set of allowed documents of an index, prepared once and searched many times.

    - `allowed`: ids, in any order, each once; those that are not in the index are candidates that nothing finds
    - `rows`: where they stand in the index's ids, −1 for those that do not; told by whoever knows it, because looking
      for a hundred thousand ids takes longer than a search. Then `allowed` ascends

    Few allowed documents are selected and scored one by one, which is exact whatever the kind. With many, the index is
    asked for more than `k` answers, as many as should hold `k` allowed ones; queries that still lack some are asked
    again for twice as many, until they have `k` or the index has no more to say. So an exact kind gives exactly the
    best `k` of the allowed documents with exactly the scores of an unfiltered search, and an approximate kind the best
    of those it finds. Nothing is searched where nothing is allowed.

    (The other way is to filter inside the search. For a graph that is often worse, because what leads to an allowed
    neighbour is not allowed itself; for exact kinds it would make every kind's search know of filters.)

    The gallery of the run is what is allowed. Prepared for the index as it is: make another after a change.
    """

    def __init__(self, index: Index[Any], allowed: object, rows: NDArray[np.int64] | None = None) -> None:
        self.index = index
        ids = strings(allowed)
        ascending = len(ids) < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py()
        self.allowed: pa.StringArray = ids if ascending else ids.take(pc.sort_indices(ids))
        held = index.ids
        there = pc.is_in(self.allowed, held) if rows is None else pa.array(rows >= 0)
        self.here: pa.StringArray = self.allowed.filter(there)
        self._rows = None if rows is None else rows[rows >= 0]
        self.size = len(held)
        self.own = isinstance(index, Filters)
        few = len(self.here) <= SCANNED or (len(self.here) <= SELECTED and len(self.here) * 20 <= self.size)
        self._selected: Vectors | None = None
        if few and len(self.here) and not self.own:
            self._selected = index.select(self.here)
        self._similarity: Any = getattr(getattr(index, "settings", None), "similarity", None)
        self._mask: tuple[Any, NDArray[np.bool_]] | None = None
        self._gallery: Gallery | None = None

    @property
    def gallery(self) -> Gallery:
        """The allowed documents. Raises `RunError` when there are none."""
        if self._gallery is None:
            self._gallery = Gallery.of(self._modality(), self.allowed, "documents that pass the filter")
        return self._gallery

    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """The best `k` allowed documents of each query, as `Index.search` answers; shorter where there are fewer.

        Raises `RunError` when nothing is allowed, and whatever the index raises.
        """
        check_depth(k)
        if len(self.allowed) == 0:
            raise RunError("no document is allowed.", hint="is the filter right?")
        if self.own:
            return self.index.search_among(queries, self.here, k, **options)  # type: ignore[attr-defined, no-any-return]
        if self._selected is not None:
            return self._scanned(queries, k, self._selected)
        if len(self.here) == 0:
            return _nothing(queries, self.gallery, k)
        return self._asked(queries, k, options)

    def _scanned(self, queries: Vectors, k: int, selected: Vectors) -> Run:
        if isinstance(selected, Embeddings):
            run = search(queries, selected, depth=k, similarity=self._similarity).run
        else:
            run = _without_zeros(search(queries, selected, depth=k).run)
        return replace(run, gallery=self.gallery, depth=k, provenance={**run.provenance, "filtered": len(self.allowed)})

    def _asked(self, queries: Vectors, k: int, options: dict[str, Any]) -> Run:
        wanted = min(self.size, int(k * self.size / len(self.here) * _SPARE) + 10)
        open_queries, answered = queries, []
        while True:
            run = self.index.search(open_queries, wanted, **options)
            entries = self._allowed_entries(run)
            query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
            counts = np.bincount(query[entries], minlength=len(run))
            done = (counts >= min(k, len(self.here))) | (np.diff(run.offsets) < wanted) | (wanted >= self.size)
            if done.any():
                answered.append(part_of(run, entries & done[query], done))
            if done.all():
                break
            open_queries = open_queries.select(run.queries.filter(pa.array(~done)))
            wanted = min(self.size, 2 * wanted)
        whole = _joined(answered).cut(k)
        about = {**run.provenance, "filtered": len(self.allowed)}
        return replace(whole, gallery=self.gallery, depth=k, provenance=about)

    def _allowed_entries(self, run: Run) -> NDArray[np.bool_]:
        """Which entries of a run are allowed."""
        if self._mask is None or self._mask[0] is not run.documents:  # an index lists its ids as one object
            if self._rows is not None and run.documents.equals(self.index.ids):
                allowed = np.zeros(len(run.documents), np.bool_)
                allowed[self._rows] = True
            else:
                allowed = pc.is_in(run.documents, self.here).to_numpy(zero_copy_only=False)
            self._mask = (run.documents, allowed)
        mask: NDArray[np.bool_] = self._mask[1][run.indices]
        return mask

    def _modality(self) -> Any:
        if self._selected is not None:
            return self._selected.modality
        return self.index.select(self.index.ids[:1]).modality


def search_among(index: Index[Any], queries: Vectors, allowed: object, k: int = 10, **options: Any) -> Run:
    """The best `k` documents of each query among `allowed` ids: `FilteredIndex(index, allowed).search(queries, k)`."""
    return FilteredIndex(index, allowed).search(queries, k, **options)


def part_of(run: Run, entries: NDArray[np.bool_], queries: NDArray[np.bool_]) -> Run:
    """These entries of a run, for these of its queries."""
    query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    counts = np.bincount(query[entries], minlength=len(run))[queries]
    return replace(
        run,
        queries=run.queries.filter(pa.array(queries)),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        indices=run.indices[entries],
        scores=run.scores[entries],
    )


def _joined(runs: list[Run]) -> Run:
    """Runs over other queries of one index, as one, in order of query ids."""
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


def _without_zeros(run: Run) -> Run:
    """Without documents that share no term with the query, as every sparse index answers."""
    return part_of(run, run.scores > 0, np.ones(len(run), np.bool_))


def _nothing(queries: Vectors, gallery: Gallery, k: int) -> Run:
    query_ids = queries.ids.take(pc.sort_indices(queries.ids))
    none = np.empty(0, np.int32)
    task = task_name(queries.modality, gallery.modality)
    assert gallery.ids is not None
    return Run("nothing", task, query_ids, np.zeros(len(query_ids) + 1, np.int64), gallery.ids[:0], none,
               np.empty(0, np.float32), gallery, k, {"filtered": gallery.size})  # fmt: skip
