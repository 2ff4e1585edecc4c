"""Gaussian blur: a picture out of focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.robustness.corruptions.base import CORRUPTIONS, Corruption, scale
from visir.robustness.random_stream import RandomStream

if TYPE_CHECKING:
    from PIL.Image import Image

SIGMA = (1.0, 2.0, 3.0, 4.0, 6.0)
"""ImageNet-C's, in pixels of a picture whose shorter side has 224."""


def blur(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture convolved with a Gaussian (Pillow's: three box filters, which come within a few percent of one)."""
    from PIL import ImageFilter

    return picture.filter(ImageFilter.GaussianBlur(SIGMA[severity - 1] * scale(picture)))


CORRUPTIONS.add(
    "gaussian_blur",
    Corruption(
        "gaussian_blur",
        "Gaussian Blur",
        "blur",
        blur,
        SIGMA,
        "σ {:g} px of 224",
        "Out of focus: what tells things apart by texture goes first.",
    ),
)
