"""The categories of a library as a tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Category:
    """A category and those below it.

    - `name`: the last part of `path`, which is what `Query.category` takes
    - `items`: how many pictures lie in it or below; one that lies in two places counts once
    """

    name: str
    path: str
    items: int
    children: tuple[Category, ...] = ()


def tree_of(pairs: Iterable[tuple[str, str]]) -> tuple[Category, ...]:
    """The tree of (category, item) pairs, by name; "a/b" lies below "a", and "" is no category."""
    held: dict[str, set[str]] = {}
    for category, item in pairs:
        parts = category.split("/") if category else []
        for depth in range(1, len(parts) + 1):
            held.setdefault("/".join(parts[:depth]), set()).add(item)
    children: dict[str, list[str]] = {}
    for path in sorted(held):
        children.setdefault(path.rpartition("/")[0], []).append(path)

    def below(path: str) -> tuple[Category, ...]:
        return tuple(
            Category(one.rpartition("/")[2], one, len(held[one]), below(one)) for one in children.get(path, [])
        )

    return below("")
