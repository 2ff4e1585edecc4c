"""The exact dense scan on a device of torch: products and selection there, exact scores on the cores.

As in `visir.retrieval.scan`, products in float32 only filter. The device keeps a few more candidates than are wanted; a
proven bound on the error of a product says which of them may be among the best, and whether all that may be were kept.
Those are scored by the same compiled loops as on the cores, so answers, scores and ranks are the same to the bit. Where
too many scores are too close to tell, more candidates are kept, by products in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.progress import Progress
from visir.records import Ties
from visir.retrieval.device_ranks import DeviceRanks
from visir.retrieval.pairs import score_places
from visir.retrieval.scan import Answers, SearchState, exact_answers, slack_of_double, slack_of_product
from visir.retrieval.torch_device import TorchDevice
from visir.retrieval.vectors import Side

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
