"""Parts of an index: vectors in files that are written once and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.errors import EmbeddingError
from visir.files import release
from visir.parquet import read_columns
from visir.records import (
    Embeddings,
    EncoderCard,
    Modality,
    MultiVectorEmbeddings,
    SparseEmbeddings,
    Vocabulary,
    strings,
)
from visir.retrieval.multi_vector.compression import COMPRESSED_FILES, CompressedVectors, join_vectors

_BLOCK = 8192
"""Rows that are written at once."""

V = TypeVar("V", Embeddings, SparseEmbeddings, MultiVectorEmbeddings)


class Form(Protocol[V]):
    """How vectors of one form (dense, sparse, several for each item) are joined, written and read."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that `write` writes."""

    def join(self, parts: Sequence[V], ids: pa.StringArray) -> V:
        """Return all rows one after another, under these ids, copied into memory."""

    def space(self, vectors: V) -> dict[str, Any]:
        """Return the facts, by name, that two sets of vectors must share to be compared."""

    def write(self, vectors: V, folder: Path) -> None:
        """Write the vectors into an empty folder."""

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> V:
        """Read the files of `write`, memory-mapped."""


class Dense:
    """Dense vectors: `vectors.npy` and `ids.parquet`."""

    files: tuple[str, ...] = ("vectors.npy", "ids.parquet")

    def join(self, parts: Sequence[Embeddings], ids: pa.StringArray) -> Embeddings:
        """Return all rows one after another, under these ids; mixed types become the widest, which changes no value."""
        vectors = np.concatenate([embeddings.vectors for embeddings in parts])
        return Embeddings(
            parts[0].modality, ids, vectors, parts[0].encoder, all(embeddings.normalised for embeddings in parts)
        )

    def space(self, vectors: Embeddings) -> dict[str, Any]:
        """Return the dimension."""
        return {"dimension": vectors.dimension}

    def write(self, vectors: Embeddings, folder: Path) -> None:
        """Write into an empty folder."""
        _save_rows(folder / "vectors.npy", vectors.vectors)
        # In Parquet's metadata, so that a part is complete in itself.
        table = pa.table({"id": vectors.ids}).replace_schema_metadata({"normalised": str(vectors.normalised)})
        pq.write_table(table, folder / "ids.parquet")

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> Embeddings:
        """Read what `write` wrote, memory-mapped."""
        table = read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, "")
        normalised = (table.schema.metadata or {}).get(b"normalised") == b"True"
        return Embeddings(modality, strings(table["id"]), _mapped(folder / "vectors.npy"), encoder, normalised)


class Sparse:
    """Sparse vectors: `offsets.npy`, `terms.npy`, `values.npy`, `ids.parquet` and `vocabulary.parquet`."""

    files: tuple[str, ...] = ("offsets.npy", "terms.npy", "values.npy", "ids.parquet", "vocabulary.parquet")
    arrays: tuple[str, ...] = ("offsets", "terms", "values")

    def join(self, parts: Sequence[SparseEmbeddings], ids: pa.StringArray) -> SparseEmbeddings:
        """Return all rows one after another, under these ids."""
        lengths = np.concatenate([np.diff(embeddings.offsets) for embeddings in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        terms, values = (
            np.concatenate([getattr(embeddings, name) for embeddings in parts]) for name in ("terms", "values")
        )
        return SparseEmbeddings(
            parts[0].modality, ids, offsets, terms, values, parts[0].vocabulary, parts[0].encoder
        )  # fmt: skip

    def space(self, vectors: SparseEmbeddings) -> dict[str, Any]:
        """Return the size and the fingerprint of the vocabulary."""
        return {"dimension": vectors.dimension, "vocabulary": vectors.vocabulary.fingerprint}

    def write(self, vectors: SparseEmbeddings, folder: Path) -> None:
        """Write into an empty folder."""
        for name in self.arrays:
            np.save(folder / f"{name}.npy", getattr(vectors, name), allow_pickle=False)
        pq.write_table(pa.table({"id": vectors.ids}), folder / "ids.parquet")
        vocabulary = vectors.vocabulary
        table = pa.table({"term": vocabulary.terms, "usable": vocabulary.usable})
        pq.write_table(table.replace_schema_metadata({"name": vocabulary.name}), folder / "vocabulary.parquet")

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> SparseEmbeddings:
        """Read what `write` wrote, memory-mapped."""
        return SparseEmbeddings(modality=modality, encoder=encoder, **self.columns(folder))

    def columns(self, folder: Path) -> dict[str, Any]:
        """Return the ids, the vocabulary and the `arrays` of a folder, memory-mapped."""
        columns = {"term": pa.string(), "usable": pa.bool_()}
        table = read_columns(folder / "vocabulary.parquet", columns, EmbeddingError, "")
        name = (table.schema.metadata or {}).get(b"name", b"").decode(errors="replace")
        vocabulary = Vocabulary(name, strings(table["term"]), table["usable"].to_numpy())
        ids = strings(read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, "")["id"])
        return {"ids": ids, "vocabulary": vocabulary, **{name: _mapped(folder / f"{name}.npy") for name in self.arrays}}


class MultiVector:
    """Several vectors for each item: `offsets.npy`, `ids.parquet`, and `vectors.npy`, or the files of a compression."""

    files: tuple[str, ...] = ("offsets.npy", "ids.parquet", "vectors.npy", *COMPRESSED_FILES)

    def join(self, parts: Sequence[MultiVectorEmbeddings], ids: pa.StringArray) -> MultiVectorEmbeddings:
        """Return all items one after another, under these ids; compressed vectors stay as they are."""
        counts = np.concatenate([embeddings.counts for embeddings in parts])
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        vectors = join_vectors([embeddings.vectors for embeddings in parts])
        return MultiVectorEmbeddings(parts[0].modality, ids, offsets, vectors, parts[0].encoder)

    def space(self, vectors: MultiVectorEmbeddings) -> dict[str, Any]:
        """Return the dimension."""
        return {"dimension": vectors.dimension}

    def write(self, vectors: MultiVectorEmbeddings, folder: Path) -> None:
        """Write into an empty folder."""
        np.save(folder / "offsets.npy", vectors.offsets, allow_pickle=False)
        pq.write_table(pa.table({"id": vectors.ids}), folder / "ids.parquet")
        if isinstance(vectors.vectors, CompressedVectors):
            vectors.vectors.write(folder)
        else:
            np.save(folder / "vectors.npy", vectors.vectors, allow_pickle=False)

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> MultiVectorEmbeddings:
        """Read what `write` wrote, memory-mapped."""
        vectors: Any = _mapped(folder / "vectors.npy") if (folder / "vectors.npy").exists() else None
        if vectors is None:
            vectors = CompressedVectors.read(folder)
        ids = strings(read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, "")["id"])
        return MultiVectorEmbeddings(modality, ids, _mapped(folder / "offsets.npy"), vectors, encoder)


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


def _mapped(path: Path) -> NDArray[Any]:
    return load_array(path, mapped=True, hint="")
