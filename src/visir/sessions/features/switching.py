"""Switch probability: how likely customers leave the present device before they buy.

From the matrix of Figure 6.5: transitions from the device of the session before a purchase session to that of the
purchase session, over the training sessions that bought and have one before. The probability is 1 - P(same device),
smoothed by one transition to each device.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.chains import SMOOTHING
from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Bools, CodedTexts, Floats, SessionExamples


def _learn(examples: SessionExamples, rows: Bools) -> FeatureState:
    earlier = examples.earlier
    used = np.flatnonzero(rows & examples.purchase & (earlier.counts > 0))
    last = CodedTexts(earlier.device.names, earlier.device.codes[earlier.offsets[used + 1] - 1])
    now = CodedTexts(examples.device.names, examples.device.codes[used])
    names = sorted({*last.used_names(), *now.used_names()})
    counts = np.full((len(names), len(names)), SMOOTHING)
    before, after = last.codes_in(names, -1, -1), now.codes_in(names, -1, -1)
    both_known = (before >= 0) & (after >= 0)
    np.add.at(counts, (before[both_known], after[both_known]), 1.0)
    stays = counts.diagonal() / counts.sum(axis=1) if names else np.zeros(0)
    overall = (counts.trace() / counts.sum()) if names else 0.5
    return {"names": names, "leaves": (1 - stays).tolist(), "overall": float(1 - overall)}


def _probability(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    names = state["names"]
    position = examples.known_device(step).codes_in(names, missing=len(names), unseen=len(names))
    leaves = np.asarray([*state["leaves"], state["overall"]], np.float64)[position]
    return np.where(examples.is_known(step), leaves, np.nan)


SWITCH = SessionFeature("switch probability", "history", False, False, "number", _probability, _learn)
