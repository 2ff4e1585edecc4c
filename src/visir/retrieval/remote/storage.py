"""An index in an engine as it is kept: a folder that says what counts, and a collection that holds the vectors.

The folder holds `visir.json`, what a vector of the index is like (`space`), and, if the vectors are there, the embedded
engine's files, the ids (`id_index.py`) and (in `space`) a copy of the vectors. All that counts is named in
`visir.json`, which is replaced in one step.

Embedded, every change is made in a copy of the engine's folder, which then takes the place of the old one; who searches
meanwhile keeps the old one to the end.

On a server, a change becomes visible together with its mark, in one step (`RemoteEngine`): in PostgreSQL by a
transaction, elsewhere because documents carry the number of the change that added them (`stepwise.py`). The folder
writes down the number of the change before (`pending`), so that it knows afterwards whether a change that was killed
was done, and counts it after.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from visir.errors import ConfigurationError, EmbeddingError
from visir.records import modality_of
from visir.retrieval.folder import (
    BUILD_AGAIN,
    INDEX,
    IndexFolderError,
    bytes_of,
    changing_index,
    check_files,
    new_index,
    read_index,
)
from visir.retrieval.remote.build import COLLECTION, fact_of
from visir.retrieval.remote.collection_names import name_collection
from visir.retrieval.remote.edge import FILES, EdgeEngine, copy_with_holes
from visir.retrieval.remote.engine import Engine, EngineError, Mark, RemoteEngine, Space
from visir.retrieval.remote.id_index import Documents, EngineIds, IdIndex
from visir.retrieval.remote.points import Point
from visir.retrieval.remote.upload import upload
from visir.storage import FolderChange, Manifest, Scratch
from visir.storage.removal import below

Content = dict[str, Any]
"""What `visir.json` says of the index."""
Batches = Callable[[], Iterator[list[Point]]]
"""The points to put in, piece by piece."""
WriteSpace = Callable[[Documents, Path], None]
"""Writes what the folder is to keep of the vectors, for these documents, into an empty folder."""
ReadSpace = Callable[[Path, Mapping[str, Any]], Any]
"""Reads it back, given the manifest."""
_AT_ONCE = 1000
"""Points deleted in one request."""


@dataclass(frozen=True)
class RemoteState:
    """Everything that changes, changed by replacing all of it."""

    # `own`: what the folder keeps of the vectors: all of them in the order of the id index beside an embedded engine,
    # none of them (but what they are like) on a server.

    documents: Documents
    engine: Engine
    own: Any
    generation: int
    bytes: int


class RemoteStorage:
    """A folder and its collection. `facts` are what else the manifest says; a folder of None is a temporary one."""

    def __init__(
        self, folder: Path, content: Mapping[str, Any], settings: Any, state: RemoteState, read_space: ReadSpace
    ) -> None:
        self.folder = folder
        self.content = content
        self.settings = settings
        self.state = state
        self._read_space = read_space

    @classmethod
    def create(
        cls,
        folder: Path | None,
        facts: Mapping[str, Any],
        settings: Any,
        spaces: Sequence[Space],
        ids: pa.StringArray,
        space_files: Sequence[str],
        batches: Batches,
        write_space: Callable[[Path], None],
        read_space: ReadSpace,
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
            made = cls.create(folder, facts, settings, spaces, ids, space_files, batches, write_space, read_space)
            scratch.close_with(made)
            return made
        index = uuid4().hex
        if settings.url:
            settings.family.check_ids(ids)
        if settings.url and not settings.collection:
            settings = replace(settings, collection=name_collection(folder.name, index))
        with contextlib.ExitStack() as undone, new_index(folder) as change:
            content: dict[str, Any] = {**facts, "settings": asdict(settings)}
            content |= {"space": "space-1", "space files": list(space_files)}
            _write_space(change, content, write_space)
            if settings.url:
                content |= {"index": index, "changes": 1}
                change.note(COLLECTION, fact_of(settings, index))
                server = settings.family.engine().create(settings.collection, spaces, settings, index)
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
        return cls.load(folder, type(settings), read_space)

    @classmethod
    def load(cls, folder: Path, settings_type: type[Any], read_space: ReadSpace) -> RemoteStorage:
        """What is in `folder`. `IndexFolderError` for a damaged one, `EngineError` where its server is not there."""
        while True:
            manifest = read_index(folder)
            content = manifest.content
            try:
                check_files(folder, manifest).settle(wholly=True)
                with INDEX.reading(folder):
                    settings = settings_type(**content["settings"])
                    own = read_space(below(folder, content["space"]), content)
                    engine, documents = _opened(folder, manifest, settings)
                state = RemoteState(documents, engine, own, manifest.generation, bytes_of(manifest))
                return cls(folder, content, settings, state, read_space)
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

    def add(self, ids: pa.StringArray, batches: Batches, write_space: WriteSpace | None = None) -> None:
        """Add documents; those that are there already are an error that names them."""
        # `write_space`: where the folder keeps more of the vectors than what they are like.
        if len(ids):
            if self.settings.url:
                self.settings.family.check_ids(ids)
            self.state.documents.check_not_indexed(ids)
            self._change(self.state.documents.add(ids), ids, batches, write_space)

    def delete(self, ids: object, write_space: WriteSpace | None = None) -> None:
        """Delete documents; unknown ids are an error that names them."""
        documents, gone = self.state.documents.delete(ids)
        if len(gone):
            self._change(documents, gone, None, write_space)

    def _change(
        self, documents: Documents, touched: pa.StringArray, put: Batches | None, write_space: WriteSpace | None
    ) -> None:
        """Put the points of `put` in, or take those of the touched ids out."""
        with changing_index(self.folder, self.state.generation) as change:
            if isinstance(documents, EngineIds):
                self._change_server(change, documents, touched, put)
            elif isinstance(documents, IdIndex):
                self._change_embedded(change, documents, touched, put, write_space)

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
        self,
        change: FolderChange,
        documents: IdIndex,
        touched: pa.StringArray,
        put: Batches | None,
        write_space: WriteSpace | None,
    ) -> None:
        generation, content = change.manifest.generation + 1, dict(change.content)
        content["ids"] = f"ids-{generation}.parquet"
        documents.write(change.file(content["ids"]))
        if write_space is not None:
            content["space"] = f"space-{generation}"
            _write_space(change, content, lambda folder: write_space(documents, folder))
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
        own = self._read_space(self.folder / content["space"], content)
        self.state = RemoteState(documents, engine, own, manifest.generation, bytes_of(manifest))


def _write_space(change: FolderChange, content: Mapping[str, Any], write: Callable[[Path], None]) -> None:
    """Write what the folder keeps of the vectors, in a folder of its own."""
    folder = change.subfolder(content["space"], *content["space files"])
    for name in content["space files"]:
        (folder / name).parent.mkdir(exist_ok=True)
    write(folder)
    change.written(content["space"])


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
    family = settings.family.engine()
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
