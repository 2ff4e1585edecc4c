"""Vehicles, driving to the right."""

from __future__ import annotations

from visir.collections.scenes.pen import Pen
from visir.collections.scenes.sprite import SceneObject

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
