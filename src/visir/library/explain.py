"""Why a picture answers a query, taken apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from visir.collections.images import opened
from visir.errors import ImageError
from visir.library.layout import LibraryError
from visir.library.query import DEEPEST, Query
from visir.library.query_encoding import EncodedQuery
from visir.library.results import HitExplanation, SystemScore
from visir.library.search import NORMALISATION, WORDS, LibraryState, QueryState, rank
from visir.library.snapshot import LibrarySnapshot
from visir.records import MultiVectorEmbeddings, SparseEmbeddings
from visir.retrieval.filtered import FilteredIndex
from visir.retrieval.fusion import K, normalised
from visir.sparse.top_terms import Match, matched

if TYPE_CHECKING:
    from visir.reports.examples import WordRegions


def explain_hit(state: LibraryState, query: Query, item: str, *, captions: int, words: int) -> HitExplanation:
    """See `visir.library.searcher.Searcher.explain`."""
    state.library.item(item)
    query_state = QueryState(query.model_copy(update={"rerank": 0}))
    query_state.prepare(state)
    if len(query_state.rankings) > 1:  # the item may be on any page
        query_state.query = query_state.query.model_copy(update={"k": DEEPEST, "offset": 0})
    rank(state, [query_state], defaultdict(float))
    if query_state.error is not None:
        raise query_state.error
    query = query_state.query
    encoded = _encoded(state, query, {*query_state.systems})
    return HitExplanation(
        tuple(matched_terms(state, query, [item]).get(item, ())),
        tuple(nearest_captions(state.library, item, captions)),
        {name: _system_score(state, query_state, encoded, name, item) for name in query_state.rankings},
        tuple(heaviest_words(state.library, item, words)),
        ()
        if state.words is None or query_state.plan is None
        else state.words.index.found_words(query_state.plan, item),
        matched_regions(state, query, item),
    )


def heaviest_words(library: LibrarySnapshot, item: str, count: int) -> list[tuple[str, float]]:
    """The heaviest words of a picture."""
    library.item(item)
    index = library.indexes.get("sparse")
    words: list[tuple[str, float]] = [] if index is None else index.select([item]).words(item, count)
    return words


def nearest_captions(library: LibrarySnapshot, item: str, count: int) -> list[tuple[str, float]]:
    """The captions nearest to a picture."""
    library.item(item)
    if library.captions is None or "dense" not in library.indexes:
        return []
    run = library.captions.search(library.indexes["dense"].select([item]), count)
    return [(library.caption(caption)[1], score) for caption, score in run.answer(item)]


def matched_terms(state: LibraryState, query: Query, items: Sequence[str]) -> dict[str, list[Match]]:
    """The words that a query and each of these pictures have in common."""
    if "sparse" not in state.library.indexes or not items:
        return {}
    encoded = _encoded(state, state.resolved(query)[0], {"sparse"})
    words, documents = state.encoder.query_vectors("sparse", [encoded]), state.library.indexes["sparse"].select(items)
    assert isinstance(words, SparseEmbeddings)
    return {item: matched(words, str(words.ids[0]), documents, item) for item in items}


def matched_regions(state: LibraryState, query: Query, item: str) -> WordRegions | None:
    """What each word of a query matched in a picture; None where there is no such thing."""
    # The original is read for it, because a model may see pictures of every size in another way; where there is none,
    # words have no regions.
    from visir.reports.examples import word_regions

    vectors = state.library.indexes["dense"].select([item]) if "dense" in state.library.indexes else None
    if not isinstance(vectors, MultiVectorEmbeddings) or query.search_text is None:
        return None
    encoder = state.encoder.models.dense
    assert encoder is not None, "a library with a dense index has an encoder"
    text, query_vectors = query.search_text, state.encoder.text_vectors(query.search_text)
    try:
        with opened(state.library.open_image(item)[0], item) as image:
            return word_regions(encoder, text, query_vectors, vectors.row(0), image)
    except (LibraryError, ImageError):
        return word_regions(encoder, text, query_vectors, vectors.row(0))


def _encoded(state: LibraryState, query: Query, systems: set[str]) -> EncodedQuery:
    [encoded] = state.encoder.encode([query], [systems], state.library)
    if not isinstance(encoded, EncodedQuery):
        raise encoded
    return encoded


def _system_score(
    state: LibraryState, query_state: QueryState, encoded: EncodedQuery, system: str, item: str
) -> SystemScore:
    label = state.library.label(system)
    hit = next((hit for hit in query_state.hits if hit.id == item), None)
    if hit is not None and system in hit.parts:
        position, score = hit.parts[system]
        return SystemScore(position, score, _contribution(query_state, system, position, score), label)
    if system == WORDS:
        assert state.words is not None and query_state.plan is not None, "the query was checked"
        index = state.words.index
        this_item = pc.equal(index.ids, item).to_numpy(zero_copy_only=False)
        score = next(iter(index.search(query_state.plan, 1, within=this_item).scores), 0.0)
    else:
        vectors = state.encoder.query_vectors(system, [encoded])
        alone = FilteredIndex(state.library.indexes[system], [item]).search(vectors, 1)
        score = dict(alone.answer(str(alone.queries[0]))).get(item, 0.0)
    return SystemScore(None, score, score if len(query_state.rankings) == 1 else 0.0, label)


def _contribution(query_state: QueryState, system: str, position: int, score: float) -> float:
    """What a system's rank and score add to the deciding score, by the formulas of `visir.retrieval.fusion`."""
    if len(query_state.rankings) == 1:
        return score
    if query_state.weights is None:
        return 1.0 / (K + position)
    run = query_state.runs[system]
    row = int(pc.index(run.queries, query_state.name).as_py())
    scores, _ = normalised(run, NORMALISATION)
    return query_state.weights[system] * float(scores[run.offsets[row] + position - 1])
