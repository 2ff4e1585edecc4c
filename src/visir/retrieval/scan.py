"""The exact dense scan, on the cores or on a device of torch: vectors in a chosen order, as float32 blocks from
memory or disk, and every block of scores computed and visited once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import visir.retrieval.few as few
import visir.retrieval.kernels as kernels
from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.models.precision import full_precision
from visir.errors import EmbeddingError, EncoderError, require
from visir.files import release
from visir.jit import FEW, pays
from visir.progress import Progress
from visir.records import Embeddings, MultiVectorEmbeddings, Ties
from visir.threads import Share, cores, one_blas_thread, piece, spread

Similarity = Literal["cosine", "dot", "maxsim"]
"""How a pair is scored: "cosine" (each vector is divided by its length first), "dot" (vectors as they are), or "maxsim"
(several vectors for each item: for each of the query's the greatest dot product with one of the document's, summed)."""

IN_MEMORY = 2**30
"""Sides of up to this many bytes as float32 stay in memory; larger ones are converted block by block each time."""
BLOCK = 8192
LONGEST = 1.8e19
"""The greatest length of vectors for a dot product. The dot product of two such vectors, and every partial sum of it,
fits into float32 (Cauchy–Schwarz)."""


class Side:
    """The vectors of some rows of embeddings, in the order of these rows, as float32."""

    # For "cosine" each vector is divided by its length (computed in float64), row by row, so that its values do not
    # depend on its neighbours. This is done for vectors that are said to be normalised too, because the length of
    # float16 vectors is wrong by about 1e-3.

    stays = False
    """Whether what is read of a mapped file stays mapped; else its pages are given back, and faulted in again."""

    def __init__(
        self, embeddings: Embeddings, rows: NDArray[np.int64], similarity: Similarity, *, stays: bool = False
    ) -> None:
        self.embeddings, self.stays = embeddings, stays
        self.rows = rows
        self.similarity = similarity
        self._in_order = bool((np.diff(rows) == 1).all())
        self._whole: NDArray[np.float32] | None = None
        self.on_devices: dict[str, list[Any]] = {}
        if len(rows) * embeddings.dimension * 4 <= IN_MEMORY:
            self._whole = self._convert(0, len(rows))
        self.longest = 1.0 if similarity == "cosine" else self._longest()

    @classmethod
    def of_one(cls, query: Embeddings, similarity: Similarity) -> Side:
        """Return the side of one vector, without what only many need."""
        if query.vectors.dtype not in (np.float32, np.float16):
            return cls(query, np.arange(1), similarity)
        vectors = np.array(query.vectors, np.float32, order="C")
        lengths = lengths_of(vectors)
        length = float(lengths[0])
        if not (0 < length < np.inf if similarity == "cosine" else length <= LONGEST):
            return cls(query, np.arange(1), similarity)  # which names it
        if similarity == "cosine":
            loops_for(vectors.size, "divide_rows").divide_rows(vectors, lengths)
        side = cls.__new__(cls)
        side.embeddings, side.rows, side.similarity, side.on_devices = query, np.arange(1), similarity, {}
        side._in_order, side._whole, side.longest = True, vectors, 1.0 if similarity == "cosine" else length
        return side

    def __len__(self) -> int:
        return len(self.rows)

    def block(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the (stop - start, d) vectors from `start` to `stop` in float32, contiguous."""
        if self._whole is not None:
            return self._whole[start:stop]
        return self._convert(start, stop)

    @property
    def whole(self) -> NDArray[np.float32] | None:
        """All vectors, where they are in memory."""
        return self._whole

    @property
    def stride(self) -> int:
        """The number of vectors to read at once: all if they are in memory."""
        return max(len(self), 1) if self._whole is not None else BLOCK

    def gather(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return a matrix that contains the vectors at these positions, and the row of each position in it."""
        if self._whole is not None:
            return self._whole, places
        return self._prepare(self.rows[places]), np.arange(len(places))

    def _convert(self, start: int, stop: int) -> NDArray[np.float32]:
        if self._in_order:
            first = int(self.rows[start]) if stop > start else 0
            return self._prepare(slice(first, first + stop - start))
        return self._prepare(self.rows[start:stop])

    def _prepare(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        source: Any = self.embeddings.vectors
        n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        vectors = np.empty((n, self.embeddings.dimension), np.float32)
        lengths = np.empty(n, np.float64)
        loops = loops_for(vectors.size, *(("lengths", "divide_rows") if self.similarity == "cosine" else ()))

        def share(part: Share) -> None:
            a, b = piece(n, part)
            selected = slice(rows.start + a, rows.start + b) if isinstance(rows, slice) else rows[a:b]
            with np.errstate(over="ignore"):  # infinities are refused below, by name
                vectors[a:b] = source[selected]
            if self.similarity == "cosine":
                loops.lengths(vectors[a:b], lengths[a:b])
                loops.divide_rows(vectors[a:b], lengths[a:b])

        if loops is few or n == 1:
            share((0.0, 1.0))  # the other threads may be busy with compiling
        else:
            spread(share, n)
        if not self.stays:
            release(source)
        if self.similarity == "cosine":
            self._check(rows, lengths == 0, "are zero; they have no cosine", "search by dot product (--similarity dot)")
            self._check(rows, ~np.isfinite(lengths), "are too large for float32", "scale the vectors down")
        return vectors

    def _longest(self) -> float:
        longest = 0.0
        for start in range(0, len(self), BLOCK):
            stop = min(start + BLOCK, len(self))
            lengths = lengths_of(self.block(start, stop))
            # A product of float32 that overflows may become NaN, and the pair would be lost silently.
            self._check(self.rows[start:stop], ~(lengths <= LONGEST), "are too large for float32", "scale them down")
            longest = max(longest, float(lengths.max()))
        return longest

    def _check(self, rows: slice | NDArray[np.int64], bad: NDArray[np.bool_], fault: str, hint: str) -> None:
        if not bad.any():
            return
        indices = np.flatnonzero(bad)
        indices = indices + rows.start if isinstance(rows, slice) else rows[indices]
        named = ", ".join(repr(self.embeddings.ids[int(i)].as_py()) for i in indices[:5])
        raise EmbeddingError(
            f"{len(indices)} {self.embeddings.modality} vectors by {self.embeddings.encoder.name} {fault}: {named}"
            f"{', …' if len(indices) > 5 else ''}.",
            hint=f"look at these inputs (empty text? black image?), or {hint}",
            code="vectors-not-usable",
        )


def lengths_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n,) the Euclidean lengths of float32 rows."""
    lengths = np.empty(len(vectors), np.float64)
    loops_for(vectors.size, "lengths").lengths(vectors, lengths)
    return lengths


def loops_for(numbers: int, *names: str) -> ModuleType:
    """The compiled loops, or those in NumPy where there is little to do and the ones of these names are not ready."""
    return kernels if pays(numbers, *(getattr(kernels, name) for name in names)) else few


def check_same_dimension(first: Embeddings | MultiVectorEmbeddings, second: Embeddings | MultiVectorEmbeddings) -> None:
    """Check that the vectors of two sides have the same dimension."""
    if first.dimension != second.dimension:
        raise EmbeddingError(
            f"{first.modality} vectors by {first.encoder.name} have {first.dimension} values, "
            f"{second.modality} vectors by {second.encoder.name} {second.dimension}: they are not of one space.",
            hint="encode both sides with one model (or with heads trained together)",
            code="not-one-space",
        )


def score_pairs(
    left: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right: NDArray[np.float32],
    right_rows: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """(p,) float32 scores of pairs of a row of `left` and a row of `right`, which are vectors as they are compared."""
    loops_for(len(out) * left.shape[1], "score_pairs").score_pairs(left, left_rows, right, right_rows, out)


_PAIRS = 65_536


def score_places(
    left: Side, left_places: NDArray[np.int64], right: Side, right_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    # left_places: (p,) positions on the left side.
    # right_places: (p,) positions on the right side.
    scores = np.empty(len(left_places), np.float32)
    for start in range(0, len(scores), _PAIRS):
        stop = min(start + _PAIRS, len(scores))
        near, far = left.gather(left_places[start:stop]), right.gather(right_places[start:stop])
        out = scores[start:stop]

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            score_pairs(near[0], near[1][a:b], far[0], far[1][a:b], out[a:b])  # noqa: B023

        spread(share, len(out))
    return scores


# A device of torch on which products are made whose error is bounded.


class TorchDevice:
    """A device for products in full float32, whatever precision the process has chosen for its models."""

    def __init__(self, device: str) -> None:
        require("torch", extra="torch", purpose=f"a search on the device {device!r}")
        import torch

        self.torch: Any = torch
        try:
            self.device = torch.device(pick_device(device))
        except EncoderError as fault:  # its hint is about models, and an index may bring its device with it
            raise EncoderError(
                f"{COMPILED} compiles models; it cannot search." if device == COMPILED else fault.message,
                hint="search on the cores, to the same answers: without a device; an index that was built with one is "
                'searched with --set device= (device="" in Python)',
            ) from fault

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The context of all products: the bound on their error holds for full precision only."""
        with full_precision(), self.torch.inference_mode(), self.torch.autocast(self.device.type, enabled=False):
            yield

    def moved(self, array: NDArray[Any]) -> Any:
        """Return a copy of an array as a tensor on the device."""
        # A copy on the CPU too: torch warns about arrays that cannot be written to.
        return self.torch.from_numpy(np.array(array)).to(self.device)

    @property
    def room(self) -> int:
        """How many bytes of vectors may stay on the device between searches: half of what is free of a GPU."""
        if self.device.type == "cuda":
            return int(self.torch.cuda.mem_get_info(self.device)[0]) // 2
        return IN_MEMORY


WIDTH = 8192
CROWD = 512
"""Queries per block in double precision: a block of 32 MiB."""
TILE = 3 * 2**20
"""Scores in one block, for each core (12 MiB of float32), and at most eight times as many in all.

With taller blocks there are fewer of them per column, which saves work. Lower blocks are still in the cache when they
are read.
"""
FEW_ROWS = 64
"""Up to this many rows the cores share the columns of a product instead."""
SMALL = 2**19
"""Multiplications that OpenBLAS does without copying both matrices first (it does up to 1e6, but for some shapes)."""
TIES: dict[Ties, int] = {"id": 0, "pessimistic": kernels.PESSIMISTIC, "optimistic": 2, "trec": kernels.LARGER_ID}


Matrix = NDArray[np.float32]
Block = tuple[Matrix, int]
"""Vectors, and the position of the first of them."""
Asked = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""The query of each row of the queries' side (-1: none), where the positives of each query start, and where they are
among the candidates."""
Slacks = tuple[np.float32, np.float32]
"""The largest error of the approximate scores: in any block, and in this block."""
Answers = tuple[NDArray[np.int32], NDArray[np.float32]]
"""(queries, depth) positions of candidates and their scores, best first."""


class SearchState:
    """One task of a search: its sides, positives, and the best candidates so far."""

    def __init__(
        self, queries: Any, candidates: Any, depth: int, ties: Ties = "id", judged: Asked | None = None, width: int = 0
    ) -> None:
        if judged is None:  # every row is a query, and nothing is judged
            judged = np.arange(len(queries)), np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64)
        self.queries, self.candidates, self.depth, self.ties = queries, candidates, depth, ties
        self.query_of, self.offsets, self.documents = judged
        n = len(self.offsets) - 1
        self.row_of = np.empty(n, np.int64)
        self.row_of[self.query_of[self.query_of >= 0]] = np.flatnonzero(self.query_of >= 0)
        # A little more than wanted: candidates that are too close to the last one are kept and scored exactly.
        self.keys = np.empty((n, width or depth + 16 + depth // 8), np.uint64)
        self.fill = np.zeros(n, np.int64)
        self.floor = np.full(n, -np.inf, np.float32)
        self.crowded = np.zeros(n, np.bool_)
        self.better = np.zeros(len(self.documents), np.int64)
        self.known = np.empty(len(self.documents), np.float32)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The row of the query of each positive."""
        return np.repeat(self.row_of, np.diff(self.offsets))

    @property
    def positives(self) -> tuple[Any, ...]:
        """What kernels count by."""
        return self.offsets, self.documents, self.known, self.better, TIES[self.ties]

    def look(
        self, loop: Any, tile: Matrix, share: tuple[int, int], asking: Block, others: Block, slacks: Slacks
    ) -> int:
        """Scan a share of a block of approximate scores with a loop."""
        query_of_row = self.query_of[asking[1] : asking[1] + len(asking[0])]
        looked: int = loop(
            tile, *share, asking[0], query_of_row, *slacks, *others, self.depth, self.keys, self.fill,
            self.floor, self.crowded, *self.positives,
        )  # fmt: skip
        return looked


def scan(states: Sequence[SearchState]) -> list[Answers]:
    """Score every query with every candidate; where there is a second task, whose sides are those of the first the
    other way round, for both at once."""
    # Memory: one block of scores, one block of vectors of each side that is not in memory, and the answers.
    rows, columns = states[0].queries, states[0].candidates
    lengths, dimension = rows.longest * columns.longest, rows.embeddings.dimension
    single, double = np.float32(slack_of_product(dimension, lengths)), np.float32(slack_of_double(dimension, lengths))
    width = min(WIDTH, len(columns))
    only_answers = len(states) == 1 and len(states[0].documents) == 0
    if len(rows) <= FEW_ROWS and only_answers and columns.stride >= len(columns):  # in memory: fewer and wider blocks
        width = min(max(WIDTH, TILE // len(rows)), len(columns))
    height = max(TILE * min(cores(), 8) // width, 16)
    height = -(-len(rows) // -(-len(rows) // height))  # blocks of equal height, so that no last one is a sliver
    buffer = np.empty(height * width, np.float32)
    precise = False
    with Progress("searching", len(rows) * len(columns), "scores") as advance, one_blas_thread():
        for state in states:
            state.known[:] = score_places(state.queries, state.owners, state.candidates, state.documents)
        for left in range(0, len(columns), width):
            across = columns.block(left, min(left + width, len(columns)))
            for top in range(0, len(rows), height):
                down = rows.block(top, min(top + height, len(rows)))
                tile = buffer[: len(down) * len(across)].reshape(len(down), len(across))
                slacks = (single, double if precise else single)
                looked = _look(tile, (down, top), (across, left), states, slacks, precise)
                # With close scores (a model after little training) and many positives, use double precision: it costs
                # twice as much, and leaves almost no near-equal scores.
                precise = precise or looked > tile.size * dimension // 4
                advance(tile.size)
        return [exact_answers(state) for state in states]


def _look(
    tile: Matrix, below: Block, beside: Block, states: Sequence[SearchState], slacks: Slacks, precise: bool
) -> int:
    """Fill a block with approximate scores; every core scans its share of the rows, then of the columns."""
    looked: list[int] = []
    down, across = below[0], beside[0]
    by_columns = len(down) <= FEW_ROWS and not precise
    loops = _loops(across.shape[1] * tile.size)
    right = across.astype(np.float64).T if precise else across.T

    def multiply(part: Share) -> None:
        start, stop = piece(len(across), part)
        _multiply_few(down, across[start:stop], tile[:, start:stop])

    def across_rows(part: Share) -> None:
        start, stop = piece(len(down), part)
        if precise:
            for a in range(start, stop, CROWD):
                b = min(a + CROWD, stop)
                tile[a:b] = down[a:b].astype(np.float64) @ right
        elif not by_columns:
            np.matmul(down[start:stop], right, out=tile[start:stop])
        looked.append(states[0].look(loops.scan_rows, tile, (start, stop), below, beside, slacks))

    def down_columns(part: Share) -> None:
        share = piece(len(across), part)
        looked.append(states[1].look(loops.scan_columns, tile, share, beside, below, slacks))

    if by_columns:
        spread(multiply, len(across))
    spread(across_rows, len(down))
    if len(states) > 1:
        spread(down_columns, len(across))
    return sum(looked)


def _multiply_few(rows: NDArray[np.float32], columns: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Fill `out` (r, c) with the products of few rows (r, d) and many columns (c, d)."""
    # OpenBLAS copies both matrices into an order of its own first. For 2 to 32 rows that takes longer than all the
    # rest: eight rows then take five times as long as one row, which it does not copy for. Pieces of the columns are
    # done without copies, or stay in the cache meanwhile.
    n, dimension = rows.shape
    if not 2 <= n <= 32 or dimension < 128:
        np.matmul(rows, columns.T, out=out)
        return
    width = max(1, min(2048, SMALL // (n * dimension) if n <= 16 else 2048))
    for left in range(0, len(columns), width):
        out[:, left : left + width] = (columns[left : left + width] @ rows.T).T


def _loops(numbers: int) -> ModuleType:
    """The loops that take so many multiplications over."""
    return loops_for(numbers, "scan_rows", "scan_columns", "rescore", "finish", "take_exactly")


def exact_answers(state: SearchState) -> Answers:
    """Score the kept candidates exactly, and put them in order."""
    queries, candidates = state.queries, state.candidates
    loops = _loops(int(state.fill.sum()) * candidates.embeddings.dimension)
    for first in range(0, len(candidates), step := candidates.stride):
        block = candidates.block(first, min(first + step, len(candidates)))
        for start in range(0, len(state), queries.stride):
            vectors, places = queries.gather(state.row_of[start : start + queries.stride])

            def share(part: Share) -> None:
                a, b = piece(len(places), part)  # noqa: B023 (called before the next turn)
                loops.rescore(start + a, start + b, state.keys, state.fill, vectors, places[a:b], block, first)  # noqa: B023

            spread(share, len(places))
    _answer_crowded(state)
    indices = np.empty((len(state), state.depth), np.int32)
    scores = np.empty((len(state), state.depth), np.float32)
    spread(
        lambda part: loops.finish(*piece(len(state), part), state.depth, state.keys, state.fill, indices, scores),
        len(state),
    )
    return indices, scores


def _answer_crowded(state: SearchState) -> None:
    """Search again, in double precision, for queries with more near-equal scores than fit into `keys`."""
    # This happens with hundreds of copies, or with a collapsed encoder. Double precision decides almost all of them.
    crowded = np.flatnonzero(state.crowded)
    if len(crowded) == 0:
        return
    state.fill[crowded] = 0
    queries, candidates = state.queries, state.candidates
    slack = slack_of_double(queries.embeddings.dimension, queries.longest * candidates.longest)
    for first in range(0, len(candidates), BLOCK):
        block = candidates.block(first, min(first + BLOCK, len(candidates)))
        exact, loops = block.astype(np.float64).T, _loops(block.size * len(crowded))
        for start in range(0, len(crowded), CROWD):
            batch = crowded[start : start + CROWD]
            vectors, places = queries.gather(state.row_of[batch])

            def share(part: Share) -> None:
                a, b = piece(len(batch), part)  # noqa: B023 (called before the next turn)
                selected = vectors[places[a:b]].astype(np.float64)  # noqa: B023
                scores = selected @ exact  # noqa: B023
                for i in range(b - a):
                    loops.take_exactly(  # noqa: B023
                        batch[a + i], state.depth, state.keys, state.fill, scores[i], slack, selected[i], block, first  # noqa: B023
                    )  # fmt: skip

            spread(share, len(batch))


def slack_of_product(dimension: int, lengths: float, u: float = 2.0**-24) -> float:
    """Return the largest error of a matrix product as a score: d u / (1 - d u) times the product of the lengths."""
    # The bound holds for any order of summation, with or without fused operations (Higham, Accuracy and Stability of
    # Numerical Algorithms, section 3.1); u is 2^-24 for float32, 2^-53 for float64. The added 16 covers the rounding of
    # the score itself and of score ± slack; the last term covers underflow.
    unit = (dimension + 16) * u
    return unit / (1.0 - unit) * lengths * 1.01 + dimension * 2.0**-125


def slack_of_double(dimension: int, lengths: float) -> float:
    """Return the same for products in double precision, with the rounding of the score to float32."""
    return slack_of_product(dimension, lengths, 2.0**-53) + 2.0**-23 * lengths


# The exact dense scan on a device of torch: products and selection there, exact scores on the cores. The ranks of
# positives are counted there too; pairs that are too close to tell are scored on the cores.

COMPARED = 2**24
"""Scores that are compared with those of positives at once."""
MANY = 256
"""Where more than one of so many scores is too close to tell, double precision pays."""


class DeviceRanks:
    """How many candidates stand before each positive of some queries."""

    def __init__(self, on: TorchDevice, state: SearchState, span: tuple[int, int]) -> None:
        self.torch, self.state, self.ties = on.torch, state, state.ties
        self.offsets = state.offsets[span[0] : span[1] + 1]
        self.begin, end = int(self.offsets[0]), int(self.offsets[-1])
        self.query = np.repeat(np.arange(*span), np.diff(self.offsets))
        self.any = end > self.begin
        if self.any:
            self.owner = on.moved(self.query - span[0])
            self.known = on.moved(state.known[self.begin : end])
            self.documents = on.moved(state.documents[self.begin : end])
            self.better = self.torch.zeros(end - self.begin, dtype=self.torch.int64, device=on.device)

    def count(self, scores: Any, start: int, stop: int, first: int, slack: np.float32) -> bool:
        """Compare the scores of some queries and a block of candidates with the scores of the positives."""
        width, near = scores.shape[1], 0
        begin, end = int(self.offsets[start]) - self.begin, int(self.offsets[stop]) - self.begin
        columns = self.torch.arange(first, first + width, device=scores.device)
        step = max(COMPARED // width, 1)
        for a in range(begin, end, step):
            b = min(a + step, end)
            others, known = scores[self.owner[a:b] - start], self.known[a:b, None]
            self.better[a:b] += (others > known + slack).sum(1)
            open_ones = (others >= known - slack) & (others <= known + slack)
            open_ones &= columns != self.documents[a:b, None]  # the positive itself
            positive, column = open_ones.nonzero().cpu().numpy().T
            self._decide(positive + a + self.begin, column + first)
            near += len(positive)
        return bool(near * MANY > (end - begin) * width)

    def finish(self) -> None:
        """Add what was counted on the device to the state."""
        if self.any:
            self.state.better[self.begin : self.begin + len(self.better)] += self.better.cpu().numpy()

    def _decide(self, positive: NDArray[np.int64], document: NDArray[np.int64]) -> None:
        """Score candidates exactly, and count those that stand before a positive."""
        state = self.state
        query = self.query[positive - self.begin]
        scores = score_places(state.queries, state.row_of[query], state.candidates, document)
        few.count_near(
            scores, positive, query, document, state.offsets, state.documents, state.known, state.better,
            TIES[self.ties],
        )  # fmt: skip


PRODUCTS = 2**27
"""Scores of one product (512 MiB)."""
COLUMNS = 2**15
"""Candidates in one product."""
QUERIES = 2**30
"""Bytes of queries, and of the best candidates so far, that are on the device together."""
DEEPER = 8
"""So many times as many candidates are kept where the scores of the last ones were too close to tell."""
DEEPEST = 2**12
"""Candidates that are kept at most, unless more are wanted; queries with more are searched on the cores."""


def scan_on_device(device: str, states: Sequence[SearchState]) -> list[Answers]:
    """Score every query with every candidate, for one task after another."""
    # Memory of the device: vectors that fit into half of what is free stay there as long as their side is held, others
    # are moved block by block; a block of scores; the queries and their best candidates, group by group.
    on = TorchDevice(device)
    total = sum(len(state) * len(state.candidates) for state in states)
    with Progress("searching", total, "scores") as advance, on.running():
        for state in states:
            state.known[:] = score_places(state.queries, state.owners, state.candidates, state.documents)
        return [_search(on, state, advance) for state in states]


def _search(on: TorchDevice, state: SearchState, advance: Callable[[int], None], *, precise: bool = False) -> Answers:
    """The answers of one task; queries whose last candidates are too close to tell are searched again, deeper."""
    candidates = state.candidates
    width = min(state.keys.shape[1], len(candidates))
    each = 4 * candidates.embeddings.dimension + 12 * width
    size = max(QUERIES // each, 1)
    undecided = []
    for start in range(0, len(state), size):
        stop = min(start + size, len(state))
        group = _Group(on, state, (start, stop), precise)
        for first, block in _blocks(on, candidates):
            group.look(block, first)
            advance((stop - start) * len(block))
        undecided.append(start + group.finish())
    again = np.concatenate([*undecided, np.empty(0, np.int64)])
    deeper = width * DEEPER
    if len(again) and deeper > DEEPEST:
        state.crowded[again] = True
        again = again[:0]
    indices, scores = exact_answers(state)
    if len(again):
        query_of = np.full(len(state.query_of), -1, np.int64)
        query_of[state.row_of[again]] = np.arange(len(again))
        judged = query_of, np.zeros(len(again) + 1, np.int64), np.empty(0, np.int64)
        some = SearchState(state.queries, candidates, state.depth, state.ties, judged, deeper)
        indices[again], scores[again] = _search(on, some, lambda _: None, precise=True)
    return indices, scores


def _blocks(on: TorchDevice, side: Side) -> Iterator[tuple[int, Any]]:
    """The vectors of a side on the device, block by block, each with its first position; kept there if they fit."""
    starts = range(0, len(side), COLUMNS)
    held = side.on_devices.get(str(on.device))
    if held is None and 4 * len(side) * side.embeddings.dimension <= on.room:
        held = [on.moved(side.block(start, min(start + COLUMNS, len(side)))) for start in starts]
        side.on_devices[str(on.device)] = held
    if held is not None:
        yield from zip(starts, held, strict=True)
        return
    for start in starts:
        yield start, on.moved(side.block(start, min(start + COLUMNS, len(side))))


class _Group:
    """Queries that are on the device together, with their best candidates so far."""

    def __init__(self, on: TorchDevice, state: SearchState, span: tuple[int, int], precise: bool) -> None:
        self.torch, self.state, self.span, self.precise = on.torch, state, span, precise
        queries, candidates = state.queries, state.candidates
        lengths, dimension = queries.longest * candidates.longest, candidates.embeddings.dimension
        self.single = np.float32(slack_of_product(dimension, lengths))
        self.double = np.float32(slack_of_double(dimension, lengths))
        self.keep = self.double if precise else self.single
        vectors, places = queries.gather(state.row_of[span[0] : span[1]])
        self.vectors = on.moved(vectors[places])
        width = min(state.keys.shape[1], len(candidates))
        self.values = self.torch.full((len(places), width), -np.inf, device=on.device)
        self.places = self.torch.zeros((len(places), width), dtype=self.torch.int64, device=on.device)
        self.complete = width == len(candidates)
        self.ranks = DeviceRanks(on, state, span)

    def look(self, block: Any, first: int) -> None:
        """Compare all queries with a block of candidates, the first of which has the position `first`."""
        height = max(PRODUCTS // len(block), 1)
        for start in range(0, len(self.vectors), height):
            stop = min(start + height, len(self.vectors))
            if self.precise:
                scores = (self.vectors[start:stop].double() @ block.double().T).float()
            else:
                scores = self.vectors[start:stop] @ block.T
            self._keep_best(scores, start, stop, first)
            slack = self.double if self.precise else self.single
            # With close scores (a model after little training) double precision leaves almost none to be looked at.
            self.precise |= self.ranks.count(scores, start, stop, first, slack)

    def _keep_best(self, scores: Any, start: int, stop: int, first: int) -> None:
        width = self.values.shape[1]
        values, places = scores.topk(min(width, scores.shape[1]), dim=1)
        values = self.torch.cat([self.values[start:stop], values], dim=1)
        places = self.torch.cat([self.places[start:stop], places + first], dim=1)
        self.values[start:stop], best = values.topk(width, dim=1)
        self.places[start:stop] = places.gather(1, best)

    def finish(self) -> NDArray[np.int64]:
        """Hand the candidates that may be among the best, and the ranks, over to the state."""
        # The score of the last wanted candidate is at least its product minus the largest error, and a score is at most
        # its product plus that: what is more than twice the error below is out, for certain.
        start, stop = self.span
        values, width = self.values.cpu().numpy(), self.values.shape[1]
        low = values[:, self.state.depth - 1] - np.float32(2.0) * self.keep
        fill = (values >= low[:, None]).sum(axis=1)
        undecided = np.zeros(len(fill), np.bool_) if self.complete else fill == width
        # Only places: the scores that belong into a key are filled in by `exact_answers`.
        self.state.keys[start:stop, :width] = self.places.cpu().numpy().astype(np.uint64)
        self.state.fill[start:stop] = np.where(undecided, 0, fill)
        self.ranks.finish()
        return np.flatnonzero(undecided)


def scan_on(device: str | None, states: Sequence[SearchState]) -> list[Answers]:
    """Score every query with every candidate, on the cores or on a device."""
    # Few vectors are searched on the cores, whatever device is named: that takes less than their way there.
    queries, candidates = states[0].queries, states[0].candidates
    if device:
        TorchDevice(device)  # the same error for few vectors as for many
        numbers = len(queries) * len(candidates) * candidates.embeddings.dimension
        if numbers > FEW or pays(numbers, kernels.finish):
            return scan_on_device(device, states)
    return scan(states)


def best_of(queries: Side, documents: Side, depth: int, device: str | None = None) -> Answers:
    """The best documents of each query; of equal ones the first."""
    if len(queries) == 1 and not device and (answers := _best_of_one(queries, documents, depth)) is not None:
        return answers
    return scan_on(device, [SearchState(queries, documents, depth)])[0]


def _best_of_one(asking: Side, documents: Side, depth: int) -> Answers | None:
    """The answers to one query, without what is only needed for many; None where it is not that simple."""
    query, vectors = asking.whole, documents.whole
    if query is None or vectors is None or len(vectors) > TILE or not pays(vectors.size, kernels.best_of_one):
        return None
    scores, vector = np.empty(len(vectors), np.float32), query[0]

    def multiply(part: Share) -> None:
        start, stop = piece(len(vectors), part)
        np.matmul(vectors[start:stop], vector, out=scores[start:stop])

    with one_blas_thread():
        if vectors.size > SMALL:
            spread(multiply, len(vectors))
        else:
            np.matmul(vectors, vector, out=scores)
    slack = np.float32(slack_of_product(len(vector), asking.longest * documents.longest))
    indices, best = np.empty((1, depth), np.int32), np.empty((1, depth), np.float32)
    whole = kernels.best_of_one(scores, slack, query, vectors, depth, indices, best)
    return (indices, best) if whole else None
