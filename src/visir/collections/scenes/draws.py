"""Choices for one scene that its captions do not need: the same on every machine, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from visir.collections.scenes.facts import Scene

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
