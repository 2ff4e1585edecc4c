"""Occlusion: something stands before a part of the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.robustness.corruptions.base import CORRUPTIONS, Corruption
from visir.robustness.random_stream import RandomStream

if TYPE_CHECKING:
    from PIL.Image import Image

COVERED = (5.0, 10.0, 20.0, 35.0, 50.0)
"""Percent of the picture's area."""
GREY = (127, 127, 127)


def occlude(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture with a mid-grey rectangle of its own proportions somewhere on it, wholly inside."""
    # Where is drawn before the size is known (as two fractions of the room there is), so a higher severity covers about
    # the same place, and more of it.
    across, down = random.unit(), random.unit()
    width, height = picture.size
    side = (COVERED[severity - 1] / 100) ** 0.5
    wide, high = max(1, round(side * width)), max(1, round(side * height))
    left, top = round(across * (width - wide)), round(down * (height - high))
    covered = picture.copy()
    covered.paste(GREY, (left, top, left + wide, top + high))
    return covered


CORRUPTIONS.add(
    "occlusion",
    Corruption(
        "occlusion",
        "Occlusion",
        "occlusion",
        occlude,
        COVERED,
        "{:g} % of the area",
        "A grey rectangle covers a part of the picture.",
    ),
)
