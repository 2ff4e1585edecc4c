"""A thin registry: names to things, with a nearest-name hint when a name is unknown."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Generic, TypeVar

from visir.errors import VisirError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind (`kind` is used in messages: "measure", "format", …), in the order they were added."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Register `thing` under `name`; overwriting warns, because it is nearly always a mistake."""
        if name in self._things:
            warnings.warn(f"{self.kind} {name!r} is registered twice; the later one is used", stacklevel=2)
        self._things[name] = thing
        return thing

    def get(self, name: str) -> T:
        """The thing called `name`; raises `VisirError` with the nearest name otherwise."""
        try:
            return self._things[name]
        except KeyError:
            raise VisirError(f"unknown {self.kind} {name!r}", hint=nearest(name, self._things)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def items(self) -> Iterator[tuple[str, T]]:
        """Pairs of name and thing, in the order of registration."""
        return iter(self._things.items())
