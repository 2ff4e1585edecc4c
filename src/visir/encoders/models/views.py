"""Several views of every image: the mean of their vectors, or the vectors of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.inputs import Pixels
from visir.encoders.intake import Embedded
from visir.errors import EncoderError, nearest
from visir.fingerprint import hash_json
from visir.records import EncoderCard, TokenVectors

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


def _boxes(view: str, image: Image, regions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where regions of a view (n, 4) lie in the image itself."""
    x0, y0, x1, y1 = regions.T
    if view.endswith("mirrored"):
        x0, x1 = 1 - x1, 1 - x0
    if view.startswith("centre"):
        across, down = (image.width // _MARGIN) / image.width, (image.height // _MARGIN) / image.height
        x0, x1 = across + (1 - 2 * across) * x0, across + (1 - 2 * across) * x1
        y0, y1 = down + (1 - 2 * down) * y0, down + (1 - 2 * down) * y1
    return np.stack([x0, y0, x1, y1], axis=1)


class ImageViews(Encoder):
    """`ImageViews(load("mobilenet_v2"), ["whole", "mirrored", "centre"])`: encodes each image once per view."""

    # The vector of an image is the mean over the views (test-time augmentation with averaged features, as in the ten
    # crops of Krizhevsky et al. 2012, section 4.1, where the *predictions* were averaged). It costs one forward pass
    # per view. A caption that tells left from right loses that word's support under "mirrored".
    # Of an encoder that gives several vectors for an image (form "multi-vector"), an image has those of all views.

    def __init__(self, encoder: Encoder, views: Sequence[str]) -> None:
        for view in views:
            if view not in VIEWS:
                raise EncoderError(f"unknown view {view!r}", hint=nearest(view, VIEWS), code="unknown-view")
        if not views or len(set(views)) != len(views):
            raise EncoderError(f"views must be one or more, each once, not {list(views)}.", code="views-one-more-each")
        if "image" not in encoder.modalities:
            raise encoder.cannot("image")
        self.encoder, self.views = encoder, tuple(views)
        self.form = encoder.form
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

    def embed_images(self, batch: Sequence[Pixels]) -> Embedded:
        """(n, dimension): the mean over the views; or the vectors of the views, one view after the other."""
        each = self.encoder.embed_images([pixels for views in batch for pixels in views])
        if isinstance(each, TokenVectors):
            return TokenVectors(each.vectors, each.offsets[:: len(self.views)])
        mean: NDArray[np.float32] = each.reshape(len(batch), len(self.views), self.dimension).mean(axis=1)
        return mean

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(n, 4): where each vector looks, as fractions of the image itself, view by view."""
        regions_of: Callable[[Image], NDArray[np.float64]] = self.encoder.image_regions  # type: ignore[attr-defined]
        return np.concatenate([_boxes(view, image, regions_of(VIEWS[view](image))) for view in self.views])

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
