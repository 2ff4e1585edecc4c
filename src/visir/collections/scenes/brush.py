"""The brush: paints landscapes in plain colours on a square in unit coordinates, y downwards, then averages it down."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

from visir.collections.scenes.palette import RGB

OVERSAMPLING = 3


class Brush:
    """Paints on a transparent square; `picture` is the result at the final `side`."""

    def __init__(self, side: int) -> None:
        self.pixels = side * OVERSAMPLING
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
        return self.image.reduce(OVERSAMPLING)
