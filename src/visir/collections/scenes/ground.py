"""Small things scattered on the ground: visible, and in no caption."""

from __future__ import annotations

from visir.collections.scenes.palette import FESTIVE, FIXED, RGB
from visir.collections.scenes.pen import Pen
from visir.collections.scenes.sprite import Drawing


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
