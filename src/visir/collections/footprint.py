"""How much memory a picture takes while it is decoded: by its header, and by what its decoder allocates."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

BAND = 2**20
"""Pixels that are brought to RGB at a time (`visir.collections.images.to_rgb`)."""
_BITS, _SAMPLES, _TILE_WIDTH, _TILE_HEIGHT = 258, 277, 322, 323
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
"""Bytes in which Pillow holds a pixel of these modes; four of any other."""
_OWN = {"WEBP": 12, "AVIF": 16, "HEIF": 16, "GIF": 1, "BMP": 3, "DIB": 3, "PPM": 8, "TGA": 0, "PNG": 0}
"""Bytes for each pixel that a decoder holds beside the picture, measured (`tests/collections/test_footprint.py`)."""
_IN_A_BAND = 24
_ICON = b"\0\0\1\0"
_PNG = b"\x89PNG\r\n\x1a\n"


def pixels_of(image: Image) -> int:
    """The pixels that are decoded: those of the picture, or of one tile of a TIFF where that is larger."""
    width, height = image.size
    return max(width * height, _tile(image))


def bytes_of(image: Image, scans: int = 1) -> int:
    """The most that decoding an opened picture, and bringing it to upright RGB, takes at any moment."""
    # `scans`: of a JPEG, the passes in which it is drawn
    width, height = image.size
    pixels, bands = width * height, len(image.getbands())
    stored = _STORED.get(image.mode, 4)
    own, form = pixels * _OWN.get(image.format or "", 4), image.format
    if form in ("JPEG", "MPO"):  # drawn in passes: every coefficient is held until the last
        own = 2 * bands * pixels if scans > 1 else 0
    elif form == "JPEG2000":
        own = 4 * (bands + 1) * pixels
    elif form == "TIFF":  # a strip may be the whole picture, and a tile larger than it
        own = max(pixels, _tile(image)) * _depth(image) // 8
    # Turned upright, a picture is there twice; as RGB, if it is of another mode, once more.
    rgb = 0 if image.mode == "RGB" and "transparency" not in image.info else 4
    return pixels * (2 * stored + rgb) + own + min(pixels, BAND) * _IN_A_BAND


def icon_pixels(data: bytes) -> int:
    """The pixels of the largest frame of a Windows icon; 0 for anything else."""
    # Pillow decodes an icon as soon as it is opened, and its directory, which has a byte for each side, need not say
    # what lies in it.
    if not data.startswith(_ICON) or len(data) < 6:
        return 0
    most = 0
    for entry in range(6, 6 + 16 * struct.unpack_from("<H", data, 4)[0], 16):
        if entry + 16 > len(data):
            break
        (offset,) = struct.unpack_from("<I", data, entry + 12)
        head = data[offset : offset + 24]
        if head.startswith(_PNG) and len(head) == 24:
            width, height = struct.unpack_from(">II", head, 16)
        elif len(head) >= 12 and head[0] != 12:
            width, height = struct.unpack_from("<ii", head, 4)
        elif len(head) >= 8:  # as OS/2 wrote them
            width, height = struct.unpack_from("<HH", head, 4)
        else:
            continue
        most = max(most, abs(width) * abs(height))
    return most


def _tile(image: Image) -> int:
    """The pixels of a tile of a TIFF; 0 without tiles."""
    tags = getattr(image, "tag_v2", None) if image.format == "TIFF" else None
    if tags is None:
        return 0
    return int(tags.get(_TILE_WIDTH, 0)) * int(tags.get(_TILE_HEIGHT, 0))


def _depth(image: Image) -> int:
    """The bits of a pixel of a TIFF."""
    tags = image.tag_v2  # type: ignore[attr-defined]
    bits = tags.get(_BITS, (1,))
    return int(max(bits if isinstance(bits, tuple) else (bits,))) * int(tags.get(_SAMPLES, 1))
