"""The second thing in a picture: small, in a told colour."""

from __future__ import annotations

from visir.collections.scenes.pen import Pen


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
