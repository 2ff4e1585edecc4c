"""The categories of a library as a tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Category:
    """A category and those below it.

    Attributes:
        name: The last part of `path`.
        path: What `Query.category` takes: "holidays/2024".
        items: How many pictures lie in it or below; a picture that lies in two places counts once.
        children: The categories below it, by name.
    """

    name: str
    path: str
    items: int
    children: tuple[Category, ...] = ()


def tree_of(pairs: Iterable[tuple[str, str]]) -> tuple[Category, ...]:
    """The tree of categories, by name.

    Args:
        pairs: (category, item); "a/b" lies below "a", and "" is no category.

    Example:
        >>> [holidays] = tree_of([("holidays/2024", "1"), ("holidays", "2"), ("", "3")])
        >>> holidays.items, [child.path for child in holidays.children]
        (2, ['holidays/2024'])
    """
    items_below: dict[str, set[str]] = {}
    for category, item in pairs:
        parts = category.split("/") if category else []
        for depth in range(1, len(parts) + 1):
            items_below.setdefault("/".join(parts[:depth]), set()).add(item)
    children: dict[str, list[str]] = {}
    for path in sorted(items_below):
        children.setdefault(path.rpartition("/")[0], []).append(path)

    def below(path: str) -> tuple[Category, ...]:
        return tuple(
            Category(child.rpartition("/")[2], child, len(items_below[child]), below(child))
            for child in children.get(path, [])
        )

    return below("")
