"""The ids of categories, which are their paths from the root, and parents that go round in a circle."""

from __future__ import annotations

from collections.abc import Sequence


def path_id(names: Sequence[str]) -> str:
    """Return the id of the category with these names from the root on."""
    # A ">" within a name is doubled, so that different paths have different ids.
    return " > ".join(name.replace(">", ">>") for name in names)


def register_path(path: Sequence[str], categories: dict[str, tuple[str, str | None]]) -> str:
    """Add the categories of one path to `categories`, and return the id of the last."""
    # categories: {id: (name, id of the parent)}; changed in place.
    above: str | None = None
    for level, label in enumerate(path, start=1):
        category = path_id(path[:level])
        categories.setdefault(category, (label, above))
        above = category
    return above or ""


def cycles_of(ids: list[str], parents: list[str | None]) -> list[list[str]]:
    """The cycles among the parents, each from its smallest id on."""
    above = dict(zip(ids, parents, strict=True))
    done: set[str] = set()
    cycles: list[list[str]] = []
    for start in ids:
        visited: dict[str, int] = {}
        category: str | None = start
        while category is not None and category in above and category not in done and category not in visited:
            visited[category] = len(visited)
            category = above[category]
        if category is not None and category in visited:
            cycle = list(visited)[visited[category] :]
            first = cycle.index(min(cycle))
            cycles.append(cycle[first:] + cycle[:first])
        done.update(visited)
    return cycles
