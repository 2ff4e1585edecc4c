"""Indexes in engines: a folder that says what counts, a collection on a server, and the search over both.

The engine finds; visir scores, so that a pair gets the same score as everywhere else. Where the engine finds fewer
documents than there are, it is asked again, exactly; where the last ones of its answer are equal, it is asked for more,
so that ties are the same here as everywhere. The vectors come back with what was found; the folder keeps which change
counts and what a vector of the index is like, and none of the documents.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from visir.display import counted
from visir.errors import ConfigurationError, EmbeddingError, RunError, nearest
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
from visir.retrieval.answers import Hits, check_depth, run_of
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
from visir.retrieval.remote.engine import Engine, EngineError, Mark, Nearest, Point, Space, Vector, name_address
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
    bisected,
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
    # them; `made`: what came back as vectors of the index; `scores`: (p,) those of pairs of a query (its row, rows
    # ascending) and a vector that came back.

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

    def made(self, like: Embeddings, ids: pa.StringArray, raw: list[Any], settings: Any) -> Embeddings:
        vectors = np.array(raw, np.float32).reshape(len(raw), like.dimension)
        return replace(like, ids=ids, vectors=vectors, normalised=settings.similarity == "cosine")

    def scores(self, queries: Embeddings, query: Rows, raw: list[Any], like: Embeddings, settings: Any) -> Scores:
        first = int(query[0])
        side = Side(queries, np.arange(first, int(query[-1]) + 1), settings.similarity)
        held, scores = np.array(raw, np.float32).reshape(len(raw), like.dimension), np.empty(len(query), np.float32)
        score_dense(side.block(0, len(side)), query - first, held, np.arange(len(raw)), scores)
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

    def made(self, like: SparseEmbeddings, ids: pa.StringArray, raw: list[Any], settings: Any) -> SparseEmbeddings:
        offsets, terms, values = _rows(raw)
        return replace(like, ids=ids, offsets=offsets, terms=terms, values=values)

    def scores(self, queries: SparseEmbeddings, query: Rows, raw: list[Any], like: Any, settings: Any) -> Scores:
        scores = np.empty(len(query), np.float32)
        rows = np.asarray(queries.offsets), np.asarray(queries.terms), np.asarray(queries.values)
        score_pairs(rows, query, _rows(raw), np.arange(len(raw)), scores)
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

    def made(self, like: Any, ids: pa.StringArray, raw: list[Any], settings: Any) -> MultiVectorEmbeddings:
        several = TokenVectors.of([np.array(rows, np.float32) for rows in raw]) if raw else like
        made: MultiVectorEmbeddings = replace(like, ids=ids, offsets=several.offsets, vectors=several.vectors)
        return made

    def scores(self, queries: MultiVectorEmbeddings, query: Rows, raw: list[Any], like: Any, settings: Any) -> Scores:
        held = self.made(like, pa.array(map(str, range(len(raw))), pa.string()), raw, settings)
        first, rows = int(query[0]), np.arange(len(raw))
        side = TokenSide(queries, np.arange(first, int(query[-1]) + 1))
        return score_token_places(side, query - first, TokenSide(held, rows), rows)


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
                engine.put(batch)
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
                        waiting.append((pool.submit(engine.put, sent), len(sent)))
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

    def __init__(self, known: pa.StringArray | None, engine: Engine) -> None:
        self._known, self._engine = known, engine
        self._found: dict[str, int] = {}  # where not all ids are known here: those that came, in this order

    def places(self, ids: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) the place of each document that was found; -1 for one that is not the index's."""
        if self._known is not None:
            return bisected(ids, self._known)
        places = self._found
        return np.array([-1 if id is None else places.setdefault(id, len(places)) for id in ids], np.int64)

    def finish(self, hits: Hits) -> tuple[pa.StringArray, Hits]:
        """Ids, sorted, and the hits by their place among them."""
        self._engine.check_own(any_found=len(hits.places) > 0)
        if self._known is not None:
            return self._known, hits
        ids = sorted(self._found, key=str.encode)
        place = np.empty(len(ids), np.int64)
        place[[self._found[id] for id in ids]] = np.arange(len(ids))
        return pa.array(ids, pa.string()), replace(hits, places=place[hits.places])


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
        ids = self.engine.ids()
        self.engine.check_own(any_found=len(ids) > 0 or self.size == 0)
        return ids

    @cached_property
    def gallery(self) -> Gallery:
        """All documents: listed up to `LISTED`, else stated by their number."""
        modality = self.about.modality
        if self.size > LISTED:
            return Gallery.stated(modality, self.size, f"all indexed {modality}s")
        return Gallery.of(modality, self.ids, f"all indexed {modality}s")

    def begin_search(self) -> SearchPlaces:
        """For a search that begins: places are those among all ids where these are listed."""
        return SearchPlaces(self.ids if self.size <= LISTED else None, self.engine)


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
        engine.drop(ids[start : start + _AT_ONCE].to_pylist())
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
    falls_short: ClassVar[bool] = True
    """Whether the engine may find fewer documents than asked for though there are more: among many equal vectors most
    are out of a graph's reach."""

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self._shape = SHAPES[self.space]
        self._like: Vectors = storage.state.like[self.space]

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
        raw = [there[id] for id in wanted.to_pylist()]
        vectors: Vectors = self._shape.made(self._like, wanted, raw, self.settings)
        return vectors

    def _find(
        self, state: RemoteState, queries: Vectors, wanted: int, settings: Any, allowed: pa.StringArray | None
    ) -> tuple[pa.StringArray, Hits]:
        """Ids, sorted, and the hits of each query by their place among them."""
        family = settings.family
        if 0 < family.most_answers <= wanted:  # one more than wanted is asked for
            raise RunError(
                f"k={wanted:,}: {family.title} gives up to {family.most_answers - 1:,} answers to a query.",
                hint="ask for fewer; indexes of kind 'exact' and 'inverted' give all",
                code="gives-up-answers-query",
            )
        outgoing = self._shape.outgoing(queries, 0, len(queries), settings)
        among = None if allowed is None else allowed.to_pylist()
        # Every document is looked at where there is no graph to walk.
        whole = getattr(settings, "m", 1) == 0 or (allowed is not None and len(allowed) <= SCANNED)
        results, engine = state.begin_search(), state.engine
        step = max(1, min(_QUERIES, _ANSWERED // ((wanted + 1) * max(self._shape.width(self._like), 1))))
        hits = []
        for first in range(0, len(queries), step):
            # One more than wanted, to see whether the last ones are equal. A query of no terms finds nothing.
            rows = range(first, min(first + step, len(queries)))
            some = (at for at in rows if not isinstance(outgoing[at], tuple) or len(outgoing[at][0]))
            waiting = [(at, wanted + 1, whole) for at in some]
            while waiting:
                sent = [nearest_by(self.space, outgoing[at], limit, settings, exact) for at, limit, exact in waiting]
                answers = engine.ask(sent, vectors=True, allowed=among)
                again, query, places = [], [], []
                raw: list[Vector] = []
                for (at, limit, exact), answer in zip(waiting, answers, strict=True):
                    place = results.places([hit.id for hit in answer])
                    known = [hit for hit, is_known in zip(answer, place >= 0, strict=True) if is_known]
                    if len(answer) >= limit and not _settled([hit.score for hit in known], answer[-1].score, wanted):
                        again.append((at, 4 * limit, exact))
                    elif len(known) < wanted and self.falls_short and not exact:
                        again.append((at, limit, True))
                    else:
                        query += [at] * len(known)
                        places.append(place[place >= 0])
                        raw += [hit.vector for hit in known if hit.vector is not None]
                if query:
                    of_query = np.array(query, np.int64)
                    scored = self._shape.scores(queries, of_query, raw, self._like, settings)
                    hits.append(Hits(of_query, np.concatenate(places), scored))
                waiting = again
        return results.finish(Hits.joined(hits))


def nearest_by(space: str, vector: Vector, limit: int, settings: Any, exact: bool = False) -> Nearest:
    """A search by one vector, as thorough as the settings say."""
    ef = max(settings.ef_search, limit) if hasattr(settings, "ef_search") else None
    return Nearest(space, vector, limit, ef, exact)


def _settled(scores: list[float], last: float, wanted: int) -> bool:
    """Whether nothing beyond the last of an answer can be among the best: it is clearly worse than the `wanted`-th."""
    # The engine's scores are of single precision, so those that are nearly equal are all looked at.
    return len(scores) >= wanted and last < scores[wanted - 1] - 1e-5 * max(abs(scores[0]), abs(last))


def engine_index(
    name: str, settings_type: type[Server], space: VectorForm = "dense", *, falls_short: bool = True
) -> type[RemoteIndex[Any]]:
    """The index of one form of vectors in one engine."""
    about = {"kind": name, "settings_type": settings_type, "space": space, "falls_short": falls_short}
    title = "".join(word.capitalize() for word in name.split("-"))
    return type(f"{title}Index", (RemoteIndex,), {"__module__": __name__, "__doc__": f'Kind "{name}".', **about})


# Inverted lists of Qdrant and Milvus are gone through to the end: what they do not find is not there.
QdrantIndex = engine_index("qdrant", DenseSettings)
QdrantSparseIndex = engine_index("qdrant-sparse", SparseSettings, "sparse", falls_short=False)
QdrantMultiIndex = engine_index("qdrant-multi", SeveralSettings, "multi-vector")
PgvectorIndex = engine_index("pgvector", PgvectorSettings)
PgvectorSparseIndex = engine_index("pgvector-sparse", PgvectorSparseSettings, "sparse")
MilvusIndex = engine_index("milvus", MilvusSettings)
MilvusSparseIndex = engine_index("milvus-sparse", MilvusSparseSettings, "sparse", falls_short=False)


# Dense and sparse vectors of the same documents in one collection, and a search by both in one request.

ENGINES: dict[str, type[Any]] = {"qdrant": DenseSettings, "pgvector": PgvectorSettings, "milvus": MilvusSettings}
"""The engines that hold both forms, and the settings of a collection: those of their dense index."""
_UNWEIGHTED = {
    "qdrant": "Qdrant weights lists by a formula of its own",
    "milvus": "Milvus fuses ranks without weights",
}
"""Those that do not weight the lists of a fusion as the formula says, and why."""
_ENDING = "-hybrid"
"""`visir.json` calls such a folder qdrant-hybrid. It is no kind of `visir.retrieval.kinds`: those hold one form."""


class HybridCollection:
    """One collection whose points have a dense and a sparse vector, on a server."""

    # `search` asks for both and lets the engine fuse the two lists by reciprocal rank (Cormack et al., 2009): a
    # document scores the sum of weight / (constant + rank) over the lists that it stands in, ranks counted from 1. One
    # request instead of two, and no vector comes back; the price is that the engine ranks by its own single-precision
    # scores, so that of documents that score equally, which one stands first is the engine's choice.

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
        engine = self._kind.removesuffix(_ENDING)
        if weights != (1.0, 1.0) and engine in _UNWEIGHTED:
            raise RunError(
                f"weights={weights}: {_UNWEIGHTED[engine]}.",
                hint="leave them out, or build the collection with engine='pgvector'",
            )
        state, settings = self._storage.state, searching(self._kind, self._storage.settings, options)
        check_depth(depth, "depth")
        if len(weights) != 2 or not all(0 < weight < np.inf for weight in weights):
            raise RunError(f"weights are two numbers greater than 0, of the dense and the sparse list, not {weights}.")
        if not constant >= 0:
            raise RunError(
                f"constant={constant}: the constant of reciprocal rank fusion is a number from 0.",
                code="constant-reciprocal-rank-fusion",
            )
        ordered = in_order(DENSE, dense, self._dense, state.size, k)
        deep, best = min(depth, state.size), min(k, state.size)
        words = _both(ordered, in_order(SPARSE, sparse, self._sparse, state.size, k), "query")["sparse"]
        hits, answers = [], state.begin_search()
        for first in range(0, len(ordered), _QUERIES):
            last = min(first + _QUERIES, len(ordered))
            searches = [
                [nearest_by("dense", vector, deep, settings)]
                + ([Nearest("sparse", weighted, deep)] if len(weighted[0]) else [])
                for vector, weighted in zip(
                    SHAPES["dense"].outgoing(ordered, first, last, settings),
                    SHAPES["sparse"].outgoing(words, first, last, settings),
                    strict=True,
                )
            ]
            of_each = [weights[: len(several)] for several in searches]
            fused = state.engine.fuse(searches, of_each, best, constant)
            for at, several in enumerate(searches):
                places = answers.places([hit.id for hit in fused[at]])
                scores = np.array([hit.score for hit in fused[at]], np.float32)
                if (places < 0).any():  # another program has put documents there
                    places, scores = _fused_known(state.engine, several, of_each[at], answers, best, constant)
                hits.append(Hits(np.full(len(places), first + at), places, scores))
        about = {"search": self._kind, "depth": depth, "constant": constant, "weights": weights, **asdict(settings)}
        documents, hits_of_all = answers.finish(Hits.joined(hits))
        return run_of(hits_of_all, ordered, state.gallery, k, self._dense.encoder, about, documents)


def _fused_known(
    engine: Engine,
    searches: Sequence[Nearest],
    weights: Sequence[float],
    documents: SearchPlaces,
    limit: int,
    constant: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Reciprocal rank fusion outside of the engine, which ranks documents of another program among the index's: the
    places and scores of the best `limit` documents, by falling score, ties by place."""
    sums: dict[int, float] = {}
    for search, weight in zip(searches, weights, strict=True):
        wanted = search.limit
        while True:  # until there are as many documents that count as are wanted
            ef = None if search.ef is None else max(search.ef, wanted)
            [answer] = engine.ask([replace(search, limit=wanted, ef=ef)], vectors=False)
            places = documents.places([hit.id for hit in answer])
            known: list[int] = places[places >= 0][: search.limit].tolist()
            if len(known) == search.limit or len(answer) < wanted:
                break
            wanted *= 4
        for rank, place in enumerate(known, 1):
            sums[place] = sums.get(place, 0.0) + weight / (constant + rank)
    best = sorted(sums, key=lambda place: (-sums[place], place))[:limit]
    return np.array(best, np.int64), np.array([sums[place] for place in best], np.float32)


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
