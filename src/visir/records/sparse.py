"""Sparse embeddings: weighted words, and their vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Columnar, Displayed, brief, counted, listed
from visir.errors import EmbeddingError
from visir.fingerprint import hash_columns
from visir.records.arrays import rows_of_spans
from visir.records.columns import check_unique, rows_of, strings
from visir.records.embeddings import EncoderCard
from visir.records.items import Modality


@dataclass(frozen=True, eq=False)
class Vocabulary(Displayed):
    """The words (terms) of sparse vectors; term i is dimension i.

    Attributes:
        name: The name of the tokenizer that has this vocabulary.
        terms: (V,) unique terms: words, and pieces of words as the tokenizer writes them ("##ing").
        usable: (V,) bool, whether a term may have a weight. Special tokens ([CLS], [SEP], …) and entries that the
            tokenizer never uses ([unused1]) may not, because they have no meaning.

    Raises:
        EmbeddingError: There is no term, a term repeats, or the lengths differ.

    Example:
        >>> len(Vocabulary("toy", ["[CLS]", "boat", "red"], np.array([False, True, True])))
        3
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
            raise EmbeddingError(
                f"vocabulary {self.name}: terms repeat: {', '.join(map(repr, twice))}.", code="terms-repeat"
            )

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        usable = self.terms.filter(pa.array(self.usable))
        shown = listed(usable[:5].to_pylist(), len(usable), limit=5)
        return brief(self, f"{self.name}: {counted(len(self), 'terms')}, {len(usable):,} usable", f"usable: {shown}")

    @cached_property
    def fingerprint(self) -> str:
        """A hash over terms and flags, in order, without the name."""
        return hash_columns([self.terms, pa.array(self.usable)], sort=False)


@dataclass(frozen=True, eq=False)
class SparseEmbeddings(Columnar, view="visir.reports.views.embeddings"):
    """One weighted bag of words for each id: a compressed sparse row matrix (CSR) of shape (n, V).

    Row i has weight `values[j]` at term `terms[j]` for j in `offsets[i]:offsets[i + 1]`. A row without terms is
    allowed: no search finds it, and as a query it has no answer.

    Attributes:
        modality: What was encoded.
        ids: (n,) unique ids, in any order.
        offsets: (n + 1,) int64, in memory or memory-mapped, as `terms` and `values`.
        terms: (m,) int32, ascending within a row.
        values: (m,) float32 weights, finite and above 0.
        vocabulary: The terms.
        encoder: The model that computed the vectors.
        origin: Where the vectors come from, in words; see `Embeddings`.

    Raises:
        EmbeddingError: Weights are not finite and positive, terms are out of range, repeated or out of order, ids
            repeat, or lengths differ. The message names the ids.

    Example:
        >>> words = Vocabulary("toy", ["boat", "dog", "red"], np.ones(3, bool))
        >>> card = EncoderCard("by hand", "example", revision="1")
        >>> texts = SparseEmbeddings("text", ["q"], np.array([0, 2]), np.array([0, 2], np.int32),
        ...                          np.array([1, 2], np.float32), words, card)
        >>> texts.words("q")
        [('red', 2.0), ('boat', 1.0)]
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

    def __repr__(self) -> str:
        each = len(self.terms) / len(self) if len(self) else 0.0
        shown = [
            f"{name}: {', '.join(f'{word} {weight:.2f}' for word, weight in self.words(name, 5))}"
            for name in self.ids[:2].to_pylist()
        ]
        return brief(
            self,
            f"{counted(len(self), f'{self.modality} vectors')}, {each:.1f} words each, "
            f"of {self.vocabulary.name} ({self.dimension:,} terms)",
            *shown,
            f"… {len(self) - 2:,} more" if len(self) > 2 else "",
            f"by {self.encoder.name} ({self.encoder.family})",
            self.origin,
        )

    def to_arrow(self) -> pa.Table:
        """Return one row per weight, with columns `id`, `term` and `weight`."""
        rows = pa.array(np.repeat(np.arange(len(self)), np.diff(self.offsets)))
        terms = self.vocabulary.terms.take(pa.array(self.terms))
        return pa.table({"id": self.ids.take(rows), "term": terms, "weight": self.values})

    @property
    def dimension(self) -> int:
        """The size of the vocabulary (V)."""
        return len(self.vocabulary)

    def row(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the terms (ascending) and the weights of row `index`."""
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return self.terms[part], self.values[part]

    def words(self, item_id: str, k: int | None = None) -> list[tuple[str, float]]:
        """Return the (term, weight) pairs of an id, heaviest first, ties by the number of the term.

        Args:
            item_id: The id.
            k: At most this many pairs; None is all.

        Raises:
            EmbeddingError: The id is unknown.
        """
        terms, values = self.row(int(self.rows([item_id])[0]))
        order = np.argsort(-values, kind="stable")[:k]
        named = self.vocabulary.terms.take(pa.array(terms[order])).to_pylist()
        return list(zip(named, map(float, values[order]), strict=True))

    def rows(self, ids: object) -> NDArray[np.int64]:
        """Return the row of each id, in the order of `ids`.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return rows_of(ids, self.ids, f"sparse {self.modality} vector by {self.encoder.name}")

    def select(self, ids: object) -> SparseEmbeddings:
        """Return the embeddings of these ids, in this order, copied into memory.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return self.take(self.rows(ids))

    def take(self, rows: NDArray[np.int64]) -> SparseEmbeddings:
        """Return the embeddings of these rows, in this order, copied into memory."""
        flat, offsets = rows_of_spans(self.offsets, rows)
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
        """Return the matrix as a `scipy.sparse.csr_array` (n, V) that shares memory."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.terms, self.offsets), shape=(len(self), self.dimension))

    @classmethod
    def from_scipy(
        cls, modality: Modality, ids: object, matrix: Any, vocabulary: Vocabulary, encoder: EncoderCard
    ) -> SparseEmbeddings:
        """Make sparse embeddings from any SciPy sparse matrix.

        Args:
            modality: What was encoded.
            ids: (n,) unique ids.
            matrix: (n, V) weights from 0; explicit zeros are dropped.
            vocabulary: The V terms.
            encoder: The model that computed the vectors.

        Raises:
            EmbeddingError: The matrix has another width than the vocabulary, or a weight is negative or not finite.
        """
        from scipy.sparse import csr_array

        rows = csr_array(matrix, dtype=np.float32, copy=True)
        if rows.shape[1] != len(vocabulary):
            raise EmbeddingError(
                f"a matrix of {rows.shape[1]} columns for a vocabulary of {len(vocabulary)} terms.",
                code="matrix-columns-vocabulary-terms",
            )
        rows.sum_duplicates()
        rows.eliminate_zeros()
        rows.sort_indices()
        offsets, terms = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
        return cls(modality, strings(ids), offsets, terms, rows.data, vocabulary, encoder)

    def _check(self, where: str, bad: NDArray[np.bool_], fault: str) -> None:
        if not bad.any():
            return
        rows = np.unique(np.searchsorted(self.offsets, np.flatnonzero(bad), side="right") - 1)
        named = ", ".join(repr(self.ids[int(i)].as_py()) for i in rows[:5])
        raise EmbeddingError(f"{where}: {fault} in {named}{' and others' if len(rows) > 5 else ''}.")
