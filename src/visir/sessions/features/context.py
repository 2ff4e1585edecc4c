"""What the first request says: pages opened (none yet), channel, start hour, weekday, device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Bools, CodedTexts, Floats, SessionExamples


def _pages(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return np.full(len(examples), float(step))


def _hour(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return examples.hour.astype(np.float64)


def _weekday(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return examples.weekday.astype(np.float64) - 1


def _names(column: Callable[[SessionExamples], CodedTexts]) -> Callable[[SessionExamples, Bools], FeatureState]:
    def learn(examples: SessionExamples, rows: Bools) -> FeatureState:
        return {"names": column(examples).used_names(rows)}

    return learn


def _position(
    column: Callable[[SessionExamples, int], CodedTexts],
) -> Callable[[SessionExamples, int, FeatureState], Floats]:
    """The position among the names seen in training; NaN for no name or a new one."""

    def values(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
        position = column(examples, step).codes_in(state["names"], missing=-1, unseen=-1).astype(np.float64)
        return np.where(position < 0, np.nan, position)

    return values


PAGES = SessionFeature("number of pages", "session", True, True, "skewed", _pages)
CHANNEL = SessionFeature(
    "channel type",
    "session",
    False,
    False,
    "category",
    _position(SessionExamples.known_channel),
    _names(lambda examples: examples.channel),
)
HOUR = SessionFeature("start hour", "session", False, False, "cycle", _hour, period=24)
WEEKDAY = SessionFeature("week day", "session", False, False, "cycle", _weekday, period=7)
DEVICE = SessionFeature(
    "device type",
    "session",
    False,
    False,
    "category",
    _position(SessionExamples.known_device),
    _names(lambda examples: examples.device),
)
