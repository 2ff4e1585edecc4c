"""Searching a library: queries that are answered together go one road, from question to page.

check → conditions become allowed items → encode together → search each index → fuse → re-rank → cut the page

What is done together changes no answer: scores depend on two vectors alone, and how deep a list goes on its own query.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache, cachedmethod
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.intake import Pixels
from visir.errors import ImageError, VisirError
from visir.library.check import mended_by_update
from visir.library.database import CATEGORIES, Mask
from visir.library.facets import Category, tree_of
from visir.library.filters import satisfying
from visir.library.layout import LibraryError
from visir.library.price_words import ReadWords, read_prices
from visir.library.query import DEEPEST, AnsweredBy, Query, QueryError, System, WordsState
from visir.library.query_encoding import EncodedQuery, QueryEncoder
from visir.library.results import RankedItem, ResultPage
from visir.library.snapshot import LibrarySnapshot
from visir.parquet import integer_array
from visir.records import Run, Vectors
from visir.retrieval.answers import part_of
from visir.retrieval.filtered import FilteredIndex
from visir.retrieval.fusion import Fusion, K, Normalisation, fuse
from visir.retrieval.index import StoredIndex
from visir.retrieval.text.words import Plan

WORDS = "words"
"""The name of the search by words beside the systems of vectors."""
WEIGHT_OF_WORDS = 0.7
"""Of the words of pictures in a weighted sum with vectors, where one picture has every word of the text; where the best
has a part of them, this times its square: a keyword alone does not answer a sentence
(docs/background/text-search.md#words-of-photos)."""
WEIGHT_BESIDE_WORDS = 0.3
"""Of the vectors in a weighted sum with words: as good as words alone where these find something, and vectors order
what words leave equal (docs/background/text-search.md)."""
NORMALISATION: Normalisation = "maximum"
"""Of scores before a weighted sum (`visir.retrieval.fusion`): it finds as much as the others
(docs/background/searching.md), and does not depend on how deep the lists go."""
CACHED_FILTERS, CACHED_QUERIES = 16, 512
DEEPEST_LIST = DEEPEST + 2
"""All pages, one more item, which says if there is a next page, and the item that the query is to be like."""
STEPS = (128, DEEPEST_LIST)
"""How deep an approximate index is asked: for the first pages, and for the rest."""
RankedList: TypeAlias = Sequence[tuple[str, float]]
"""(item, score), best first. Behind the end of a step of an approximate index scores may rise once."""


def answers(state: LibraryState, requests: Sequence[Query | Mapping[str, Any]]) -> list[ResultPage | VisirError]:
    """The page of each query, or its own error in its place."""
    seconds: dict[str, float] = defaultdict(float)
    query_states = [QueryState(request) for request in requests]
    with _timed(seconds, "filter"):
        for each in query_states:
            with each.own_errors():
                each.prepare(state)
    rank(state, query_states, seconds)
    for each in query_states:
        if each.error is None and each.query.rerank:
            with each.own_errors(), _timed(seconds, "rerank"):
                cross_encoder, text = state.encoder.models.encoder.cross_encoder, each.query.search_text
                assert cross_encoder is not None and text is not None, "the query was checked"
                each.hits = state.reranker.reranked(cross_encoder, state.library, text, each.hits, each.query.rerank)
    # An item that is being added, or has just been deleted, is in an index and not in the database.
    listed = {hit.id for each in query_states if each.error is None for hit in each.hits[each.page]}
    existing, rounded = state.library.existing(listed), {stage: round(each, 6) for stage, each in seconds.items()}
    return [each.error or each.answer(state.library, existing, rounded) for each in query_states]


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Add the time that passes inside to a stage."""
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] += time.perf_counter() - started


# What is known of a library, and of a query on its road.


class LibraryState:
    """An opened library, its models, and what was computed for it; replaced as a whole when the library changes."""

    # As a whole, because a library of other models may have come into its place.

    def __init__(self, library: LibrarySnapshot, encoder: QueryEncoder, reranker: Reranker) -> None:
        self.library, self.encoder, self.reranker = library, encoder, reranker
        self.systems: tuple[str, ...] = tuple(library.indexes)
        self.words = library.words
        self._filters: LRUCache[Hashable, AllowedItems] = LRUCache(CACHED_FILTERS)
        self._lock = threading.Lock()

    def rows(self, system: str) -> NDArray[np.int64]:
        """(items,) the row of each item of the library in a system's index; −1 for those that it does not have yet."""

        def read() -> Any:
            ids = self.words.index.ids if system == WORDS and self.words else self.library.indexes[system].ids
            return pc.index_in(self.library.columns.ids, ids).fill_null(-1).to_numpy().astype(np.int64)

        rows: NDArray[np.int64] = self.library.columns.once(("rows", system), read)
        return rows

    def categories(self) -> tuple[Category, ...]:
        """The tree of categories."""
        database = self.library.database
        tree: tuple[Category, ...] = self.library.columns.once(
            "categories", lambda: tree_of((str(category), str(item)) for item, category in database.rows(CATEGORIES))
        )
        return tree

    @property
    def words_state(self) -> WordsState:
        """Whether the library can be searched by words."""
        if self.words is not None:
            return "there"
        return "missing"

    @property
    def offers_words(self) -> bool:
        """Whether words stand beside vectors in what people choose from: names of files alone are searched unasked."""
        return self.words is not None and (self.words.of_products or self.words.says_more or not self.systems)

    def resolved(self, query: Query) -> tuple[Query, tuple[ReadWords, ...]]:
        """The query with the id of the picture that it is to be like, prices in its words as conditions; and these."""
        # Raises `UnknownItemError`.
        if query.like is not None and (item := self.library.id_of(query.like)) != query.like:
            query = query.model_copy(update={"like": item})
        if not query.text or not query.read_prices:
            return query, ()
        text, read = read_prices(query.text, self.library.fields)
        if not read:
            return query, ()
        where = (*query.where, *(condition for words in read for condition in words.where))
        return query.model_copy(update={"text": text or query.text, "where": where, "read_prices": False}), read

    def allowed_items(self, query: Query) -> AllowedItems | None:
        """The items that the query may find; None for all. Raises `FilterError`."""
        return self._allowed_items(query) if query.where or query.category else None

    @cachedmethod(attrgetter("_filters"), key=lambda _, query: _filter_key(query), lock=attrgetter("_lock"))
    def _allowed_items(self, query: Query) -> AllowedItems:
        return AllowedItems(self, query)


def _filter_key(query: Query) -> Hashable:
    key = (query.where, query.category)
    try:
        hash(key)
    except TypeError:  # a value of a wrong type: the filter names it
        return repr(key)
    return key


class AllowedItems:
    """The items that some conditions allow, and every system restricted to them, prepared at first use."""

    def __init__(self, state: LibraryState, query: Query) -> None:
        self._state, library = state, state.library
        self.mask = satisfying(library.columns, query.where, library.fields, category=query.category)
        self._indexes: dict[str, FilteredIndex] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self.mask.sum())

    def __contains__(self, item: str) -> bool:
        row = int(self._state.library.columns.rows_of([item])[0])
        return row >= 0 and bool(self.mask[row])

    def index(self, system: str) -> FilteredIndex:
        """The allowed documents of a system's index."""
        with self._lock:
            if system not in self._indexes:
                library, rows = self._state.library, self._state.rows(system)
                ids = library.columns.ids.filter(pa.array(self.mask))
                self._indexes[system] = FilteredIndex(library.indexes[system], ids, rows[self.mask])
            return self._indexes[system]

    @cached_property
    def words(self) -> Mask:
        """(items,) which documents of the words are allowed."""
        rows = self._state.rows(WORDS)[self.mask]
        allowed = np.zeros(len(self.mask), np.bool_)
        allowed[rows[rows >= 0]] = True
        return allowed


@dataclass
class QueryState:
    """One query that is being answered."""

    request: Query | Mapping[str, Any]  # the query, or its fields, as it came
    query: Query = field(init=False)  # the same, checked
    by: AnsweredBy = "vectors"  # by what it is answered
    system: System = "dense"  # the system of vectors that answers
    plan: Plan | None = None  # what is looked up for its words; None where vectors answer alone
    allowed: AllowedItems | None = None  # the items that it may find; None for all
    candidates: int = 0  # how many items it may find
    matched: int | None = None  # how many of them share a word with it; None where words have no part in the answer
    encoded: EncodedQuery | None = None  # its vectors
    name: str = ""  # its id in these runs
    # Of lists that were joined last: from ranking to the run that has its answers (with those of others).
    runs: Mapping[str, Run] = field(default_factory=dict)
    hits: list[RankedItem] = field(default_factory=list)  # the ranked answers
    error: VisirError | None = None  # why it cannot be answered
    read: tuple[ReadWords, ...] = ()  # words of the text that became conditions
    text: str | None = None  # what it was asked for, in words, without these
    # Whether these were all its words: then words alone list everything that satisfies the conditions.
    lists_all: bool = False
    share: float | None = None  # which part of its words the best picture has; None in a library of products

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems of vectors that are searched: none, one, or both for hybrid."""
        if self.by in ("words", "filters"):
            return ()
        return ("dense", "sparse") if self.system == "hybrid" else (self.system,)

    @property
    def rankings(self) -> tuple[str, ...]:
        """What is ranked, and joined where there are several: words, systems of vectors."""
        return (WORDS, *self.systems) if self.plan is not None else self.systems

    @property
    def fusion(self) -> Fusion:
        """How rankings are joined."""
        return self.query.fusion or ("weighted" if self.by == "both" else "rrf")

    @property
    def weights(self) -> dict[str, float] | None:
        """The weight of each ranking in the fusion; None for all alike."""
        if self.fusion == "rrf":
            return None
        beside = WEIGHT_BESIDE_WORDS if self.share is None else 1 - WEIGHT_OF_WORDS * self.share**2
        first, usual = (self.system, beside) if self.by == "both" else ("dense", 0.5)
        weight = usual if self.query.weight is None else self.query.weight
        return {name: weight if name == first else 1 - weight for name in self.rankings}

    @property
    def list_length(self) -> int:
        """How many of the best are listed: a page's, those before it, and one more, which says if there is a next."""
        return max(self.query.offset + self.query.k, self.query.rerank) + 1

    @property
    def search_depth(self) -> int:
        """How deep the list of one system goes, with the item that the query is to be like."""
        # It depends on this query alone. Lists that are joined go as deep as `STEPS`.
        return self.list_length + (self.query.like is not None)

    @property
    def page(self) -> slice:
        """Where the page lies among the hits."""
        return slice(self.query.offset, self.query.offset + self.query.k)

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Keep an error of this query to this query."""
        try:
            yield
        except VisirError as error:
            # As a value: the frames of its traceback would keep a library open that has been replaced since.
            self.error = error.with_traceback(None)

    def prepare(self, state: LibraryState) -> None:
        """Check the query, look up its words, and find out which items it may find."""
        # A model is loaded for this only where the query re-ranks.
        reranks = self.request.rerank if isinstance(self.request, Query) else self.request.get("rerank", 0)
        has_cross_encoder = bool(reranks) and state.encoder.models.has_cross_encoder
        checked = Query.checked(
            self.request, state.systems, has_cross_encoder=has_cross_encoder, words=state.words_state
        )
        query, self.read = state.resolved(checked)
        takes_texts = state.library.card.texts is not False
        has_words = state.words is not None and (takes_texts or state.offers_words)
        self.by = query.by_for(state.systems, has_words=has_words, takes_texts=takes_texts)
        self.system = query.system_for(state.systems)
        self.text = query.search_text
        if self.by in ("words", "both"):
            if state.words is None:
                hint = "visir library update LIBRARY adds them"
                raise QueryError("this library has no words.", hint=hint, code="library-no-words")
            self.lists_all = bool(self.read) and query.text == checked.text
            text = self.text or ""
            self.plan = state.words.plan("" if self.lists_all else text)
            if self.plan.corrected != text and not self.lists_all:  # vectors take the corrected spelling too
                query = query.model_copy(update={"text": self.plan.corrected})
            if self.by == "both" and not state.words.of_products and not self.plan.concepts:
                self.by, self.plan = "vectors", None  # no picture has one of its words
        self.query = query
        if query.search_text is not None:
            state.encoder.check_texts(self.systems)
        self.allowed = state.allowed_items(query)
        if self.allowed is not None:
            self.candidates = len(self.allowed)
            self.candidates -= query.like is not None and query.like in self.allowed
        else:
            # Not the documents of the indexes: these may have items that are being added.
            self.candidates = len(state.library.columns.ids) - (query.like is not None)
        if self.by == "both" and self.plan is not None and state.words is not None and not state.words.of_products:
            self.share = state.words.index.share(self.plan, None if self.allowed is None else self.allowed.words)

    def answer(self, library: LibrarySnapshot, existing: set[str], seconds: Mapping[str, float]) -> ResultPage:
        """The page, without what the library has no more."""
        # All that the query may find is the answer where nothing leaves any out.
        ranks_all = not self.rankings or "dense" in self.rankings or self.lists_all
        total = self.candidates if ranks_all else self.matched or 0
        more = len(self.hits) > self.page.stop and self.page.stop < DEEPEST
        if self.by == "filters":
            label = library.listed[1]
        elif self.system == "hybrid":
            label = "hybrid"
        else:
            label = " and ".join(library.label(name) for name in self.rankings)
        return ResultPage(
            tuple(hit for hit in self.hits[self.page] if hit.id in existing),
            max(total, 0),
            self.page.stop if more else None,
            self.by,
            self.system if self.systems else None,
            label,
            self.text,
            seconds,
            library.generation,
            self.read,
            self.plan.changes if self.plan is not None else (),
            self.matched,
        )


# From checked queries to ranked hits.


def rank(state: LibraryState, query_states: Sequence[QueryState], seconds: dict[str, float]) -> None:
    """Fill `encoded` and `hits` of the queries without an error."""
    sound = [each for each in query_states if each.error is None]
    for each in sound:
        if each.by == "filters":  # nothing is searched: what satisfies the conditions, in the list's own order
            assert each.allowed is not None, "there are conditions"
            rows, mask = state.library.listed[0], each.allowed.mask
            chosen = state.library.columns.ids.take(pa.array(rows[mask[rows]][: each.list_length])).to_pylist()
            each.hits, each.allowed = [RankedItem(item, place, 0.0, {}) for place, item in enumerate(chosen, 1)], None
    searched = [each for each in sound if each.rankings]
    with _timed(seconds, "encode"):
        encoded = state.encoder.encode(
            [each.query for each in searched], [{*each.systems} for each in searched], state.library
        )
    groups: dict[Any, list[QueryState]] = defaultdict(list)
    for each, vectors in zip(searched, encoded, strict=True):
        if isinstance(vectors, QueryError) and each.by == "both" and each.query.is_text_alone:
            each.by, vectors = "words", EncodedQuery()  # a text that the model cannot read
        if isinstance(vectors, VisirError):
            each.error = vectors
        elif each.candidates > 0:
            each.encoded, alone = vectors, each.lists_all and each.by == "words"
            joined = (each.fusion, each.query.weight, each.share)
            key = (id(each.allowed), each.rankings, alone, each.search_depth, *joined)
            groups[key].append(each)
    for group in groups.values():
        try:
            (_rank_joined if len(group[0].rankings) > 1 else _rank_alone)(state, group, seconds)
        except VisirError as error:  # no query is at fault: an index cannot be read, or an engine is away
            for each in group:
                each.error = error.with_traceback(None)
        for each in group:
            each.allowed = None  # it is as large as the library, and there may be as many as queries


def _rank_alone(state: LibraryState, group: Sequence[QueryState], seconds: dict[str, float]) -> None:
    """Rank queries of one ranking, and of the same filter and depth."""
    [name], depth = group[0].rankings, group[0].search_depth
    with _timed(seconds, "search"):
        if name == WORDS:
            lists = lists_of(_of_words(state, group, depth))
        else:
            index, vectors = _index_and_vectors(state, group, name)
            with mended_by_update(state.library.folder, name):
                if not getattr(state.library.indexes[name], "exact", False):
                    lists = lists_in_steps(index.search, vectors, depth)
                elif isinstance(index, StoredIndex):
                    lists = {**index.lists(vectors, depth)}
                else:
                    lists = lists_of(index.search(vectors, depth))
    with _timed(seconds, "fuse"):
        for position, each in enumerate(group):
            each.name = f"{position:06}"
            listed, like = lists[each.name], each.query.like
            if like is not None:  # it would always be the best answer to itself
                listed = [(item, score) for item, score in listed if item != like]
            each.hits = [
                RankedItem(item, place, score, {name: (place, score)})
                for place, (item, score) in enumerate(listed[: each.list_length], 1)
            ]
            if name == "sparse":
                ended = len(lists[each.name]) < depth
                each.matched = len(listed) if ended else _count(state, each)


def _rank_joined(state: LibraryState, group: Sequence[QueryState], seconds: dict[str, float]) -> None:
    """Rank queries of the same several rankings, and of the same filter, depth and fusion."""
    for step in STEPS if group[0].fusion == "rrf" else (DEEPEST_LIST,):
        if short := [each for each in group if len(each.hits) < min(each.list_length, each.candidates)]:
            _join(state, short, step, seconds)
    if "sparse" in group[0].rankings:
        for each in group:
            each.matched = _count(state, each)


def _join(state: LibraryState, group: Sequence[QueryState], step: int, seconds: dict[str, float]) -> None:
    """Join rankings that end with rank `step`, and append what is new to the hits of each query."""
    first, runs = group[0], {}
    with _timed(seconds, "search"):
        for name in first.rankings:
            if name == WORDS:
                run = _of_words(state, group, step)
            else:
                index, vectors = _index_and_vectors(state, group, name)
                with mended_by_update(state.library.folder, name):
                    run = index.search(vectors, step)
            runs[name] = _without_query_items(run, group)
    with _timed(seconds, "fuse"):
        # What a killed update left behind can be in one index only; they are one gallery all the same.
        base = next(iter(runs.values()))
        fused = fuse(
            {name: replace(run, task=base.task, gallery=base.gallery) for name, run in runs.items()},
            fusion=first.fusion, weights=first.weights, normalisation=NORMALISATION, depth=DEEPEST_LIST,
        )  # fmt: skip
        best, lists = lists_of(fused), {name: lists_of(run) for name, run in runs.items()}
        for position, each in enumerate(group):
            each.name, each.runs = f"{position:06}", runs
            own = {name: of_queries[each.name] for name, of_queries in lists.items()}
            listed = best[each.name]
            if step < DEEPEST_LIST:
                listed = fused_step(listed, map(len, own.values()), step)
            ranks = {name: {item: place for place, (item, _) in enumerate(hits, 1)} for name, hits in own.items()}
            held = {hit.id for hit in each.hits}
            new = [(item, score) for item, score in listed if item not in held]
            each.hits += [
                RankedItem(
                    item, place, score,
                    {name: (of[item], own[name][of[item] - 1][1]) for name, of in ranks.items() if item in of},
                )
                for place, (item, score) in enumerate(new[: each.list_length - len(held)], len(held) + 1)
            ]  # fmt: skip


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


def matching(state: LibraryState, query_state: QueryState) -> Mask | None:
    """(items,) which share a word with a query that was ranked, whatever its conditions; None where words have no part
    in the answer."""
    if query_state.lists_all or not {WORDS, "sparse"} & {*query_state.rankings}:
        return None
    ids = state.library.columns.ids
    mask = np.zeros(len(ids), np.bool_)
    if query_state.plan is not None and state.words is not None:
        rows = state.rows(WORDS)
        mask = (rows >= 0) & state.words.index.matching(query_state.plan)[rows]
    if "sparse" in query_state.rankings and query_state.encoded is not None:
        index = state.library.indexes["sparse"]
        with mended_by_update(state.library.folder, "sparse"):
            run = index.search(state.encoder.query_vectors("sparse", [query_state.encoded]), len(index.ids))
        listed = run.documents.take(integer_array(run.indices))
        mask |= pc.is_in(ids, listed).to_numpy(zero_copy_only=False)
    if query_state.query.like is not None:
        mask[state.library.columns.rows_of([query_state.query.like])] = False
    return mask


def _count(state: LibraryState, query_state: QueryState) -> int | None:
    """How many items that satisfy the conditions share a word with the query."""
    mask, allowed = matching(state, query_state), state.allowed_items(query_state.query)
    return None if mask is None else int((mask if allowed is None else mask & allowed.mask).sum())


def _index_and_vectors(state: LibraryState, group: Sequence[QueryState], system: str) -> tuple[Any, Vectors]:
    """The index of a system with the items that the queries may find, and their vectors."""
    allowed, encoded = group[0].allowed, [each.encoded for each in group if each.encoded is not None]
    index = state.library.indexes[system] if allowed is None else allowed.index(system)
    return index, state.encoder.query_vectors(system, encoded)


def _of_words(state: LibraryState, group: Sequence[QueryState], depth: int) -> Run:
    """The items that share words with each query; for one of price words alone, all that it may find, by id."""
    assert state.words is not None, "the queries were checked"
    within = None if group[0].allowed is None else group[0].allowed.words
    plans = {f"{row:06}": each.plan for row, each in enumerate(group) if each.plan is not None}
    if not any(each.lists_all and each.by == "words" for each in group):
        run, totals = state.words.run(plans, depth, within)
        for each, total in zip(group, totals, strict=True):
            each.matched = None if each.lists_all else total
        return run
    index = state.words.index
    every = np.flatnonzero(np.ones(len(index), np.bool_) if within is None else within)[:depth]
    names = index.ids.take(pa.array(every)).to_pylist()
    queries = [query for query in plans for _ in names]
    return Run.ranked("words", "t2t", queries, names * len(plans), np.zeros(len(queries)), index.gallery)


def _without_query_items(run: Run, group: Sequence[QueryState]) -> Run:
    """Without the item that each query searches with: it would always be the best answer to itself."""
    excluded = np.zeros(len(run.indices), np.bool_)
    for position, each in enumerate(group):
        if each.query.like is not None:
            listed = slice(int(run.offsets[position]), int(run.offsets[position + 1]))
            excluded[listed] = run.indices[listed] == int(pc.index(run.documents, each.query.like).as_py())
    return part_of(run, ~excluded, np.ones(len(run), np.bool_)) if excluded.any() else run


# A second stage: the best few hits, put in order by a model that looks at picture and text at once.


class Reranker:
    """Orders hits by a matching head, one query at a time, and remembers the last ones, for their next pages."""

    # The hits of one query go through the model together and without those of any other, so that scores do not depend
    # on what else is searched. Scores are remembered for a generation of the library, and only where every picture
    # could be opened: one that is away may come back. Thread-safe.

    def __init__(self) -> None:
        self._cache: LRUCache[Hashable, Mapping[str, float]] = LRUCache(CACHED_QUERIES)
        self._cache_lock, self._model_lock = threading.Lock(), threading.Lock()

    def reranked(
        self, cross_encoder: CrossEncoder, library: LibrarySnapshot, text: str, hits: Sequence[RankedItem], count: int
    ) -> list[RankedItem]:
        """The first `count` hits by falling matching score, ties by id; the rest behind them, in their old order."""
        # A picture that cannot be opened any more has no matching score; it comes behind those that have one. Scores of
        # the rest are shifted to begin a unit below the last of these: what counts is that they fall (as with tail
        # "kept" in `visir.retrieval.rerank`).
        scores = self._scores(cross_encoder, library, text, tuple(sorted(hit.id for hit in hits[:count])))
        first = sorted((hit for hit in hits if hit.id in scores), key=lambda hit: (-scores[hit.id], hit.id))
        if not first:
            return list(hits)
        reranked = [
            replace(hit, rank=rank, score=scores[hit.id],
                    parts={**hit.parts, "matching": (rank, scores[hit.id])})
            for rank, hit in enumerate(first, 1)
        ]  # fmt: skip
        rest = [hit for hit in hits if hit.id not in scores]
        shift = scores[first[-1].id] - 1 - rest[0].score if rest else 0.0
        return reranked + [
            replace(hit, rank=rank, score=hit.score + shift) for rank, hit in enumerate(rest, len(reranked) + 1)
        ]

    def _scores(
        self, cross_encoder: CrossEncoder, library: LibrarySnapshot, text: str, items: tuple[str, ...]
    ) -> Mapping[str, float]:
        key = (library.folder, library.generation, text, items)
        with self._cache_lock:
            scores = self._cache.get(key)
        if scores is None:
            scores = self._computed(cross_encoder, library, text, items)
            if len(scores) == len(items):
                with self._cache_lock:
                    self._cache[key] = scores
        return scores

    def _computed(
        self, cross_encoder: CrossEncoder, library: LibrarySnapshot, text: str, items: tuple[str, ...]
    ) -> Mapping[str, float]:
        from visir.collections.images import opened

        pixels: dict[str, Pixels] = {}
        for item in items:  # pixels of the model's size wait for the others, not the whole photo
            try:
                with opened(library.open_image(item)[0], item) as picture:
                    pixels[item] = cross_encoder.preprocess(picture)
            except (LibraryError, ImageError):
                continue
        if not pixels:
            return {}
        with self._model_lock:
            scores = cross_encoder.score_pixels(list(pixels.values()), [text] * len(pixels))
        return dict(zip(pixels, map(float, scores), strict=True))
