"""Dirt in a simulated log, as real ones have it, with known counts: it adds rows and delays some, and changes none.

So the sessions of the clean log are found by rejecting the added rows and putting the others in order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, raise_faults
from visir.sessions.definition import ACTIONS
from visir.sessions.simulator.simulate import CodedEvents
from visir.sessions.simulator.truth import SECOND
from visir.splitmix import seed_of, splitmix64

_BOTS = 20
"""Different bots per part."""
_DELAY = 3600 * SECOND
_AHEAD = 400 * 24 * 3600 * SECOND


@dataclass(frozen=True)
class Dirt:
    """How much of each kind, as a share (0–1) of the clean log's events; names as in `REASONS` and `FLAGS`.

    Args:
        duplicate: The row arrives a second time, up to an hour later.
        no_visitor: A copy of the row without a visitor.
        no_time: A copy of the row without a time.
        future: A copy, 400 days ahead.
        bot: A copy by one of a few visitors that name no device, as the thesis's bots.
        unknown_action: A copy with an action that no mapping names, a microsecond later; it is accepted and lengthens
            no session.
        late: The row itself arrives up to an hour late. Counted are those that a later row of the visitor overtook.

    Raises:
        ConfigurationError: A share is not between 0 and 1.
    """

    duplicate: float = 0.0
    no_visitor: float = 0.0
    no_time: float = 0.0
    future: float = 0.0
    bot: float = 0.0
    unknown_action: float = 0.0
    late: float = 0.0

    def __post_init__(self) -> None:
        shares = [(kind.name, getattr(self, kind.name)) for kind in fields(self)]
        wrong = [(name, share) for name, share in shares if not 0 <= share <= 1]
        faults = [f"{name}: a share lies between 0 and 1, found {share}" for name, share in wrong]
        raise_faults(ConfigurationError, "dirt", faults)

    @classmethod
    def of_every_kind(cls, share: float) -> Dirt:
        """The same share of every kind."""
        return cls(*[share] * len(fields(cls)))


def add_dirt(log: CodedEvents, dirt: Dirt, seed: int) -> tuple[CodedEvents, dict[str, int]]:
    """Add dirt to a log."""
    # Whether a row is chosen depends on the seed and the row's own time, not on the rest of the log.
    arrival = log.time + np.where(_chosen(log, dirt, "late", seed), _moments(log, seed), 0)
    parts, arrivals, clean = [log], [arrival], [np.ones(len(log.time), bool)]
    counts = {}
    for name in ("duplicate", "no_visitor", "no_time", "future", "bot", "unknown_action"):
        which = np.flatnonzero(_chosen(log, dirt, name, seed))
        counts[name] = len(which)
        parts.append(_copied(log, name, which))
        arrivals.append(arrival[which] + (_moments(log, seed + 1)[which] if name == "duplicate" else 1))
        clean.append(np.full(len(which), name == "unknown_action"))
    whole = _joined(parts)
    order = np.argsort(np.concatenate(arrivals), kind="stable")
    counts["late"] = _overtaken(whole.rows(order), np.concatenate(clean)[order])
    return whole.rows(order), counts


def _copied(log: CodedEvents, name: str, which: NDArray[np.int64]) -> CodedEvents:
    nothing = np.full(len(which), -1)
    if name == "no_visitor":
        return log.rows(which, visitor=nothing.astype(np.int32))
    if name == "no_time":
        return log.rows(which, time=nothing)
    if name == "future":
        return log.rows(which, time=log.time[which] + _AHEAD)
    if name == "unknown_action":
        scrolled = np.full(len(which), len(ACTIONS), np.int8)
        return log.rows(which, action=scrolled, time=log.time[which] + 1)
    if name == "bot":
        bots = (len(log.visitors) + log.time[which] % _BOTS).astype(np.int32)
        return log.rows(which, visitor=bots, customer=nothing.astype(np.int32), device=nothing.astype(np.int8))
    return log.rows(which)


def _joined(parts: list[CodedEvents]) -> CodedEvents:
    """One log; the bots' numbers are numbers that no person has."""
    log = parts[0]
    columns = [column.name for column in fields(CodedEvents) if column.name not in ("visitors", "people")]
    rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    bots = -(2**62) + log.visitors[:1].repeat(_BOTS) * _BOTS + np.arange(_BOTS)
    return replace(log, **rows, visitors=np.concatenate([log.visitors, bots]))


def _overtaken(log: CodedEvents, clean: NDArray[np.bool_]) -> int:
    """How many clean rows arrive after a later one of their visitor."""
    visitor, time = log.visitor[clean].astype(np.int64), log.time[clean]
    grouped = np.argsort(visitor, kind="stable")
    visitor, time = visitor[grouped], time[grouped]
    span = int(time.max() - time.min()) + 1 if len(time) else 1
    place = visitor * span + (time - time.min()) if len(time) else time
    return int((place < np.maximum.accumulate(place)).sum())


def _chosen(log: CodedEvents, dirt: Dirt, name: str, seed: int) -> NDArray[np.bool_]:
    stream = [kind.name for kind in fields(dirt)].index(name)
    drawn = splitmix64(seed_of(seed, 1, stream), log.time)
    return np.asarray(drawn / 2.0**64 < getattr(dirt, name))


def _moments(log: CodedEvents, seed: int) -> NDArray[np.int64]:
    return 1 + (splitmix64(seed_of(seed, 2), log.time) % np.uint64(_DELAY)).astype(np.int64)
