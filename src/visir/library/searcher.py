"""`Searcher`: a library that answers queries, with the models that it takes."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import visir.library.explain as explain
from visir.errors import VisirError
from visir.jit import compiling
from visir.library.facets import Category, CountedOf, Facets, facets_of, require_category
from visir.library.filters import Field
from visir.library.models import LibraryModels
from visir.library.pictures import PreparedImage
from visir.library.query import By, Query, System
from visir.library.query_encoding import QueryEncoder
from visir.library.results import HitExplanation, ResultPage
from visir.library.search import LibraryState, QueryState, Reranker, answers, matching, rank
from visir.library.snapshot import LibrarySnapshot
from visir.progress import quiet

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.base import Encoder
    from visir.sparse.top_terms import Match


class Searcher:
    """A library and its models; safe to use from many threads.

    Scores depend on two vectors alone, and how far a list goes depends on its own query. The vector of a text depends
    by rounding (1e-7) on the texts that it is encoded with. With `deterministic` it does not
    (`visir.library.query_encoding`): answers are then the same to the bit whatever else is searched.

    Args:
        library: The opened library.
        device: Of its models: "cpu", "cuda", "mps"; None for the best there is.
        deterministic: The same answers to the bit, alone and in any company; up to twice the work for each text.
        loaded: Encoders in memory, by the names that the library knows them by. Those that it loads are added.
        threads: Of one matrix product of a model; 0 leaves it to each library.

    Example:
        >>> from PIL import Image
        >>> from visir.library import update
        >>> Path("photos").mkdir()
        >>> for name, colour in {"red": (200, 20, 20), "blue": (20, 20, 200)}.items():
        ...     Image.new("RGB", (64, 48), colour).save(f"photos/{name}.png")
        >>> _ = update("photos", "photos.visir", model="pixels")
        >>> with Searcher.open("photos.visir") as searcher:
        ...     page = searcher.find(image=Image.new("RGB", (80, 60), (190, 10, 10)), where=["width < 100"], k=1)
        ...     searcher.library.item(page.hits[0].id).name
        'red.png'
    """

    def __init__(
        self,
        library: LibrarySnapshot,
        *,
        device: str | None = None,
        loaded: dict[str, Encoder] | None = None,
        deterministic: bool = False,
        threads: int = 0,
        once: bool = False,
    ) -> None:
        self._device, self._loaded, self._deterministic, self._threads = device, loaded, deterministic, threads
        self._once = once
        self._state = LibraryState(library, self._encoder(library), Reranker())
        self._reloading = threading.Lock()
        self._compiling: threading.Thread | None = None

    @classmethod
    def open(
        cls, folder: str | Path, *, device: str | None = None, deterministic: bool = False, once: bool = False
    ) -> Searcher:
        """The library in `folder`; its models are loaded with the first query that needs them."""
        return cls(LibrarySnapshot.open(folder), device=device, deterministic=deterministic, once=once)

    @property
    def library(self) -> LibrarySnapshot:
        """The library as it was last opened."""
        return self._state.library

    @property
    def encoder(self) -> QueryEncoder:
        """Its models."""
        return self._state.encoder

    @property
    def systems(self) -> tuple[str, ...]:
        """Those of "dense", "sparse" and "hybrid" that can answer."""
        systems = self._state.systems
        return (*systems, "hybrid") if len(systems) == 2 else systems

    @property
    def has_cross_encoder(self) -> bool:
        """Whether the model has a matching head to re-rank with (loads the model)."""
        return self.encoder.models.has_cross_encoder

    @property
    def takes_texts(self) -> bool:
        """Whether it can be searched with a text (loads the models)."""
        return self.ways != ("vectors",) or self.encoder.takes_texts(self._state.systems)

    @property
    def ways(self) -> tuple[By, ...]:
        """Those of "both", "words" and "vectors" that a text can be searched by; `Query.by` takes one."""
        state = self._state
        if not state.offers_words:
            return ("vectors",)
        if not state.systems:
            return ("words",)
        return ("both", "words", "vectors") if state.library.card.texts is not False else ("words",)

    def load(self) -> None:
        """Load the models and touch every index now, so that the first query need not wait.

        Compiled loops, which one query among few pictures does without, are loaded in the background.
        """
        with suppress(VisirError):  # vectors made elsewhere: the query that needs their model says so
            self.encoder.learn_batch_sizes()
        words = [Query(text="a photo", by="words", k=1)] if "words" in self.ways else []
        query = Query(text="a photo", k=1)
        if not self.encoder.takes_texts(self._state.systems):
            query = Query(like=self.library.database.value("SELECT id FROM items LIMIT 1"), k=1)
        vectors = [query.model_copy(update={"system": system}) for system in self.systems]
        queries = [*words, *vectors]
        pages = self.search_each(queries)
        for page in pages[len(words) :]:
            if isinstance(page, ResultPage) and page.hits:
                with suppress(VisirError):
                    self.explain(query, page.hits[0].id)
                break
        with suppress(VisirError):
            self.encoder.models.keep_texts()
        if self._compiling is None:

            def compile_loops() -> None:  # answers the queries again with compiled loops, which compiles them
                with compiling(), suppress(VisirError):  # another generation has come meanwhile, and this was closed
                    self.search_each(queries)

            self._compiling = threading.Thread(target=compile_loops, name="compiling", daemon=True)
            self._compiling.start()

    def reload(self) -> bool:
        """Go over to the library's newest generation; whether there was one. Searches under way end in the old one.

        A library of other models that has come into its place is taken with these: they are loaded here.
        """
        with self._reloading:
            before = self._state.library
            newest = before.reload()
            if newest is before:
                return False
            same = (newest.model, newest.head, newest.card.cards) == (before.model, before.head, before.card.cards)
            try:
                encoder = self.encoder if same else self._encoder(newest, fresh=True)
            except BaseException:
                newest.close()
                raise
            self._state = LibraryState(newest, encoder, self._state.reranker if same else Reranker())
            return True

    def close(self) -> None:
        """Close the library."""
        self.library.close()

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, query: Query | None = None, /, **fields: Any) -> ResultPage:
        """Answer one query.

        Args:
            query: The query; or leave it out and give its fields by name.
            fields: Those of `visir.library.query.Query`: `text`, `image`, `like`, `where`, `k`, …

        Raises:
            QueryError: The query contradicts itself, or this library cannot answer it; every fault is listed.
            FilterError: A condition does not fit the fields of the library.
            UnknownItemError: `like` is none of the library's.
            UnknownCategoryError: The library has no such category.
        """
        [page] = self.search([fields if query is None else query])
        category = fields.get("category") if query is None else query.category
        if category and not page.hits:  # nothing at all lies there: a folder that is empty is not in the tree either
            require_category(self.categories(), category.rstrip("/"))
        return page

    def search(self, queries: Sequence[Query | Mapping[str, Any]]) -> list[ResultPage]:
        """Answer queries that belong together.

        Args:
            queries: Queries, or their fields.

        Returns:
            The answers, in the order of the queries.

        Raises:
            VisirError: The error of the first query that cannot be answered; see `find`.
        """
        pages = []
        for page in self.search_each(queries):
            if isinstance(page, VisirError):
                raise page
            pages.append(page)
        return pages

    def search_each(self, queries: Sequence[Query | Mapping[str, Any]]) -> list[ResultPage | VisirError]:
        """Answer queries of different people: each gets its answer, or its own error."""
        with quiet():
            return answers(self._state, queries)

    def similar(self, item: str, k: int = 10, *, system: System | None = None, offset: int = 0) -> ResultPage:
        """Pictures like one of the library's own, which is left out."""
        return self.find(like=item, k=k, offset=offset, system=system)

    def facets(self, query: Mapping[str, Any], fields: Sequence[str] | None = None) -> Facets:
        """Count how many of the items that a query finds have each brand, lie in each category, cost how much.

        Words count what shares one with the query, also where vectors rank the rest; where they find nothing, or have
        no part in the answer, everything that is ranked is counted.

        Args:
            query: Its fields, as of `find`; without anything to search for, everything under its conditions is counted.
            fields: Those that are counted; None takes the category, price, brand, and others that group the items.

        Raises what `find` raises.
        """
        state, category = self._state, query.get("category")
        if not any(query.get(name) is not None for name in ("image", "like")) and not (query.get("text") or "").strip():
            where = Query(where=query.get("where") or (), category="-").where  # checked alike; all need not be a query
            return facets_of(state.library, where, category=category, fields=fields)
        query_state = QueryState({**query, "k": 1})
        with quiet():
            query_state.prepare(state)
            rank(state, [query_state], defaultdict(float))
            if query_state.error is not None:
                raise query_state.error
            within = matching(state, query_state)
        of: CountedOf = "found"
        if within is None or (query_state.by == "both" and not within.any()):
            of, within = "all" if query_state.lists_all and query_state.by == "words" else "ranked", None
            if query_state.query.like is not None:
                within = np.ones(len(state.library.columns.ids), np.bool_)
                within[state.library.columns.rows_of([query_state.query.like])] = False
        return facets_of(state.library, query_state.query.where, category=category, fields=fields, within=within, of=of)

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess an upright RGB picture: for a `Query` that has to wait, in a few hundred kilobytes."""
        return self.encoder.prepare(image)

    def explain(self, query: Query, item: str, *, captions: int = 5, words: int = 20) -> HitExplanation:
        """Why `item` answers `query`, on its page or not.

        Raises what `find` raises, and `UnknownItemError` for an unknown item.
        """
        with quiet():
            return explain.explain_hit(self._state, query, item, captions=captions, words=words)

    def terms(self, query: Query, items: Sequence[str]) -> dict[str, list[Match]]:
        """The words that a query and each picture have in common, heaviest first; empty without weighted words."""
        with quiet():
            return explain.matched_terms(self._state, query, items)

    def words(self, item: str, count: int = 20) -> list[tuple[str, float]]:
        """The heaviest words of a picture with their weights; empty where the library has no weighted words."""
        return explain.heaviest_words(self.library, item, count)

    def captions(self, item: str, count: int = 5) -> list[tuple[str, float]]:
        """(text, score) of the captions nearest to a picture; empty where the source has none."""
        with quiet():
            return explain.nearest_captions(self.library, item, count)

    def categories(self) -> tuple[Category, ...]:
        """The tree of categories."""
        return self._state.categories()

    def fields(self) -> dict[str, Field]:
        """The fields that conditions can name."""
        return dict(self.library.fields)

    def _encoder(self, library: LibrarySnapshot, *, fresh: bool = False) -> QueryEncoder:
        """The models of a library, not yet loaded; `fresh` ones at once, where there may be others of the same name."""
        card = library.card
        models = LibraryModels(
            card.model,
            card.head,
            device=self._device,
            cards=card.cards,
            loaded=self._loaded,
            folder=library.folder,
            keeps_texts=not self._deterministic,
            threads=self._threads,
            once=self._once,
        )
        if fresh:
            models.load_as_made()
        return QueryEncoder(models, deterministic=self._deterministic)
