"""Batches: every caption once per epoch, with its image; and how a batch is shared and cut."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def batches_of_epoch(
    captions: int, size: int, *, seed: int, epoch: int, anchors: Rows | None = None, per_image: int = 1
) -> list[Rows]:
    """The rows of `captions` captions, shuffled and cut into ceil(captions / size) batches."""
    # The order depends on the seed and the epoch alone, so that an epoch can be run again after an interruption. The
    # sizes differ by at most one: no short last batch, whose few negatives would make an easy step, and none left out.
    # anchors: (captions,) the image of each; needed for `per_image`.
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(captions)
    if per_image > 1 and anchors is not None:
        order = _grouped(order, anchors[order], per_image, generator)
    return np.array_split(order, math.ceil(captions / size))


def _grouped(order: Rows, anchors: Rows, size: int, generator: np.random.Generator) -> Rows:
    """The rows in groups of at most `size` of one anchor; the groups in random order."""
    by_anchor = np.argsort(anchors, kind="stable")
    _, first, counts = np.unique(anchors[by_anchor], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(first, counts)  # within the captions of an anchor, in shuffled order
    starts = np.flatnonzero(place % size == 0)
    group = np.cumsum(place % size == 0) - 1
    rank = generator.permutation(len(starts))
    grouped: Rows = order[by_anchor][np.argsort(rank[group], kind="stable")]
    return grouped


def steps_per_epoch(captions: int, size: int, accumulate: int = 1) -> int:
    """How many updates an epoch has, each over at most `accumulate` batches of at most `size` captions."""
    return math.ceil(math.ceil(captions / size) / accumulate)


def steps_of_epoch(
    captions: int,
    size: int,
    accumulate: int,
    *,
    seed: int,
    epoch: int,
    anchors: Rows | None = None,
    per_image: int = 1,
) -> list[list[Rows]]:
    """The batches of each update of an epoch (see `batches_of_epoch`); their numbers differ by at most one."""
    batches = batches_of_epoch(captions, size, seed=seed, epoch=epoch, anchors=anchors, per_image=per_image)
    cuts = np.array_split(np.arange(len(batches)), steps_per_epoch(captions, size, accumulate))
    return [[batches[number] for number in cut] for cut in cuts]


@dataclass(frozen=True, eq=False)
class Share:
    """A batch as one of several processes sees it."""

    rows: Rows  # of the whole batch, in order
    sizes: tuple[int, ...]  # how many of them each process takes, one after the other
    own: int  # how many of this process's rows count
    # The rows that go through this process's towers, cut; never empty. A process for which nothing is left (a batch of
    # fewer captions than processes) takes the batch's first caption, and none of it counts.
    chunks: tuple[Rows, ...]
    is_cut: bool  # whether the rows of some process, this one or another, go through the towers in several chunks

    @classmethod
    def of(cls, rows: Rows, *, process: int = 0, processes: int = 1, chunk: int | None = None) -> Share:
        """The contiguous share of `process` (from 0), in chunks of nearly equal size, at most `chunk`."""
        parts = np.array_split(rows, processes)
        mine = parts[process] if len(parts[process]) else rows[:1]
        chunks = np.array_split(mine, math.ceil(len(mine) / chunk) if chunk else 1)
        is_cut = chunk is not None and len(parts[0]) > chunk  # the first is the longest
        return cls(rows, tuple(map(len, parts)), len(parts[process]), tuple(chunks), is_cut)

    def first(self, process: int) -> int:
        """Where in the batch the rows of a process begin."""
        return sum(self.sizes[:process])
