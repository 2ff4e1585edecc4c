"""The six classifiers of thesis section 6.5.1, with class weights inversely proportional to class frequencies.

Each gives chances as if half of the sessions bought (the effect of such weights). One half or more counts as a
purchase, which is the threshold of F1. `FittedClassifier.probability` brings its answer back to the share that really
buys.

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
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np

from visir.errors import VisirError, require
from visir.sessions.definition import IDLE_MINUTES
from visir.sessions.features import FeatureState, SessionFeature
from visir.sessions.table_labels import Bools, Floats, Ints, SessionExamples

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


@dataclass(frozen=True)
class Scaling(SavedNumbers):
    """What standardising learnt."""

    means: tuple[float, ...]  # mean of each column over the training rows
    # Standard deviation of each column over the training rows; 1 for a column without spread.
    deviations: tuple[float, ...]

    @classmethod
    def of(cls, columns: Floats) -> Scaling:
        """Learn from the expanded training rows."""
        empty = np.isnan(columns).all(axis=0)
        filled = np.where(empty, 0.0, columns)
        spread = np.nanstd(filled, axis=0)
        return cls(tuple(np.nanmean(filled, axis=0).tolist()), tuple(np.where(spread > 1e-12, spread, 1.0).tolist()))

    def apply(self, columns: Floats) -> Floats:
        """Standardise columns; missing values become 0."""
        scaled = (columns - np.asarray(self.means)) / np.asarray(self.deviations)
        return np.where(np.isnan(scaled), 0.0, scaled)


def expanded(features: Sequence[SessionFeature], states: Sequence[FeatureState], matrix: Floats) -> Floats:
    """The columns of features for models that add or measure distances; see the module."""
    # matrix: (n, features) values, NaN where one is missing.
    # Returns: (n, columns), NaN where a value is missing.
    columns: list[Floats] = []
    for feature, state, values in zip(features, states, matrix.T, strict=True):
        if feature.kind == "category":
            codes = np.where(np.isnan(values), len(state["names"]), values)
            columns += [(codes == code).astype(np.float64) for code in range(len(state["names"]) + 1)]
        elif feature.kind == "cycle":
            angle = 2 * np.pi * values / feature.period
            columns += [np.sin(angle), np.cos(angle)]
        else:
            columns += [np.log1p(values) if feature.kind == "skewed" else values, np.isnan(values).astype(np.float64)]
    return np.ascontiguousarray(np.array(columns).T)


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
    def fit(
        cls,
        features: Sequence[SessionFeature],
        states: Sequence[FeatureState],
        matrix: Floats,
        purchase: Bools,
        fold: Ints,
    ) -> StepLogistic:
        """Choose the strength, then fit all rows."""
        # matrix: (n, features) NaN where a value is missing.
        # purchase: (n,) whether each session holds an order; both outcomes must occur.
        # fold: (n,) the fold of each session.
        columns = expanded(features, states, matrix)
        scaling = Scaling.of(columns)
        scaled = scaling.apply(columns)
        losses = [_loss(scaled, purchase, fold, strength) for strength in STRENGTHS]
        strength = STRENGTHS[int(np.argmin(losses))]
        weights, offset = _fitted(scaled, purchase, strength)
        return cls(scaling, weights, offset, strength)

    def log_odds(self, features: Sequence[SessionFeature], states: Sequence[FeatureState], matrix: Floats) -> Floats:
        """(n,) log-odds of a purchase."""
        scaled = self.scaling.apply(expanded(features, states, matrix))
        total: Floats = (scaled * self.weights).sum(axis=1) + self.offset  # a row's sum depends on no other row
        return total


def _fitted(scaled: Floats, purchase: Bools, strength: float) -> tuple[Floats, float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, max_iter=300).fit(scaled, purchase)
    return model.coef_[0], float(model.intercept_[0])


def _loss(scaled: Floats, purchase: Bools, fold: Ints, strength: float) -> float:
    """Log loss of the folds, each predicted from the others; a fold whose others have one outcome is left out."""
    total = 0.0
    for number in range(FOLDS):
        test = fold == number
        learnt = purchase[~test]
        if not test.any() or not learnt.any() or learnt.all():
            continue
        weights, offset = _fitted(scaled[~test], learnt, strength)
        log_odds = scaled[test] @ weights + offset
        total += float(np.logaddexp(0, np.where(purchase[test], -log_odds, log_odds)).sum())
    return total


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

    def balanced(self, features: Sequence[SessionFeature], states: Sequence[FeatureState], matrix: Floats) -> Floats:
        """(n,) chance of a purchase if half of the sessions bought; one half or more counts as a purchase."""
        if self.estimator is None:
            return np.full(len(matrix), 0.5)
        columns = for_trees(matrix)
        if self.scaling is not None:
            columns = self.scaling.apply(expanded(features, states, matrix))
        if self.model == "svm":
            margin = self.estimator.decision_function(columns)
            chance: Floats = 1 / (1 + np.exp(-(self.numbers["slope"] * margin + self.numbers["offset"])))
            return chance
        chance_of_model: Floats = self.estimator.predict_proba(columns)[:, 1]
        return at_share(chance_of_model, 0.5, self.share) if self.model == "knn" else chance_of_model

    def probability(self, features: Sequence[SessionFeature], states: Sequence[FeatureState], matrix: Floats) -> Floats:
        """(n,) chance of a purchase at the base rate, or else at the share of purchases of the training sessions."""
        share = self.share if self.base_rate is None else self.base_rate
        return at_share(self.balanced(features, states, matrix), share)


def _estimator(model: str, seed: int, rows: int, columns: int) -> Any:
    """The estimator of scikit-learn, for a matrix of so many rows and columns."""
    weights = {"class_weight": "balanced"}
    if model == "rf":
        from sklearn.ensemble import RandomForestClassifier

        limits = {"max_depth": 8, "min_samples_leaf": 10, "max_samples": 0.5}
        return RandomForestClassifier(100, **limits, **weights, random_state=seed)
    if model == "lr":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(**weights, max_iter=200)
    if model == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(max(1, min(101, int(rows**0.5))), weights="distance", algorithm="brute")
    if model == "svm":
        from sklearn.kernel_approximation import Nystroem
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        kernel = Nystroem(gamma=1 / columns, n_components=min(100, rows), random_state=seed)
        return make_pipeline(kernel, LinearSVC(**weights, dual=False, tol=1e-2, random_state=seed))
    if model == "mlp":
        from sklearn.neural_network import MLPClassifier

        steps = {"batch_size": min(256, rows), "learning_rate_init": 3e-3, "max_iter": 60}
        return MLPClassifier((32,), **steps, early_stopping=True, n_iter_no_change=5, random_state=seed)
    from sklearn.ensemble import HistGradientBoostingClassifier

    limits = {"max_leaf_nodes": 8, "max_iter": 100, "early_stopping": False}
    return HistGradientBoostingClassifier(**limits, **weights, random_state=seed)


def at_share(chance: Floats, share: float, was: float = 0.5) -> Floats:
    """Bring chances from one share of purchases to another (Bayes: the odds change by a factor)."""
    buys, buys_not = chance * share / was, (1 - chance) * (1 - share) / (1 - was)
    return buys / (buys + buys_not)


def fit(
    model: str,
    features: Sequence[SessionFeature],
    states: Sequence[FeatureState],
    matrix: Floats,
    purchase: Bools,
    *,
    seed: int = 0,
) -> FittedClassifier:
    """Fit one of `MODELS` to (n, features) of training rows (NaN: no value) and (n,) whether each holds an order."""
    require("sklearn", extra="sessions", purpose="Predicting purchases")
    share = float(purchase.mean())
    plain = for_trees(matrix)
    if (plain == plain[:1]).all():
        return FittedClassifier(model, None, share)
    if model in TREES:
        return FittedClassifier(model, _estimator(model, seed, *plain.shape).fit(plain, purchase), share)
    columns = expanded(features, states, matrix)
    scaling = Scaling.of(columns)
    scaled = scaling.apply(columns)
    estimator = _estimator(model, seed, *scaled.shape)
    if model == "mlp":
        return FittedClassifier(model, _fit_mlp(estimator, scaled, purchase, share), share, scaling)
    estimator.fit(scaled, purchase)
    numbers = _platt(estimator.decision_function(scaled), purchase) if model == "svm" else {}
    return FittedClassifier(model, estimator, share, scaling, numbers)


def _fit_mlp(estimator: Any, scaled: Floats, purchase: Bools, share: float) -> Any:
    import warnings

    weights = np.where(purchase, 0.5 / share, 0.5 / (1 - share))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "did not converge" after the last epoch: the best epoch is used all the same
        return estimator.fit(scaled, purchase, sample_weight=weights)


def _platt(margins: Floats, purchase: Bools) -> dict[str, float]:
    """The sigmoid over margins, on the training rows, classes balanced (Platt 1999)."""
    from sklearn.linear_model import LogisticRegression

    line = LogisticRegression(C=1e6, class_weight="balanced").fit(margins[:, None], purchase)
    return {"slope": float(line.coef_[0, 0]), "offset": float(line.intercept_[0])}


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
    """(n,) a number for the person behind each session."""
    # Visitors and customers that were ever seen together are one person.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    visitors, visitor = np.unique(examples.visitor.astype(str), return_inverse=True)
    named = np.array([name is not None for name in examples.customer])
    customers, customer = np.unique(examples.customer[named].astype(str), return_inverse=True)
    nodes = len(visitors) + len(customers)
    edges = (np.ones(named.sum()), (visitor[named], len(visitors) + customer))
    parts = connected_components(coo_array(edges, shape=(nodes, nodes)), directed=False)[1]
    people: Ints = parts[visitor].astype(np.int64)
    return people


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
