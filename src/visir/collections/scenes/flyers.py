"""What flies above: the "main" paint is one of the festive colours, or fixed by kind."""

from __future__ import annotations

from visir.collections.scenes.palette import FESTIVE, RGB
from visir.collections.scenes.pen import Pen
from visir.collections.scenes.sprite import Drawing


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
