"""The categories of a library as a tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from visir.errors import nearest
from visir.library.facets import fold
from visir.library.layout import LibraryError


class UnknownCategoryError(LibraryError):
    """A library has no such folder or category."""


@dataclass(frozen=True)
class Category:
    """A category and those below it."""

    name: str  # the last part of `path`
    path: str  # what `Query.category` takes: "holidays/2024"
    items: int  # how many pictures lie in it or below; a picture that lies in two places counts once
    children: tuple[Category, ...] = ()  # the categories below it, by name


def tree_of(pairs: Iterable[tuple[str, str]]) -> tuple[Category, ...]:
    """The tree of categories, by name."""
    # pairs: (category, item); "a/b" lies below "a", and "" is no category.
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


def require_category(tree: Iterable[Category], category: str) -> None:
    """Raise `UnknownCategoryError`, with the nearest category, unless the tree has this one."""
    paths = list(_paths(tree))
    if category in paths:
        return
    wanted = fold(category)
    like_it = [path for path in paths if wanted in (fold(path), fold(path.rpartition("/")[2]))]
    hint = nearest(like_it[0] if like_it else category, paths) if paths else "this library has none; leave it out"
    raise UnknownCategoryError(f"no category {category!r}.", hint=hint)


def _paths(tree: Iterable[Category]) -> Iterable[str]:
    for category in tree:
        yield category.path
        yield from _paths(category.children)
