"""Exact search over dense vectors, wherever it is computed; the answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.jit import pays
from visir.progress import Progress
from visir.records import Ties
from visir.retrieval import few
from visir.retrieval.pairs import score_places
from visir.retrieval.scan import (
    Answers,
    SearchState,
    TorchDevice,
    exact_answers,
    scan,
    slack_of_double,
    slack_of_product,
)
from visir.retrieval.vectors import Side

# The exact dense scan on a device of torch: products and selection there, exact scores on the cores.

# The ranks of positives, counted on a device of torch; pairs that are too close to tell are scored on the cores.

COMPARED = 2**24
"""Scores that are compared with those of positives at once."""
MANY = 256
"""Where more than one of so many scores is too close to tell, double precision pays."""


class DeviceRanks:
    """How many candidates stand before each positive of some queries."""

    def __init__(
        self,
        on: TorchDevice,
        state: SearchState,
        queries: Side,
        candidates: Side,
        span: tuple[int, int],
        ties: Ties,
    ) -> None:
        self.torch, self.state, self.queries, self.candidates, self.ties = on.torch, state, queries, candidates, ties
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
        scores, known = (
            score_places(self.queries, state.row_of[query], self.candidates, document),
            state.known[positive],
        )
        own = state.documents[positive]
        before = document > own if self.ties == "trec" else document < own
        if self.ties in ("pessimistic", "optimistic"):
            before = np.where(self._is_positive(query, document), before, self.ties == "pessimistic")
        ahead = (scores > known) | ((scores == known) & before)
        np.add.at(state.better, positive[ahead], 1)

    def _is_positive(self, query: NDArray[np.int64], document: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each document is a positive of the query."""
        width = len(self.candidates)
        own = self.state.documents[self.begin : self.begin + len(self.query)]
        wanted, positives = query * width + document, self.query * width + own  # both ascend, as those of the state do
        place = np.minimum(np.searchsorted(positives, wanted), len(positives) - 1)
        is_positive: NDArray[np.bool_] = positives[place] == wanted
        return is_positive


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


def scan_on_device(
    device: str, rows: Side, columns: Side, forward: SearchState, backward: SearchState | None, ties: Ties
) -> list[Answers]:
    """Score every row of one side with every row of the other, and the other way round for a second task."""
    # Memory of the device: vectors that fit into half of what is free stay there as long as their side is held, others
    # are moved block by block; a block of scores; the queries and their best candidates, group by group.
    on = TorchDevice(device)
    both = [(forward, rows, columns)] + ([] if backward is None else [(backward, columns, rows)])
    total = sum(len(state) * len(candidates) for state, _, candidates in both)
    with Progress("searching", total, "scores") as advance, on.running():
        for state, queries, candidates in both:
            owners = np.repeat(state.row_of, np.diff(state.offsets))
            state.known[:] = score_places(queries, owners, candidates, state.documents)
        return [_search(on, state, queries, candidates, ties, advance) for state, queries, candidates in both]


def _search(
    on: TorchDevice,
    state: SearchState,
    queries: Side,
    candidates: Side,
    ties: Ties,
    advance: Callable[[int], None],
    *,
    precise: bool = False,
) -> Answers:
    """The answers of one task; queries whose last candidates are too close to tell are searched again, deeper."""
    width = min(state.keys.shape[1], len(candidates))
    each = 4 * candidates.embeddings.dimension + 12 * width
    size = max(QUERIES // each, 1)
    undecided = []
    for start in range(0, len(state), size):
        stop = min(start + size, len(state))
        group = _Group(on, state, queries, candidates, (start, stop), ties, precise)
        for first, block in _blocks(on, candidates):
            group.look(block, first)
            advance((stop - start) * len(block))
        undecided.append(start + group.finish())
    again = np.concatenate([*undecided, np.empty(0, np.int64)])
    deeper = width * DEEPER
    if len(again) and deeper > DEEPEST:
        state.crowded[again] = True
        again = again[:0]
    indices, scores = exact_answers(state, queries, candidates)
    if len(again):
        query_of = np.full(len(state.query_of), -1, np.int64)
        query_of[state.row_of[again]] = np.arange(len(again))
        none = np.zeros(len(again) + 1, np.int64)
        some = SearchState(query_of, none, np.empty(0, np.int64), state.depth, deeper)
        indices[again], scores[again] = _search(on, some, queries, candidates, ties, lambda _: None, precise=True)
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

    def __init__(
        self,
        on: TorchDevice,
        state: SearchState,
        queries: Side,
        candidates: Side,
        span: tuple[int, int],
        ties: Ties,
        precise: bool,
    ) -> None:
        self.torch, self.state, self.span, self.precise = on.torch, state, span, precise
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
        self.ranks = DeviceRanks(on, state, queries, candidates, span, ties)

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


def scan_on(
    device: str | None, rows: Side, columns: Side, forward: SearchState, backward: SearchState | None, ties: Ties
) -> list[Answers]:
    """Score every row of one side with every row of the other; see `visir.retrieval.scan.scan`."""
    if device:
        return scan_on_device(device, rows, columns, forward, backward, ties)
    return scan(rows, columns, forward, backward, ties)


def best_of(queries: Side, documents: Side, depth: int, device: str | None = None) -> Answers:
    """The best documents of each query; of equal ones the first."""
    # Few vectors are searched without compiled loops, and without the device that is named: that takes less than their
    # way there.
    if device:
        TorchDevice(device)  # the same error for few vectors as for many
    if not pays(len(queries) * len(documents) * documents.embeddings.dimension):
        return few.best(queries.block(0, len(queries)), documents.block(0, len(documents)), depth)
    none = np.zeros(len(queries) + 1, np.int64)
    state = SearchState(np.arange(len(queries)), none, np.empty(0, np.int64), depth)
    return scan_on(device, queries, documents, state, None, "id")[0]
