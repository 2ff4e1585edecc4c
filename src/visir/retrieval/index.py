"""Indexes: what every one can do, what a kind is, and the index of all kinds that lie in a folder.

A kind finds documents: five functions over rows (`Finder`). Everything else is the index's (`StoredIndex`): the rows
stand in immutable parts (`visir.retrieval.rows`), with a list of deleted ones, and beside them what the kind built over
them; what it finds is scored exactly. A change writes new files and publishes a new list of files.
"""

from __future__ import annotations

import operator
import re
import shlex
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.plugins as plugins
from visir.arrays import load_array
from visir.display import Displayed, brief, counted, listed
from visir.errors import DISK_REFUSALS, ConfigurationError, EmbeddingError, RunError, VisirError, raise_faults
from visir.records import EncoderCard, Modality, Run, modality_of
from visir.records.columns import check_unique
from visir.retrieval.answers import MOST, CandidateRows, Hits, run_of
from visir.retrieval.rows import (
    DENSE,
    LARGEST,
    Dense,
    Form,
    MultiVector,
    Rows,
    Sparse,
    Vectors,
    check_fits_index,
    in_order,
)
from visir.retrieval.settings import Kind, searching, settings_of
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
from visir.storage.disk import below


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
    if not isinstance(names, list) or not names or not folders.issuperset(names) or len({*names}) < len(names):
        raise ValueError(f"its parts cannot be {names!r}")
    return tuple(names)


def _deleted(rows: NDArray[Any], n: int) -> NDArray[np.int64]:
    """The deleted ones of n rows, as they were written: ascending numbers."""
    if rows.dtype != np.int64 or rows.ndim != 1 or (len(rows) and (rows[0] < 0 or rows[-1] >= n)):
        raise ValueError(f"deleted rows {rows.dtype} {rows.shape} of {n}")
    if (np.diff(rows) <= 0).any():
        raise ValueError("deleted rows out of order")
    return rows


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


class Finder(Generic[Vectors]):
    """What a kind of index does: it finds documents. Five functions, of which `search` is the only one that it needs.

    What is built is replaced, never changed, and contains no rows, because written rows are replaced by memory-mapped
    ones. `settings` are an instance of `settings_type`.

    Example:
        >>> from visir.retrieval.answers import CandidateRows
        >>> class Nearest(Finder):
        ...     def search(self, built, rows, queries, k, settings):
        ...         products = queries.whole @ rows.compared().T
        ...         return CandidateRows(np.argsort(-products, axis=1)[:, : 2 * k])
    """

    form: ClassVar[Form[Any]] = DENSE
    """How vectors are read, compared and scored: `DENSE`, `SPARSE` or `MULTI` of `visir.retrieval.rows`."""
    settings_type: ClassVar[type[Any]]
    """A frozen dataclass of `visir.retrieval.settings.setting`s; of dense vectors, a `SimilaritySettings`."""

    def build(self, rows: Rows[Vectors], settings: Any) -> Any:
        """Return a structure over the rows (a graph, lists); None where there is none."""

    def add(self, built: Any, rows: Rows[Vectors], settings: Any) -> Any:
        """Return the structure after rows were appended, without a change of `built`; here it is built again."""
        return self.build(rows, settings)

    def search(self, built: Any, rows: Rows[Vectors], queries: Any, k: int, settings: Any) -> CandidateRows | Hits:
        """Return rows for each query, of which the index takes the best `k`, or the best `k` documents as they are.

        Args:
            built: What `build` or `add` returned.
            rows: The rows of the index.
            queries: The queries as they are compared (`Form.asking`): a `Side` of dense ones, a `TokenSide` of several
                vectors each, and `SparseEmbeddings`.
            k: How many documents are wanted, at most as many as there are.
            settings: The settings of this search.
        """
        raise NotImplementedError

    def dump(self, built: Any, path: Path) -> Mapping[str, Any] | None:
        """Write what was built into one file, and return facts for the manifest; of a kind without it nothing is kept,
        and an index that is opened is built again."""
        raise NotImplementedError

    def load(self, path: Path, rows: Rows[Vectors], facts: Mapping[str, Any], settings: Any) -> Any:
        """Read what `dump` wrote; raise `ValueError` where it does not fit the rows."""
        raise NotImplementedError

    # What a kind may say beside.

    dumped_as: ClassVar[str] = ""
    """The suffix of the file of `dump`."""

    knows_its_rows: ClassVar[bool] = False
    """Whether a document as a question is found more easily than other questions. A wanted `recall` for which no
    questions are given is then measured over an index without the documents that ask, which is built for that."""

    def stored(self, documents: Vectors, held: Vectors | None, settings: Any) -> Vectors:
        """Return documents as the index holds them, in another precision, or compressed; `held` are there already."""
        return documents

    def efforts(self, built: Any, rows: Rows[Vectors]) -> Sequence[dict[str, int]]:
        """Return settings of a search in order of their cost, of which a wanted `recall` takes one."""
        return ()

    def details(self, built: Any, rows: Rows[Vectors], settings: Any) -> dict[str, Any]:
        """Return further numbers for `Index.info`."""
        return {}

    def build_by_parts(
        self, change: FolderChange, documents: Vectors, settings: Any
    ) -> tuple[tuple[Vectors, ...], Any, tuple[str, ...]] | None:
        """Write the parts of a large index and build over them, so that a build that is killed can go on: return the
        parts, the structure and the names of the parts."""
        return None


class KindError(VisirError):
    """A kind of index that another package adds does not do what it says."""


def class_of(kind: Kind) -> type[Any]:
    """Return the class of a kind, a `Finder` or an `Index`; one of another package is looked at first."""
    module = kind.module if isinstance(kind.module, str) else kind.module.__module__
    if module.startswith("visir."):
        return kind.implemented()
    faults = []
    try:
        implemented: Any = kind.implemented()
    except (ImportError, AttributeError) as fault:
        raise KindError(
            f"kind of index {kind.name!r}: {module} cannot be imported: {fault}",
            hint="install, update or mend the package that adds it",
            code="kind-cannot-be-imported",
        ) from fault
    settings_type = getattr(implemented, "settings_type", None)
    known = fields(settings_type) if is_dataclass(settings_type) else ()
    if not isinstance(implemented, type) or not issubclass(implemented, Finder | Index):
        faults.append("it is no class of visir.retrieval.index.Finder")
    elif issubclass(implemented, Finder):
        form = {"dense": Dense, "sparse": Sparse, "multi-vector": MultiVector}.get(kind.vectors, ())
        if not isinstance(implemented.form, form):
            faults.append(f"its form compares no {kind.vectors} vectors")
        if isinstance(implemented.form, Dense) and "similarity" not in {field.name for field in known}:
            faults.append("its settings_type has no similarity: make it a SimilaritySettings")
        if implemented.search is Finder.search:
            faults.append("it has no search")
        if "recall" in {field.name for field in known} and implemented.efforts is Finder.efforts:
            faults.append("its settings_type has recall, and it has no efforts to choose from")
        if (implemented.dump is Finder.dump) != (implemented.load is Finder.load):
            faults.append("of dump and load it has one")
        if re.fullmatch(r"(\.\w+)*", implemented.dumped_as) is None:
            faults.append(f"dumped_as {implemented.dumped_as!r} is no suffix of a file")
    faults += [f"the field {field.name!r} of its settings_type is no setting" for field in known
               if "about" not in field.metadata]  # fmt: skip
    if not is_dataclass(settings_type):
        faults.append("its settings_type is no dataclass")
    raise_faults(KindError, f"kind of index {kind.name!r} ({module})", faults, hint=_MEND_KIND)
    return implemented  # type: ignore[no-any-return]


_MEND_KIND = (
    "update the package that adds the kind, or mend it (docs/how-to/add-a-kind-of-index.md); or build the index as "
    "another kind (visir index kinds lists them)"
)


class _Guarded(Finder[Vectors]):
    """A kind of another package: its faults are said in its name, and what it finds is looked at before it counts."""

    def __init__(self, kind: Kind, finder: Finder[Vectors]) -> None:
        self._name = f"kind of index {kind.name!r} ({type(finder).__module__})"
        self._finder: Finder[Vectors] = finder
        self.knows_its_rows = finder.knows_its_rows  # type: ignore[misc]

    def _ask(self, function: str, *given: Any) -> Any:
        arrays = [getattr(each, name, None) for each in given for name in ("whole", "vectors")]
        writable = [array for array in arrays if isinstance(array, np.ndarray) and array.flags.writeable]
        before = [zlib.crc32(np.ascontiguousarray(array).data) for array in writable]
        try:
            answer = getattr(self._finder, function)(*given)
        except (VisirError, MemoryError):
            raise
        except Exception as fault:
            if function == "dump" and isinstance(fault, OSError) and fault.errno in DISK_REFUSALS:
                raise  # a full disk, which is nobody's fault
            raise self._fault(f"its {function} fails: {type(fault).__name__}: {fault}", "kind-fails") from fault
        if before != [zlib.crc32(np.ascontiguousarray(array).data) for array in writable]:
            raise self._fault(f"its {function} writes into the vectors that it is given.", "kind-writes")
        return answer

    def _fault(self, what: str, code: str) -> KindError:
        return KindError(f"{self._name}: {what}", hint=_MEND_KIND, code=code)

    def build(self, rows: Rows[Vectors], settings: Any) -> Any:
        return self._ask("build", rows, settings)

    def add(self, built: Any, rows: Rows[Vectors], settings: Any) -> Any:
        return self._ask("add", built, rows, settings)

    def search(self, built: Any, rows: Rows[Vectors], queries: Any, k: int, settings: Any) -> CandidateRows:
        answer, n = self._ask("search", built, rows, queries, k, settings), len(queries)
        if isinstance(answer, Hits):
            answer = self._candidates(answer, rows, n, k)
        if not isinstance(answer, CandidateRows):
            raise self._answers(f"a {type(answer).__name__}, not CandidateRows or Hits")
        wanted = np.asarray(answer.rows)
        if wanted.dtype.kind not in "iu" or wanted.ndim != 2 or len(wanted) != n:
            raise self._answers(f"{wanted.dtype} of the shape {wanted.shape}, not whole numbers for {n} queries")
        if wanted.size and (wanted.max() >= len(rows) or wanted.min() < -1):
            raise self._answers(f"rows from {wanted.min()} to {wanted.max()}; there are {len(rows)}")
        # Each row once. Its scores, and vectors that it has in memory, are not taken on trust: the index makes its own.
        once = np.full((n, max(wanted.shape[1], 1)), -1, np.int64)
        once[:, : wanted.shape[1]] = np.sort(wanted, axis=1)
        once[:, 1:][once[:, 1:] == once[:, :-1]] = -1
        return CandidateRows(once)

    def _candidates(self, hits: Hits, rows: Rows[Vectors], n: int, k: int) -> CandidateRows:
        """The best k of each query by the scores of the kind."""
        columns: list[Any] = [np.asarray(column) for column in (hits.queries, hits.places, hits.scores)]
        queries, places, scores = columns
        if len({column.shape for column in columns}) > 1 or places.ndim != 1:
            raise self._answers(f"columns of the shapes {', '.join(str(column.shape) for column in columns)}")
        if any(column.dtype.kind not in "iu" for column in columns[:2]) or scores.dtype.kind not in "fiu":
            raise self._answers(f"columns of {', '.join(str(column.dtype) for column in columns)}")
        for column, least, most in ((queries, 0, n), (places, -1, len(rows.live))):
            if len(column) and (column.min() < least or column.max() >= most):
                raise self._answers(f"numbers from {column.min()} to {column.max()}; there are {most}")
        if not np.isfinite(scores).all():
            raise self._answers("scores that are no finite numbers")
        once = np.unique(np.stack([queries, places]).astype(np.int64), axis=1, return_index=True)[1]
        offsets, best, _ = Hits(queries[once], places[once], scores[once]).best(n, k)
        return CandidateRows.of_spans(rows.live[best], offsets)

    def _answers(self, what: str) -> KindError:
        return self._fault(f"its search answers with {what}.", "kind-answers")

    def dump(self, built: Any, path: Path) -> Mapping[str, Any]:
        facts = self._ask("dump", built, path)
        if path.is_symlink() or not path.is_file():
            raise self._fault(f"its dump has written no file {path.name}.", "kind-writes-nothing")
        try:
            return {**orjson.loads(orjson.dumps(facts or {}, option=orjson.OPT_SERIALIZE_NUMPY))}
        except TypeError as fault:
            raise self._fault(f"its dump returns no facts for JSON: {fault}", "kind-facts") from fault

    def load(self, path: Path, rows: Rows[Vectors], facts: Mapping[str, Any], settings: Any) -> Any:
        try:
            return self._finder.load(path, rows, facts, settings)
        except MemoryError:
            raise
        except Exception as fault:
            raise IndexFolderError(
                f"{path}: cannot be read by the {self._name}: {type(fault).__name__}: {fault}",
                hint=f"{BUILD_AGAIN}; or update the package that adds the kind",
                code="kind-cannot-read",
            ) from fault

    def stored(self, documents: Vectors, held: Vectors | None, settings: Any) -> Vectors:
        stored = self._ask("stored", documents, held, settings)
        if type(stored) is not type(documents) or not stored.ids.equals(documents.ids):
            raise self._fault("its stored returns other documents than it was given.", "kind-stores-others")
        return stored

    def efforts(self, built: Any, rows: Rows[Vectors]) -> Sequence[dict[str, int]]:
        efforts = self._ask("efforts", built, rows)
        if not isinstance(efforts, list | tuple) or not all(isinstance(effort, dict) for effort in efforts):
            raise self._fault("its efforts are no settings of a search.", "kind-efforts")
        known = {field.name for field in fields(self._finder.settings_type) if field.metadata["search"]}
        wrong = sorted({str(name) for effort in efforts for name in effort if name not in known})
        if wrong or not efforts:
            what = f"its efforts set {', '.join(wrong)}: no settings of a search." if wrong else "it has no efforts."
            raise self._fault(what, "kind-efforts")
        return efforts

    def details(self, built: Any, rows: Rows[Vectors], settings: Any) -> dict[str, Any]:
        details = self._ask("details", built, rows, settings)
        if not isinstance(details, Mapping):
            raise self._fault(f"its details are a {type(details).__name__}, not names and values.", "kind-details")
        return {**details}


class StoredIndex(Index[Vectors]):
    """The index of every kind that lies in a folder: immutable parts, a list of deleted rows, and what the kind built.

    `visir.retrieval.kinds.make` and `opened` return one.
    """

    # When more than half of the rows are deleted, the others are written as one part and the structure is built again.

    def __init__(self, kind: Kind, state: IndexState[Vectors], settings: Any, folder: Path | None = None) -> None:
        self._kind, self.kind, self.exact = kind, kind.name, kind.exact
        try:
            finder: Finder[Vectors] = kind.described()()
        except (VisirError, MemoryError):
            raise
        except Exception as fault:
            reason = f"kind of index {kind.name!r}: it cannot be made: {type(fault).__name__}: {fault}"
            raise KindError(reason, hint=_MEND_KIND, code="kind-fails") from fault
        is_own = type(finder).__module__.startswith("visir.")
        self._finder: Finder[Vectors] = finder if is_own else _Guarded(kind, finder)
        self._keeps_a_file = type(finder).dump is not Finder.dump
        self._suffix = finder.dumped_as
        self.form: Form[Vectors] = finder.form.under(settings)
        self._state: IndexState[Vectors] = state
        self.settings = settings
        self.folder = folder
        self._late: LateCheck | None = None
        self.recall: dict[str, Any] = {}  # what was measured of an approximate index when it was built
        self._about = self._how(settings)
        self._like: tuple[Any, ...] = (None,) * 4  # what is known to fit of queries: type, model, words, dimension

    def __repr__(self) -> str:
        documents = f"{counted(len(self.ids), 'vectors')}{f', in {self.folder}' if self.folder else ', in memory'}"
        return brief(self, f"{self.kind}: {documents}", f"ids: {listed(self.ids[:3].to_pylist(), len(self.ids))}")

    @classmethod
    def build(
        cls, kind: Kind, documents: Vectors, folder: Path | None = None, *, queries: Vectors | None = None,
        **options: Any,
    ) -> Self:  # fmt: skip
        """Build an index; `queries` are what a wanted `recall` is measured with."""
        settings = settings_of(kind.name, kind.settings_type, options)
        if len(documents) == 0:
            raise EmbeddingError(
                "there is no vector to index.", hint="is the split, or the filter, right?", code="no-vector-index"
            )
        index = cls(kind, IndexState(Rows.of(kind.described().form, documents), None), settings)
        if folder is not None and len(documents) > LARGEST and index._is_built_by_parts(Path(folder), queries):
            return cls.load(kind, Path(folder))
        stored = index._finder.stored(documents, None, settings)
        index.form.check(stored)
        rows = Rows.of(index.form, stored)
        index._state = IndexState(rows, index._finder.build(rows, settings))
        index._calibrate(queries)
        if folder is None:
            return index
        index.save(Path(folder))
        return cls.load(kind, Path(folder))

    @classmethod
    def load(cls, kind: Kind, folder: Path) -> Self:
        """Open the index in a folder; large arrays are memory-mapped."""
        while True:
            manifest = read_index(folder)
            try:
                return cls._load(kind, folder, manifest)
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
        if len(documents) == 0:
            return
        stored = self._finder.stored(documents, held, self.settings)
        self.form.check(stored)
        rows = before.rows.add(stored)
        self._change(rows, lambda: self._finder.add(before.built, rows, self.settings))

    def delete(self, ids: object) -> None:
        before = self._state
        rows = before.rows.delete(ids)
        if rows.dead.sum() * 2 > len(rows):
            self._rebuild(rows.compact())
        else:
            self._change(rows, lambda: before.built)

    def compact(self) -> None:
        """Merge all parts into one, without deleted documents. Exact answers stay the same; searches get faster."""
        rows = self._state.rows
        if len(rows.live) == 0:
            raise RunError(
                "the index is empty: every document was deleted.", hint="add some first", code="every-document-deleted"
            )
        if len(rows.parts) > 1 or rows.dead.any():
            self._rebuild(rows.compact())

    def search(self, queries: Vectors, k: int = 10, *, first: Vectors | None = None, **options: Any) -> Run:
        """Return the best `k` documents of each query: by falling score, ties by id; queries in order of their ids.

        `first` are other vectors of the same queries. Documents are retrieved with these (`candidates` of a query, or
        10 k, at least 100, without that setting), and scored with `queries`: two stages (thesis 3.5.3).
        """
        state, settings = self._state, searching(self.kind, self.settings, options)
        if first is None:
            ordered, hits = self._found(state, queries, k, settings)
            about = self._about if settings is self.settings else self._how(settings)
        else:
            ordered, hits, about = self._in_two_stages(state, queries, first, k, settings)
        return run_of(hits, ordered, state.rows.gallery, k, state.rows.parts[0].encoder, about)

    def lists(self, queries: Vectors, k: int = 10) -> dict[str, list[tuple[str, float]]]:
        """Return what `search` does as plain lists: from query to (document, score), best first."""
        # A service that answers one query at a time needs no record of a run, which takes longer to make than to read.
        state = self._state
        ordered, hits = self._found(state, queries, k, self.settings)
        offsets, places, scores = hits.best(len(ordered), k)
        if not np.isfinite(scores).all():
            self.search(queries, k)  # which names the pair
        documents = state.rows.names_at(places)
        entries = list(zip(documents, scores.tolist(), strict=True))
        if len(ordered) == 1:
            return {ordered.ids[0].as_py(): entries}
        cuts = offsets.tolist()
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
                **self._finder.details(self._state.built, rows, self.settings),
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
        given: Vectors = self.form.given(self._state.rows.documents())
        return given

    def select(self, ids: object) -> Vectors:
        self._settle()
        given: Vectors = self.form.given(self._state.rows.select(ids))
        return given

    def _found(self, state: IndexState[Vectors], queries: Vectors, k: int, settings: Any) -> tuple[Vectors, Hits]:
        """Return the queries in order of their ids, and at least the best `k` documents of each."""
        rows = state.rows
        documents = len(rows.live)
        like = (type(queries), queries.encoder, getattr(queries, "vocabulary", None), queries.dimension)
        same = like[3] == self._like[3] and all(map(operator.is_, like[:3], self._like))
        if same and documents and len(queries) == 1 and type(k) is int and k > 0:
            ordered = queries  # one question after the other by the same model: what was checked of the first holds
        else:
            ordered = in_order(self.form, queries, rows.parts[0], documents, k)
            self._like = like
        depth, asking = min(k, documents), self.form.asking(ordered)
        named = self._finder.search(state.built, rows, asking, depth, settings)
        hits = named if isinstance(named, Hits) else self.form.score(rows, asking, named, depth)
        self._settle()  # after the work, which goes on beside the check
        return ordered, hits

    def _in_two_stages(
        self, state: IndexState[Vectors], queries: Vectors, first: Vectors, k: int, settings: Any
    ) -> tuple[Vectors, Hits, dict[str, Any]]:
        """Retrieve with one form of the queries, and score with the other."""
        rows = state.rows
        ordered, others = (in_order(self.form, side, rows.parts[0], len(rows.live), k) for side in (queries, first))
        if not ordered.ids.equals(others.ids):
            raise EmbeddingError(
                f"two-stage search: {len(first)} queries to retrieve with and {len(queries)} to score with are not the "
                "same.",
                hint="give both forms of the same queries, under the same ids",
                code="queries-retrieve-score-not",
            )
        own = replace(settings, candidates=0) if hasattr(settings, "candidates") else settings
        wanted = min(max(k, getattr(settings, "candidates", 0) or max(10 * k, 100)), MOST)
        offsets, places, _ = self._found(state, others, wanted, own)[1].best(len(others), wanted)
        candidates = CandidateRows.of_spans(rows.live[places], offsets)
        hits = self.form.score(rows, self.form.asking(ordered), candidates, min(k, len(rows.live)), fill=False)
        about = {"search": self.kind, **asdict(settings), "first": first.encoder.name, "retrieved": wanted}
        return ordered, hits, about

    def _how(self, settings: Any) -> dict[str, Any]:
        """What a run says of its search."""
        measured = {"recall_found": self.recall["found"]} if self.recall and settings is self.settings else {}
        return {"search": self.kind, **asdict(settings), **measured}

    def _calibrate(self, queries: Vectors | None) -> None:
        """Choose the effort that finds the share of the exact answers that is wanted, if one is."""
        wanted, state = getattr(self.settings, "recall", 0.0), self._state
        if not wanted:
            return
        usual = plugins.part("usual kind of index")(state.rows.parts[0])
        same = {"similarity": self.settings.similarity} if hasattr(self.settings, "similarity") else {}
        measured, rows, drawn = self, state.rows, queries is None
        if queries is None and self._finder.knows_its_rows and len(self.ids) > 2 * drawn_of(len(self.ids)):
            queries, _ = questions_of(self, None)
            rows = Rows.of(self.form, rows.select(self.ids.filter(pc.invert(pc.is_in(self.ids, queries.ids)))))
            built = self._finder.build(rows, self.settings)
            measured = type(self)(self._kind, IndexState(rows, built), self.settings)
        exact: Any = StoredIndex(usual, IndexState(rows, None), usual.settings_type(**same))
        efforts = self._finder.efforts(measured._state.built, rows)
        effort, self.recall = calibrated(measured, exact, efforts, wanted, queries)
        self.recall |= {"from": "the documents" if drawn else "given", "documents": len(self.ids)}
        self.settings = replace(self.settings, **effort)
        self._about = self._how(self.settings)

    def _settle(self, *, wholly: bool = False) -> None:
        """Raise `IndexFolderError` where the large files are not as they were written; see `LateCheck.settle`."""
        if self._late is not None:
            self._late.settle(wholly=wholly)

    def _is_built_by_parts(self, folder: Path, queries: Vectors | None) -> bool:
        """Whether the kind has written a large index part by part, so that a killed build goes on from there."""
        if type(self._finder).build_by_parts is Finder.build_by_parts:
            return False
        check_new_index(folder)
        busy = INDEX.error(
            f"{folder}: another process is making it.", hint="wait until it is done", code="another-process-making"
        )
        with changing(folder, INDEX, busy=busy, resume=True) as change:
            documents = self._state.rows.parts[0]
            made = self._finder.build_by_parts(change, documents, self.settings)
            assert made is not None
            parts, built, names = made
            rows = Rows(self.form, parts, np.zeros(len(documents), np.bool_))
            state = self._state = IndexState(rows, built, names)
            self._calibrate(queries)
            self._write_state(change, state, state)
        return True

    def _rebuild(self, rows: Rows[Vectors]) -> None:
        self._change(rows, lambda: self._finder.build(rows, self.settings))

    def _change(self, rows: Rows[Vectors], build: Callable[[], Any]) -> None:
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
        built_name = f"built-{{}}{self._suffix}"
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
            "facts": {},
        }
        counted = [*names]
        if state.rows.dead.any():
            content["deleted"] = f"deleted-{number_of_files}.npy"
            np.save(change.file(content["deleted"]), np.flatnonzero(state.rows.dead))
            counted.append(content["deleted"])
        if self._keeps_a_file:
            content["built"] = built_name.format(number_of_files)
            content["facts"] = {**(self._finder.dump(state.built, change.file(content["built"])) or {})}
            counted.append(content["built"])
        if self.recall:
            content["recall"] = self.recall
        change.keep_only(*counted)
        manifest = change.commit(content)
        rows = Rows(self.form, tuple(parts), state.rows.dead)
        return IndexState(rows, state.built, tuple(names), manifest.generation, bytes_of(manifest))

    @classmethod
    def _load(cls, kind: Kind, folder: Path, manifest: Manifest) -> Self:
        late = check_files(folder, manifest)
        content = manifest.content
        try:
            with INDEX.reading(folder):
                encoder, modality = EncoderCard.from_dict(content["encoder"]), modality_of(content["modality"])
                settings = settings_of(kind.name, kind.settings_type, content["settings"])
                form = kind.described().form.under(settings)
                names = parts_of(manifest)
                parts = tuple(form.read(folder / name, modality, encoder) for name in names)
                if len({part.dimension for part in parts}) > 1:
                    raise ValueError("its parts are of several dimensions")
                dead = np.zeros(sum(map(len, parts)), np.bool_)
                if "deleted" in content:
                    dead[_deleted(load_array(below(folder, content["deleted"])), len(dead))] = True
                rows = Rows(form, parts, dead)
                if len(parts) > 1:  # each part for itself was looked at when it was read
                    check_unique(rows.ids, "its parts")  # sorted, as every search needs them
                index = cls(kind, IndexState(rows, None), settings, folder)
                index._late, index.recall = late, recall_of(content)
                index._about = index._how(settings)
                if index._keeps_a_file:
                    path = below(folder, content["built"])
                    built = index._finder.load(path, rows, content["facts"], settings)
                else:
                    built = index._finder.build(rows, settings)
                index._state = IndexState(rows, built, names, manifest.generation, bytes_of(manifest))
                pa.default_memory_pool().release_unused()  # what reading needed: up to 170 bytes for each id
                return index
        except MemoryError as fault:
            raise IndexFolderError(
                f"{folder}: the index does not fit into memory, or is damaged: {fault}",
                hint=f"make room in memory; or {BUILD_AGAIN}",
                code="index-no-memory",
            ) from fault
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


K = 10
"""Recall is of the best ten."""
QUESTIONS = 2000
"""Questions that are taken of those that are given, at most: one half chooses, the other checks."""
_LEAST, _DRAWN = 10, 400
_ERRORS = 2.0
"""Standard errors by which the wanted share must be exceeded: a single look is wrong in 1 of 40, and there are several
looks, of which those at efforts just below the right one may be."""


def drawn_of(documents: int) -> int:
    """Return how many of so many documents ask, where no questions are given."""
    return min(documents, max(_DRAWN, min(documents // 5, QUESTIONS)))


def questions_of(index: Any, given: Any) -> tuple[Any, bool]:
    """Return the questions, shuffled, and whether they are documents of the index, which then are no answers."""
    source, count = given, drawn_of(len(index.ids))
    if source is None:
        chosen = np.random.default_rng(0).choice(len(index.ids), count, replace=False)
        source = index.select(index.ids.take(pa.array(np.sort(chosen))))
    if len(source) < _LEAST:
        raise EmbeddingError(
            f"recall is measured with at least {_LEAST} questions, not {len(source)}.",
            hint="give more (queries=), or leave recall out",
            code="recall-questions",
        )
    order = np.random.default_rng(1).permutation(len(source))[:QUESTIONS]
    return source.select(source.ids.take(pa.array(order))), given is None


def exceeds(shares: NDArray[np.float64], wanted: float) -> bool:
    """Whether the mean of all questions, of which these are a sample, is the wanted one or more, nearly for certain."""
    # Where all is found of few questions, their spread is 0: at least what misses by chance would have.
    spread = max(shares.var(), wanted * (1 - wanted) / K)
    return bool(shares.mean() - _ERRORS * np.sqrt(spread / len(shares)) >= wanted)


def calibrated(
    index: Any, exact: Any, efforts: Sequence[dict[str, int]], wanted: float, given: Any = None
) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the first of some `efforts` that finds the `wanted` share of what `exact` finds, and what was measured.

    The share must be exceeded by two standard errors, so that other questions of the same kind find it too, in about 19
    of 20 indexes; half of the questions choose, and the others tell what is `found`.
    """
    questions, drawn = questions_of(index, given)
    middle = len(questions) // 2
    halves = questions.select(questions.ids[:middle]), questions.select(questions.ids[middle:])
    truths = [_answers(exact.search(half, K + drawn), drawn) for half in halves]
    effort: dict[str, int] = {}
    for effort in efforts:
        shares = _shares(_answers(index.search(halves[0], K + drawn, **effort), drawn), truths[0])
        if exceeds(shares, wanted):
            break
    checked = _shares(_answers(index.search(halves[1], K + drawn, **effort), drawn), truths[1])
    return effort, {
        "wanted": wanted,
        "found": round(float(checked.mean()), 4),
        "error": round(float(checked.std() / np.sqrt(len(checked))), 4),
        "questions": len(checked),
        "from": "the documents" if drawn else "given",
        "documents": len(index.ids),
    }


def _answers(run: Run, drawn: bool) -> list[set[str]]:
    ids = run.documents.take(pa.array(run.indices)).to_pylist()
    cuts = run.offsets.tolist()
    answers = []
    for query, start, stop in zip(run.queries.to_pylist(), cuts[:-1], cuts[1:], strict=True):
        answers.append({*[document for document in ids[start:stop] if not drawn or document != query][:K]})
    return answers


def _shares(answers: list[set[str]], truths: list[set[str]]) -> NDArray[np.float64]:
    return np.array([len(a & b) / len(b) for a, b in zip(answers, truths, strict=True) if b] or [1.0])
