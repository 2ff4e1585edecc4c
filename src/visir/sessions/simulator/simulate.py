"""People come, open pages, and some buy: any range of people, as arrays.

Person `i` of a seed has random numbers of their own (SplitMix64, from a start that depends on the seed and `i` only).
So they do the same whatever the size of the log, and in whichever part or process they are simulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.sessions.simulator.arrays import EVENT_FIELDS, CauseArrays, empty_arrays
from visir.sessions.simulator.kernels import fill


@dataclass(frozen=True)
class SimulatedPeople:
    """What a range of people did: arrays of events and of sessions (see `SimulationArrays`), in the order of people and
    time."""

    events: dict[str, NDArray[Any]]
    sessions: dict[str, NDArray[Any]]
    people: int


def simulate(causes: CauseArrays, first: int, last: int, *, most_sessions: int | None = None) -> SimulatedPeople:
    """Simulate a range of people."""
    people = last - first
    limit = np.iinfo(np.int64).max if most_sessions is None else most_sessions
    events, sessions = 24 * people + 10_000, 3 * people + 1_000
    while True:
        rows = empty_arrays(events, sessions)
        done, used_events, used_sessions, full = fill(causes, first, last, limit, rows)
        if not full:
            break
        events, sessions = 2 * events, 2 * sessions
    arrays = rows._asdict()
    names = list(arrays)
    return SimulatedPeople(
        {name: arrays[name][:used_events] for name in names[:EVENT_FIELDS]},
        {name: arrays[name][:used_sessions] for name in names[EVENT_FIELDS:]},
        done - first,
    )
