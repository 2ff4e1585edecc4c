"""Sparse embeddings: weighted words, and the vocabulary they are taken from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.fingerprint import hash_columns
from visir.records.columns import check_unique, rows_of, strings
from visir.records.embeddings import Embeddings, EncoderCard
from visir.records.items import Modality


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words (terms) that a sparse vector has weights for; term i is dimension i.

    - `name`: of the tokenizer they come from
    - `terms`: (V,) unique; pieces of words as the tokenizer writes them ("##ing")
    - `usable`: (V,) bool: which may have a weight. Special tokens ([CLS], [SEP], …) and entries that the tokenizer
      never uses ([unused1]) may not: they say nothing of an image or a text.
    """

    name: str
    terms: pa.StringArray
    usable: NDArray[np.bool_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", strings(self.terms))
        if len(self.terms) == 0 or len(self.usable) != len(self.terms):
            raise EmbeddingError(f"vocabulary {self.name}: {len(self.terms)} terms, {len(self.usable)} flags.")
        if pc.count_distinct(self.terms).as_py() != len(self.terms):
            twice = [
                value_count["values"]
                for value_count in pc.value_counts(self.terms).to_pylist()
                if value_count["counts"] > 1
            ][:5]
            raise EmbeddingError(f"vocabulary {self.name}: terms repeat: {', '.join(map(repr, twice))}.")

    def __len__(self) -> int:
        return len(self.terms)

    @cached_property
    def fingerprint(self) -> str:
        """A hash over terms and flags, in order; the name does not enter."""
        return hash_columns([self.terms, pa.array(self.usable)], sort=False)


@dataclass(frozen=True, eq=False)
class SparseEmbeddings:
    """One weighted bag of words for each id, as a compressed sparse row matrix (CSR) of shape (n, V).

    Row i has weight `values[j]` at term `terms[j]` for j in `offsets[i]:offsets[i + 1]`.

    - `offsets`: (n + 1,) int64; `terms`: (m,) int32, ascending within a row; `values`: (m,) float32, finite, above 0;
      any of them memory-mapped or not
    - `vocabulary`: what the terms are
    - `encoder`: who made them how; `origin`: see `Embeddings`

    Raises `EmbeddingError` naming the ids when weights are not finite and positive, terms are out of range, repeated or
    out of order, or ids repeat. A row without any term is allowed: nothing finds it, and it finds nothing.
    """

    modality: Modality
    ids: pa.StringArray
    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    values: NDArray[np.float32]
    vocabulary: Vocabulary
    encoder: EncoderCard
    origin: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", strings(self.ids))
        where = f"sparse {self.modality} embeddings by {self.encoder.name}"
        n, m = len(self.ids), len(self.terms)
        spans = len(self.offsets) == n + 1 and self.offsets[0] == 0 and self.offsets[-1] == m
        if not spans or (np.diff(self.offsets) < 0).any():
            raise EmbeddingError(f"{where}: offsets do not fit {n} ids and {m} weights.")
        if len(self.values) != m or self.values.dtype != np.float32 or self.terms.dtype != np.int32:
            raise EmbeddingError(
                f"{where}: {m} terms ({self.terms.dtype}, int32 wanted) for {len(self.values)} weights "
                f"({self.values.dtype}, float32 wanted)."
            )
        check_unique(self.ids, where)
        self._check(where, ~(np.isfinite(self.values) & (self.values > 0)), "weights that are not finite and positive")
        outside = (self.terms < 0) | (self.terms >= len(self.vocabulary))
        self._check(where, outside, f"terms outside of the vocabulary's 0 to {len(self.vocabulary) - 1}")
        first = np.zeros(m + 1, bool)
        first[self.offsets] = True
        self._check(where, np.r_[False, (np.diff(self.terms) <= 0) & ~first[1:m]][:m], "terms out of order")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        """V, the size of the vocabulary."""
        return len(self.vocabulary)

    def row(self, at: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The terms (ascending) and weights of row `at`."""
        part = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        return self.terms[part], self.values[part]

    def words(self, item_id: str, k: int | None = None) -> list[tuple[str, float]]:
        """The heaviest `k` terms of an id (all by default) in words with their weights; ties by term number."""
        terms, values = self.row(int(self.rows([item_id])[0]))
        order = np.argsort(-values, kind="stable")[:k]
        named = self.vocabulary.terms.take(pa.array(terms[order])).to_pylist()
        return list(zip(named, map(float, values[order]), strict=True))

    def rows(self, ids: object) -> NDArray[np.int64]:
        """The row of each id, in the given order; unknown ids are an error that names them."""
        return rows_of(ids, self.ids, f"sparse {self.modality} vector by {self.encoder.name}")

    def select(self, ids: object) -> SparseEmbeddings:
        """The embeddings of the given ids, in the given order (copied into memory)."""
        return self.take(self.rows(ids))

    def take(self, rows: NDArray[np.int64]) -> SparseEmbeddings:
        """The embeddings of the given rows, in the given order (copied into memory)."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return SparseEmbeddings(
            self.modality,
            self.ids.take(pa.array(rows)),
            offsets,
            self.terms[flat],
            self.values[flat],
            self.vocabulary,
            self.encoder,
            self.origin,
        )

    def to_scipy(self) -> Any:
        """The matrix as a `scipy.sparse.csr_array` (n, V), sharing memory."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.terms, self.offsets), shape=(len(self), self.dimension))

    @classmethod
    def from_scipy(
        cls, modality: Modality, ids: object, matrix: Any, vocabulary: Vocabulary, encoder: EncoderCard
    ) -> SparseEmbeddings:
        """From any SciPy sparse matrix (n, V); explicit zeros are dropped, negative weights refused."""
        from scipy.sparse import csr_array

        rows = csr_array(matrix, dtype=np.float32, copy=True)
        if rows.shape[1] != len(vocabulary):
            raise EmbeddingError(f"a matrix of {rows.shape[1]} columns for a vocabulary of {len(vocabulary)} terms.")
        rows.sum_duplicates()
        rows.eliminate_zeros()
        rows.sort_indices()
        offsets, terms = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
        return cls(modality, strings(ids), offsets, terms, rows.data, vocabulary, encoder)

    def _check(self, where: str, bad: NDArray[np.bool_], what: str) -> None:
        if not bad.any():
            return
        rows = np.unique(np.searchsorted(self.offsets, np.flatnonzero(bad), side="right") - 1)
        named = ", ".join(repr(self.ids[int(i)].as_py()) for i in rows[:5])
        raise EmbeddingError(f"{where}: {what} in {named}{' and others' if len(rows) > 5 else ''}.")


Vectors: TypeAlias = Embeddings | SparseEmbeddings
"""What an encoder makes of items: dense vectors, or weighted words."""
