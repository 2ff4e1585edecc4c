"""The `Index` of one form of vectors in an engine, embedded or behind an address: everything but the vectors' form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError, RunError
from visir.records import EncoderCard, Gallery, Run, VectorForm, strings
from visir.retrieval.answers import Hits, run_of
from visir.retrieval.index import Index, IndexInfo
from visir.retrieval.remote.engine import Nearest, Point, RemoteEngine, Space, Vector
from visir.retrieval.remote.storage import Keep, RemoteState, RemoteStorage
from visir.retrieval.rows import Form, Vectors, check_fits_index, not_indexed, places_of
from visir.retrieval.settings import searching, settings_of
from visir.retrieval.vectors import in_order

VALUES = 250_000
"""Numbers sent in one request: some megabytes as JSON; a server refuses more than 32."""
_ANSWERED = 1_000_000
"""Numbers that come back in one request, about."""
_QUERIES = 64
"""Queries sent in one request, at most."""
FILTERED = 50_000
"""Allowed documents sent to a server with a search, at most; with more, the search goes for more answers instead."""
SCANNED = 2_000
"""Up to this many allowed documents are all compared by the engine."""


class RemoteIndex(Index[Vectors]):
    """Documents as points of an engine's collection, each under a UUID made from its id."""

    # The engine finds; visir scores, so that a pair gets the same score as everywhere else. Where the engine finds
    # fewer documents than there are, it is asked again, exactly; where the last ones of its answer are equal, it is
    # asked for more, so that ties are the same here as everywhere.
    # Without the setting `url` the engine is embedded and its files lie in the index's folder, beside a copy of the
    # vectors that visir scores from: bringing them out of the engine takes longer than the search. With it, they lie on
    # a server or cluster and come back with what was found, and the folder keeps which change counts and what a vector
    # of the index is like. Nothing else differs: building, searching, adding, deleting and loading are the same calls.
    # `save` copies an embedded index; of one on a server it makes a second collection.

    form: ClassVar[Form[Any]]
    settings_type: ClassVar[type[Any]]
    space: ClassVar[VectorForm]
    exact = False

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self._like: Vectors = storage.state.own[self.space].select([])
        """No vectors, of the space and encoder of those in the index."""

    @property
    def encoder(self) -> EncoderCard:
        return self._like.encoder

    @property
    def folder(self) -> Path:
        """Where the index lies (a temporary folder for one that is to be forgotten)."""
        return self._storage.folder

    @property
    def settings(self) -> Any:
        return self._storage.settings

    @classmethod
    def build(cls, documents: Vectors, folder: Path | None = None, **options: Any) -> Self:
        settings = settings_of(cls.kind, cls.settings_type, options)
        if len(documents) == 0:
            raise EmbeddingError(
                "there is no vector to index.", hint="is the split, or the filter, right?", code="no-vector-index"
            )
        cls._check(documents, settings)
        return cls._built(documents, folder, settings, settings)

    @classmethod
    def _built(cls, documents: Vectors, folder: Path | None, settings: Any, sending: Any) -> Self:
        """A new index; its vectors are sent as an index of the settings `sending` sends them."""
        facts = {"kind": cls.kind, "modality": documents.modality, "encoder": documents.encoder.to_dict()}
        storage = RemoteStorage.create(
            None if folder is None else Path(folder),
            facts,
            settings,
            [Space(cls.space, documents.dimension, cls.space)],
            lambda: {cls.space: documents.select([]) if settings.url else cls._sent(documents, settings)},
            documents.ids,
            lambda: cls._batches(documents, sending),
        )
        return cls(storage)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(RemoteStorage.load(Path(folder), cls.settings_type, cls.space))

    def save(self, folder: Path) -> None:
        # Of an index on a server, the copy has a collection of its own.
        if self.settings.url:
            settings = replace(self.settings, collection="")
            self._built(self.documents(), Path(folder), settings, self._as_held(settings))
        else:
            self._storage.save(Path(folder))

    def add(self, documents: Vectors) -> None:
        check_fits_index(self.form, documents, self._like, added=True)
        self._check(documents, self.settings)
        self._storage.add(documents.ids, lambda: self._batches(documents, self.settings), self._kept_vectors(documents))

    def delete(self, ids: object) -> None:
        self._storage.delete(ids, self._kept_vectors(None))

    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        return self._searched(queries, k, options, None)

    @property
    def filters_up_to(self) -> int:
        """How many allowed documents are sent to the engine (`visir.retrieval.filtered`); none to an embedded one, of
        whose vectors there is a copy here."""
        return FILTERED if self.settings.url else 0

    def search_among(self, queries: Vectors, allowed: pa.StringArray, k: int = 10, **options: Any) -> Run:
        """Return the best `k` documents among `allowed` for each query; ids that are not in the index are passed
        over."""
        # The engine itself looks at these documents alone; at every one of them where they are few.
        return self._searched(queries, k, options, allowed)

    def _searched(self, queries: Vectors, k: int, options: dict[str, Any], allowed: pa.StringArray | None) -> Run:
        state = self._storage.state
        ordered = in_order(self.form, queries, self._like, len(state.documents), k)
        settings = searching(self.kind, self.settings, options)
        about = {"search": self.kind, **asdict(settings)}
        if allowed is not None:
            about["filtered"] = len(allowed)
        wanted = min(k, len(state.documents if allowed is None else allowed))
        documents, hits = self._find(state, ordered, wanted, settings, allowed)
        if allowed is None:
            gallery = state.documents.gallery
        else:
            gallery = Gallery.of(self._like.modality, allowed, "documents that pass the filter")
        return run_of(hits, ordered, gallery, k, self._like.encoder, about, documents)

    def info(self) -> IndexInfo:
        # Of an index on a server, `bytes` are those of the folder.
        state = self._storage.state
        return IndexInfo(
            kind=self.kind,
            exact=self.exact,
            modality=self._like.modality,
            documents=state.engine.counted() if isinstance(state.engine, RemoteEngine) else len(state.documents),
            deleted=0,
            dimension=self._like.dimension,
            bytes=state.bytes,
            encoder=self._like.encoder.name,
            details={"engine": self.settings.url or "embedded", **asdict(self.settings), **state.engine.about()},
        )

    @property
    def ids(self) -> pa.StringArray:
        return self._storage.state.documents.ids

    def documents(self) -> Vectors:
        return self.select(self.ids)

    def select(self, ids: object) -> Vectors:
        state = self._storage.state
        wanted = strings(ids)
        if not self.settings.url:
            places_of(wanted, self.ids)
            held: Vectors = state.own[self.space].select(wanted)
            return held
        there: dict[str, Vector | None] = {}
        step = max(1, VALUES // max(self._width(), 1))
        for start in range(0, len(wanted), step):
            there.update(state.engine.get(wanted[start : start + step].to_pylist(), self.space))
        if isinstance(state.engine, RemoteEngine):
            state.engine.check_own(any_found=bool(there) or len(wanted) == 0)
        lost = [id for id in wanted.to_pylist() if id not in there]
        if lost:
            raise not_indexed(pa.array(lost, pa.string()))
        return self._made(wanted, [there[id] for id in wanted.to_pylist()])

    @classmethod
    def _check(cls, documents: Vectors, settings: Any) -> None:
        """Raise `EmbeddingError` for vectors that this index cannot hold, beside those that no embeddings have."""

    @classmethod
    def _as_held(cls, settings: Any) -> Any:
        """Settings by which vectors that came back from the engine are sent unchanged."""
        return settings

    @classmethod
    @abstractmethod
    def _outgoing(cls, documents: Vectors, start: int, stop: int, settings: Any) -> list[Vector]:
        """The vectors of some rows as the engine gets them."""

    @abstractmethod
    def _made(self, ids: pa.StringArray, raw: list[Vector | None]) -> Vectors:
        """What came back from the engine as vectors of the index."""

    @classmethod
    def _sent(cls, documents: Vectors, settings: Any) -> Vectors:
        """The vectors as the engine gets them, in order of their ids."""
        return documents.take(pc.sort_indices(documents.ids).to_numpy().astype(np.int64))

    @abstractmethod
    def _arrays(self, given: Vectors | list[Vector]) -> Any:
        """Vectors that are kept here, or that came back from the engine, as `_scored` takes them."""

    @abstractmethod
    def _scored(
        self, queries: Vectors, query: NDArray[np.int64], held: Any, rows: NDArray[np.int64], settings: Any
    ) -> NDArray[np.float32]:
        """(p,) the score of each pair of a query (its row) and a row of `held`, of `_arrays`."""

    def _kept_vectors(self, added: Vectors | None) -> Keep | None:
        """The copy of the vectors after documents were added or deleted; None on a server."""
        if self.settings.url:
            return None

        def kept(ids: pa.StringArray) -> Vectors:
            own: Vectors = self._storage.state.own[self.space]
            if added is not None:
                some = [own, self._sent(added, self.settings)]
                own = self.form.join(some, pa.concat_arrays([part.ids for part in some]))
            return own.select(ids)

        return kept

    def _width(self) -> int:
        """Numbers in a vector, about."""
        return self._like.dimension

    @classmethod
    def _batches(cls, documents: Vectors, settings: Any) -> Iterator[list[Point]]:
        step = max(1, min(4096, VALUES * len(documents) // max(cls._size(documents), 1)))
        ids = documents.ids.to_pylist()
        for start in range(0, len(ids), step):
            stop = min(start + step, len(ids))
            vectors = cls._outgoing(documents, start, stop, settings)
            yield [Point(id, {cls.space: vector}) for id, vector in zip(ids[start:stop], vectors, strict=True)]

    @classmethod
    @abstractmethod
    def _size(cls, documents: Vectors) -> int:
        """How many numbers these vectors are."""

    def _find(
        self, state: RemoteState, queries: Vectors, wanted: int, settings: Any, allowed: pa.StringArray | None
    ) -> tuple[pa.StringArray, Hits]:
        """Ids, sorted, and the hits of each query by their place among them."""
        family = self.settings.family
        if 0 < family.most_answers <= wanted:  # one more than wanted is asked for
            raise RunError(
                f"k={wanted:,}: {family.title} gives up to {family.most_answers - 1:,} answers to a query.",
                hint="ask for fewer; indexes of kind 'exact' and 'inverted' give all",
                code="gives-up-answers-query",
            )
        outgoing = self._outgoing(queries, 0, len(queries), settings)
        among = None if allowed is None else allowed.to_pylist()
        whole = self._compares_all(settings) or (allowed is not None and len(allowed) <= SCANNED)
        results = state.documents.begin_search()
        engine, own = state.engine, None if self.settings.url else self._arrays(state.own[self.space])
        step = max(1, min(_QUERIES, _ANSWERED // ((wanted + 1) * max(self._width(), 1))))
        hits = []
        for first in range(0, len(queries), step):
            # One more than wanted, to see whether the last ones are equal.
            rows = range(first, min(first + step, len(queries)))
            # A query of no terms finds nothing.
            some = (at for at in rows if not isinstance(outgoing[at], tuple) or len(outgoing[at][0]))
            waiting = [(at, wanted + 1, whole) for at in some]
            while waiting:
                sent = [self._nearest(outgoing[at], limit, exact, settings) for at, limit, exact in waiting]
                answers = engine.ask(sent, vectors=own is None, allowed=among)
                again, query, places = [], [], []
                raw: list[Vector] = []
                for (at, limit, exact), answer in zip(waiting, answers, strict=True):
                    place = results.places([hit.id for hit in answer])
                    scores = [hit.score for hit, known in zip(answer, place >= 0, strict=True) if known]
                    if len(answer) >= limit and not _settled(scores, answer[-1].score, wanted):
                        again.append((at, 4 * limit, exact))
                    elif len(scores) < wanted and self._falls_short and not exact:
                        again.append((at, limit, True))
                    else:
                        query += [at] * len(scores)
                        places.append(place[place >= 0])
                        vectors = (hit.vector for hit, known in zip(answer, place >= 0, strict=True) if known)
                        raw += [vector for vector in vectors if vector is not None]
                if query:
                    of_query, of_document = np.array(query, np.int64), np.concatenate(places)
                    pairs = (self._arrays(raw), np.arange(len(raw))) if own is None else (own, of_document)
                    scored = self._scored(queries, of_query, *pairs, settings)
                    hits.append(Hits(of_query, of_document, scored))
                waiting = again
        return results.finish(Hits.joined(hits))

    _falls_short: ClassVar[bool] = False
    """Whether the engine may find fewer documents than asked for though there are more."""

    @classmethod
    def _compares_all(cls, settings: Any) -> bool:
        """Whether the engine looks at every document in every search: where it has no graph to walk."""
        return getattr(settings, "m", 1) == 0

    def _nearest(self, vector: Vector, limit: int, exact: bool, settings: Any) -> Nearest:
        ef = max(settings.ef_search, limit) if hasattr(settings, "ef_search") else None
        return Nearest(self.space, vector, limit, ef, exact)


def _settled(scores: list[float], last: float, wanted: int) -> bool:
    """Whether nothing beyond the last of an answer can be among the best: it is clearly worse than the `wanted`-th."""
    # The engine's scores are of single precision, so those that are nearly equal are all looked at.
    return len(scores) >= wanted and last < scores[wanted - 1] - 1e-5 * max(abs(scores[0]), abs(last))
