"""Embeddings: ids and vectors, and who made them how."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.fingerprint import hash_json
from visir.records.columns import check_unique, rows_of, strings
from visir.records.items import Modality

_BLOCK = 65_536  # rows looked at in one go, so that a memory-mapped matrix never has to fit in memory


@dataclass(frozen=True)
class EncoderCard:
    """Who encoded, and how: everything that changes the numbers.

    Args:
        name: What `visir.load` takes.
        family: "transformers-clip", "openclip", "onnx", "imported", …
        revision: The model's revision; None when it is unknown.
        weights: A hash over the weights; None when it is unknown.
        image_preprocessing: Resize, crop, mean, … as plain values.
        text_preprocessing: Template, truncation, prompts, … as plain values.
        dtype: The arithmetic of the forward pass.

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

    @property
    def is_versioned(self) -> bool:
        """Whether the card changes when the model does: it has a hash over the weights, or a revision.

        Vectors of other models are not kept: whoever changes their code would get the old ones.
        """
        return self.weights is not None or self.revision is not None

    @cached_property
    def fingerprint(self) -> str:
        """A hash over every field: the key under which encoded vectors are kept."""
        return hash_json(self.to_dict())

    def identity(self, modality: Modality | None = None) -> dict[str, Any]:
        """Everything that the vectors depend on: two cards with equal identities stand for equal vectors.

        These are all fields, but not the name when the weights are known: the same weights under another path are the
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
        """Whether both are one model: by the weights when both cards have them, by the name otherwise."""
        return not {"weights", "name"} & set(self.differences(other))

    def differences(self, other: EncoderCard, modality: Modality | None = None) -> list[str]:
        """The fields in which the other is another model, or prepares its inputs in another way; [] when it does not.

        Device and precision may change from run to run, so `dtype` is not compared.

        Args:
            other: The card to compare with.
            modality: Look at the preprocessing of this modality only.
        """
        model = "name" if self.weights is None or other.weights is None else "weights"
        sides = (modality,) if modality in ("image", "text") else ("image", "text")
        fields = (model, *(f"{side}_preprocessing" for side in sides))
        return [name for name in fields if getattr(self, name) != getattr(other, name)]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EncoderCard:
        """From what `to_dict` gave, read back from JSON. Raises `TypeError` or `ValueError` for anything else."""
        card = cls(**values)
        for name, value in card.to_dict().items():
            kind = dict if name.endswith("_preprocessing") else str
            if not isinstance(value, kind) and not (value is None and name in ("revision", "weights")):
                raise ValueError(f"the card of an encoder cannot have {name} = {value!r}")
        return card

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False)
class Embeddings:
    """`vectors[i]` (n, d) belongs to `ids[i]`; float16 or float32, memory-mapped or not, normalised or not.

    `origin` says for people where the vectors come from and when they were made ("encoded at …", "from the vector
    store, …", "from the file …"); "" of vectors that a program made by itself.

    Raises `EmbeddingError` naming the ids when a value is NaN or infinite, ids repeat, or lengths differ. A zero vector
    is allowed here (an empty bag of words is one) and refused where a cosine is asked for: it has no direction.
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
                f"{where}: vectors must be an (n, d) matrix of floats, not {self.vectors.dtype} {self.vectors.shape}."
            )
        if len(self.ids) != len(self.vectors):
            raise EmbeddingError(f"{where}: {len(self.ids)} ids for {len(self.vectors)} vectors.")
        check_unique(self.ids, where)
        for start in range(0, len(self.vectors), _BLOCK):
            bad = ~np.isfinite(self.vectors[start : start + _BLOCK]).all(axis=1)
            if bad.any():
                named = [self.ids[start + int(i)].as_py() for i in np.flatnonzero(bad)[:5]]
                raise EmbeddingError(
                    f"{where}: NaN or infinite values in the vectors of {', '.join(map(repr, named))}"
                    f"{' and others' if bad.sum() > 5 else ''}.",
                    hint="look at these inputs; with half precision, encode in float32 or bfloat16",
                )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        """d, the length of one vector."""
        return int(self.vectors.shape[1])

    def rows(self, ids: object) -> NDArray[np.int64]:
        """The row of each id, in the given order; unknown ids are an error that names them."""
        return rows_of(ids, self.ids, f"{self.modality} vector by {self.encoder.name}")

    def select(self, ids: object) -> Embeddings:
        """The embeddings of the given ids, in the given order (copied into memory)."""
        return self.take(self.rows(ids))

    def take(self, rows: NDArray[np.int64]) -> Embeddings:
        """The embeddings of the given rows, in the given order (copied into memory)."""
        return Embeddings(
            self.modality,
            self.ids.take(pa.array(rows)),
            self.vectors[rows],
            self.encoder,
            self.normalised,
            self.origin,
        )

    def normalise(self) -> Embeddings:
        """Unit vectors in float32 (so that a dot product is a cosine); zero vectors are an error that names them."""
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
            )
        vectors /= lengths
        return Embeddings(self.modality, self.ids, vectors, self.encoder, True, self.origin)
