"""Landmarks: what stands in the distance, on the horizon, always in its own colours."""

from __future__ import annotations

import math

from visir.collections.scenes.pen import Pen


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
