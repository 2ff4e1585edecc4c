"""Why a picture answers a query, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from visir.library.answer import Explanation, Part
from visir.library.asked import Asked, Encoding
from visir.library.batch import NORMALISATION, Asking, Stages, State, rank
from visir.library.library import Library
from visir.library.query import Query
from visir.records import SparseEmbeddings
from visir.search.filtered import Among
from visir.search.fusion import K, normalised
from visir.search.sparse.matched import Match, matched


def explanation(state: State, encoding: Encoding, query: Query, item: str, *, captions: int, words: int) -> Explanation:
    """See `visir.library.searcher.Searcher.explain`."""
    state.library.item(item)
    one = Asking(replace(query, rerank=0))
    one.begin(state, matching=False)
    rank(state, [one], encoding, Stages())
    if one.fault is not None:
        raise one.fault
    [asked] = encoding.of([query], [{*state.held}], state.library)
    if not isinstance(asked, Asked):
        raise asked
    return Explanation(
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


def terms_of(state: State, encoding: Encoding, query: Query, items: Sequence[str]) -> dict[str, list[Match]]:
    """The words that a query and each of these pictures have in common."""
    if "sparse" not in state.library.indexes or not items:
        return {}
    [asked] = encoding.of([query], [{"sparse"}], state.library)
    if not isinstance(asked, Asked):
        raise asked
    words, held = encoding.queries("sparse", [asked]), state.library.indexes["sparse"].select(items)
    assert isinstance(words, SparseEmbeddings)
    return {item: matched(words, str(words.ids[0]), held, item) for item in items}


def _part(state: State, encoding: Encoding, one: Asking, asked: Asked, system: str, item: str) -> Part:
    listed = one.lists.get(system, ())
    for place, (found, score) in enumerate(listed, 1):
        if found == item:
            return Part(place, score, _gives(one, system, place, score))
    alone = Among(state.library.indexes[system], [item]).search(encoding.queries(system, [asked]), 1)
    score = dict(alone.answer(str(alone.queries[0]))).get(item, 0.0)
    return Part(None, score, score if one.system != "hybrid" else 0.0)


def _gives(one: Asking, system: str, place: int, score: float) -> float:
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
