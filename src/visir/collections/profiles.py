"""Colours as a person sees them: what a profile says about the numbers of a picture, brought to sRGB, that of screens.

Models get the numbers as they are stored: their own loaders ignore profiles, and vectors are to be theirs.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from PIL import Image

if TYPE_CHECKING:
    from PIL.ImageCms import ImageCmsTransform

LARGEST = 1 << 23
"""Bytes of a profile. Those of printers have two million."""
_SPACES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}
"""What stands in the head of a profile, from byte 16, and Pillow's mode for it. Others are for devices alone."""
_USUAL_GAMMA = 0.45455
_NEARLY = 0.05

Paint: TypeAlias = Callable[[Image.Image], Image.Image]


def to_screen(image: Image.Image, paint: Paint) -> Paint | None:
    """What makes RGB for a screen of the bands of a picture; None where its numbers are for a screen already."""
    # A profile that is broken, or of another kind of colours than the picture, is passed over, as viewers do.
    profile = image.info.get("icc_profile")
    if isinstance(profile, bytes) and 128 < len(profile) <= LARGEST:
        kind = _SPACES.get(profile[16:20], "")
        grey = image.mode in ("1", "L", "LA", "La") or image.mode.startswith("I;16")
        fits = image.mode == "CMYK" if kind == "CMYK" else grey == (kind == "L") and image.mode not in ("CMYK", "LAB")
        transform = _transform(_Profile(profile), kind) if kind and fits else None
        if transform is None:
            return None
        if kind == "CMYK":
            return lambda band: _applied(transform, band)
        return lambda band: _applied(transform, paint(band).convert(kind))
    gamma = image.info.get("gamma")
    if image.format != "PNG" or "srgb" in image.info or not isinstance(gamma, float) or gamma <= 0:
        return None
    if abs(gamma - _USUAL_GAMMA) > _NEARLY:
        table = [round(255 * _encoded((value / 255) ** (1 / gamma))) for value in range(256)] * 3
        return lambda band: paint(band).point(table)
    return None


class _Profile:
    """A profile that is looked up by its digest, so that the cache keeps no second copy of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self._digest = data, hashlib.blake2b(data, digest_size=16).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Profile) and other._digest == self._digest


@lru_cache(maxsize=32)
def _transform(profile: _Profile, mode: str) -> ImageCmsTransform | None:
    """From a profile to sRGB; None for one that is broken, or changes nothing that can be seen."""
    from PIL import ImageCms  # without it a picture keeps its numbers

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile.data))
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
        sample = Image.new(mode, (512, 1))
        sample.putdata(_samples(mode))
        seen = _applied(transform, sample)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None
    if mode == "CMYK":
        return transform
    differences = zip(sample.convert("RGB").tobytes(), seen.tobytes(), strict=True)
    return transform if max(abs(before - after) for before, after in differences) > 2 else None


def _samples(mode: str) -> list[int] | list[tuple[int, ...]]:
    if mode == "L":
        return [value // 2 for value in range(512)]
    inks = (0,) if mode == "CMYK" else ()
    return [(36 * (place // 64), 36 * (place // 8 % 8), 36 * (place % 8), *inks) for place in range(512)]


def _applied(transform: ImageCmsTransform, band: Image.Image) -> Image.Image:
    from PIL import ImageCms

    seen = ImageCms.applyTransform(band, transform) or band
    seen.info.pop("icc_profile", None)
    return seen


def _encoded(linear: float) -> float:
    """Light as sRGB writes it (IEC 61966-2-1)."""
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
