"""Gradient-boosted trees as plain arrays: fitted by scikit-learn, then answered and saved without it.

A live score is of one session. scikit-learn starts threads and checks its input for each call, which takes longer than
100 small trees; here all trees go down one level at a time, in one thread. The saved form is numbers, so it depends on
no version of scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.sessions.table_labels import Bools, Floats, Ints

ROUNDS = 150
LEAVES = 8
LEARNING_RATE = 0.05
LEAF_ROWS = 50
L2 = 10.0
"""Chosen on one log (`shop-events`, sessions before 4 March); few purchases need slow and shallow trees."""

_CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """t trees of at most m nodes; a leaf leads to itself."""

    start: float  # log-odds before the first tree
    column: Ints  # (t, m) the column that a node looks at
    threshold: Floats  # (t, m) a row goes left where its value is not above
    left: Ints  # (t, m) the node to the left
    right: Ints  # (t, m) the node to the right
    value: Floats  # (t, m) log-odds that a leaf adds
    depth: int  # levels of the deepest tree

    @classmethod
    def fit(cls, columns: Floats, purchase: Bools, *, seed: int = 0) -> BoostedTrees:
        """Fit trees without class weights, so that their answers are chances as they are."""
        # columns: (n, features) without NaN.
        # purchase: (n,) whether each session holds an order; both outcomes must occur.
        import sklearn.ensemble  # loads OpenMP, which must be there to be limited
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        model = sklearn.ensemble.HistGradientBoostingClassifier(
            max_leaf_nodes=LEAVES,
            max_iter=ROUNDS,
            learning_rate=LEARNING_RATE,
            l2_regularization=L2,
            min_samples_leaf=LEAF_ROWS,
            early_stopping=False,
            random_state=seed,
        )
        with threadpool_limits(1):
            model.fit(columns, purchase)
        nodes = [tree[0].nodes for tree in model._predictors]
        size = max(map(len, nodes))
        shape = (len(nodes), size)
        trees = cls(
            start=float(model._baseline_prediction[0, 0]),
            column=np.zeros(shape, np.int64),
            threshold=np.zeros(shape),
            left=np.zeros(shape, np.int64),
            right=np.zeros(shape, np.int64),
            value=np.zeros(shape),
            depth=max(int(tree["depth"].max()) for tree in nodes),
        )
        for number, tree in enumerate(nodes):
            leaf, own, row = tree["is_leaf"].astype(bool), np.arange(len(tree)), slice(0, len(tree))
            trees.column[number, row] = np.where(leaf, 0, tree["feature_idx"])
            trees.threshold[number, row] = np.where(leaf, 0.0, tree["num_threshold"])
            trees.left[number, row] = np.where(leaf, own, tree["left"])
            trees.right[number, row] = np.where(leaf, own, tree["right"])
            trees.value[number, row] = np.where(leaf, tree["value"], 0.0)
        return trees

    def log_odds(self, columns: Floats) -> Floats:
        """(n,) log-odds of a purchase."""
        # columns: (n, features) as in `fit`.
        return np.concatenate(
            [self._log_odds(columns[begin : begin + _CHUNK]) for begin in range(0, max(len(columns), 1), _CHUNK)]
        )

    def _log_odds(self, columns: Floats) -> Floats:
        """Nodes are counted through all trees, so that a level takes one look into each table."""
        trees, size = self.column.shape
        first = np.arange(trees) * size
        left, right = ((table + first[:, None]).ravel() for table in (self.left, self.right))
        column, threshold = self.column.ravel(), self.threshold.ravel()
        row = (np.arange(len(columns)) * columns.shape[1])[:, None]
        values = np.ascontiguousarray(columns).ravel()
        node = np.repeat(first[None], len(columns), axis=0)
        for _ in range(self.depth):
            goes_left = values.take(row + column.take(node)) <= threshold.take(node)
            node = np.where(goes_left, left.take(node), right.take(node))
        total: Floats = self.start + self.value.take(node).sum(axis=1)  # a row's sum depends on no other row
        return total

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a saved model."""
        arrays = {name: getattr(self, name).tolist() for name in ("column", "threshold", "left", "right", "value")}
        return {"start": self.start, "depth": self.depth, **arrays}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> BoostedTrees:
        """Back from `to_json`."""
        return cls(
            start=float(values["start"]),
            column=np.asarray(values["column"], np.int64),
            threshold=np.asarray(values["threshold"], np.float64),
            left=np.asarray(values["left"], np.int64),
            right=np.asarray(values["right"], np.int64),
            value=np.asarray(values["value"], np.float64),
            depth=int(values["depth"]),
        )
