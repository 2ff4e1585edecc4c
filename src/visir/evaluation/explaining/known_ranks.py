"""The ranks of right candidates under a reading, as far as the lists reach: a lowest and a highest rank each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.lists import RankedLists
from visir.evaluation.explaining.parts import Part
from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.world import Places, World

Numbers = NDArray[np.float64]
REORDERED = ("source order", "reverse order", "id", "trec")
"""Ties that another order of the lists computes."""
EARLY = ("optimistic", "average", "average of all", "average down", "any order")
"""Ties under which one of several equal scores may stand before its place in the list."""


@dataclass(frozen=True, eq=False)
class KnownRanks:
    """The ranks of the right candidates of each query.

    Attributes:
        lowest: (p,) the lowest possible rank of each right candidate, ascending within a query; inf where it cannot be
            found.
        highest: (p,) the highest possible rank, likewise; inf where the lists end before it.
        offsets: (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`.
        weights: (n,) the weight of each query in the mean.
        sizes: The number of candidates of each fold.
    """

    lowest: Numbers
    highest: Numbers
    offsets: Places
    weights: Numbers
    sizes: tuple[int, ...]

    @property
    def positives(self) -> Places:
        """(n,) the number of right candidates of each query."""
        return np.diff(self.offsets)


def known_ranks(lists: RankedLists, part: Part, reading: Reading, ties: str, world: World, task: str) -> KnownRanks:
    """Rank the right candidates of a part.

    Args:
        lists: Lists that hold the queries of the part.
        part: The queries and candidates.
        reading: The reading; its positives, copies and depth play a role.
        ties: How equal scores are counted: "list" as the lists have them, or a choice of the axis "ties".
        world: The images and captions.
        task: The task.

    Returns:
        The ranks.
    """
    lists = lists.reordered(ties) if ties in REORDERED and lists.has_ties else lists
    row, document = part.pairs
    rows = lists.rows(part.queries)
    counted = _counted(lists, part, rows)
    place = lists.places(rows[row], document)
    at = np.maximum(place, 0)
    itself = counted[row, at] - np.where(at > 0, counted[row, at - 1], 0)
    through = counted[row, at].astype(np.float64)
    lowest = through - itself + 1
    highest = lowest.copy()
    if ties not in ("list", *REORDERED) and lists.has_ties:
        present = place >= 0
        lowest[present], highest[present] = _with_ties(lists, counted, rows, row[present], at[present], ties)
    elif reading["positives"] == "any alike" and lists.has_ties:
        first, _ = lists.stretches
        begin = first[rows[row], at]
        lowest = np.where(begin > 0, counted[row, begin - 1], 0) + 1.0
        highest = lowest.copy()
    if part.copies is not None:
        shift = _copy(world, part, task, str(reading.value("copies")))[row]
        lowest, highest = lowest + shift, highest + shift
    _mark_unknown(lists, part, counted, rows, row, document, place, lowest, highest, ties)
    depth = reading.value("depth")
    if isinstance(depth, int):
        lowest[lowest > depth], highest[highest > depth] = np.inf, np.inf
    lowest, highest = lowest[np.lexsort((lowest, row))], highest[np.lexsort((highest, row))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(part.queries)))]).astype(np.int64)
    return KnownRanks(lowest, highest, offsets, part.weights, part.sizes)


def _counted(lists: RankedLists, part: Part, rows: Places) -> NDArray[np.int32]:
    """(n, L) how many candidates of the part are at or above each place."""
    order = lists.order[rows]
    counts = part.candidates if part.copies is None else np.where(part.candidates, part.copies, 0)
    inside = counts[order]
    if part.query_fold is not None and part.document_fold is not None:
        inside = inside * (part.document_fold[order] == part.query_fold[:, None])
    inside[rows < 0] = 0
    return np.cumsum(inside, axis=1, dtype=np.int32)


def _with_ties(
    lists: RankedLists, counted: NDArray[np.int32], rows: Places, row: Places, at: Places, ties: str
) -> tuple[Numbers, Numbers]:
    """Ranks where a stretch of equal scores is counted in another way than in the order of the list."""
    first, last = lists.stretches
    begin, end = first[rows[row], at], last[rows[row], at]
    before = np.where(begin > 0, counted[row, begin - 1], 0).astype(np.float64)
    through = counted[row, end].astype(np.float64)
    # Right candidates of one query in one stretch stand behind one another, in the order of the list.
    order = np.lexsort((at, begin, row))
    same = np.concatenate([[False], (np.diff(row[order]) == 0) & (np.diff(begin[order]) == 0)])
    run = np.cumsum(~same) - 1
    starts = np.flatnonzero(~same)
    sizes = np.diff(np.concatenate([starts, [len(order)]]))
    nth, right = np.empty(len(order)), np.empty(len(order))
    nth[order] = np.arange(len(order)) - starts[run]
    right[order] = sizes[run]
    equal = through - before
    if ties == "optimistic":
        lowest = before + nth + 1
    elif ties == "pessimistic":
        lowest = before + (equal - right) + nth + 1
    elif ties == "average":
        lowest = before + nth + 1 + (equal - right) / 2
    elif ties == "at most":
        lowest = through.copy()
    else:
        lowest = before + (equal + 1) / 2
        lowest = np.maximum(np.floor(lowest), 1) if ties == "average down" else lowest
    if ties == "any order":
        lowest, highest = before + nth + 1, before + (equal - right) + nth + 1
    else:
        highest = lowest.copy()
    if ties != "optimistic" and not lists.is_whole:  # a stretch at the end of a list may go on behind it
        highest[(end == lists.order.shape[1] - 1) & (equal > 1)] = np.inf
    return lowest, highest


def _copy(world: World, part: Part, task: str, which: str) -> Numbers:
    """(n,) what the rank of each query's image rises by, when it is a candidate once for each caption."""
    shift = np.zeros(len(part.queries))
    if task == "t2i" and which != "any":
        place = np.zeros(len(world.caption_ids), np.int64)
        last = np.zeros(len(world.caption_ids), np.int64)
        owners = world.owner[world.captions]
        order = np.argsort(owners, kind="stable")
        starts = np.searchsorted(owners[order], owners[order])
        place[world.captions[order]] = np.arange(len(order)) - starts
        last[world.captions] = np.bincount(owners, minlength=1)[owners] - 1
        shift = (place if which == "own" else last)[part.queries].astype(np.float64)
    return shift


def _mark_unknown(
    lists: RankedLists,
    part: Part,
    counted: NDArray[np.int32],
    rows: Places,
    row: Places,
    document: Places,
    place: Places,
    lowest: Numbers,
    highest: Numbers,
    ties: str,
) -> None:
    """Give right candidates behind the end of their list the ranks that are possible there."""
    absent = np.flatnonzero(place < 0)
    if len(absent) == 0:
        return
    after = counted[row[absent], -1].astype(np.float64)
    if ties in EARLY and lists.has_ties:  # it may have the score of the last ones
        begin = lists.stretches[0][rows[row[absent]], -1]
        after = np.where(begin > 0, counted[row[absent], begin - 1], 0).astype(np.float64)
    same = np.concatenate([[False], np.diff(row[absent]) == 0])
    starts = np.flatnonzero(~same)
    earlier = np.arange(len(absent)) - starts[np.cumsum(~same) - 1]
    outside = ~part.candidates[document[absent]] | (rows[row[absent]] < 0)
    lowest[absent] = np.where(outside | lists.is_whole, np.inf, after + earlier + 1)
    highest[absent] = np.inf
