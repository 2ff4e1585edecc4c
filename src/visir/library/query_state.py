"""The state of queries that are answered together: what each becomes on its way from question to ranked hits."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache, cachedmethod
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.library.categories import Category, tree_of
from visir.library.database import CATEGORIES
from visir.library.facets import satisfying
from visir.library.price_words import ReadWords, read_prices
from visir.library.query import AnsweredBy, Query, QueryError, System, WordsState
from visir.library.query_encoding import EncodedQuery, QueryEncoder
from visir.library.results import RankedItem
from visir.library.snapshot import LibrarySnapshot
from visir.records import Run
from visir.retrieval.filtered import FilteredIndex
from visir.retrieval.fusion import Fusion
from visir.retrieval.text.plan import Plan

CACHED_FILTERS = 16
WORDS = "words"
"""The name of the search by words beside the systems of vectors."""
WEIGHT_BESIDE_WORDS = 0.3
"""Of the vectors in a weighted sum with words: as good as words alone where these find something, and vectors order
what words leave equal (docs/background/text-search.md)."""


class LibraryState:
    """An opened library, its models, and what was computed for it; replaced as a whole when the library changes."""

    # As a whole, because a library of other models may have come into its place.

    def __init__(self, library: LibrarySnapshot, encoder: QueryEncoder) -> None:
        self.library, self.encoder = library, encoder
        self.systems: tuple[str, ...] = tuple(library.indexes)
        self.words = library.words
        self._filters: LRUCache[Hashable, AllowedItems] = LRUCache(CACHED_FILTERS)
        self._cache: LRUCache[Hashable, Any] = LRUCache(8)
        self._lock = Lock()

    @cachedmethod(attrgetter("_cache"), key=lambda _, system: ("rows", system), lock=attrgetter("_lock"))
    def rows(self, system: str) -> NDArray[np.int64]:
        """(items,) the row of each item of the library in a system's index; −1 for those that it does not have yet."""
        ids = self.words.index.ids if system == WORDS and self.words else self.library.indexes[system].ids
        positions = pc.index_in(self.library.columns.ids, ids)
        return positions.fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    @cachedmethod(attrgetter("_cache"), key=lambda _: "categories", lock=attrgetter("_lock"))
    def categories(self) -> tuple[Category, ...]:
        """The tree of categories."""
        rows = self.library.database.rows(CATEGORIES)
        return tree_of((str(category), str(item)) for item, category in rows)

    @property
    def words_state(self) -> WordsState:
        """Whether the library can be searched by words."""
        if self.words is not None:
            return "there"
        return "missing" if self.library.card.unit == "products" else "none"

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
        if not query.where and not query.category:
            return None
        return self._allowed_items(query)

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
        self._library = library
        self.mask = satisfying(library.columns, query.where, library.fields, category=query.category)
        self._indexes: LRUCache[Hashable, FilteredIndex] = LRUCache(2)
        self._lock = Lock()

    def __len__(self) -> int:
        return int(self.mask.sum())

    def __contains__(self, item: str) -> bool:
        row = int(self._library.columns.rows_of([item])[0])
        return row >= 0 and bool(self.mask[row])

    @cachedmethod(attrgetter("_indexes"), key=lambda _, system: system, lock=attrgetter("_lock"))
    def index(self, system: str) -> FilteredIndex:
        """The allowed documents of a system's index."""
        ids, rows = self._library.columns.ids, self._state.rows(system)
        return FilteredIndex(self._library.indexes[system], ids.filter(pa.array(self.mask)), rows[self.mask])

    @cached_property
    def words(self) -> NDArray[np.bool_]:
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
    def total(self) -> int:
        """How many items the answer has on all its pages: all that it may find, where nothing leaves any out."""
        ranks_all = not self.rankings or "dense" in self.rankings or self.lists_all
        return self.candidates if ranks_all else self.matched or 0

    def label(self, library: LibrarySnapshot) -> str:
        """What people call the way it is answered."""
        if self.by == "filters":
            return library.listed[1]
        if self.system == "hybrid":
            return "hybrid"
        return " and ".join(library.label(name) for name in self.rankings)

    @property
    def weights(self) -> dict[str, float] | None:
        """The weight of each ranking in the fusion; None for all alike."""
        if self.fusion == "rrf":
            return None
        first, usual = (self.system, WEIGHT_BESIDE_WORDS) if self.by == "both" else ("dense", 0.5)
        weight = usual if self.query.weight is None else self.query.weight
        return {name: weight if name == first else 1 - weight for name in self.rankings}

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Keep an error of this query to this query."""
        try:
            yield
        except VisirError as error:
            # As a value: the frames of its traceback would keep a library open that has been replaced since.
            self.error = error.with_traceback(None)

    def prepare(self, state: LibraryState) -> None:
        """Check the query, and find out which items it may find."""
        # A model is loaded for this only where the query re-ranks.
        reranks = self.request.rerank if isinstance(self.request, Query) else self.request.get("rerank", 0)
        has_cross_encoder = bool(reranks) and state.encoder.models.has_cross_encoder
        checked = Query.checked(
            self.request, state.systems, has_cross_encoder=has_cross_encoder, words=state.words_state
        )
        query, self.read = state.resolved(checked)
        takes_texts = state.library.card.texts is not False
        self.by = query.by_for(state.systems, has_words=state.words is not None, takes_texts=takes_texts)
        self.system = query.system_for(state.systems)
        self.text = query.search_text
        if self.by in ("words", "both"):
            self.lists_all = bool(self.read) and query.text == checked.text
            query = self._planned(state, query)
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

    def _planned(self, state: LibraryState, query: Query) -> Query:
        """Look up the words; the query as vectors take it, with the spelling corrected."""
        if state.words is None:
            raise QueryError(
                "this library has no words.", hint="visir library update LIBRARY adds them", code="library-no-words"
            )
        text = query.search_text or ""
        self.plan = state.words.plan("" if self.lists_all else text)
        is_corrected = self.plan.corrected != text and not self.lists_all
        return query.model_copy(update={"text": self.plan.corrected}) if is_corrected else query

    @property
    def list_length(self) -> int:
        """How many of the best are listed: a page's, those before it, and one more, which says if there is a next."""
        return max(self.query.offset + self.query.k, self.query.rerank) + 1

    @property
    def search_depth(self) -> int:
        """How deep the list of one system goes, with the item that the query is to be like."""
        # It depends on this query alone. Lists that are joined go as deep as the steps of `visir.library.ranking`.
        return self.list_length + (self.query.like is not None)


def is_exact(library: LibrarySnapshot, system: str) -> bool:
    """Whether the index of a system gives exactly the best."""
    return bool(getattr(library.indexes[system], "exact", False))


class StageTimer:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that passes inside to `stage`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - started
