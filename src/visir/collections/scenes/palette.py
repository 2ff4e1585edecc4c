"""Colours: what the colour names look like, and how the light of the day changes everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from visir.collections.scenes.facts import Scene

# Choices for one scene that its captions do not need: the same on every machine, in any order.

T = TypeVar("T")

_FIRST = 10_000
"""Pictures and captions use smaller salts of `Scene.chance`."""


class Draws:
    """A stream of choices that the `variation` of a scene and a number name."""

    def __init__(self, scene: Scene, purpose: int) -> None:
        self._scene = scene
        self._salt = _FIRST * (purpose + 1)

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        self._salt += 1
        return int(self._scene.chance(self._salt) * n)

    def one_of(self, values: Sequence[T]) -> T:
        """One of the values."""
        return values[self.below(len(values))]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """All values in another order."""
        rest = list(values)
        return [rest.pop(self.below(len(rest))) for _ in range(len(rest))]


RGB = tuple[int, int, int]

PAINT: dict[str, RGB] = {
    "red": (221, 72, 66),
    "orange": (243, 146, 55),
    "yellow": (250, 208, 70),
    "green": (86, 174, 92),
    "blue": (66, 128, 208),
    "purple": (140, 92, 184),
    "pink": (246, 146, 184),
    "white": (250, 247, 240),
}
"""The told colours: far enough apart to be named at 64 px by day and at night."""

CREAM: RGB = (255, 246, 226)
PATTERN_PAINT: dict[str, RGB] = {
    "red": CREAM,
    "orange": CREAM,
    "yellow": (196, 120, 40),
    "green": CREAM,
    "blue": CREAM,
    "purple": CREAM,
    "pink": CREAM,
    "white": (112, 128, 156),
}
"""The second colour of stripes, spots and checks; dark on the two light paints, where cream would not be seen."""

FIXED: dict[str, RGB] = {
    "black": (44, 44, 58),
    "cream": CREAM,
    "snow": (252, 253, 255),
    "grey": (150, 156, 168),
    "steel": (198, 206, 216),
    "tyre": (58, 60, 72),
    "glass": (186, 224, 240),
    "wood": (164, 112, 70),
    "darkwood": (118, 78, 52),
    "skin": (250, 214, 180),
    "gold": (250, 206, 92),
    "leaf": (98, 166, 90),
    "blush": (244, 154, 150),
    "brick": (198, 98, 78),
    "roof": (176, 84, 72),
    "slate": (104, 116, 142),
    "stone": (176, 172, 176),
    "wall": (246, 232, 208),
    "lamp": (255, 240, 170),
    "crimson": (206, 76, 76),
    "sky": (120, 176, 226),
}
"""Materials that keep their colour whatever the facts say."""

FESTIVE: tuple[RGB, ...] = (
    (226, 92, 84),
    (250, 190, 80),
    (104, 182, 120),
    (92, 146, 220),
    (172, 116, 206),
    (246, 150, 186),
)
"""The colours of kites, balloons and butterflies: a nuisance, in no caption."""

LIGHT: dict[str, tuple[float, float, float]] = {
    "day": (1.0, 1.0, 1.0),
    "sunset": (1.0, 0.86, 0.76),
    "night": (0.45, 0.53, 0.76),
}
"""What the light of the time of day multiplies the land by."""

NEAR_LIGHT: dict[str, tuple[float, float, float]] = {
    "day": (1.0, 1.0, 1.0),
    "sunset": (1.0, 0.93, 0.87),
    "night": (0.80, 0.84, 0.95),
}
"""The same for what stands near: milder, so that a told colour stays the colour it is called."""


def mix(first: RGB, second: RGB, weight: float) -> RGB:
    """`first` with `weight` (0–1) of `second`."""
    return tuple(int(a + (b - a) * weight + 0.5) for a, b in zip(first, second, strict=True))  # type: ignore[return-value]


def times(colour: RGB, light: tuple[float, float, float]) -> RGB:
    """A colour under a light."""
    return tuple(min(255, int(a * b + 0.5)) for a, b in zip(colour, light, strict=True))  # type: ignore[return-value]
