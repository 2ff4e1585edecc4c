"""`pixels` and `colours`: what can be counted in an image. No weights, nothing to download, the same on every machine.

`pixels` makes the road real where no model can be had: heads trained over it learn which counts go with which words. It
sees that there is something striped and orange on the left; on photos it is no match for a trained backbone.

`colours` is a floor to stand a model on: what can be found by colour words alone, without anything else that is in a
picture or in a sentence. The colours are the eleven basic ones of Berlin & Kay, "Basic Color Terms" (1969), which many
languages have a word for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.encoders.base import Encoder
from visir.encoders.intake import InputBatch
from visir.encoders.models.small import words
from visir.errors import EncoderError
from visir.records import EncoderCard, Role

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

    def prepare(self, item: str | Image.Image, role: Role) -> Any:
        """(64, 64, 4) bytes: hue, saturation, value and brightness."""
        if isinstance(item, str):
            return item
        small = item.resize((_SIDE, _SIDE), Image.Resampling.BOX)
        return np.dstack([np.asarray(small.convert("HSV")), np.asarray(small.convert("L"))])

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, 2397), each at least 0."""
        images = batch.images or ()
        blocks = [_statistics(np.stack(images[start : start + _BLOCK])) for start in range(0, len(images), _BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.dimension), dtype=np.float32)


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


# Colours by name: how much of each an image has, and which colour words a text has.

COLOURS = ("black", "white", "grey", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown")
_SEEN_FROM = 0.04
_ANYTHING = 0.1
"""The last number of every vector, so that a text without colour words has a vector too: it is equally near to all."""

_STEMS: dict[str, tuple[str, ...]] = {
    "black": ("black", "schwarz", "noir", "negr", "黑"),
    "white": ("white", "weiß", "weiss", "blanc", "blanch", "白"),
    "grey": ("grey", "gray", "grau", "gris", "灰"),
    "red": ("red", "rot", "rouge", "roj", "红", "紅"),
    "orange": ("orange", "orangefarben", "naranj", "橙", "橘"),
    "yellow": ("yellow", "gelb", "jaune", "amarill", "黄", "黃"),
    "green": ("green", "grün", "vert", "verd", "绿", "綠"),
    "blue": ("blue", "blau", "bleu", "azul", "蓝", "藍"),
    "purple": ("purple", "violet", "lila", "violett", "morad", "violeta", "紫"),
    "pink": ("pink", "rosa", "rosafarben", "rose", "粉"),
    "brown": ("brown", "braun", "brun", "marron", "marrón", "棕", "褐"),
}
"""The colour words of English, German, French, Spanish and Chinese, without their endings."""
_ENDINGS = ("", "e", "en", "er", "es", "em", "s", "te", "tes", "o", "os", "a", "as", "he", "hes")
_WORDS = {stem + ending: name for name, stems in _STEMS.items() for stem in stems for ending in _ENDINGS}

# Saturation and value are of 255, hues of 256; a hue from 235 on is red again.
_NO_HUE_BELOW, _BLACK_BELOW, _WHITE_FROM, _PALE_BELOW, _DARK_BELOW = 46, 60, 205, 140, 150
_HUES = ((11, "red"), (30, "orange"), (48, "yellow"), (116, "green"), (182, "blue"), (212, "purple"), (235, "pink"))


def _weights() -> NDArray[np.float64]:
    """(64, 64) what each pixel weighs; the sum is 1."""
    down, right = np.mgrid[0:_SIDE, 0:_SIDE]
    weights = np.exp(-(((right - 31.5) / 20) ** 2 + ((down - 35.5) / 16) ** 2) / 2)
    return np.asarray(weights / weights.sum())


_MIDDLE = _weights()


class ColourNames(Encoder):
    """`load("colours")`: 12 numbers about an image or a text."""

    # Of an image: which of the eleven colours it shows, from 0 to 1. A colour counts from 4 % of the picture on, and
    # less again where it covers much of it, as the background does. The middle weighs more than the rim: what a caption
    # is about is seldom in a corner. Of a text: how often each colour is named, in five languages. The twelfth number
    # is the same for all.

    batch_size = 256

    def __init__(self) -> None:
        self.modalities = frozenset({"image", "text"})
        self.dimension = len(COLOURS) + 1
        self.card = EncoderCard(
            name="colours",
            family="colours",
            revision="1",
            image_preprocessing={"size": [_SIDE, _SIDE], "resize": "squash", "interpolation": "box", "colours": "HSV"},
        )

    def prepare(self, item: str | Image.Image, role: Role) -> Any:
        """(64, 64, 3) bytes: hue, saturation and value."""
        if isinstance(item, str):
            return item
        return np.asarray(item.resize((_SIDE, _SIDE), Image.Resampling.BOX).convert("HSV"))

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, 12)."""
        if batch.texts is None:
            result = np.full((len(batch), self.dimension), _ANYTHING, np.float32)
            for number, pixels in enumerate(batch.images or ()):
                shares = np.bincount(colour_codes(np.asarray(pixels)).ravel(), _MIDDLE.ravel(), minlength=len(COLOURS))
                result[number, :-1] = np.minimum(1, shares / _SEEN_FROM) - shares / 2
            return result
        result = np.zeros((len(batch), self.dimension), np.float32)
        result[:, -1] = _ANYTHING
        for row, text in zip(result, batch.texts, strict=True):
            for word in words(text):
                if word in _WORDS:
                    row[COLOURS.index(_WORDS[word])] += 1
        return result


def colour_codes(hsv: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The colour of every pixel, a place in `COLOURS`."""
    hue, saturation, value = (hsv[..., channel].astype(np.int64) for channel in range(3))
    edges = [edge for edge, _ in _HUES]
    by_hue = np.array([COLOURS.index(name) for name in (*(name for _, name in _HUES), "red")])
    codes = by_hue[np.searchsorted(edges, hue, side="right")]
    red, orange = COLOURS.index("red"), COLOURS.index("orange")
    codes = np.where((codes == red) & (saturation < _PALE_BELOW) & (value >= _DARK_BELOW), COLOURS.index("pink"), codes)
    codes = np.where((codes == orange) & (value < _DARK_BELOW), COLOURS.index("brown"), codes)
    codes = np.where(saturation < _NO_HUE_BELOW, COLOURS.index("grey"), codes)
    codes = np.where((saturation < _NO_HUE_BELOW) & (value >= _WHITE_FROM), COLOURS.index("white"), codes)
    return np.where(value < _BLACK_BELOW, COLOURS.index("black"), codes)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """`pixels` or `colours`."""
    known, encoder = ("colours", ColourNames) if name.startswith("colours") else ("pixels", PixelStatistics)
    if name != known:
        raise EncoderError(
            f"{name}: {known} takes no options.",
            hint=f"its name is just: {known}",
            code="colours-takes-no-options" if known == "colours" else "pixels-takes-no-options",
        )
    return encoder()
