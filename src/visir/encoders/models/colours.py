"""Colours by name: how much of each colour an image has, and which colour words a text has. No weights, no download.

It is a floor to stand a model on: what can be found by colour words alone, without anything else that is in a picture
or in a sentence. The colours are the eleven basic ones of Berlin & Kay, "Basic Color Terms" (1969), which many
languages have a word for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.encoders.base import Encoder
from visir.encoders.inputs import Pixels
from visir.encoders.models.small import words
from visir.errors import EncoderError
from visir.records import EncoderCard

COLOURS = ("black", "white", "grey", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown")
_SIDE = 64
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
_GREY_BELOW, _BLACK_BELOW, _WHITE_FROM, _PALE_BELOW, _DARK_BELOW = 46, 60, 205, 140, 150
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

    def preprocess(self, image: Image.Image) -> Pixels:
        """(64, 64, 3) bytes: hue, saturation and value."""
        return np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.BOX).convert("HSV"))

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, 12)."""
        result = np.full((len(batch), self.dimension), _ANYTHING, np.float32)
        for row, pixels in enumerate(batch):
            shares = np.bincount(colour_codes(np.asarray(pixels)).ravel(), _MIDDLE.ravel(), minlength=len(COLOURS))
            result[row, :-1] = np.minimum(1, shares / _SEEN_FROM) - shares / 2
        return result

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, 12)."""
        result = np.zeros((len(texts), self.dimension), np.float32)
        result[:, -1] = _ANYTHING
        for row, text in zip(result, texts, strict=True):
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
    codes = np.where(saturation < _GREY_BELOW, COLOURS.index("grey"), codes)
    codes = np.where((saturation < _GREY_BELOW) & (value >= _WHITE_FROM), COLOURS.index("white"), codes)
    return np.where(value < _BLACK_BELOW, COLOURS.index("black"), codes)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> ColourNames:
    """`colours`."""
    if name != "colours":
        raise EncoderError(
            f"{name}: colours takes no options.", hint="its name is just: colours", code="colours-takes-no-options"
        )
    return ColourNames()
