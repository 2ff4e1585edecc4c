"""Trees of categories: their ids, which are paths of names, and the tree as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from visir.display import Displayed
from visir.errors import CollectionError, nearest

# The ids of categories, which are their paths from the root, and parents that go round in a circle.


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


# The tree of categories as arrays: depths, ancestors, and how far a wrong category lies from the right one.

NONE = -1
"""No category: above a root, or as the common ancestor of two trees."""


class HasCategories(Protocol):
    """What has a tree: a `Catalogue`."""

    @property
    def categories(self) -> pa.Table:
        """One row per category: `id`, `name`, `parent`."""


@dataclass(frozen=True, eq=False, repr=False)
class CategoryTree(Displayed):
    """Categories by row, in any order. `CategoryTree.of(catalogue)` makes it; a catalogue has no cycles or orphans.

    Args:
        ids: (n,) ids.
        names: (n,) names.
        parents: (n,) int64, the row of the parent; `NONE` for a root.

    Example:
        >>> from visir.records import Catalogue
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys", "Boats"]])
        >>> tree = CategoryTree.of(catalogue)
        >>> tree.names, tree.depths.tolist(), tree.parents.tolist()
        (('Toys', 'Trains', 'Boats'), [1, 2, 2], [-1, 0, 0])
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    parents: np.ndarray

    @classmethod
    def of(cls, catalogue: HasCategories) -> CategoryTree:
        """The tree of a catalogue; row i is row i of `catalogue.categories`."""
        table = catalogue.categories
        ids = tuple(table["id"].to_pylist())
        index = {category: row for row, category in enumerate(ids)}
        parents = [NONE if parent is None else index[parent] for parent in table["parent"].to_pylist()]
        return cls(ids, tuple(table["name"].to_pylist()), np.array(parents, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def depths(self) -> np.ndarray:
        """(n,) int64: the level of each category; 1 is the most general, as the thesis counts (section 7.4.1)."""
        depths = np.ones(len(self), dtype=np.int64)
        above = self.parents.copy()
        while (climbing := above != NONE).any():
            depths[climbing] += 1
            above[climbing] = self.parents[above[climbing]]
        return depths

    @cached_property
    def paths(self) -> np.ndarray:
        """(n, deepest) int64: the rows from the root to the category itself, then `NONE`.

        `paths[c, 0]` is the root of c's tree, and `paths[c, depths[c] - 1]` is c.
        """
        paths = np.full((len(self), int(self.depths.max(initial=0))), NONE, dtype=np.int64)
        here, left = np.arange(len(self)), self.depths.copy()
        while (walking := here != NONE).any():
            rows = np.flatnonzero(walking)
            paths[rows, left[rows] - 1] = here[rows]
            left[rows] -= 1
            here[rows] = self.parents[here[rows]]
        return paths

    @cached_property
    def roots(self) -> np.ndarray:
        """(n,) int64: the most general category above each category (itself, for a root)."""
        return self.paths[:, 0] if len(self) else np.empty(0, dtype=np.int64)

    @cached_property
    def leaves(self) -> np.ndarray:
        """(n,) bool: whether no category lies below."""
        leaves = np.ones(len(self), dtype=np.bool_)
        leaves[self.parents[self.parents != NONE]] = False
        return leaves

    def rows(self, ids: Sequence[str] | pa.ChunkedArray | pa.Array) -> np.ndarray:
        """(k,) int64: the rows of category ids.

        Raises:
            CollectionError: An id is not in the tree.
        """
        names = ids.to_pylist() if isinstance(ids, (pa.ChunkedArray, pa.Array)) else ids
        try:
            return np.array([self._index[name] for name in names], dtype=np.int64)
        except KeyError as fault:
            unknown = str(fault.args[0])
            raise CollectionError(
                f"unknown category {unknown!r}", hint=nearest(unknown, self.ids), code="collection-unknown-category"
            ) from None

    def ancestors(self, row: int) -> np.ndarray:
        """The rows above a category, the root first, without the category itself."""
        return self.paths[row, : self.depths[row] - 1]

    def contains(self, general: np.ndarray, specific: np.ndarray) -> np.ndarray:
        """Whether `general` is `specific` or lies above it. Shapes broadcast.

        With a product's most specific category as `specific`, this is the ground truth of the task: a product is
        relevant to every category of its path.
        """
        general, specific = np.broadcast_arrays(general, specific)
        return np.asarray(self.paths[specific, self.depths[general] - 1] == general)

    def common(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The lowest common ancestor of each pair, possibly one of the two; `NONE` in different trees."""
        shared = self._shared(first, second)
        first = np.broadcast_to(first, shared.shape)
        return np.where(shared > 0, self.paths[first, shared - 1], NONE)

    def same_tree(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether both belong to the same most general category (thesis Table 7.2)."""
        return np.asarray(self.roots[first] == self.roots[second])

    def distances(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The plain tree distance: edges on the path from one category to the other.

        Between two trees the path leads over a common root above all roots, one edge above each. The other common
        reading, an infinite distance, could not be averaged.
        """
        return np.asarray(self.depths[first] + self.depths[second] - 2 * self._shared(first, second))

    def depth_differences(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """d(c, c_p) = depth(c_p) − depth(c) (thesis section 7.6.1, Figure 7.2): positive if c_p is more specific.

        It is no distance: two categories side by side have 0. The thesis reads it within one tree only.
        """
        return np.asarray(self.depths[predicted] - self.depths[target])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {category: row for row, category in enumerate(self.ids)}

    def _shared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """How many categories the two paths have in common from the root on."""
        paths, others = self.paths[first], self.paths[second]
        return np.asarray(((paths == others) & (paths != NONE)).sum(axis=-1))
