"""From dense vectors to weighted words, as in use: streamed in blocks, and the same bits whatever the blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from visir.progress import Progress
from visir.sparse.head import EPSILON, SparseHead
from visir.sparse.kernels import candidates, hidden_exact, weigh_own, weigh_rows
from visir.sparse.vocabulary import TextTerms
from visir.threads import spread_parts

BLOCK = 256
"""Vectors at a time: their products with a BERT vocabulary take 31 MB."""

_ROUNDING = 2.0**-24
"""Half a unit in the last place of float32: the relative error of one operation."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows: those of vector i lie from `offsets[i]` to `offsets[i + 1]`, terms ascending."""

    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    values: NDArray[np.float32]


def project(
    head: SparseHead | Projector,
    vectors: NDArray[np.floating],
    own: TextTerms | None = None,
    *,
    block: int = BLOCK,
    title: str = "weighing words",
) -> SparseRows:
    """The weighted terms of dense vectors (n, d), which may be memory-mapped."""
    # The weight of a term is a function of the head and of the one vector alone, to the bit: not of its neighbours, of
    # `block`, or of threads. A product in float32 on the head's device only tells which terms can be active at all; a
    # weight is *defined* as log(1 + a) with a summed in float64 in one fixed order and rounded to float32, and
    # everything within the product's proven error of 0 is summed so. (A processor with other vector units may have
    # another order, which changes the float64 sum by 1e-16, and what is left after rounding about once in 1e8 weights.)
    weigher = head if isinstance(head, Projector) else Projector(head)
    parts = []
    with Progress(title, len(vectors), "vectors") as advance:
        for start in range(0, len(vectors), block):
            rows = np.array(vectors[start : start + block], dtype=np.float32)
            if own is None:
                parts.append(weigher.expanded(rows))
            else:
                parts.append(weigher.own(rows, own.select(np.arange(start, start + len(rows)))))
            advance(len(rows))
    return _joined(parts)


class Projector:
    """A head's weights as arrays, and the bound on what a product with W2 can be off; of the head as it is now."""

    def __init__(self, head: SparseHead) -> None:
        def array(tensor: torch.Tensor) -> NDArray[np.float32]:
            return np.ascontiguousarray(tensor.detach().float().cpu().numpy())

        self.head = head
        self.first = (
            array(head.project.weight),
            array(head.project.bias),
            array(head.norm.weight),
            array(head.norm.bias),
        )
        self.words, self.bias = array(head.words), array(head.bias)
        self.usable = head.usable.cpu().numpy()
        # |product - exact| ≤ γ (|w| · |h| + |b|) with γ = (ω + 2) u / (1 - …) (Higham 2002, section 3.1), any order of
        # sums; twice that, for the rounding of the norms.
        self.longest = float(np.linalg.norm(self.words.astype(np.float64), axis=1).max(initial=0.0))
        self.shift = float(np.abs(self.bias).max(initial=0.0))
        self.gamma = 2.0 * (head.width + 2) * _ROUNDING

    def expanded(self, vectors: NDArray[np.float32]) -> SparseRows:
        """Every usable term may be active."""
        hidden = self.hidden(vectors)
        with torch.inference_mode():
            device = self.head.words.device
            products = torch.addmm(self.head.bias, torch.from_numpy(hidden).to(device), self.head.words.T).cpu().numpy()
        lengths = np.linalg.norm(hidden.astype(np.float64), axis=1)
        slack = (self.gamma * (self.longest * lengths + self.shift)).astype(np.float32)
        n = len(vectors)
        most, counts = np.empty(n, np.int64), np.empty(n, np.int64)
        spread_parts(n, lambda lo, hi: candidates(lo, hi, products, self.usable, slack, most))
        starts = np.concatenate([[0], np.cumsum(most)]).astype(np.int64)
        terms, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
        spread_parts(
            n,
            lambda lo, hi: weigh_rows(
                lo, hi, products, self.usable, slack, hidden, self.words, self.bias, starts, terms, values, counts
            ),
        )
        active = np.arange(starts[-1]) - np.repeat(starts[:-1], most) < np.repeat(counts, most)
        return SparseRows(np.concatenate([[0], np.cumsum(counts)]), terms[active], values[active])

    def own(self, vectors: NDArray[np.float32], own: TextTerms) -> SparseRows:
        """Only the given terms may be active; terms that are not usable are not among them."""
        hidden = self.hidden(vectors)
        values = np.empty(len(own.terms), np.float32)
        spread_parts(
            len(vectors),
            lambda lo, hi: weigh_own(lo, hi, own.offsets, own.terms, hidden, self.words, self.bias, values),
        )
        active = (values > 0) & self.usable[own.terms]
        below = np.concatenate([[0], np.cumsum(active)])
        return SparseRows(below[own.offsets], own.terms[active], values[active])

    def hidden(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, ω), exactly."""
        out = np.empty((len(vectors), self.head.width), np.float32)
        spread_parts(len(vectors), lambda lo, hi: hidden_exact(lo, hi, vectors, *self.first, EPSILON, out))
        return out


def _joined(parts: list[SparseRows]) -> SparseRows:
    lengths = [np.diff(part.offsets) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))]).astype(np.int64)
    return SparseRows(
        offsets,
        np.concatenate([np.zeros(0, np.int32), *(part.terms for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
    )
