"""How long pages are looked at: mean and standard deviation of the dwell times so far, in seconds.

A page's dwell time is the time until the next one opens. Two readings of step k (`Sample.dwell_times`):

- "left pages" (default): step k is "right after" the k-th page opened (thesis 6.5.1), so k - 1 dwell times are known.
  No value before step 2.
- "current page": the feature is named after the current page, and section 6.5.4 explains the gain at step 1 by it. So
  the k-th page counts as left, and k dwell times are known: at step 1 one. A live answer can have this only when the
  next page is requested.

σ is the population's, 0 for one dwell time.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Floats, SessionExamples


def _known(examples: SessionExamples, step: int) -> int:
    """How many dwell times are known at a step."""
    return max(step - (0 if examples.current_page_left else 1), 0)


def _mean(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    known = _known(examples, step)
    if known == 0:
        return np.full(len(examples), np.nan)
    mean = (examples.opened[:, known] - examples.opened[:, 0]) / known / 1e6
    return np.where(examples.opened[:, known] < 0, np.nan, mean)  # a session that ends before has none


def _deviation(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    mean, total, known = _mean(examples, step, state), np.zeros(len(examples)), _known(examples, step)
    for k in range(1, known + 1):  # column by column: the sum of a row does not depend on how many rows there are
        total += ((examples.opened[:, k] - examples.opened[:, k - 1]) / 1e6 - mean) ** 2
    deviation: Floats = np.sqrt(total / max(known, 1))
    return np.where(np.isnan(mean), np.nan, deviation)


def _last(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    known = _known(examples, step)
    if known == 0:
        return np.full(len(examples), np.nan)
    last = (examples.opened[:, known] - examples.opened[:, known - 1]) / 1e6
    return np.where(examples.opened[:, known] < 0, np.nan, last)


MEAN = SessionFeature("current page dwell time, mean", "session", True, True, "skewed", _mean)
DEVIATION = SessionFeature("current page dwell time, σ", "session", True, True, "skewed", _deviation)
LAST = SessionFeature("dwell time of the page before", "session", True, False, "skewed", _last)
