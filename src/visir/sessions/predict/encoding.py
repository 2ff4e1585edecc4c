"""Features as models read them: as they are for trees, as standardised columns for what adds or measures distances.

Trees read "no value" as `MISSING`, below every value there is. The others get skewed features (times, counts) as
log(1 + x), hours and weekdays as a point on a circle, a category as one column per name and one for "none or new", and
a column that says where a value is missing; then every column is standardised by the training rows, and a missing
value stands at the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.sessions.features import FeatureState, SessionFeature
from visir.sessions.records import Floats

MISSING = -1000.0


def for_trees(matrix: Floats) -> Floats:
    """One column per feature."""
    return np.where(np.isnan(matrix), MISSING, matrix)


@dataclass(frozen=True)
class Scaling:
    """What standardising learnt: mean and standard deviation of each column; names of categories by feature."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @classmethod
    def of(cls, columns: Floats) -> Scaling:
        """From the expanded training rows; a column without spread is left at 0."""
        empty = np.isnan(columns).all(axis=0)
        told = np.where(empty, 0.0, columns)
        spread = np.nanstd(told, axis=0)
        return cls(tuple(np.nanmean(told, axis=0).tolist()), tuple(np.where(spread > 1e-12, spread, 1.0).tolist()))

    def apply(self, columns: Floats) -> Floats:
        """Standardised; missing values at 0."""
        scaled = (columns - np.asarray(self.means)) / np.asarray(self.deviations)
        return np.where(np.isnan(scaled), 0.0, scaled)

    def to_json(self) -> dict[str, Any]:
        """For a saved model."""
        return {"means": list(self.means), "deviations": list(self.deviations)}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Scaling:
        """Back from `to_json`."""
        return cls(tuple(told["means"]), tuple(told["deviations"]))


def expanded(features: Sequence[SessionFeature], states: Sequence[FeatureState], matrix: Floats) -> Floats:
    """(n, more columns) of (n, features): see the module. NaN where a value is missing."""
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
    return np.column_stack(columns)
