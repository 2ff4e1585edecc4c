"""The pen: draws a figure in unit coordinates as a map of *materials*, so that one drawing serves every paint.

A figure lives in a box from (0, 0) at the top left to (1, 1) at the bottom right; it stands on y = 1 and looks to the
right. A material is "main" (the told colour), "dark" and "light" (its shade and tint), "ink", "nothing" (a hole), or a
name in `palette.FIXED`. Drawing is done at four times the final resolution and averaged down: smooth edges from integer
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from visir.collections.scenes.palette import CREAM, FIXED, RGB

Point = tuple[float, float]

OVERSAMPLING = 4
MATERIALS = {name: index for index, name in enumerate(("nothing", "main", "dark", "light", "pattern", "ink", *FIXED))}


class Pen:
    """Draws on a square map of `side` × `side` pixels (already oversampled); every length is a share of the box."""

    MARGIN = 0.03

    def __init__(self, side: int) -> None:
        self.side = side
        self.map = Image.new("L", (side, side), 0)
        self._draw = ImageDraw.Draw(self.map)

    def _at(self, x: float, y: float) -> tuple[int, int]:
        room = 1 - 2 * self.MARGIN
        return round((self.MARGIN + x * room) * self.side), round((self.MARGIN + y * room) * self.side)

    def box(self, x0: float, y0: float, x1: float, y1: float, material: str, corner: float = 0.0) -> None:
        """A rectangle with corners rounded by `corner`."""
        radius = round(corner * self.side)
        self._draw.rounded_rectangle((*self._at(x0, y0), *self._at(x1, y1)), radius, fill=MATERIALS[material])

    def oval(self, x0: float, y0: float, x1: float, y1: float, material: str) -> None:
        """An ellipse in the box from (x0, y0) to (x1, y1)."""
        self._draw.ellipse((*self._at(x0, y0), *self._at(x1, y1)), fill=MATERIALS[material])

    def disc(self, x: float, y: float, radius: float, material: str) -> None:
        """A disc around (x, y)."""
        self.oval(x - radius, y - radius, x + radius, y + radius, material)

    def pie(self, x: float, y: float, radius: float, start: float, end: float, material: str) -> None:
        """A slice of a disc from `start` to `end` degrees, clockwise from three o'clock."""
        corners = (*self._at(x - radius, y - radius), *self._at(x + radius, y + radius))
        self._draw.pieslice(corners, start, end, fill=MATERIALS[material])

    def shape(self, points: Sequence[Point], material: str) -> None:
        """A polygon."""
        self._draw.polygon([self._at(*point) for point in points], fill=MATERIALS[material])

    def blob(self, points: Sequence[Point], material: str, steps: int = 8) -> None:
        """A smooth closed curve through the points (a uniform Catmull–Rom spline), filled."""
        n, outline = len(points), []
        for i in range(n):
            a, b, c, d = (points[(i + k) % n] for k in (-1, 0, 1, 2))
            for step in range(steps):
                t = step / steps
                outline.append((_spline(a[0], b[0], c[0], d[0], t), _spline(a[1], b[1], c[1], d[1], t)))
        self.shape(outline, material)

    def stroke(self, points: Sequence[Point], width: float, material: str) -> None:
        """A line with round ends and joints."""
        pixels = [self._at(*point) for point in points]
        self._draw.line(pixels, fill=MATERIALS[material], width=max(1, round(width * self.side)))
        for x, y in points:
            self.disc(x, y, width / 2, material)

    def wheel(self, x: float, radius: float, y: float | None = None) -> None:
        """A wheel that stands on the ground (or whose middle is at y)."""
        y = 1 - radius if y is None else y
        self.disc(x, y, radius, "tyre")
        self.disc(x, y, radius * 0.5, "steel")

    def eye(self, x: float, y: float, radius: float = 0.028) -> None:
        """A dark eye with a glint."""
        self.disc(x, y, radius, "black")
        self.disc(x + radius * 0.3, y - radius * 0.35, radius * 0.38, "snow")


def _spline(a: float, b: float, c: float, d: float, t: float) -> float:
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


# Sprites: a drawing with its pattern, outline and soft shading, ready to be painted in any colour in microseconds.


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

    shade = np.linspace(1.05, 0.90, side, dtype=np.float32)[:, None, None]  # soft light from above
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


# The brush: paints landscapes in plain colours on a square in unit coordinates, y downwards, then averages it down.


_BRUSH_OVERSAMPLING = 3


class Brush:
    """Paints on a transparent square; `picture` is the result at the final `side`."""

    def __init__(self, side: int) -> None:
        self.pixels = side * _BRUSH_OVERSAMPLING
        self.image = Image.new("RGBA", (self.pixels, self.pixels), (0, 0, 0, 0))
        self.draw = ImageDraw.Draw(self.image)

    def _scale(self, *values: float) -> list[int]:
        return [round(value * self.pixels) for value in values]

    def oval(self, x0: float, y0: float, x1: float, y1: float, colour: RGB) -> None:
        """An ellipse."""
        self.draw.ellipse(self._scale(x0, y0, x1, y1), fill=colour)

    def disc(self, x: float, y: float, radius: float, colour: RGB) -> None:
        """A disc."""
        self.oval(x - radius, y - radius, x + radius, y + radius, colour)

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: RGB, corner: float = 0.0) -> None:
        """A rectangle, its corners rounded by `corner`."""
        self.draw.rounded_rectangle(self._scale(x0, y0, x1, y1), round(corner * self.pixels), fill=colour)

    def shape(self, points: Sequence[tuple[float, float]], colour: RGB) -> None:
        """A polygon."""
        self.draw.polygon([tuple(self._scale(*point)) for point in points], fill=colour)

    def line(self, points: Sequence[tuple[float, float]], width: float, colour: RGB) -> None:
        """A line with smooth joints."""
        pixels = [tuple(self._scale(*point)) for point in points]
        self.draw.line(pixels, fill=colour, width=max(1, round(width * self.pixels)), joint="curve")

    def hills(self, y: float, height: float, waves: float, phase: float, colour: RGB) -> None:
        """Everything below a gently waving line around `y`."""
        steps = 48
        line = [(i / steps, y - height * math.sin(phase + waves * math.tau * i / steps)) for i in range(steps + 1)]
        self.shape([*line, (1.01, 1.01), (-0.01, 1.01)], colour)

    def slope(self, top: float, bottom: float, upper: RGB, lower: RGB) -> None:
        """A vertical gradient over the whole width, only where something is painted already."""
        y0, y1 = round(top * self.pixels), round(bottom * self.pixels)
        ramp = Image.linear_gradient("L").resize((self.pixels, max(1, y1 - y0)))
        band = Image.composite(Image.new("RGB", ramp.size, lower), Image.new("RGB", ramp.size, upper), ramp)
        painted = self.image.getchannel("A").crop((0, y0, self.pixels, y1))
        self.image.paste(band, (0, y0), painted)

    def picture(self) -> Image.Image:
        """The painting at its final resolution, RGBA."""
        return self.image.reduce(_BRUSH_OVERSAMPLING)
