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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from visir.errors import require
from visir.sessions.features import FeatureState, SessionFeature
from visir.sessions.prediction.encoding import Scaling, expanded, for_trees
from visir.sessions.records import Bools, Floats


def _rf(seed: int, rows: int, columns: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        100, max_depth=8, min_samples_leaf=10, max_samples=0.5, class_weight="balanced", random_state=seed
    )


def _lr(seed: int, rows: int, columns: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight="balanced", max_iter=200)


def _knn(seed: int, rows: int, columns: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(max(1, min(101, int(rows**0.5))), weights="distance", algorithm="brute")


def _svm(seed: int, rows: int, columns: int) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    kernel = Nystroem(gamma=1 / columns, n_components=min(100, rows), random_state=seed)
    return make_pipeline(kernel, LinearSVC(class_weight="balanced", dual=False, tol=1e-2, random_state=seed))


def _mlp(seed: int, rows: int, columns: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (32,),
        batch_size=min(256, rows),
        learning_rate_init=3e-3,
        early_stopping=True,
        n_iter_no_change=5,
        max_iter=60,
        random_state=seed,
    )


def _gbdt(seed: int, rows: int, columns: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_leaf_nodes=8, max_iter=100, early_stopping=False, class_weight="balanced", random_state=seed
    )


_MAKERS: dict[str, Callable[[int, int, int], Any]] = {
    "rf": _rf,
    "lr": _lr,
    "knn": _knn,
    "svm": _svm,
    "mlp": _mlp,
    "gbdt": _gbdt,
}
MODELS = tuple(_MAKERS)
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
    """Fit one of `MODELS`.

    Args:
        model: Its name.
        features: The features of the columns.
        states: What each feature learnt.
        matrix: (n, features) of the training rows, NaN where a value is missing.
        purchase: (n,) whether each session holds an order.
        seed: Of the model.
    """
    require("sklearn", extra="sessions", purpose="Predicting purchases")
    share = float(purchase.mean())
    plain = for_trees(matrix)
    if (plain == plain[:1]).all():
        return FittedClassifier(model, None, share)
    if model in TREES:
        return FittedClassifier(model, _MAKERS[model](seed, *plain.shape).fit(plain, purchase), share)
    columns = expanded(features, states, matrix)
    scaling = Scaling.of(columns)
    scaled = scaling.apply(columns)
    estimator = _MAKERS[model](seed, *scaled.shape)
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
