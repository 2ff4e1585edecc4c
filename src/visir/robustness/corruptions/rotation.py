"""Rotation: a picture taken with a tilted camera."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.robustness.corruptions.base import CORRUPTIONS, Corruption
from visir.robustness.random_stream import RandomStream

if TYPE_CHECKING:
    from PIL.Image import Image

DEGREES = (5.0, 10.0, 20.0, 30.0, 45.0)
GREY = (127, 127, 127)


def rotate(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture turned about its middle, to the left or to the right as drawn, at its size (bicubic)."""
    # What comes in at the corners is mid-grey. The other way, cutting the largest upright rectangle out of the turned
    # picture, would also lose its margin, and a fall of retrieval would not say which of the two it was.
    from PIL import Image as Pictures

    angle = DEGREES[severity - 1] * random.choice((-1, 1))
    return picture.rotate(angle, Pictures.Resampling.BICUBIC, fillcolor=GREY)


CORRUPTIONS.add(
    "rotation",
    Corruption(
        "rotation",
        "Rotation",
        "geometry",
        rotate,
        DEGREES,
        "{:g}°",
        "A tilted camera: the horizon slants, the corners are grey.",
    ),
)
