"""Places: the land from the horizon down, and what belongs to it; the sky shows through where nothing is painted."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from PIL import Image

from visir.collections.scenes.draw import Brush, Pen, SceneObject
from visir.collections.scenes.palette import RGB

# Animals, looking to the right.

STANDS = ("stands", "is standing", "waits")
SITS = ("sits", "is sitting", "rests")


def _legs(pen: Pen, near: tuple[float, ...], far: tuple[float, ...], top: float, width: float) -> None:
    for x in far:
        pen.box(x, top, x + width, 0.97, "dark", 0.03)
    for x in near:
        pen.box(x, top, x + width, 1.0, "main", 0.03)


def _dog(pen: Pen) -> None:
    pen.stroke([(0.15, 0.52), (0.08, 0.42), (0.07, 0.30)], 0.07, "main")
    _legs(pen, (0.17, 0.53), (0.28, 0.62), 0.60, 0.10)
    pen.box(0.13, 0.46, 0.70, 0.78, "main", 0.14)
    pen.blob([(0.56, 0.24), (0.70, 0.14), (0.84, 0.22), (0.88, 0.40), (0.76, 0.54), (0.60, 0.50)], "main")
    pen.oval(0.74, 0.32, 0.98, 0.52, "light")
    pen.oval(0.90, 0.31, 0.99, 0.40, "black")
    pen.blob([(0.62, 0.18), (0.68, 0.24), (0.66, 0.44), (0.58, 0.52), (0.52, 0.42), (0.55, 0.26)], "dark")
    pen.eye(0.77, 0.28, 0.034)
    pen.stroke([(0.60, 0.56), (0.74, 0.57)], 0.045, "crimson")
    pen.disc(0.70, 0.61, 0.03, "gold")


def _cat(pen: Pen) -> None:
    pen.stroke([(0.24, 0.90), (0.10, 0.84), (0.06, 0.68), (0.12, 0.54)], 0.075, "main")
    pen.blob([(0.28, 0.60), (0.46, 0.44), (0.66, 0.52), (0.72, 0.80), (0.70, 0.99), (0.26, 0.99), (0.20, 0.82)], "main")
    pen.oval(0.48, 0.90, 0.64, 1.0, "light")
    pen.oval(0.62, 0.90, 0.78, 1.0, "light")
    pen.shape([(0.42, 0.30), (0.44, 0.04), (0.62, 0.18)], "main")
    pen.shape([(0.70, 0.16), (0.88, 0.04), (0.88, 0.30)], "main")
    pen.shape([(0.47, 0.24), (0.48, 0.12), (0.57, 0.19)], "blush")
    pen.shape([(0.75, 0.18), (0.84, 0.12), (0.84, 0.24)], "blush")
    pen.oval(0.40, 0.13, 0.90, 0.54, "main")
    pen.oval(0.56, 0.36, 0.84, 0.53, "light")
    pen.eye(0.58, 0.30, 0.04)
    pen.eye(0.78, 0.30, 0.04)
    pen.shape([(0.66, 0.37), (0.74, 0.37), (0.70, 0.42)], "blush")
    for y in (0.42, 0.47):
        pen.stroke([(0.78, y), (0.87, y - 0.02)], 0.012, "ink")
        pen.stroke([(0.61, y), (0.50, y - 0.02)], 0.012, "ink")


def _rabbit(pen: Pen) -> None:
    pen.disc(0.15, 0.80, 0.09, "snow")
    pen.blob([(0.20, 0.74), (0.36, 0.54), (0.60, 0.56), (0.72, 0.76), (0.68, 0.98), (0.24, 0.98)], "main")
    pen.oval(0.16, 0.88, 0.46, 1.0, "dark")
    pen.oval(0.58, 0.88, 0.76, 1.0, "light")
    pen.blob([(0.54, 0.36), (0.44, 0.14), (0.46, 0.00), (0.56, 0.06), (0.64, 0.32)], "dark")
    pen.blob([(0.62, 0.34), (0.60, 0.10), (0.68, -0.01), (0.75, 0.08), (0.74, 0.34)], "main")
    pen.blob([(0.65, 0.30), (0.65, 0.12), (0.69, 0.05), (0.71, 0.12), (0.70, 0.30)], "blush")
    pen.oval(0.48, 0.28, 0.90, 0.64, "main")
    pen.eye(0.74, 0.42, 0.04)
    pen.oval(0.85, 0.43, 0.92, 0.49, "blush")
    pen.oval(0.66, 0.50, 0.76, 0.57, "blush")


def _pig(pen: Pen) -> None:
    pen.stroke([(0.12, 0.58), (0.05, 0.54), (0.04, 0.46), (0.10, 0.44)], 0.04, "dark")
    _legs(pen, (0.18, 0.52), (0.30, 0.62), 0.74, 0.11)
    pen.oval(0.08, 0.36, 0.76, 0.90, "main")
    pen.oval(0.54, 0.26, 0.94, 0.68, "main")
    pen.shape([(0.58, 0.32), (0.56, 0.14), (0.72, 0.26)], "dark")
    pen.shape([(0.76, 0.26), (0.88, 0.15), (0.88, 0.34)], "dark")
    pen.oval(0.80, 0.42, 0.99, 0.62, "light")
    pen.oval(0.86, 0.48, 0.90, 0.56, "ink")
    pen.oval(0.92, 0.48, 0.96, 0.56, "ink")
    pen.eye(0.76, 0.42, 0.036)


def _elephant(pen: Pen) -> None:
    pen.stroke([(0.07, 0.46), (0.03, 0.66)], 0.035, "dark")
    _legs(pen, (0.10, 0.46), (0.24, 0.56), 0.62, 0.15)
    pen.blob([(0.06, 0.44), (0.24, 0.24), (0.52, 0.24), (0.68, 0.42), (0.64, 0.78), (0.10, 0.78)], "main")
    pen.blob([(0.52, 0.20), (0.70, 0.10), (0.88, 0.20), (0.90, 0.42), (0.76, 0.56), (0.56, 0.48)], "main")
    pen.stroke([(0.84, 0.40), (0.90, 0.54), (0.89, 0.70), (0.93, 0.82), (0.98, 0.80)], 0.10, "main")
    pen.shape([(0.78, 0.52), (0.84, 0.56), (0.80, 0.66)], "snow")
    pen.blob([(0.52, 0.16), (0.68, 0.20), (0.70, 0.42), (0.58, 0.58), (0.42, 0.48), (0.40, 0.26)], "dark")
    pen.eye(0.79, 0.30, 0.032)
    for x in (0.12, 0.48):
        pen.box(x, 0.96, x + 0.11, 1.0, "cream", 0.02)


def _sheep(pen: Pen) -> None:
    for x in (0.22, 0.34, 0.54, 0.64):
        pen.box(x, 0.74, x + 0.075, 1.0, "black", 0.02)
    for x, y, r in (
        (0.22, 0.62, 0.15), (0.20, 0.48, 0.13), (0.34, 0.38, 0.14), (0.52, 0.36, 0.14), (0.66, 0.44, 0.13),
        (0.70, 0.60, 0.14), (0.58, 0.70, 0.14), (0.38, 0.70, 0.15), (0.45, 0.54, 0.22),
    ):  # fmt: skip
        pen.disc(x, y, r, "main")
    pen.oval(0.66, 0.28, 0.94, 0.60, "black")
    pen.oval(0.58, 0.34, 0.72, 0.44, "black")
    pen.disc(0.74, 0.27, 0.09, "main")
    pen.disc(0.66, 0.30, 0.08, "main")
    pen.disc(0.83, 0.41, 0.042, "snow")
    pen.disc(0.84, 0.41, 0.022, "black")


def _duck(pen: Pen) -> None:
    for x in (0.38, 0.52):
        pen.box(x, 0.84, x + 0.05, 0.97, "gold")
        pen.oval(x - 0.01, 0.93, x + 0.14, 1.0, "gold")
    pen.blob([(0.02, 0.46), (0.22, 0.56), (0.52, 0.52), (0.76, 0.58), (0.74, 0.80), (0.48, 0.90), (0.18, 0.82)], "main")
    pen.blob([(0.52, 0.58), (0.54, 0.36), (0.60, 0.22), (0.80, 0.30), (0.80, 0.64)], "main")
    pen.oval(0.50, 0.08, 0.84, 0.42, "main")
    pen.blob([(0.80, 0.20), (0.92, 0.24), (1.00, 0.31), (0.88, 0.35), (0.80, 0.34)], "gold")
    pen.blob([(0.18, 0.60), (0.40, 0.58), (0.58, 0.68), (0.46, 0.80), (0.26, 0.76)], "dark")
    pen.eye(0.71, 0.21, 0.038)


def _turtle(pen: Pen) -> None:
    pen.shape([(0.04, 0.86), (0.16, 0.76), (0.18, 0.90)], "leaf")
    pen.oval(0.14, 0.80, 0.34, 1.0, "leaf")
    pen.oval(0.52, 0.80, 0.72, 1.0, "leaf")
    pen.stroke([(0.68, 0.82), (0.80, 0.68)], 0.13, "leaf")
    pen.oval(0.72, 0.46, 0.99, 0.74, "leaf")
    pen.pie(0.43, 0.84, 0.36, 180, 360, "main")
    pen.box(0.06, 0.80, 0.80, 0.89, "light", 0.04)
    pen.eye(0.87, 0.57, 0.038)
    pen.stroke([(0.90, 0.67), (0.96, 0.64)], 0.014, "ink")


def _snail(pen: Pen) -> None:
    pen.blob([(0.02, 0.99), (0.14, 0.90), (0.62, 0.88), (0.74, 0.70), (0.78, 0.46), (0.92, 0.44), (0.96, 0.62),
              (0.88, 0.90), (0.74, 0.99)], "skin")  # fmt: skip
    pen.stroke([(0.82, 0.48), (0.77, 0.30)], 0.03, "skin")
    pen.stroke([(0.90, 0.48), (0.94, 0.30)], 0.03, "skin")
    pen.eye(0.77, 0.29, 0.04)
    pen.eye(0.94, 0.29, 0.04)
    pen.disc(0.40, 0.58, 0.345, "main")
    pen.stroke([(0.40, 0.60), (0.33, 0.56), (0.36, 0.46), (0.48, 0.45), (0.56, 0.56), (0.52, 0.70), (0.38, 0.76),
                (0.22, 0.68), (0.19, 0.50), (0.28, 0.34)], 0.045, "dark")  # fmt: skip
    pen.stroke([(0.86, 0.72), (0.93, 0.70)], 0.016, "ink")


def _giraffe(pen: Pen) -> None:
    pen.stroke([(0.15, 0.62), (0.09, 0.78)], 0.03, "dark")
    for x in (0.26, 0.56):
        pen.box(x, 0.66, x + 0.075, 0.98, "dark", 0.02)
    for x in (0.17, 0.48):
        pen.box(x, 0.66, x + 0.08, 1.0, "main", 0.02)
    pen.blob([(0.14, 0.60), (0.30, 0.52), (0.48, 0.50), (0.56, 0.32), (0.62, 0.10), (0.76, 0.12), (0.72, 0.36),
              (0.68, 0.66), (0.58, 0.78), (0.20, 0.78)], "main")  # fmt: skip
    pen.blob([(0.58, 0.10), (0.68, 0.03), (0.84, 0.10), (0.96, 0.19), (0.90, 0.27), (0.70, 0.26)], "main")
    pen.oval(0.80, 0.13, 0.98, 0.28, "light")
    for x in (0.64, 0.71):
        pen.stroke([(x, 0.06), (x - 0.01, -0.01)], 0.026, "dark")
    pen.shape([(0.60, 0.12), (0.47, 0.08), (0.57, 0.19)], "dark")
    pen.eye(0.74, 0.125, 0.03)
    pen.stroke([(0.55, 0.24), (0.47, 0.46)], 0.035, "dark")


ANIMALS = {
    "dog": SceneObject(_dog, (0.38, 0.47), verbs=STANDS),
    "cat": SceneObject(_cat, (0.65, 0.14), verbs=SITS),
    "rabbit": SceneObject(_rabbit, (0.36, 0.57), 0.98, SITS),
    "pig": SceneObject(_pig, (0.40, 0.37), verbs=STANDS),
    "elephant": SceneObject(_elephant, (0.34, 0.25), 1.12, STANDS),
    "sheep": SceneObject(_sheep, (0.44, 0.24), verbs=STANDS),
    "duck": SceneObject(_duck, (0.30, 0.56), 0.95, STANDS),
    "turtle": SceneObject(_turtle, (0.42, 0.50), verbs=("rests", "stands", "waits")),
    "snail": SceneObject(_snail, (0.40, 0.25), 0.95, ("rests", "sits", "waits")),
    "giraffe": SceneObject(_giraffe, (0.32, 0.54), 1.15, STANDS),
}


# Vehicles, driving to the right.

PARKED = ("stands", "is parked", "has stopped")


def _car(pen: Pen) -> None:
    pen.blob([(0.20, 0.62), (0.28, 0.40), (0.40, 0.34), (0.60, 0.34), (0.72, 0.44), (0.80, 0.62)], "main")
    pen.shape([(0.29, 0.60), (0.34, 0.43), (0.47, 0.41), (0.47, 0.60)], "glass")
    pen.shape([(0.52, 0.60), (0.52, 0.41), (0.62, 0.42), (0.71, 0.60)], "glass")
    pen.box(0.03, 0.58, 0.97, 0.86, "main", 0.09)
    pen.box(0.03, 0.79, 0.97, 0.87, "dark", 0.04)
    pen.oval(0.89, 0.62, 0.97, 0.72, "lamp")
    pen.box(0.03, 0.63, 0.08, 0.71, "crimson", 0.02)
    pen.box(0.50, 0.66, 0.58, 0.69, "steel", 0.01)
    pen.wheel(0.25, 0.135)
    pen.wheel(0.76, 0.135)


def _bus(pen: Pen) -> None:
    pen.box(0.02, 0.24, 0.98, 0.90, "main", 0.08)
    pen.box(0.02, 0.82, 0.98, 0.90, "dark", 0.03)
    for x in (0.08, 0.26, 0.44):
        pen.box(x, 0.33, x + 0.14, 0.53, "glass", 0.03)
    pen.box(0.63, 0.33, 0.76, 0.82, "glass", 0.02)
    pen.box(0.69, 0.33, 0.70, 0.82, "dark")
    pen.box(0.82, 0.32, 0.98, 0.58, "glass", 0.03)
    pen.oval(0.90, 0.68, 0.97, 0.76, "lamp")
    pen.wheel(0.22, 0.115)
    pen.wheel(0.84, 0.115)


def _truck(pen: Pen) -> None:
    pen.box(0.02, 0.26, 0.62, 0.80, "main", 0.03)
    pen.box(0.02, 0.78, 0.98, 0.88, "tyre", 0.02)
    pen.blob([(0.65, 0.82), (0.65, 0.42), (0.70, 0.38), (0.84, 0.39), (0.96, 0.58), (0.97, 0.82)], "dark", 4)
    pen.shape([(0.71, 0.60), (0.71, 0.45), (0.82, 0.45), (0.90, 0.60)], "glass")
    pen.box(0.91, 0.70, 0.98, 0.77, "lamp", 0.01)
    for x in (0.16, 0.40, 0.80):
        pen.wheel(x, 0.115)


def _tractor(pen: Pen) -> None:
    pen.box(0.72, 0.24, 0.77, 0.52, "tyre", 0.01)
    pen.box(0.70, 0.21, 0.79, 0.27, "steel", 0.01)
    pen.box(0.46, 0.48, 0.96, 0.80, "main", 0.06)
    pen.box(0.14, 0.14, 0.58, 0.22, "dark", 0.03)
    pen.box(0.18, 0.20, 0.54, 0.60, "glass", 0.01)
    pen.box(0.18, 0.20, 0.23, 0.60, "dark")
    pen.box(0.49, 0.20, 0.54, 0.60, "dark")
    pen.box(0.16, 0.52, 0.60, 0.76, "main", 0.05)
    pen.box(0.90, 0.54, 0.97, 0.62, "lamp", 0.02)
    pen.disc(0.30, 0.74, 0.26, "tyre")
    pen.disc(0.30, 0.74, 0.15, "gold")
    pen.disc(0.30, 0.74, 0.05, "tyre")
    pen.wheel(0.80, 0.16)


def _train(pen: Pen) -> None:
    pen.box(0.70, 0.26, 0.80, 0.50, "black", 0.01)
    pen.shape([(0.66, 0.28), (0.69, 0.17), (0.81, 0.17), (0.84, 0.28)], "dark")
    pen.box(0.36, 0.44, 0.92, 0.78, "main", 0.08)
    pen.disc(0.54, 0.43, 0.07, "gold")
    pen.box(0.06, 0.24, 0.42, 0.82, "main", 0.02)
    pen.box(0.02, 0.16, 0.46, 0.26, "dark", 0.04)
    pen.box(0.13, 0.33, 0.35, 0.53, "glass", 0.03)
    pen.box(0.04, 0.76, 0.94, 0.86, "black", 0.02)
    pen.shape([(0.88, 0.80), (0.88, 0.97), (1.0, 0.99), (0.94, 0.80)], "crimson")
    pen.disc(0.90, 0.54, 0.05, "lamp")
    pen.wheel(0.20, 0.14)
    for x in (0.50, 0.76):
        pen.wheel(x, 0.11)


def _boat(pen: Pen) -> None:
    pen.box(0.485, 0.04, 0.525, 0.80, "wood")
    pen.shape([(0.55, 0.10), (0.92, 0.70), (0.55, 0.70)], "main")
    pen.shape([(0.46, 0.18), (0.46, 0.70), (0.14, 0.70)], "light")
    pen.shape([(0.485, 0.04), (0.485, 0.13), (0.34, 0.085)], "crimson")
    pen.blob([(0.03, 0.76), (0.50, 0.79), (0.99, 0.72), (0.82, 0.98), (0.50, 1.0), (0.20, 0.98)], "main")
    pen.stroke([(0.08, 0.80), (0.50, 0.82), (0.92, 0.78)], 0.03, "cream")


def _rocket(pen: Pen) -> None:
    pen.blob([(0.30, 0.66), (0.14, 0.80), (0.12, 1.0), (0.24, 0.94), (0.38, 0.88)], "dark")
    pen.blob([(0.70, 0.66), (0.86, 0.80), (0.88, 1.0), (0.76, 0.94), (0.62, 0.88)], "dark")
    pen.box(0.40, 0.86, 0.60, 0.98, "tyre", 0.02)
    pen.blob([(0.50, 0.00), (0.66, 0.20), (0.72, 0.50), (0.66, 0.88), (0.34, 0.88), (0.28, 0.50), (0.34, 0.20)], "main")
    pen.blob([(0.50, 0.00), (0.60, 0.10), (0.655, 0.22), (0.50, 0.25), (0.345, 0.22), (0.40, 0.10)], "crimson")
    pen.disc(0.55, 0.44, 0.115, "steel")
    pen.disc(0.55, 0.44, 0.08, "glass")
    pen.box(0.47, 0.70, 0.53, 1.0, "dark", 0.02)
    pen.box(0.58, 0.62, 0.66, 0.68, "lamp", 0.01)


VEHICLES = {
    "car": SceneObject(_car, (0.48, 0.34), 1.08, PARKED),
    "bus": SceneObject(_bus, (0.45, 0.24), 1.1, PARKED),
    "truck": SceneObject(_truck, (0.32, 0.26), 1.1, PARKED),
    "tractor": SceneObject(_tractor, (0.36, 0.14), verbs=PARKED),
    "train": SceneObject(_train, (0.24, 0.16), 1.05, ("stands", "is standing", "has stopped")),
    "boat": SceneObject(_boat, (0.50, 0.05), 1.1, ("rests", "stands", "lies")),
    "rocket": SceneObject(_rocket, (0.50, 0.02), 1.1, ("stands", "is standing", "has landed")),
}


HORIZON = {"low": 0.62, "high": 0.53}
"""Where the sky meets the land, as a share of the height from the top."""


def _round_tree(b: Brush, x: float, y: float, size: float, leaves: RGB) -> None:
    b.box(x - size * 0.08, y - size * 0.45, x + size * 0.08, y, (126, 92, 66))
    darker = (leaves[0] - 22, leaves[1] - 24, leaves[2] - 18)
    for dx, dy, r, colour in ((-0.22, -0.58, 0.26, darker), (0.22, -0.56, 0.25, darker), (0.0, -0.72, 0.33, leaves)):
        b.disc(x + size * dx, y + size * dy, size * r, colour)


def _pine(b: Brush, x: float, y: float, size: float, needles: RGB) -> None:
    b.box(x - size * 0.05, y - size * 0.2, x + size * 0.05, y, (112, 80, 60))
    for low, top, half in ((0.12, 0.58, 0.30), (0.36, 0.80, 0.24), (0.60, 1.0, 0.18)):
        b.shape([(x - size * half, y - size * low), (x, y - size * top), (x + size * half, y - size * low)], needles)


def _beach(b: Brush, h: float) -> None:
    b.box(-0.1, h, 1.1, 1.1, (90, 178, 214))
    b.slope(h, h + 0.16, (70, 150, 204), (132, 208, 222))
    for x, y, w in (
        (0.08, 0.03, 0.10),
        (0.34, 0.06, 0.14),
        (0.62, 0.035, 0.09),
        (0.80, 0.07, 0.13),
        (0.50, 0.09, 0.08),
    ):
        b.line([(x, h + y), (x + w, h + y)], 0.008, (196, 234, 240))
    b.hills(h + 0.125, 0.014, 1.5, 0.4, (236, 248, 248))
    b.hills(h + 0.145, 0.014, 1.5, 0.4, (246, 222, 170))
    b.slope(h + 0.17, 1.0, (246, 224, 174), (236, 200, 142))
    for x, y in ((0.1, 0.24), (0.36, 0.22), (0.6, 0.3), (0.86, 0.25), (0.2, 0.36), (0.75, 0.40)):
        b.line([(x, h + y), (x + 0.07, h + y - 0.006), (x + 0.14, h + y)], 0.006, (226, 190, 134))


def _meadow(b: Brush, h: float) -> None:
    b.hills(h - 0.03, 0.035, 1.0, 0.6, (150, 204, 138))
    b.hills(h, 0.030, 1.2, 3.0, (132, 194, 114))
    for x, size in ((0.40, 0.11), (0.58, 0.13), (0.96, 0.10), (0.02, 0.10)):
        _round_tree(b, x, h + 0.02, size, (104, 172, 96))
    b.hills(h + 0.07, 0.020, 1.0, 1.2, (140, 204, 104))
    b.slope(h + 0.10, 1.0, (142, 206, 106), (104, 178, 84))


def _desert(b: Brush, h: float) -> None:
    for x0, x1, top in ((0.36, 0.52, 0.12), (0.50, 0.60, 0.07)):
        b.shape([(x0, h + 0.05), (x0 + 0.02, h - top), (x1 - 0.02, h - top), (x1, h + 0.05)], (214, 138, 100))
        b.shape([(x0 + 0.003, h - top + 0.06), (x0 + 0.015, h - top + 0.03), (x1 - 0.015, h - top + 0.03),
                 (x1 - 0.003, h - top + 0.06)], (196, 118, 88))  # fmt: skip
    b.hills(h, 0.030, 1.0, 2.2, (240, 196, 132))
    b.hills(h + 0.06, 0.035, 1.0, 5.2, (232, 180, 112))
    b.hills(h + 0.13, 0.020, 1.3, 1.0, (240, 190, 118))
    b.slope(h + 0.16, 1.0, (240, 190, 118), (222, 160, 92))
    for x, size in ((0.94, 0.15), (0.06, 0.12)):
        y = h + 0.13
        b.box(x - size * 0.10, y - size, x + size * 0.10, y, (92, 150, 92), size * 0.10)
        b.line([(x - size * 0.32, y - size * 0.75), (x - size * 0.32, y - size * 0.45), (x, y - size * 0.42)],
               size * 0.14, (92, 150, 92))  # fmt: skip
        b.line([(x + size * 0.32, y - size * 0.88), (x + size * 0.32, y - size * 0.58), (x, y - size * 0.55)],
               size * 0.14, (92, 150, 92))  # fmt: skip


def _street(b: Brush, h: float) -> None:
    walls: tuple[tuple[float, float, float, RGB], ...] = (
        (-0.02, 0.08, 0.20, (172, 184, 208)), (0.08, 0.20, 0.10, (206, 186, 190)), (0.20, 0.30, 0.15, (186, 200, 196)),
        (0.30, 0.42, 0.27, (198, 190, 214)), (0.42, 0.50, 0.18, (222, 200, 180)), (0.50, 0.62, 0.32, (176, 192, 214)),
        (0.62, 0.70, 0.22, (208, 190, 196)), (0.70, 0.82, 0.12, (190, 204, 200)), (0.82, 0.92, 0.10, (216, 198, 184)),
        (0.92, 1.02, 0.24, (184, 186, 212)),
    )  # fmt: skip
    for x0, x1, top, wall in walls:
        b.box(x0, h - top, x1, h + 0.08, wall)
        glass = (wall[0] - 34, wall[1] - 30, wall[2] - 20)
        x = x0 + 0.018
        while x < x1 - 0.025:
            y = h - top + 0.025
            while y < h - 0.01:
                b.box(x, y, x + 0.016, y + 0.022, glass)
                y += 0.045
            x += 0.034
    b.box(-0.1, h + 0.05, 1.1, h + 0.13, (206, 204, 204))
    b.box(-0.1, h + 0.12, 1.1, h + 0.135, (168, 168, 176))
    b.box(-0.1, h + 0.135, 1.1, 1.1, (126, 130, 144))
    b.slope(h + 0.135, 1.0, (122, 126, 142), (142, 144, 156))
    for x in (0.02, 0.28, 0.54, 0.80):
        b.shape([(x + 0.02, 0.905), (x + 0.16, 0.905), (x + 0.15, 0.93), (x, 0.93)], (240, 232, 206))
    for x in (0.245, 0.755):
        b.box(x - 0.006, h - 0.12, x + 0.006, h + 0.12, (92, 98, 116))
        b.disc(x, h - 0.13, 0.022, (255, 238, 176))


def _mountains(b: Brush, h: float) -> None:
    peaks: tuple[tuple[float, float, float, RGB], ...] = (
        (0.10, 0.22, 0.26, (150, 166, 196)), (0.86, 0.25, 0.28, (146, 162, 192)),
        (0.38, 0.29, 0.27, (128, 146, 180)), (0.63, 0.24, 0.25, (138, 156, 188)),
    )  # fmt: skip
    for x, top, half, rock in peaks:
        b.shape([(x - half, h + 0.05), (x, h - top), (x + half, h + 0.05)], rock)
        dark = (rock[0] - 18, rock[1] - 18, rock[2] - 14)
        b.shape([(x, h - top), (x + half, h + 0.05), (x + half * 0.25, h + 0.05), (x + 0.02, h - top * 0.5)], dark)
        cap = top * 0.34
        side = half * cap / (top + 0.05)
        b.shape([(x - side, h - top + cap), (x, h - top), (x + side, h - top + cap),
                 (x + side * 0.45, h - top + cap * 0.75), (x, h - top + cap * 1.15),
                 (x - side * 0.45, h - top + cap * 0.75)], (246, 249, 252))  # fmt: skip
    b.hills(h + 0.01, 0.020, 1.2, 0.4, (122, 172, 122))
    b.hills(h + 0.07, 0.022, 1.0, 2.4, (136, 188, 112))
    b.slope(h + 0.09, 1.0, (138, 190, 112), (112, 166, 92))
    for x, size in ((0.03, 0.12), (0.30, 0.09), (0.71, 0.10), (0.97, 0.13)):
        _pine(b, x, h + 0.06, size, (82, 136, 104))


def _forest(b: Brush, h: float) -> None:
    for i in range(15):
        size = 0.20 + 0.06 * ((i * 7) % 5) / 4
        _pine(b, i / 14, h + 0.03, size, (120, 166, 146))
    b.hills(h + 0.01, 0.010, 1.0, 0.0, (98, 146, 98))
    for i, x in enumerate((0.02, 0.34, 0.43, 0.52, 0.60, 0.68, 0.98)):
        _pine(b, x, h + 0.05, 0.30 + 0.05 * (i % 3), ((70, 126, 96), (84, 142, 104), (62, 116, 92))[i % 3])
    b.hills(h + 0.05, 0.014, 1.0, 1.6, (112, 160, 92))
    b.slope(h + 0.06, 1.0, (114, 162, 92), (92, 136, 76))
    b.shape([(0.44, h + 0.06), (0.54, h + 0.06), (0.72, 1.01), (0.20, 1.01)], (196, 164, 116))
    for x, size in ((0.06, 0.09), (0.93, 0.10), (0.84, 0.06)):
        for dx in (-0.3, 0.0, 0.3):
            b.disc(x + dx * size, h + 0.12 - (0.2 * size if dx == 0 else 0), size * 0.36, (88, 142, 80))


def _lake(b: Brush, h: float) -> None:
    b.hills(h - 0.07, 0.045, 1.0, 0.2, (142, 180, 186))
    b.hills(h - 0.03, 0.035, 1.4, 2.6, (114, 164, 140))
    b.box(-0.1, h, 1.1, 1.1, (102, 174, 208))
    b.slope(h, h + 0.16, (120, 188, 214), (78, 152, 198))
    for x, y, w in ((0.06, 0.04, 0.12), (0.30, 0.08, 0.16), (0.56, 0.03, 0.12), (0.74, 0.09, 0.16), (0.44, 0.12, 0.10)):
        b.line([(x, h + y), (x + w, h + y)], 0.008, (182, 222, 234))
    for x in (0.42, 0.47, 0.50, 0.56, 0.60):
        _pine(b, x, h + 0.005, 0.08 + 0.02 * (round(x * 100) % 3), (84, 140, 112))
    b.hills(h + 0.150, 0.010, 1.2, 4.2, (204, 190, 148))
    b.hills(h + 0.165, 0.010, 1.2, 4.2, (138, 194, 112))
    b.slope(h + 0.18, 1.0, (140, 196, 112), (106, 168, 90))
    for x in (0.02, 0.05, 0.08, 0.93, 0.96, 0.99):
        top = h + 0.06 + 0.03 * (round(x * 100) % 2)
        b.line([(x, h + 0.19), (x + 0.005, top)], 0.007, (92, 140, 84))
        b.box(x - 0.004, top - 0.03, x + 0.014, top + 0.02, (138, 96, 66), 0.008)


def _farm(b: Brush, h: float) -> None:
    b.hills(h - 0.02, 0.022, 1.2, 1.0, (178, 208, 122))
    b.hills(h + 0.01, 0.012, 1.0, 4.0, (230, 206, 112))
    for i in range(-14, 15):
        b.line([(0.5 + i * 0.035, h + 0.02), (0.5 + i * 0.085, h + 0.17)], 0.008, (206, 176, 84))
    b.hills(h + 0.14, 0.010, 1.0, 0.6, (150, 200, 98))
    b.slope(h + 0.155, 1.0, (152, 202, 98), (118, 176, 82))
    for x in (0.335, 0.64):
        b.oval(x - 0.055, h + 0.02, x + 0.055, h + 0.12, (226, 186, 92))
        b.oval(x - 0.035, h + 0.038, x + 0.035, h + 0.102, (206, 162, 74))
        b.oval(x - 0.015, h + 0.056, x + 0.015, h + 0.084, (226, 186, 92))
    for y in (0.10, 0.135):
        b.box(-0.1, h + y, 1.1, h + y + 0.011, (236, 226, 204))
    for i in range(11):
        b.box(0.03 + i * 0.094, h + 0.075, 0.046 + i * 0.094, h + 0.17, (248, 240, 222), 0.004)


PLACES: dict[str, Callable[[Brush, float], None]] = {
    "beach": _beach, "meadow": _meadow, "desert": _desert, "street": _street, "mountains": _mountains,
    "forest": _forest, "lake": _lake, "farm": _farm,
}  # fmt: skip


@lru_cache(maxsize=64)
def land(place: str, horizon: str, side: int) -> Image.Image:
    """The land of a place as an RGBA image of `side` × `side` pixels by daylight, transparent where the sky is."""
    brush = Brush(side)
    PLACES[place](brush, HORIZON[horizon])
    return brush.picture()
