"""What the random forest uses (Figure 6.6): impurity and permutation importance of each feature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from visir.sessions.features import FeatureState, SessionFeature
from visir.sessions.prediction.models import FittedClassifier
from visir.sessions.records import Bools, Floats


def impurity(fitted: FittedClassifier, features: Sequence[SessionFeature]) -> dict[str, float]:
    """Share of the decrease in impurity, summing to 1 (the thesis's reading, scikit-learn's default)."""
    # It is measured on training rows and favours features of many values (dwell times over device types).
    return {
        feature.name: float(value)
        for feature, value in zip(features, fitted.estimator.feature_importances_, strict=True)
    }


def permutation(
    fitted: FittedClassifier,
    features: Sequence[SessionFeature],
    states: Sequence[FeatureState],
    matrix: Floats,
    purchase: Bools,
    *,
    seed: int,
) -> dict[str, float]:
    """By how much ROC-AUC of the predicted sessions falls when a feature is exchanged between them at random."""
    # Of two features that say the same (device type and its conversion rate) each can replace the other, so both look
    # unimportant.
    # matrix: (n, features) of the predicted sessions.
    # purchase: (n,) whether each holds an order.
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    mixed = np.repeat(matrix[None], len(features) + 1, axis=0)  # the last one is left as it is
    for column in range(len(features)):
        mixed[column, :, column] = rng.permutation(matrix[:, column])
    chances = fitted.balanced(features, states, mixed.reshape(-1, len(features))).reshape(len(features) + 1, -1)
    areas = [float(roc_auc_score(purchase, column_chances)) for column_chances in chances]
    return {feature.name: areas[-1] - area for feature, area in zip(features, areas[:-1], strict=True)}
