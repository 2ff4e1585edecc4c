"""Why a picture answers a query, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from visir.library.library import Library
from visir.library.query import Query
from visir.library.query_encoding import EncodedQuery, QueryEncoder
from visir.library.query_state import NORMALISATION, LibraryState, QueryState, StageTimer, rank
from visir.library.results import HitExplanation, SystemScore
from visir.records import SparseEmbeddings
from visir.search.filtered import FilteredIndex
from visir.search.fusion import K, normalised
from visir.search.sparse.matched import Match, matched


def explanation(
    state: LibraryState, encoding: QueryEncoder, query: Query, item: str, *, captions: int, words: int
) -> HitExplanation:
    """See `visir.library.searcher.Searcher.explain`."""
    state.library.item(item)
    one = QueryState(replace(query, rerank=0))
    one.begin(state, matching=False)
    rank(state, [one], encoding, StageTimer())
    if one.fault is not None:
        raise one.fault
    [asked] = encoding.of([query], [{*state.held}], state.library)
    if not isinstance(asked, EncodedQuery):
        raise asked
    return HitExplanation(
        tuple(terms_of(state, encoding, query, [item]).get(item, ())),
        tuple(captions_of(state.library, item, captions)),
        {system: _part(state, encoding, one, asked, system, item) for system in one.systems},
        tuple(words_of(state.library, item, words)),
    )


def words_of(library: Library, item: str, most: int) -> list[tuple[str, float]]:
    """The heaviest words of a picture."""
    library.item(item)
    index = library.indexes.get("sparse")
    found: list[tuple[str, float]] = [] if index is None else index.select([item]).words(item, most)
    return found


def captions_of(library: Library, item: str, most: int) -> list[tuple[str, float]]:
    """The captions nearest to a picture."""
    library.item(item)
    if library.captions is None or "dense" not in library.indexes:
        return []
    run = library.captions.search(library.indexes["dense"].select([item]), most)
    return [(library.caption(one)[1], score) for one, score in run.answer(item)]


def terms_of(state: LibraryState, encoding: QueryEncoder, query: Query, items: Sequence[str]) -> dict[str, list[Match]]:
    """The words that a query and each of these pictures have in common."""
    if "sparse" not in state.library.indexes or not items:
        return {}
    [asked] = encoding.of([query], [{"sparse"}], state.library)
    if not isinstance(asked, EncodedQuery):
        raise asked
    words, held = encoding.queries("sparse", [asked]), state.library.indexes["sparse"].select(items)
    assert isinstance(words, SparseEmbeddings)
    return {item: matched(words, str(words.ids[0]), held, item) for item in items}


def _part(
    state: LibraryState, encoding: QueryEncoder, one: QueryState, asked: EncodedQuery, system: str, item: str
) -> SystemScore:
    listed = one.lists.get(system, ())
    for place, (found, score) in enumerate(listed, 1):
        if found == item:
            return SystemScore(place, score, _gives(one, system, place, score))
    alone = FilteredIndex(state.library.indexes[system], [item]).search(encoding.queries(system, [asked]), 1)
    score = dict(alone.answer(str(alone.queries[0]))).get(item, 0.0)
    return SystemScore(None, score, score if one.system != "hybrid" else 0.0)


def _gives(one: QueryState, system: str, place: int, score: float) -> float:
    """What a system's rank and score are worth in the score that decides, by the formulas of `visir.search.fusion`."""
    if one.system != "hybrid":
        return score
    if one.query.fusion == "rrf":
        return 1.0 / (K + place)
    weight = one.query.weight if system == "dense" else 1 - one.query.weight
    run = one.runs[system]
    at = int(pc.index(run.queries, one.name).as_py())
    scores, _ = normalised(run, NORMALISATION)
    return weight * float(scores[run.offsets[at] + place - 1])
