"""The exact MaxSim scan: items as float32 blocks, and every query with every document."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.jit import pays, plain
from visir.progress import Progress
from visir.records import MultiVectorEmbeddings
from visir.records.columns import rows_of_spans
from visir.retrieval.multi_vector import few, kernels
from visir.retrieval.scan import (
    IN_MEMORY,
    LONGEST,
    TIES,
    Answers,
    SearchState,
    TorchDevice,
    lengths_of,
    slack_of_product,
)
from visir.retrieval.scan import loops_for as dense_loops
from visir.threads import Share, cores, one_blas_thread, piece, spread

BLOCK = 32_768
"""Vectors in one block (16 MiB of 128 float32), if an item has no more."""
ITEMS = 4096
"""Items in one block: a block of scores has at most 64 MiB."""

Tokens = tuple[NDArray[np.float32], NDArray[np.int64]]
"""(m, d) vectors in float32, contiguous, and (n + 1,) where each of n items starts."""


class TokenSide:
    """The vectors of some rows of multi-vector embeddings, in the order of these rows, as float32."""

    def __init__(self, embeddings: MultiVectorEmbeddings, rows: NDArray[np.int64]) -> None:
        self.embeddings, self.rows = embeddings, rows
        counts = (embeddings.offsets[1:] - embeddings.offsets[:-1])[rows]
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._whole: NDArray[np.float32] | None = None
        if self.offsets[-1] * embeddings.dimension * 4 <= IN_MEMORY:
            self._whole = self._read(0, len(rows))
        self.sums = np.zeros(len(rows), np.float64)
        self.longest = 0.0
        for start, stop in self.blocks():
            vectors, offsets = self.block(start, stop)
            lengths = lengths_of(vectors)
            self._check(start, offsets, ~(lengths <= LONGEST))
            self.longest = max(self.longest, float(lengths.max()))
            self.sums[start:stop] = np.add.reduceat(lengths, offsets[:-1])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def on_disk(self) -> bool:
        """Whether vectors are converted each time they are needed, because all of them together are too many."""
        return self._whole is None

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of blocks of items."""
        yield from cut(self.offsets, BLOCK, ITEMS)

    def block(self, start: int, stop: int) -> Tokens:
        """Return the vectors of the items from `start` to `stop`."""
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        if self._whole is not None:
            return self._whole[self.offsets[start] : self.offsets[stop]], offsets
        return self._read(start, stop), offsets

    def gather(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
        """Return vectors that contain those of the items at these positions, where items start, and the item of
        each."""
        # Items in memory are not copied.
        if self._whole is not None:
            return self._whole, self.offsets, places
        distinct, item = np.unique(places, return_inverse=True)
        positions, offsets = rows_of_spans(self.embeddings.offsets, self.rows[distinct])
        return self._converted(self.embeddings.vectors[positions]), offsets, item.astype(np.int64)

    def _read(self, start: int, stop: int) -> NDArray[np.float32]:
        rows = self.rows[start:stop]
        if len(rows) and bool((np.diff(rows) == 1).all()):  # in order: one slice, without a list of positions
            spans = self.embeddings.offsets
            return self._converted(self.embeddings.vectors[int(spans[rows[0]]) : int(spans[rows[-1] + 1])])
        positions, _ = rows_of_spans(self.embeddings.offsets, rows)
        return self._converted(self.embeddings.vectors[positions])

    def _converted(self, vectors: Any) -> NDArray[np.float32]:
        converted: NDArray[np.float32] = plain(np.ascontiguousarray(vectors, np.float32))
        return converted

    def _check(self, start: int, offsets: NDArray[np.int64], bad: NDArray[np.bool_]) -> None:
        if not bad.any():
            return
        items = np.unique(np.searchsorted(offsets, np.flatnonzero(bad), side="right") - 1) + start
        named = ", ".join(repr(self.embeddings.ids[int(self.rows[i])].as_py()) for i in items[:5])
        raise EmbeddingError(
            f"{self.embeddings.modality} multi-vectors by {self.embeddings.encoder.name} are too large for float32: "
            f"{named}{', …' if len(items) > 5 else ''}.",
            hint="look at these inputs, or scale the vectors down",
            code="multi-vectors-too-large-float32",
        )


def cut(offsets: NDArray[np.int64], size: int, items: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive items that together have at most `size` rows; an item with more is alone."""
    start = 0
    while start < len(offsets) - 1:
        stop = int(np.searchsorted(offsets, offsets[start] + size, side="right")) - 1
        stop = max(stop if items is None else min(stop, start + items), start + 1)
        yield start, stop
        start = stop


PAIRS = 65_536
"""Pairs scored at once."""
VECTORS = 2**18
"""Vectors of documents read at once (128 MiB of 128 float32)."""


_LOOPS = (
    kernels.reduce_product, kernels.score_pairs, kernels.mark_near, kernels.count_better, kernels.choose, kernels.align
)  # fmt: skip


def loops_for(numbers: int) -> ModuleType:
    """The compiled loops, or those in NumPy where they are not ready; numbers: multiplications."""
    return kernels if pays(numbers, *_LOOPS) else few


def score_token_places(
    queries: TokenSide, query_places: NDArray[np.int64], documents: TokenSide, document_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    # query_places: (p,) positions among the queries.
    # document_places: (p,) positions among the documents.
    scores = np.empty(len(query_places), np.float32)
    order = np.argsort(document_places, kind="stable") if documents.on_disk else np.arange(len(scores))
    counts = np.diff(documents.offsets)[document_places[order]]
    for start, stop in cut(np.concatenate([[0], np.cumsum(counts)]), VECTORS, PAIRS):
        pairs = order[start:stop]
        pairs = pairs[np.argsort(query_places[pairs], kind="stable")]
        left, right = queries.gather(query_places[pairs]), documents.gather(document_places[pairs])
        out = np.empty(len(pairs), np.float32)
        numbers = int(counts[start:stop].sum()) * documents.embeddings.dimension
        loops = loops_for(numbers * int(queries.offsets[-1]) // max(len(queries), 1))

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            loops.score_pairs(*left[:2], left[2][a:b], *right[:2], right[2][a:b], out[a:b])  # noqa: B023

        spread(share)
        scores[pairs] = out
    return scores


# Approximate MaxSim scores of a block of queries and a block of documents: on the cores, or on a device of torch.

ROWS, COLUMNS = 512, 1024
"""Vectors of documents and of queries in one product of a core: 2 MiB, which stay in its cache."""
FEW_QUERIES = 16
"""So many times as many vectors of documents meet the few of one query at once."""
ON_DEVICE = 2**27
"""Numbers in one product on a device (512 MiB)."""
UNEQUAL = 1.25
"""Documents of a block are padded to the longest of a group, which is at most this much longer than the shortest."""


class OnCores:
    """Products by NumPy, on every core a share of the documents."""

    def queries(self, tokens: Tokens) -> Tokens:
        """Return a block of queries as `scores` takes it, to be used several times: here as it is."""
        return tokens

    def documents(self, tokens: Tokens) -> Tokens:
        """Return a block of documents as `scores` takes it."""
        return tokens

    def scores(self, queries: Tokens, documents: Tokens, out: NDArray[np.float32]) -> None:
        """Fill in the (queries, documents) scores."""
        (left, query_offsets), (right, document_offsets) = queries, documents
        # One query has few vectors: more of the documents meet it at once, in a product of the same size or smaller.
        size = min(ROWS * COLUMNS // max(len(left), 1), FEW_QUERIES * ROWS, len(right) // cores())
        chunks = list(cut(document_offsets, max(size, ROWS)))
        loops = loops_for(right.size * len(left) // 16)  # most of the work is the product

        def share(part: Share) -> None:
            room = np.empty(0, np.float32)
            for start, stop in chunks[int(len(chunks) * part[0]) : int(len(chunks) * part[1])]:
                rows = right[document_offsets[start] : document_offsets[stop]]
                # A document of very many vectors meets fewer queries at a time.
                columns = min(COLUMNS, max(ROWS * COLUMNS // len(rows), 1))
                for first, last in cut(query_offsets, columns):
                    vectors = left[query_offsets[first] : query_offsets[last]]
                    if len(room) < len(rows) * len(vectors):
                        room = np.empty(len(rows) * len(vectors), np.float32)
                    product = room[: len(rows) * len(vectors)].reshape(len(rows), len(vectors))
                    np.matmul(rows, vectors.T, out=product)
                    loops.reduce_product(
                        product,
                        document_offsets[start : stop + 1] - document_offsets[start],
                        query_offsets[first : last + 1] - query_offsets[first],
                        np.empty(len(vectors), np.float32),
                        out,
                        first,
                        start,
                    )

        spread(share)

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Every core makes its own products."""
        return one_blas_thread()


class OnDevice(TorchDevice):
    """Products by torch."""

    def queries(self, tokens: Tokens) -> Any:
        """Return the vectors on the device, the query of each, and where each query starts."""
        vectors, offsets = tokens
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return self.moved(vectors), self.moved(owner), offsets

    def documents(self, tokens: Tokens) -> Any:
        """Return groups of documents of similar length: their positions, and their (documents, t, d) vectors."""
        # Shorter documents repeat their last vector, which changes no maximum.
        vectors, offsets = tokens
        whole, counts = self.moved(vectors), np.diff(offsets)
        order = np.argsort(counts, kind="stable")
        ascending = counts[order]
        groups, start = [], 0
        while start < len(order):
            stop = int(np.searchsorted(ascending, ascending[start] * UNEQUAL, side="right"))
            items = order[start:stop]
            steps = np.minimum(np.arange(ascending[stop - 1]), counts[items, None] - 1)
            groups.append((items, whole[self.moved(offsets[items, None] + steps)]))
            start = stop
        return groups

    def scores(self, queries: Any, documents: Any, out: NDArray[np.float32]) -> None:
        """Fill in the (queries, documents) scores."""
        torch = self.torch
        vectors, owner, offsets = queries
        for items, padded in documents:
            count, length, dimension = padded.shape
            flat = padded.reshape(count * length, dimension)
            for first, last in cut(offsets, max(ON_DEVICE // len(flat), 1)):
                a, b = int(offsets[first]), int(offsets[last])
                best = (flat @ vectors[a:b].T).reshape(count, length, b - a).amax(1)
                sums = torch.zeros((last - first, count), dtype=torch.float32, device=self.device)
                sums.index_add_(0, owner[a:b] - first, best.T)
                out[first:last, items] = sums.cpu().numpy()


_LARGEST = 3.3e38
_ANSWERS = 2**20
_NO_PLACES, _NO_SCORES = np.empty(0, np.int64), np.empty(0, np.float32)
_NO_VECTORS = np.empty((0, 1), np.float32)


def scan_tokens(state: SearchState, device: str | None = None) -> Answers:
    """Score every query with every document."""
    # Products in float32 filter, as in dense search: what is within a proven bound of a decision is scored exactly.
    # With unit vectors the bound on a score is some 1e-5 for each vector of the query.
    # Memory: a block of vectors of each side that is not in memory, a block of scores, and the answers.
    queries, documents = state.queries, state.candidates
    products = OnDevice(device) if device else OnCores()
    total = int(queries.offsets[-1]) * int(documents.offsets[-1])
    slacks = _slacks(queries, documents)
    state.known[:] = score_token_places(queries, state.owners, documents, state.documents)
    with Progress("searching", total, "products") as advance, products.running():
        for (start, stop), (first, last), scores in _blocks(products, queries, documents):
            _count_better(state, scores, start, first, slacks)
            _take_best(state, scores, start, first, slacks)
            rows, columns = queries.offsets[[start, stop]], documents.offsets[[first, last]]
            advance(int((rows[1] - rows[0]) * (columns[1] - columns[0])))
        indices, values = _answers(state)
        crowded = np.flatnonzero(state.crowded)
        if len(crowded):
            low = state.floor[crowded] - 2 * slacks[crowded]
            some = TokenSide(queries.embeddings, queries.rows[crowded])
            indices[crowded], values[crowded] = _answers_of_crowded(
                products, some, documents, state.depth, low, slacks[crowded]
            )
    return indices, values


def _blocks(
    products: OnCores | OnDevice, queries: TokenSide, documents: TokenSide
) -> Iterator[tuple[tuple[int, int], tuple[int, int], NDArray[np.float32]]]:
    """Yield the approximate scores of blocks: which queries, which documents, and their (queries, documents) scores."""
    prepared = None
    for first, last in documents.blocks():
        block = products.documents(documents.block(first, last))
        for start, stop in queries.blocks():
            if prepared is None or stop - start < len(queries):  # a single block of queries is prepared once
                prepared = products.queries(queries.block(start, stop))
            scores = np.empty((stop - start, last - first), np.float32)
            products.scores(prepared, block, scores)
            yield (start, stop), (first, last), scores


def _count_better(
    state: SearchState, scores: NDArray[np.float32], start: int, first: int, slacks: NDArray[np.float32]
) -> None:
    """Count the documents of a block before each positive; scores that are too close to it become exact."""
    stop = start + len(scores)
    begin, end = state.offsets[start], state.offsets[stop]
    if begin == end:
        return
    offsets, known = state.offsets[start : stop + 1] - begin, state.known[begin:end]
    near = np.empty(scores.shape, np.bool_)
    loops = loops_for(scores.size * int(end - begin))
    loops.mark_near(scores, slacks[start:stop], offsets, known, near)
    query, document = np.nonzero(near)
    scores[near] = score_token_places(state.queries, query + start, state.candidates, document + first)
    places, better = state.documents[begin:end], state.better[begin:end]
    loops.count_better(scores, near, first, offsets, places, known, better, TIES[state.ties])


def _take_best(
    state: SearchState, scores: NDArray[np.float32], start: int, first: int, slacks: NDArray[np.float32]
) -> None:
    """Keep the documents of a block that may be among the best of a query."""
    no_positives = np.zeros(len(state) + 1, np.int64)
    loops = dense_loops(scores.size, "scan_rows")
    rows = state.query_of[start : start + len(scores)]
    for row in range(len(scores)):  # row by row, because each query has its own slack
        slack = slacks[start + row]
        loops.scan_rows(
            scores, row, row + 1, _NO_VECTORS, rows, slack, slack, _NO_VECTORS, first, state.depth, state.keys,
            state.fill, state.floor, state.crowded, no_positives, _NO_PLACES, _NO_SCORES, _NO_PLACES, 0,
        )  # fmt: skip


def _answers(state: SearchState) -> Answers:
    """Score the documents in use exactly, and put them in order; crowded queries are left open."""
    n, k = len(state), state.depth
    indices, scores = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32)
    fill = np.where(state.crowded, 0, state.fill)
    for start, stop in cut(np.concatenate([[0], np.cumsum(fill)]), _ANSWERS):
        in_use = np.arange(state.keys.shape[1]) < fill[start:stop, None]
        place = (state.keys[start:stop][in_use] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        query = np.nonzero(in_use)[0] + start
        exact = score_token_places(state.queries, query, state.candidates, place)
        order = np.lexsort((place, -exact, query))
        begins = np.concatenate([[0], np.cumsum(fill[start:stop])])[:-1]
        best = order[(begins[fill[start:stop] > 0, None] + np.arange(k))]
        rows = np.flatnonzero(fill[start:stop]) + start
        indices[rows], scores[rows] = place[best], exact[best]
    return indices, scores


def _answers_of_crowded(
    products: OnCores | OnDevice,
    queries: TokenSide,
    documents: TokenSide,
    k: int,
    low: NDArray[np.float32],
    slacks: NDArray[np.float32],
) -> Answers:
    """Search again for queries with more near-equal scores than fit into their keys; all these are scored exactly."""
    # This happens with hundreds of copies, or with a collapsed encoder.
    # low: (queries,) approximate scores below it are of documents that are not among the best k.
    # slacks: (queries,) the largest error of a score.
    places = [np.empty(0, np.int64)] * len(queries)
    exact = [np.empty(0, np.float32)] * len(queries)
    for (start, _), (first, _), scores in _blocks(products, queries, documents):
        query, place = np.nonzero(scores >= low[start : start + len(scores), None])
        values = score_token_places(queries, query + start, documents, place + first)
        edges = np.searchsorted(query, np.arange(len(scores) + 1))
        for row in np.unique(query):
            part = slice(edges[row], edges[row + 1])
            seen = np.concatenate([places[start + row], place[part] + first])
            seen_scores = np.concatenate([exact[start + row], values[part]])
            best = np.lexsort((seen, -seen_scores))[:k]
            places[start + row], exact[start + row] = seen[best], seen_scores[best]
            if len(best) == k:
                low[start + row] = max(low[start + row], seen_scores[best[-1]] - slacks[start + row])
    return np.stack(places).astype(np.int32), np.stack(exact)


def _slacks(queries: TokenSide, documents: TokenSide) -> NDArray[np.float32]:
    """(queries,) the largest error of an approximate score."""
    # Each product of two vectors has an error of at most that of `slack_of_product`, and so has the greatest of some
    # products. The bound for a sum of t of them is that for vectors of t more numbers, times the sum of their lengths.
    lengths = queries.sums * documents.longest
    if (lengths > _LARGEST).any():
        side, row = queries.embeddings, int(queries.rows[int(np.argmax(lengths))])
        raise EmbeddingError(
            f"the scores of {side.modality} {side.ids[row].as_py()!r} by {side.encoder.name} are too large for "
            "float32.",
            hint="scale the vectors down",
            code="scores-too-large-float32",
        )
    counts = np.diff(queries.offsets)
    terms = queries.embeddings.dimension + int(counts.max(initial=1))
    return np.array([slack_of_product(terms, float(length)) for length in lengths], np.float32) * np.float32(1.001)
