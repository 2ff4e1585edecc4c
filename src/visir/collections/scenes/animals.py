"""Animals, looking to the right."""

from __future__ import annotations

from visir.collections.scenes.pen import Pen
from visir.collections.scenes.sprite import SceneObject

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
