"""What indexes made of immutable parts have in common: everything but the search itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

import numpy as np
import pyarrow as pa

from visir.errors import ConfigurationError, EmbeddingError
from visir.records import EncoderCard, Run, modality_of
from visir.search.answers import Hits, run_of
from visir.search.folder import (
    BUILD_AGAIN,
    INDEX,
    IndexFolderError,
    bytes_of,
    changing_index,
    check_files,
    new_index,
    parts_of,
    read_index,
)
from visir.search.index import Index, IndexInfo, Vectors
from visir.search.parts import Form
from visir.search.rows import Rows
from visir.search.settings import searching, settings_of
from visir.search.validate_queries import in_order
from visir.storage import FolderChange, Manifest, Scratch


@dataclass(frozen=True)
class IndexState(Generic[Vectors]):
    """Everything that changes, changed by replacing all of it: who searches meanwhile has the old one to its end.

    - `built`: what the kind makes of the rows (a graph, lists); never changed, only replaced; it holds no rows, because
      those are exchanged for memory-mapped ones once they are written
    - `names`: in which subfolder each part lies; empty for an index in memory
    """

    rows: Rows[Vectors]
    built: Any
    names: tuple[str, ...] = ()
    generation: int = 0
    bytes: int = 0


class StoredIndex(Index[Vectors]):
    """An index of parts that never change, a list of deleted rows, and what the kind builds from them.

    A kind says which `form` of vectors it takes, what its `settings_type` is, how to `_construct` what it searches with
    (and, where it can do better than anew, how to `_extend` it), how to `_write` and `_read` it, and how to `_find`.

    When more than half of the rows are deleted, the rest is written as one part and built anew.
    """

    form: ClassVar[Form[Any]]
    settings_type: ClassVar[type[Any]]
    exact: ClassVar[bool]
    built_suffix: ClassVar[str] = ""
    """What the name of the file that `_write` writes ends in, for libraries that ask for it."""

    def __init__(self, state: IndexState[Vectors], settings: Any, folder: Path | None = None) -> None:
        self._state: IndexState[Vectors] = state
        self.settings = settings
        self.folder = folder

    @classmethod
    def build(cls, documents: Vectors, folder: Path | None = None, **options: Any) -> Self:
        """An index of `documents`; `options` are the kind's settings. In `folder`, if one is given, else in memory.

        Raises `ConfigurationError` that lists every fault of the settings.
        """
        settings = settings_of(cls.kind, cls.settings_type, options)
        if len(documents) == 0:
            raise EmbeddingError("there is no vector to index.", hint="is the split, or the filter, right?")
        rows = Rows.of(cls.form, documents)
        index = cls(IndexState(rows, None), settings)
        index._state = IndexState(rows, index._construct(rows))
        if folder is None:
            return index
        index.save(Path(folder))
        return cls.load(Path(folder))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The index in `folder`, its vectors memory-mapped. Raises `IndexFolderError` for a damaged one."""
        folder = Path(folder)
        while True:
            manifest = read_index(folder)
            try:
                return cls._load(folder, manifest)
            except IndexFolderError:
                # Another process may have replaced files while they were read; then there is a newer list of them.
                if read_index(folder).generation == manifest.generation:
                    raise

    def save(self, folder: Path) -> None:
        """Write a copy into `folder`, which must be new or empty."""
        with new_index(Path(folder)) as change:
            self._write_state(change, IndexState(self._state.rows, self._state.built), None)

    def add(self, documents: Vectors) -> None:
        """Add documents. Ids that are there already, another encoder, dimension or modality are errors."""
        before = self._state
        rows = before.rows.add(documents)
        if len(documents):
            self._change(rows, lambda: self._extend(before.built, before.rows, rows))

    def delete(self, ids: object) -> None:
        """Delete documents by id; unknown ids are an error that names them, and then nothing is deleted."""
        before = self._state
        rows = before.rows.delete(ids)
        if rows.dead.sum() * 2 > len(rows):
            compact = rows.compact()
            self._change(compact, lambda: self._construct(compact))
        else:
            self._change(rows, lambda: self._extend(before.built, before.rows, rows))

    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """The best `k` documents of each query, by falling score, ties by id; queries in order of their ids.

        `options` are those settings of the kind that only the search depends on, in place of the index's own.
        """
        state = self._state
        ordered = in_order(self.form, queries, state.rows.parts[0], len(state.rows.live), k)
        settings = searching(self.kind, self.settings, options)
        hits = self._find(state.rows, state.built, ordered, min(k, len(state.rows.live)), settings)
        about = {"search": self.kind, **asdict(settings)}
        held = state.rows.parts[0].encoder
        return run_of(hits, ordered.ids, (queries.modality, queries.encoder), state.rows.gallery, k, held, about)

    def info(self) -> IndexInfo:
        """What the index says of itself."""
        rows, first = self._state.rows, self._state.rows.parts[0]
        return IndexInfo(
            kind=self.kind,
            exact=self.exact,
            modality=first.modality,
            documents=len(rows.live),
            deleted=int(rows.dead.sum()),
            dimension=first.dimension,
            bytes=self._state.bytes or self._size(),
            encoder=first.encoder.name,
            details={"parts": len(rows.parts), **asdict(self.settings), **self._details(rows, self._state.built)},
        )

    @property
    def ids(self) -> pa.StringArray:
        """The ids of all documents, sorted."""
        return self._state.rows.ids

    def documents(self) -> Vectors:
        """All documents, in order of their ids (copied into memory)."""
        return self._state.rows.documents()

    def select(self, ids: object) -> Vectors:
        """The vectors of these documents, in this order; unknown ids are an error that names them."""
        return self._state.rows.select(ids)

    @abstractmethod
    def _find(self, rows: Rows[Vectors], built: Any, queries: Vectors, k: int, settings: Any) -> Hits:
        """The best `k` documents of each query (more of them, in any order, are no harm)."""

    @abstractmethod
    def _construct(self, rows: Rows[Vectors]) -> Any:
        """What the kind searches with."""

    def _extend(self, built: Any, before: Rows[Vectors], after: Rows[Vectors]) -> Any:
        """The same after rows were appended or deleted; `built` itself stays as it is."""
        return self._construct(after)

    def _has_file(self, built: Any) -> bool:
        """Whether `built` is worth a file: what is made quickly from the rows is not."""
        return False

    def _write(self, built: Any, path: Path) -> None:
        """Write `built` into one file."""

    def _read(self, rows: Rows[Vectors], path: Path | None, facts: Mapping[str, Any]) -> Any:
        """What `_write` wrote (`path` is None where there is no file); `facts` are what `_facts` said."""
        return self._construct(rows)

    def _facts(self, built: Any) -> dict[str, Any]:
        """What the manifest keeps of `built` beside its file."""
        return {}

    def _details(self, rows: Rows[Vectors], built: Any) -> dict[str, Any]:
        """What else `info` says."""
        return {}

    def _change(self, rows: Rows[Vectors], build: Any) -> None:
        """Put a new state into the place of the old one, on disk too if the index has a folder."""
        before = self._state
        if self.folder is None:
            self._state = IndexState(rows, build())
            return
        with changing_index(self.folder, before.generation) as change:
            self._state = self._write_state(change, IndexState(rows, build()), before)

    def _write_state(
        self, change: FolderChange, state: IndexState[Vectors], before: IndexState[Vectors] | None
    ) -> IndexState[Vectors]:
        """Write what `before` has not written yet and make it count; the same state, memory-mapped from there."""
        generation = change.manifest.generation + 1
        first = state.rows.parts[0]
        names: list[str] = []
        parts: list[Vectors] = []
        for at, part in enumerate(state.rows.parts):
            if before is not None and at < len(before.names) and before.rows.parts[at] is part:
                names.append(before.names[at])
                parts.append(part)
                continue
            names.append(f"part-{generation}-{at}")
            self.form.write(part, change.subfolder(names[-1], *self.form.files))
            change.written(names[-1])
            parts.append(self.form.read(change.folder / names[-1], first.modality, first.encoder))
        content: dict[str, Any] = {
            "kind": self.kind,
            "modality": first.modality,
            "encoder": first.encoder.to_dict(),
            "settings": asdict(self.settings),
            "parts": names,
        }
        counted = [*names]
        if state.rows.dead.any():
            content["deleted"] = f"deleted-{generation}.npy"
            np.save(change.file(content["deleted"]), np.flatnonzero(state.rows.dead))
            counted.append(content["deleted"])
        if self._has_file(state.built):
            content["built"] = f"built-{generation}{self.built_suffix}"
            self._write(state.built, change.file(content["built"]))
            counted.append(content["built"])
        content["facts"] = self._facts(state.built)
        change.keep_only(*counted)
        manifest = change.commit(content)
        rows = Rows(self.form, tuple(parts), state.rows.dead)
        return IndexState(rows, state.built, tuple(names), manifest.generation, bytes_of(manifest))

    @classmethod
    def _load(cls, folder: Path, manifest: Manifest) -> Self:
        check_files(folder, manifest)
        content = manifest.content
        try:
            with INDEX.reading(folder):
                encoder, modality = EncoderCard.from_dict(content["encoder"]), modality_of(content["modality"])
                names = parts_of(manifest)
                parts = tuple(cls.form.read(folder / name, modality, encoder) for name in names)
                dead = np.zeros(sum(map(len, parts)), np.bool_)
                if "deleted" in content:
                    dead[np.load(folder / content["deleted"], allow_pickle=False)] = True
                settings = settings_of(cls.kind, cls.settings_type, content["settings"])
                rows = Rows(cls.form, parts, dead)
                index = cls(IndexState(rows, None), settings, folder)
                path = folder / content["built"] if "built" in content else None
                built = index._read(rows, path, content["facts"])
                index._state = IndexState(rows, built, names, manifest.generation, bytes_of(manifest))
                return index
        except (OSError, RuntimeError, EmbeddingError, ConfigurationError) as fault:
            raise IndexFolderError(
                f"{folder}: the index is damaged: {type(fault).__name__}: {fault}", hint=BUILD_AGAIN
            ) from fault

    def _size(self) -> int:
        """What saving would take, found by doing it: libraries do not say how large their files will be."""
        with Scratch.temporary("index") as scratch:
            folder = scratch.made("index")
            self.save(folder)
            return bytes_of(read_index(folder))
