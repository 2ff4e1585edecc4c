"""JPEG compression: a picture saved too often, or too small."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from visir.robustness.corruptions.base import CORRUPTIONS, Corruption
from visir.robustness.random_stream import RandomStream

if TYPE_CHECKING:
    from PIL.Image import Image

QUALITY = (25.0, 18.0, 15.0, 10.0, 7.0)
"""ImageNet-C's, on Pillow's (libjpeg's) scale from 1 to 95."""


def compress(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture saved as JPEG and read again, colours halved in resolution (4:2:0), which is Pillow's default."""
    # At the picture's own size, because that is how pictures are compressed: blocks have 8 × 8 of *its* pixels, and a
    # large photograph that a model sees at 224 pixels loses less than a small one. That is so outside a test, too.
    from PIL import Image as Pictures

    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=int(QUALITY[severity - 1]))
    with Pictures.open(stream) as opened:
        return opened.convert("RGB")


CORRUPTIONS.add(
    "jpeg",
    Corruption(
        "jpeg",
        "JPEG",
        "compression",
        compress,
        QUALITY,
        "quality {:g}",
        "Heavy JPEG compression: blocks of eight pixels, washed-out colours.",
    ),
)
