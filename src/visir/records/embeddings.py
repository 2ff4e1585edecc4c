"""Embeddings: ids, vectors, and the encoder that computed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Columnar, Displayed, brief, counted, listed
from visir.errors import EmbeddingError
from visir.fingerprint import hash_json
from visir.mapped import release
from visir.records.arrays import as_array
from visir.records.columns import check_unique, rows_of, strings
from visir.records.items import Modality

NOT_FINITE = (
    "look at these inputs; in half precision numbers overflow: encode in float32 or bfloat16; where it is every input, "
    "weights of the model are NaN or infinite: fetch or copy it again"
)
"""What to do about vectors with NaN or infinite values."""
_BLOCK = 65_536  # rows checked at once, so that a memory-mapped matrix need not fit in memory


@dataclass(frozen=True, repr=False)
class EncoderCard(Displayed, view="visir.reports.views.embeddings"):
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


@dataclass(frozen=True, eq=False)
class Embeddings(Columnar, view="visir.reports.views.embeddings"):
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
        where = f"{self.modality} embeddings by {self.encoder.name}"
        if self.vectors.ndim != 2 or self.vectors.dtype not in (np.float16, np.float32, np.float64):
            raise EmbeddingError(
                f"{where}: vectors must be an (n, d) matrix of floats, not {self.vectors.dtype} {self.vectors.shape}.",
                code="vectors-matrix-floats-not",
            )
        if len(self.ids) != len(self.vectors):
            raise EmbeddingError(f"{where}: {len(self.ids)} ids for {len(self.vectors)} vectors.", code="ids-vectors")
        check_unique(self.ids, where)
        for start in range(0, len(self.vectors), _BLOCK):
            bad = ~np.isfinite(self.vectors[start : start + _BLOCK]).all(axis=1)
            release(self.vectors)
            if bad.any():
                named = [self.ids[start + int(i)].as_py() for i in np.flatnonzero(bad)[:5]]
                raise EmbeddingError(
                    f"{where}: NaN or infinite values in the vectors of {', '.join(map(repr, named))}"
                    f"{' and others' if bad.sum() > 5 else ''}.",
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
        ids: Any = vectors
        if isinstance(vectors, tuple) and len(vectors) == 2 and matrix is None:
            ids, matrix = vectors
        if isinstance(vectors, Mapping) and matrix is None:
            ids, matrix = list(vectors), list(vectors.values())
        elif matrix is None:
            raise EmbeddingError(
                f"a {type(vectors).__name__} without ids is no set of vectors.",
                hint="Embeddings.of({'a.jpg': vector, …}), or Embeddings.of(['a.jpg', …], matrix)",
                code="without-ids-no-set",
            )
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
        ids = [str(identifier) for identifier in (ids.to_pylist() if hasattr(ids, "to_pylist") else ids)]
        return cls(modality, strings(ids), values, EncoderCard(name, "vectors"))

    def __len__(self) -> int:
        return len(self.ids)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.vectors, dtype=dtype) if copy else np.asarray(self.vectors, dtype=dtype)

    def __getitem__(self, identifier: str) -> NDArray[Any]:
        vector: NDArray[Any] = self.vectors[self.rows([identifier])[0]]
        return vector

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.to_pylist())

    def __repr__(self) -> str:
        vectors = (
            f"{counted(len(self), f'{self.modality} vectors')}, {self.dimension:,} dimensions, {self.vectors.dtype}"
        )
        return brief(
            self,
            f"{vectors}{', of length 1' if self.normalised else ''}",
            f"ids: {listed(self.ids[:3].to_pylist(), len(self))}" if len(self) else "",
            f"by {self.encoder.name} ({self.encoder.family})",
            self.origin,
        )

    def to_arrow(self) -> pa.Table:
        """Return the columns `id` and `vector` (lists of fixed length)."""
        flat = pa.array(np.ascontiguousarray(self.vectors).reshape(-1))
        return pa.table({"id": self.ids, "vector": pa.FixedSizeListArray.from_arrays(flat, self.dimension)})

    @property
    def dimension(self) -> int:
        """The number of values in one vector (d)."""
        return int(self.vectors.shape[1])

    def rows(self, ids: object) -> NDArray[np.int64]:
        """Return the row of each id, in the order of `ids`.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return rows_of(ids, self.ids, f"{self.modality} vector by {self.encoder.name}")

    def select(self, ids: object) -> Embeddings:
        """Return the embeddings of these ids, in this order, copied into memory.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """
        return self.take(self.rows(ids))

    def take(self, rows: NDArray[np.int64]) -> Embeddings:
        """Return the embeddings of these rows, in this order, copied into memory."""
        return Embeddings(
            self.modality,
            self.ids.take(pa.array(rows)),
            self.vectors[rows],
            self.encoder,
            self.normalised,
            self.origin,
        )

    def normalise(self) -> Embeddings:
        """Return vectors of length 1 in float32, so that a dot product is a cosine.

        Raises:
            EmbeddingError: A vector is zero; the message names its id.
        """
        if self.normalised and self.vectors.dtype == np.float32:
            return self
        vectors = np.array(self.vectors, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        zero = np.flatnonzero(lengths[:, 0] == 0)
        if len(zero):
            named = ", ".join(repr(self.ids[int(i)].as_py()) for i in zero[:5])
            raise EmbeddingError(
                f"{len(zero)} {self.modality} vectors by {self.encoder.name} are zero: {named}; they have no cosine.",
                hint="look at these inputs (empty text? black image?), or search by dot product (similarity='dot')",
                code="no-cosine",
            )
        vectors /= lengths
        return Embeddings(self.modality, self.ids, vectors, self.encoder, True, self.origin)
