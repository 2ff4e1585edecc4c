"""Several views of every image, and the mean of their vectors: a steadier vector from the same frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.forms import one_each
from visir.encoders.inputs import Pixels
from visir.errors import EncoderError, nearest
from visir.fingerprint import hash_json
from visir.records import EncoderCard

if TYPE_CHECKING:
    from PIL.Image import Image

_MARGIN = 12
"""The centre leaves out a twelfth of each side: five sixths of the width remain."""


def _mirrored(image: Image) -> Image:
    from PIL import ImageOps

    return ImageOps.mirror(image)


def _centre(image: Image) -> Image:
    across, down = image.width // _MARGIN, image.height // _MARGIN
    return image.crop((across, down, image.width - across, image.height - down))


VIEWS: dict[str, Callable[[Image], Image]] = {
    "whole": lambda image: image,
    "mirrored": _mirrored,
    "centre": _centre,
    "centre mirrored": lambda image: _mirrored(_centre(image)),
}


class ImageViews(Encoder):
    """`ImageViews(load("mobilenet_v2"), ["whole", "mirrored", "centre"])`: encodes each image once per view.

    The vector is the mean over the views (test-time augmentation with averaged features, as in the ten crops of
    Krizhevsky et al. 2012, section 4.1, where the *predictions* were averaged). It costs one forward pass per view.
    A caption that tells left from right loses that word's support under "mirrored".
    """

    def __init__(self, encoder: Encoder, views: Sequence[str]) -> None:
        for view in views:
            if view not in VIEWS:
                raise EncoderError(f"unknown view {view!r}", hint=nearest(view, VIEWS))
        if not views or len(set(views)) != len(views):
            raise EncoderError(f"views must be one or more, each once, not {list(views)}.")
        if "image" not in encoder.modalities:
            raise encoder.cannot("image")
        self.encoder, self.views = encoder, tuple(views)
        self.dimension = encoder.dimension
        self.modalities = frozenset({"image"})
        self.batch_size = max(1, encoder.batch_size // len(views))
        self.card = EncoderCard(
            name=f"{encoder.card.name} ({', '.join(views)})",
            family="views",
            weights=hash_json({"encoder": encoder.card.fingerprint, "views": list(views)})
            if encoder.card.is_versioned
            else None,
            image_preprocessing={**encoder.card.image_preprocessing, "views": list(views)},
            dtype=encoder.card.dtype,
        )

    def preprocess(self, image: Image) -> Pixels:
        """(views, …): the encoder's input for each view."""
        return np.stack([self.encoder.preprocess(VIEWS[view](image)) for view in self.views])

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension): the mean over the views."""
        each = self.encoder.embed_images([pixels for views in batch for pixels in views])
        vectors = one_each(each, self.encoder.label)
        mean: NDArray[np.float32] = vectors.reshape(len(batch), len(self.views), self.dimension).mean(axis=1)
        return mean

    def alone(self, view: str) -> ImageViews:
        """The same encoder under one of the views."""
        return ImageViews(self.encoder, [view])

    def save(self, folder: Path) -> None:
        """Write the views and the encoder's name (or its state, when it has one of its own) into `folder`."""
        entry = save_part(self.encoder, folder, "encoder")
        write_description(folder, "views", {"views": list(self.views), "encoder": entry})


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> ImageViews:
    """Read what `ImageViews.save` wrote."""
    description = read_description(folder)
    return ImageViews(load_part(folder, description["encoder"], device, dtype), description["views"])
