"""Ranking: queries that are answered together are encoded, searched and fused together where it changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import VisirError
from visir.library.query import QueryError
from visir.library.query_encoding import EncodedQuery
from visir.library.query_state import WORDS, LibraryState, QueryState, StageTimer
from visir.library.results import RankedItem
from visir.records import Run
from visir.retrieval.filtered import part_of
from visir.retrieval.fusion import Normalisation, fuse

NORMALISATION: Normalisation = "maximum"
"""Of scores before a weighted sum (`visir.retrieval.fusion`): it finds as much as the others
(docs/background/searching.md), and does not depend on how deep the lists go."""


def rank(state: LibraryState, query_states: Sequence[QueryState], timer: StageTimer) -> None:
    """Fill `encoded`, `lists` and `hits` of the queries without an error."""
    sound = [query_state for query_state in query_states if query_state.error is None]
    with timer.timed("encode"):
        encoded = state.encoder.encode(
            [query_state.query for query_state in sound], [{*query_state.systems} for query_state in sound],
            state.library,
        )  # fmt: skip
    groups: dict[Any, list[QueryState]] = defaultdict(list)
    for query_state, vectors in zip(sound, encoded, strict=True):
        if isinstance(vectors, QueryError) and query_state.by == "both" and query_state.query.is_text_alone:
            query_state.by, vectors = "words", EncodedQuery()  # a text that the model cannot read
        if isinstance(vectors, VisirError):
            query_state.error = vectors
        elif query_state.total > 0:
            query_state.encoded = vectors
            query = query_state.query
            depth = query_state.search_depth(state)
            alone = query_state.lists_all and query_state.by == "words"
            key = (id(query_state.allowed), query_state.rankings, alone, depth, query_state.fusion, query.weight)
            groups[key].append(query_state)
    for group in groups.values():
        try:
            _rank_group(state, group, timer)
        except VisirError as error:  # no query is at fault: an index cannot be read, or an engine is away
            for query_state in group:
                query_state.error = error.with_traceback(None)
        for query_state in group:
            query_state.allowed = None  # it is as large as the library, and there may be as many as queries


def _rank_group(state: LibraryState, group: Sequence[QueryState], timer: StageTimer) -> None:
    """Rank queries of the same rankings, filter, depth and fusion."""
    first, depth = group[0], group[0].search_depth(state)
    runs: dict[str, Run] = {}
    with timer.timed("search"):
        for system in first.systems:
            encoded = [query_state.encoded for query_state in group if query_state.encoded is not None]
            vectors = state.encoder.query_vectors(system, encoded)
            index = state.library.indexes[system] if first.allowed is None else first.allowed.index(system)
            runs[system] = _without_query_items(index.search(vectors, depth), group)
        if WORDS in first.rankings:
            runs = {WORDS: _without_query_items(_of_words(state, group, depth), group), **runs}
    with timer.timed("fuse"):
        # What a killed update left behind can be in one index only; they are one gallery all the same.
        fused = next(iter(runs.values()))
        if len(runs) > 1:
            same_gallery = {name: replace(run, task=fused.task, gallery=fused.gallery) for name, run in runs.items()}
            fused = fuse(
                same_gallery, fusion=first.fusion, weights=first.weights, normalisation=NORMALISATION, depth=depth
            )
        for position, query_state in enumerate(group):
            query_state.name, query_state.runs = f"{position:06}", runs
            query_state.lists = {system: run.answer(query_state.name) for system, run in runs.items()}
            parts = {
                system: {item: (rank, score) for rank, (item, score) in enumerate(listed, 1)}
                for system, listed in query_state.lists.items()
            }
            answers = fused.answer(query_state.name)[: query_state.list_length]
            query_state.hits = [
                RankedItem(item, rank, score, {system: ranks[item] for system, ranks in parts.items() if item in ranks})
                for rank, (item, score) in enumerate(answers, 1)
            ]


def _of_words(state: LibraryState, group: Sequence[QueryState], depth: int) -> Run:
    """The items that share words with each query; for one of price words alone, all that it may find, by id."""
    assert state.words is not None, "the queries were checked"
    within = None if group[0].allowed is None else group[0].allowed.words
    plans = {f"{row:06}": query_state.plan for row, query_state in enumerate(group) if query_state.plan is not None}
    if not any(query_state.lists_all and query_state.by == "words" for query_state in group):
        return state.words.run(plans, depth, within)
    index = state.words.index
    every = np.flatnonzero(np.ones(len(index), np.bool_) if within is None else within)[:depth]
    names = index.ids.take(pa.array(every)).to_pylist()
    queries = [query for query in plans for _ in names]
    return Run.ranked("words", "t2t", queries, names * len(plans), np.zeros(len(queries)), index.gallery)


def _without_query_items(run: Run, group: Sequence[QueryState]) -> Run:
    """Without the item that each query searches with: it would always be the best answer to itself."""
    excluded = np.zeros(len(run.indices), np.bool_)
    for position, query_state in enumerate(group):
        if query_state.query.like is not None:
            listed = slice(int(run.offsets[position]), int(run.offsets[position + 1]))
            row = int(pc.index(run.documents, query_state.query.like).as_py())
            excluded[listed] = run.indices[listed] == row
    return part_of(run, ~excluded, np.ones(len(run), np.bool_)) if excluded.any() else run
