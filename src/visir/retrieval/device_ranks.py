"""The ranks of positives, counted on a device of torch; pairs that are too close to tell are scored on the cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.records import Ties
from visir.retrieval.pairs import score_places
from visir.retrieval.scan import SearchState
from visir.retrieval.torch_device import TorchDevice
from visir.retrieval.vectors import Side

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
