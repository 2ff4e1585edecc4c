"""What the customer did before: orders, days since the last one, sessions and devices so far.

They are counted over sessions that were over when this one began (`records.EarlierSessions`), as far as the log goes
back. Days are counted from the end of the last session that held an order; a customer without one has no value. A
session whose customer is not known yet has none either.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Floats, SessionExamples

_DAY = 86_400e6


def _orders(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    earlier = examples.earlier
    return _if_known(examples, step, np.bincount(earlier.owner, earlier.orders, minlength=len(examples)))


def _days(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    earlier = examples.earlier
    bought = earlier.orders > 0
    last = np.full(len(examples), -1, np.int64)
    np.maximum.at(last, earlier.owner[bought], earlier.ended[bought])
    return _if_known(examples, step, np.where(last >= 0, (examples.began - last) / _DAY, np.nan))


def _sessions(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return _if_known(examples, step, examples.earlier.counts)


def _devices(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    earlier = examples.earlier
    with_device = earlier.device.codes >= 0
    names = max(len(earlier.device.names), 1)
    pairs = np.unique(earlier.owner[with_device] * names + earlier.device.codes[with_device])
    return _if_known(examples, step, np.bincount(pairs // names, minlength=len(examples)))


def _if_known(examples: SessionExamples, step: int, values: object) -> Floats:
    return np.where(examples.is_known(step), np.asarray(values, np.float64), np.nan)


ORDERS = SessionFeature("number of orders", "history", False, True, "skewed", _orders)
DAYS = SessionFeature("days since last purchase", "history", False, True, "skewed", _days)
SESSIONS = SessionFeature("number of sessions", "history", False, False, "skewed", _sessions)
DEVICES = SessionFeature("number of devices", "history", False, False, "skewed", _devices)
