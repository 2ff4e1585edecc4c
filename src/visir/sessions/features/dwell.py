"""How long pages are looked at: mean and standard deviation of the dwell times so far, in seconds.

A page's dwell time is the time until the next one opens, so at step k, just after the k-th page opened, k - 1 are
known. No value before step 2. σ is the population's, 0 for one dwell time.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Floats, SessionExamples


def _mean(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    if step < 2:
        return np.full(len(examples), np.nan)
    return (examples.opened[:, step - 1] - examples.opened[:, 0]) / (step - 1) / 1e6


def _deviation(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    mean, total = _mean(examples, step, state), np.zeros(len(examples))
    for k in range(1, step):  # column by column: the sum of a row does not depend on how many rows there are
        total += ((examples.opened[:, k] - examples.opened[:, k - 1]) / 1e6 - mean) ** 2
    deviation: Floats = np.sqrt(total / max(step - 1, 1))
    return np.where(np.isnan(mean), np.nan, deviation)


MEAN = SessionFeature("current page dwell time, mean", "session", True, True, "skewed", _mean)
DEVIATION = SessionFeature("current page dwell time, σ", "session", True, True, "skewed", _deviation)
