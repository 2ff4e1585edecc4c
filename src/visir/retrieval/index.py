"""Indexes: what every one can do, and all of those that lie in a folder except the search of their kind.

Vectors stand in immutable parts (`visir.retrieval.rows`), with a list of deleted rows, and beside them what a kind
builds over them. A change writes new files and publishes a new list of files.
"""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import visir.plugins as plugins
from visir.arrays import load_array
from visir.display import Displayed, brief, counted, listed
from visir.errors import ConfigurationError, EmbeddingError, VisirError
from visir.records import EncoderCard, Modality, Run, modality_of
from visir.records.columns import ids_at
from visir.retrieval.answers import Hits, run_of
from visir.retrieval.rows import Form, Rows, Vectors, check_fits_index, check_same_modality, check_same_model
from visir.retrieval.settings import searching, settings_of
from visir.retrieval.vectors import in_order
from visir.storage import (
    MANIFEST,
    FolderChange,
    FolderKind,
    LateCheck,
    Manifest,
    Scratch,
    changing,
    check_folder,
    check_new_folder,
    is_begun,
    is_made_by_visir,
    new_folder,
)
from visir.storage.disk import below, disk_faults

if TYPE_CHECKING:
    from visir.encoders import Parts
    from visir.encoders.parts_folder import PartsSummary


@dataclass(frozen=True)
class IndexInfo:
    """A description of an index."""

    kind: str  # the name of the kind in `visir.retrieval.kinds.KINDS`
    exact: bool  # whether every answer is the exact best
    modality: Modality  # the modality of the documents
    documents: int  # the number of documents, without deleted ones
    deleted: int  # the number of documents that are deleted and not yet removed
    dimension: int  # the length of a dense vector, or the size of the vocabulary
    bytes: int  # the size on disk; for an index in memory the size that it would have
    encoder: str  # the name of the model that computed the vectors
    details: dict[str, Any]  # further numbers and settings (postings, segments, parameters)

    @property
    def place(self) -> str:
        """The table or collection and the address of an index on a server; "" of one that lies in its folder."""
        from visir.retrieval.remote.settings import place_on_server

        on_server = self.details.get("url") and self.details.get("collection")
        return place_on_server(self.details) if on_server else ""


class Index(ABC, Generic[Vectors]):
    """An index over the vectors of one modality.

    `visir.retrieval.build_index` and `open_index` make one of any kind. `search` returns the same `Run` as every other
    search. An index in a folder is changed there, atomically: a killed call leaves the index as it was before the
    call, or as it is after.

    Ids are unique. Queries must have the same encoder and dimension as the documents.
    """

    kind: str

    @classmethod
    @abstractmethod
    def build(cls, documents: Vectors, folder: Path | None = None, **options: Any) -> Self:
        """Build an index.

        Args:
            documents: At least one vector.
            folder: A new or an empty folder for the index; None builds it in memory.
            options: The settings of the kind (`visir index kinds` lists them).

        Raises:
            ConfigurationError: Settings are wrong; the message lists every fault.
            EmbeddingError: There are no vectors, or vectors that this kind cannot index.
            IndexFolderError: The folder is not empty.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Open the index in a folder; large arrays are memory-mapped.

        Raises:
            IndexFolderError: The folder holds no index of this kind, or a damaged one.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write a copy of the index into a new or an empty folder.

        Raises:
            IndexFolderError: The folder is not empty.
        """

    @abstractmethod
    def add(self, documents: Vectors) -> None:
        """Add documents.

        Raises:
            EmbeddingError: An id is in the index already (delete it first), or the vectors have another modality,
                encoder or dimension.
        """

    @abstractmethod
    def delete(self, ids: object) -> None:
        """Delete documents by id.

        Raises:
            EmbeddingError: An id is unknown; then nothing is deleted.
        """

    @abstractmethod
    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """Return the best `k` documents of each query: by falling score, equal scores by id.

        Args:
            queries: The vectors of the queries.
            k: The number of documents per query, from 1.
            options: Settings of the kind that may change from search to search, instead of those of the index.

        Raises:
            ConfigurationError: A setting is unknown, or is fixed when the index is built.
            EmbeddingError: The queries have another encoder or dimension than the documents.
            RunError: `k` is wrong, there is no query, or the index is empty.
        """

    @property
    @abstractmethod
    def ids(self) -> pa.StringArray:
        """The ids of all documents, sorted."""

    @property
    def encoder(self) -> EncoderCard:
        """The card of the model that made the vectors."""
        return self.select(self.ids[:1]).encoder

    @abstractmethod
    def documents(self) -> Vectors:
        """Return the vectors of all documents, in order of their ids, copied into memory."""

    @abstractmethod
    def select(self, ids: object) -> Vectors:
        """Return the vectors of these documents, in this order.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """

    @abstractmethod
    def info(self) -> IndexInfo:
        """Return a description of the index."""


# An index on disk: a folder of files that never change; `visir.json` lists those that belong to the index.

LATE = 8 << 20
"""From so many bytes on an array is hashed while it is in use; smaller ones take less than 10 ms."""


class IndexFolderError(VisirError):
    """The folder of an index is missing, damaged, or of another kind."""


BUILD_AGAIN = (
    "build the index again: visir index build COLLECTION --model MODEL --kind KIND --out FOLDER; or copy the folder "
    "again if it came from elsewhere"
)
INDEX = FolderKind(
    "index",
    "an index",
    remedy=BUILD_AGAIN,
    error=IndexFolderError,
    exists="name a new folder, add to the index (visir index add), or delete it first",
)


def read_index(folder: Path) -> Manifest:
    """Return the manifest of an index; its `content` has at least the `kind`."""
    if is_made_by_visir(folder, "parts"):
        raise IndexFolderError(
            f"{folder}: a folder of parts, not yet an index.",
            hint=f"make one: visir index build {shlex.quote(str(folder))} --out NEW",
        )
    manifest = Manifest.read(folder, INDEX)
    if not isinstance(manifest.content.get("kind"), str):
        raise IndexFolderError(f"{folder}: its visir.json names no kind of index.", hint=BUILD_AGAIN)
    return manifest


def parts_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the parts of an index: at least one, each a folder of listed files."""
    names, folders = manifest.content["parts"], {name.partition("/")[0] for name in manifest.files}
    if not isinstance(names, list) or not names or not folders.issuperset(names):
        raise ValueError(f"its parts cannot be {names!r}")
    return tuple(names)


def recall_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured when an index was built; nothing of one whose recall nobody asked for."""
    measured = content.get("recall", {})
    if not isinstance(measured, dict) or (measured and not isinstance(measured.get("found"), float)):
        raise ValueError(f"its recall cannot be {measured!r}")
    return measured


def check_files(folder: Path, manifest: Manifest) -> LateCheck:
    """Check the files of an index before any is read, but for large arrays: those are mapped, and hashed in a
    thread."""
    late = late_files(manifest)
    check_folder(folder, manifest, INDEX, names=lambda name: name not in late)
    return LateCheck(folder, manifest, late, INDEX)


def late_files(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the large arrays of an index, smallest first."""
    large = [(record.bytes, name) for name, record in manifest.files.items() if record.bytes >= LATE]
    return tuple(name for _, name in sorted(large) if name.endswith(".npy"))


def changing_index(folder: Path, generation: int) -> AbstractContextManager[FolderChange]:
    """Lock the index in a folder for a change."""
    waiting = "another process is changing this index; waiting for it"
    return changing(folder, INDEX, busy=waiting, make=False, generation=generation)


def new_index(folder: Path) -> AbstractContextManager[FolderChange]:
    """Write an index into a new or an empty folder."""
    _check_not_finished(folder)
    return new_folder(folder, INDEX)


def check_new_index(folder: Path) -> None:
    """Check that an index can be written into this folder: a new or an empty one, or one that a killed build left."""
    _check_not_finished(folder)
    # A build in parts that was killed may be gone on from by the same build.
    if not (folder.is_dir() and not (folder / MANIFEST).exists() and is_begun(folder)):
        check_new_folder(folder, INDEX)


def _check_not_finished(folder: Path) -> None:
    """Raise `IndexFolderError` where an index is whole: the same command, run again, has nothing left to do."""
    try:
        content = read_index(folder).content if (folder / MANIFEST).is_file() else None
    except VisirError:  # of another kind, or damaged: what is said of every folder
        return
    if content is not None:
        encoder = content.get("encoder")
        maker = encoder.get("name", "unknown") if isinstance(encoder, dict) else "unknown"
        raise IndexFolderError(
            f"{folder}: exists already: a finished index of kind {content['kind']!r}, by {maker}. Nothing was built.",
            hint=f"if it is the one you want, search it (visir index search {shlex.quote(str(folder))}); "
            f"else {INDEX.exists}",
            code="index-folder-exists-already",
        )


def bytes_of(manifest: Manifest) -> int:
    """Return the size of all listed files."""
    return sum(record.bytes for record in manifest.files.values())


@dataclass(frozen=True, repr=False)
class IndexState(Displayed, Generic[Vectors]):
    """The state of an index. A change replaces it as a whole, so a search that is running keeps the old state."""

    rows: Rows[Vectors]  # the vectors and deleted rows
    # The structure that the kind builds over the rows (a graph, lists). It is replaced, never changed, and contains no
    # rows, because written rows are replaced by memory-mapped ones.
    built: Any
    names: tuple[str, ...] = ()  # the subfolder of each part; empty for an index in memory
    generation: int = 0  # the number of changes on disk
    bytes: int = 0  # the size on disk; 0 for an index in memory


class StoredIndex(Index[Vectors]):
    """An index of immutable parts, a list of deleted rows, and a structure that the kind builds over them."""

    # A kind defines its `form` of vectors, its `settings_type`, and how to `_find` documents. One that builds a
    # structure over its rows defines how to `_construct` it (and, if that is faster, how to `_extend` it), and one that
    # keeps it in a file how to `_write` and `_read` it, and the suffix of the file.
    # When more than half of the rows are deleted, the others are written as one part and the structure is built again.

    form: ClassVar[Form[Any]]
    settings_type: ClassVar[type[Any]]
    exact: ClassVar[bool]
    built_suffix: ClassVar[str | None] = None
    """The suffix of the file that `_write` writes; None where a structure is quick to build, and none is written."""

    def __init__(self, state: IndexState[Vectors], settings: Any, folder: Path | None = None) -> None:
        self._state: IndexState[Vectors] = state
        self.settings = settings
        self.folder = folder
        self._late: LateCheck | None = None
        self.recall: dict[str, Any] = {}  # what was measured of an approximate index when it was built
        self._about = self._how(settings)

    def __repr__(self) -> str:
        documents = f"{counted(len(self.ids), 'vectors')}{f', in {self.folder}' if self.folder else ', in memory'}"
        return brief(self, f"{self.kind}: {documents}", f"ids: {listed(self.ids[:3].to_pylist(), len(self.ids))}")

    @classmethod
    def build(
        cls, documents: Vectors, folder: Path | None = None, *, queries: Vectors | None = None, **options: Any
    ) -> Self:
        settings = settings_of(cls.kind, cls.settings_type, options)
        if len(documents) == 0:
            raise EmbeddingError(
                "there is no vector to index.", hint="is the split, or the filter, right?", code="no-vector-index"
            )
        rows = Rows.of(cls.form, cls._as_stored(documents, None, settings))
        index = cls(IndexState(rows, None), settings)
        index._state = IndexState(rows, index._construct(rows))
        index._calibrate(queries)
        if folder is None:
            return index
        index.save(Path(folder))
        return cls.load(Path(folder))

    @classmethod
    def load(cls, folder: Path) -> Self:
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
        self._settle(wholly=True)
        with new_index(Path(folder)) as change:
            self._write_state(change, IndexState(self._state.rows, self._state.built), None)

    def add(self, documents: Vectors) -> None:
        before = self._state
        held = before.rows.parts[0]
        check_fits_index(self.form, documents, held, added=True)
        rows = before.rows.add(self._as_stored(documents, held, self.settings) if len(documents) else documents)
        if len(documents):
            self._change(rows, lambda: self._extend(before.built, rows))

    def delete(self, ids: object) -> None:
        before = self._state
        rows = before.rows.delete(ids)
        if rows.dead.sum() * 2 > len(rows):
            compact = rows.compact()
            self._change(compact, lambda: self._construct(compact))
        else:
            self._change(rows, lambda: before.built)

    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """Return the best `k` documents of each query: by falling score, ties by id; queries in order of their ids."""
        state, settings = self._state, searching(self.kind, self.settings, options)
        ordered, hits = self._found(state, queries, k, settings)
        about = self._about if settings is self.settings else self._how(settings)
        return run_of(hits, ordered, state.rows.gallery, k, state.rows.parts[0].encoder, about)

    def _how(self, settings: Any) -> dict[str, Any]:
        """What a run says of its search."""
        measured = {"recall_found": self.recall["found"]} if self.recall and settings is self.settings else {}
        return {"search": self.kind, **asdict(settings), **measured}

    def _efforts(self, rows: Rows[Vectors]) -> Sequence[dict[str, int]]:
        """Return settings of a search in order of their cost, of which a wanted `recall` takes one."""
        return ()

    def _calibrate(self, queries: Vectors | None) -> None:
        """Choose the effort that finds the share of the exact answers that is wanted, if one is."""
        wanted, rows = getattr(self.settings, "recall", 0.0), self._state.rows
        if not wanted:
            return
        from visir.retrieval.recall import calibrated

        kind = plugins.part("usual kind of index")(rows.parts[0]).index()
        same = {"similarity": self.settings.similarity} if hasattr(self.settings, "similarity") else {}
        exact: Any = kind(IndexState(rows, None), kind.settings_type(**same))
        effort, self.recall = calibrated(self, exact, self._efforts(rows), wanted, queries)
        self.settings = replace(self.settings, **effort)
        self._about = self._how(self.settings)

    def lists(self, queries: Vectors, k: int = 10) -> dict[str, list[tuple[str, float]]]:
        """Return what `search` does as plain lists: from query to (document, score), best first."""
        # A service that answers one query at a time needs no record of a run, which takes longer to make than to read.
        state = self._state
        ordered, hits = self._found(state, queries, k, self.settings)
        offsets, places, scores = hits.best(len(ordered), k)
        if not np.isfinite(scores).all():
            self.search(queries, k)  # which names the pair
        documents = ids_at(state.rows.ids, places)
        entries, cuts = list(zip(documents, scores.tolist(), strict=True)), offsets.tolist()
        return {
            query: entries[start:stop]
            for query, start, stop in zip(ordered.ids.to_pylist(), cuts[:-1], cuts[1:], strict=True)
        }

    def info(self) -> IndexInfo:
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
            details={
                "parts": len(rows.parts),
                **asdict(self.settings),
                **{f"recall {name}": value for name, value in self.recall.items() if name != "wanted"},
                **self._details(rows, self._state.built),
            },
        )

    @property
    def ids(self) -> pa.StringArray:
        return self._state.rows.ids

    @property
    def encoder(self) -> EncoderCard:
        return self._state.rows.parts[0].encoder

    def documents(self) -> Vectors:
        self._settle(wholly=True)
        return self._state.rows.documents()

    def select(self, ids: object) -> Vectors:
        self._settle()
        return self._state.rows.select(ids)

    @classmethod
    def _as_stored(cls, documents: Vectors, held: Vectors | None, settings: Any) -> Vectors:
        """Return vectors as the index holds them: in another precision, or compressed."""
        return documents

    def _found(self, state: IndexState[Vectors], queries: Vectors, k: int, settings: Any) -> tuple[Vectors, Hits]:
        """Return the queries in order of their ids, and at least the best `k` documents of each."""
        ordered = in_order(self.form, queries, state.rows.parts[0], len(state.rows.live), k)
        hits = self._find(state.rows, state.built, ordered, min(k, len(state.rows.live)), settings)
        self._settle()  # after the work, which goes on beside the check
        return ordered, hits

    def _settle(self, *, wholly: bool = False) -> None:
        """Raise `IndexFolderError` where the large files are not as they were written; see `LateCheck.settle`."""
        if self._late is not None:
            self._late.settle(wholly=wholly)

    @abstractmethod
    def _find(self, rows: Rows[Vectors], built: Any, queries: Vectors, k: int, settings: Any) -> Hits:
        """Return at least the best `k` documents of each query, in any order."""

    def _construct(self, rows: Rows[Vectors]) -> Any:
        """Build the structure of the kind over the rows."""

    def _extend(self, built: Any, after: Rows[Vectors]) -> Any:
        """Build the structure after rows were appended, without a change of `built`."""
        return self._construct(after)

    def _has_file(self, built: Any) -> bool:
        return self.built_suffix is not None

    def _write(self, built: Any, path: Path) -> None:
        """Write `built` into one file."""

    def _read(self, rows: Rows[Vectors], path: Path | None, facts: Mapping[str, Any]) -> Any:
        """Read the file of `_write` (`path` is None if there is none); `facts` are those of `_facts`."""
        return self._construct(rows)

    def _facts(self, built: Any) -> dict[str, Any]:
        """Return the facts about `built` for the manifest."""
        return {}

    def _details(self, rows: Rows[Vectors], built: Any) -> dict[str, Any]:
        """Return further details for `info`."""
        return {}

    def _change(self, rows: Rows[Vectors], build: Any) -> None:
        """Replace the state, on disk too if the index has a folder."""
        before = self._state
        if self.folder is None:
            self._state = IndexState(rows, build())
            return
        self._settle(wholly=True)
        with changing_index(self.folder, before.generation) as change:
            self._state = self._write_state(change, IndexState(rows, build()), before)

    def _write_state(
        self, change: FolderChange, state: IndexState[Vectors], before: IndexState[Vectors] | None
    ) -> IndexState[Vectors]:
        """Write the parts that `before` has not, publish them, and return the state memory-mapped from disk."""
        # The number in the names of new files: the generation, unless files of another state have it.
        names_of_parts = [f"part-{{}}-{number}" for number in range(len(state.rows.parts))]
        built_name = f"built-{{}}{self.built_suffix or ''}"
        generation = change.manifest.generation + 1
        number_of_files = change.free_number(generation, *names_of_parts, "deleted-{}.npy", built_name)
        first = state.rows.parts[0]
        names: list[str] = []
        parts: list[Vectors] = []
        for number, part in enumerate(state.rows.parts):
            if before is not None and number < len(before.names) and before.rows.parts[number] is part:
                names.append(before.names[number])
                parts.append(part)
                continue
            names.append(f"part-{number_of_files}-{number}")
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
            content["deleted"] = f"deleted-{number_of_files}.npy"
            np.save(change.file(content["deleted"]), np.flatnonzero(state.rows.dead))
            counted.append(content["deleted"])
        if self._has_file(state.built):
            content["built"] = built_name.format(number_of_files)
            self._write(state.built, change.file(content["built"]))
            counted.append(content["built"])
        content["facts"] = self._facts(state.built)
        if self.recall:
            content["recall"] = self.recall
        change.keep_only(*counted)
        manifest = change.commit(content)
        rows = Rows(self.form, tuple(parts), state.rows.dead)
        return IndexState(rows, state.built, tuple(names), manifest.generation, bytes_of(manifest))

    @classmethod
    def _load(cls, folder: Path, manifest: Manifest) -> Self:
        late = check_files(folder, manifest)
        content = manifest.content
        try:
            with INDEX.reading(folder):
                encoder, modality = EncoderCard.from_dict(content["encoder"]), modality_of(content["modality"])
                names = parts_of(manifest)
                parts = tuple(cls.form.read(folder / name, modality, encoder) for name in names)
                dead = np.zeros(sum(map(len, parts)), np.bool_)
                if "deleted" in content:
                    dead[load_array(below(folder, content["deleted"]))] = True
                settings = settings_of(cls.kind, cls.settings_type, content["settings"])
                rows = Rows(cls.form, parts, dead)
                index = cls(IndexState(rows, None), settings, folder)
                index._late, index.recall = late, recall_of(content)
                index._about = index._how(settings)
                path = below(folder, content["built"]) if "built" in content else None
                built = index._read(rows, path, content["facts"])
                index._state = IndexState(rows, built, names, manifest.generation, bytes_of(manifest))
                pa.default_memory_pool().release_unused()  # what reading needed: up to 170 bytes for each id
                return index
        except (OSError, RuntimeError, EmbeddingError, ConfigurationError) as fault:
            raise IndexFolderError(
                f"{folder}: the index is damaged: {type(fault).__name__}: {fault}", hint=BUILD_AGAIN
            ) from fault

    def _size(self) -> int:
        """Return the size of a saved copy; it is measured, because libraries cannot predict the size of their files."""
        with Scratch.temporary("index") as scratch:
            folder = scratch.made("index")
            self.save(folder)
            return bytes_of(read_index(folder))


# An index of a finished folder of parts (`visir encode --parts`), made by one call; and what one lacks, added. The
# vectors of all parts are joined in one file beside the index, which is removed at the end, and the index is built of
# that file as of any other vectors: of the same vectors it is the same index, and what its kind does after a kill it
# does here. The disk needs room for the vectors twice while it is built.


def index_of_parts(
    parts: Parts, kind: Any, out: str | Path | None = None, **options: Any
) -> tuple[Index[Any], PartsSummary]:
    """Build an index of a `Kind` of the vectors of all parts."""
    from visir.encoders.parts_folder import check_finished, join_parts

    kind.check_settings(options)
    if out is not None:
        check_new_index(Path(out))
    finished = check_finished(parts)
    place = Scratch.temporary("parts") if out is None else Scratch.beside(Path(os.path.realpath(out)))
    with place as scratch, disk_faults(scratch.path, IndexFolderError):
        vectors, summary = join_parts(parts, finished, scratch.file("vectors"))
        if out is None:
            vectors = replace(vectors, vectors=np.array(vectors.vectors))
        index = kind.build(vectors, out, **options)
        del vectors  # it maps the file that is about to be removed
    return index, summary


def add_parts(index: Index[Any], parts: Parts | str | Path) -> tuple[int, PartsSummary]:
    """Add the vectors of a finished folder of parts that an index does not hold yet, in one change.

    The vectors of all parts are joined in a file beside the index, or among temporary files where the index lies in no
    folder. Those that are added are held in memory.

    Args:
        index: An index of pictures by the same model. What it holds is left as it is.
        parts: A finished folder of parts, or its place.

    Returns:
        How many were added, and what has a vector in the parts and what has none.

    Raises:
        EmbeddingError: The parts are not finished, or by another model; the index is of captions; or an id stands in
            two parts.

    Example:
        >>> from visir.retrieval import add_parts, open_index
        >>> index = open_index("laion.index")  # doctest: +SKIP
        >>> added, summary = add_parts(index, "s3://bucket/parts")  # doctest: +SKIP
    """
    from visir.encoders import Parts
    from visir.encoders.parts_folder import check_finished, join_parts

    parts = Parts(parts) if isinstance(parts, str | Path) else parts
    check_same_modality("image", index.info().modality, f"{parts.place}: vectors by {parts.encoder.name}")
    check_same_model(parts.encoder, index.encoder, f"{parts.place}: vectors by {parts.encoder.name}")
    finished = check_finished(parts)
    folder = getattr(index, "folder", None)
    place = Scratch.temporary("parts") if folder is None else Scratch.beside(Path(os.path.realpath(folder)))
    with place as scratch, disk_faults(scratch.path, IndexFolderError):
        vectors, summary = join_parts(parts, finished, scratch.file("vectors"))
        new_ids = vectors.ids.filter(pc.invert(pc.is_in(vectors.ids, index.ids)))
        new = vectors.select(new_ids)
        del vectors  # it maps the file that is about to be removed
    index.add(new)
    return len(new_ids), summary
