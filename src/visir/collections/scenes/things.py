"""Things that can be the subject of a picture."""

from __future__ import annotations

from visir.collections.scenes.pen import Pen
from visir.collections.scenes.sprite import SceneObject

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
