"""Colour, edges and texture of an image, counted. No weights, nothing to download, the same on every machine.

It makes the road real where no model can be had: heads trained over it learn which counts go with which words. It sees
that there is something striped and orange on the left; on photos it is no match for a trained backbone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.encoders.base import Encoder
from visir.encoders.inputs import Pixels
from visir.errors import EncoderError
from visir.records import EncoderCard

_SIDE = 64
_COLOURS = 41  # 5 greys, and 12 hues in 3 brightnesses
_GREY_BELOW = 50  # saturation (of 255) under which a pixel has no hue
_EDGE_ABOVE = 20.0  # difference of brightness (of 255, over two pixels) from which a pixel lies on an edge
_BRIGHTER_BY = 4.0  # how much brighter a neighbour must be to count in the texture code, so that noise does not
_COLOUR_GRID, _EDGE_GRID, _TEXTURE_GRID = 4, 8, 2
_RING = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
_BLOCK = 64


class PixelStatistics(Encoder):
    """`load("pixels")`: 2,397 numbers about an image, squashed to 64 × 64."""

    # - 16 × 41: which colours, in each cell of a 4 × 4 grid (5 greys, 12 hues × 3 brightnesses)
    # - 41 × 5: colour together with edge direction (none, or one of 4), over the whole image
    # - 64 × 8: how strong the edges of each of 8 directions are, in each cell of an 8 × 8 grid (as in Dalal & Triggs,
    #   "Histograms of Oriented Gradients for Human Detection", CVPR 2005, without their block normalisation)
    # - 4 × 256: local binary patterns (Ojala, Pietikäinen & Mäenpää, PAMI 2002), in each quarter
    # Square roots are taken of all counts, so that the Euclidean distance of two vectors is the Hellinger distance of
    # the counts: many pixels of sky do not drown a few of a kite.

    batch_size = 256

    def __init__(self) -> None:
        self.modalities = frozenset({"image"})
        self.dimension = _COLOUR_GRID**2 * _COLOURS + 5 * _COLOURS + _EDGE_GRID**2 * 8 + _TEXTURE_GRID**2 * 256
        self.card = EncoderCard(
            name="pixels",
            family="pixels",
            revision="1",
            image_preprocessing={"size": [_SIDE, _SIDE], "resize": "squash", "interpolation": "box", "colours": "HSV"},
        )

    def preprocess(self, image: Image.Image) -> Pixels:
        """(64, 64, 4) bytes: hue, saturation, value and brightness (ITU-R 601)."""
        small = image.resize((_SIDE, _SIDE), Image.Resampling.BOX)
        return np.dstack([np.asarray(small.convert("HSV")), np.asarray(small.convert("L"))])

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, 2397), each at least 0."""
        blocks = [_statistics(np.stack(batch[start : start + _BLOCK])) for start in range(0, len(batch), _BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.dimension), dtype=np.float32)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> PixelStatistics:
    """`pixels`."""
    if name != "pixels":
        raise EncoderError(
            f"{name}: pixels takes no options.", hint="its name is just: pixels", code="pixels-takes-no-options"
        )
    return PixelStatistics()


def _statistics(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    colour = _colours(images[..., :3])
    light = images[..., 3].astype(np.float32)
    strength, angle = _edges(light)
    four, eight = (np.floor(angle * (count / np.pi)).astype(np.int64) % count for count in (4, 8))
    parts = [
        _count(colour, _COLOURS, _COLOUR_GRID),
        _count(colour * 5 + np.where(strength > _EDGE_ABOVE, 1 + four, 0), _COLOURS * 5, 1),
        _count(eight, 8, _EDGE_GRID, strength / np.float32(64)),
        _count(_texture(light), 256, _TEXTURE_GRID),
    ]
    return np.sqrt(np.concatenate(parts, axis=1))


def _colours(hsv: NDArray[np.uint8]) -> NDArray[np.int64]:
    hue, saturation, value = (hsv[..., channel].astype(np.int64) for channel in range(3))
    # Hues are shifted by half a bin, so that red, at 0 and 255, is one bin and not two.
    bin_index = 5 + (hue + 10) * 12 // 256 % 12 * 3 + value * 3 // 256
    return np.where(saturation < _GREY_BELOW, value * 5 // 256, bin_index)


def _edges(light: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Strength and direction, the latter in [0, π): an edge from dark to bright is that from bright to dark."""
    across, down = np.zeros_like(light), np.zeros_like(light)
    across[:, :, 1:-1] = light[:, :, 2:] - light[:, :, :-2]
    down[:, 1:-1] = light[:, 2:] - light[:, :-2]
    return np.hypot(across, down), np.arctan2(down, across) % np.float32(np.pi)


def _texture(light: NDArray[np.float32]) -> NDArray[np.int64]:
    centre = light[:, 1:-1, 1:-1]
    codes = np.zeros(centre.shape, dtype=np.int64)
    for bit, (down, right) in enumerate(_RING):
        neighbour = light[:, 1 + down : _SIDE - 1 + down, 1 + right : _SIDE - 1 + right]
        codes |= (neighbour > centre + _BRIGHTER_BY).astype(np.int64) << bit
    return np.pad(codes, ((0, 0), (1, 1), (1, 1)))


def _count(
    codes: NDArray[np.int64], kinds: int, grid: int, weights: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """(n, grid² · kinds): how often (or with which total weight) each code occurs in each cell of a grid."""
    rows = np.arange(_SIDE) // (_SIDE // grid)
    cell = rows[:, None] * grid + rows[None, :]
    bins = len(codes) * grid**2 * kinds
    bin_index = (np.arange(len(codes))[:, None, None] * grid**2 + cell) * kinds + codes
    counted = np.bincount(bin_index.ravel(), None if weights is None else weights.ravel(), minlength=bins)
    return counted.reshape(len(codes), -1).astype(np.float32)
