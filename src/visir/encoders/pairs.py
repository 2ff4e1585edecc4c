"""`match_pairs`: many pairs through a cross-encoder, each once, with bounded memory, resumable."""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.loader import load_images
from visir.encoders.pair_sides import InnerTokens, PairSide, Rows
from visir.encoders.pair_store import Keys, PairStore, pair_store
from visir.errors import EmbeddingError
from visir.progress import Progress
from visir.records import Items, Role


@dataclass(frozen=True, eq=False)
class Matching:
    """What `match_pairs` did."""

    scores: NDArray[np.float32]  # (n,) float32, pair by pair
    pairs: int  # how many of the n pairs are distinct
    computed: int  # how many of those went through the model now; the others were in the store
    seconds: float  # wall-clock time


def match_pairs(
    cross_encoder: CrossEncoder,
    outer: Items,
    inner: Items,
    outer_rows: Rows,
    inner_rows: Rows,
    *,
    outer_role: Role = "document",
    root: str | Path | None = None,
    workers: int | None = None,
) -> Matching:
    """The scores of n pairs: the item of row `outer_rows[i]` with the item of row `inner_rows[i]`."""
    # A pair that occurs several times, or whose text another item has too, is computed once. The outer items (images,
    # where one side has images) are taken in their order, `cross_encoder.images_at_once` at a time, and each passes its
    # tower once; see `CrossEncoder` for the memory. Scores are kept by content: the same pairs in another run, another
    # split or at another k are found. Within two seconds they are on disk, so a killed call continues where it stopped;
    # it cuts the same batches as an uninterrupted one and gives the same bits. Where pairs of *another* call are
    # re-used, batches differ, and with them scores by rounding (1e-6).
    # outer_rows: (n,) rows of `outer`.
    # inner_rows: (n,) rows of `inner`.
    started = time.perf_counter()
    outer_is_query = outer_role == "query"
    modalities = (outer.modality, inner.modality) if outer_is_query else (inner.modality, outer.modality)
    cross_encoder.check_takes(*modalities)
    first, at_first = PairSide.of(cross_encoder, outer, outer_rows)
    second, at_second = PairSide.of(cross_encoder, inner, inner_rows)
    planned, inverse = np.unique(at_first * len(second) + at_second, return_inverse=True)
    at_first, at_second = planned // max(len(second), 1), planned % max(len(second), 1)
    plan = _PairPlan(first, at_first, second, at_second, outer_is_query, cross_encoder.ordered)
    with pair_store(cross_encoder.card, root) as store:
        scores = store.find(*plan.keys(np.arange(len(planned))))
        computed = int(np.isnan(scores).sum())
        if computed:
            _fill(scores, cross_encoder, plan, store, workers)
    return Matching(scores[inverse], len(planned), computed, time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class _PairPlan:
    """The distinct pairs, sorted by outer item, then inner item."""

    outer: PairSide  # the two sides
    at_outer: Rows  # (pairs,) for each pair the positions of its items on their sides
    inner: PairSide
    at_inner: Rows
    outer_is_query: bool  # whether the outer items are the queries
    ordered: bool  # whether (query, document) is another pair than (document, query)

    def keys(self, pairs: Rows) -> tuple[Keys, Keys]:
        """What the items of some pairs are: outer and inner, or query and document where the order counts."""
        both = self.outer.keys[self.at_outer[pairs]], self.inner.keys[self.at_inner[pairs]]
        return both[::-1] if self.ordered and not self.outer_is_query else both


def _fill(
    scores: NDArray[np.float32], cross_encoder: CrossEncoder, plan: _PairPlan, store: PairStore, workers: int | None
) -> None:
    """Compute what is NaN in `scores`."""
    size, step = cross_encoder.images_at_once, cross_encoder.pairs_at_once
    outer, inner = plan.outer, plan.inner
    # All cuts are made in the plan, not in what is left of it: so a resumed call computes the same batches.
    edges = np.searchsorted(plan.at_outer, np.arange(0, len(outer) + size, size))
    blocks = [block for block in range(len(edges) - 1) if np.isnan(scores[edges[block] : edges[block + 1]]).any()]
    needed = np.zeros(len(outer), bool)
    for block in blocks:
        needed[block * size : (block + 1) * size] = True
    inner_tokens = InnerTokens(cross_encoder, inner, workers)
    loaded = None
    if outer.has_images:
        images = outer.items.take(outer.rows[needed])
        loaded = load_images(images, cross_encoder, start=0, batch_size=size, workers=workers, skip_broken=False)
    modalities = (outer.modality, inner.modality) if plan.outer_is_query else (inner.modality, outer.modality)
    title = f"matching with {cross_encoder.card.name}"
    reading = nullcontext() if loaded is None else closing(loaded)
    with reading, Progress(title, int(np.isnan(scores).sum()), "pairs") as advance:
        for block in blocks:
            pixels = None if loaded is None else next(loaded).pixels
            tokens = cross_encoder.item_tokens(outer.modality, outer.texts_of(block * size, size), pixels)
            for start in range(int(edges[block]), int(edges[block + 1]), step):
                part = np.arange(start, min(start + step, edges[block + 1]))
                part = part[np.isnan(scores[part])]
                if len(part) == 0:
                    continue
                sides = [
                    [tokens[position - block * size] for position in plan.at_outer[part].tolist()],
                    inner_tokens.of(plan.at_inner[part].tolist()),
                ]
                queries, documents = sides if plan.outer_is_query else sides[::-1]
                computed = cross_encoder.match_roles(queries, documents, modalities)
                _check_finite(computed, cross_encoder, plan, part)
                scores[part] = computed
                store.append(*plan.keys(part), computed)
                advance(len(part))


def _check_finite(scores: NDArray[np.float32], cross_encoder: CrossEncoder, plan: _PairPlan, part: Rows) -> None:
    """Raise for scores that are NaN or infinite, with an example."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        pair = int(part[bad[0]])
        outer, inner = plan.outer.shown(int(plan.at_outer[pair])), plan.inner.shown(int(plan.at_inner[pair]))
        raise EmbeddingError(
            f"{cross_encoder.card.name} gave NaN or an infinite score to {len(bad)} of {len(part)} pairs, e.g. "
            f"{outer} with {inner}.",
            hint="look at these inputs; with half precision, match in float32 or bfloat16",
            code="gave-nan-infinite-score",
        )
