"""The sky, and the weather in front of everything: rain, snow, fog."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from visir.collections.scenes.brush import Brush
from visir.collections.scenes.palette import RGB, mix

_SKY: dict[str, tuple[RGB, RGB]] = {
    "day": ((108, 178, 232), (206, 234, 246)),
    "sunset": ((126, 104, 168), (255, 190, 130)),
    "night": ((24, 32, 76), (76, 92, 150)),
}
_OVERCAST: dict[str, RGB] = {"day": (176, 192, 210), "sunset": (190, 150, 156), "night": (66, 76, 112)}
_STORM: dict[str, RGB] = {"day": (96, 108, 136), "sunset": (112, 84, 112), "night": (34, 36, 66)}
_CLOUD: dict[str, RGB] = {"day": (255, 255, 255), "sunset": (255, 214, 190), "night": (112, 122, 162)}
_GREYNESS = {"clear": 0.0, "cloudy": 0.30, "rainy": 0.70, "snowy": 0.55, "foggy": 0.62, "stormy": 1.0}
_SPREAD = (0.7548776662466927, 0.5698402909980532)
"""Steps that spread points evenly over a square without lines or clumps: 1/g and 1/g², g the root of g³ = g + 1."""
LAYOUTS = 4
"""How many arrangements of clouds, stars, drops and flakes there are; which one is used is nobody's fact."""


@lru_cache(maxsize=512)
def sky(time: str, weather: str, sun_side: str, side: int) -> Image.Image:
    """The sky as an RGB image of `side` × `side` pixels."""
    brush = Brush(side)
    top, bottom = _SKY[time]
    grey = _STORM[time] if weather == "stormy" else _OVERCAST[time]
    share = _GREYNESS[weather]
    top, bottom = mix(top, grey, share), mix(bottom, mix(grey, (255, 255, 255), 0.18), share)
    brush.box(-0.1, -0.1, 1.1, 1.1, top)
    brush.slope(0.0, 0.66, top, bottom)
    brush.slope(0.66, 1.0, bottom, bottom)
    if time == "night" and weather in ("clear", "cloudy", "snowy"):
        for i in range(26):
            x, y = (i * _SPREAD[0] + 0.07) % 1.0, (i * _SPREAD[1] + 0.03) % 1.0 * 0.46
            brush.disc(x, y, 0.0045 + 0.003 * (i % 3 == 0), mix(top, (255, 250, 220), 0.85))
    _sun(brush, time, weather, sun_side, mix(top, bottom, 0.45 if time == "sunset" else 0.2))
    _clouds(brush, time, weather, grey)
    return brush.picture().convert("RGB")


def _sun(brush: Brush, time: str, weather: str, sun_side: str, around: RGB) -> None:
    """The sun or moon: bright when it is clear, a pale disc through cloud; low at sunset."""
    x = 0.13 if sun_side == "left" else 0.87
    y = 0.30 if time == "sunset" else 0.13
    body: RGB = {"day": (255, 226, 110), "sunset": (255, 158, 92), "night": (252, 244, 206)}[time]
    pale = {"clear": 0.0, "cloudy": 0.0, "rainy": 0.60, "snowy": 0.45, "foggy": 0.50, "stormy": 0.68}[weather]
    radius = 0.085 if time == "sunset" else 0.068
    for ring, share in ((1.75, 0.84), (1.4, 0.66)):
        brush.disc(x, y, radius * ring, mix(body, around, share + (1 - share) * pale))
    brush.disc(x, y, radius, mix(body, around, pale))
    if time == "night":
        for dx, dy, r in ((-0.02, -0.015, 0.014), (0.022, 0.016, 0.018), (-0.008, 0.03, 0.009)):
            brush.disc(x + dx, y + dy, r, mix((226, 214, 176), around, pale))


def _cloud(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    for dx, dy, r in ((-0.62, 0.02, 0.26), (-0.26, -0.16, 0.36), (0.20, -0.10, 0.33), (0.60, 0.04, 0.24)):
        brush.disc(x + dx * size, y + dy * size, r * size, colour)
    brush.box(x - 0.86 * size, y, x + 0.83 * size, y + 0.28 * size, colour, 0.14 * size)


def _clouds(brush: Brush, time: str, weather: str, grey: RGB) -> None:
    white = _CLOUD[time]
    if weather == "clear":
        _cloud(brush, 0.42, 0.40, 0.08, mix(white, _SKY[time][1], 0.35))
        return
    if weather == "foggy":
        return
    dark = mix(grey, (30, 34, 54), 0.25 if weather == "stormy" else 0.0)
    colour = white if weather == "cloudy" else mix(white, dark, {"rainy": 0.72, "snowy": 0.30, "stormy": 0.94}[weather])
    for x, y, size in (
        (0.34, 0.09, 0.17),
        (0.68, 0.06, 0.19),
        (0.03, 0.30, 0.16),
        (0.97, 0.33, 0.17),
        (0.52, 0.30, 0.13),
    ):
        _cloud(brush, x, y + 0.012, size, mix(colour, grey, 0.35))
        _cloud(brush, x, y, size, colour)
    if weather == "stormy":
        bolt = [(0.56, 0.19), (0.49, 0.31), (0.545, 0.31), (0.50, 0.44), (0.62, 0.275), (0.565, 0.275), (0.61, 0.19)]
        brush.shape(bolt, (255, 236, 130))


@lru_cache(maxsize=128)
def falling(weather: str, layout: int, side: int) -> Image.Image | None:
    """What falls in front of the picture, as an RGBA image; None when nothing does."""
    if weather not in ("rainy", "stormy", "snowy"):
        return None
    scale = 3
    image = Image.new("L", (side * scale, side * scale), 0)
    draw = ImageDraw.Draw(image)
    count = {"rainy": 70, "stormy": 90, "snowy": 64}[weather]
    for i in range(count):
        step = i + layout * 101
        x, y = (step * _SPREAD[0]) % 1.0 * 1.06, (step * _SPREAD[1]) % 1.0
        px, py = round(x * side * scale), round(y * side * scale)
        if weather == "snowy":
            r = max(2, round((0.006 + 0.0035 * (i % 3)) * side * scale))
            draw.ellipse((px - r, py - r, px + r, py + r), fill=235)
        else:
            length = (0.05 + 0.015 * (i % 3)) * side * scale
            end = (px - round(length * 0.28), py + round(length))
            draw.line((px, py, *end), fill=150, width=max(2, round(0.0075 * side * scale)))
    ink = (255, 255, 255) if weather == "snowy" else (214, 232, 248)
    out = Image.new("RGBA", (side, side), (*ink, 0))
    out.putalpha(image.reduce(scale))
    return out


@lru_cache(maxsize=64)
def fog(time: str, horizon: float, side: int) -> Image.Image:
    """A veil, thickest along the horizon, as an RGBA image."""
    y = (np.arange(side, dtype=np.float64) + 0.5) / side
    thickness = 0.62 - np.abs(y - horizon) * 0.95
    rows = (np.clip(thickness, 0.20, 0.52) * 255).astype(np.uint8)
    tone: RGB = {"day": (232, 238, 242), "sunset": (244, 214, 200), "night": (128, 138, 170)}[time]
    out = Image.new("RGB", (side, side), tone).convert("RGBA")
    out.putalpha(Image.fromarray(np.repeat(rows[:, None], side, axis=1)))
    return out
