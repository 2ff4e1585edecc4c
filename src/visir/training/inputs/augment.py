"""Augmentation of pictures: random crops, mirroring, erased rectangles; a function of the epoch and the key alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image

from visir.encoders.models.image_input import NORMALISATIONS
from visir.errors import ConfigurationError
from visir.training.sides import Augmentation

Box = tuple[int, int, int, int]
"""Left, top, width, height in pixels."""

_TRIES = 10
_CROP_RATIOS = (3 / 4, 4 / 3)
_ERASED_AREA = (0.02, 0.33)
_ERASED_RATIOS = (0.3, 3.3)
_MEAN_COLOUR = tuple(round(255 * mean) for mean in NORMALISATIONS["imagenet"][0])


def change(
    image: Image.Image, augmentation: Augmentation, size: tuple[int, int], draw: np.random.Generator
) -> Image.Image:
    """Crop and mirror a picture before a backbone prepares it; a crop comes out at `size` (height, width)."""
    # Bilinear with smoothing, as torchvision's `RandomResizedCrop` does it. The rectangle is cut out first, so that no
    # pixel outside of it shines in at its edges.
    if augmentation.crop is not None:
        left, top, width, height = crop_box(image.width, image.height, augmentation.crop, draw)
        image = image.crop((left, top, left + width, top + height))
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    if augmentation.flip and draw.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image


def erase(prepared: Any, probability: float, draw: np.random.Generator) -> Any:
    """Blank a random rectangle of a prepared (3, height, width) picture with this probability (Zhong et al. 2020)."""
    # Bytes get ImageNet's mean colour, floats 0: both are what the papers' code leaves, which erases to 0 after
    # normalising. (Black bytes would be a strong colour, two standard deviations from the mean.) The rectangle has 2 to
    # 33 % of the area and sides between 0.3 and 3.3, torchvision's defaults.
    # Returns `prepared` itself when nothing is erased, otherwise a copy. Raises `ConfigurationError` for a backbone
    # whose inputs are not laid out like that.
    if len(prepared.shape) != 3 or prepared.shape[0] != 3:
        raise ConfigurationError(
            f"this backbone's pictures are {tuple(prepared.shape)} arrays; random erasing needs (3, height, width).",
            hint="leave it out: image.augment.erase=0",
            code="backbone-pictures-arrays",
        )
    box = erased_box(prepared.shape[2], prepared.shape[1], draw) if draw.random() < probability else None
    if box is None:
        return prepared
    left, top, width, height = box
    changed = prepared.copy() if isinstance(prepared, np.ndarray) else prepared.clone()
    whole = isinstance(changed, np.ndarray) and changed.dtype == np.uint8
    for channel, colour in enumerate(_MEAN_COLOUR if whole else (0, 0, 0)):
        changed[channel, top : top + height, left : left + width] = colour
    return changed


def crop_box(width: int, height: int, least: float, draw: np.random.Generator) -> Box:
    """A crop of a width × height picture as torchvision's `RandomResizedCrop(scale=(least, 1))` draws it."""
    # Its share of the area is uniform, the logarithm of its ratio of sides too. When none of ten draws fits inside, it
    # is the largest centred crop whose ratio is allowed.
    for crop_width, crop_height in _rectangles(width, height, (least, 1.0), _CROP_RATIOS, draw):
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left = int(draw.integers(width - crop_width + 1))
            return left, int(draw.integers(height - crop_height + 1)), crop_width, crop_height
    crop_width = min(width, round(height * _CROP_RATIOS[1]))
    crop_height = min(height, round(width / _CROP_RATIOS[0]))
    return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


def erased_box(width: int, height: int, draw: np.random.Generator) -> Box | None:
    """A rectangle to erase as torchvision's `RandomErasing` draws it; None when none of ten draws fits inside."""
    for erased_width, erased_height in _rectangles(width, height, _ERASED_AREA, _ERASED_RATIOS, draw, upright=True):
        if erased_width < width and erased_height < height:
            left = int(draw.integers(width - erased_width + 1))
            return left, int(draw.integers(height - erased_height + 1)), erased_width, erased_height
    return None


def _rectangles(
    width: int,
    height: int,
    share: tuple[float, float],
    ratios: tuple[float, float],
    draw: np.random.Generator,
    upright: bool = False,
) -> list[tuple[int, int]]:
    """Ten (width, height): a uniform share of the area, a log-uniform ratio width : height (`upright`: the inverse)."""
    areas = width * height * draw.uniform(*share, size=_TRIES)
    roots = np.exp(0.5 * draw.uniform(math.log(ratios[0]), math.log(ratios[1]), size=_TRIES))
    sides = np.sqrt(areas)
    wide, high = np.rint(sides * roots).astype(int).tolist(), np.rint(sides / roots).astype(int).tolist()
    return list(zip(high, wide, strict=True) if upright else zip(wide, high, strict=True))
