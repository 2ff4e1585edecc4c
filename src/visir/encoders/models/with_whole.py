"""Several vectors for each item, and beside each of them one vector of the whole item."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.forms import one_each
from visir.encoders.inputs import Pixels
from visir.encoders.intake import Embedded
from visir.encoders.models.views import ImageViews
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role, TokenVectors, VectorForm

if TYPE_CHECKING:
    from PIL.Image import Image


class WithWhole(Encoder):
    """`WithWhole(load("mobilenet_v2?vectors=4x4"), load("mobilenet_v2"))`: parts of an item, and the whole of it."""

    # A part sees little of its item: a word has no sentence, a place no scene. Each vector of an item is joined with
    # the one vector of the whole item, and a `SetTower` has a head for either.
    # The joined vectors repeat the whole for each part. They are made where they are used, and never kept.

    form: VectorForm = "multi-vector"

    def __init__(self, several: Encoder, whole: Encoder) -> None:
        if several.form != "multi-vector" or whole.form != "dense":
            raise EncoderError(
                f"{several.card.name} and {whole.card.name} cannot stand for parts and wholes.",
                hint="the first makes several vectors for each item (mobilenet_v2?vectors=4x4), the second makes one",
                code="cannot-stand-parts-wholes",
            )
        shared = several.modalities & whole.modalities
        if not shared:
            raise EncoderError(f"{several.card.name} and {whole.card.name} encode nothing that both take.")
        self.several, self.whole = several, whole
        self.dimension = several.dimension + whole.dimension
        self.modalities = frozenset(shared)
        self.distinguishes_roles = several.distinguishes_roles or whole.distinguishes_roles
        self.batch_size = min(several.batch_size, whole.batch_size)
        self.card = EncoderCard(
            name=f"{several.card.name} with {whole.card.name}",
            family="with-whole",
            weights=hash_json({"several": several.card.fingerprint, "whole": whole.card.fingerprint})
            if several.card.is_versioned and whole.card.is_versioned
            else None,
            image_preprocessing=self._both("image"),
            text_preprocessing=self._both("text"),
            dtype=several.card.dtype,
        )
        if "image" in shared:  # noticed here, and not after a training
            from PIL import Image

            self.preprocess(Image.new("RGB", (96, 64)))

    def _both(self, modality: Modality) -> dict[str, Any]:
        if modality not in self.modalities:
            return {}
        cards = {"several": self.several.card, "whole": self.whole.card}
        return {
            name: card.image_preprocessing if modality == "image" else card.text_preprocessing
            for name, card in cards.items()
        }

    @property
    def views(self) -> tuple[str, ...]:
        """The views of each image; ("whole",) without any."""
        return self.several.views if isinstance(self.several, ImageViews) else ("whole",)

    def alone(self, view: str) -> WithWhole:
        """The same encoders under one of the views."""
        return WithWhole(*(ImageViews(_without_views(encoder), [view]) for encoder in (self.several, self.whole)))

    def for_role(self, role: Role) -> WithWhole:
        """The same with both encoders in this role."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.several, encoder.whole = self.several.for_role(role), self.whole.for_role(role)
        return encoder

    def preprocess(self, image: Image) -> Pixels:
        """(2, …): the input of both encoders."""
        inputs = [self.several.preprocess(image), self.whole.preprocess(image)]
        if inputs[0].shape != inputs[1].shape:
            shapes = " and ".join(" × ".join(map(str, pixels.shape)) for pixels in inputs)
            raise EncoderError(
                f"{self.card.name}: they take images in different shapes, {shapes}.",
                code="take-images-different-shapes",
            )
        return np.stack(inputs)

    def embed_images(self, batch: Sequence[Pixels]) -> Embedded:
        """The vectors of each image, (t, dimension): its parts, each with the whole."""
        several = self.several.embed_images([both[0] for both in batch])
        return self._joined(several, self.whole.embed_images([both[1] for both in batch]))

    def embed_texts(self, texts: Sequence[str]) -> Embedded:
        """The vectors of each text, (t, dimension): its words, each with the whole."""
        return self._joined(self.several.embed_texts(texts), self.whole.embed_texts(texts))

    def embed_texts_alike(self, texts: Sequence[str]) -> Embedded:
        """The same of texts that are of one length for the first encoder."""
        return self._joined(self.several.embed_texts_alike(texts), self.whole.embed_texts(texts))

    def _joined(self, several: Embedded, whole: Embedded) -> Embedded:
        assert isinstance(several, TokenVectors)
        each = np.repeat(one_each(whole, self.whole.label), several.counts, axis=0)
        return TokenVectors(np.concatenate([several.vectors, each], axis=1, dtype=np.float32), several.offsets)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) as the first encoder counts them."""
        return self.several.text_lengths(texts)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of a text stands for."""
        several: Any = self.several
        pieces: list[list[str]] = several.text_pieces(texts, role)
        return pieces

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(t, 4) where each vector of an image looks."""
        several: Any = self.several
        regions: NDArray[np.float64] = several.image_regions(image)
        return regions

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """Cut for the encoder that reads less."""
        return self.whole.truncate(self.several.truncate(texts, ending), ending)

    def save(self, folder: Path) -> None:
        """Write the names of both into `folder`, and a folder for each that has a state of its own."""
        entries = {name: save_part(getattr(self, name), folder, name) for name in ("several", "whole")}
        write_description(folder, "with-whole", entries)


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> WithWhole:
    """Read what `WithWhole.save` wrote."""
    description = read_description(folder)
    return WithWhole(*(load_part(folder, description[name], device, dtype) for name in ("several", "whole")))


def _without_views(encoder: Encoder) -> Encoder:
    return encoder.encoder if isinstance(encoder, ImageViews) else encoder
