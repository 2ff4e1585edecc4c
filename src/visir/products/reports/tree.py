"""The tree of categories with a number at every node, as nested pieces that a page can fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from visir.products.evaluate import Trial
from visir.products.tree import NONE, CategoryTree


@dataclass(frozen=True)
class Node:
    """A category that is a query in some split.

    Args:
        name: Its name.
        id: Its id.
        products: How many test products are relevant, over all splits.
        value: The measure, the mean over the splits in which it is a query.
        below: The mean value of the categories below it; None where there are none.
        seen: Whether it was the category of a training pair: in every split in which it is a query ("seen"), in some
            ("partly"), or in none ("unseen").
        children: By falling number of products, then by name.
    """

    name: str
    id: str
    products: int
    value: float
    below: float | None
    seen: str
    children: tuple[Node, ...] = field(default=())

    @property
    def size(self) -> int:
        """How many categories the node and its descendants are."""
        return 1 + sum(child.size for child in self.children)


def tree_of(trials: Sequence[Trial], name: str = "rprecision") -> list[Node]:
    """The trees of the categories that are queries, each with the value of a measure.

    Where only some levels are queries, the parent of a category is the nearest query above it.

    Args:
        trials: Of one system in one setting, with queries by id.
        name: The measure.
    """
    tree = trials[0].task.tree
    values, weights, products = (np.zeros(len(tree)) for _ in range(3))
    seen = np.zeros(len(tree))
    for trial in trials:
        rows = trial.task.rows
        values[rows] += trial.values(name)
        weights[rows] += 1
        products[rows] += trial.task.judgements().positives
        seen[rows] += trial.seen
    queried = weights > 0
    below: dict[int, list[int]] = {}
    for row in np.flatnonzero(queried).tolist():
        below.setdefault(_above(tree, queried, row), []).append(row)

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


def _above(tree: CategoryTree, queried: np.ndarray, row: int) -> int:
    above = int(tree.parents[row])
    while above != NONE and not queried[above]:
        above = int(tree.parents[above])
    return above


def _values(nodes: Sequence[Node]) -> list[float]:
    """The values of these nodes and their descendants."""
    return [value for node in nodes for value in (node.value, *_values(node.children))]
