"""From a scene to its picture: sky, land, landmark, what lies about, the subject and its companion, flyers, weather."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from visir.collections.scenes.draw import Brush, Drawing, Pen, SceneObject, paint, painted, shadow
from visir.collections.scenes.facts import Scene
from visir.collections.scenes.palette import FESTIVE, FIXED, LIGHT, NEAR_LIGHT, PAINT, PATTERN_PAINT, RGB, mix
from visir.collections.scenes.places import ANIMALS, HORIZON, VEHICLES, land
from visir.errors import VisirError

# The sky, and the weather in front of everything: rain, snow, fog.

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


# Landmarks: what stands in the distance, on the horizon, always in its own colours.


def _house(pen: Pen) -> None:
    pen.box(0.66, 0.26, 0.76, 0.50, "brick")
    pen.box(0.14, 0.54, 0.86, 1.0, "wall")
    pen.shape([(0.04, 0.56), (0.50, 0.20), (0.96, 0.56)], "roof")
    pen.box(0.42, 0.72, 0.58, 1.0, "darkwood")
    for x in (0.21, 0.65):
        pen.box(x, 0.66, x + 0.14, 0.82, "lamp")


def _church(pen: Pen) -> None:
    pen.box(0.36, 0.58, 0.90, 1.0, "wall")
    pen.shape([(0.32, 0.60), (0.44, 0.42), (0.82, 0.42), (0.95, 0.60)], "slate")
    pen.box(0.10, 0.36, 0.42, 1.0, "wall")
    pen.shape([(0.06, 0.38), (0.26, 0.10), (0.46, 0.38)], "slate")
    pen.stroke([(0.26, 0.00), (0.26, 0.12)], 0.035, "gold")
    pen.stroke([(0.20, 0.05), (0.32, 0.05)], 0.035, "gold")
    pen.disc(0.26, 0.50, 0.07, "lamp")
    pen.box(0.19, 0.74, 0.33, 1.0, "darkwood", 0.05)
    for x in (0.52, 0.70):
        pen.box(x, 0.68, x + 0.10, 0.88, "lamp", 0.04)


def _castle(pen: Pen) -> None:
    pen.box(0.20, 0.52, 0.80, 1.0, "stone")
    for x in (0.24, 0.38, 0.52, 0.66):
        pen.box(x, 0.45, x + 0.09, 0.54, "stone")
    for x in (0.04, 0.72):
        pen.box(x, 0.36, x + 0.24, 1.0, "stone")
        pen.shape([(x - 0.03, 0.38), (x + 0.12, 0.10), (x + 0.27, 0.38)], "roof")
        pen.box(x + 0.08, 0.50, x + 0.16, 0.64, "lamp", 0.03)
        pen.stroke([(x + 0.12, 0.10), (x + 0.12, 0.02)], 0.02, "ink")
        pen.shape([(x + 0.12, 0.00), (x + 0.24, 0.04), (x + 0.12, 0.08)], "gold")
    pen.box(0.39, 0.70, 0.61, 1.0, "darkwood", 0.09)


def _windmill(pen: Pen) -> None:
    pen.shape([(0.36, 0.40), (0.64, 0.40), (0.76, 1.0), (0.24, 1.0)], "wall")
    pen.blob([(0.34, 0.42), (0.40, 0.29), (0.60, 0.29), (0.66, 0.42)], "brick")
    pen.box(0.43, 0.80, 0.57, 1.0, "darkwood", 0.04)
    pen.disc(0.50, 0.62, 0.05, "lamp")
    for angle in (35, 125, 215, 305):
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        tip, side = (0.50 + 0.44 * c, 0.36 + 0.36 * s), (0.09 * -s, 0.09 * c)
        root = (0.50 + 0.10 * c, 0.36 + 0.08 * s)
        pen.shape([root, tip, (tip[0] + side[0], tip[1] + side[1]), (root[0] + side[0], root[1] + side[1])], "snow")
        pen.stroke([(0.50, 0.36), tip], 0.03, "darkwood")
    pen.disc(0.50, 0.36, 0.045, "darkwood")


def _lighthouse(pen: Pen) -> None:
    pen.shape([(0.38, 0.30), (0.62, 0.30), (0.72, 1.0), (0.28, 1.0)], "snow")
    for top, bottom in ((0.40, 0.54), (0.68, 0.82)):
        a, b = (top - 0.30) / 7, (bottom - 0.30) / 7
        pen.shape([(0.38 - a, top), (0.62 + a, top), (0.62 + b, bottom), (0.38 - b, bottom)], "crimson")
    pen.box(0.40, 0.14, 0.60, 0.28, "lamp")
    pen.box(0.32, 0.26, 0.68, 0.31, "slate")
    pen.shape([(0.36, 0.15), (0.50, 0.00), (0.64, 0.15)], "crimson")
    pen.box(0.44, 0.88, 0.56, 1.0, "darkwood", 0.03)


def _ferris_wheel(pen: Pen) -> None:
    pen.stroke([(0.50, 0.46), (0.28, 0.99)], 0.04, "slate")
    pen.stroke([(0.50, 0.46), (0.72, 0.99)], 0.04, "slate")
    rim = [(0.50 + 0.38 * math.cos(i * math.pi / 12), 0.46 + 0.38 * math.sin(i * math.pi / 12)) for i in range(25)]
    pen.stroke(rim, 0.035, "crimson")
    for i in range(8):
        x, y = rim[i * 3]
        pen.stroke([(0.50, 0.46), (x, y)], 0.02, "steel")
        pen.disc(x, y + 0.03, 0.065, ("gold", "sky", "leaf", "blush")[i % 4])
    pen.disc(0.50, 0.46, 0.06, "gold")
    pen.box(0.20, 0.95, 0.80, 1.0, "slate", 0.01)


def _circus_tent(pen: Pen) -> None:
    pen.box(0.08, 0.58, 0.92, 1.0, "cream")
    for x in (0.08, 0.36, 0.64, 0.92):
        pen.box(x - 0.06 if x > 0.1 else 0.08, 0.58, min(x + 0.08, 0.92), 1.0, "crimson")
    pen.shape([(0.00, 0.60), (0.50, 0.16), (1.0, 0.60)], "cream")
    pen.shape([(0.00, 0.60), (0.50, 0.16), (0.24, 0.60)], "crimson")
    pen.shape([(0.42, 0.60), (0.50, 0.16), (0.62, 0.60)], "crimson")
    pen.shape([(0.80, 0.60), (0.50, 0.16), (1.0, 0.60)], "crimson")
    pen.stroke([(0.50, 0.18), (0.50, 0.04)], 0.025, "ink")
    pen.shape([(0.50, 0.02), (0.68, 0.07), (0.50, 0.13)], "gold")
    pen.shape([(0.50, 0.66), (0.62, 1.0), (0.38, 1.0)], "black")


def _water_tower(pen: Pen) -> None:
    for x0, x1 in ((0.34, 0.24), (0.50, 0.50), (0.66, 0.76)):
        pen.stroke([(x0, 0.50), (x1, 0.98)], 0.045, "slate")
    pen.stroke([(0.30, 0.72), (0.70, 0.72)], 0.03, "slate")
    pen.box(0.22, 0.22, 0.78, 0.54, "sky", 0.08)
    pen.box(0.22, 0.34, 0.78, 0.40, "snow")
    pen.shape([(0.18, 0.25), (0.50, 0.04), (0.82, 0.25)], "slate")


LANDMARKS = {
    "house": _house, "church": _church, "castle": _castle, "windmill": _windmill, "lighthouse": _lighthouse,
    "Ferris wheel": _ferris_wheel, "circus tent": _circus_tent, "water tower": _water_tower,
}  # fmt: skip


# The second thing in a picture: small, in a told colour.


def _ball(pen: Pen) -> None:
    pen.disc(0.5, 0.56, 0.43, "main")
    pen.blob(
        [(0.22, 0.26), (0.40, 0.44), (0.44, 0.66), (0.34, 0.94), (0.20, 0.86), (0.10, 0.62), (0.12, 0.40)], "light"
    )
    pen.blob([(0.70, 0.20), (0.84, 0.34), (0.90, 0.56), (0.82, 0.80), (0.70, 0.62), (0.64, 0.40)], "dark")
    pen.disc(0.48, 0.30, 0.07, "snow")


def _bucket(pen: Pen) -> None:
    pen.blob([(0.10, 0.40), (0.20, 0.10), (0.50, 0.00), (0.80, 0.10), (0.90, 0.40)], "steel")
    pen.blob([(0.17, 0.40), (0.26, 0.17), (0.50, 0.08), (0.74, 0.17), (0.83, 0.40)], "nothing")
    pen.shape([(0.08, 0.40), (0.92, 0.40), (0.78, 1.0), (0.22, 1.0)], "main")
    pen.oval(0.08, 0.30, 0.92, 0.52, "dark")
    pen.box(0.17, 0.66, 0.83, 0.76, "light")


def _present(pen: Pen) -> None:
    pen.oval(0.24, 0.06, 0.50, 0.30, "gold")
    pen.oval(0.50, 0.06, 0.76, 0.30, "gold")
    pen.box(0.10, 0.44, 0.90, 1.0, "main", 0.03)
    pen.box(0.04, 0.28, 0.96, 0.48, "dark", 0.03)
    pen.box(0.42, 0.28, 0.58, 1.0, "gold")


def _flowerpot(pen: Pen) -> None:
    pen.stroke([(0.50, 0.60), (0.50, 0.30)], 0.06, "leaf")
    pen.blob([(0.50, 0.54), (0.30, 0.50), (0.20, 0.34), (0.40, 0.40)], "leaf")
    pen.blob([(0.50, 0.54), (0.70, 0.50), (0.80, 0.34), (0.60, 0.40)], "leaf")
    for x, y in ((0.50, 0.08), (0.36, 0.16), (0.64, 0.16), (0.40, 0.30), (0.60, 0.30)):
        pen.disc(x, y, 0.09, "cream")
    pen.disc(0.50, 0.20, 0.09, "gold")
    pen.shape([(0.20, 0.64), (0.80, 0.64), (0.70, 1.0), (0.30, 1.0)], "main")
    pen.box(0.14, 0.54, 0.86, 0.68, "dark", 0.03)


def _mug(pen: Pen) -> None:
    pen.oval(0.56, 0.36, 0.98, 0.86, "main")
    pen.oval(0.66, 0.48, 0.88, 0.74, "nothing")
    pen.box(0.08, 0.24, 0.74, 1.0, "main", 0.08)
    pen.oval(0.08, 0.16, 0.74, 0.36, "light")
    pen.oval(0.15, 0.20, 0.67, 0.33, "darkwood")
    pen.blob([(0.41, 0.84), (0.24, 0.66), (0.28, 0.54), (0.41, 0.60), (0.54, 0.54), (0.58, 0.66)], "cream")


def _lantern(pen: Pen) -> None:
    pen.stroke([(0.36, 0.20), (0.38, 0.06), (0.62, 0.06), (0.64, 0.20)], 0.05, "tyre")
    pen.shape([(0.18, 0.32), (0.36, 0.14), (0.64, 0.14), (0.82, 0.32)], "main")
    pen.box(0.22, 0.30, 0.78, 0.88, "lamp")
    pen.blob([(0.50, 0.42), (0.61, 0.62), (0.56, 0.78), (0.44, 0.78), (0.39, 0.62)], "gold")
    for x in (0.20, 0.70):
        pen.box(x, 0.30, x + 0.10, 0.88, "main")
    pen.box(0.12, 0.84, 0.88, 1.0, "main", 0.04)


def _hat(pen: Pen) -> None:
    pen.box(0.24, 0.30, 0.76, 0.90, "main", 0.08)
    pen.box(0.24, 0.68, 0.76, 0.84, "black")
    pen.oval(0.00, 0.80, 1.00, 1.0, "main")
    pen.box(0.25, 0.68, 0.75, 0.86, "black")
    pen.oval(0.26, 0.30, 0.74, 0.42, "light")


def _drum(pen: Pen) -> None:
    pen.box(0.06, 0.36, 0.94, 0.94, "main", 0.10)
    for x in (0.10, 0.38, 0.66):
        pen.stroke([(x, 0.46), (x + 0.12, 0.90), (x + 0.26, 0.46)], 0.035, "cream")
    pen.box(0.04, 0.86, 0.96, 0.98, "gold", 0.04)
    pen.oval(0.04, 0.26, 0.96, 0.56, "gold")
    pen.oval(0.09, 0.28, 0.91, 0.51, "cream")
    pen.stroke([(0.30, 0.38), (0.74, 0.12)], 0.05, "wood")
    pen.disc(0.28, 0.39, 0.055, "wood")


def _mushroom(pen: Pen) -> None:
    pen.blob([(0.36, 0.50), (0.64, 0.50), (0.66, 0.80), (0.74, 0.98), (0.26, 0.98), (0.34, 0.80)], "cream")
    pen.blob([(0.02, 0.54), (0.12, 0.28), (0.36, 0.10), (0.64, 0.10), (0.88, 0.28), (0.98, 0.54), (0.50, 0.62)], "main")
    for x, y, r in ((0.30, 0.34, 0.085), (0.58, 0.24, 0.075), (0.76, 0.44, 0.07), (0.50, 0.48, 0.05)):
        pen.disc(x, y, r, "light")


def _suitcase(pen: Pen) -> None:
    pen.box(0.34, 0.14, 0.66, 0.40, "darkwood", 0.05)
    pen.box(0.41, 0.22, 0.59, 0.40, "nothing", 0.02)
    pen.box(0.02, 0.32, 0.98, 1.0, "main", 0.08)
    for x in (0.18, 0.72):
        pen.box(x, 0.32, x + 0.10, 1.0, "dark")
        pen.box(x - 0.01, 0.56, x + 0.11, 0.68, "gold", 0.01)


COMPANIONS = {
    "ball": _ball, "bucket": _bucket, "present": _present, "flowerpot": _flowerpot, "mug": _mug, "lantern": _lantern,
    "hat": _hat, "drum": _drum, "mushroom": _mushroom, "suitcase": _suitcase,
}  # fmt: skip


# Things that can be the subject of a picture.

STANDS = ("stands", "is standing", "can be seen")


def _tent(pen: Pen) -> None:
    pen.shape([(0.46, 0.14), (0.70, 0.14), (0.98, 0.99), (0.60, 0.99)], "main")
    pen.shape([(0.46, 0.14), (0.02, 0.99), (0.62, 0.99)], "dark")
    pen.shape([(0.46, 0.24), (0.20, 0.99), (0.52, 0.99)], "black")
    pen.shape([(0.46, 0.20), (0.33, 0.62), (0.24, 0.99), (0.16, 0.99)], "light")
    pen.stroke([(0.46, 0.15), (0.46, 0.05)], 0.03, "wood")
    pen.shape([(0.46, 0.03), (0.60, 0.07), (0.46, 0.11)], "crimson")


def _armchair(pen: Pen) -> None:
    pen.box(0.14, 0.90, 0.22, 1.0, "darkwood")
    pen.box(0.78, 0.90, 0.86, 1.0, "darkwood")
    pen.box(0.12, 0.12, 0.62, 0.90, "main", 0.12)
    pen.box(0.24, 0.60, 0.90, 0.76, "light", 0.05)
    pen.box(0.10, 0.72, 0.90, 0.92, "main", 0.05)
    pen.box(0.44, 0.46, 0.94, 0.60, "dark", 0.06)
    pen.box(0.78, 0.50, 0.92, 0.92, "dark", 0.05)
    pen.disc(0.86, 0.53, 0.04, "light")


def _teapot(pen: Pen) -> None:
    pen.blob([(0.24, 0.44), (0.08, 0.42), (0.02, 0.60), (0.10, 0.78), (0.26, 0.80)], "main")
    pen.blob([(0.22, 0.52), (0.14, 0.51), (0.10, 0.60), (0.15, 0.69), (0.24, 0.70)], "nothing")
    pen.blob([(0.68, 0.76), (0.80, 0.60), (0.84, 0.40), (0.98, 0.34), (0.96, 0.46), (0.90, 0.72), (0.74, 0.90)], "main")
    pen.blob([(0.30, 0.36), (0.50, 0.32), (0.70, 0.36), (0.82, 0.64), (0.70, 0.94), (0.30, 0.94), (0.18, 0.64)], "main")
    pen.oval(0.28, 0.29, 0.72, 0.43, "dark")
    pen.oval(0.30, 0.25, 0.70, 0.39, "light")
    pen.disc(0.50, 0.22, 0.065, "gold")
    pen.box(0.30, 0.92, 0.70, 1.0, "dark", 0.03)


def _robot(pen: Pen) -> None:
    pen.stroke([(0.50, 0.14), (0.50, 0.05)], 0.03, "steel")
    pen.disc(0.50, 0.05, 0.045, "crimson")
    for x in (0.34, 0.56):
        pen.box(x, 0.80, x + 0.10, 0.98, "steel")
        pen.box(x - 0.02, 0.92, x + 0.16, 1.0, "dark", 0.03)
    pen.stroke([(0.24, 0.56), (0.12, 0.64), (0.10, 0.76)], 0.07, "steel")
    pen.stroke([(0.76, 0.56), (0.90, 0.50), (0.92, 0.36)], 0.07, "steel")
    pen.disc(0.10, 0.79, 0.06, "dark")
    pen.disc(0.92, 0.33, 0.06, "dark")
    pen.box(0.22, 0.50, 0.78, 0.86, "main", 0.06)
    pen.box(0.24, 0.13, 0.76, 0.48, "main", 0.07)
    pen.box(0.34, 0.20, 0.74, 0.40, "cream", 0.05)
    pen.disc(0.46, 0.29, 0.05, "black")
    pen.disc(0.64, 0.29, 0.05, "black")
    pen.box(0.36, 0.60, 0.64, 0.74, "steel", 0.02)
    pen.disc(0.43, 0.67, 0.035, "crimson")
    pen.disc(0.56, 0.67, 0.035, "gold")


def _umbrella(pen: Pen) -> None:
    pen.stroke([(0.50, 0.10), (0.56, 0.97)], 0.045, "wood")
    pen.blob([(0.04, 0.50), (0.12, 0.26), (0.30, 0.10), (0.52, 0.07), (0.76, 0.14), (0.92, 0.32), (0.97, 0.54)], "main")
    for x0, x1, y in ((0.05, 0.35, 0.505), (0.33, 0.67, 0.52), (0.65, 0.96, 0.535)):
        pen.oval(x0, y - 0.05, x1, y + 0.07, "dark")
    pen.disc(0.51, 0.06, 0.035, "gold")
    pen.oval(0.42, 0.95, 0.70, 1.0, "darkwood")


THINGS = {
    "tent": SceneObject(_tent, (0.60, 0.15), 1.1, STANDS),
    "armchair": SceneObject(_armchair, (0.36, 0.13), verbs=STANDS),
    "teapot": SceneObject(_teapot, (0.50, 0.17), 0.95, STANDS),
    "robot": SceneObject(_robot, (0.40, 0.14), 1.05, ("stands", "is standing", "waits")),
    "umbrella": SceneObject(_umbrella, (0.51, 0.06), 1.1, STANDS),
}


# What flies above: the "main" paint is one of the festive colours, or fixed by kind.


def _bird(pen: Pen) -> None:
    pen.shape([(0.02, 0.46), (0.24, 0.52), (0.20, 0.66)], "dark")
    pen.blob([(0.16, 0.56), (0.46, 0.46), (0.70, 0.42), (0.84, 0.50), (0.76, 0.68), (0.46, 0.74)], "main")
    pen.disc(0.76, 0.50, 0.14, "main")
    pen.shape([(0.87, 0.45), (1.0, 0.53), (0.87, 0.58)], "gold")
    pen.blob([(0.62, 0.54), (0.50, 0.22), (0.28, 0.06), (0.30, 0.36), (0.38, 0.60)], "dark")
    pen.disc(0.80, 0.47, 0.032, "black")


def _butterfly(pen: Pen) -> None:
    pen.blob([(0.48, 0.50), (0.30, 0.10), (0.06, 0.14), (0.06, 0.44), (0.28, 0.56)], "main")
    pen.blob([(0.52, 0.50), (0.70, 0.10), (0.94, 0.14), (0.94, 0.44), (0.72, 0.56)], "main")
    pen.blob([(0.48, 0.52), (0.22, 0.56), (0.14, 0.76), (0.30, 0.92), (0.44, 0.72)], "dark")
    pen.blob([(0.52, 0.52), (0.78, 0.56), (0.86, 0.76), (0.70, 0.92), (0.56, 0.72)], "dark")
    pen.disc(0.22, 0.30, 0.09, "light")
    pen.disc(0.78, 0.30, 0.09, "light")
    pen.stroke([(0.50, 0.26), (0.50, 0.82)], 0.10, "black")


def _balloon(pen: Pen) -> None:
    pen.stroke([(0.50, 0.66), (0.46, 0.80), (0.52, 1.0)], 0.02, "ink")
    pen.blob([(0.50, 0.00), (0.76, 0.12), (0.80, 0.38), (0.62, 0.62), (0.50, 0.68), (0.38, 0.62), (0.20, 0.38),
              (0.24, 0.12)], "main")  # fmt: skip
    pen.shape([(0.50, 0.65), (0.58, 0.74), (0.42, 0.74)], "dark")
    pen.oval(0.31, 0.12, 0.44, 0.32, "light")


def _kite(pen: Pen) -> None:
    pen.stroke([(0.36, 0.68), (0.24, 0.80), (0.30, 0.90), (0.18, 1.0)], 0.02, "ink")
    pen.shape([(0.66, 0.00), (0.90, 0.34), (0.36, 0.70), (0.26, 0.20)], "main")
    pen.shape([(0.66, 0.00), (0.90, 0.34), (0.57, 0.27)], "light")
    pen.shape([(0.36, 0.70), (0.26, 0.20), (0.57, 0.27)], "dark")
    for x, y in ((0.24, 0.81), (0.29, 0.92)):
        pen.shape([(x - 0.09, y - 0.05), (x, y), (x - 0.08, y + 0.06)], "crimson")
        pen.shape([(x + 0.09, y - 0.05), (x, y), (x + 0.08, y + 0.06)], "crimson")


def _paper_plane(pen: Pen) -> None:
    pen.shape([(0.00, 0.34), (1.0, 0.20), (0.30, 0.62)], "snow")
    pen.shape([(0.30, 0.62), (1.0, 0.20), (0.42, 0.88)], "steel")
    pen.shape([(0.42, 0.70), (1.0, 0.20), (0.62, 0.84)], "snow")


def _bee(pen: Pen) -> None:
    pen.oval(0.26, 0.02, 0.50, 0.48, "glass")
    pen.oval(0.46, 0.02, 0.70, 0.48, "snow")
    pen.shape([(0.02, 0.62), (0.14, 0.55), (0.14, 0.69)], "black")
    pen.oval(0.08, 0.36, 0.88, 0.90, "gold")
    for x in (0.24, 0.46):
        pen.box(x, 0.40, x + 0.12, 0.86, "black", 0.03)
    pen.oval(0.66, 0.40, 0.96, 0.80, "gold")
    pen.disc(0.83, 0.55, 0.05, "black")
    pen.stroke([(0.80, 0.44), (0.88, 0.32)], 0.022, "black")


FLYERS: dict[str, tuple[Drawing, tuple[RGB, ...], float]] = {
    "bird": (_bird, ((92, 140, 206), (226, 104, 92), (110, 116, 140), (244, 240, 232)), 1.0),
    "butterfly": (_butterfly, FESTIVE, 0.85),
    "balloon": (_balloon, FESTIVE, 1.25),
    "kite": (_kite, FESTIVE, 1.2),
    "paper plane": (_paper_plane, ((250, 250, 250),), 1.0),
    "bee": (_bee, ((250, 206, 92),), 0.85),
}
"""The drawing, the paints it may have, and how large it is drawn."""


# Small things scattered on the ground: visible, and in no caption.


def _flower(pen: Pen) -> None:
    pen.stroke([(0.50, 0.98), (0.50, 0.45)], 0.09, "leaf")
    for x, y in ((0.50, 0.12), (0.27, 0.28), (0.73, 0.28), (0.36, 0.52), (0.64, 0.52)):
        pen.disc(x, y, 0.17, "main")
    pen.disc(0.50, 0.34, 0.14, "gold")


def _stone(pen: Pen) -> None:
    pen.blob([(0.04, 0.96), (0.12, 0.62), (0.40, 0.44), (0.74, 0.54), (0.94, 0.78), (0.96, 0.97)], "stone")
    pen.blob([(0.24, 0.70), (0.42, 0.54), (0.62, 0.60), (0.44, 0.72)], "steel")


def _tuft(pen: Pen) -> None:
    for tip in (0.08, 0.34, 0.64, 0.92):
        pen.shape([(0.34, 1.0), (tip, 0.30 if 0.2 < tip < 0.8 else 0.52), (0.66, 1.0)], "leaf")


def _shell(pen: Pen) -> None:
    pen.blob([(0.50, 0.98), (0.10, 0.72), (0.14, 0.44), (0.50, 0.28), (0.86, 0.44), (0.90, 0.72)], "blush")
    for x in (0.28, 0.50, 0.72):
        pen.stroke([(0.50, 0.92), (x, 0.42)], 0.05, "cream")


def island(pen: Pen) -> None:
    """The ground under a landmark that stands in water."""
    pen.blob([(0.00, 0.86), (0.20, 0.62), (0.50, 0.54), (0.80, 0.62), (1.00, 0.86), (0.50, 1.0)], "leaf")


GROUND: dict[str, tuple[Drawing, tuple[RGB, ...]]] = {
    "flowers": (_flower, FESTIVE),
    "stones": (_stone, (FIXED["stone"],)),
    "tufts": (_tuft, (FIXED["leaf"],)),
    "shells": (_shell, (FIXED["blush"],)),
}


FIGURES = {**ANIMALS, **VEHICLES, **THINGS}
SMALLEST, LARGEST = 64, 224

_SIZE = {"small": 0.24, "medium": 0.34, "large": 0.46}
_X = {"left": 0.32, "middle": 0.5, "right": 0.68}
_FOOT = {"left of": 0.88, "right of": 0.88, "on": 0.88, "in front of": 0.845}
_COMPANION = 0.15
_SLATE = (104, 112, 136)


def render(scene: Scene, size: int = 128) -> npt.NDArray[np.uint8]:
    """The picture of a scene: (size, size, 3), RGB, 0–255; the same bytes for the same scene, size and Pillow release.

    `size` is 64 to 224 pixels. Everything is drawn at that resolution from oversampled parts that are kept between
    calls, which is what makes it fast: nothing is scaled afterwards.
    """
    if not SMALLEST <= size <= LARGEST:
        raise VisirError(
            f"scenes are drawn at {SMALLEST} to {LARGEST} pixels, not {size}.", code="scenes-drawn-pixels-not"
        )
    canvas = sky(scene.time, scene.weather, scene.sun_side, size).copy()
    ground = _lit_land(scene.place, scene.horizon, scene.time, scene.weather, size)
    canvas.paste(ground, mask=ground)
    _landmark(canvas, scene, size)
    if scene.weather == "foggy":
        veil = fog(scene.time, HORIZON[scene.horizon], size)
        canvas.paste(veil, mask=veil)
    _scatter(canvas, scene, size)
    _subject(canvas, scene, size)
    _flyers(canvas, scene, size)
    drops = falling(scene.weather, int(scene.chance(1) * LAYOUTS), size)
    if drops is not None:
        canvas.paste(drops, mask=drops)
    return np.asarray(canvas)


@lru_cache(maxsize=320)
def _lit_land(place: str, horizon: str, time: str, weather: str, size: int) -> Image.Image:
    """The land in the light of the hour: darker under rain and storm, white under snow."""
    pixels = np.asarray(land(place, horizon, size), np.float32)
    rgb, alpha = pixels[:, :, :3], pixels[:, :, 3:]
    if weather == "snowy":
        y = (np.arange(size, dtype=np.float32) + np.float32(0.5)) / np.float32(size)
        share = np.where(y > HORIZON[horizon] + 0.02, np.float32(0.74), np.float32(0.42))[:, None, None]
        rgb = rgb + (np.array((244, 249, 255), np.float32) - rgb) * share
    dim = {"rainy": 0.88, "stormy": 0.74, "cloudy": 0.96, "foggy": 0.96}.get(weather, 1.0)
    rgb = rgb * np.array(LIGHT[time], np.float32) * np.float32(dim)
    return Image.fromarray(np.concatenate([rgb + np.float32(0.5), alpha], axis=2).astype(np.uint8), "RGBA")


def _landmark(canvas: Image.Image, scene: Scene, size: int) -> None:
    """Opposite the subject, so that it is never hidden; beside a subject in the middle, on either side."""
    on_left = scene.position == "right" or (scene.position == "middle" and scene.chance(2) < 0.5)
    x = (0.14 if on_left else 0.86) * size
    foot = (HORIZON[scene.horizon] + (0.035 if scene.place in ("beach", "lake") else 0.06)) * size
    side = round(0.245 * size)
    far, near = LIGHT[scene.time], NEAR_LIGHT[scene.time]
    light = ((far[0] + near[0]) / 2, (far[1] + near[1]) / 2, (far[2] + near[2]) / 2)
    if scene.place in ("beach", "lake"):
        mound = painted(island, side, _SLATE, light)
        canvas.paste(mound, (round(x - side / 2), round(foot - side * 0.90)), mound)
    sprite = painted(LANDMARKS[scene.landmark], side, _SLATE, light)
    canvas.paste(sprite, (round(x - side / 2), round(foot - side * 0.97)), sprite)


def _scatter(canvas: Image.Image, scene: Scene, size: int) -> None:
    draw, paints = GROUND[scene.ground]
    for i in range(9):
        x = 0.04 + 0.115 * i + 0.05 * (scene.chance(10 + i) - 0.5)
        y = (0.80, 0.965, 0.88)[i % 3] + 0.03 * (scene.chance(20 + i) - 0.5)
        side = max(4, round((0.05 + 0.028 * (y - 0.75) / 0.25) * size))
        colour = paints[int(scene.chance(30 + i) * len(paints))]
        sprite = painted(draw, side, colour, NEAR_LIGHT[scene.time])
        canvas.paste(sprite, (round(x * size - side / 2), round(y * size) - side), sprite)


def _subject(canvas: Image.Image, scene: Scene, size: int) -> None:
    """The subject with its shadow, and the companion where the relation puts it."""
    light = NEAR_LIGHT[scene.time]
    figure = FIGURES[scene.subject]
    side = round(_SIZE[scene.size] * figure.scale * size)
    colour, second = PAINT[scene.colour], PATTERN_PAINT[scene.colour]
    sprite = paint(figure.draw, side, colour, second, pattern=scene.pattern, light=light)
    seat = figure.seat
    if scene.facing == "left":
        sprite = sprite.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        seat = (1 - seat[0], seat[1])
    box = sprite.getbbox() or (0, 0, side, side)
    half, foot = side / 2, round(_FOOT[scene.relation] * size)
    x = _X[scene.position] * size
    small = max(8, round(_COMPANION * size))
    # Make room for a companion between the subject and the picture's edge, but keep the subject where it is said to be.
    room, most = small + 0.03 * size, 0.07 * size
    if scene.relation == "left of":
        x += min(most, max(0.0, room - (x - half + box[0])))
    elif scene.relation == "right of":
        x -= min(most, max(0.0, room - (size - (x - half + box[2]))))
    left, top = round(x - half), foot - round(side * 0.97)
    edges = left + box[0], left + box[2]
    dark = shadow(edges[1] - edges[0] + side // 8)
    canvas.paste((24, 28, 56), (edges[0] - side // 16, foot - dark.height // 2), dark)
    companion = painted(COMPANIONS[scene.companion], small, PAINT[scene.companion_colour], light)
    if scene.relation == "on":
        corner = (round(left + seat[0] * side - small / 2), round(top + seat[1] * side - small * 0.93))
        canvas.paste(sprite, (left, top), sprite)
        canvas.paste(companion, corner, companion)
        return
    canvas.paste(sprite, (left, top), sprite)
    gap = round(0.012 * size)
    if scene.relation == "left of":
        corner = (max(gap, edges[0] - small - gap), round(0.925 * size) - small)
    elif scene.relation == "right of":
        corner = (min(size - small - gap, edges[1] + gap), round(0.925 * size) - small)
    else:
        corner = (round((edges[0] + edges[1]) / 2 - small / 2), round(0.985 * size) - small)
    dark = shadow(small + small // 4)
    canvas.paste((24, 28, 56), (corner[0] - small // 8, corner[1] + round(small * 0.97) - dark.height // 2), dark)
    canvas.paste(companion, corner, companion)


def _flyers(canvas: Image.Image, scene: Scene, size: int) -> None:
    draw, paints, scale = FLYERS[scene.flyer]
    n, first = scene.flyers, int(scene.chance(3) * len(paints))
    side = round(0.125 * scale * size)
    for i in range(n):
        x = (i + 0.5) / n + (0.30 if n == 1 else 0.36 / n) * (scene.chance(40 + i) - 0.5)
        y = (0.135 if (i + n) % 2 else 0.055) + 0.05 * scene.chance(50 + i)
        x = min(max(x, 0.08), 0.92)
        sprite = painted(draw, side, paints[(first + i) % len(paints)], NEAR_LIGHT[scene.time])
        canvas.paste(sprite, (round(x * size - side / 2), round(y * size + 0.04 * size - side / 2)), sprite)
