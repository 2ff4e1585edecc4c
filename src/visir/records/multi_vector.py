"""Multi-vector embeddings: several vectors for each item, one for each of its words or parts (late interaction)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Columnar, Displayed, brief, counted, listed
from visir.errors import EmbeddingError
from visir.records.arrays import as_array, rows_of_spans
from visir.records.columns import check_unique, rows_of, strings
from visir.records.embeddings import NOT_FINITE, EncoderCard
from visir.records.items import Modality

_BLOCK = 65_536  # vectors checked at once, so that a memory-mapped matrix need not fit in memory


@dataclass(frozen=True, eq=False)
class TokenVectors(Displayed):
    """Several vectors for each of n items, without ids: item i has `vectors[offsets[i]:offsets[i + 1]]`.

    Attributes:
        vectors: (m, d) float16 or float32.
        offsets: (n + 1,) int64, from 0 to m; every item has at least one vector.

    Raises:
        EmbeddingError: The vectors are no such matrix, or the offsets do not fit.

    Example:
        >>> tokens = TokenVectors.of([[[1, 0], [0, 1]], [[3, 4]]])
        >>> len(tokens), tokens.dimension, tokens.counts.tolist(), tokens[1].tolist()
        (2, 2, [2, 1], [[3.0, 4.0]])
        >>> tokens.take(np.array([1, 0])).offsets.tolist()
        [0, 1, 3]
    """

    vectors: NDArray[Any]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        _check_layout("token vectors", len(self.offsets) - 1, self.offsets, self.vectors)

    @classmethod
    def of(cls, items: object) -> TokenVectors:
        """Join the vectors of each item.

        Args:
            items: A list of n arrays (t_i, d), or one array (n, t, d): of NumPy, of torch on any device, or lists.

        Raises:
            EmbeddingError: An item has no vectors, is no matrix of numbers, or has vectors of another length.
        """
        if isinstance(items, TokenVectors):
            return items
        values: Any = items
        whole = getattr(items, "ndim", 0) == 3  # a tensor on a device is copied once, not item by item
        matrices = [_matrix(entry, index) for index, entry in enumerate(as_array(values) if whole else values)]
        if not matrices:
            raise EmbeddingError("no items, so their vectors have no length.", hint="give at least one item")
        for index, matrix in enumerate(matrices):
            if matrix.shape[1] != matrices[0].shape[1]:
                raise EmbeddingError(
                    f"item {index} has vectors of {matrix.shape[1]} numbers, item 0 of {matrices[0].shape[1]}."
                )
        half = all(matrix.dtype == np.float16 for matrix in matrices)
        vectors = np.concatenate(matrices).astype(np.float16 if half else np.float32, copy=False)
        return cls(vectors, _offsets_of([len(matrix) for matrix in matrices]))

    @classmethod
    def concatenate(cls, parts: Sequence[TokenVectors]) -> TokenVectors:
        """Join the items of several parts, in order.

        Raises:
            EmbeddingError: There is no part, or the parts differ in the length of their vectors.
        """
        if len({part.dimension for part in parts}) != 1:
            lengths = sorted({part.dimension for part in parts})
            raise EmbeddingError(
                f"{len(parts)} parts with vectors of {lengths or 'no'} numbers cannot be joined.",
                code="parts-vectors-numbers-cannot",
            )
        counts = np.concatenate([part.counts for part in parts])
        return cls(np.concatenate([part.vectors for part in parts]), _offsets_of(counts))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        index = range(len(self))[index]  # counts from the end, and is checked
        vectors: NDArray[Any] = self.vectors[int(self.offsets[index]) : int(self.offsets[index + 1])]
        return vectors

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return brief(self, counted(len(self), "items"), _shape(self.offsets, self.vectors))

    @property
    def dimension(self) -> int:
        """The number of values in one vector (d)."""
        return int(self.vectors.shape[1])

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n,) the number of vectors of each item."""
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.int64]) -> TokenVectors:
        """Return the vectors of these items, in this order, copied into memory."""
        positions, offsets = rows_of_spans(self.offsets, rows)
        return TokenVectors(self.vectors[positions], offsets)


@dataclass(frozen=True, eq=False)
class MultiVectorEmbeddings(Columnar, view="visir.reports.views.embeddings"):
    """Several vectors for each id: item i has `vectors[offsets[i]:offsets[i + 1]]`, at least one.

    Models of late interaction keep a vector for each word of a text and for each part of a picture. A pair is scored
    with MaxSim: the sum, over the vectors of the query, of the greatest dot product with a vector of the document
    (ColBERT, Khattab and Zaharia 2020, section 3.3).

    Attributes:
        modality: What was encoded.
        ids: (n,) unique ids, in any order.
        offsets: (n + 1,) int64, in memory or memory-mapped, as `vectors`.
        vectors: (m, d) float16 or float32.
        encoder: The model that computed the vectors.
        origin: Where the vectors come from, in words; see `Embeddings`.

    Raises:
        EmbeddingError: A value is NaN or infinite, an id has no vector, ids repeat, or lengths differ. The message
            names the ids.

    Example:
        >>> images = MultiVectorEmbeddings.of({"a": [[3, 4], [1, 0]], "b": [[0, 2]]}, name="by hand")
        >>> len(images), images.dimension, images["a"].shape
        (2, 2, (2, 2))
        >>> images.select(["b", "a"]).offsets.tolist()
        [0, 1, 3]
        >>> images.normalise()["b"].tolist()
        [[0.0, 1.0]]
    """

    modality: Modality
    ids: pa.StringArray
    offsets: NDArray[np.int64]
    vectors: NDArray[Any]
    encoder: EncoderCard
    origin: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", strings(self.ids))
        where = f"multi-vector {self.modality} embeddings by {self.encoder.name}"
        _check_layout(where, len(self.ids), self.offsets, self.vectors, self.ids)
        check_unique(self.ids, where)
        faulty: set[int] = set()
        for start in range(0, len(self.vectors), _BLOCK):
            bad = np.flatnonzero(~np.isfinite(self.vectors[start : start + _BLOCK]).all(axis=1))
            if len(bad):
                faulty.update(np.unique(self._owner(start + bad)).tolist())
            if len(faulty) > 5:
                break
        if faulty:
            raise EmbeddingError(
                f"{where}: NaN or infinite values in the vectors of {_named(self.ids, sorted(faulty))}.",
                hint=NOT_FINITE,
                code="nan-infinite-values",
            )

    @classmethod
    def of(
        cls, vectors: object, matrices: object = None, *, modality: Modality = "image", name: str = "own vectors"
    ) -> MultiVectorEmbeddings:
        """Make embeddings of vectors of your own.

        Args:
            vectors: {id: (t, d) vectors}; or the ids of `matrices`; or a pair (ids, matrices).
            matrices: A list of n arrays (t_i, d), or one array (n, t, d): of NumPy, of torch on any device, or lists.
            modality: What the vectors are of: "image", "text" or "text+image".
            name: What the model is called that made them. Vectors of one name belong to one model.

        Raises:
            EmbeddingError: An id has no vectors, vectors differ in length, are no numbers, are NaN or infinite, or ids
                repeat.

        Example:
            >>> MultiVectorEmbeddings.of(["c1", "c2"], np.ones((2, 3, 4)), modality="text").vectors.shape
            (6, 4)
        """
        ids: Any = vectors
        if isinstance(vectors, tuple) and len(vectors) == 2 and matrices is None:
            ids, matrices = vectors
        if isinstance(vectors, Mapping) and matrices is None:
            ids, matrices = list(vectors), list(vectors.values())
        elif matrices is None:
            raise EmbeddingError(
                f"a {type(vectors).__name__} without ids is no set of vectors.",
                hint="MultiVectorEmbeddings.of({'a.jpg': vectors, …}), or .of(['a.jpg', …], [vectors, …])",
                code="without-ids-no-set",
            )
        try:
            tokens = TokenVectors.of(matrices)
        except EmbeddingError as fault:
            raise EmbeddingError(
                f"multi-vector {modality} embeddings by {name}: {fault.message}",
                hint="give a (t, d) matrix for each id: one vector of d numbers for each of its t parts",
            ) from fault
        ids = [str(identifier) for identifier in (ids.to_pylist() if hasattr(ids, "to_pylist") else ids)]
        return cls(modality, strings(ids), tokens.offsets, tokens.vectors, EncoderCard(name, "vectors"))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, identifier: str) -> NDArray[Any]:
        return self.row(int(self.rows([identifier])[0]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.to_pylist())

    def __repr__(self) -> str:
        return brief(
            self,
            f"{counted(len(self), f'{self.modality} multi-vectors')}, {_shape(self.offsets, self.vectors)}",
            f"ids: {listed(self.ids[:3].to_pylist(), len(self))}" if len(self) else "",
            f"by {self.encoder.name} ({self.encoder.family})",
            self.origin,
        )

    def to_arrow(self) -> pa.Table:
        """Return the columns `id` and `vectors` (lists of vectors, which are lists of fixed length)."""
        flat = pa.array(np.ascontiguousarray(self.vectors).reshape(-1))
        tokens = pa.FixedSizeListArray.from_arrays(flat, self.dimension)
        offsets = pa.array(np.ascontiguousarray(self.offsets))
        return pa.table({"id": self.ids, "vectors": pa.LargeListArray.from_arrays(offsets, tokens)})

    @property
    def dimension(self) -> int:
        """The number of values in one vector (d)."""
        return int(self.vectors.shape[1])

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n,) the number of vectors of each id."""
        return np.diff(self.offsets)

    @property
    def tokens(self) -> TokenVectors:
        """The vectors without ids, in the same memory."""
        return TokenVectors(self.vectors, self.offsets)

    def row(self, index: int) -> NDArray[Any]:
        """Return the (t, d) vectors of row `index`."""
        vectors: NDArray[Any] = self.vectors[int(self.offsets[index]) : int(self.offsets[index + 1])]
        return vectors

    def rows(self, ids: object) -> NDArray[np.int64]:
        """Return the row of each id, in the order of `ids`.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return rows_of(ids, self.ids, f"multi-vector {self.modality} embeddings by {self.encoder.name}")

    def select(self, ids: object) -> MultiVectorEmbeddings:
        """Return the embeddings of these ids, in this order, copied into memory.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return self.take(self.rows(ids))

    def take(self, rows: NDArray[np.int64]) -> MultiVectorEmbeddings:
        """Return the embeddings of these rows, in this order, copied into memory."""
        positions, offsets = rows_of_spans(self.offsets, rows)
        ids = self.ids.take(pa.array(rows))
        return MultiVectorEmbeddings(self.modality, ids, offsets, self.vectors[positions], self.encoder, self.origin)

    def normalise(self) -> MultiVectorEmbeddings:
        """Return vectors of length 1 in float32, so that MaxSim sums cosines.

        Raises:
            EmbeddingError: A vector is zero; the message names its id.
        """
        vectors = np.array(self.vectors, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        zero = np.flatnonzero(lengths[:, 0] == 0)
        if len(zero):
            owners = np.unique(self._owner(zero)).tolist()
            raise EmbeddingError(
                f"{counted(len(zero), 'vectors')} of {counted(len(owners), f'{self.modality} items')} by "
                f"{self.encoder.name} are zero: {_named(self.ids, owners)}; they have no cosine.",
                hint="leave out vectors of padding, or search by the vectors as they are",
                code="embedding-no-cosine",
            )
        vectors /= lengths
        return MultiVectorEmbeddings(self.modality, self.ids, self.offsets, vectors, self.encoder, self.origin)

    def _owner(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.offsets, positions, side="right") - 1


def _matrix(values: object, index: int) -> NDArray[Any]:
    """The vectors of one item as a (t, d) matrix of floats."""
    try:
        matrix = as_array(values)
    except (TypeError, ValueError, RuntimeError) as fault:
        raise EmbeddingError(f"item {index} is no matrix of numbers: {fault}.") from fault
    if matrix.dtype.kind not in "fiub" or matrix.ndim != 2 or 0 in matrix.shape:
        raise EmbeddingError(f"item {index} is no (t, d) matrix of numbers: {matrix.dtype} {matrix.shape}.")
    return matrix


def _offsets_of(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _check_layout(
    where: str, n: int, offsets: NDArray[np.int64], vectors: NDArray[Any], ids: pa.StringArray | None = None
) -> None:
    """Check that the vectors are a matrix and that the offsets give each of n items at least one of them."""
    if vectors.ndim != 2 or vectors.dtype not in (np.float16, np.float32):
        raise EmbeddingError(
            f"{where}: vectors must be an (m, d) matrix of float16 or float32, not {vectors.dtype} {vectors.shape}."
        )
    spans = offsets.ndim == 1 and offsets.dtype == np.int64 and len(offsets) == n + 1 and offsets[0] == 0
    if not spans or offsets[-1] != len(vectors):
        raise EmbeddingError(
            f"{where}: offsets ({offsets.dtype} {offsets.shape}) do not fit {n} items and {len(vectors)} vectors.",
            hint="offsets are (n + 1,) int64, from 0 to the number of vectors",
        )
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        items = _named(ids, empty.tolist()) if ids is not None else f"item {empty[0]}"
        raise EmbeddingError(f"{where}: no vector for {items}.", hint="every item has at least one vector")


def _named(ids: pa.StringArray, rows: Sequence[int]) -> str:
    return ", ".join(repr(ids[row].as_py()) for row in rows[:5]) + (" and others" if len(rows) > 5 else "")


def _shape(offsets: NDArray[np.int64], vectors: NDArray[Any]) -> str:
    """The shape in words: "32.0 vectors each, 128 dimensions, float16"."""
    each = len(vectors) / (len(offsets) - 1) if len(offsets) > 1 else 0.0
    return f"{each:,.1f} vectors each, {vectors.shape[1]:,} dimensions, {vectors.dtype}"
