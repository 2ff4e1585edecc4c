"""What encoders have in common that read the text and the image of an item apart and join the two vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.forms import one_each
from visir.encoders.inputs import Pixels
from visir.encoders.intake import Embedded
from visir.encoders.item_parts import ItemPart, part_of_items
from visir.records import Items, Modality, Role, Vectors

if TYPE_CHECKING:
    from PIL.Image import Image


class ReadsApart(Encoder):
    """An encoder over others: a text and an image are encoded apart, and their vectors become one."""

    # Texts alone and images alone have the vectors of the encoders below, which are what the store keeps.

    @abstractmethod
    def encoder_of(self, part: Modality) -> Encoder:
        """The encoder of texts ("text") or of images ("image")."""

    @property
    @abstractmethod
    def reads(self) -> tuple[Modality, ...]:
        """What of an item with both is read: "text", "image"."""

    @abstractmethod
    def join(
        self,
        ids: pa.StringArray,
        vectors: Mapping[Modality, Vectors],
        rows: Mapping[Modality, NDArray[np.int64]],
        role: Role,
    ) -> Vectors:
        """The vectors of n items, from those of their texts and images."""
        # ids: (n,) of the items.
        # rows: (n,) the row in `vectors` of each item, −1 where it has none.

    @abstractmethod
    def join_batch(self, text: NDArray[np.float32] | None, image: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """(n, d) vectors of n items, from the (n, d) vectors of all their texts and images; None where not read."""

    def check_parts(self, items: Items, parts: Mapping[Modality, ItemPart]) -> None:
        """Raise where items lack what is needed of each."""

    def parts(self, items: Items) -> dict[Modality, ItemPart] | None:
        """See `Encoder.parts`."""
        if items.modality != "text+image":
            return None
        parts = {
            modality: part
            for modality in self.reads
            if (part := part_of_items(items, modality, precomputed=self.encoder_of(modality).precomputed)) is not None
        }
        self.check_parts(items, parts)
        return parts

    def join_parts(
        self, items: Items, parts: Mapping[Modality, ItemPart], vectors: Mapping[Modality, Vectors], role: Role
    ) -> Vectors:
        """See `Encoder.join_parts`."""
        broken = np.zeros(len(items), bool)
        for modality, part in parts.items():
            broken |= part.broken(vectors[modality])
        left = np.flatnonzero(~broken)
        rows = {modality: part.rows(vectors[modality])[left] for modality, part in parts.items()}
        joined = self.join(items.ids.take(pa.array(left)), vectors, rows, role)
        origin = "; ".join(dict.fromkeys(filter(None, (part.origin for part in vectors.values()))))
        return replace(joined, modality="text+image", encoder=self.card, origin=origin)

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The encoder below, whose vectors the store keeps; none for items with both, which have parts."""
        return None if modality == "text+image" else self.encoder_of(modality)

    def project_items(self, items: Items, embeddings: Vectors) -> Vectors:
        """The vectors of the encoder below, as they are."""
        return replace(embeddings, encoder=self.card)

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """The vectors of the encoder below, as they are."""
        return vectors

    def preprocess(self, image: Image) -> Pixels:
        """What the encoder of images takes."""
        return self.encoder_of("image").preprocess(image)

    def embed_images(self, batch: Sequence[Pixels]) -> Embedded:
        """Those of the encoder of images."""
        return self.encoder_of("image").embed_images(batch)

    def embed_texts(self, texts: Sequence[str]) -> Embedded:
        """Those of the encoder of texts."""
        return self.encoder_of("text").embed_texts(texts)

    def embed_texts_alike(self, texts: Sequence[str]) -> Embedded:
        """Those of the encoder of texts."""
        return self.encoder_of("text").embed_texts_alike(texts)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """As the encoder of texts counts them."""
        return self.encoder_of("text").text_lengths(texts)

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Pixels]) -> Embedded:
        """(n, dimension) vectors of n texts with their images."""
        text = one_each(self.embed_texts(texts), self.label) if "text" in self.reads else None
        image = one_each(self.embed_images(batch), self.label) if "image" in self.reads else None
        return self.join_batch(text, image)
