"""Features as models read them: as they are for trees, as standardised columns for what adds or measures distances.

Trees read "no value" as `MISSING`, below every value there is. The others get skewed features (times, counts) as
log(1 + x), hours and weekdays as a point on a circle, a category as a column per name and one for "none or new", and a
column that says where a value is missing. Then every column is standardised by the training rows, and a missing value
becomes the mean.
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
    """(n, features) for trees: `MISSING` in place of NaN."""
    return np.where(np.isnan(matrix), MISSING, matrix)


@dataclass(frozen=True)
class Scaling:
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

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a saved model."""
        return {"means": list(self.means), "deviations": list(self.deviations)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Scaling:
        """Back from `to_json`."""
        return cls(tuple(values["means"]), tuple(values["deviations"]))


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
