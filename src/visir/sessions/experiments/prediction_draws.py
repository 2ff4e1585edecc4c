"""Draws of means over the folds of a prediction study: folds share most of what they are trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from visir.sessions.features import FEATURES
from visir.sessions.prediction.study import PredictionCell
from visir.studies.draws import Draws, few_units

Values = Mapping[str, float | None]
"""Label → value of one fold and step."""


def curve_draws(
    cells: Sequence[PredictionCell], name: str, read: Callable[[PredictionCell], Values]
) -> dict[str, Draws]:
    """Draws of the mean over folds of each label; a label that some fold lacks has none."""
    folds = sorted({cell.fold for cell in cells})
    values: dict[str, dict[int, float]] = {}
    for cell in cells:
        for label, value in read(cell).items():
            if value is not None:
                values.setdefault(label, {})[cell.fold] = value
    return _drawn({label: by_fold for label, by_fold in values.items() if len(by_fold) == len(folds)}, cells, name)


def importance_draws(cells: Sequence[PredictionCell], name: str) -> dict[str, Draws]:
    """Draws of each feature's share of the impurity importance, in percent, mean over steps and folds."""
    sums: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        for feature, share in cell.importance.get("impurity", {}).items():
            sums.setdefault(feature, {}).setdefault(cell.fold, []).append(100 * share)
    # A feature that is there at some steps only has its mean over those.
    means = {
        feature: {fold: float(np.mean(some)) for fold, some in by_fold.items()} for feature, by_fold in sums.items()
    }
    folds = {cell.fold for cell in cells}
    return _drawn({feature: by_fold for feature, by_fold in means.items() if by_fold.keys() == folds}, cells, name)


def static_share(cell: PredictionCell) -> float | None:
    """The share of the impurity importance that static features have, in percent."""
    impurity = cell.importance.get("impurity")
    if impurity is None:
        return None
    static = {feature.name for feature in FEATURES if not feature.dynamic}
    return 100 * sum(share for feature, share in impurity.items() if feature in static)


def _drawn(values: Mapping[str, Mapping[int, float]], cells: Sequence[PredictionCell], name: str) -> dict[str, Draws]:
    folds = sorted({cell.fold for cell in cells})
    if len(folds) < 2 or not values:
        return {}
    matrix = np.array([[by_fold[fold] for by_fold in values.values()] for fold in folds])
    ratio = float(np.mean([cell.test / cell.train for cell in cells]))
    drawn = matrix.mean(axis=0) + few_units(matrix, 1 / len(folds) + ratio, name)
    return dict(zip(values, drawn.T, strict=True))
