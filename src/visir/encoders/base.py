"""The one interface of every encoder: images and texts in, vectors out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError
from visir.records import EncoderCard, Modality

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[Any]
"""One preprocessed image, in whatever shape and type the model's forward pass takes (usually float32 (3, H, W))."""


class Encoder(ABC):
    """A model that turns images, texts, or both into vectors of one space.

    The work on an image is split in two, so that a loader can decode and resize in threads while the model computes:
    `preprocess(image)` is cheap, pure and thread-safe; `embed_images(batch of preprocessed)` is the forward pass.
    `encode_images` and
    `encode_texts` do both for a handful of inputs; `visir.encoders.encode` does it for whole collections, through the
    store.

    Vectors are returned as float32 (n, dimension), *not* normalised: what the model projects, as its reference
    implementation returns it.
    """

    card: EncoderCard
    dimension: int
    modalities: frozenset[Modality]

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image to the model's input. Raises `EncoderError` for a text-only encoder."""
        raise EncoderError(
            f"{self.card.name} encodes no images.", hint="pair it with an image encoder, or train heads over both"
        )

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n preprocessed images."""
        raise EncoderError(
            f"{self.card.name} encodes no images.", hint="pair it with an image encoder, or train heads over both"
        )

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts (tokenising, template and truncation included)."""
        raise EncoderError(
            f"{self.card.name} encodes no texts.", hint="pair it with a text encoder, or train heads over both"
        )

    def encode_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n images, as given by PIL (any mode; converted to upright RGB first)."""
        from visir.collections.images import to_rgb

        return self.embed_images([self.preprocess(to_rgb(image)) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts."""
        return self.embed_texts(list(texts))


class Reranker(ABC):
    """A model that reads query and candidate together and scores the pair (an image–text matching head)."""

    card: EncoderCard

    @abstractmethod
    def score_pairs(self, images: Sequence[Image], texts: Sequence[str]) -> NDArray[np.float32]:
        """(n,) matching scores of n (image, text) pairs: higher is better, on the model's own scale."""
