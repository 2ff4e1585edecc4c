"""Indexes in engines: a folder that says what counts, a collection on a server, and the search over both.

The engine finds; visir scores, so that a pair gets the same score as everywhere else. Where the engine finds fewer
documents than there are, it is asked again, exactly; where the last ones of its answer are equal, it is asked for more,
so that ties are the same here as everywhere. The vectors come back with what was found; the folder keeps which change
counts and what a vector of the index is like, and none of the documents.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import brief, counted
from visir.errors import ConfigurationError, EmbeddingError, RunError, nearest, raise_faults
from visir.plugins import load_target
from visir.progress import Progress
from visir.records import (
    Embeddings,
    EncoderCard,
    Gallery,
    MultiVectorEmbeddings,
    Run,
    SparseEmbeddings,
    TokenVectors,
    VectorForm,
    modality_of,
    strings,
)
from visir.retrieval.answers import Hits, depth_fault, run_of
from visir.retrieval.fusion import constant_faults, fuse, weight_faults
from visir.retrieval.index import (
    BUILD_AGAIN,
    INDEX,
    Index,
    IndexFolderError,
    IndexInfo,
    bytes_of,
    changing_index,
    check_files,
    new_index,
    read_index,
)
from visir.retrieval.multi_vector.scan import TokenSide, score_token_places
from visir.retrieval.remote.engine import (
    Engine,
    EngineError,
    EngineHit,
    Mark,
    Nearest,
    Point,
    Space,
    Vector,
    name_address,
)
from visir.retrieval.remote.settings import (
    DenseSettings,
    EngineFamily,
    MilvusSettings,
    MilvusSparseSettings,
    PgvectorSettings,
    PgvectorSparseSettings,
    Server,
    SeveralSettings,
    SparseSettings,
    family_of,
    name_collection,
)
from visir.retrieval.rows import (
    DENSE,
    MULTI,
    SPARSE,
    Form,
    Vectors,
    already_indexed,
    check_fits_index,
    in_order,
    not_indexed,
)
from visir.retrieval.scan import Side
from visir.retrieval.scan import score_pairs as score_dense
from visir.retrieval.settings import searching, settings_of
from visir.retrieval.sparse.scan_kernels import score_pairs
from visir.storage import FolderChange, scratch
from visir.storage.disk import below

VALUES = 250_000
"""Numbers sent in one request: some megabytes as JSON; a server refuses more than 32."""
_ANSWERED = 1_000_000
"""Numbers that come back in one request, about."""
_QUERIES = 64
"""Queries sent in one request, at most."""
_AT_ONCE = 1000
"""Points deleted in one request."""
FILTERED = 50_000
"""Allowed documents sent to a server with a search, at most; with more, the search goes for more answers instead."""
SCANNED = 2_000
"""Up to this many allowed documents are all compared by the engine."""
LISTED = 50_000
"""Up to this many documents of a server are listed in the gallery of a run; of more, the number.

Runs can be compared by their galleries where these are listed. Test sets are mostly smaller; the first search of an
index waits for the list.
"""


def engine_of(family: EngineFamily) -> type[Engine]:
    """The class that asks a server of this family; it imports the server's client."""
    engine: type[Engine] = load_target(family.engine or _ENGINES[family.name])
    return engine


_ENGINES = {
    "qdrant": "visir.retrieval.remote.qdrant:QdrantEngine",
    "pgvector": "visir.retrieval.remote.postgres:PostgresEngine",
    "milvus": "visir.retrieval.remote.milvus:MilvusEngine",
}
"""The engines of visir, above the settings that they read; another's family names its own."""


Rows: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]


class Shape:
    """How vectors of one form go to an engine, come back, and are scored; their space is called as the form is."""

    # `numbers`: how many numbers vectors are; `width`: how many one is, about; `outgoing`: some rows as the engine gets
    # them; `taken`: what came back, a `ValueError` where it is no vector of the index; `made`: that as vectors of the
    # index; `scores`: (p,) those of pairs of a query (its row, rows ascending) and a vector that came back.

    form: Form[Any]


class _Dense(Shape):
    # The engine compares inner products of float32 vectors. Under cosine they are divided by their lengths before they
    # are sent (by visir, in float64, as in every search here, rather than by the engine), so `documents` and `select`
    # give vectors of length 1; under "dot" they come back as they were.

    form = DENSE

    def numbers(self, documents: Embeddings) -> int:
        return len(documents) * documents.dimension

    def width(self, like: Embeddings) -> int:
        return like.dimension

    def outgoing(self, documents: Embeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        return list(Side(documents, np.arange(start, stop), settings.similarity).block(0, stop - start))

    def taken(self, like: Embeddings, raw: list[Any]) -> NDArray[np.float32]:
        vectors = np.array(raw, np.float32) if raw else np.empty((0, like.dimension), np.float32)
        _check_taken(vectors.shape == (len(raw), like.dimension), f"of another shape than {like.dimension} values")
        return _finite(vectors)

    def made(self, like: Embeddings, ids: pa.StringArray, held: Any, settings: Any) -> Embeddings:
        return replace(like, ids=ids, vectors=held, normalised=settings.similarity == "cosine")

    def scores(self, queries: Embeddings, query: Rows, held: Any, like: Embeddings, settings: Any) -> Scores:
        first, scores = int(query[0]), np.empty(len(query), np.float32)
        side = Side(queries, np.arange(first, int(query[-1]) + 1), settings.similarity)
        score_dense(side.block(0, len(side)), query - first, held, np.arange(len(held)), scores)
        return scores


class _Sparse(Shape):
    # The engine adds up in single precision: documents whose scores differ in the last bits only may be taken for one
    # another. What it finds is scored as in every sparse search here.

    form = SPARSE

    def numbers(self, documents: SparseEmbeddings) -> int:
        return 2 * len(documents.terms)

    def width(self, like: SparseEmbeddings) -> int:
        return 500

    def outgoing(self, documents: SparseEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        rows = (documents.row(at) for at in range(start, stop))
        return [(np.asarray(terms, np.int32), np.asarray(values, np.float32)) for terms, values in rows]

    def taken(self, like: SparseEmbeddings, raw: list[Any]) -> Any:
        offsets, terms, values = _rows(raw)
        _check_taken(len(terms) == len(values), "of another number of terms than of weights")
        known = (terms >= 0) & (terms < like.dimension)
        _check_taken(bool(known.all()), "of terms that its vocabulary does not have")
        return offsets, terms, _finite(values)

    def made(self, like: SparseEmbeddings, ids: pa.StringArray, held: Any, settings: Any) -> SparseEmbeddings:
        offsets, terms, values = held
        return replace(like, ids=ids, offsets=offsets, terms=terms, values=values)

    def scores(self, queries: SparseEmbeddings, query: Rows, held: Any, like: Any, settings: Any) -> Scores:
        scores = np.empty(len(query), np.float32)
        rows = np.asarray(queries.offsets), np.asarray(queries.terms), np.asarray(queries.values)
        score_pairs(rows, query, held, np.arange(len(query)), scores)
        return scores


class _Several(Shape):
    # The engine compares by MaxSim of float32 vectors.

    form = MULTI

    def numbers(self, documents: MultiVectorEmbeddings) -> int:
        return len(documents.vectors) * documents.dimension

    def width(self, like: MultiVectorEmbeddings) -> int:
        return 50 * like.dimension

    def outgoing(self, documents: MultiVectorEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        return [np.asarray(documents.row(at), np.float32) for at in range(start, stop)]

    def taken(self, like: MultiVectorEmbeddings, raw: list[Any]) -> Any:
        several = [np.array(rows, np.float32) for rows in raw]
        fit = all(rows.ndim == 2 and len(rows) and rows.shape[1] == like.dimension for rows in several)
        _check_taken(fit, f"of another shape than rows of {like.dimension} values")
        return TokenVectors.of([_finite(rows) for rows in several]) if several else like

    def made(self, like: Any, ids: pa.StringArray, held: Any, settings: Any) -> MultiVectorEmbeddings:
        made: MultiVectorEmbeddings = replace(like, ids=ids, offsets=held.offsets, vectors=held.vectors)
        return made

    def scores(self, queries: MultiVectorEmbeddings, query: Rows, held: Any, like: Any, settings: Any) -> Scores:
        first, rows = int(query[0]), np.arange(len(query))
        documents = self.made(like, pa.array(map(str, range(len(query))), pa.string()), held, settings)
        side = TokenSide(queries, np.arange(first, int(query[-1]) + 1))
        return score_token_places(side, query - first, TokenSide(documents, rows), rows)


def _check_taken(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)


def _finite(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    _check_taken(bool(np.isfinite(numbers).all()), "with NaN or infinite values")
    return numbers


def taken(engine: Engine, shape: Any, like: Vectors, raw: list[Any]) -> Any:
    """The vectors that an engine gave, as its index compares them."""
    try:
        return shape.taken(like, raw)
    except (ValueError, TypeError) as fault:
        raise engine.wrong(f"gives vectors that are none of this index's, {fault}") from fault


def _rows(raw: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """(offsets, terms, values) of vectors that came back, terms ascending whatever order they came in."""
    none = np.empty(0, np.int32), np.empty(0, np.float32)
    rows = [none, *(none if entry is None else entry for entry in raw)]
    offsets = np.concatenate([[0], np.cumsum([len(terms) for terms, _ in rows[1:]])]).astype(np.int64)
    terms, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    row = np.repeat(np.arange(len(raw)), np.diff(offsets))
    if (np.diff(row * 2**32 + terms) < 0).any():
        order = np.lexsort((terms, row))
        terms, values = terms[order], values[order]
    return offsets, terms, values


SHAPES: dict[VectorForm, Any] = {"dense": _Dense(), "sparse": _Sparse(), "multi-vector": _Several()}
Spaces = Mapping[VectorForm, Any]
"""Vectors of the same documents, in one order, by their form."""


def _points(vectors: Spaces, settings: Any) -> Iterator[list[Point]]:
    """Documents in batches of so many numbers as one request has."""
    ids = next(iter(vectors.values())).ids.to_pylist()
    numbers = sum(SHAPES[form].numbers(some) for form, some in vectors.items())
    step = max(1, min(4096, VALUES * len(ids) // max(numbers, 1)))
    for start in range(0, len(ids), step):
        stop = min(start + step, len(ids))
        of_each = [SHAPES[form].outgoing(some, start, stop, settings) for form, some in vectors.items()]
        rows = zip(ids[start:stop], *of_each, strict=True)
        yield [Point(id, dict(zip(vectors, row, strict=True))) for id, *row in rows]


# What a build on a server leaves when it is killed: a collection that nobody knows of, unless it was written down.

COLLECTION = "qdrant collection"
"""The name of the fact in the log, of every engine: {url, collection, index}, and the schema in PostgreSQL."""


def fact_of(settings: Server, index: str) -> dict[str, Any]:
    """What is written down of a collection that is about to be made."""
    where = {name: getattr(settings, name) for name in ("url", "collection", "schema") if hasattr(settings, name)}
    return {**where, "index": index}


def forget(fact: dict[str, Any], *, timeout: int = 60, retries: int = 3) -> bool:
    """Delete the collection that was written down; False when there is none, or one of another index under its name."""
    # Raises `EngineError` when the server cannot be reached.
    family = family_of(fact["url"])
    where = {name: value for name, value in fact.items() if name != "index"}
    place = load_target(family.place)(**where, timeout=timeout, retries=retries)
    server = engine_of(family)(fact["collection"], place)
    with contextlib.closing(server):
        mine: bool = server.exists() and server.read_mark().index == fact["index"]
        if mine:
            server.destroy()
    return mine


def _undo(fact: dict[str, Any]) -> bool:
    try:
        forget(fact, timeout=5, retries=0)
    except EngineError:  # the server is not there now; the note stays, and the next one tries again
        return False
    return True


scratch.undo[COLLECTION] = _undo


def upload(engine: Engine, batches: Iterator[list[Point]], total: int) -> None:
    """Put all documents in, `engine.uploads` batches at once, and settle."""
    # Batches are made while others are sent. At most `engine.uploads` of them are in memory besides the one being made:
    # documents are read no faster than the server takes them. After a fault no further batch is sent, and those under
    # way are waited for. One at a time is sent by this thread: a transaction is one connection's.
    with Progress("into the engine", total, "documents") as advance:
        if engine.uploads == 1:
            for batch in batches:
                engine.upsert(batch)
                advance(len(batch))
        else:
            waiting: deque[tuple[Future[None], int]] = deque()
            with ThreadPoolExecutor(engine.uploads, "upload") as pool:
                for sent in chain(batches, [None] * engine.uploads):  # in the end those that are under way
                    if waiting and (sent is None or len(waiting) == engine.uploads):
                        oldest, size = waiting.popleft()
                        oldest.result()
                        advance(size)
                    if sent is not None:
                        waiting.append((pool.submit(engine.upsert, sent), len(sent)))
    engine.settle()


def _destroyed(server: Engine) -> None:
    """After a build that failed: leave nothing on the server, if it still answers."""
    with contextlib.suppress(EngineError):
        server.destroy()


# The folder and the collection of an index: which documents count, and how both change as one.


class SearchPlaces:
    """The documents of one search, while it is made."""

    # It is checked in the end that they were the index's. Ids cannot tell: whoever makes a collection anew often puts
    # the same documents into it, with vectors of another model. The mark can, and it is read after the answers came.

    def __init__(self, state: RemoteState, allowed: pa.StringArray | None = None) -> None:
        self.engine, self._ids = state.engine, state.ids if state.size <= LISTED else None
        # Where not all ids are known here: those that came, in this order.
        self._places: dict[str, int] = {} if self._ids is None else state.place_of
        self._allowed = None if allowed is None else allowed.to_pylist()
        self._among = None if self._allowed is None else {*self._allowed}
        self._fewest: tuple[int, int] | None = None  # documents of an answer that is short, and those that were wanted

    def find(
        self, questions: Sequence[Nearest], wanted: int, *, vectors: bool, falls_short: Collection[str]
    ) -> list[tuple[int, NDArray[np.int64], list[EngineHit]]]:
        """For each search, in their order: its number, and places and hits of at least the `wanted` best documents of
        the index.

        Where the last ones of an answer are equal, or are another program's, the engine is asked for more; in spaces in
        which its searches may fall short, exactly.
        """
        answered, waiting = [], list(enumerate(questions))
        while waiting:
            again = []
            answers = self._asked([question for _, question in waiting], vectors)
            for (at, question), answer in zip(waiting, answers, strict=True):
                place = self._placed([hit.id for hit in answer])
                known = [hit for hit, is_known in zip(answer, place >= 0, strict=True) if is_known]
                if len(answer) >= question.limit and not _settled(known, answer[-1].score, wanted):
                    more = 4 * question.limit
                    again.append((at, replace(question, limit=more, ef=question.ef and max(question.ef, more))))
                elif len(known) < wanted and question.space in falls_short and not question.exact:
                    again.append((at, replace(question, exact=True)))
                else:
                    answered.append((at, place[place >= 0], known))
                    if len(known) < wanted and question.space != "sparse":
                        self._fewest = min(self._fewest or (len(known), wanted), (len(known), wanted))
            waiting = again
        return sorted(answered, key=lambda entry: entry[0])

    def finish(self, *hits: Hits) -> tuple[pa.StringArray, list[Hits]]:
        """Ids, sorted, and the hits by their place among them."""
        self.engine.check_own(any_found=any(len(some.places) for some in hits))
        self._check_none_missing()
        if self._ids is not None:
            return self._ids, list(hits)
        ids = sorted(self._places, key=str.encode)
        place = np.empty(len(ids), np.int64)
        place[[self._places[id] for id in ids]] = np.arange(len(ids))
        return pa.array(ids, pa.string()), [replace(some, places=place[some.places]) for some in hits]

    def _placed(self, ids: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) the place of each document that was found; -1 for one that is not the index's."""
        places = self._places
        if self._ids is not None:
            return np.array([places.get(id, -1) for id in ids], np.int64)  # type: ignore[arg-type]
        return np.array([-1 if id is None else places.setdefault(id, len(places)) for id in ids], np.int64)

    def _asked(self, questions: list[Nearest], vectors: bool) -> list[list[EngineHit]]:
        """What the engine answers, checked: it may be of another package."""
        engine = self.engine
        answers = engine.search(questions, vectors=vectors, allowed=self._allowed)
        if len(answers) != len(questions):
            raise engine.wrong(f"gives {len(answers):,} answers to {len(questions):,} searches")
        for answer in answers:
            ids = [hit.id for hit in answer if hit.id is not None]
            if not all(isinstance(id, str) for id in ids):
                raise engine.wrong(f"finds documents under ids that are no texts, such as {ids[0]!r}")
            if len({*ids}) < len(ids):
                raise engine.wrong("finds a document twice in one answer")
            if self._among is not None and not self._among.issuperset(ids):
                raise engine.wrong("finds documents that the filter of the search does not let through")
            try:
                scores = np.array([hit.score for hit in answer], np.float64)
            except (TypeError, ValueError) as fault:
                raise engine.wrong(f"gives scores that are no numbers ({fault})") from fault
            if not np.isfinite(scores).all():
                raise engine.wrong("gives scores that are NaN or infinite")
            if len(scores) and (np.diff(scores) > 1e-5 * np.abs(scores).max()).any():
                raise engine.wrong("does not give the best documents first")
            if vectors and any(hit.vector is None for hit in answer):
                raise engine.wrong("finds documents without the vectors that it was asked for")
        return answers

    def _check_none_missing(self) -> None:
        """An answer may have fewer documents than are wanted where there are no more."""
        if self._fewest is None:
            return
        fewest, wanted = self._fewest
        engine = self.engine
        held = engine.count(engine.seen) if self._allowed is None else len([*engine.ids(engine.seen, self._allowed)])
        if fewest < min(wanted, held):
            what = f"finds {fewest:,} documents of the {min(wanted, held):,} that it holds"
            if not getattr(engine.place, "m", 0):
                raise engine.wrong(what)
            # Among many equal vectors, a graph that cannot be left aside (Milvus) does not lead to all.
            warnings.warn(f"{engine.where()}: its graph {what}; an index without a graph (m=0) finds all", stacklevel=1)


@dataclass(frozen=True, eq=False)
class RemoteState:
    """Everything that changes, changed by replacing all of it."""

    engine: Engine
    size: int  # how many documents the server holds
    like: Spaces  # no vectors, of the space and encoder of those there
    generation: int  # of the folder
    bytes: int  # of the folder

    @property
    def about(self) -> Any:
        """The vectors whose encoder and modality are the index's."""
        return next(iter(self.like.values()))

    @cached_property
    def ids(self) -> pa.StringArray:
        """The ids, sorted: all are brought here, once."""
        ids = self.engine.listed()
        self.engine.check_own(any_found=len(ids) > 0 or self.size == 0)
        return ids

    @cached_property
    def place_of(self) -> dict[str, int]:
        """The place of each id among them."""
        return {id: place for place, id in enumerate(self.ids.to_pylist())}

    @cached_property
    def gallery(self) -> Gallery:
        """All documents: listed up to `LISTED`, else stated by their number."""
        modality = self.about.modality
        if self.size > LISTED:
            return Gallery.stated(modality, self.size, f"all indexed {modality}s")
        return Gallery.of(modality, self.ids, f"all indexed {modality}s")


class RemoteStorage:
    """A folder and its collection."""

    def __init__(self, folder: Path, content: Mapping[str, Any], settings: Any, state: RemoteState) -> None:
        self.folder, self.content, self.settings, self.state = folder, content, settings, state

    @classmethod
    def create(
        cls, folder: str | Path | None, kind: str, settings: Any, vectors: Spaces, sending: Any = None
    ) -> RemoteStorage:
        """A new one, in a new or empty folder; a copy sends its vectors as an index of the settings `sending` does."""
        first = next(iter(vectors.values()))
        if sending is None:
            _check(vectors, settings)
        if folder is None:
            raise ConfigurationError(
                "an index on a server needs a folder: it says what of the collection counts.",
                hint="name one (--out FOLDER); it holds none of the documents",
                code="says-collection-counts",
            )
        folder, index = Path(folder), uuid4().hex
        settings.family.check_ids(first.ids)
        if not settings.collection:
            settings = replace(settings, collection=name_collection(folder.name, index))
        content = {"kind": kind, "modality": first.modality, "encoder": first.encoder.to_dict()}
        if len(vectors) > 1:
            content["sparse encoder"] = vectors["sparse"].encoder.to_dict()
        content |= {"settings": asdict(settings), "space": "space-1", "index": index, "changes": 1}
        spaces = [Space(form, some.dimension, form) for form, some in vectors.items()]
        with contextlib.ExitStack() as undone, new_index(folder) as change:
            _write_like(change, content, {form: some.select([]) for form, some in vectors.items()})
            change.note(COLLECTION, fact_of(settings, index))
            server = engine_of(settings.family).create(settings.collection, spaces, settings, index)
            undone.callback(_destroyed, server)
            upload(server, _points(vectors, sending or settings), len(first))
            server.mark(Mark(index, 1, complete=True, documents=len(first)))
            if (held := server.count(1)) != len(first):
                raise server.wrong(f"holds {held:,} of the {len(first):,} documents that it was sent")
            server.close()
            change.commit(content)
            undone.pop_all()
        return cls.load(folder, type(settings), *vectors)

    @classmethod
    def load(cls, folder: Path, settings_type: type[Any], *forms: VectorForm) -> RemoteStorage:
        """What is in `folder`. `IndexFolderError` for a damaged one, `EngineError` where its server is not there."""
        while True:
            manifest = read_index(folder)
            content = manifest.content
            try:
                _check_on_server(folder, content)
                check_files(folder, manifest).settle(wholly=True)
                with INDEX.reading(folder):
                    known = {field.name for field in fields(settings_type)}  # some left, with the embedded engine
                    settings = settings_type(**{n: value for n, value in content["settings"].items() if n in known})
                    like = _read_like(below(folder, content["space"]), content, forms)
                    engine = engine_of(settings.family)(settings.collection, settings)
                    mark = engine.check(content["index"], content["changes"], content.get("pending", ""))
                engine.seen, engine.index = mark.generation, mark.index
                state = RemoteState(engine, mark.documents, like, manifest.generation, bytes_of(manifest))
                return cls(folder, content, settings, state)
            except (IndexFolderError, EngineError, EmbeddingError, OSError) as fault:
                # Another process may have replaced files while they were read; then there is a newer list of them.
                if read_index(folder).generation != manifest.generation:
                    continue
                if isinstance(fault, IndexFolderError | EngineError):
                    raise
                raise IndexFolderError(
                    f"{folder}: the index is damaged: {type(fault).__name__}: {fault}", hint=BUILD_AGAIN
                ) from fault

    def add(self, vectors: Spaces) -> None:
        """Add documents; those that are there already are an error that names them."""
        ids = next(iter(vectors.values())).ids
        if len(ids):
            _check(vectors, self.settings)
            self.settings.family.check_ids(ids)
            there = self.state.engine.held(ids)
            if len(there):
                raise already_indexed(there)
            self._change(len(ids), lambda engine: upload(engine, _points(vectors, self.settings), len(ids)))

    def delete(self, ids: object) -> None:
        """Delete documents, each once; unknown ids are an error that names them."""
        gone = pc.unique(strings(ids))
        missing = gone.filter(pc.invert(pc.is_in(gone, self.state.engine.held(gone))))
        if len(missing):
            raise not_indexed(missing)
        if len(gone):
            self._change(-len(gone), lambda engine: _drop(engine, gone))

    def _change(self, more: int, send: Callable[[Engine], None]) -> None:
        """The change gets a number, which the folder and the mark hold: so it is known whether it was done."""
        with changing_index(self.folder, self.state.generation) as change:
            engine, now, number = self.state.engine, dict(change.content), uuid4().hex
            mark = engine.check(now["index"], now["changes"], now.get("pending", ""))
            now |= {"changes": mark.generation, "pending": number}
            self._publish(change, self.state.size, now)
            try:
                engine.begin(mark, number)
                engine.warn_of_difference(mark.documents, engine.before)
                size = engine.before + more
                after = Mark(mark.index, mark.generation + 1, True, number, size)
                send(engine)
                engine.mark(after)
            except BaseException:
                engine.undo()
                raise
            now.pop("pending")
            self._publish(change, size, {**now, "changes": after.generation})
            with contextlib.suppress(EngineError):  # the change is done, whether the server still answers or not
                engine.warn_of_difference(size, engine.count(after.generation))

    def _publish(self, change: FolderChange, size: int, content: dict[str, Any]) -> None:
        change.keep_only(content["space"])
        manifest = change.commit(content)
        self.content = content
        self.state = RemoteState(self.state.engine, size, self.state.like, manifest.generation, bytes_of(manifest))


def _check(vectors: Spaces, settings: Any) -> None:
    """Check that there can be an index of these vectors, before anything is sent."""
    if not all(map(len, vectors.values())):
        raise EmbeddingError(
            "there is no vector to index.", hint="is the split, or the filter, right?", code="no-vector-index"
        )
    for form, some in vectors.items():
        SHAPES[form].form.under(settings).check(some)
        engine_of(settings.family).check_vectors(some, settings, alone=len(vectors) == 1)


def _check_on_server(folder: Path, content: Mapping[str, Any]) -> None:
    """Refuse what earlier versions made, by name."""
    if "engine" in content:
        raise IndexFolderError(
            f"{folder}: an index of kind {content['kind']!r} in the embedded Qdrant, which visir has no more.",
            hint="build it again from the vectors (visir index build), into a new folder: as kind exact, inverted or "
            "maxsim, or on a server (--set url=http://HOST:6333)",
            code="index-embedded-no-more",
        )
    if "ids" in content:
        settings = content["settings"]
        old = engine_of(family_of(settings["url"])).removal(settings["url"], settings["collection"], settings)
        raise IndexFolderError(
            f"{folder}: an earlier version of visir made this index on a server, and kept its ids in the folder.",
            hint=f"build it again, into a new folder (visir index build); then delete the old collection: {old}",
            code="earlier-version-visir-made",
        )


def _drop(engine: Engine, ids: pa.StringArray) -> None:
    for start in range(0, len(ids), _AT_ONCE):
        engine.delete(ids[start : start + _AT_ONCE].to_pylist())
    engine.settle()


def _write_like(change: FolderChange, content: dict[str, Any], like: Spaces) -> None:
    """Write what vectors are like, in a folder of its own; of several spaces, each in one inside it."""
    inside = {form: f"{form}/" if len(like) > 1 else "" for form in like}
    content["space files"] = [f"{inside[form]}{name}" for form in like for name in SHAPES[form].form.files]
    folder = change.subfolder(content["space"], *content["space files"])
    for form, vectors in like.items():
        (folder / inside[form]).mkdir(exist_ok=True)
        SHAPES[form].form.write(vectors, folder / inside[form])
    change.written(content["space"])


def _read_like(folder: Path, content: Mapping[str, Any], forms: Sequence[VectorForm]) -> Spaces:
    """Read it back."""
    like, modality, several = {}, modality_of(content["modality"]), len(forms) > 1
    for form in forms:
        encoder = EncoderCard.from_dict(content["sparse encoder" if several and form == "sparse" else "encoder"])
        like[form] = SHAPES[form].form.read(folder / form if several else folder, modality, encoder)
    return like


# The index of one form of vectors.


class RemoteIndex(Index[Vectors]):
    """Documents as points of an engine's collection; of one form, which the kind names."""

    # `save` makes a second collection.

    settings_type: ClassVar[type[Any]]
    space: ClassVar[VectorForm] = "dense"
    exact = False

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self._shape = SHAPES[self.space]
        self._like: Vectors = storage.state.like[self.space]

    def __repr__(self) -> str:
        return brief(self, f"{self.kind}: {counted(len(self.ids), 'vectors')}, in {self.folder}")

    @property
    def encoder(self) -> EncoderCard:
        return self._like.encoder

    @property
    def folder(self) -> Path:
        """Where the index lies."""
        return self._storage.folder

    @property
    def settings(self) -> Any:
        return self._storage.settings

    @classmethod
    def build(cls, documents: Vectors, folder: Path | None = None, **options: Any) -> Self:
        settings = settings_of(cls.kind, cls.settings_type, options)
        return cls(RemoteStorage.create(folder, cls.kind, settings, {cls.space: documents}))

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(RemoteStorage.load(Path(folder), cls.settings_type, cls.space))

    def save(self, folder: Path) -> None:
        settings = replace(self.settings, collection="")
        # Dense vectors were divided by their lengths before; a second time would change last bits.
        as_held = replace(settings, similarity="dot") if hasattr(settings, "similarity") else settings
        RemoteStorage.create(folder, self.kind, settings, {self.space: self.documents()}, as_held)

    def add(self, documents: Vectors) -> None:
        check_fits_index(self._shape.form, documents, self._like, added=True)
        self._storage.add({self.space: documents})

    def delete(self, ids: object) -> None:
        self._storage.delete(ids)

    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        return self._searched(queries, k, options, None)

    filters_up_to = FILTERED
    """How many allowed documents are sent to the engine (`visir.retrieval.filtered`)."""

    def search_among(self, queries: Vectors, allowed: pa.StringArray, k: int = 10, **options: Any) -> Run:
        """Return the best `k` documents among `allowed` for each query; ids that are not in the index are passed
        over."""
        # The engine itself looks at these documents alone; at every one of them where they are few.
        return self._searched(queries, k, options, allowed)

    def _searched(self, queries: Vectors, k: int, options: dict[str, Any], allowed: pa.StringArray | None) -> Run:
        state = self._storage.state
        ordered = in_order(self._shape.form, queries, self._like, state.size, k)
        settings = searching(self.kind, self.settings, options)
        about = {"search": self.kind, **asdict(settings)}
        wanted, gallery = min(k, state.size), None
        if allowed is not None:
            about["filtered"], wanted = len(allowed), min(k, len(allowed))
            gallery = Gallery.of(self._like.modality, allowed, "documents that pass the filter")
        documents, hits = self._find(state, ordered, wanted, settings, allowed)
        return run_of(hits, ordered, gallery or state.gallery, k, self._like.encoder, about, documents)

    def info(self) -> IndexInfo:
        # `bytes` are those of the folder.
        state = self._storage.state
        return IndexInfo(
            kind=self.kind,
            exact=self.exact,
            modality=self._like.modality,
            documents=state.engine.counted(),
            deleted=0,
            dimension=self._like.dimension,
            bytes=state.bytes,
            encoder=self._like.encoder.name,
            details={"engine": self.settings.url, **asdict(self.settings), **state.engine.about()},
        )

    @property
    def ids(self) -> pa.StringArray:
        return self._storage.state.ids

    def documents(self) -> Vectors:
        return self.select(self.ids)

    def select(self, ids: object) -> Vectors:
        engine, wanted = self._storage.state.engine, strings(ids)
        there: dict[str, Vector | None] = {}
        step = max(1, VALUES // max(self._shape.width(self._like), 1))
        for start in range(0, len(wanted), step):
            there.update(engine.get(wanted[start : start + step].to_pylist(), self.space))
        engine.check_own(any_found=bool(there) or len(wanted) == 0)
        lost = [id for id in wanted.to_pylist() if id not in there]
        if lost:
            raise not_indexed(pa.array(lost, pa.string()))
        held = taken(engine, self._shape, self._like, [there[id] for id in wanted.to_pylist()])
        vectors: Vectors = self._shape.made(self._like, wanted, held, self.settings)
        return vectors

    def _find(
        self, state: RemoteState, queries: Vectors, wanted: int, settings: Any, allowed: pa.StringArray | None
    ) -> tuple[pa.StringArray, Hits]:
        """Ids, sorted, and the hits of each query by their place among them."""
        check_answers(wanted, settings)
        outgoing = self._shape.outgoing(queries, 0, len(queries), settings)
        # Every document is looked at where there is no graph to walk.
        whole = getattr(settings, "m", 1) == 0 or (allowed is not None and len(allowed) <= SCANNED)
        # What inverted lists do not find is not there; of a graph, among many equal vectors, most are out of reach.
        falls_short = [self.space] if getattr(settings, "m", self.space != "sparse") else []
        results = SearchPlaces(state, allowed)
        step = max(1, min(_QUERIES, _ANSWERED // ((wanted + 1) * max(self._shape.width(self._like), 1))))
        hits = []
        for first in range(0, len(queries), step):
            # One more than wanted, to see whether the last ones are equal. A query of no terms finds nothing.
            rows = range(first, min(first + step, len(queries)))
            some = [at for at in rows if not isinstance(outgoing[at], tuple) or len(outgoing[at][0])]
            questions = [nearest_by(self.space, outgoing[at], wanted + 1, settings, whole) for at in some]
            answers = results.find(questions, wanted, vectors=True, falls_short=falls_short)
            of_query = np.array([some[number] for number, _, known in answers for _ in known], np.int64)
            if len(of_query):
                raw = [hit.vector for _, _, known in answers for hit in known]
                held = taken(state.engine, self._shape, self._like, raw)
                scored = self._shape.scores(queries, of_query, held, self._like, settings)
                hits.append(Hits(of_query, np.concatenate([place for _, place, _ in answers]), scored))
        documents, [joined] = results.finish(Hits.joined(hits))
        return documents, joined


def check_answers(wanted: int, settings: Any) -> None:
    """Check that the engine gives so many answers to a search, and one more, which it is asked for."""
    family = settings.family
    if 0 < family.most_answers <= wanted:
        raise RunError(
            f"k={wanted:,}: {family.title} gives up to {family.most_answers - 1:,} answers to a query.",
            hint="ask for fewer; indexes of kind 'exact' and 'inverted' give all",
            code="gives-up-answers-query",
        )


def nearest_by(space: str, vector: Vector, limit: int, settings: Any, exact: bool = False) -> Nearest:
    """A search by one vector, as thorough as the settings say."""
    ef = max(settings.ef_search, limit) if hasattr(settings, "ef_search") else None
    return Nearest(space, vector, limit, ef, exact)


def _settled(known: list[EngineHit], last: float, wanted: int) -> bool:
    """Whether nothing beyond the last of an answer can be among the best: it is clearly worse than the `wanted`-th."""
    # The engine's scores are of single precision, so those that are nearly equal are all looked at.
    enough = len(known) >= wanted
    return enough and last < known[wanted - 1].score - 1e-5 * max(abs(known[0].score), abs(last))


def engine_index(name: str, settings_type: type[Server], space: VectorForm = "dense") -> type[RemoteIndex[Any]]:
    """The index of one form of vectors in one engine."""
    about = {"kind": name, "settings_type": settings_type, "space": space}
    title = "".join(word.capitalize() for word in name.split("-"))
    return type(f"{title}Index", (RemoteIndex,), {"__module__": __name__, "__doc__": f'Kind "{name}".', **about})


QdrantIndex = engine_index("qdrant", DenseSettings)
QdrantSparseIndex = engine_index("qdrant-sparse", SparseSettings, "sparse")
QdrantMultiIndex = engine_index("qdrant-multi", SeveralSettings, "multi-vector")
PgvectorIndex = engine_index("pgvector", PgvectorSettings)
PgvectorSparseIndex = engine_index("pgvector-sparse", PgvectorSparseSettings, "sparse")
MilvusIndex = engine_index("milvus", MilvusSettings)
MilvusSparseIndex = engine_index("milvus-sparse", MilvusSparseSettings, "sparse")


# Dense and sparse vectors of the same documents in one collection, and a search by both.

ENGINES: dict[str, type[Any]] = {"qdrant": DenseSettings, "pgvector": PgvectorSettings, "milvus": MilvusSettings}
"""The engines that hold both forms, and the settings of a collection: those of their dense index."""
_ENDING = "-hybrid"
"""`visir.json` calls such a folder qdrant-hybrid. It is no kind of `visir.retrieval.kinds`: those hold one form."""


class HybridCollection:
    """One collection whose points have a dense and a sparse vector, on a server."""

    # `search` asks for both lists, without a vector, and fuses them by reciprocal rank as every fusion here
    # (`visir.retrieval.fusion`). The price of bringing no vector is that lists are ranked by the engine's own
    # single-precision scores.

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self._dense, self._sparse = storage.state.like["dense"], storage.state.like["sparse"]
        self._kind: str = storage.content["kind"]

    @classmethod
    def build(
        cls,
        dense: Embeddings,
        sparse: SparseEmbeddings,
        folder: Path | None = None,
        *,
        engine: str = "qdrant",
        **options: Any,
    ) -> Self:
        """Build a collection of documents with both vectors."""
        if engine not in ENGINES:
            raise ConfigurationError(f"engine={engine!r} holds no vectors of both forms ({nearest(engine, ENGINES)}).")
        settings = settings_of(engine + _ENDING, ENGINES[engine], options)
        name_address(settings.url, getattr(settings, "grpc", 0))
        return cls(RemoteStorage.create(folder, engine + _ENDING, settings, _both(dense, sparse)))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open the collection in a folder."""
        folder = Path(folder)
        kind = read_index(folder).content["kind"]
        if kind.removesuffix(_ENDING) not in ENGINES or not kind.endswith(_ENDING):
            raise ConfigurationError(
                f"{folder}: holds an index of kind {kind!r}, no collection of both forms.",
                hint="visir.retrieval.open_index reads it",
                code="holds-index-kind-no",
            )
        return cls(RemoteStorage.load(folder, ENGINES[kind.removesuffix(_ENDING)], "dense", "sparse"))

    def add(self, dense: Embeddings, sparse: SparseEmbeddings) -> None:
        """Add documents; as `Index.add`."""
        check_fits_index(DENSE, dense, self._dense, added=True)
        check_fits_index(SPARSE, sparse, self._sparse, added=True)
        self._storage.add(_both(dense, sparse))

    def delete(self, ids: object) -> None:
        """Delete documents; as `Index.delete`."""
        self._storage.delete(ids)

    def __len__(self) -> int:
        return self._storage.state.size

    def search(
        self,
        dense: Embeddings,
        sparse: SparseEmbeddings,
        k: int = 10,
        *,
        depth: int = 100,
        constant: int = 60,
        weights: tuple[float, float] = (1.0, 1.0),
        **options: Any,
    ) -> Run:
        """Return the best `k` documents of each query by the fused ranks of the dense and the sparse search."""
        # A query without a term is answered by its dense vector alone.
        faults = [fault for fault in (depth_fault(depth, "depth"),) if fault] + constant_faults(constant, "constant")
        if isinstance(weights, tuple | list) and len(weights) == 2:
            faults += weight_faults(dict(zip(SHAPES, weights, strict=False)))
        else:
            faults.append(f"weights must be two numbers, of the dense and the sparse list, not {weights!r}")
        raise_faults(ConfigurationError, "hybrid search", faults, hint="mend the options above")
        state, settings = self._storage.state, searching(self._kind, self._storage.settings, options)
        ordered = in_order(DENSE, dense, self._dense, state.size, k)
        deep = min(depth, state.size)
        check_answers(deep, settings)
        queries: Spaces = {
            "dense": ordered,
            "sparse": _both(ordered, in_order(SPARSE, sparse, self._sparse, state.size, k), "query")["sparse"],
        }
        results, falls_short = SearchPlaces(state), ["dense"] if settings.m else []
        hits: dict[str, list[Hits]] = {form: [] for form in queries}
        for first in range(0, len(ordered), _QUERIES):
            last = min(first + _QUERIES, len(ordered))
            questions, query = [], []
            for form, some in queries.items():
                for at, vector in enumerate(SHAPES[form].outgoing(some, first, last, settings), first):
                    if form == "dense" or len(vector[0]):
                        whole = form == "dense" and settings.m == 0
                        questions.append(nearest_by(form, vector, deep + 1, settings, whole))
                        query.append(at)
            for number, places, known in results.find(questions, deep, vectors=False, falls_short=falls_short):
                of_query = np.full(len(places), query[number])
                scores = np.array([hit.score for hit in known], np.float32)
                hits[questions[number].space].append(Hits(of_query, places, scores))
        documents, of_each = results.finish(*map(Hits.joined, hits.values()))
        card, about = self._dense.encoder, {"search": self._kind, "depth": depth, "constant": constant}
        about |= {"weights": weights, **asdict(settings)}
        lists = [run_of(some, ordered, state.gallery, deep, card, about, documents) for some in of_each]
        run = fuse(
            dict(zip(hits, lists, strict=True)), weights=dict(zip(hits, weights, strict=True)), k=constant, depth=k
        )
        return replace(run, name=lists[0].name, provenance=lists[0].provenance)


def _both(dense: Embeddings, sparse: SparseEmbeddings, what: str = "document") -> Spaces:
    """Both vectors of the same documents (or queries), in the order of the dense ones."""
    other = set(dense.ids.to_pylist()) ^ set(sparse.ids.to_pylist())
    if other:
        raise EmbeddingError(
            f"{counted(len(other), 'ids', 'have')} only one of the two vectors: "
            f"{', '.join(map(repr, sorted(other)[:5]))}"
            f"{', …' if len(other) > 5 else ''}.",
            hint=f"encode every {what} with both models",
            code="one-of-two-vectors",
        )
    return {"dense": dense, "sparse": sparse.select(dense.ids)}
