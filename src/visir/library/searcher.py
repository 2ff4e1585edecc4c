"""`Searcher`: a library that can be asked, with the models that it takes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.library import explain
from visir.library.categories import Category, tree_of
from visir.library.filters import Field
from visir.library.library import Library
from visir.library.models import LibraryModels
from visir.library.prepared_image import PreparedImage
from visir.library.query import DEEPEST, Query, System
from visir.library.query_encoding import QueryEncoder
from visir.library.query_state import LibraryState, QueryState, StageTimer, rank
from visir.library.results import HitExplanation, ResultPage
from visir.progress import quiet

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.base import Encoder
    from visir.search.sparse.matched import Match


class Searcher:
    """A library and its models; safe to use from many threads.

        with Searcher.open("Photos.visir") as searcher:
            [answer] = searcher.search([Query(text="a dog on a beach")])

    The answer to a query does not depend on what else is asked at the same time, to the bit: texts have pinned vectors
    (`visir.library.deterministic_batches`), scores depend on two vectors alone, and how far a list goes depends on its
    own query.

    `loaded`: encoders that are in memory already, by the names that the library knows them by.
    """

    def __init__(
        self, library: Library, *, device: str | None = None, loaded: dict[str, Encoder] | None = None
    ) -> None:
        self._device, self._loaded = device, loaded
        self._state = LibraryState(library, self._encoding(library))
        self._reloading = threading.Lock()

    @classmethod
    def open(cls, folder: str | Path, *, device: str | None = None) -> Searcher:
        """The library in `folder`; its models are loaded with the first query that needs them."""
        return cls(Library.open(folder), device=device)

    @property
    def library(self) -> Library:
        """The library as it was last opened."""
        return self._state.library

    @property
    def encoding(self) -> QueryEncoder:
        """Its models."""
        return self._state.encoding

    @property
    def systems(self) -> tuple[str, ...]:
        """Of "dense", "sparse" and "hybrid" those that can be asked."""
        held = self._state.held
        return (*held, "hybrid") if len(held) == 2 else held

    @property
    def matching(self) -> bool:
        """Whether the model has a matching head to re-rank with (loads the model)."""
        return self.encoding.models.encoder.cross_encoder is not None

    @property
    def takes_texts(self) -> bool:
        """Whether it can be asked in words (loads the models)."""
        return self.encoding.takes_texts(self._state.held)

    def load(self) -> None:
        """Load the models, compile kernels and touch every index now, so that the first question need not wait."""
        with suppress(VisirError):  # vectors made elsewhere: whoever asks is told
            self.encoding.learn()
        query = Query(text="a photo", k=1)
        if not self.takes_texts:
            query = Query(item=self.library.database.value("SELECT id FROM items LIMIT 1"), k=1)
        answers = self.search_each([replace(query, system=one) for one in self.systems])  # type: ignore[arg-type]
        for answer in answers:
            if isinstance(answer, ResultPage) and answer.hits:
                with suppress(VisirError):
                    self.explain(query, answer.hits[0].item)
                break

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
                encoding = self.encoding if same else self._encoding(newest, fresh=True)
            except BaseException:
                newest.close()
                raise
            self._state = LibraryState(newest, encoding)
            return True

    def close(self) -> None:
        """Close the library."""
        self.library.close()

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def search(self, queries: Sequence[Query]) -> list[ResultPage]:
        """The answers, in the order of the queries, which belong together: the first fault is raised.

        Raises `QueryError` for a query that contradicts itself or that the library cannot answer, `FilterError` for
        conditions, `LibraryError` for an item that is not there.
        """
        answers = []
        for answer in self.search_each(queries):
            if isinstance(answer, VisirError):
                raise answer
            answers.append(answer)
        return answers

    def search_each(self, queries: Sequence[Query]) -> list[ResultPage | VisirError]:
        """The same for queries of different people: each gets its answer, or its own error."""
        with quiet():
            return self._searched(self._state, queries)

    def _searched(self, state: LibraryState, queries: Sequence[Query]) -> list[ResultPage | VisirError]:
        stages, asking = StageTimer(), [QueryState(query) for query in queries]
        with stages.timed("filter"):
            for one in asking:
                with one.faults():
                    cross_encoder = one.query.rerank > 0 and state.encoding.models.encoder.cross_encoder
                    one.begin(state, matching=bool(cross_encoder))
        rank(state, asking, state.encoding, stages)
        for one in asking:
            if one.fault is None and one.query.rerank:
                with one.faults(), stages.timed("rerank"):
                    self._rerank(state, one)
        # An item that is being added, or has just been deleted, stands in an index and not in the database.
        fine = [one for one in asking if one.fault is None]
        known = state.library.known({hit.item for one in fine for hit in one.ranked[: one.query.offset + one.query.k]})
        return [one.fault or _page(state, one, known, stages) for one in asking]

    def similar(self, item: str, k: int = 10, *, system: System | None = None, offset: int = 0) -> ResultPage:
        """Pictures like one of the library's own, which is left out."""
        return self.search([Query(item=item, k=k, offset=offset, system=system)])[0]

    def prepare(self, picture: Image) -> PreparedImage:
        """An upright RGB picture as the models take it: for a `Query` that has to wait, in a few hundred kilobytes."""
        return self.encoding.prepare(picture)

    def explain(self, query: Query, item: str, *, captions: int = 5, words: int = 20) -> HitExplanation:
        """Why `item` answers `query`, whether or not it stands on the page that was asked for.

        Raises what `search` raises, and `LibraryError` for an unknown item.
        """
        with quiet():
            state = self._state
            return explain.explanation(state, state.encoding, query, item, captions=captions, words=words)

    def terms(self, query: Query, items: Sequence[str]) -> dict[str, list[Match]]:
        """The words that a query and each picture have in common, heaviest first; empty without weighted words."""
        with quiet():
            state = self._state
            return explain.terms_of(state, state.encoding, query, items)

    def words(self, item: str, most: int = 20) -> list[tuple[str, float]]:
        """The heaviest words of a picture with their weights; empty where the library has no weighted words."""
        return explain.words_of(self.library, item, most)

    def captions(self, item: str, most: int = 5) -> list[tuple[str, float]]:
        """(text, score) of the captions nearest to a picture; empty where the source has none."""
        with quiet():
            return explain.captions_of(self.library, item, most)

    def categories(self) -> tuple[Category, ...]:
        """The tree of categories."""
        state = self._state

        def make() -> tuple[Category, ...]:
            rows = state.library.database.rows("SELECT category, item FROM files")
            return tree_of((str(category), str(item)) for category, item in rows)

        tree: tuple[Category, ...] = state.about.get("categories", make)
        return tree

    def fields(self) -> dict[str, Field]:
        """What conditions can be about."""
        return dict(self.library.fields)

    def _encoding(self, library: Library, *, fresh: bool = False) -> QueryEncoder:
        """The models of a library, not yet loaded; `fresh` ones at once, where there may be others of the same name."""
        card = library.card
        models = LibraryModels(card.model, card.head, device=self._device, cards=card.cards, loaded=self._loaded)
        if fresh:
            models.load_as_made()
        return QueryEncoder(models)

    def _rerank(self, state: LibraryState, one: QueryState) -> None:
        cross_encoder, text = state.encoding.models.encoder.cross_encoder, one.query.said
        assert cross_encoder is not None and text is not None, "the query was checked"
        one.ranked = state.encoding.reranker.reranked(cross_encoder, state.library, text, one.ranked, one.query.rerank)


def _page(state: LibraryState, one: QueryState, known: set[str], stages: StageTimer) -> ResultPage:
    query, end = one.query, one.query.offset + one.query.k
    hits = tuple(hit for hit in one.ranked[query.offset : end] if hit.item in known)
    more = len(one.ranked) > end and end < DEEPEST
    seconds = {stage: round(took, 6) for stage, took in stages.seconds.items()}
    return ResultPage(hits, max(one.total, 0), end if more else None, one.system, query.said, seconds,
                  state.library.generation)  # fmt: skip
