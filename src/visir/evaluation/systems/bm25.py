"""BM25 as a system: it compares the texts of queries with the texts of documents, for any task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, RunError
from visir.evaluation.systems.base import System
from visir.records import Items, Pools, Ranks, Run, Task, Ties
from visir.retrieval.bm25 import Bm25
from visir.retrieval.exact import SearchResult

Rows = NDArray[np.int64]


class Bm25System(System):
    """BM25 over the texts of any task; document frequencies are counted over the candidates."""

    # A document without a common word with the query is not found: it has no rank, rather than a random one.

    def __init__(self, bm25: Bm25 | None = None, name: str = "BM25") -> None:
        super().__init__(name)
        self.bm25 = bm25 or Bm25()

    def texts(self, items: Items) -> list[str]:
        """The text of each item."""
        # Returns: (n,) texts; empty where an item has none.
        if items.texts is None:
            raise ConfigurationError(
                f"{self.name} compares texts; {items.title} are {items.modality}s.",
                hint="leave BM25 out",
                code="compares-texts",
            )
        if items.texts.null_count:
            note = (
                f"{items.texts.null_count:,} of {len(items):,} {items.title} have no text: {self.name} cannot find them"
            )
            self.notes += [] if note in self.notes else [note]
        return [text or "" for text in items.texts.to_pylist()]

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """The run of each task, and the ranks of all positives to the end of the ranking."""
        return [self._search(task, depth, ties) for task in tasks]

    def fields(self) -> dict[str, Any]:
        """The formula, and the preprocessing of words."""
        words = f"stemming {self.bm25.stemming}, stop words {self.bm25.stop_words}"
        return {"similarity": self.bm25.similarity, "text_preprocessing": words}

    def _search(self, task: Task, depth: int, ties: Ties) -> SearchResult:
        gallery, qrels = task.gallery, task.judgements()
        if gallery.ids is None or len(qrels) == 0:
            missing = "a query" if gallery.ids is not None else f"a listed gallery, not {gallery.description!r}"
            raise RunError(f"{task.name} search needs {missing}.", hint="is the split, or the filter, right?")
        # The gallery is sorted by id, so documents of equal score are in order of id.
        texts = self.texts(task.documents.select(gallery.ids))
        queries = self.texts(task.queries.select(qrels.queries))
        pools = None if task.pools is None else _pool_rows(task.pools, qrels.queries.to_pylist(), gallery.ids)
        relevant = qrels.grades > 0
        positives = _rows(qrels.documents, gallery.ids)[relevant]
        ends = np.concatenate([[0], np.cumsum(qrels.positives)]).astype(np.int64)
        ranks = np.zeros(len(positives), dtype=np.int64)
        position = np.zeros(len(texts), dtype=np.int64)
        answers, scores = [], []
        for row, (documents, values) in enumerate(self.bm25.ranked(texts, queries)):
            if pools is not None:
                inside = np.isin(documents, pools[row])
                documents, values = documents[inside], values[inside]
            part = slice(ends[row], ends[row + 1])
            position[_ordered(documents, values, positives[part], ties)] = np.arange(1, len(documents) + 1)
            ranks[part] = np.where(positives[part] < 0, 0, position[positives[part]])
            position[documents] = 0
            answers.append(documents[:depth].astype(np.int32))
            scores.append(values[:depth])
        run = Run(
            self.name,
            task.name,
            qrels.queries,
            np.concatenate([[0], np.cumsum([len(answer) for answer in answers])]).astype(np.int64),
            gallery.ids,
            np.concatenate(answers),
            np.concatenate(scores),
            gallery,
            depth,
            {"search": "bm25s", **self.fields()},
        )
        size = gallery.size if task.pools is None else int(np.diff(task.pools.offsets).max())
        query = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[relevant]
        order = np.lexsort((np.where(ranks == 0, np.iinfo(np.int64).max, ranks), query))
        grades = qrels.grades[relevant][order]
        return SearchResult(run, Ranks(qrels.queries, ends, ranks[order], grades, None, size))


def _ordered(documents: Rows, scores: NDArray[np.float32], positives: Rows, ties: Ties) -> Rows:
    """The documents of one query in the order in which ranks are counted; see `visir.retrieval.exact.search`."""
    if ties == "id":
        return documents
    if ties == "trec":
        return documents[np.lexsort((-documents, -scores))]
    positive = np.isin(documents, positives)
    return documents[np.lexsort((positive if ties == "pessimistic" else ~positive, -scores))]


def _pool_rows(pools: Pools, queries: Sequence[str], gallery: Any) -> list[Rows]:
    """For each query the rows of its candidates in the gallery."""
    rows = _rows(pools.documents, gallery)
    pool_of = {query: number for number, query in enumerate(pools.queries.to_pylist())}
    none = np.zeros(0, dtype=np.int64)
    return [
        rows[pools.offsets[pool_of[query]] : pools.offsets[pool_of[query] + 1]] if query in pool_of else none
        for query in queries
    ]


def _rows(ids: Any, gallery: Any) -> Rows:
    """(n,) the row of each id in the gallery, −1 where it is not there."""
    rows: Rows = pc.fill_null(pc.index_in(ids, gallery), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return rows
