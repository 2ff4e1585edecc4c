"""The folder and the collection of an index in an engine: which documents count, and how both change as one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.errors import ConfigurationError, EmbeddingError, require
from visir.files import next_data
from visir.parquet import read_table
from visir.plugins import load_target
from visir.progress import Progress
from visir.records import EncoderCard, Gallery, Modality, VectorForm, modality_of, strings
from visir.retrieval.answers import Hits
from visir.retrieval.remote.engine import (
    ID,
    Engine,
    EngineError,
    EngineHit,
    Mark,
    Nearest,
    Point,
    RemoteEngine,
    Space,
    Vector,
    hits_of,
    key_of,
    vector_of,
)
from visir.retrieval.remote.settings import (
    DatabasePlace,
    EngineFamily,
    MilvusPlace,
    Place,
    Server,
    family_of,
    name_collection,
)
from visir.retrieval.rows import (
    DENSE,
    MULTI,
    SPARSE,
    Form,
    already_indexed,
    bisected,
    check_not_indexed,
    not_indexed,
    places_of,
)
from visir.retrieval.stored import (
    BUILD_AGAIN,
    INDEX,
    IndexFolderError,
    bytes_of,
    changing_index,
    check_files,
    new_index,
    read_index,
)
from visir.storage import FolderChange, Manifest, Scratch, scratch
from visir.storage.disk import below, files_below

LISTED = 50_000
"""Up to this many documents of a server are listed in the gallery of a run; of more, the number.

Runs can be compared by their galleries where these are listed. Test sets are mostly smaller; the first search of an
index waits for the list.
"""


_ENGINES = {
    "qdrant": "visir.retrieval.remote.server:ServerEngine",
    "pgvector": "visir.retrieval.remote.postgres:PostgresEngine",
    "milvus": "visir.retrieval.remote.milvus:MilvusEngine",
}
_PLACES: dict[str, type[Server]] = {"qdrant": Place, "pgvector": DatabasePlace, "milvus": MilvusPlace}
"""Of each family the settings that say where a server is."""


def engine_of(family: EngineFamily) -> type[RemoteEngine]:
    """The class that asks a server of this family; it imports the server's client."""
    engine: type[RemoteEngine] = load_target(_ENGINES[family.name])
    return engine


class SearchPlaces:
    """The documents of one search, while it is made."""

    # On a server it is checked in the end that they were the index's. Ids cannot tell: whoever makes a collection anew
    # often puts the same documents into it, with vectors of another model. The mark can, and it is read after the
    # answers came.

    def __init__(self, known: pa.StringArray | None, engine: RemoteEngine | None = None) -> None:
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
        if self._engine is not None:
            self._engine.check_own(any_found=len(hits.places) > 0)
        if self._known is not None:
            return self._known, hits
        ids = sorted(self._found, key=str.encode)
        place = np.empty(len(ids), np.int64)
        place[[self._found[id] for id in ids]] = np.arange(len(ids))
        return pa.array(ids, pa.string()), replace(hits, places=place[hits.places])


@dataclass(frozen=True, eq=False)
class IdIndex:
    """The ids of the documents, sorted, in a file of the folder."""

    ids: pa.StringArray
    modality: Modality

    @classmethod
    def of(cls, ids: object, modality: Modality) -> IdIndex:
        """The id index of these ids, in any order."""
        sorted_ids = strings(ids)
        return cls(sorted_ids.take(pc.sort_indices(sorted_ids)), modality)

    def __len__(self) -> int:
        return len(self.ids)

    def begin_search(self) -> SearchPlaces:
        """For a search that begins: places are those among all ids."""
        return SearchPlaces(self.ids)

    @cached_property
    def gallery(self) -> Gallery:
        """All documents, as the gallery of a search."""
        return Gallery.of(self.modality, self.ids, f"all indexed {self.modality}s")

    def check_not_indexed(self, ids: pa.StringArray) -> None:
        """Raise `EmbeddingError` that names those of these ids that are here already."""
        check_not_indexed(ids, self.ids)

    def add(self, ids: pa.StringArray) -> IdIndex:
        """With these documents."""
        return IdIndex.of(pa.concat_arrays([self.ids, ids]), self.modality)

    def delete(self, ids: object) -> tuple[IdIndex, pa.StringArray]:
        """Without these documents, and their ids, each once. Unknown ids are an error that names them."""
        gone = self.ids.take(pc.unique(pa.array(places_of(ids, self.ids))))
        return IdIndex(self.ids.filter(pc.invert(pc.is_in(self.ids, gone))), self.modality), gone

    def write(self, path: Path) -> None:
        """Write into one file."""
        pq.write_table(pa.table({"id": self.ids}), path)

    @classmethod
    def read(cls, path: Path, modality: Modality) -> IdIndex:
        """Read what `write` wrote."""
        return cls(strings(read_table(path)["id"]), modality)


@dataclass(frozen=True, eq=False)
class EngineIds:
    """The documents that a server holds."""

    engine: RemoteEngine
    modality: Modality
    size: int

    def __len__(self) -> int:
        return self.size

    @cached_property
    def ids(self) -> pa.StringArray:
        """The ids, sorted: all are brought here, once."""
        ids = self.engine.ids()
        self.engine.check_own(any_found=len(ids) > 0 or self.size == 0)
        return ids

    @cached_property
    def gallery(self) -> Gallery:
        """All documents: listed up to `LISTED`, else stated by their number."""
        about = f"all indexed {self.modality}s"
        if self.size > LISTED:
            return Gallery.stated(self.modality, self.size, about)
        return Gallery.of(self.modality, self.ids, about)

    def begin_search(self) -> SearchPlaces:
        """For a search that begins: places are those among all ids where these are listed."""
        return SearchPlaces(self.ids if self.size <= LISTED else None, self.engine)

    def check_not_indexed(self, ids: pa.StringArray) -> None:
        """Raise `EmbeddingError` that names those of these ids that are there already."""
        there = self.engine.held(ids)
        if len(there):
            raise already_indexed(there)

    def add(self, ids: pa.StringArray) -> EngineIds:
        """With these documents."""
        return replace(self, size=self.size + len(ids))

    def delete(self, ids: object) -> tuple[EngineIds, pa.StringArray]:
        """Without these documents, and their ids, each once. Unknown ids are an error that names them."""
        gone = pc.unique(strings(ids))
        missing = gone.filter(pc.invert(pc.is_in(gone, self.engine.held(gone))))
        if len(missing):
            raise not_indexed(missing)
        return replace(self, size=self.size - len(gone)), gone


Documents: TypeAlias = IdIndex | EngineIds
"""The documents that count. Immutable: every change makes a new one."""


# The engine inside this process: a Qdrant shard in a folder, read and written without a server.

_LARGEST_SEGMENT = 100_000_000
"""In kilobytes: one segment, because one graph answers faster than several and nothing here runs in parallel."""
_FULL_SCAN = 10_000
"""In kilobytes: up to this size a search looks at every vector, which is as fast as a graph and finds everything."""

_COPIED_AT_ONCE = 2**24

_ENDINGS = "json dat mmap info mappings versions bin data wal log tmp lock deleted"
FILES = tuple(f"**/*.{ending}" for ending in _ENDINGS.split())
"""What files of a shard are called, for those that a kill leaves half-written."""


class EdgeEngine(Engine):
    """A shard that is written once, in a folder that nobody reads yet, and then only read."""

    # A shard that is open for reading would still rewrite its configuration, so it is read through a folder of its own
    # in which the segments are a link: what an index's checksums were taken of stays as it is. The engine opens its
    # segments for writing even so; where they are read-only, they are copied for as long as the index is open.

    def __init__(self, shard: Any, view: Scratch | None = None) -> None:
        self._shard = shard
        self._view = view
        if view is not None:
            view.close_with(self)

    @classmethod
    def create(cls, folder: Path, spaces: Sequence[Space], settings: Any) -> EdgeEngine:
        q = _package()
        graph: dict[str, Any] = {}
        if any(space.form != "sparse" for space in spaces):
            graph["vectors"] = {
                space.name: q.EdgeVectorParams(
                    size=space.dimension,
                    distance=q.Distance.Dot,
                    multivector_config=q.MultiVectorConfig(q.MultiVectorComparator.MaxSim)
                    if space.form == "multi-vector"
                    else None,
                )
                for space in spaces
                if space.form != "sparse"
            }
            graph["hnsw_config"] = q.HnswIndexConfig(
                m=settings.m,
                ef_construct=settings.ef_construction,
                full_scan_threshold=_FULL_SCAN,
                max_indexing_threads=settings.threads,
            )
        sparse = {space.name: q.EdgeSparseVectorParams() for space in spaces if space.form == "sparse"}
        config = q.EdgeConfig(
            **graph,
            sparse_vectors=sparse or None,
            optimizers=q.EdgeOptimizersConfig(
                default_segment_number=1, indexing_threshold=_FULL_SCAN, max_segment_size=_LARGEST_SEGMENT
            ),
            max_search_threads=1,
            wal_enabled=False,  # a folder that is half-written is thrown away, not repaired
        )
        return cls(q.EdgeShard.create(str(folder), config))

    @classmethod
    def writable(cls, folder: Path) -> EdgeEngine:
        """The shard in a folder that nobody else reads."""
        return cls(_package().EdgeShard.load(str(folder)))

    @classmethod
    def readable(cls, folder: Path) -> EdgeEngine:
        """The shard in a folder that is left as it is."""
        view = Scratch.temporary("qdrant")
        inside = view.folder("shard", *FILES)
        writable = os.access(folder / "segments", os.W_OK)
        for path in sorted(folder.iterdir()):
            if path.is_file():
                shutil.copyfile(path, view.file(f"shard/{path.name}"))
                continue
            try:
                if not writable:
                    raise PermissionError
                view.file(f"shard/{path.name}").symlink_to(path.resolve(), target_is_directory=True)
            except OSError:  # nor does every system let every user make links
                for name in files_below(path):
                    copy_with_holes(path / name, view.file(f"shard/{path.name}/{name}"))
        return cls(_package().EdgeShard.load(str(inside)), view)

    def put(self, points: Sequence[Point]) -> None:
        q = _package()
        made = [
            q.Point(key_of(point.id), {name: _given(vector) for name, vector in point.vectors.items()}, {ID: point.id})
            for point in points
        ]
        self._shard.update(q.UpdateOperation.upsert_points(made))

    def drop(self, ids: Sequence[str]) -> None:
        self._shard.update(_package().UpdateOperation.delete_points(list(map(key_of, ids))))

    def settle(self) -> None:
        self._shard.optimize()
        self._shard.flush()

    def ask(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        q = _package()
        among = None if allowed is None else q.Filter(must=[q.HasIdCondition(set(map(key_of, allowed)))])
        requests = [
            q.QueryRequest(
                limit=question.limit,
                query=q.Query.Nearest(_given(question.vector), using=question.space),
                filter=among,
                with_vector=[question.space] if vectors else None,
                with_payload=[ID],
                params=q.SearchParams(hnsw_ef=question.ef, exact=question.exact),
            )
            for question in questions
        ]
        answers = self._shard.query_batch(q.QueryBatchRequest(requests))
        spaces = [question.space if vectors else None for question in questions]
        return [hits_of(answer, space) for answer, space in zip(answers, spaces, strict=True)]

    def fuse(
        self, questions: Sequence[Sequence[Nearest]], weights: Sequence[Sequence[float]], limit: int, constant: int
    ) -> list[list[EngineHit]]:
        """Reciprocal rank fusion inside the engine (which counts ranks from 0), every list alike."""
        q = _package()
        requests = [
            q.QueryRequest(
                limit=limit,
                query=q.Fusion.Rrf(k=constant + 1),
                with_payload=[ID],
                prefetches=[
                    q.Prefetch(
                        limit=question.limit,
                        query=q.Query.Nearest(_given(question.vector), using=question.space),
                        params=q.SearchParams(hnsw_ef=question.ef, exact=question.exact),
                    )
                    for question in several
                ],
            )
            for several in questions
        ]
        answers = self._shard.query_batch(q.QueryBatchRequest(requests))
        return [hits_of(answer) for answer in answers]

    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        wanted = {key_of(id): id for id in ids}
        records = self._shard.retrieve(list(wanted), with_payload=False, with_vector=[space])
        return {
            wanted[record.id]: vector_of(record.vector[space]) if space in (record.vector or {}) else None
            for record in records
        }

    def about(self) -> dict[str, Any]:
        shard = self._shard.info()
        return {"points": shard.points_count, "segments": shard.segments_count, "indexed": shard.indexed_vectors_count}

    @classmethod
    def seal(cls, folder: Path) -> None:
        """Bring the files of a shard that was written and closed into the state in which opening it changes none."""
        cls.writable(folder).close()  # journals of the last writes are worked in, and removed

    def close(self) -> None:
        self._shard.close()
        if self._view is not None:
            self._view.close()


def copy_with_holes(source: Path, target: Path) -> None:
    """Copy a file, holes as holes: the engine's pages are files of 32 MB of which little is ever written."""
    with source.open("rb", buffering=0) as read, target.open("wb", buffering=0) as write:
        write.truncate(os.fstat(read.fileno()).st_size)
        end = 0
        while (start := next_data(read.fileno(), end)) is not None:
            end = os.lseek(read.fileno(), start, os.SEEK_HOLE) if hasattr(os, "SEEK_HOLE") else start + _COPIED_AT_ONCE
            read.seek(start)
            write.seek(start)
            while (piece := read.read(min(_COPIED_AT_ONCE, end - read.tell()))) != b"":
                write.write(piece)


def _given(vector: Vector) -> Any:
    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return _package().SparseVector(*(part.tolist() for part in vector))


def _package() -> Any:
    try:
        import qdrant_edge
    except ImportError:
        require("qdrant_edge", extra="qdrant", purpose="the embedded engine of Qdrant")
        raise
    return qdrant_edge


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
    server = engine_of(family)(fact["collection"], _PLACES[family.name](**where, timeout=timeout, retries=retries))
    try:
        mine: bool = server.exists() and server.read_mark().index == fact["index"]
        if mine:
            server.destroy()
        return mine
    finally:
        server.close()


def _undo(fact: dict[str, Any]) -> bool:
    try:
        forget(fact, timeout=5, retries=0)
    except EngineError:  # the server is not there now; the note stays, and the next one tries again
        return False
    return True


scratch.undo[COLLECTION] = _undo


# Put documents into an engine: a few requests at once, and another one only when the server has taken one.


def upload(engine: Engine, batches: Iterator[list[Point]], total: int) -> None:
    """Put all documents in, `engine.uploads` batches at once, and settle."""
    # Batches are made while others are sent. At most `engine.uploads` of them are in memory besides the one being made:
    # documents are read no faster than the server takes them. After a fault no further batch is sent, and those under
    # way are waited for.
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


Content = dict[str, Any]
"""What `visir.json` says of the index."""
Batches = Callable[[], Iterator[list[Point]]]
"""The points to put in, piece by piece."""
Keep = Callable[[pa.StringArray], Any]
"""The vectors that the folder is to keep beside an embedded engine, of the documents of these ids."""
FORMS: dict[VectorForm, Form[Any]] = {"dense": DENSE, "sparse": SPARSE, "multi-vector": MULTI}
_AT_ONCE = 1000
"""Points deleted in one request."""


@dataclass(frozen=True)
class RemoteState:
    """Everything that changes, changed by replacing all of it."""

    # `own`: what the folder keeps of the vectors of each space: all of them in the order of the id index beside an
    # embedded engine, none of them (but what they are like) on a server, and of several spaces.

    documents: Documents
    engine: Engine
    own: dict[VectorForm, Any]
    generation: int
    bytes: int


class RemoteStorage:
    """A folder and its collection. `facts` are what else the manifest says; a folder of None is a temporary one."""

    def __init__(self, folder: Path, content: Mapping[str, Any], settings: Any, state: RemoteState) -> None:
        self.folder = folder
        self.content = content
        self.settings = settings
        self.state = state

    @classmethod
    def create(
        cls,
        folder: Path | None,
        facts: Mapping[str, Any],
        settings: Any,
        spaces: Sequence[Space],
        own: Callable[[], Mapping[VectorForm, Any]],
        ids: pa.StringArray,
        batches: Batches,
    ) -> RemoteStorage:
        """A new one, in a new or empty folder."""
        # Raises `ConfigurationError` for an address without a folder, `EngineError` for a collection that is there,
        # `EmbeddingError` for ids that the server cannot hold.
        if folder is None:
            if settings.url:
                raise ConfigurationError(
                    "an index on a server needs a folder: it says what of the collection counts.",
                    hint="name one (--out FOLDER); it holds none of the documents",
                    code="says-collection-counts",
                )
            scratch = Scratch.temporary("index")
            folder = scratch.made("index")
            made = cls.create(folder, facts, settings, spaces, own, ids, batches)
            scratch.close_with(made)
            return made
        index = uuid4().hex
        if settings.url:
            settings.family.check_ids(ids)
        if settings.url and not settings.collection:
            settings = replace(settings, collection=name_collection(folder.name, index))
        with contextlib.ExitStack() as undone, new_index(folder) as change:
            content: dict[str, Any] = {**facts, "settings": asdict(settings)}
            content["space"] = "space-1"
            _write_own(change, content, own())
            if settings.url:
                content |= {"index": index, "changes": 1}
                change.note(COLLECTION, fact_of(settings, index))
                server = engine_of(settings.family).create(settings.collection, spaces, settings, index)
                undone.callback(_destroyed, server)
                upload(server, batches(), len(ids))
                server.mark(Mark(index, 1, complete=True, documents=len(ids)))
                server.close()
            else:
                content["ids"] = "ids-1.parquet"
                IdIndex.of(ids, facts["modality"]).write(change.file(content["ids"]))
                content["engine"] = "engine-1"
                edge = EdgeEngine.create(change.subfolder("engine-1", *FILES), spaces, settings)
                upload(edge, batches(), len(ids))
                edge.close()
                EdgeEngine.seal(change.folder / "engine-1")
                change.written("engine-1")
            change.commit(content)
            undone.pop_all()
        return cls.load(folder, type(settings), *(space.form for space in spaces))

    @classmethod
    def load(cls, folder: Path, settings_type: type[Any], *forms: VectorForm) -> RemoteStorage:
        """What is in `folder`. `IndexFolderError` for a damaged one, `EngineError` where its server is not there."""
        while True:
            manifest = read_index(folder)
            content = manifest.content
            try:
                check_files(folder, manifest).settle(wholly=True)
                with INDEX.reading(folder):
                    settings = settings_type(**content["settings"])
                    own = _read_own(below(folder, content["space"]), content, forms)
                    engine, documents = _opened(folder, manifest, settings)
                state = RemoteState(documents, engine, own, manifest.generation, bytes_of(manifest))
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

    def save(self, folder: Path) -> None:
        """A copy of an embedded one, in a new or empty folder."""
        manifest = read_index(self.folder)
        with new_index(folder) as change:
            for name in manifest.files:
                copy_with_holes(self.folder / name, change.file(name))
            change.commit(manifest.content)

    def add(self, ids: pa.StringArray, batches: Batches, keep: Keep | None = None) -> None:
        """Add documents; those that are there already are an error that names them."""
        if len(ids):
            if self.settings.url:
                self.settings.family.check_ids(ids)
            self.state.documents.check_not_indexed(ids)
            self._change(self.state.documents.add(ids), ids, batches, keep)

    def delete(self, ids: object, keep: Keep | None = None) -> None:
        """Delete documents; unknown ids are an error that names them."""
        documents, gone = self.state.documents.delete(ids)
        if len(gone):
            self._change(documents, gone, None, keep)

    def _change(self, documents: Documents, touched: pa.StringArray, put: Batches | None, keep: Keep | None) -> None:
        """Put the points of `put` in, or take those of the touched ids out."""
        with changing_index(self.folder, self.state.generation) as change:
            if isinstance(documents, EngineIds):
                self._change_server(change, documents, touched, put)
            elif isinstance(documents, IdIndex):
                self._change_embedded(change, documents, touched, put, keep)

    def _change_server(
        self, change: FolderChange, documents: EngineIds, touched: pa.StringArray, put: Batches | None
    ) -> None:
        """The change gets a number, which the folder and the mark hold: so it is known whether it was done."""
        engine, now, number = documents.engine, dict(change.content), uuid4().hex
        mark = engine.check(now["index"], now["changes"], now.get("pending", ""))
        now |= {"changes": mark.generation, "pending": number}
        self._publish(change, self.state.documents, engine, now)
        try:
            engine.begin(mark, number)
            engine.warn_of_difference(mark.documents, engine.before)
            size = engine.before + len(touched) * (-1 if put is None else 1)
            after = Mark(mark.index, mark.generation + 1, True, number, size)
            _drop(engine, touched) if put is None else upload(engine, put(), len(touched))
            engine.mark(after)
        except BaseException:
            engine.undo()
            raise
        now.pop("pending")
        self._publish(change, replace(documents, size=size), engine, {**now, "changes": after.generation})

    def _change_embedded(
        self, change: FolderChange, documents: IdIndex, touched: pa.StringArray, put: Batches | None, keep: Keep | None
    ) -> None:
        generation, content = change.manifest.generation + 1, dict(change.content)
        content["ids"] = f"ids-{generation}.parquet"
        documents.write(change.file(content["ids"]))
        if keep is not None:
            content["space"] = f"space-{generation}"
            _write_own(change, content, dict.fromkeys(self.state.own, keep(documents.ids)))
        before, after = content["engine"], f"engine-{generation}"
        content["engine"] = after
        folder = change.subfolder(after, *FILES)
        for name in change.manifest.files:
            if name.startswith(f"{before}/"):
                copy_with_holes(self.folder / name, change.file(f"{after}{name.removeprefix(before)}"))
        engine = EdgeEngine.writable(folder)
        _drop(engine, touched) if put is None else upload(engine, put(), len(touched))
        engine.close()
        EdgeEngine.seal(folder)
        change.written(after)
        self._publish(change, documents, EdgeEngine.readable(folder), content)

    def _publish(self, change: FolderChange, documents: Documents, engine: Engine, content: dict[str, Any]) -> None:
        change.keep_only(*(content[name] for name in ("ids", "space", "engine") if name in content))
        manifest = change.commit(content)
        self.content = content
        own = _read_own(self.folder / content["space"], content, tuple(self.state.own))
        self.state = RemoteState(documents, engine, own, manifest.generation, bytes_of(manifest))


def _write_own(change: FolderChange, content: Content, own: Mapping[VectorForm, Any]) -> None:
    """Write what the folder keeps of the vectors, in a folder of its own; of several spaces, each in one inside it."""
    inside = {form: f"{form}/" if len(own) > 1 else "" for form in own}
    content["space files"] = [f"{inside[form]}{name}" for form in own for name in FORMS[form].files]
    folder = change.subfolder(content["space"], *content["space files"])
    for form, vectors in own.items():
        (folder / inside[form]).mkdir(exist_ok=True)
        FORMS[form].write(vectors, folder / inside[form])
    change.written(content["space"])


def _read_own(folder: Path, content: Mapping[str, Any], forms: Sequence[VectorForm]) -> dict[VectorForm, Any]:
    """Read it back."""
    own, modality = {}, modality_of(content["modality"])
    for form in forms:
        several = len(forms) > 1
        encoder = EncoderCard.from_dict(content["sparse encoder" if several and form == "sparse" else "encoder"])
        own[form] = FORMS[form].read(folder / form if several else folder, modality, encoder)
    return own


def _opened(folder: Path, manifest: Manifest, settings: Any) -> tuple[Engine, Documents]:
    """The engine, and the documents that count."""
    content, modality = manifest.content, modality_of(manifest.content["modality"])
    if not settings.url:
        try:
            return EdgeEngine.readable(below(folder, content["engine"])), IdIndex.read(
                below(folder, content["ids"]), modality
            )
        except Exception as fault:
            if type(fault) is not Exception:  # the engine raises this very type, whatever is wrong
                raise
            raise IndexFolderError(
                f"{folder}: the embedded engine cannot read its files: {fault}",
                hint="were they written by a newer qdrant-edge-py? else build the index again (visir index build)",
            ) from fault
    family = engine_of(settings.family)
    if "ids" in content:
        old = family.removal(settings.url, settings.collection, vars(settings))
        raise IndexFolderError(
            f"{folder}: an earlier version of visir made this index on a server, and kept its ids in the folder.",
            hint=f"build it again, into a new folder (visir index build); then delete the old collection: {old}",
            code="earlier-version-visir-made",
        )
    engine: RemoteEngine = family(settings.collection, settings)
    mark = engine.check(content["index"], content["changes"], content.get("pending", ""))
    engine.seen, engine.index = mark.generation, mark.index
    return engine, EngineIds(engine, modality, mark.documents)


def _drop(engine: Engine, ids: pa.StringArray) -> None:
    for start in range(0, len(ids), _AT_ONCE):
        engine.drop(ids[start : start + _AT_ONCE].to_pylist())
    engine.settle()


def _destroyed(server: RemoteEngine) -> None:
    """After a build that failed: leave nothing on the server, if it still answers."""
    with contextlib.suppress(EngineError):
        server.destroy()
