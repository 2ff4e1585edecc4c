"""Approximate dense search in a graph of near neighbours (HNSW), by FAISS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.records import Embeddings
from visir.retrieval import kernels
from visir.retrieval.answers import Hits
from visir.retrieval.clustering import faiss_threads, load_faiss
from visir.retrieval.parts import DENSE
from visir.retrieval.rows import Rows
from visir.retrieval.settings import setting
from visir.retrieval.stored import StoredIndex
from visir.retrieval.vectors import BLOCK, Side


@dataclass(frozen=True)
class HnswSettings:
    """The settings of a graph: its cost and its quality (Malkov and Yashunin, 2018: arXiv:1603.09320)."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))
    m: int = setting(
        32, "neighbours of a vector (twice as many in the lowest layer): more find better, 8 bytes each", least=2
    )
    ef_construction: int = setting(
        200, "candidates looked at when a vector is put in: more build slower and find better", least=1
    )
    ef_search: int = setting(
        64, "candidates kept while searching: more find better, time grows about in step", least=1, search=True
    )
    threads: int = setting(
        1, "threads that build; with more than one the graph depends a little on their timing", least=1
    )


@dataclass(frozen=True)
class Graph:
    """A FAISS graph over all rows."""

    index: Any  # the FAISS index
    # (rows, d) float32, the vectors that it compares, divided by their lengths for cosine; a view of the memory of
    # FAISS.
    vectors: NDArray[np.float32]


class HnswIndex(StoredIndex[Embeddings]):
    """Kind "hnsw": FAISS finds candidates, visir scores them."""

    # The graph decides only *which* documents are scored: all `max(k, ef_search)` candidates are scored as in exact
    # search and ordered by that score, ties by id. So a pair has the same score as in every search of visir, and a run
    # differs from the exact one only by documents that the graph did not find. If the graph finds fewer than `k`
    # documents (it cannot reach most of many equal vectors, and some near many deleted ones), the query is answered
    # exactly, so an answer is never short.
    # Deleted documents stay in the graph as nodes of its paths, but not in answers. When they are more than half, the
    # graph is built again. The disk has the graph without vectors, and the vectors; memory has both.
    # Under similarity "dot" the graph is over inner products, which are not distances: at the same settings, vectors of
    # very unequal lengths are found less well than under cosine.

    kind = "hnsw"
    exact = False
    form = DENSE
    settings_type = HnswSettings

    def _construct(self, rows: Rows[Embeddings]) -> Graph:
        faiss = _faiss()
        index = faiss.IndexHNSWFlat(rows.parts[0].dimension, self.settings.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.settings.ef_construction
        return self._grown(index, rows)

    def _extend(self, built: Graph, before: Rows[Embeddings], after: Rows[Embeddings]) -> Graph:
        if len(after) == len(before):
            return built
        return self._grown(_faiss().clone_index(built.index), after)

    def _grown(self, index: Any, rows: Rows[Embeddings]) -> Graph:
        """Add all rows to the graph that are not in it."""
        faiss = _faiss()
        # Levels are drawn from the number of rows, not from what this process drew before: the same steps give the
        # same graph, whether the index was loaded in between or not.
        index.hnsw.rng = faiss.RandomGenerator(12345 + index.ntotal)
        with faiss_threads(faiss, self.settings.threads):
            for block in self._blocks(rows, index.ntotal):
                index.add(block)
        return _graph(index)

    def _blocks(self, rows: Rows[Embeddings], first: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the rows from `first` on, as the graph compares them."""
        for part, start in zip(rows.parts, rows.starts, strict=False):
            size = len(part)
            for begin in range(max(first - int(start), 0), size, BLOCK):
                side = Side(part, np.arange(begin, min(begin + BLOCK, size)), self.settings.similarity)
                yield side.block(0, len(side))

    def _has_file(self, built: Graph) -> bool:
        return True

    def _write(self, built: Graph, path: Path) -> None:
        faiss = _faiss()
        faiss.write_index(built.index, str(path), faiss.IO_FLAG_SKIP_STORAGE)

    def _read(self, rows: Rows[Embeddings], path: Path | None, facts: Mapping[str, Any]) -> Graph:
        faiss = _faiss()
        index = faiss.read_index(str(path))
        if index.ntotal != len(rows):
            raise ValueError(f"a graph of {index.ntotal} vectors for {len(rows)} rows")
        storage = faiss.IndexFlatIP(rows.parts[0].dimension)
        for block in self._blocks(rows, 0):
            storage.add(block)
        storage.this.disown()  # the graph frees it
        index.storage, index.own_fields = storage, True
        return _graph(index)

    def _find(self, rows: Rows[Embeddings], built: Graph, queries: Embeddings, k: int, settings: HnswSettings) -> Hits:
        faiss = _faiss()
        asking = Side(queries, np.arange(len(queries)), self.settings.similarity).block(0, len(queries))
        candidates = min(max(k, settings.ef_search), len(rows))
        parameters = faiss.SearchParametersHNSW(efSearch=candidates)
        if rows.dead.any():
            alive = np.packbits(~rows.dead, bitorder="little")
            selector = faiss.IDSelectorBitmap(alive)
            parameters.sel = selector
        _, labels = built.index.search(asking, candidates, params=parameters)
        query, rank = np.nonzero(labels >= 0)
        row = labels[query, rank]
        short = np.bincount(query, minlength=len(queries)) < min(k, len(rows.live))
        answered = ~short[query]
        hits = [self._scored(rows, built, asking, query[answered], row[answered])]
        hits += [
            self._scored(rows, built, asking, np.full(len(rows.live), unanswered), rows.live)
            for unanswered in np.flatnonzero(short)
        ]
        return Hits.joined(hits)

    def _scored(
        self,
        rows: Rows[Embeddings],
        built: Graph,
        asking: NDArray[np.float32],
        query: NDArray[np.int64],
        row: NDArray[np.int64],
    ) -> Hits:
        scores = np.empty(len(query), np.float32)
        kernels.score_pairs(asking, query, built.vectors, row, scores)
        return Hits(query, rows.places[row], scores)

    def _details(self, rows: Rows[Embeddings], built: Graph) -> dict[str, Any]:
        return {"layers": int(built.index.hnsw.max_level) + 1}


def _graph(index: Any) -> Graph:
    faiss = _faiss()
    storage = faiss.downcast_index(index.storage)
    vectors = faiss.rev_swig_ptr(storage.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)
    return Graph(index, vectors)


def _faiss() -> Any:
    return load_faiss("an index of kind 'hnsw'")
