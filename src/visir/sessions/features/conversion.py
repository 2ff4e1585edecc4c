"""Device conversion rate: the share of training sessions on the session's device that bought.

Smoothed by one session at the rate of all devices, which is also the rate of a device that training never saw. The
thesis standardises the rates over devices; that changes no comparison of sessions, so this is the plain rate.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Bools, Floats, SessionExamples


def _learn(examples: SessionExamples, rows: Bools) -> FeatureState:
    buys = examples.purchase[rows]
    overall = float(buys.mean())
    names = examples.device.used_names(rows)
    position = examples.device.codes_in(names, missing=len(names), unseen=len(names))[rows]
    sessions = np.bincount(position, minlength=len(names) + 1)
    bought = np.bincount(position, buys, minlength=len(names) + 1)
    return {"names": names, "rates": ((bought + overall) / (sessions + 1)).tolist()[:-1], "overall": overall}


def _rate(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    names = state["names"]
    position = examples.known_device(step).codes_in(names, missing=len(names), unseen=len(names))
    return np.asarray([*state["rates"], state["overall"]], np.float64)[position]


RATE = SessionFeature("device conversion rate", "session", False, False, "number", _rate, _learn)
