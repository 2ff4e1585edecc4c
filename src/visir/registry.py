"""A thin registry: names to things, with a nearest-name hint when a name is unknown."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from visir.errors import VisirError, nearest
from visir.plugins import left_out, part, plugins

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind, in the order they were added; those of other packages come last."""

    # `table`: the part (`visir.plugins.part`) whose import adds the things of visir, when they are first asked for.
    # `former`: names that were there once, and what to say to who asks for them.
    def __init__(
        self,
        kind: str,
        *,
        group: str = "",
        of: type[T] | None = None,
        table: str = "",
        former: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self._former = former or {}
        self._group = group
        self._table = table
        self._of = of
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Register `thing` under `name`; overwriting warns, because it is nearly always a mistake."""
        self._read_table()
        if name in self._things:
            warnings.warn(f"{self.kind} {name!r} is registered twice; the later one is used", stacklevel=2)
        self._things[name] = thing
        return thing

    def get(self, name: str) -> T:
        """The thing called `name`; raises `VisirError` with the nearest name otherwise."""
        if name in self:
            return self._things[name]
        hint = self._former.get(name) or nearest(name, self._things)
        raise VisirError(f"unknown {self.kind} {name!r}", hint=hint, code="unknown-name")

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            self._add_plugins()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self._add_plugins()
        return iter(self._things)

    def items(self) -> Iterator[tuple[str, T]]:
        """Pairs of name and thing, in the order of registration."""
        self._add_plugins()
        return iter(self._things.items())

    def _read_table(self) -> None:
        table, self._table = self._table, ""
        if table:
            part(table)

    def _add_plugins(self) -> None:
        """Add what other packages have, once. A name that is taken stays what it is."""
        self._read_table()
        group, self._group = self._group, ""
        for name, thing in plugins(group) if group else ():
            if self._of is not None and not isinstance(thing, self._of):
                left_out(group, name, f"it is a {type(thing).__name__}, not a {self._of.__name__}")
            elif getattr(thing, "name", name) != name:
                left_out(group, name, f"it calls itself {getattr(thing, 'name', None)!r}")
            elif name in self._things:
                left_out(group, name, f"this name is taken by another {self.kind}")
            else:
                self._things[name] = thing
