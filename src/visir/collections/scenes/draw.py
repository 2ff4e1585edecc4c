"""Drawings: the strokes of `pictures.toml`, the painter, and figures as sprites that can be painted in any colour."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from visir.errors import VisirError

RGB = tuple[int, int, int]
Point = tuple[float, float]

VERBS: dict[str, tuple[int, tuple[str, ...]]] = {
    "oval": (2, ()), "box": (2, ()), "disc": (1, ("radius",)), "pie": (1, ("radius", "start", "end")),
    "shape": (3, ()), "blob": (3, ()), "stroke": (1, ("width",)), "line": (2, ("width",)),
    "hills": (1, ("height", "waves", "phase")), "slope": (2, ()),
}  # fmt: skip
"""What strokes do: how many points they have at least, and what they must say. Any other verb is another drawing."""
_OPTIONAL = {"box": ("corner",), "blob": ("steps",)}
_NUMBER = re.compile("#[0-9a-f]{6}")
_LENGTHS = ("radius", "width", "corner", "size")


class Stroke(NamedTuple):
    """One stroke of a drawing."""

    verb: str
    colours: tuple[str, ...]
    points: tuple[Point, ...]
    options: Mapping[str, float]
    repeat: tuple[int, int] = (1, 1)  # how many columns and rows of it there are, and from one to the next
    step: Point = (0.0, 0.0)

    def placed(self, x: float, y: float, size: float, main: str) -> Stroke:
        """The stroke of a drawing whose origin lies at a point, whose unit is `size`, and whose "main" is a colour."""
        verb, colours, points, options, repeat, step = self
        return Stroke(
            verb,
            tuple([main if colour == "main" else colour for colour in colours]),
            tuple([(x + size * px, y + size * py) for px, py in points]),
            {name: value * size if name in _LENGTHS else value for name, value in options.items()},
            repeat,
            step,
        )


@dataclass(frozen=True)
class Drawing:
    """The strokes of a drawing, and what a scene needs to know of it."""

    strokes: tuple[Stroke, ...]
    seat: Point = (0.5, 0.2)  # the point on which something may stand
    scale: float = 1.0  # corrects how large it is drawn
    paints: tuple[RGB, ...] = ()  # what its "main" may be, where no fact says it


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("pictures.toml").read_text("utf-8"))


@cache
def colours(table: str) -> dict[str, RGB]:
    """The colours of a table of `pictures.toml`: "paint", "pattern_paint" or "materials"."""
    return {name: rgb(colour) for name, colour in _file()[table].items()}


def rgb(colour: str) -> RGB:
    """A colour from its number as in HTML: "#ff8000"."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


@cache
def _known_colours() -> frozenset[str]:
    given = "- nothing main dark light ink top bottom star halo glow body crater white shade"
    return frozenset((*given.split(), *_file()["materials"]))


@cache
def drawing(name: str) -> Drawing:
    """A drawing by its name in `pictures.toml`. `VisirError` says which line is not a stroke."""
    table = _file()["drawings"][name]
    strokes = tuple(_stroke(name, line) for line in table["strokes"].strip().splitlines())
    seat = table.get("seat", (0.5, 0.2))
    return Drawing(strokes, (seat[0], seat[1]), table.get("scale", 1.0), tuple(map(rgb, table.get("paints", ()))))


def _stroke(name: str, line: str) -> Stroke:
    """The stroke that a line of a drawing says."""
    try:
        verb, colour, *words = line.split()
        points, options = [], dict[str, list[float]]()
        for word in words:
            if "," in word:
                x, y = word.split(",")
                points.append((float(x), float(y)))
            elif word.isalpha():
                options[word] = []
            else:
                options[[*options][-1]].append(float(word))
        (columns, rows), (dx, dy) = options.pop("repeat", [1, 1]), options.pop("step", [0, 0])
        parts = tuple(colour.split("/"))
        if any(part not in _known_colours() and not _NUMBER.fullmatch(part) for part in parts):
            raise ValueError
        if verb not in VERBS and verb not in _file()["drawings"]:
            raise ValueError
        least, needed = VERBS.get(verb, (1, ("size",)))
        if len(points) < least or not {*needed} <= {*options} <= {*needed, *_OPTIONAL.get(verb, ())}:
            raise ValueError
        single = {word: value for word, (value,) in options.items()}
        return Stroke(verb, parts, tuple(points), single, (int(columns), int(rows)), (dx, dy))
    except (ValueError, IndexError, KeyError) as error:
        raise VisirError(
            f"pictures.toml: drawing {name!r}: {line!r} is not a stroke",
            hint="the head of the file says how strokes are written",
            code="not-a-stroke",
        ) from error


class Painter:
    """Paints strokes on a square image; every length is a share of its side, less a margin all around."""

    def __init__(self, image: Image.Image, margin: float = 0.0) -> None:
        self.image = image
        self._draw = ImageDraw.Draw(image)
        self._margin, self._room, self._side = margin, 1 - 2 * margin, image.width

    def paint(self, strokes: Sequence[Stroke], colours: Mapping[str, Any], horizon: float = 0.0) -> None:
        """Paint with these colours by name; y up to 0.5 counts from the horizon."""
        for verb, names, points, options, (columns, rows), (dx, dy) in strokes:
            if horizon:
                points = tuple((x, y + horizon if y < 0.5 else y) for x, y in points)
            for _ in range(columns):
                there = points
                for _ in range(rows):
                    if verb in VERBS:
                        fills = [colours[name] if name in colours else rgb(name) for name in names]
                        getattr(self, verb)(there, *fills, **options)
                    else:
                        inner = drawing(verb).strokes
                        self.paint([part.placed(*there[0], options["size"], *names) for part in inner], colours)
                    there = tuple((x, y + dy) for x, y in there)
                points = tuple((x + dx, y) for x, y in points)

    def _at(self, x: float, y: float) -> tuple[int, int]:
        return round((self._margin + x * self._room) * self._side), round((self._margin + y * self._room) * self._side)

    def _around(self, points: Sequence[Point], radius: float) -> tuple[int, ...]:
        ((x, y),) = points
        return *self._at(x - radius, y - radius), *self._at(x + radius, y + radius)

    def oval(self, points: Sequence[Point], fill: Any) -> None:
        """An ellipse in the box between two corners."""
        self._draw.ellipse([self._at(*point) for point in points], fill=fill)

    def box(self, points: Sequence[Point], fill: Any, corner: float = 0.0) -> None:
        """A rectangle with corners rounded by `corner`."""
        self._draw.rounded_rectangle([self._at(*point) for point in points], round(corner * self._side), fill=fill)

    def disc(self, points: Sequence[Point], fill: Any, radius: float) -> None:
        """A disc."""
        self._draw.ellipse(self._around(points, radius), fill=fill)

    def pie(self, points: Sequence[Point], fill: Any, radius: float, start: float, end: float) -> None:
        """A slice of a disc from `start` to `end` degrees, clockwise from three o'clock."""
        self._draw.pieslice(self._around(points, radius), start, end, fill=fill)

    def shape(self, points: Sequence[Point], fill: Any) -> None:
        """A polygon."""
        self._draw.polygon([self._at(*point) for point in points], fill=fill)

    def blob(self, points: Sequence[Point], fill: Any, steps: float = 8) -> None:
        """A smooth closed curve through the points (a uniform Catmull–Rom spline), filled."""
        n, outline = len(points), []
        for i in range(n):
            a, b, c, d = (points[(i + k) % n] for k in (-1, 0, 1, 2))
            for step in range(int(steps)):
                t = step / steps
                outline.append((_spline(a[0], b[0], c[0], d[0], t), _spline(a[1], b[1], c[1], d[1], t)))
        self.shape(outline, fill)

    def stroke(self, points: Sequence[Point], fill: Any, width: float) -> None:
        """A line with round ends and joints."""
        self.line(points, fill, width, None)
        for point in points:
            self.disc([point], fill, width / 2)

    def line(self, points: Sequence[Point], fill: Any, width: float, joint: str | None = "curve") -> None:
        """A line with smooth joints."""
        pixels = [self._at(*point) for point in points]
        self._draw.line(pixels, fill=fill, width=max(1, round(width * self._side)), joint=joint)

    def hills(self, points: Sequence[Point], fill: Any, height: float, waves: float, phase: float) -> None:
        """Everything below a gently waving line around y."""
        steps, y = 48, points[0][1]
        line = [(i / steps, y - height * math.sin(phase + waves * math.tau * i / steps)) for i in range(steps + 1)]
        self.shape([*line, (1.01, 1.01), (-0.01, 1.01)], fill)

    def slope(self, points: Sequence[Point], upper: RGB, lower: RGB) -> None:
        """A vertical gradient over the whole width, only where something is painted already."""
        y0, y1 = (self._at(*point)[1] for point in points)
        ramp = Image.linear_gradient("L").resize((self._side, max(1, y1 - y0)))
        band = Image.composite(Image.new("RGB", ramp.size, lower), Image.new("RGB", ramp.size, upper), ramp)
        painted = self.image.getchannel("A").crop((0, y0, self._side, y1))
        self.image.paste(band, (0, y0), painted)


def _spline(a: float, b: float, c: float, d: float, t: float) -> float:
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


def picture(paint: Callable[[Painter], None], side: int) -> Image.Image:
    """What is painted on a transparent square, RGBA: at three times the resolution, and then averaged down."""
    painter = Painter(Image.new("RGBA", (side * 3, side * 3), (0, 0, 0, 0)))
    paint(painter)
    return painter.image.reduce(3)


# Sprites: a figure with its pattern, outline and soft shading, ready to be painted in any colour in microseconds. It is
# drawn as a map of materials, so that one drawing serves every paint, at four times the final resolution, and averaged
# down: smooth edges from integer arithmetic.

Floats = npt.NDArray[np.float32]
OVERSAMPLING = 4
INK: RGB = (52, 48, 72)


@cache
def _materials() -> dict[str, int]:
    names = ("nothing", "main", "dark", "light", "pattern", "ink", *colours("materials"))
    return {name: number for number, name in enumerate(names)}


@dataclass(frozen=True)
class _Coverage:
    alpha: Floats  # (side, side, 1), 0–1
    fixed: Floats  # (side, side, 3): the colour of all fixed materials, premultiplied
    paint: Floats  # (side, side, 1): the weight of the paint
    second: Floats  # (side, side, 1): the weight of the pattern's paint
    tint: Floats  # (side, side, 1): the weight of white (light tint)


def paint(
    name: str,
    side: int,
    colour: RGB,
    second: RGB | None = None,
    *,
    pattern: str = "plain",
    light: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Image.Image:
    """The sprite as an RGBA image of `side` × `side` pixels: `colour` for the paint, `second` for its pattern."""
    # `light` multiplies the whole: the light of the time of day.
    parts = _coverage(name, side, pattern)
    pixels = parts.fixed + parts.paint * np.array(colour, np.float32) + parts.tint * np.float32(255)
    if pattern != "plain":
        pixels += parts.second * np.array(second or colours("materials")["cream"], np.float32)
    pixels *= np.array(light, np.float32) / np.maximum(parts.alpha, np.float32(1 / 512))
    rgba = np.concatenate([pixels, parts.alpha * np.float32(255)], axis=2)
    return Image.fromarray(np.clip(rgba + np.float32(0.5), 0, 255).astype(np.uint8), "RGBA")


@lru_cache(maxsize=4096)
def painted(name: str, side: int, colour: RGB, light: tuple[float, float, float]) -> Image.Image:
    """A plain sprite, kept: for things that come in few colours."""
    return paint(name, side, colour, light=light)


@lru_cache(maxsize=4096)
def _coverage(name: str, side: int, pattern: str) -> _Coverage:
    index, whole = _materials(), side * OVERSAMPLING
    painter = Painter(Image.new("L", (whole, whole), 0), margin=0.03)
    painter.paint(drawing(name).strokes, index)
    pixels = np.array(_outlined(painter.image, max(1, round(whole / 44))))
    if pattern != "plain":
        pixels[(pixels == index["main"]) & _pattern(pattern, whole)] = index["pattern"]
    used = set(np.unique(pixels).tolist())

    def share(name: str) -> Floats:
        """The share (0–1) of every final pixel that is covered by the material."""
        if index[name] not in used:
            return np.zeros((side, side, 1), np.float32)
        covered = Image.fromarray((pixels == index[name]) * np.uint8(255)).reduce(OVERSAMPLING)
        return (np.asarray(covered, np.float32) / np.float32(255))[:, :, None]

    shade = np.linspace(1.05, 0.90, side, dtype=np.float32)[:, None, None]  # soft light from above
    main, dark, light, ink = share("main"), share("dark"), share("light"), share("ink")
    fixed = np.zeros((side, side, 3), np.float32)
    alpha = main + dark + light + ink + share("pattern")
    for material, colour in colours("materials").items():
        if index[material] in used:
            part = share(material)
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
    ring = Image.new("L", materials.size, _materials()["ink"])
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


@lru_cache(maxsize=512)
def shadow(width: int) -> Image.Image:
    """A soft round shadow on the ground, `width` pixels wide, as a mask."""
    width = max(4, width)
    height = max(3, width // 4)
    y = (np.arange(height, dtype=np.float32) + np.float32(0.5)) / np.float32(height) * 2 - 1
    x = (np.arange(width, dtype=np.float32) + np.float32(0.5)) / np.float32(width) * 2 - 1
    depth = np.clip(1 - (x * x)[None, :] - (y * y)[:, None], 0, 1)
    return Image.fromarray((np.minimum(depth * 2, 1) * 78).astype(np.uint8))
