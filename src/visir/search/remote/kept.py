"""An index in an engine as it is kept: a folder that says what counts, and a collection that holds the vectors.

The folder holds `index.json`, the ids (the ledger), what a vector of the index is like (`space`), and, if that is where
the vectors are, the embedded engine's files and (in `space`) a copy of the vectors. Everything that counts is named in
`index.json`, which is replaced in one step.

Embedded, every change is made in a copy of the engine's folder, which then takes the place of the old one; who searches
meanwhile keeps the old one to the end.

On a server, points change in place, and one request after another. So the ids of a change are written down in the
folder before anything is sent (`pending`). Points that the ledger does not know are passed over when searching, and the
next change removes those that a killed one has left. A deletion counts from the moment at which the ledger is without
it, an addition when all of its points are there.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import ConfigurationError, EmbeddingError
from visir.files import atomic_folder, atomic_path
from visir.progress import Progress
from visir.search.folder import IndexFolderError, bytes_of, changing, check, new_folder, publish, read_manifest
from visir.search.remote.edge import EdgeEngine, copied
from visir.search.remote.engine import Engine, EngineError, Space
from visir.search.remote.ledger import Ledger
from visir.search.remote.making import noted
from visir.search.remote.points import Point, keys_of
from visir.search.remote.server import ServerEngine

Batches = Callable[[], Iterator[list[Point]]]
"""The points to put in, piece by piece."""
WriteSpace = Callable[[Ledger, Path], None]
"""Writes what the folder is to keep of the vectors, for the documents of a ledger, into an empty folder."""
ReadSpace = Callable[[Path, Mapping[str, Any]], Any]
"""Reads it back, given the manifest."""
_AT_ONCE = 1000
"""Points deleted in one request."""


@dataclass(frozen=True)
class State:
    """Everything that changes, changed by replacing all of it.

    `own`: what the folder keeps of the vectors: all of them in the order of the ledger beside an embedded engine, none
    of them (but what they are like) on a server.
    """

    ledger: Ledger
    engine: Engine
    own: Any
    generation: int
    bytes: int


class Kept:
    """A folder and its collection. `facts` are what else the manifest says; a folder of None is a temporary one."""

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], settings: Any, state: State, read_space: ReadSpace
    ) -> None:
        self.folder = folder
        self.manifest = manifest
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
        batches: Batches,
        write_space: Callable[[Path], None],
        read_space: ReadSpace,
    ) -> Kept:
        """A new one, in a new or empty folder.

        Raises `ConfigurationError` for an address without a folder, `EngineError` for a collection that is there.
        """
        if folder is None:
            if settings.url:
                raise ConfigurationError(
                    "an index on a server needs a folder: it says what of the collection counts.",
                    hint="name one (--out FOLDER); it takes some tens of bytes for each document",
                )
            scratch = Path(tempfile.mkdtemp(prefix="visir-index-"))
            made = cls.create(scratch / "index", facts, settings, spaces, ids, batches, write_space, read_space)
            weakref.finalize(made, shutil.rmtree, scratch, ignore_errors=True)
            return made
        index = uuid4().hex
        if settings.url and not settings.collection:
            settings = replace(settings, collection=_named_after(folder, index))
        with contextlib.ExitStack() as noting, contextlib.ExitStack() as undone, new_folder(folder) as temporary:
            manifest: dict[str, Any] = {**facts, "generation": 1, "settings": asdict(settings)}
            names = [manifest.setdefault("ids", "ids-1.parquet"), manifest.setdefault("space", "space")]
            (temporary / "space").mkdir()
            write_space(temporary / "space")
            Ledger.of(ids, facts["modality"]).write(temporary / manifest["ids"])
            if settings.url:
                manifest["index"] = index
                noting.enter_context(noted(folder, settings, index))
                server = ServerEngine.create(settings.collection, spaces, settings, index)
                undone.callback(_destroyed, server)
                _fill(server, batches(), len(ids))
                server.mark(manifest["index"], 1)
            else:
                manifest["engine"] = "engine-1"
                names.append("engine-1")
                (temporary / "engine-1").mkdir()
                edge = EdgeEngine.create(temporary / "engine-1", spaces, settings)
                _fill(edge, batches(), len(ids))
                edge.close()
                EdgeEngine.seal(temporary / "engine-1")
            publish(temporary, manifest, names)
            undone.pop_all()
        return cls.load(folder, type(settings), read_space)

    @classmethod
    def load(cls, folder: Path, settings_type: type[Any], read_space: ReadSpace) -> Kept:
        """What is in `folder`. `IndexFolderError` for a damaged one, `EngineError` where its server is not there."""
        while True:
            manifest = read_manifest(folder)
            try:
                check(folder, manifest)
                settings = settings_type(**manifest["settings"])
                ledger = Ledger.read(folder / manifest["ids"], manifest["modality"])
                own = read_space(folder / manifest["space"], manifest)
                engine = _engine(folder, manifest, settings)
                state = State(ledger, engine, own, manifest["generation"], bytes_of(manifest))
                return cls(folder, manifest, settings, state, read_space)
            except (IndexFolderError, EmbeddingError, KeyError, TypeError, ValueError, OSError) as fault:
                # Another process may have replaced files while they were read; then there is a newer list of them.
                if read_manifest(folder).get("generation") != manifest.get("generation"):
                    continue
                if isinstance(fault, IndexFolderError):
                    raise
                raise IndexFolderError(
                    f"{folder}: the index is damaged: {type(fault).__name__}: {fault}",
                    hint="build the index again (visir index build)",
                ) from fault

    def save(self, folder: Path) -> None:
        """A copy of an embedded one, in a new or empty folder."""
        manifest = read_manifest(self.folder)
        with new_folder(folder) as temporary:
            copied_files = {name.split("/")[0] for name in manifest["files"]}
            for name in sorted(copied_files):
                if (self.folder / name).is_dir():
                    copied(self.folder / name, temporary / name)
                else:
                    shutil.copyfile(self.folder / name, temporary / name)
            publish(temporary, {key: value for key, value in manifest.items() if key != "files"}, copied_files)

    def add(self, ids: pa.StringArray, batches: Batches, write_space: WriteSpace | None = None) -> None:
        """Add documents; those that are there already are an error that names them.

        `write_space`: where the folder keeps more of the vectors than what they are like.
        """
        self.state.ledger.refuse_there(ids)
        if len(ids):
            self._change(self.state.ledger.add(ids), ids, batches, write_space)

    def delete(self, ids: object, write_space: WriteSpace | None = None) -> None:
        """Delete documents; unknown ids are an error that names them."""
        ledger, gone = self.state.ledger.delete(ids)
        if len(gone):
            self._change(ledger, gone, None, write_space)

    def _change(
        self, ledger: Ledger, touched: pa.StringArray, put: Batches | None, write_space: WriteSpace | None
    ) -> None:
        """Put the points of `put` in, or take those of the touched ids out."""
        with changing(self.folder, self.state.generation) as generation:
            manifest = {**read_manifest(self.folder), "generation": generation, "ids": f"ids-{generation}.parquet"}
            with atomic_path(self.folder / manifest["ids"]) as path:
                ledger.write(path)
            if write_space is not None:
                manifest["space"] = f"space-{generation}"
                with atomic_folder(self.folder / manifest["space"]) as temporary:
                    write_space(ledger, temporary)
            if self.settings.url:
                self._change_server(ledger, touched, put, manifest)
            else:
                self._change_embedded(ledger, touched, put, manifest)

    def _change_embedded(
        self, ledger: Ledger, touched: pa.StringArray, put: Batches | None, manifest: dict[str, Any]
    ) -> None:
        before = self.folder / manifest["engine"]
        manifest["engine"] = f"engine-{manifest['generation']}"
        with atomic_folder(self.folder / manifest["engine"]) as temporary:
            copied(before, temporary)
            engine = EdgeEngine.writable(temporary)
            _drop(engine, touched) if put is None else _fill(engine, put(), len(touched))
            engine.close()
            EdgeEngine.seal(temporary)
        self._publish(ledger, EdgeEngine.readable(self.folder / manifest["engine"]), manifest)

    def _change_server(
        self, ledger: Ledger, touched: pa.StringArray, put: Batches | None, manifest: dict[str, Any]
    ) -> None:
        engine, now = self.state.engine, read_manifest(self.folder)
        assert isinstance(engine, ServerEngine)
        engine.check(manifest["index"], now["generation"])
        if "pending" in now:
            left = Ledger.read(self.folder / now["pending"], manifest["modality"]).ids
            _drop(engine, left.filter(pc.invert(pc.is_in(left, self.state.ledger.ids))))
        pending = f"pending-{manifest['generation']}.parquet"
        with atomic_path(self.folder / pending) as path:
            Ledger.of(touched, manifest["modality"]).write(path)
        if put is None:
            self._publish(ledger, engine, {**manifest, "pending": pending})
            _drop(engine, touched)
        else:
            # What counts is still the ledger before; only the pending ids are new.
            self._publish(self.state.ledger, engine, {**now, "pending": pending})
            _fill(engine, put(), len(touched))
        engine.mark(manifest["index"], manifest["generation"])
        manifest.pop("pending", None)
        self._publish(ledger, engine, manifest)

    def _publish(self, ledger: Ledger, engine: Engine, manifest: Mapping[str, Any]) -> None:
        said = {key: value for key, value in manifest.items() if key != "files"}
        size = publish(self.folder, said, [said[one] for one in ("ids", "space", "engine", "pending") if one in said])
        self.manifest = said
        own = self._read_space(self.folder / said["space"], said)
        self.state = State(ledger, engine, own, said["generation"], size)


def _engine(folder: Path, manifest: Mapping[str, Any], settings: Any) -> Engine:
    if not settings.url:
        try:
            return EdgeEngine.readable(folder / manifest["engine"])
        except Exception as fault:
            if type(fault) is not Exception:  # the engine raises this very type, whatever is wrong
                raise
            raise IndexFolderError(
                f"{folder}: the embedded engine cannot read its files: {fault}",
                hint="were they written by a newer qdrant-edge-py? else build the index again (visir index build)",
            ) from fault
    server = ServerEngine(settings.collection, settings)
    server.check(manifest["index"], manifest["generation"])
    return server


def _fill(engine: Engine, batches: Iterator[list[Point]], total: int) -> None:
    with Progress("into the engine", total, "documents") as advance:
        for batch in batches:
            engine.put(batch)
            advance(len(batch))
    engine.settle()


def _drop(engine: Engine, ids: pa.StringArray) -> None:
    keys = keys_of(ids)
    for start in range(0, len(keys), _AT_ONCE):
        engine.drop(keys[start : start + _AT_ONCE])
    engine.settle()


def _destroyed(server: ServerEngine) -> None:
    """After a build that failed: leave nothing on the server, if it still answers."""
    with contextlib.suppress(EngineError):
        server.destroy()


def _named_after(folder: Path, index: str) -> str:
    """A name for the collection: the folder's, and a piece of the index's number, so that no two meet by chance."""
    kept = "".join(one if one.isalnum() and one.isascii() else "-" for one in folder.name)[:60].strip("-")
    return f"visir-{kept}-{index[:12]}" if kept else f"visir-{index[:12]}"
