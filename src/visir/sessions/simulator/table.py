"""Simulated arrays as tables: events with the columns of the preset `events`, and what was planted per session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.sessions.mapping import ACTIONS
from visir.sessions.simulator.arrays import CauseArrays
from visir.sessions.simulator.kernels import QUERIES
from visir.sessions.simulator.shop import PAGES, Shop
from visir.sessions.simulator.simulate import SimulatedPeople
from visir.splitmix import splitmix64

EVENTS = pa.schema(
    [
        ("visitor", pa.dictionary(pa.int32(), pa.string())),
        ("customer", pa.dictionary(pa.int32(), pa.string())),
        ("time", pa.int64()),
        ("device", pa.dictionary(pa.int8(), pa.string())),
        ("channel", pa.dictionary(pa.int8(), pa.string())),
        ("page", pa.dictionary(pa.int8(), pa.string())),
        ("query", pa.dictionary(pa.int32(), pa.string())),
        ("price", pa.float64()),
        ("action", pa.dictionary(pa.int8(), pa.string())),
    ]
)
PLANTED = pa.schema(
    [
        ("visitor", pa.string()),
        ("began", pa.int64()),
        ("person", pa.int64()),
        ("customer", pa.string()),
        ("regular", pa.bool_()),
        ("device", pa.string()),
        ("before", pa.string()),
        ("channel", pa.string()),
        ("hour", pa.int8()),
        ("weekday", pa.int8()),
        ("intent", pa.string()),
        ("chance", pa.float64()),
        ("purchase", pa.bool_()),
        ("pages", pa.int16()),
    ]
)
UNKNOWN = "scroll"
"""An action that no mapping names; only a log with dirt has it."""
_WORDS = pa.array([f"{text:05d}" for text in range(QUERIES)])


@dataclass(frozen=True)
class CodedEvents:
    """Events as numbers, -1 for nothing: row i of the log arrives before row i + 1."""

    # `visitor` and `customer` are positions in `visitors` and `people`, the numbers that become names; the others are
    # codes.

    visitor: NDArray[np.int32]
    customer: NDArray[np.int32]
    time: NDArray[np.int64]
    device: NDArray[np.int8]
    channel: NDArray[np.int8]
    page: NDArray[np.int8]
    query: NDArray[np.int32]
    price: NDArray[np.float64]
    action: NDArray[np.int8]
    visitors: NDArray[np.int64]
    people: NDArray[np.int64]

    def rows(self, which: NDArray[Any], **replaced: Any) -> CodedEvents:
        """Some rows, with other values in some columns."""
        columns = {name: replaced[name] if name in replaced else getattr(self, name)[which] for name in EVENTS.names}
        return CodedEvents(**columns, visitors=self.visitors, people=self.people)


def code_events(simulated: SimulatedPeople) -> CodedEvents:
    """The events in the order of time, people mixed."""
    events, sessions = simulated.events, simulated.sessions
    visitors, visitor = np.unique(_browsers(sessions), return_inverse=True)
    people, person = np.unique(sessions["person"], return_inverse=True)
    order = np.argsort(events["time"], kind="stable")
    session = events["session"][order]
    return CodedEvents(
        visitor=visitor.astype(np.int32)[session],
        customer=np.where(events["recognised"][order], person.astype(np.int32)[session], np.int32(-1)),
        time=events["time"][order],
        device=sessions["device"][session],
        channel=sessions["channel"][session],
        page=events["page"][order],
        query=events["query"][order],
        price=events["price"][order],
        action=events["action"][order],
        visitors=visitors,
        people=people,
    )


def events_table(shop: Shop, causes: CauseArrays, log: CodedEvents) -> pa.Table:
    """The events as they are written: see `EVENTS`."""
    texts = {
        "visitor": _names(causes, log.visitors),
        "customer": _names(causes, -1 - log.people),
        "device": pa.array(shop.devices.names),
        "channel": pa.array(shop.channels.names),
        "page": pa.array(PAGES),
        "query": _WORDS,
        "action": pa.array([*ACTIONS, UNKNOWN]),
    }
    columns = []
    for name in EVENTS.names:
        values = getattr(log, name)
        array = pa.array(values, mask=~(values >= 0))  # a NaN is not ≥ 0 either
        columns.append(pa.DictionaryArray.from_arrays(array, texts[name]) if name in texts else array)
    return pa.table(columns, schema=EVENTS)


def planted_table(shop: Shop, causes: CauseArrays, simulated: SimulatedPeople) -> pa.Table:
    """What was planted, one row per session (see `PLANTED`; weekday 1 is Monday), one person after the other."""
    # `visitor` and `began` are those of the session in the events. Nobody can see `regular`, `intent` and `chance` (of
    # a purchase, as the session begins).
    sessions = simulated.sessions
    events = simulated.events["session"]
    began = simulated.events["time"][np.flatnonzero(np.diff(events, prepend=-1))]
    customers = _names(causes, -1 - sessions["person"])
    return pa.table(
        [
            _names(causes, _browsers(sessions)),
            pa.array(began),
            pa.array(sessions["person"]),
            pa.array(np.array(customers), mask=~sessions["customer"]),
            pa.array(sessions["regular"]),
            _dictionary_array(sessions["device"], shop.devices.names).cast(pa.string()),
            _dictionary_array(sessions["before"], shop.devices.names).cast(pa.string()),
            _dictionary_array(sessions["channel"], shop.channels.names).cast(pa.string()),
            pa.array(sessions["hour"]),
            pa.array(sessions["weekday"] + np.int8(1)),
            _dictionary_array(sessions["intent"], [intent.name for intent in shop.intents]).cast(pa.string()),
            pa.array(sessions["chance"]),
            pa.array(sessions["purchase"]),
            pa.array(sessions["pages"]),
        ],
        schema=PLANTED,
    )


def _browsers(sessions: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    return np.asarray(sessions["person"] * 256 + sessions["browser"])


def _names(causes: CauseArrays, numbers: NDArray[np.int64]) -> pa.Array:
    """Sixteen hexadecimal digits, different ones for different numbers, as cookies look."""
    words = splitmix64(causes.seed, numbers).astype(">u8").view(np.uint8).reshape(-1, 8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = digits[np.stack([words >> 4, words & 15], axis=2).reshape(-1)]
    ends = pa.py_buffer(np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, ends, pa.py_buffer(text)])


def _dictionary_array(codes: NDArray[np.int8], names: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(list(names)))
