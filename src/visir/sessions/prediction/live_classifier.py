"""What a live classifier is, and which there are: a new one is a file, and a line in `CLASSIFIERS`.

A classifier answers from the features of a step. One that reads a session as a sequence (`SequenceClassifier`) also
goes on from the state that it had a step before: in a stream a page costs one step, however long the session is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from visir.errors import require
from visir.sessions.features import LAST, LIVE_FEATURES, LearntFeatures, SessionFeature
from visir.sessions.prediction.models import (
    FOLDS,
    SavedNumbers,
    Scaling,
    StepLogistic,
    assign_folds,
    expanded,
    for_trees,
    group_names,
    people_of,
)
from visir.sessions.table_labels import STEPS, Bools, Floats, Ints, SessionExamples

if TYPE_CHECKING:
    import torch


class LiveClassifier(SavedNumbers, ABC):
    """A fitted model of all sessions: a frozen dataclass, whose fields are what is saved."""

    FEATURES: ClassVar[tuple[SessionFeature, ...]]  # what it may have learnt

    learnt: LearntFeatures  # features with what they learnt
    rates: tuple[float, ...]  # share of the training sessions that buy, for each step from 0

    @property
    def steps(self) -> range:
        """The steps that can be asked for."""
        return range(len(self.rates))

    @classmethod
    @abstractmethod
    def fit(cls, classifier: str, examples: SessionExamples, rows: Bools, *, seed: int = 0) -> Self:
        """Learn the classifier of this name from the sessions of a mask, `rows`."""

    @abstractmethod
    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Back from `to_json`."""
        return super().from_json({**values, "learnt": LearntFeatures.from_json(values["learnt"], cls.FEATURES)})


class SequenceClassifier(LiveClassifier):
    """A live classifier with a state that goes on from step to step."""

    @abstractmethod
    def start(self, n: int) -> Floats:
        """(n, hidden) the states of n sessions before step 0."""

    @abstractmethod
    def advance(self, states: Floats, examples: SessionExamples, step: int) -> tuple[Floats, Floats]:
        """The states after a step, and the chances there."""
        # states: (n, hidden) those after the step before.
        # Returns: (n, hidden) states, (n,) chances.

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        states, chance = self.start(len(examples)), np.zeros(len(examples))
        for number in range(step + 1):
            states, chance = self.advance(states, examples, number)
        return chance


# Gradient-boosted trees as plain arrays: fitted by scikit-learn, then answered and saved without it.
#
# A live score is of one session. scikit-learn starts threads and checks its input for each call, which takes longer
# than 100 small trees; here all trees go down one level at a time, in one thread. The saved form is numbers, so it
# depends on no version of scikit-learn.

ROUNDS = 150
LEAVES = 8
LEARNING_RATE = 0.05
LEAF_ROWS = 50
L2 = 10.0
"""Chosen on one log (`shop-events`, sessions before 4 March); few purchases need slow and shallow trees."""

_CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class BoostedTrees(SavedNumbers):
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


# A recurrent model of live sessions: a GRU reads a session page by page (Cho et al. 2014, section 2.3).

HIDDEN = 32
BATCH = 128
GRU_LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01
DROPOUT = 0.2
MAX_EPOCHS = 40
PATIENCE = 5
STOP_SHARE = 0.2
"""Of the training sessions, the latest decide how long is trained."""

_BY_NAME = {feature.name: feature for feature in (*LIVE_FEATURES, LAST)}
GRU_FEATURES: tuple[SessionFeature, ...] = tuple(
    _BY_NAME[name]
    for name in (
        "current page", "dwell time of the page before", "items added", "searches", "number of pages", "channel type",
        "device type", "start hour", "week day", "visitor's earlier sessions", "number of orders",
        "days since last purchase", "number of sessions", "number of devices",
    )
)  # fmt: skip
"""None of them learns from who bought, so that the later part of the training sessions stays unseen."""

_PARTS = ("input", "recurrent", "input_bias", "recurrent_bias", "output", "offset")


@dataclass(frozen=True, eq=False)
class GruModel(SequenceClassifier):
    """A fitted GRU of h hidden units over c columns. Gates are in PyTorch's order: reset, update, new."""

    FEATURES = GRU_FEATURES

    learnt: LearntFeatures  # features with what they learnt
    scaling: Scaling  # of their columns
    rates: tuple[float, ...]  # share of the training sessions that buy, for each step from 0
    epochs: int  # how long it was trained
    # "input" (3h, c), "recurrent" (3h, h), their biases (3h,), "output" (h,) and "offset" ().
    weights: dict[str, Floats]

    @classmethod
    def fit(cls, classifier: str, examples: SessionExamples, rows: Bools, *, seed: int = 0) -> Self:
        """Learn from sessions."""
        # rows: (n,) the training sessions.
        require("torch", extra="torch", purpose='The classifier "gru"')
        learnt = LearntFeatures.of(GRU_FEATURES, examples, rows)
        reached, purchase = examples.reached[rows], examples.purchase[rows]
        counts = [(purchase[reached >= step].sum(), (reached >= step).sum()) for step in range(STEPS + 1)]
        rates = tuple((float(buys) + 0.5) / (float(n) + 1) for buys, n in counts if n)
        columns = [
            expanded(learnt.features, learnt.states, learnt.matrix(examples, step)[rows]) for step in range(len(rates))
        ]
        scaling = Scaling.of(np.concatenate([each[reached >= step] for step, each in enumerate(columns)]))
        inputs = np.stack([scaling.apply(each) for each in columns], axis=1)
        used = np.arange(len(rates)) <= reached[:, None]
        later = examples.began[rows] >= np.quantile(examples.began[rows], 1 - STOP_SHARE)
        _, epochs = _train(inputs, used, purchase, ~later, later, seed=seed, epochs=MAX_EPOCHS)
        weights, _ = _train(inputs, used, purchase, used[:, 0], None, seed=seed, epochs=epochs)
        return cls(learnt, scaling, rates, epochs, weights)

    def start(self, n: int) -> Floats:
        """See `SequenceClassifier.start`."""
        return np.zeros((n, len(self.weights["output"])))

    def advance(self, states: Floats, examples: SessionExamples, step: int) -> tuple[Floats, Floats]:
        """The states after a step, and the chances there."""
        # states: (n, h) those after the step before.
        # Returns: (n, h) states, (n,) chances.
        values = self.weights
        matrix = self.learnt.matrix(examples, step)
        columns = self.scaling.apply(expanded(self.learnt.features, self.learnt.states, matrix))
        from_input = columns @ values["input"].T + values["input_bias"]
        from_state = states @ values["recurrent"].T + values["recurrent_bias"]
        (reset_i, update_i, new_i), (reset_s, update_s, new_s) = (
            np.split(part, 3, axis=1) for part in (from_input, from_state)
        )
        reset, update = _sigmoid(reset_i + reset_s), _sigmoid(update_i + update_s)
        after: Floats = (1 - update) * np.tanh(new_i + reset * new_s) + update * states
        return after, _sigmoid(after @ values["output"] + values["offset"])


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-values))
    return result


def _train(
    inputs: Floats, used: Bools, purchase: Bools, rows: Bools, stop: Bools | None, *, seed: int, epochs: int
) -> tuple[dict[str, Floats], int]:
    """Train a network."""
    # inputs: (n, steps, c) columns.
    # used: (n, steps) the steps that a session reaches; it reaches all before its last.
    # purchase: (n,) outcomes.
    # rows: (n,) the sessions that teach.
    # stop: (n,) those whose log loss says when to stop; None: after `epochs`.
    import torch

    teaching = np.flatnonzero(rows & used[:, 0])
    x = torch.from_numpy(inputs.astype(np.float32))
    y = torch.from_numpy(np.broadcast_to(purchase[:, None], used.shape).astype(np.float32))
    mask = torch.from_numpy(used)
    threads = torch.get_num_threads()
    order = np.random.default_rng(seed)
    best, best_epoch = np.inf, 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # the sums of a training do not depend on the machine's cores
        try:
            gru, head = torch.nn.GRU(inputs.shape[2], HIDDEN, batch_first=True), torch.nn.Linear(HIDDEN, 1)
            share = float(y[rows][mask[rows]].mean())
            torch.nn.init.constant_(head.bias, float(np.log((share + 1e-4) / (1 - share + 1e-4))))
            drop, loss_of = torch.nn.Dropout(DROPOUT), torch.nn.BCEWithLogitsLoss()
            parameters = [*gru.parameters(), *head.parameters()]
            optimiser = torch.optim.AdamW(parameters, lr=GRU_LEARNING_RATE, weight_decay=WEIGHT_DECAY)

            def loss_on(part: Any, dropped: bool) -> torch.Tensor:
                length = int(mask[part].any(dim=0).sum())  # no batch is longer than its longest session
                states, _ = gru(drop(x[part, :length]) if dropped else x[part, :length])
                is_reached = mask[part, :length]
                loss: torch.Tensor = loss_of(head(states)[..., 0][is_reached], y[part, :length][is_reached])
                return loss

            for epoch in range(1, epochs + 1):
                shuffled = order.permutation(teaching)
                for begin in range(0, len(shuffled), BATCH):
                    optimiser.zero_grad()
                    loss_on(shuffled[begin : begin + BATCH], dropped=True).backward()
                    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                    optimiser.step()
                if stop is None:
                    continue
                with torch.no_grad():
                    loss = float(loss_on(np.flatnonzero(stop & used[:, 0]), dropped=False))
                if loss < best:
                    best, best_epoch = loss, epoch
                elif epoch - best_epoch >= PATIENCE:
                    break
        finally:
            torch.set_num_threads(threads)
    values = [*gru.parameters(), head.weight[0], head.bias[0]]  # in the order of `_PARTS`
    weights = {name: value.detach().double().numpy() for name, value in zip(_PARTS, values, strict=True)}
    return weights, best_epoch


# The model of live sessions: at every step it learns from all sessions that reach the step, long or short.


@dataclass(frozen=True)
class LiveModel(LiveClassifier):
    """A model of all sessions."""

    FEATURES = LIVE_FEATURES

    learnt: LearntFeatures  # features with what they learnt
    rates: tuple[float, ...]  # share of the training sessions that buy, for each step from 0
    regressions: tuple[StepLogistic | None, ...]  # for each step; None where there is none
    trees: BoostedTrees | None  # of all steps; None where there are none

    @classmethod
    def fit(cls, classifier: str, examples: SessionExamples, rows: Bools, *, seed: int = 0) -> Self:
        """Learn from sessions."""
        # rows: (n,) the training sessions.
        learnt = LearntFeatures.of(LIVE_FEATURES, examples, rows)
        fold = _folds(examples, rows, seed)
        rates: list[float] = []
        regressions: list[StepLogistic | None] = []
        matrices: list[Floats] = []
        outcomes: list[Bools] = []
        for step in range(STEPS + 1):
            reached = rows & (examples.reached >= step)
            purchase = examples.purchase[reached]
            if not len(purchase):
                break
            rates.append((float(purchase.sum()) + 0.5) / (len(purchase) + 1))
            matrix = learnt.matrix(examples, step)[reached]
            has_both = bool(purchase.any()) and not bool(purchase.all())
            fits = has_both and classifier != "gbdt"
            regressions.append(
                StepLogistic.fit(learnt.features, learnt.states, matrix, purchase, fold[reached]) if fits else None
            )
            matrices.append(matrix)
            outcomes.append(purchase)
        trees = None
        if classifier != "lr" and sum(map(len, outcomes)) >= 2 * LEAF_ROWS:
            trees = BoostedTrees.fit(for_trees(np.concatenate(matrices)), np.concatenate(outcomes), seed=seed)
        return cls(learnt, tuple(rates), tuple(regressions), trees)

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        matrix = self.learnt.matrix(examples, step)
        regression, parts = self.regressions[step], []
        if regression is not None:
            parts.append(regression.log_odds(self.learnt.features, self.learnt.states, matrix))
        if self.trees is not None:
            parts.append(self.trees.log_odds(for_trees(matrix)))
        if not parts:
            return np.full(len(examples), self.rates[step])
        chance: Floats = 1 / (1 + np.exp(-sum(parts) / len(parts)))
        return chance


def _folds(examples: SessionExamples, rows: Bools, seed: int) -> Any:
    """(n,) the fold of each session; a person is in one. -1 for what is not trained on."""
    people = people_of(examples)
    names, group = np.unique(people[rows], return_inverse=True)
    fold = np.full(len(examples), -1)
    texts = group_names(people, examples)
    fold[rows] = assign_folds(group, [texts[name] for name in names], examples.purchase[rows], FOLDS, seed)
    return fold


CLASSIFIERS: dict[str, type[LiveClassifier]] = {"blend": LiveModel, "lr": LiveModel, "gbdt": LiveModel, "gru": GruModel}
"""The first is the default."""
