"""What the first request tells: pages opened (none yet), channel, start hour, weekday, device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from visir.sessions.features.feature import Feature, State
from visir.sessions.records import Bools, Examples, Floats, Words


def _pages(examples: Examples, step: int, state: State) -> Floats:
    return np.full(len(examples), float(step))


def _hour(examples: Examples, step: int, state: State) -> Floats:
    return examples.hour.astype(np.float64)


def _weekday(examples: Examples, step: int, state: State) -> Floats:
    return examples.weekday.astype(np.float64) - 1


def _names(column: Callable[[Examples], Words]) -> Callable[[Examples, Bools], State]:
    def learn(examples: Examples, rows: Bools) -> State:
        words = column(examples)
        codes = words.codes[rows]
        return {"names": [words.names[code] for code in np.unique(codes[codes >= 0])]}

    return learn


def _place(column: Callable[[Examples, int], Words]) -> Callable[[Examples, int, State], Floats]:
    """The place among the names seen in training; NaN where there is none, or a new one."""

    def values(examples: Examples, step: int, state: State) -> Floats:
        place = column(examples, step).into(state["names"], missing=-1, unseen=-1).astype(np.float64)
        return np.where(place < 0, np.nan, place)

    return values


PAGES = Feature("number of pages", "session", True, True, "skewed", _pages)
CHANNEL = Feature(
    "channel type",
    "session",
    False,
    False,
    "category",
    _place(Examples.known_channel),
    _names(lambda examples: examples.channel),
)
HOUR = Feature("start hour", "session", False, False, "cycle", _hour, period=24)
WEEKDAY = Feature("week day", "session", False, False, "cycle", _weekday, period=7)
DEVICE = Feature(
    "device type",
    "session",
    False,
    False,
    "category",
    _place(Examples.known_device),
    _names(lambda examples: examples.device),
)
