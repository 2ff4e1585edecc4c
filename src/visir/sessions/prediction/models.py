"""Classifiers of purchase intent: what they read, how they are fitted, asked and saved; measures of them, and folds.

A classifier of the live protocol (`LiveClassifier`, `CLASSIFIERS`) is a model of all steps, saved as numbers: a new one
is a class, and a line in the table. The six of thesis section 6.5.1 (`MODELS`, `fit`) are of one step each, with class
weights inversely proportional to class frequencies. They give chances as if half of the sessions bought (the effect of
such weights). One half or more counts as a purchase, which is the threshold of F1. `FittedClassifier.probability`
brings the answer back to the share that really buys.

| name | model | class weights |
|---|---|---|
| `rf` | random forest, 100 trees of depth 8 on half of the rows each | `class_weight` |
| `lr` | logistic regression | `class_weight` |
| `knn` | 101 nearest neighbours (at most √n), votes weigh 1/distance | a vote counts by 1/frequency of its class |
| `svm` | linear SVM over 100 Nyström components of the RBF kernel (γ = 1/columns), Platt's sigmoid over its margins | \
`class_weight` |
| `mlp` | one hidden layer of 32, stops when a tenth of the rows gets no better | sample weights |
| `gbdt` | histogram gradient boosting, 100 trees of at most 8 leaves | `class_weight` |

The exact kernel SVM takes 16 s a fit at the paper's size; what Nyström loses is measured in
docs/background/purchase-intent.md. Where no feature has more than one value (step 0 of the anonymous baseline) nothing
is fitted: every session is given one half, so all of them are called purchases and F1 is 2π / (1 + π) with π the share
that buys.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np

from visir.errors import VisirError, require
from visir.sessions.definition import IDLE_MINUTES
from visir.sessions.features import LAST, LIVE_FEATURES, LearntFeatures, SessionFeature
from visir.sessions.table_labels import STEPS, Bools, Floats, Ints, SessionExamples

if TYPE_CHECKING:
    import torch


# What a fitted model knows, as a file holds it: plain values, so that loading runs no code.


class SavedNumbers:
    """A record of numbers, arrays and further such records, saved field by field."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a saved model."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Back from `to_json`, by the types of the fields."""
        kinds = get_type_hints(cls)
        return cls(**{each.name: _restored(kinds[each.name], values[each.name]) for each in fields(cls)})  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _restored(kind: Any, value: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else _restored(parts[0], value)
    if origin is tuple:
        return tuple(_restored(parts[0], part) for part in value)
    if origin is dict:
        return {name: _restored(parts[1], part) for name, part in value.items()}
    if origin is np.ndarray:
        return np.asarray(value, get_args(parts[1])[0])
    if issubclass(kind, SavedNumbers):
        return kind.from_json(value)
    return value if isinstance(value, kind) else kind(value)


# Features as models read them: as they are for trees, as standardised columns for what adds or measures distances.

MISSING = -1000.0


def for_trees(matrix: Floats) -> Floats:
    """(n, features) for trees: `MISSING` in place of NaN."""
    return np.where(np.isnan(matrix), MISSING, matrix)


def expanded(learnt: LearntFeatures, matrix: Floats) -> Floats:
    """(n, columns) for models that add or measure distances, NaN where a value is missing."""
    # matrix: (n, features) values, NaN where one is missing.
    columns: list[Floats] = []
    for feature, state, values in zip(learnt.features, learnt.states, matrix.T, strict=True):
        if feature.kind == "category":
            codes = np.where(np.isnan(values), len(state["names"]), values)
            columns += [(codes == code).astype(np.float64) for code in range(len(state["names"]) + 1)]
        elif feature.kind == "cycle":
            angle = 2 * np.pi * values / feature.period
            columns += [np.sin(angle), np.cos(angle)]
        else:
            columns += [np.log1p(values) if feature.kind == "skewed" else values, np.isnan(values).astype(np.float64)]
    return np.ascontiguousarray(np.array(columns).T)


@dataclass(frozen=True)
class Scaling(SavedNumbers):
    """What standardising learnt."""

    means: tuple[float, ...]  # mean of each column over the training rows
    # Standard deviation of each column over the training rows; 1 for a column without spread.
    deviations: tuple[float, ...]

    @classmethod
    def of(cls, columns: Floats) -> Scaling:
        """Learn from the expanded training rows."""
        filled = np.where(np.isnan(columns).all(axis=0), 0.0, columns)
        spread = np.nanstd(filled, axis=0)
        return cls(tuple(np.nanmean(filled, axis=0).tolist()), tuple(np.where(spread > 1e-12, spread, 1.0).tolist()))

    def apply(self, columns: Floats) -> Floats:
        """Standardise columns; missing values become 0."""
        scaled = (columns - np.asarray(self.means)) / np.asarray(self.deviations)
        return np.where(np.isnan(scaled), 0.0, scaled)


def smoothed(purchases: float, sessions: float) -> float:
    """The share that buys, with half a purchase and half a session without one added."""
    # So a share of 0 or 1 of a few sessions is not taken for certainty.
    return (float(purchases) + 0.5) / (float(sessions) + 1)


def at_share(chance: Floats, share: float, was: float = 0.5) -> Floats:
    """Bring chances from one share of purchases to another (Bayes: the odds change by a factor)."""
    buys, buys_not = chance * share / was, (1 - chance) * (1 - share) / (1 - was)
    return buys / (buys + buys_not)


# The classifiers of the thesis: of one step, balanced, made by scikit-learn.

MODELS = ("rf", "lr", "knn", "svm", "mlp", "gbdt")
TREES = ("rf", "gbdt")
TITLES = {"rf": "RF", "lr": "LR", "knn": "KNN", "svm": "SVM", "mlp": "neural", "gbdt": "GBDT"}


@dataclass(frozen=True)
class FittedClassifier:
    """A classifier of one step."""

    model: str  # one of `MODELS`
    estimator: Any  # scikit-learn's; None where every feature had one value only
    share: float  # the share of training sessions that bought
    scaling: Scaling | None = None  # what standardising learnt, for models that need it
    numbers: dict[str, float] = field(default_factory=dict)  # slope and offset of the sigmoid over an SVM's margins
    # The share of sessions that buy where the classifier is used; None where it is used on sessions like those of
    # training.
    base_rate: float | None = None

    def balanced(self, learnt: LearntFeatures, matrix: Floats) -> Floats:
        """(n,) chance of a purchase if half of the sessions bought; one half or more counts as a purchase."""
        if self.estimator is None:
            return np.full(len(matrix), 0.5)
        columns = for_trees(matrix) if self.scaling is None else self.scaling.apply(expanded(learnt, matrix))
        if self.model == "svm":
            return _sigmoid(self.numbers["slope"] * self.estimator.decision_function(columns) + self.numbers["offset"])
        chance: Floats = self.estimator.predict_proba(columns)[:, 1]
        return at_share(chance, 0.5, self.share) if self.model == "knn" else chance

    def probability(self, learnt: LearntFeatures, matrix: Floats) -> Floats:
        """(n,) chance of a purchase at the base rate, or else at the share of purchases of the training sessions."""
        return at_share(self.balanced(learnt, matrix), self.share if self.base_rate is None else self.base_rate)


def fit(model: str, learnt: LearntFeatures, matrix: Floats, purchase: Bools, *, seed: int = 0) -> FittedClassifier:
    """Fit one of `MODELS` to (n, features) of training rows (NaN: no value) and (n,) whether each holds an order."""
    require("sklearn", extra="sessions", purpose="Predicting purchases")
    share, columns, scaling = float(purchase.mean()), for_trees(matrix), None
    if (columns == columns[:1]).all():
        return FittedClassifier(model, None, share)
    if model not in TREES:
        columns = expanded(learnt, matrix)
        scaling = Scaling.of(columns)
        columns = scaling.apply(columns)
    estimator, numbers = _estimator(model, seed, *columns.shape), {}
    if model == "mlp":
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "did not converge" after the last epoch: the best epoch is used
            estimator.fit(columns, purchase, sample_weight=np.where(purchase, 0.5 / share, 0.5 / (1 - share)))
    else:
        estimator.fit(columns, purchase)
    if model == "svm":  # the sigmoid over margins, on the training rows, classes balanced (Platt 1999)
        from sklearn.linear_model import LogisticRegression

        margins = estimator.decision_function(columns)
        line = LogisticRegression(C=1e6, class_weight="balanced").fit(margins[:, None], purchase)
        numbers = {"slope": float(line.coef_[0, 0]), "offset": float(line.intercept_[0])}
    return FittedClassifier(model, estimator, share, scaling, numbers)


def _estimator(model: str, seed: int, rows: int, columns: int) -> Any:
    """The estimator of scikit-learn, for a matrix of so many rows and columns."""
    seeded: dict[str, Any] = {"random_state": seed}
    weighted: dict[str, Any] = {"class_weight": "balanced"}
    if model == "svm":
        from sklearn.kernel_approximation import Nystroem
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        kernel = Nystroem(gamma=1 / columns, n_components=min(100, rows), **seeded)
        return make_pipeline(kernel, LinearSVC(dual=False, tol=1e-2, **weighted, **seeded))
    early: dict[str, Any] = {"early_stopping": True, "n_iter_no_change": 5, "max_iter": 60, "learning_rate_init": 3e-3}
    early |= {"hidden_layer_sizes": (32,), "batch_size": min(256, rows)}
    kinds: dict[str, tuple[str, str, dict[str, Any]]] = {
        "rf": ("ensemble", "RandomForestClassifier", {"max_depth": 8, "min_samples_leaf": 10, "max_samples": 0.5}),
        "lr": ("linear_model", "LogisticRegression", {"max_iter": 200}),
        "knn": ("neighbors", "KNeighborsClassifier", {"weights": "distance", "algorithm": "brute"}),
        "mlp": (
            "neural_network",
            "MLPClassifier",
            early,
        ),
        "gbdt": ("ensemble", "HistGradientBoostingClassifier", {"max_leaf_nodes": 8, "early_stopping": False}),
    }
    more = {"knn": {"n_neighbors": max(1, min(101, int(rows**0.5)))}, "mlp": seeded, "lr": weighted}
    module, kind, options = kinds[model]
    return getattr(import_module(f"sklearn.{module}"), kind)(**options, **more.get(model, weighted | seeded))


# The classifiers of live sessions: at every step they learn from all sessions that reach the step, long or short.


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

    # In a stream a page costs one step, however long the session is.

    @abstractmethod
    def start(self, n: int) -> Floats:
        """(n, hidden) the states of n sessions before step 0."""

    @abstractmethod
    def advance(self, states: Floats, examples: SessionExamples, step: int) -> tuple[Floats, Floats]:
        """From the (n, hidden) states of the step before, those after a step, and the (n,) chances there."""

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        states, chance = self.start(len(examples)), np.zeros(len(examples))
        for number in range(step + 1):
            states, chance = self.advance(states, examples, number)
        return chance


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-values))
    return result


# Logistic regression of one step, its strength chosen by cross-validation, as plain numbers.

STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""scikit-learn's C: small values hold weights near 0."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class StepLogistic(SavedNumbers):
    """A fitted regression."""

    scaling: Scaling  # what standardising learnt
    weights: Floats  # (columns,) of the standardised columns
    offset: float  # log-odds of a session whose columns are all at their means
    strength: float  # the one of `STRENGTHS` that was chosen

    @classmethod
    def fit(cls, learnt: LearntFeatures, matrix: Floats, purchase: Bools, fold: Ints) -> StepLogistic:
        """Choose the strength, then fit all rows."""
        # matrix: (n, features) NaN where a value is missing.
        # purchase: (n,) whether each session holds an order; both outcomes must occur.
        # fold: (n,) the fold of each session.
        from sklearn.linear_model import LogisticRegression

        columns = expanded(learnt, matrix)
        scaling = Scaling.of(columns)
        scaled = scaling.apply(columns)

        def fitted(rows: Bools, strength: float) -> tuple[Floats, float]:
            model = LogisticRegression(C=strength, max_iter=300).fit(scaled[rows], purchase[rows])
            return model.coef_[0], float(model.intercept_[0])

        def loss(strength: float) -> float:
            """Log loss of the folds, each predicted from the others; without those whose others have one outcome."""
            total = 0.0
            for test in (fold == number for number in range(FOLDS)):
                if test.any() and purchase[~test].any() and not purchase[~test].all():
                    weights, offset = fitted(~test, strength)
                    log_odds = scaled[test] @ weights + offset
                    total += float(np.logaddexp(0, np.where(purchase[test], -log_odds, log_odds)).sum())
            return total

        strength = STRENGTHS[int(np.argmin([loss(strength) for strength in STRENGTHS]))]
        return cls(scaling, *fitted(np.ones(len(scaled), bool), strength), strength)

    def log_odds(self, learnt: LearntFeatures, matrix: Floats) -> Floats:
        """(n,) log-odds of a purchase."""
        scaled = self.scaling.apply(expanded(learnt, matrix))
        total: Floats = (scaled * self.weights).sum(axis=1) + self.offset  # a row's sum depends on no other row
        return total


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
        shape = (len(nodes), max(map(len, nodes)))
        column, left, right = (np.zeros(shape, np.int64) for _ in range(3))
        threshold, value = np.zeros(shape), np.zeros(shape)
        for number, tree in enumerate(nodes):
            leaf, own, row = tree["is_leaf"].astype(bool), np.arange(len(tree)), slice(0, len(tree))
            column[number, row] = np.where(leaf, 0, tree["feature_idx"])
            threshold[number, row] = np.where(leaf, 0.0, tree["num_threshold"])
            left[number, row] = np.where(leaf, own, tree["left"])
            right[number, row] = np.where(leaf, own, tree["right"])
            value[number, row] = np.where(leaf, tree["value"], 0.0)
        start, depth = float(model._baseline_prediction[0, 0]), max(int(tree["depth"].max()) for tree in nodes)
        return cls(start, column, threshold, left, right, value, depth)

    def log_odds(self, columns: Floats) -> Floats:
        """(n,) log-odds of a purchase, of (n, features) as in `fit`."""
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


@dataclass(frozen=True)
class LiveModel(LiveClassifier):
    """A regression for each step, trees of all steps, or the mean of their log-odds."""

    FEATURES = LIVE_FEATURES

    learnt: LearntFeatures
    rates: tuple[float, ...]
    regressions: tuple[StepLogistic | None, ...]  # for each step; None where there is none
    trees: BoostedTrees | None  # of all steps; None where there are none

    @classmethod
    def fit(cls, classifier: str, examples: SessionExamples, rows: Bools, *, seed: int = 0) -> Self:
        """Learn "lr", "gbdt" or "blend", both, from the sessions of a mask."""
        learnt = LearntFeatures.of(LIVE_FEATURES, examples, rows)
        people, fold = people_of(examples), np.full(len(examples), -1)
        names, group = np.unique(people[rows], return_inverse=True)
        texts = group_names(people, examples)
        fold[rows] = assign_folds(group, [texts[name] for name in names], examples.purchase[rows], FOLDS, seed)
        regressions: list[StepLogistic | None] = []
        matrices: list[Floats] = []
        outcomes: list[Bools] = []
        for step in range(STEPS + 1):
            reached = rows & (examples.reached >= step)
            purchase = examples.purchase[reached]
            if not len(purchase):
                break
            matrix = learnt.matrix(examples, step)[reached]
            fits = classifier != "gbdt" and bool(purchase.any()) and not bool(purchase.all())
            regressions.append(StepLogistic.fit(learnt, matrix, purchase, fold[reached]) if fits else None)
            matrices.append(matrix)
            outcomes.append(purchase)
        trees = None
        if classifier != "lr" and sum(map(len, outcomes)) >= 2 * LEAF_ROWS:
            trees = BoostedTrees.fit(for_trees(np.concatenate(matrices)), np.concatenate(outcomes), seed=seed)
        rates = tuple(smoothed(purchase.sum(), len(purchase)) for purchase in outcomes)
        return cls(learnt, rates, tuple(regressions), trees)

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        matrix = self.learnt.matrix(examples, step)
        regression, parts = self.regressions[step], []
        if regression is not None:
            parts.append(regression.log_odds(self.learnt, matrix))
        if self.trees is not None:
            parts.append(self.trees.log_odds(for_trees(matrix)))
        if not parts:
            return np.full(len(examples), self.rates[step])
        log_odds: Any = sum(parts)
        return _sigmoid(log_odds / len(parts))


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

    learnt: LearntFeatures
    scaling: Scaling  # of their columns
    rates: tuple[float, ...]
    epochs: int  # how long it was trained
    # "input" (3h, c), "recurrent" (3h, h), their biases (3h,), "output" (h,) and "offset" ().
    weights: dict[str, Floats]

    @classmethod
    def fit(cls, classifier: str, examples: SessionExamples, rows: Bools, *, seed: int = 0) -> Self:
        """Learn from the sessions of a mask."""
        require("torch", extra="torch", purpose='The classifier "gru"')
        learnt = LearntFeatures.of(GRU_FEATURES, examples, rows)
        reached, purchase = examples.reached[rows], examples.purchase[rows]
        outcomes = [purchase[reached >= step] for step in range(STEPS + 1)]
        rates = tuple(smoothed(bought.sum(), len(bought)) for bought in outcomes if len(bought))
        columns = [expanded(learnt, learnt.matrix(examples, step)[rows]) for step in range(len(rates))]
        scaling = Scaling.of(np.concatenate([each[reached >= step] for step, each in enumerate(columns)]))
        inputs = np.stack([scaling.apply(each) for each in columns], axis=1)
        used = np.arange(len(rates)) <= reached[:, None]
        later = examples.began[rows] >= np.quantile(examples.began[rows], 1 - STOP_SHARE)
        _, epochs = _train(inputs, used, purchase, ~later, later, seed=seed, epochs=MAX_EPOCHS)
        weights, _ = _train(inputs, used, purchase, used[:, 0], None, seed=seed, epochs=epochs)
        return cls(learnt, scaling, rates, epochs, weights)

    def start(self, n: int) -> Floats:
        """(n, h) the states of n sessions before step 0."""
        return np.zeros((n, len(self.weights["output"])))

    def advance(self, states: Floats, examples: SessionExamples, step: int) -> tuple[Floats, Floats]:
        """From the (n, h) states of the step before, those after a step, and the (n,) chances there."""
        values = self.weights
        columns = self.scaling.apply(expanded(self.learnt, self.learnt.matrix(examples, step)))
        from_input = columns @ values["input"].T + values["input_bias"]
        from_state = states @ values["recurrent"].T + values["recurrent_bias"]
        (reset_i, update_i, new_i), (reset_s, update_s, new_s) = (
            np.split(part, 3, axis=1) for part in (from_input, from_state)
        )
        reset, update = _sigmoid(reset_i + reset_s), _sigmoid(update_i + update_s)
        after: Floats = (1 - update) * np.tanh(new_i + reset * new_s) + update * states
        return after, _sigmoid(after @ values["output"] + values["offset"])


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


CLASSIFIERS: dict[str, type[LiveClassifier]] = {"blend": LiveModel, "lr": LiveModel, "gbdt": LiveModel, "gru": GruModel}
"""The first is the default."""


# How good predictions are: F1 of the purchase class, ROC-AUC, PR-AUC, and how far probabilities can be believed.

MEASURES = ("f1", "roc_auc", "pr_auc", "brier", "ece")
"""F1 is the thesis's; of the two last, less is better."""

_BINS = 10


def measure_predictions(balanced: Floats, share: float, purchase: Bools) -> dict[str, float]:
    """All `MEASURES`."""
    # The thesis does not say of which class its F1 is. It is the purchase class here, as usual for a rare class.
    # balanced: (n,) chances if half of the sessions bought. F1 counts a chance of one half or more as a purchase.
    # purchase: (n,) whether each session holds an order.
    from sklearn.metrics import average_precision_score, roc_auc_score

    has_both = bool(purchase.any()) and not bool(purchase.all())
    chance = at_share(balanced, share)
    return {
        "f1": f1(balanced >= 0.5, purchase),
        "roc_auc": float(roc_auc_score(purchase, balanced)) if has_both else float("nan"),
        "pr_auc": float(average_precision_score(purchase, balanced)) if has_both else float("nan"),
        "brier": float(np.mean((chance - purchase) ** 2)),
        "ece": calibration_error(chance, purchase),
    }


def all_bought(share: float) -> dict[str, float]:
    """What calling every session a purchase scores where `share` of them are: F1 = 2 · share / (1 + share)."""
    # It ranks nothing, so its ROC-AUC is ½ and its PR-AUC the share; it names no chance that could be off. A model
    # whose F1 is no higher has told nothing of the sessions.
    return {"f1": 2 * share / (1 + share), "roc_auc": 0.5, "pr_auc": share}


def f1(predicted: Bools, purchase: Bools) -> float:
    """2 · hits / (predicted + bought); 0 where nothing was predicted and nothing bought."""
    total = int(predicted.sum()) + int(purchase.sum())
    return 2 * int((predicted & purchase).sum()) / total if total else 0.0


def calibration_error(chance: Floats, purchase: Bools) -> float:
    """Expected calibration error: |mean chance − share of purchases| over ten equally wide bins, by their size."""
    bins = np.minimum((chance * _BINS).astype(np.int64), _BINS - 1)
    off = np.bincount(bins, chance - purchase, minlength=_BINS)
    return float(np.abs(off).sum() / len(chance))


# Which sessions are trained on and which are predicted: by person, by time, or by chance (to see how that flatters).

Scheme = Literal["grouped", "temporal", "ungrouped"]
SCHEMES: tuple[Scheme, ...] = ("grouped", "temporal", "ungrouped")

PAST = 0.8
"""The share of sessions, in the order of their beginning, that is the past of the temporal split."""


@dataclass(frozen=True, eq=False)
class TrainTestSplit:
    """Masks over examples; an example may be in neither."""

    train: Bools
    test: Bools


def splits(examples: SessionExamples, scheme: Scheme, *, folds: int = 10, seed: int = 0) -> list[TrainTestSplit]:
    """The splits of a scheme; one for "temporal"."""
    if scheme == "temporal":
        return [temporal_split(examples)]
    if scheme == "grouped":
        groups = people_of(examples)
    else:
        names = [f"{visitor}/{session}" for visitor, session in zip(examples.visitor, examples.session, strict=True)]
        groups = np.unique(names, return_inverse=True)[1]
    fold = assign_folds(groups, group_names(groups, examples), examples.purchase, folds, seed)
    return [TrainTestSplit(fold != test_fold, fold == test_fold) for test_fold in range(folds)]


def temporal_split(
    examples: SessionExamples, *, past: float = PAST, cut: int | None = None, idle_minutes: float = IDLE_MINUTES
) -> TrainTestSplit:
    """Train on sessions that were over when the later ones began, and test on those later ones."""
    cut = int(np.quantile(examples.began, past, method="lower")) if cut is None else cut
    return TrainTestSplit(examples.ended + round(idle_minutes * 60e6) < cut, examples.began >= cut)


def people_of(examples: SessionExamples) -> Ints:
    """(n,) a number for the person behind each session: visitors and customers ever seen together are one."""
    import pyarrow as pa

    from visir.evaluation.folds import tied_codes

    return tied_codes([pa.array(names, pa.string()) for names in (examples.visitor, examples.customer)])


def assign_folds(groups: Ints, names: Sequence[str], purchase: Bools, folds: int, seed: int) -> Ints:
    """(n,) the fold of each session."""
    # groups: (n,) the group of each session; a group is in one fold.
    # purchase: (n,) whether each session holds an order.
    if len(names) < folds:
        raise VisirError(
            f"{len(names):,} people cannot be dealt into {folds} folds.",
            hint="fewer folds: --folds",
            code="people-cannot-dealt-folds",
        )
    buys = np.bincount(groups, purchase, minlength=len(names)) > 0
    mixed = [hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).hexdigest() for name in names]
    order = sorted(range(len(names)), key=lambda group: (not buys[group], mixed[group]))
    fold = np.empty(len(names), np.int64)
    fold[order] = np.arange(len(names)) % folds
    return fold[groups]


def group_names(groups: Ints, examples: SessionExamples) -> list[str]:
    """Name each group (0, 1, …) by its first session in the order of visitors."""
    names: dict[int, str] = {}
    for group, visitor, session in zip(groups.tolist(), examples.visitor, examples.session.tolist(), strict=True):
        name = f"{visitor}/{session}"
        names[group] = min(names.get(group, name), name)
    return [names[group] for group in range(len(names))]
