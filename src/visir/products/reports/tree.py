"""The tree of categories with a number at every node, as nested pieces that a page can fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from visir.products.evaluation import Trial
from visir.products.tree import NONE, CategoryTree


@dataclass(frozen=True)
class Node:
    """A category that was a query in some split."""

    name: str  # its name
    id: str  # its id
    products: int  # relevant test products, over all splits
    value: float  # the measure, the mean over the splits in which it was a query
    below: float | None  # the mean value of the categories under it; None where there are none
    # Whether it was a query of a training pair in every split in which it was a query, in some, or in none ("seen",
    # "partly", "unseen").
    seen: str
    children: tuple[Node, ...] = field(default=())  # by falling number of products, then by name

    @property
    def size(self) -> int:
        """How many categories there are at and under the node."""
        return 1 + sum(child.size for child in self.children)


def tree_of(trials: Sequence[Trial], name: str = "rprecision") -> list[Node]:
    """The trees of the categories that are queries in these trials, each with its measure `name`."""
    # The trials are of one system and tell categories apart by id. Where a setting asks some levels only, a category
    # hangs below the nearest one above it that is a query.
    tree = trials[0].task.tree
    values, weights, products = (np.zeros(len(tree)) for _ in range(3))
    seen = np.zeros(len(tree))
    for trial in trials:
        rows = trial.task.rows
        values[rows] += trial.values(name)
        weights[rows] += 1
        products[rows] += trial.task.judgements().positives
        seen[rows] += trial.seen
    is_query = weights > 0
    below: dict[int, list[int]] = {}
    for row in np.flatnonzero(is_query).tolist():
        below.setdefault(_above(tree, is_query, row), []).append(row)

    def node(row: int) -> Node:
        ordered = sorted(below.get(row, []), key=lambda child: (-products[child], tree.names[child], tree.ids[child]))
        children = tuple(node(child) for child in ordered)
        share = seen[row] / weights[row]
        return Node(
            tree.names[row],
            tree.ids[row],
            int(products[row]),
            float(values[row] / weights[row]),
            float(np.mean(_values(children))) if children else None,
            "seen" if share == 1 else "partly" if share else "unseen",
            children,
        )

    return sorted((node(row) for row in below.get(NONE, [])), key=lambda root: (-root.products, root.name))


def _above(tree: CategoryTree, is_query: np.ndarray, row: int) -> int:
    above = int(tree.parents[row])
    while above != NONE and not is_query[above]:
        above = int(tree.parents[above])
    return above


def _values(nodes: Sequence[Node]) -> list[float]:
    """The values of all nodes at and under these."""
    return [value for child in nodes for value in (child.value, *_values(child.children))]
