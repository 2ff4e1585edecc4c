"""Gaussian noise: a picture taken in the dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visir.robustness.corruptions.base import CORRUPTIONS, Corruption, scale
from visir.robustness.random_stream import RandomStream

if TYPE_CHECKING:
    from PIL.Image import Image

SIGMA = (0.08, 0.12, 0.18, 0.26, 0.38)
"""ImageNet-C's, as fractions of the range from black to white."""


def add_noise(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture plus independent normal noise for each channel, cut to 0 … 255."""
    # The grain has the size of one pixel of a 224-pixel input: noise of single pixels on a large photograph would be
    # averaged away as soon as a model scales it down, and the severity would mean something else for every size. A
    # picture whose shorter side is at most 224 gets noise on every pixel. The noise is NumPy's PCG64, whose seed comes
    # from the stream.
    from PIL import Image as Pictures

    rng = np.random.Generator(np.random.PCG64(random.below(1 << 63)))
    width, height = picture.size
    factor = max(1.0, scale(picture))
    grains = (max(1, round(height / factor)), max(1, round(width / factor)))
    noise = rng.standard_normal((*grains, 3), dtype=np.float32)
    if grains != (height, width):
        rows = np.arange(height) * grains[0] // height
        columns = np.arange(width) * grains[1] // width
        noise = noise[rows][:, columns]
    noisy = np.asarray(picture, np.float32) + 255 * SIGMA[severity - 1] * noise
    return Pictures.fromarray(np.rint(np.clip(noisy, 0, 255)).astype(np.uint8))


CORRUPTIONS.add(
    "gaussian_noise",
    Corruption(
        "gaussian_noise",
        "Gaussian Noise",
        "noise",
        add_noise,
        SIGMA,
        "σ {:g} of the range",
        "Sensor noise of a dark scene: every grain its own random colour.",
    ),
)
