"""Logistic regression of one step, its strength chosen by cross-validation, as plain numbers.

Few sessions buy, so how far weights may go decides between a model and noise. Of `STRENGTHS` the one with the least log
loss over five folds of persons is taken; the weakest of them is nearly the base rate. No class weights: the chances are
as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.sessions.features import FeatureState, SessionFeature
from visir.sessions.prediction.encoding import Scaling, expanded
from visir.sessions.records import Bools, Floats, Ints

STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""scikit-learn's C: small values hold weights near 0."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class StepLogistic:
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

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a saved model."""
        return {
            "scaling": self.scaling.to_json(),
            "weights": self.weights.tolist(),
            "offset": self.offset,
            "strength": self.strength,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> StepLogistic:
        """Back from `to_json`."""
        weights = np.asarray(values["weights"], np.float64)
        return cls(Scaling.from_json(values["scaling"]), weights, float(values["offset"]), float(values["strength"]))


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
