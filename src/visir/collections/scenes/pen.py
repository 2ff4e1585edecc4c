"""The pen: draws a figure in unit coordinates as a map of *materials*, so that one drawing serves every paint.

A figure lives in a box from (0, 0) at the top left to (1, 1) at the bottom right; it stands on y = 1 and looks to the
right. A material is "main" (the told colour), "dark" and "light" (its shade and tint), "ink", "nothing" (a hole), or a
name in `palette.FIXED`. Drawing is done at four times the final resolution and averaged down: smooth edges from integer
arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

from visir.collections.scenes.palette import FIXED

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
