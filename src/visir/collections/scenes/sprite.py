"""Sprites: a drawing with its pattern, outline and soft shading, ready to be painted in any colour in microseconds.

The costly part (drawing, averaging down) is kept per (drawing, pixels, pattern). Painting is then linear: the picture
is `fixed + paint·colour + second·(second colour)`, where each factor is an image of coverages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from visir.collections.scenes.palette import CREAM, FIXED, RGB
from visir.collections.scenes.pen import MATERIALS, OVERSAMPLING, Pen, Point

Drawing = Callable[[Pen], None]
Floats = npt.NDArray[np.float32]

INK: RGB = (52, 48, 72)


@dataclass(frozen=True)
class SceneObject:
    """A drawing and what a scene needs to know of it."""

    # `seat` is the point on which something may stand; `scale` corrects how large it is drawn; `verbs` are what it does
    # when it simply is somewhere.

    draw: Drawing
    seat: Point = (0.5, 0.2)
    scale: float = 1.0
    verbs: tuple[str, ...] = ("stands",)


@dataclass(frozen=True)
class _Coverage:
    alpha: Floats  # (side, side, 1), 0–1
    fixed: Floats  # (side, side, 3): the colour of all fixed materials, premultiplied
    paint: Floats  # (side, side, 1): the weight of the paint
    second: Floats  # (side, side, 1): the weight of the pattern's paint
    tint: Floats  # (side, side, 1): the weight of white (light tint)


def paint(
    draw: Drawing,
    side: int,
    colour: RGB,
    second: RGB = CREAM,
    *,
    pattern: str = "plain",
    light: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Image.Image:
    """The sprite as an RGBA image of `side` × `side` pixels: `colour` for the paint, `second` for its pattern."""
    # `light` multiplies the whole: the light of the time of day.
    parts = _coverage(draw, side, pattern)
    rgb = parts.fixed + parts.paint * np.array(colour, np.float32) + parts.tint * np.float32(255)
    if pattern != "plain":
        rgb += parts.second * np.array(second, np.float32)
    rgb *= np.array(light, np.float32) / np.maximum(parts.alpha, np.float32(1 / 512))
    rgba = np.concatenate([rgb, parts.alpha * np.float32(255)], axis=2)
    return Image.fromarray(np.clip(rgba + np.float32(0.5), 0, 255).astype(np.uint8), "RGBA")


@lru_cache(maxsize=4096)
def painted(draw: Drawing, side: int, colour: RGB, light: tuple[float, float, float]) -> Image.Image:
    """A plain sprite, kept: for things that come in few colours."""
    return paint(draw, side, colour, light=light)


@lru_cache(maxsize=4096)
def _coverage(draw: Drawing, side: int, pattern: str) -> _Coverage:
    pen = Pen(side * OVERSAMPLING)
    draw(pen)
    materials = _outlined(pen.map, max(1, round(side * OVERSAMPLING / 44)))
    if pattern != "plain":
        pixels = np.array(materials)
        pixels[(pixels == MATERIALS["main"]) & _pattern(pattern, side * OVERSAMPLING)] = MATERIALS["pattern"]
        materials = Image.fromarray(pixels)
    used = set(np.unique(np.array(materials)).tolist())

    def share(name: str) -> Floats:
        """The share (0–1) of every final pixel that is covered by the material."""
        if MATERIALS[name] not in used:
            return np.zeros((side, side, 1), np.float32)
        lookup = [255 if i == MATERIALS[name] else 0 for i in range(256)]
        covered = np.asarray(materials.point(lookup).reduce(OVERSAMPLING), np.float32)
        return (covered / np.float32(255))[:, :, None]

    shade = _shade(side)
    main, dark, light, ink = share("main"), share("dark"), share("light"), share("ink")
    fixed = np.zeros((side, side, 3), np.float32)
    alpha = main + dark + light + ink + share("pattern")
    for name, colour in FIXED.items():
        if MATERIALS[name] in used:
            part = share(name)
            alpha = alpha + part
            fixed += part * np.array(colour, np.float32)
    fixed = fixed * shade + ink * np.float32(0.68) * np.array(INK, np.float32)
    weight = (main + dark * np.float32(0.76) + light * np.float32(0.55)) * shade + ink * np.float32(0.32)
    return _Coverage(
        np.minimum(alpha, np.float32(1)), fixed, weight, share("pattern") * shade, light * np.float32(0.45) * shade
    )


def _outlined(materials: Image.Image, width: int) -> Image.Image:
    """A thin dark line around the figure: legible on any background, at any size."""
    solid = materials.point([0] + [255] * 255)
    grown = solid.filter(ImageFilter.BoxBlur(width)).point([0] * 8 + [255] * 248)
    ring = Image.new("L", materials.size, MATERIALS["ink"])
    out = Image.composite(ring, Image.new("L", materials.size, 0), grown)
    out.paste(materials, mask=solid)
    return out


def _shade(side: int) -> Floats:
    """Soft light from above: 1.05 at the top to 0.90 at the foot."""
    return np.linspace(1.05, 0.90, side, dtype=np.float32)[:, None, None]


@lru_cache(maxsize=256)
def _pattern(name: str, side: int) -> npt.NDArray[np.bool_]:
    """Where the second paint goes, over the whole box; integer arithmetic on a grid of 1,000."""
    y, x = (grid * 1000 // side for grid in np.mgrid[0:side, 0:side])
    chosen: npt.NDArray[np.bool_]
    if name == "striped":
        chosen = (x + y // 3) % 130 < 55
    elif name == "checked":
        chosen = ((x // 75) + (y // 75)) % 2 == 0
    else:
        row = y // 110
        dx, dy = (x + 62 * (row % 2)) % 125 - 62, y % 110 - 55
        chosen = dx * dx + dy * dy < 33 * 33
    return chosen


def shadow(width: int) -> Image.Image:
    """A soft round shadow on the ground, `width` pixels wide, as a mask."""
    return _shadow(max(4, width))


@lru_cache(maxsize=512)
def _shadow(width: int) -> Image.Image:
    height = max(3, width // 4)
    y = (np.arange(height, dtype=np.float32) + np.float32(0.5)) / np.float32(height) * 2 - 1
    x = (np.arange(width, dtype=np.float32) + np.float32(0.5)) / np.float32(width) * 2 - 1
    depth = np.clip(1 - (x * x)[None, :] - (y * y)[:, None], 0, 1)
    return Image.fromarray((np.minimum(depth * 2, 1) * 78).astype(np.uint8))
