"""The rows of an index: parts in files that never change, one after another, and which of their rows are deleted.

How vectors of one form (dense, sparse, several for each item) are written, read, compared and scored says their `Form`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.display import counted
from visir.errors import EmbeddingError, RunError
from visir.files import release
from visir.parquet import integer_array, numpy_integers, read_columns
from visir.records import (
    Embeddings,
    EncoderCard,
    Gallery,
    Modality,
    MultiVectorEmbeddings,
    SparseEmbeddings,
    Vocabulary,
    strings,
)
from visir.records.columns import ids_at, is_sorted
from visir.retrieval.answers import CandidateRows, Hits, check_depth
from visir.retrieval.multi_vector.compression import COMPRESSED_FILES, CompressedVectors, join_vectors
from visir.retrieval.multi_vector.scan import BLOCK as TOKENS
from visir.retrieval.multi_vector.scan import TokenSide, cut, scan_tokens, score_token_places
from visir.retrieval.scan import BLOCK, SearchState, Side, best_of, lengths_of, loops_for
from visir.retrieval.sparse.scan import SparseSide, score_word_places
from visir.threads import piece, spread

_BLOCK = 8192
"""Rows that are written at once."""

Vectors = TypeVar("Vectors", Embeddings, SparseEmbeddings, MultiVectorEmbeddings)


class Form(Generic[Vectors]):
    """How vectors of one form (dense, sparse, several for each item) are joined, written and read."""

    files: tuple[str, ...]
    """The names of the files that `write` writes."""

    def join(self, parts: Sequence[Vectors], ids: pa.StringArray) -> Vectors:
        """Return all rows one after another, under these ids, copied into memory."""
        raise NotImplementedError

    def space(self, vectors: Vectors) -> dict[str, Any]:
        """Return the facts, by name, that two sets of vectors must share to be compared: the dimension, at least."""
        return {"dimension": vectors.dimension}

    def write(self, vectors: Vectors, folder: Path) -> None:
        """Write the vectors into an empty folder."""
        raise NotImplementedError

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> Vectors:
        """Read the files of `write`, memory-mapped."""
        raise NotImplementedError

    def under(self, settings: Any) -> Form[Vectors]:
        """Return the form of vectors that are compared as the settings of an index say."""
        return self

    def check(self, vectors: Vectors) -> None:
        """Check, before vectors are added, that they can be scored."""

    def given(self, vectors: Vectors) -> Vectors:
        """Return vectors as they are given back, where they are held compressed."""
        return vectors

    def asking(self, queries: Vectors) -> Any:
        """Return queries as they are compared."""
        return queries

    def score(self, rows: Rows[Vectors], queries: Any, candidates: CandidateRows, k: int, *, fill: bool = True) -> Hits:
        """Return the best `k` candidates of each query, by exact scores; where a query has fewer than `k` and `fill`,
        the best of all documents."""
        raise NotImplementedError


Gather = Callable[[NDArray[np.int64]], tuple[NDArray[np.float32], NDArray[np.int64]]]
"""From the (q, c) rows of an index to a matrix that contains their vectors, and their rows in it."""
_PAIRS = 2**12
"""CandidateRows that are read at once: where the system maps 64 kB around each on disk, 256 MiB."""
_MAPPED = 2**28
"""Bytes of a file up to which candidates that were read may stay mapped."""


class Dense(Form[Embeddings]):
    """Dense vectors: `vectors.npy` and `ids.parquet`."""

    files: tuple[str, ...] = ("vectors.npy", "ids.parquet")

    def __init__(self, similarity: Literal["cosine", "dot"] = "cosine") -> None:
        self.similarity: Literal["cosine", "dot"] = similarity

    def under(self, settings: Any) -> Dense:
        return type(self)(settings.similarity)

    def check(self, vectors: Embeddings) -> None:
        for start in range(0, len(vectors), BLOCK):
            Side(vectors, np.arange(start, min(start + BLOCK, len(vectors))), self.similarity)

    def asking(self, queries: Embeddings) -> Side:
        if len(queries) == 1:
            return Side.of_one(queries, self.similarity)
        return Side(queries, np.arange(len(queries)), self.similarity)

    def compared(self, rows: Rows[Embeddings], wanted: NDArray[np.int64], *, stay: bool = False) -> NDArray[np.float32]:
        """Return the (n, d) vectors of these rows, which ascend, as they are compared; those of a small file may stay
        mapped."""
        vectors = np.empty((len(wanted), rows.parts[0].dimension), np.float32)
        edges = np.searchsorted(wanted, rows.starts)
        for part, start, first, last in zip(rows.parts, rows.starts, edges, edges[1:], strict=False):
            for begin in range(first, last, BLOCK):
                end = min(begin + BLOCK, last)
                stays = stay and part.vectors.nbytes <= _MAPPED
                side = Side(part, wanted[begin:end] - start, self.similarity, stays=stays)
                vectors[begin:end] = side.block(0, len(side))
        return vectors

    def scan(self, rows: Rows[Embeddings], queries: Side, k: int, device: str) -> Hits:
        """Return the best `k` documents of each query, compared with all; part by part, whose scores are the same."""
        hits = []
        for part in range(len(rows.parts)):
            if part not in rows.prepared:
                rows.prepared[part] = Side(rows.parts[part], rows.part_rows(part), self.similarity)
            side = rows.prepared[part]
            if len(side):
                depth = min(k, len(side))
                indices, scores = best_of(queries, side, depth, device)
                row = side.rows[indices.ravel()] + rows.starts[part]
                query = np.repeat(np.arange(len(queries)), depth)
                hits.append(Hits(query, rows.places[row], scores.ravel(), in_order=True))
        return Hits.joined(hits)

    def score(
        self, rows: Rows[Embeddings], queries: Side, candidates: CandidateRows, k: int, *, fill: bool = True
    ) -> Hits:
        asking, wanted_rows, held = queries.block(0, len(queries)), candidates.rows, candidates.vectors

        def gather(wanted: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
            return self._gathered(rows, wanted) if held is None else (held, wanted)

        places, scores = np.empty((len(asking), k), np.int64), np.empty((len(asking), k), np.float32)
        filled = np.zeros(len(asking), np.int64)
        if len(asking) == 1:  # alone, what only many need would take longer than the scores
            _best(rows, asking, wanted_rows, k, gather, (places, scores, filled))
            if filled[0] == k or not fill:
                return Hits.ordered(places, scores, filled)
        step = max(_PAIRS // max(wanted_rows.shape[1], 1), 1)
        for first in range(0, len(asking), step):
            some = slice(first, first + step)
            _best(rows, asking[some], wanted_rows[some], k, gather, (places[some], scores[some], filled[some]))
        short = np.flatnonzero(filled < k)
        if len(short) == 0 or not fill:
            return Hits.ordered(places, scores, filled)
        filled[short] = 0  # every document is compared, so an answer is never short
        hits = [Hits.ordered(places, scores, filled)]
        for start in range(0, len(rows.live), _PAIRS):
            some_rows = rows.live[start : start + _PAIRS][None]
            for query in short.tolist():
                of_one = np.empty((1, k), np.int64), np.empty((1, k), np.float32), np.zeros(1, np.int64)
                _best(rows, asking[query : query + 1], some_rows, k, gather, of_one)
                best = Hits.ordered(*of_one)
                hits.append(Hits(best.queries + query, best.places, best.scores))
        return Hits.joined(hits)

    def _gathered(
        self, rows: Rows[Embeddings], wanted: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the vectors of these rows, read from disk, and which of them each is."""
        if len(wanted) == 1 and len(rows.parts) == 1 and wanted.min() >= 0:
            return self._read(rows, wanted[0]), np.arange(wanted.shape[1])[None]
        needed, place = np.unique(wanted, return_inverse=True)
        if needed[0] < 0:
            needed, place = needed[1:], place - 1
        return self.compared(rows, needed, stay=True), place.reshape(wanted.shape)

    def join(self, parts: Sequence[Embeddings], ids: pa.StringArray) -> Embeddings:
        # Mixed types become the widest, which changes no value.
        vectors = np.concatenate([embeddings.vectors for embeddings in parts])
        return Embeddings(
            parts[0].modality, ids, vectors, parts[0].encoder, all(embeddings.normalised for embeddings in parts)
        )

    def write(self, vectors: Embeddings, folder: Path) -> None:
        _save_rows(folder / "vectors.npy", vectors.vectors)
        # In Parquet's metadata, so that a part is complete in itself.
        table = pa.table({"id": vectors.ids}).replace_schema_metadata({"normalised": str(vectors.normalised)})
        pq.write_table(table, folder / "ids.parquet")

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> Embeddings:
        table = read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, "")
        normalised = (table.schema.metadata or {}).get(b"normalised") == b"True"
        return Embeddings(modality, strings(table["id"]), _mapped(folder / "vectors.npy"), encoder, normalised)

    def _read(self, rows: Rows[Embeddings], wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of rows of the first part, for one query. To give their pages back costs as much as to
        score them, so that is done after as many vectors as are read at once for many queries."""
        source: Any = rows.parts[0].vectors
        vectors: NDArray[np.float32] = source.view(np.ndarray)[wanted].astype(np.float32, copy=False)
        if self.similarity == "cosine":
            lengths = lengths_of(vectors)
            loops_for(vectors.size, "divide_rows").divide_rows(vectors, lengths)
        rows.prepared["read"] = rows.prepared.get("read", 0) + len(wanted)
        if rows.prepared["read"] > _PAIRS and source.nbytes > _MAPPED:
            rows.prepared["read"] = 0
            release(source)
        return vectors


def _best(
    rows: Rows[Embeddings], asking: NDArray[np.float32], candidates: NDArray[np.int64], k: int, gather: Gather, out: Any
) -> None:
    vectors, at = gather(candidates)
    places, loops = rows.places[candidates], loops_for(candidates.size * asking.shape[1], "best_candidates")
    if len(asking) == 1:
        loops.best_candidates(0, 1, asking, vectors, at, places, k, *out)
        return
    spread(lambda part: loops.best_candidates(*piece(len(asking), part), asking, vectors, at, places, k, *out))


class Sparse(Form[SparseEmbeddings]):
    """Sparse vectors: `offsets.npy`, `terms.npy`, `values.npy`, `ids.parquet` and `vocabulary.parquet`."""

    files: tuple[str, ...] = ("offsets.npy", "terms.npy", "values.npy", "ids.parquet", "vocabulary.parquet")
    arrays: tuple[str, ...] = ("offsets", "terms", "values")

    def join(self, parts: Sequence[SparseEmbeddings], ids: pa.StringArray) -> SparseEmbeddings:
        lengths = np.concatenate([np.diff(embeddings.offsets) for embeddings in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        terms, values = (
            np.concatenate([getattr(embeddings, name) for embeddings in parts]) for name in ("terms", "values")
        )
        return SparseEmbeddings(
            parts[0].modality, ids, offsets, terms, values, parts[0].vocabulary, parts[0].encoder
        )  # fmt: skip

    def space(self, vectors: SparseEmbeddings) -> dict[str, Any]:
        return super().space(vectors) | {"vocabulary": vectors.vocabulary.fingerprint}

    def write(self, vectors: SparseEmbeddings, folder: Path) -> None:
        for name in self.arrays:
            np.save(folder / f"{name}.npy", getattr(vectors, name), allow_pickle=False)
        pq.write_table(pa.table({"id": vectors.ids}), folder / "ids.parquet")
        vocabulary = vectors.vocabulary
        table = pa.table({"term": vocabulary.terms, "usable": vocabulary.usable})
        pq.write_table(table.replace_schema_metadata({"name": vocabulary.name}), folder / "vocabulary.parquet")

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> SparseEmbeddings:
        return SparseEmbeddings(modality=modality, encoder=encoder, **self.columns(folder))

    def columns(self, folder: Path) -> dict[str, Any]:
        """Return the ids, the vocabulary and the `arrays` of a folder, memory-mapped."""
        columns = {"term": pa.string(), "usable": pa.bool_()}
        table = read_columns(folder / "vocabulary.parquet", columns, EmbeddingError, "")
        name = (table.schema.metadata or {}).get(b"name", b"").decode(errors="replace")
        vocabulary = Vocabulary(name, strings(table["term"]), table["usable"].to_numpy())
        return {
            "ids": _ids(folder),
            "vocabulary": vocabulary,
            **{name: _mapped(folder / f"{name}.npy") for name in self.arrays},
        }

    def score(
        self,
        rows: Rows[SparseEmbeddings],
        queries: SparseEmbeddings,
        candidates: CandidateRows,
        k: int,
        *,
        fill: bool = True,
    ) -> Hits:
        """Score candidates; documents that share no term with a query are no answers, so nothing is filled up."""
        query, column = np.nonzero(candidates.rows >= 0)
        row, asking, hits = candidates.rows[query, column], SparseSide(queries, np.arange(len(queries))), []
        part_of = np.searchsorted(rows.starts, row, side="right") - 1
        for at in np.unique(part_of):
            here = part_of == at
            side = SparseSide(rows.parts[at], np.arange(len(rows.parts[at])))
            scores = score_word_places(asking, query[here], side, row[here] - rows.starts[at])
            shared = scores > 0
            hits.append(Hits(query[here][shared], rows.places[row[here]][shared], scores[shared]))
        return Hits.joined(hits)


class MultiVector(Form[MultiVectorEmbeddings]):
    """Several vectors for each item: `offsets.npy`, `ids.parquet`, and `vectors.npy`, or the files of a compression."""

    files: tuple[str, ...] = ("offsets.npy", "ids.parquet", "vectors.npy", *COMPRESSED_FILES)

    def join(self, parts: Sequence[MultiVectorEmbeddings], ids: pa.StringArray) -> MultiVectorEmbeddings:
        counts = np.concatenate([embeddings.counts for embeddings in parts])
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        vectors = join_vectors([embeddings.vectors for embeddings in parts])
        return MultiVectorEmbeddings(parts[0].modality, ids, offsets, vectors, parts[0].encoder)

    def write(self, vectors: MultiVectorEmbeddings, folder: Path) -> None:
        np.save(folder / "offsets.npy", vectors.offsets, allow_pickle=False)
        pq.write_table(pa.table({"id": vectors.ids}), folder / "ids.parquet")
        if isinstance(vectors.vectors, CompressedVectors):
            vectors.vectors.write(folder)
        else:
            np.save(folder / "vectors.npy", vectors.vectors, allow_pickle=False)

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> MultiVectorEmbeddings:
        vectors: Any = _mapped(folder / "vectors.npy") if (folder / "vectors.npy").exists() else None
        if vectors is None:
            vectors = CompressedVectors.read(folder)
        return MultiVectorEmbeddings(modality, _ids(folder), _mapped(folder / "offsets.npy"), vectors, encoder)

    def check(self, vectors: MultiVectorEmbeddings) -> None:
        for start, stop in cut(vectors.offsets, TOKENS):
            TokenSide(vectors, np.arange(start, stop))

    def given(self, vectors: MultiVectorEmbeddings) -> MultiVectorEmbeddings:
        return replace(vectors, vectors=np.asarray(vectors.vectors))

    def asking(self, queries: MultiVectorEmbeddings) -> TokenSide:
        return TokenSide(queries, np.arange(len(queries)))

    def scan(self, rows: Rows[MultiVectorEmbeddings], queries: TokenSide, k: int, device: str) -> Hits:
        """Return the best `k` documents of each query, compared with all; part by part, whose scores are the same."""
        hits = []
        for part in range(len(rows.parts)):
            places = rows.part_rows(part)
            if len(places) == 0:
                continue
            if part not in rows.prepared:
                rows.prepared[part] = TokenSide(rows.parts[part], places)
            depth = min(k, len(places))
            indices, scores = scan_tokens(SearchState(queries, rows.prepared[part], depth), device or None)
            row = places[indices.ravel()] + rows.starts[part]
            hits.append(Hits(np.repeat(queries.rows, depth), rows.places[row], scores.ravel()))
        return Hits.joined(hits)

    def score(
        self,
        rows: Rows[MultiVectorEmbeddings],
        queries: TokenSide,
        candidates: CandidateRows,
        k: int,
        *,
        fill: bool = True,
    ) -> Hits:
        query, column = np.nonzero(candidates.rows >= 0)
        row, hits = candidates.rows[query, column], []
        short = np.bincount(query, minlength=len(queries)) < (k if fill else 0)
        if short.any():
            some = TokenSide(queries.embeddings, np.flatnonzero(short))
            hits, query, row = [self.scan(rows, some, k, candidates.device)], query[~short[query]], row[~short[query]]
        part_of = np.searchsorted(rows.starts, row, side="right") - 1
        for part in np.unique(part_of):
            mine = part_of == part
            if (side := rows.prepared.get(("whole", part))) is None:  # all rows of the part, the deleted ones too
                side = rows.prepared["whole", part] = TokenSide(rows.parts[part], np.arange(len(rows.parts[part])))
            scores = score_token_places(queries, query[mine], side, row[mine] - rows.starts[part])
            hits.append(Hits(query[mine], rows.places[row[mine]], scores))
        return Hits.joined(hits)


DENSE = Dense()
SPARSE = Sparse()
MULTI = MultiVector()


def _save_rows(path: Path, rows: NDArray[Any]) -> None:
    """Save a matrix block by block, so that one that is mapped from a file takes no memory."""
    header = np.lib.format.header_data_from_array_1_0(rows) | {"fortran_order": False}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for start in range(0, len(rows), _BLOCK):
            stream.write(np.ascontiguousarray(rows[start : start + _BLOCK]).data)
            release(rows)


def _ids(folder: Path) -> pa.StringArray:
    return strings(read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, "")["id"])


def _mapped(path: Path) -> NDArray[Any]:
    return load_array(path, mapped=True, hint="")


FEW = 16
"""Up to this many ids are looked up one by one."""
SHARE = 200
"""More are as well where the index has so many times more ids: Arrow puts all of these into a hash table."""

_NAMES = 2**16
"""As many ids are remembered, some 5 MB."""
LARGEST = 2**20
"""Parts are not merged into one of more rows: a merged part is made in memory."""


@dataclass(frozen=True, eq=False)
class Rows(Generic[Vectors]):
    """The rows of an index. The object is immutable; a change makes a new one that shares the unchanged parts."""

    # A new part is merged with the parts before it that are not larger, up to `LARGEST` rows. So n additions leave
    # about log n parts, and one for each million rows; each vector is copied about log n times. In a merged part a
    # deleted row keeps its vector but not its id, because the id may have been added again.

    form: Form[Vectors]  # how vectors are joined and written: dense or sparse
    parts: tuple[Vectors, ...]  # at least one; row r of the index is row `r - starts[p]` of its part p
    # (rows,) bool, the deleted rows. They keep their row number until `compact`, so that a graph or a list over row
    # numbers stays valid.
    dead: NDArray[np.bool_]
    # What a kind has prepared of these rows for its searches, such as the vectors of each part as float32.
    prepared: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, form: Form[Vectors], documents: Vectors) -> Rows[Vectors]:
        """Make the rows of a new index."""
        return cls(form, (documents,), np.zeros(len(documents), np.bool_))

    def __len__(self) -> int:
        return len(self.dead)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(parts + 1,) the first row of each part, and the end."""
        return np.concatenate([[0], np.cumsum([len(part) for part in self.parts])]).astype(np.int64)

    @cached_property
    def live(self) -> NDArray[np.int64]:
        """The rows that are not deleted, in order of their ids."""
        rows = np.flatnonzero(~self.dead)
        ids = self._ids if len(rows) == len(self) else self._ids.take(integer_array(rows))
        return rows if is_sorted(ids) else rows[numpy_integers(pc.sort_indices(ids))]

    @cached_property
    def ids(self) -> pa.StringArray:
        """The ids of the documents, sorted."""
        return self._ids.take(integer_array(self.live))

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """(rows,) the position of each row's id among the sorted ids; -1 for deleted rows."""
        places = np.full(len(self), -1, np.int64)
        places[self.live] = np.arange(len(self.live))
        return places

    @cached_property
    def gallery(self) -> Gallery:
        """All documents, as the gallery of a search."""
        return Gallery.of(self.parts[0].modality, self.ids, f"all indexed {self.parts[0].modality}s")

    def names_at(self, places: NDArray[np.int64]) -> list[str]:
        """Return the ids at these places; those of few are remembered, because Arrow takes as long as a search."""
        if len(places) > FEW:
            return ids_at(self.ids, places)
        known: dict[int, str] = self.prepared.setdefault("names", {})
        if len(known) > _NAMES:
            known.clear()
        names = [known.get(place) for place in places.tolist()]
        if None in names:
            names = [known.setdefault(place, self.ids[place].as_py()) for place in places.tolist()]
        return names  # type: ignore[return-value]

    def compared(self, first: int = 0) -> Any:
        """Return the (n, d) dense vectors of the rows from `first` on as they are compared, float32 in memory."""
        form: Any = self.form
        blocks = [*self.blocks(first)]
        return np.concatenate(blocks) if blocks else form.compared(self, np.arange(0))

    def blocks(self, first: int = 0) -> Iterator[Any]:
        """Yield them block by block."""
        form: Any = self.form
        for start in range(first, len(self), BLOCK):
            yield form.compared(self, np.arange(start, min(start + BLOCK, len(self))))

    def part_rows(self, part: int) -> NDArray[np.int64]:
        """Return the undeleted rows of one part, in order of their ids, counted from the start of the part."""
        first, end = self.starts[part : part + 2]
        rows: NDArray[np.int64] = self.live[(self.live >= first) & (self.live < end)] - first
        return rows

    def add(self, documents: Vectors) -> Rows[Vectors]:
        """Return the rows with these documents appended."""
        check_fits_index(self.form, documents, self.parts[0], added=True)
        check_not_indexed(documents.ids, self.ids)
        parts = list(self.parts)
        merged = [documents]
        while parts and len(parts[-1]) <= sum(map(len, merged)) <= LARGEST - len(parts[-1]):
            merged.insert(0, parts.pop())
        dead = np.concatenate([self.dead, np.zeros(len(documents), np.bool_)])
        if len(merged) > 1:
            ids = pa.concat_arrays([part.ids for part in merged])
            placeholders = pa.array([f"\0{row}" for row in range(len(ids))], pa.string())
            deleted = pa.array(dead[len(dead) - len(ids) :])
            merged = [self.form.join(merged, pc.if_else(deleted, placeholders, ids))]
        return Rows(self.form, tuple(parts + merged), dead)

    def delete(self, ids: object) -> Rows[Vectors]:
        """Return the rows without these documents; an id that occurs twice counts once."""
        dead = self.dead.copy()
        dead[self.find(ids)] = True
        return Rows(self.form, self.parts, dead)

    def compact(self) -> Rows[Vectors]:
        """Return the rows as one part, in order of ids, without deleted rows."""
        return Rows.of(self.form, self.documents())

    def documents(self) -> Vectors:
        """Return all documents, in order of their ids, copied into memory."""
        return self.select(self.ids)

    def find(self, ids: object) -> NDArray[np.int64]:
        """Return the row of each id."""
        requested = strings(ids)
        few = len(requested) <= max(FEW, len(self.ids) // SHARE)
        places = bisected(requested.to_pylist(), self.ids) if few else np.array([-1])
        rows: NDArray[np.int64] = self.live[places_of(requested, self.ids) if (places < 0).any() else places]
        return rows

    def select(self, ids: object) -> Vectors:
        """Return the vectors of these documents, in this order, copied into memory."""
        requested = strings(ids)
        rows = self.find(requested)
        part = np.searchsorted(self.starts, rows, side="right") - 1
        if len(part) == 0:
            return self.parts[0].select(requested)
        pieces = [self.parts[p].take(rows[part == p] - self.starts[p]) for p in np.unique(part)]
        if len(pieces) == 1:
            together: Vectors = pieces[0]
            return together
        joined = self.form.join(pieces, pa.concat_arrays([piece.ids for piece in pieces]))
        return joined if joined.ids.equals(requested) else joined.select(requested)

    @property
    def _ids(self) -> pa.StringArray:
        if len(self.parts) == 1:
            return self.parts[0].ids
        return pa.concat_arrays([part.ids for part in self.parts])


def check_not_indexed(ids: pa.StringArray, held: pa.StringArray) -> None:
    """Check that no id is in an index."""
    duplicates = ids.filter(pc.is_in(ids, held))
    if len(duplicates):
        raise already_indexed(duplicates)


def already_indexed(ids: pa.StringArray) -> EmbeddingError:
    """Return the error about ids that are in an index already."""
    return EmbeddingError(
        f"{counted(len(ids), 'ids', 'are')} in the index already: {_named(ids)}.",
        hint="delete them first, or add the others only",
        code="index-already",
    )


def not_indexed(ids: pa.StringArray) -> EmbeddingError:
    """Return the error about ids that are unknown to an index."""
    return EmbeddingError(
        f"{counted(len(ids), 'ids', 'are')} not in the index: {_named(ids)}.",
        hint="ids are those of the collection (visir data inspect shows some); a deleted one is gone",
        code="not-index",
    )


def bisected(ids: Sequence[str | None], held: pa.StringArray) -> NDArray[np.int64]:
    """Return the (n,) position of each id in the sorted `held`, by bisection; -1 for an unknown one, and for None."""
    places = np.full(len(ids), -1, np.int64)
    for position, identifier in enumerate(ids):
        if identifier is None:
            continue
        place = bisect_left(range(len(held)), identifier, key=lambda row: held[row].as_py())
        if place < len(held) and held[place].as_py() == identifier:
            places[position] = place
    return places


def places_of(ids: object, held: pa.StringArray) -> NDArray[np.int64]:
    """Return the (n,) position of each id in `held`."""
    requested = strings(ids)
    positions = pc.index_in(requested, held)
    if positions.null_count:
        raise not_indexed(requested.filter(pc.is_null(positions)))
    places: NDArray[np.int64] = positions.to_numpy().astype(np.int64)
    return places


_WORDS: dict[type, str] = {
    Embeddings: "one vector for each item",
    SparseEmbeddings: "one sparse vector for each item",
    MultiVectorEmbeddings: "several vectors for each item",
}


def _form_of(vectors: object) -> str:
    return next(words for form, words in _WORDS.items() if isinstance(vectors, form))


def check_fits_index(form: Form[Vectors], given: Vectors, held: Vectors, *, added: bool = False) -> None:
    """Check that vectors can be searched in, or added to, an index."""
    if not isinstance(given, Embeddings | SparseEmbeddings | MultiVectorEmbeddings):
        raise EmbeddingError(
            f"an index takes vectors with ids (Embeddings), not a {type(given).__name__}.",
            hint="of an array: Embeddings.of(ids, array); of texts and pictures: visir.encode(model, …); of a folder "
            "of parts: visir.retrieval.add_parts(index, parts)",
            code="index-takes-vectors-ids",
        )
    where = f"{given.modality} vectors by {given.encoder.name}"
    if added:
        check_same_modality(given.modality, held.modality, where)
    if not isinstance(held, type(given)):
        raise EmbeddingError(
            f"{where} are {_form_of(given)}; the index, by {held.encoder.name}, holds {_form_of(held)}.",
            hint="encode with the model that the index was built with",
        )
    given_space, held_space = form.space(given), form.space(held)
    for name, value in held_space.items():
        if given_space[name] != value:
            raise EmbeddingError(
                f"{where} have {name} {given_space[name]}; the index, by {held.encoder.name}, has {value}.",
                hint="encode with the model that the index was built with",
                code="vectors-index",
            )
    check_same_model(given.encoder, held.encoder, where)


def in_order(form: Form[Vectors], queries: Vectors, held: Vectors, documents: int, k: int) -> Vectors:
    """Check queries before a search of an index, and return them in order of their ids."""
    check_fits_index(form, queries, held)
    check_depth(k)
    if len(queries) == 0:
        raise RunError("there is no query.", hint="is the split, or the filter, right?", code="no-query")
    if documents == 0:
        raise RunError(
            "the index is empty: every document was deleted.", hint="add some first", code="every-document-deleted"
        )
    if len(queries) == 1:  # in order already; to find that out would take as long as many a search
        return queries
    order = pc.sort_indices(queries.ids)
    if bool((np.diff(order.to_numpy().astype(np.int64)) == 1).all()):
        return queries
    return queries.select(queries.ids.take(order))


def check_same_modality(given: Modality, held: Modality, where: str) -> None:
    """Check that documents have the modality of an index."""
    if given != held:
        raise EmbeddingError(
            f"{where}: this index holds {held} vectors and takes no {given} vectors.",
            hint=f"build an index of its own for {given} vectors",
            code="index-holds-vectors-takes",
        )


def check_same_model(given: EncoderCard, held: EncoderCard, where: str) -> None:
    """Check that an index is by the model of other vectors."""
    if not held.is_same_model(given):
        raise EmbeddingError(
            f"{where}: the index is by {held.name}, which is another model.",
            hint="encode with the model that the index was built with",
            code="index-another-model",
        )


def _named(ids: Any) -> str:
    return ", ".join(map(repr, ids[:5].to_pylist())) + (", …" if len(ids) > 5 else "")
