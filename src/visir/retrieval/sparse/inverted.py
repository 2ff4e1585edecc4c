"""The inverted index: visir's own search over weighted words, exact or within a budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError, RunError
from visir.records import Run, SparseEmbeddings
from visir.retrieval.answers import Hits, run_of
from visir.retrieval.depth import MOST, check_depth
from visir.retrieval.rows import Rows, check_fits_index
from visir.retrieval.settings import searching, setting
from visir.retrieval.sparse import kernels
from visir.retrieval.sparse.lists import INVERTED, lists_of
from visir.retrieval.stored import StoredIndex
from visir.threads import cores


@dataclass(frozen=True)
class InvertedSettings:
    """The settings of a search; the index itself has none."""

    budget: int = setting(
        0, "postings read for a query, about; 0 reads as many as an exact answer takes", least=0, search=True
    )
    candidates: int = setting(
        0,
        "documents looked at more closely: within a budget (0: 2 k + budget / 800), or re-scored in two-stage search "
        "(0: 10 k, at least 100)",
        least=0,
        search=True,
    )
    threads: int = setting(
        0, "threads that share the queries of one search; 0: one for each core", least=0, search=True
    )


class InvertedIndex(StoredIndex[SparseEmbeddings]):
    """Kind "inverted": inverted lists of impact order, columns for frequent terms, and the vectors to score with."""

    # A search is exact unless it is given a `budget`: how many postings (document and weight of a term) it may read for
    # a query, chosen by query weight × weight × idf. Those documents that gain most from them (`candidates`) are then
    # scored exactly, so a budget may miss documents but never changes a score. Only documents that share a term with
    # the query are answers; equal scores stand in order of ids. Exact answers do not depend on the parts of the index,
    # on threads, or on the order of documents; answers within a budget depend on the parts, a little.
    # Measured on 123,000 generated documents of 350 terms (`benchmarks/sparse_search.py`): of the exact best ten,
    # queries of 150 terms find .958 with a budget of 20,000, .991 with 40,000, .9997 with 80,000, at some 6, 4 and 2.5
    # times the speed of exact search; queries of 10 terms find .964, .990 and .999, but such short queries are searched
    # exactly in about the same time.
    # Two-stage search (thesis 3.5.3) retrieves with one form of the queries and scores with another: `search(expanded,
    # first=originals)`. It answers another question than exact search with the expanded queries: documents that share
    # only expansion terms with a query cannot be retrieved, and of those that share original terms only the
    # `candidates` best *by these* are scored. On the documents above it finds .49 of the exact best ten of the expanded
    # queries with 100 candidates, .66 with 300, although all ten share original terms: the few original terms rank
    # others before them. A search within a budget is faster and finds more.
    # Memory: the files are memory-mapped and shared between processes; a searching thread adds 19 bytes per document.

    kind = "inverted"
    exact = True
    form = INVERTED
    settings_type = InvertedSettings

    def search(
        self, queries: SparseEmbeddings, k: int = 10, *, first: SparseEmbeddings | None = None, **options: Any
    ) -> Run:
        """Return the best `k` documents of each query: by falling score, ties by id; queries in order of their ids."""
        if first is None:
            return super().search(queries, k, **options)
        rows = self._state.rows
        check_fits_index(self.form, queries, rows.parts[0])
        settings = searching(self.kind, self.settings, options)
        query_ids = queries.ids.take(pc.sort_indices(queries.ids))
        if not query_ids.equals(first.ids.take(pc.sort_indices(first.ids))):
            raise EmbeddingError(
                f"two-stage search: {len(first)} queries to retrieve with and {len(queries)} to score with are not the "
                "same.",
                hint="give both forms of the same queries, under the same ids",
                code="queries-retrieve-score-not",
            )
        check_depth(k)
        wanted = min(max(k, settings.candidates or max(10 * k, 100)), MOST)
        retrieved = super().search(first, wanted, **{**asdict(settings), "candidates": 0})
        hits = self._scored(rows, queries.select(query_ids), retrieved, settings.threads)
        held = rows.parts[0].encoder
        about = {"search": self.kind, **asdict(settings), "first": first.encoder.name, "candidates": wanted}
        return run_of(hits, query_ids, (queries.modality, queries.encoder), rows.gallery, k, held, about)

    def compact(self) -> None:
        """Merge all parts into one, without deleted documents. Exact answers stay the same; searches get faster."""
        rows = self._state.rows
        if len(rows.live) == 0:
            raise RunError(
                "the index is empty: every document was deleted.", hint="add some first", code="every-document-deleted"
            )
        if len(rows.parts) > 1 or rows.dead.any():
            merged = rows.compact()
            self._change(merged, lambda: self._construct(merged))

    def _construct(self, rows: Rows[SparseEmbeddings]) -> None:
        for part in rows.parts:
            lists_of(part)

    def _find(
        self, rows: Rows[SparseEmbeddings], built: None, queries: SparseEmbeddings, k: int, settings: InvertedSettings
    ) -> Hits:
        hits = []
        arrays = (queries.offsets, queries.terms, queries.values)
        for at, part in enumerate(rows.parts):
            start, end = rows.starts[at], rows.starts[at + 1]
            lists, places, dead = lists_of(part), rows.places[start:end], np.flatnonzero(rows.dead[start:end])
            if len(dead) == len(part):
                continue
            most = min(k, len(part) - len(dead))
            budget, candidates = _shares(settings, most, len(part) / len(rows))
            keys, fill = np.empty((len(queries), most), np.uint64), np.zeros(len(queries), np.int64)

            def answer(first: int, last: int) -> None:
                room = lists.take_room()  # noqa: B023 (called before the next turn)
                kernels.answer(
                    first, last, arrays, lists.rows, lists.arguments, lists.vectors, places, dead,  # noqa: B023
                    most, budget, candidates, room, keys, fill,  # noqa: B023
                )  # fmt: skip
                lists.give_room(room)  # noqa: B023

            _share(answer, len(queries), settings.threads)
            hits.append(_found(keys, fill))
        return Hits.joined(hits)

    def _scored(self, rows: Rows[SparseEmbeddings], queries: SparseEmbeddings, run: Run, threads: int) -> Hits:
        """The documents of a run over these queries, scored anew."""
        hits = []
        row = rows.live[run.indices]
        query = np.repeat(np.arange(len(run)), np.diff(run.offsets))
        part_of = np.searchsorted(rows.starts, row, side="right") - 1
        arrays = (queries.offsets, queries.terms, queries.values)
        for at in np.unique(part_of):
            start, end = rows.starts[at], rows.starts[at + 1]
            here = part_of == at
            counts = np.bincount(query[here], minlength=len(run))
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            documents, places = row[here] - start, rows.places[start:end]
            keys, fill = np.empty(len(documents), np.uint64), np.zeros(len(run), np.int64)
            lists = lists_of(rows.parts[at])

            def score(first: int, last: int) -> None:
                room = lists.take_room()  # noqa: B023
                kernels.score_again(
                    first, last, arrays, lists.rows, lists.vectors, offsets, documents, places, room, keys, fill  # noqa: B023
                )  # fmt: skip
                lists.give_room(room)  # noqa: B023

            _share(score, len(run), threads)
            within = np.arange(len(keys)) - np.repeat(offsets[:-1], counts) < np.repeat(fill, counts)
            hits.append(_columns(query[here][within], keys[within]))
        return Hits.joined(hits)

    def _details(self, rows: Rows[SparseEmbeddings], built: None) -> dict[str, Any]:
        lists = [lists_of(part) for part in rows.parts]
        return {
            "postings": sum(len(posting_list.postings) for posting_list in lists),
            "columns": sum(len(posting_list.columned) for posting_list in lists),
            "bytes of lists": sum(posting_list.bytes for posting_list in lists),
        }


def _shares(settings: InvertedSettings, k: int, share: float) -> tuple[int, int]:
    """(budget, candidates) for a part with this share of the documents."""
    if settings.budget == 0:
        return 0, 0
    candidates = max(k, settings.candidates or 2 * k + settings.budget // 800)
    candidates = k + int(np.ceil((candidates - k) * share))
    return max(1, int(settings.budget * share)), candidates


def _found(keys: NDArray[np.uint64], fill: NDArray[np.int64]) -> Hits:
    filled = np.arange(keys.shape[1]) < fill[:, None]
    return _columns(np.nonzero(filled)[0], keys[filled])


def _columns(queries: NDArray[np.int64], keys: NDArray[np.uint64]) -> Hits:
    bits = (keys >> np.uint64(32)).astype(np.uint32) ^ np.uint32(0x7FFFFFFF)
    return Hits(queries, (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), bits.view(np.float32))


def _share(work: Any, number: int, threads: int) -> None:
    """Call `work(first, last)` for shares of `number` queries, on so many threads (0: one for each core)."""
    threads = max(1, min(threads or cores(), number))
    if threads == 1:
        work(0, number)
        return
    edges = np.linspace(0, number, 4 * threads + 1 if number >= 16 * threads else threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads, "visir-search") as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
