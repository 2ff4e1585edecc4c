"""Shorter and coarser vectors of an encoder: `?dimension=256` and `?quantise=int8|binary`.

Both are cheap functions of one vector. So the store keeps the whole vectors, and another dimension encodes nothing
again; and the vector of an item does not depend on what else was encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.forms import one_each
from visir.encoders.inputs import Pixels
from visir.encoders.truncation import TextLimit
from visir.errors import EncoderError, nearest
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.models.text_side import TextSide

Quantisation = Literal["int8", "binary"]
QUANTISED: dict[str, str] = {
    "int8": "int8: 255 steps from the negative to the positive of a vector's largest value",
    "binary": "binary: the sign of each value, so the cosine is 1 - 2 × Hamming distance / dimension",
}
"""What stands on the card, and so in the protocol."""
LEVELS = 255


class ReducedEncoder(Encoder):
    """The first `dimension` values of an encoder's vectors (Matryoshka embeddings, Kusupati et al. 2022), quantised."""

    # **dimension.** As `SentenceTransformer(truncate_dim=…)`: the values are cut and not normalised again. Search by
    # cosine does that.
    # **quantise.** The values are those that the codes stand for, as float32, so they are compared like any other: by
    # cosine or dot product, with each other or with vectors that are not quantised.
    # - "binary": 1 where the value is above 0, otherwise −1. `np.packbits(vectors > 0)` are the bits of
    #   `sentence_transformers.util.quantize_embeddings(…, "ubinary")`.
    # - "int8": the codes of `quantize_embeddings(…, "int8", ranges=[−m, m])`, m being the largest absolute value of the
    #   vector itself; a code stands for the middle of its step. (The library takes the ranges of all vectors of a call.
    #   Then the vector of an item changes with its company, and one query alone has no range.)

    def __init__(
        self, encoder: Encoder, *, name: str, dimension: int | None = None, quantise: Quantisation | None = None
    ) -> None:
        if dimension is not None and dimension > encoder.dimension:
            raise EncoderError(
                f"{name}: dimension={dimension} is more than the {encoder.dimension} values of this model's vectors.",
                hint=f"dimension={encoder.dimension} at most; models that are trained for it (Matryoshka) say which",
            )
        if quantise is not None and quantise not in get_args(Quantisation):
            raise EncoderError(
                f"{name}: quantise={quantise!r} is not known.", hint=nearest(quantise, get_args(Quantisation))
            )
        self.whole, self.dimension, self.quantise = encoder, dimension or encoder.dimension, quantise
        self.modalities, self.distinguishes_roles = encoder.modalities, encoder.distinguishes_roles
        self.batch_size, self.cross_encoder = encoder.batch_size, encoder.cross_encoder
        settings: dict[str, Any] = {} if dimension is None else {"dimension": dimension}
        if quantise is not None:
            settings["quantise"] = QUANTISED[quantise]
        card = encoder.card
        self.card: EncoderCard = replace(
            card,
            name=name,
            weights=card.weights and hash_json({"encoder": card.weights, **settings}),
            image_preprocessing=card.image_preprocessing and {**card.image_preprocessing, **settings},
            text_preprocessing=card.text_preprocessing and {**card.text_preprocessing, **settings},
        )

    def base_encoder(self, modality: Modality) -> Encoder:
        """The encoder of the whole vectors, which are what the store keeps."""
        return self.whole

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, dimension) vectors from whole ones."""
        cut = np.asarray(vectors[:, : self.dimension], np.float32)
        if self.quantise == "binary":
            return np.where(cut > 0, np.float32(1), np.float32(-1))
        return int8_values(cut) if self.quantise == "int8" else np.ascontiguousarray(cut)

    def for_role(self, role: Role) -> ReducedEncoder:
        """The same of the encoder in this role."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.whole = self.whole.for_role(role)
        return encoder

    def preprocess(self, image: Image) -> Pixels:
        """What the encoder takes."""
        return self.whole.preprocess(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n preprocessed images."""
        return self.project("image", one_each(self.whole.embed_images(batch), self.whole.label))

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts."""
        return self.project("text", one_each(self.whole.embed_texts(texts), self.whole.label))

    def embed_texts_alike(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts of one length."""
        return self.project("text", one_each(self.whole.embed_texts_alike(texts), self.whole.label))

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts with their pictures."""
        return self.project("text+image", one_each(self.whole.embed_texts_with_images(texts, batch), self.whole.label))

    def text_side(self) -> TextSide | None:
        """See `visir.encoders.models.text_side`; None for quantised vectors: a last bit decides there."""
        from visir.encoders.models.text_side import FirstValues, text_side_of

        side = None if self.quantise is not None else text_side_of(self.whole)
        return None if side is None else side.then(FirstValues(self.dimension))

    def text_limit(self) -> TextLimit | None:
        """As the encoder reads."""
        return self.whole.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the encoder does it."""
        return self.whole.truncate(texts, ending)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """As the encoder counts them."""
        return self.whole.text_lengths(texts)


def int8_codes(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """(n, d) codes of n vectors: 255 equal steps from −m to m, m being the largest absolute value of a vector."""
    start, step = _steps(vectors)
    steps = np.clip(np.floor((vectors - start) / step), 0, LEVELS)
    codes: NDArray[np.int8] = (steps - 128).astype(np.int8)
    return codes


def int8_values(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, d) what the codes stand for: the middle of each step; zeros stay zeros."""
    start, step = _steps(vectors)
    middle = start + (int8_codes(vectors).astype(np.float32) + np.float32(128.5)) * step
    largest = -start
    return np.where(largest > 0, np.clip(middle, -largest, largest), np.float32(0)).astype(np.float32)


def _steps(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(n, 1) where the steps of each vector begin, and how wide they are."""
    start = -np.abs(vectors).max(axis=1, keepdims=True).astype(np.float32)
    step = (-start - start) / np.float32(LEVELS)
    return start, np.where(step == 0, np.float32(1), step)
