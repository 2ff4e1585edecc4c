"""What an encoder computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Columnar, Displayed, brief, counted, listed
from visir.errors import EmbeddingError
from visir.files import release
from visir.fingerprint import hash_columns, hash_json
from visir.records.columns import as_array, check_unique, duplicates, owners, rows_of, rows_of_spans, strings
from visir.records.items import Modality

# Embeddings: ids, vectors, and the encoder that computed them.

NOT_FINITE = (
    "look at these inputs; in half precision numbers overflow: encode in float32 or bfloat16; where it is every input, "
    "weights of the model are NaN or infinite: fetch or copy it again"
)
"""What to do about vectors with NaN or infinite values."""
_BLOCK = 65_536  # rows checked at once, so that a memory-mapped matrix need not fit in memory


@dataclass(frozen=True, repr=False)
class EncoderCard(Displayed):
    """Which encoder computed vectors, and how: everything that changes the numbers.

    Args:
        name: What `visir.load` takes.
        family: "transformers-clip", "openclip", "onnx", "imported", …
        revision: The model's revision; None when it is unknown.
        weights: A hash over the weights; None when it is unknown.
        image_preprocessing: Resize, crop, mean, … as plain values.
        text_preprocessing: Template, truncation, prompts, … as plain values.
        dtype: The arithmetic of the forward pass.
        code: A hash over the code of functions of your own (`Encoder.wrap`); None for the models of visir.
        code_revisions: The commit of each other repository whose code the model runs (`?code=trusted`).

    Example:
        >>> card = EncoderCard("my model", "mine", revision="1", text_preprocessing={"template": "{}"})
        >>> card.is_versioned, card.is_same_model(EncoderCard("another", "mine"))
        (True, False)
    """

    name: str
    family: str
    revision: str | None = None
    weights: str | None = None
    image_preprocessing: dict[str, Any] = field(default_factory=dict)
    text_preprocessing: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    code: str | None = None
    code_revisions: dict[str, str] = field(default_factory=dict)

    @property
    def is_versioned(self) -> bool:
        """Whether the card changes when the model does: it has a hash over the weights, or a revision.

        Vectors of models without a version are not stored: after a change of their code one would get the old vectors.
        """
        return self.weights is not None or self.revision is not None

    def __repr__(self) -> str:
        versions = [
            f"{name} {value}" for name, value in (("revision", self.revision), ("weights", self.weights)) if value
        ]
        return brief(
            self,
            f"{self.name!r}, {self.family}",
            ", ".join(versions) or "no version: its vectors are not stored",
            f"images: {_settings(self.image_preprocessing)}" if self.image_preprocessing else "",
            f"texts: {_settings(self.text_preprocessing)}" if self.text_preprocessing else "",
            f"arithmetic: {self.dtype}" if self.dtype != "float32" else "",
            f"code: {_settings(self.code_revisions)}" if self.code_revisions else "",
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over every field: the key under which encoded vectors are stored."""
        return hash_json(self.to_dict())

    def identity(self, modality: Modality | None = None) -> dict[str, Any]:
        """Return everything that the vectors depend on: equal identities mean equal vectors.

        These are all fields, without the name when the weights are known: the same weights under another path are the
        same model.

        Args:
            modality: Leave out the preprocessing of the other modality.
        """
        values = self.to_dict()
        if self.weights is not None:
            del values["name"]
        if modality in ("image", "text"):
            del values["text_preprocessing" if modality == "image" else "image_preprocessing"]
        return values

    def is_same_model(self, other: EncoderCard) -> bool:
        """Whether both cards describe one model.

        The weights are compared if both cards have them, otherwise names, and revisions and code that both have.
        """
        if {"weights", "name"} & set(self.differences(other)):
            return False
        own, others = (self.revision, self.code), (other.revision, other.code)
        known = self.weights is not None and other.weights is not None
        return known or all(a == b for a, b in zip(own, others, strict=True) if a is not None and b is not None)

    def differences(self, other: EncoderCard, modality: Modality | None = None) -> list[str]:
        """Return the names of the fields in which two cards differ in their model or in its preprocessing.

        Device and precision may change from run to run, so `dtype` is not compared.

        Args:
            other: The card to compare with.
            modality: Look at the preprocessing of this modality only.
        """
        model: tuple[str, ...] = ("weights",)
        if self.weights is None or other.weights is None:
            known = (name for name in ("revision", "code") if getattr(self, name) and getattr(other, name))
            model = ("name", *known)
        sides = (modality,) if modality in ("image", "text") else ("image", "text")
        fields = (*model, *(f"{side}_preprocessing" for side in sides))
        return [name for name in fields if getattr(self, name) != getattr(other, name)]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EncoderCard:
        """Make a card from the values of `to_dict`, as read from JSON.

        Raises:
            TypeError: A field is unknown or missing.
            ValueError: A field has a value of another type.
        """
        card = cls(**values)
        for name, value in card.to_dict().items():
            kind = dict if name.endswith(("_preprocessing", "_revisions")) else str
            if not isinstance(value, kind) and not (value is None and name in ("revision", "weights", "code")):
                raise ValueError(f"the card of an encoder cannot have {name} = {value!r}")
        return card

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values for JSON; those about code only where there is something to say."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value or not name.startswith("code")}


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


class _Vectors(Columnar, ABC):
    """What the three records of vectors share; each of them says which form its data has."""

    modality: Modality
    ids: pa.StringArray
    encoder: EncoderCard
    origin: str
    _form: ClassVar[str] = ""  # as messages name it, before the modality

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.to_pylist())

    def __repr__(self) -> str:
        by = f"by {self.encoder.name} ({self.encoder.family})"
        return brief(self, self._summary(), *self._examples(), by, self.origin)

    def rows(self, ids: object) -> NDArray[np.int64]:
        """Return the row of each id, in the order of `ids`.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return rows_of(ids, self.ids, f"{self._form}{self.modality} vector by {self.encoder.name}")

    def select(self, ids: object) -> Self:
        """Return the embeddings of these ids, in this order, copied into memory.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return self.take(self.rows(ids))

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return the embeddings of these rows, in this order, copied into memory."""
        return replace(self, ids=self.ids.take(pa.array(rows)), **self._at(rows))  # type: ignore[type-var]

    @property
    def _where(self) -> str:
        return f"{self._form}{self.modality} embeddings by {self.encoder.name}"

    @abstractmethod
    def _summary(self) -> str:
        """How many vectors of which form there are, in words."""

    def _examples(self) -> list[str]:
        return [f"ids: {listed(self.ids[:3].to_pylist(), len(self))}"] if len(self) else []

    @abstractmethod
    def _at(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """The fields with the data of these rows."""


class _Matrix:
    """Vectors that are the rows of one matrix."""

    vectors: NDArray[Any]

    @property
    def dimension(self) -> int:
        """The number of values in one vector (d)."""
        return int(self.vectors.shape[1])


def _unit(vectors: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Vectors of length 1 in float32, and the rows that are zero: where there are any, no vector is changed."""
    unit = np.array(vectors, dtype=np.float32)
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    zero = np.flatnonzero(lengths[:, 0] == 0)
    if not len(zero):
        unit /= lengths
    return unit, zero


def _not_finite(vectors: NDArray[Any], offsets: NDArray[np.int64] | None = None) -> list[int]:
    """The items with NaN or infinite values: all, or more than five."""
    faulty: list[int] = []
    for start in range(0, len(vectors), _BLOCK):
        bad = ~np.isfinite(vectors[start : start + _BLOCK]).all(axis=1)
        release(vectors)
        if bad.any():
            rows = start + np.flatnonzero(bad)
            faulty += (rows if offsets is None else _owners(offsets, rows)).tolist()
            if len(set(faulty)) > 5:
                break
    return sorted(set(faulty)) if faulty else faulty


def _owners(offsets: NDArray[np.int64], entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The items that have these entries of a ragged array."""
    return np.unique(np.searchsorted(offsets, entries, side="right") - 1)


def _named(ids: pa.StringArray, rows: Sequence[int] | NDArray[np.int64]) -> str:
    return ", ".join(repr(ids[int(row)].as_py()) for row in rows[:5]) + (" and others" if len(rows) > 5 else "")


def _ids_and_data(cls: type, vectors: Any, data: Any, each: str, every: str) -> tuple[pa.StringArray, Any]:
    """The ids and the data of {id: data}, of the ids and the data, or of a pair of both."""
    if isinstance(vectors, tuple) and len(vectors) == 2 and data is None:
        vectors, data = vectors
    if isinstance(vectors, Mapping) and data is None:
        vectors, data = list(vectors), list(vectors.values())
    elif data is None:
        raise EmbeddingError(
            f"a {type(vectors).__name__} without ids is no set of vectors.",
            hint=f"{cls.__name__}.of({{'a.jpg': {each}, …}}), or {cls.__name__}.of(['a.jpg', …], {every})",
            code="without-ids-no-set",
        )
    ids = vectors.to_pylist() if hasattr(vectors, "to_pylist") else vectors
    return strings([str(identifier) for identifier in ids]), data


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings(_Matrix, _Vectors):
    """Dense vectors and their ids; `vectors[i]` belongs to `ids[i]`.

    A zero vector is allowed here (an empty bag of words is one). A search by cosine refuses it, because it has no
    direction.

    Attributes:
        modality: What was encoded.
        ids: (n,) unique ids, in any order.
        vectors: (n, d) float16, float32 or float64, in memory or memory-mapped.
        encoder: The model that computed the vectors.
        normalised: Whether all vectors have length 1.
        origin: Where the vectors come from and when they were computed, in words ("encoded at …", "from the vector
            store, …", "from the file …"); "" for vectors that a program passed in.

    Raises:
        EmbeddingError: A value is NaN or infinite, ids repeat, or lengths differ. The message names the ids.

    Example:
        >>> card = EncoderCard("by hand", "example", revision="1")
        >>> images = Embeddings("image", ["a", "b"], np.array([[3, 4], [0, 2]], np.float32), card)
        >>> len(images), images.dimension, images.select(["b"]).vectors.tolist()
        (2, 2, [[0.0, 2.0]])
        >>> images["a"].tolist(), np.asarray(images).shape
        ([3.0, 4.0], (2, 2))
        >>> images.normalise().vectors[1].tolist()
        [0.0, 1.0]
    """

    modality: Modality
    ids: pa.StringArray
    vectors: NDArray[Any]
    encoder: EncoderCard
    normalised: bool = False
    origin: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", strings(self.ids))
        if self.vectors.ndim != 2 or self.vectors.dtype not in (np.float16, np.float32, np.float64):
            raise EmbeddingError(
                f"{self._where}: vectors must be an (n, d) matrix of floats, not {self.vectors.dtype} "
                f"{self.vectors.shape}.",
                code="vectors-matrix-floats-not",
            )
        if len(self.ids) != len(self.vectors):
            raise EmbeddingError(
                f"{self._where}: {len(self.ids)} ids for {len(self.vectors)} vectors.", code="ids-vectors"
            )
        check_unique(self.ids, self._where)
        if faulty := _not_finite(self.vectors):
            raise EmbeddingError(
                f"{self._where}: NaN or infinite values in the vectors of {_named(self.ids, faulty)}.",
                hint=NOT_FINITE,
                code="nan-infinite-values-vectors",
            )

    @classmethod
    def of(
        cls, vectors: object, matrix: object = None, *, modality: Modality = "image", name: str = "own vectors"
    ) -> Embeddings:
        """Make embeddings of vectors of your own.

        Args:
            vectors: {id: vector}; or the ids of the rows of `matrix`; or a pair (ids, matrix).
            matrix: (n, d) numbers: a NumPy array, a torch tensor on any device, a sparse matrix, or lists.
            modality: What the vectors are of: "image", "text" or "text+image".
            name: What the model is called that made them. Vectors of one name belong to one model.

        Raises:
            EmbeddingError: Vectors differ in length, are no numbers, are NaN or infinite, or ids repeat.

        Example:
            >>> Embeddings.of({"a.jpg": [3.0, 4.0], "b.jpg": [0.0, 2.0]}).vectors.shape
            (2, 2)
            >>> Embeddings.of(["c1", "c2"], np.eye(2), modality="text", name="mine").encoder.name
            'mine'
        """
        ids, matrix = _ids_and_data(cls, vectors, matrix, "vector", "matrix")
        try:
            values = as_array(matrix)
            if values.dtype.kind not in "fiub":
                raise ValueError(f"they are of the type {values.dtype}")
        except (TypeError, ValueError, RuntimeError) as fault:
            raise EmbeddingError(
                f"{modality} vectors by {name}: these are no vectors of numbers of one length: {fault}.",
                hint="give one vector of d numbers for each id",
                code="no-vectors-numbers-one",
            ) from fault
        if values.dtype.kind != "f" or values.dtype.itemsize > 8:
            values = values.astype(np.float32)
        return cls(modality, ids, values, EncoderCard(name, "vectors"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.vectors, dtype=dtype) if copy else np.asarray(self.vectors, dtype=dtype)

    def __getitem__(self, identifier: str) -> NDArray[Any]:
        vector: NDArray[Any] = self.vectors[self.rows([identifier])[0]]
        return vector

    def _summary(self) -> str:
        count = counted(len(self), f"{self.modality} vectors")
        length = ", of length 1" if self.normalised else ""
        return f"{count}, {self.dimension:,} dimensions, {self.vectors.dtype}{length}"

    def _at(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        return {"vectors": self.vectors[rows]}

    def to_arrow(self) -> pa.Table:
        """Return the columns `id` and `vector` (lists of fixed length)."""
        flat = pa.array(np.ascontiguousarray(self.vectors).reshape(-1))
        return pa.table({"id": self.ids, "vector": pa.FixedSizeListArray.from_arrays(flat, self.dimension)})

    def normalise(self) -> Embeddings:
        """Return vectors of length 1 in float32, so that a dot product is a cosine.

        Raises:
            EmbeddingError: A vector is zero; the message names its id.
        """
        if self.normalised and self.vectors.dtype == np.float32:
            return self
        vectors, zero = _unit(self.vectors)
        if len(zero):
            raise EmbeddingError(
                f"{len(zero)} {self.modality} vectors by {self.encoder.name} are zero: "
                f"{_named(self.ids, zero)}; they have no cosine.",
                hint="look at these inputs (empty text? black image?), or search by dot product (similarity='dot')",
                code="no-cosine",
            )
        return replace(self, vectors=vectors, normalised=True)


# Sparse embeddings: weighted words, and their vocabulary.


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
        if twice := duplicates(self.terms)[:5]:
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


@dataclass(frozen=True, eq=False, repr=False)
class SparseEmbeddings(_Vectors):
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
    _form: ClassVar[str] = "sparse "

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", strings(self.ids))
        where = self._where
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

    def _summary(self) -> str:
        each = len(self.terms) / len(self) if len(self) else 0.0
        count = counted(len(self), f"{self.modality} vectors")
        return f"{count}, {each:.1f} words each, of {self.vocabulary.name} ({self.dimension:,} terms)"

    def _examples(self) -> list[str]:
        shown = [
            f"{name}: {', '.join(f'{word} {weight:.2f}' for word, weight in self.words(name, 5))}"
            for name in self.ids[:2].to_pylist()
        ]
        return [*shown, f"… {len(self) - 2:,} more" if len(self) > 2 else ""]

    def _at(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        flat, offsets = rows_of_spans(self.offsets, rows)
        return {"offsets": offsets, "terms": self.terms[flat], "values": self.values[flat]}

    def to_arrow(self) -> pa.Table:
        """Return one row per weight, with columns `id`, `term` and `weight`."""
        rows = pa.array(owners(self.offsets))
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
        if bad.any():
            rows = _owners(self.offsets, np.flatnonzero(bad))
            raise EmbeddingError(f"{where}: {fault} in {_named(self.ids, rows)}.")


# Multi-vector embeddings: several vectors for each item, one for each of its words or parts (late interaction).


class _Spans(_Matrix):
    """Vectors of several items in one matrix, at least one for each item."""

    offsets: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n,) the number of vectors of each item."""
        return np.diff(self.offsets)

    def _span(self, index: int) -> NDArray[Any]:
        vectors: NDArray[Any] = self.vectors[int(self.offsets[index]) : int(self.offsets[index + 1])]
        return vectors

    def _at(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        positions, offsets = rows_of_spans(self.offsets, rows)
        return {"offsets": offsets, "vectors": self.vectors[positions]}

    def _shape(self) -> str:
        """The shape in words: "32.0 vectors each, 128 dimensions, float16"."""
        each = len(self.vectors) / (len(self.offsets) - 1) if len(self.offsets) > 1 else 0.0
        return f"{each:,.1f} vectors each, {self.dimension:,} dimensions, {self.vectors.dtype}"

    def _check_layout(self, where: str, n: int, ids: pa.StringArray | None = None) -> None:
        """Check that the vectors are a matrix and that the offsets give each of n items at least one of them."""
        vectors, offsets = self.vectors, self.offsets
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


@dataclass(frozen=True, eq=False)
class TokenVectors(_Spans, Displayed):
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
        self._check_layout("token vectors", len(self.offsets) - 1)

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
        return self._span(range(len(self))[index])  # counts from the end, and is checked

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return brief(self, counted(len(self), "items"), self._shape())

    def take(self, rows: NDArray[np.int64]) -> TokenVectors:
        """Return the vectors of these items, in this order, copied into memory."""
        return replace(self, **self._at(rows))


@dataclass(frozen=True, eq=False, repr=False)
class MultiVectorEmbeddings(_Spans, _Vectors):
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
    _form: ClassVar[str] = "multi-vector "

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", strings(self.ids))
        self._check_layout(self._where, len(self.ids), self.ids)
        check_unique(self.ids, self._where)
        if faulty := _not_finite(self.vectors, self.offsets):
            raise EmbeddingError(
                f"{self._where}: NaN or infinite values in the vectors of {_named(self.ids, faulty)}.",
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
        ids, matrices = _ids_and_data(cls, vectors, matrices, "vectors", "[vectors, …]")
        try:
            tokens = TokenVectors.of(matrices)
        except EmbeddingError as fault:
            raise EmbeddingError(
                f"multi-vector {modality} embeddings by {name}: {fault.message}",
                hint="give a (t, d) matrix for each id: one vector of d numbers for each of its t parts",
            ) from fault
        return cls(modality, ids, tokens.offsets, tokens.vectors, EncoderCard(name, "vectors"))

    def __getitem__(self, identifier: str) -> NDArray[Any]:
        return self.row(int(self.rows([identifier])[0]))

    def _summary(self) -> str:
        return f"{counted(len(self), f'{self.modality} multi-vectors')}, {self._shape()}"

    def to_arrow(self) -> pa.Table:
        """Return the columns `id` and `vectors` (lists of vectors, which are lists of fixed length)."""
        flat = pa.array(np.ascontiguousarray(self.vectors).reshape(-1))
        tokens = pa.FixedSizeListArray.from_arrays(flat, self.dimension)
        offsets = pa.array(np.ascontiguousarray(self.offsets))
        return pa.table({"id": self.ids, "vectors": pa.LargeListArray.from_arrays(offsets, tokens)})

    @property
    def tokens(self) -> TokenVectors:
        """The vectors without ids, in the same memory."""
        return TokenVectors(self.vectors, self.offsets)

    def row(self, index: int) -> NDArray[Any]:
        """Return the (t, d) vectors of row `index`."""
        return self._span(index)

    def normalise(self) -> MultiVectorEmbeddings:
        """Return vectors of length 1 in float32, so that MaxSim sums cosines.

        Raises:
            EmbeddingError: A vector is zero; the message names its id.
        """
        vectors, zero = _unit(self.vectors)
        if len(zero):
            items = _owners(self.offsets, zero)
            raise EmbeddingError(
                f"{counted(len(zero), 'vectors')} of {counted(len(items), f'{self.modality} items')} by "
                f"{self.encoder.name} are zero: {_named(self.ids, items)}; they have no cosine.",
                hint="leave out vectors of padding, or search by the vectors as they are",
                code="embedding-no-cosine",
            )
        return replace(self, vectors=vectors)


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


Vectors: TypeAlias = Embeddings | SparseEmbeddings | MultiVectorEmbeddings
"""What an encoder computes: one dense vector, weighted words, or several dense vectors for each item."""

VectorForm: TypeAlias = Literal["dense", "sparse", "multi-vector"]
"""What these are called."""
