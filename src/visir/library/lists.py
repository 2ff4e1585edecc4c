"""The list of one system for each of several queries: (item, score), as deep as their pages need.

An exact index lists the same documents in the same order however deep it is asked. An approximate one finds others
when it is asked for more, so a longer list need not begin with a shorter one. Its list is therefore *defined* by fixed
steps: the best 128 that a search for 128 finds, then what a search for 1,002 finds beside these. A page takes as many
steps as it needs. A step depends on the query and the index alone, and it only appends. So every page is a part of one
list: no item is on two pages or on none, whoever answers, before and after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from visir.arrow import integer_array
from visir.library.query import DEEPEST
from visir.records import Run, Vectors
from visir.retrieval.fusion import K

RankedList: TypeAlias = Sequence[tuple[str, float]]
"""(item, score), best first. Behind the end of a step of an approximate index scores may rise once."""
DEEPEST_LIST = DEEPEST + 2
"""All pages, one more item, which says if there is a next page, and the item that the query is to be like."""
STEPS = (128, DEEPEST_LIST)
"""How deep an approximate index is asked: for the first pages, and for the rest."""


def lists_of(run: Run) -> dict[str, RankedList]:
    """From query to its list in a run."""
    ids = run.documents.take(integer_array(run.indices)).to_pylist()
    entries, cuts = list(zip(ids, run.scores.tolist(), strict=True)), run.offsets.tolist()
    return {
        query: entries[start:stop]
        for query, start, stop in zip(run.queries.to_pylist(), cuts[:-1], cuts[1:], strict=True)
    }


def lists_in_steps(search: Callable[[Any, int], Run], queries: Vectors, depth: int) -> dict[str, RankedList]:
    """From query to its list in an approximate index, by the steps of this module."""
    lists: dict[str, dict[str, float]] = {query: {} for query in queries.ids.to_pylist()}
    for step in STEPS:
        short = [query for query, items in lists.items() if len(items) < depth]
        if not short:
            break
        run = search(queries if len(short) == len(lists) else queries.select(short), step)
        for query, listed in lists_of(run).items():
            for item, score in listed:
                lists[query].setdefault(item, score)
    return {query: list(items.items()) for query, items in lists.items()}


def fused_step(fused: RankedList, lengths: Iterable[int], step: int) -> RankedList:
    """What lists that end with rank `step` settle of their reciprocal rank fusion (`visir.retrieval.fusion`)."""
    # An item that none of them lists has ranks behind their ends. So it has no more than the sum of the reciprocals of
    # those ranks, and comes behind all items with a higher score. These are the first part of the joined list: no item
    # is missing between them. With two lists they are 34 at least, where these have as many. One that a list does not
    # reach gets nothing from it, where deeper lists would give it up to 1 / (60 + 129).
    highest = sum(1 / (K + length + 1) for length in lengths if length >= step - 1)
    return [(item, score) for item, score in fused if score > highest]
