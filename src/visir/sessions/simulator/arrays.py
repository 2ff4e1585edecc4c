"""A shop's causes as arrays, and empty arrays for what people do: what the compiled simulation reads and writes."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from visir.sessions.simulator.shop import MOST_SESSIONS, Shop
from visir.splitmix import seed_of

SECOND = 1_000_000
EVENT_FIELDS = 7


class CauseArrays(NamedTuple):
    """A `Shop` as arrays; chances are cumulative where something is drawn from them."""

    seed: np.uint64
    customer: float  # chance that a person is a customer
    sessions: NDArray[np.float64]  # (2,) log(1 - 1/mean number) of anonymous people and customers
    regular: NDArray[np.float64]  # (2,)
    chances: NDArray[np.float64]  # (2, 2) population, trait: other, regular
    wall: NDArray[np.int64]  # (168 * weeks,) µs UTC at which each hour of the log begins
    hours: NDArray[np.float64]
    hour_factors: NDArray[np.float64]
    weekdays: NDArray[np.float64]
    weekday_factors: NDArray[np.float64]
    channels: NDArray[np.float64]
    channel_factors: NDArray[np.float64]
    devices: NDArray[np.float64]
    device_factors: NDArray[np.float64]
    switches: NDArray[np.float64]  # (devices, devices)
    switch_factor: float
    intents: NDArray[np.float64]  # (2, intents) of other sessions and of purchases
    starts: NDArray[np.float64]  # (intents, body)
    chains: NDArray[np.float64]  # (intents, body, body)
    stops: NDArray[np.float64]  # (intents, devices) log(1 - 1/mean number of pages)
    dwells: NDArray[np.float64]  # (intents, 2) log of the median in seconds, σ
    adds: NDArray[np.float64]
    removes: NDArray[np.float64]
    retypes: NDArray[np.float64]
    abandons: NDArray[np.float64]
    typed: NDArray[np.float64]
    logs_in: float
    logs_in_at_checkout: float


class SimulationArrays(NamedTuple):
    """Events (the first `EVENT_FIELDS`) and sessions."""

    time: NDArray[np.int64]  # µs UTC
    session: NDArray[np.int32]  # row of the session arrays
    action: NDArray[np.int8]
    page: NDArray[np.int8]  # -1 for none
    query: NDArray[np.int32]  # -1 for none
    price: NDArray[np.float64]  # NaN for none
    recognised: NDArray[np.bool_]  # whether the customer is known at this event
    person: NDArray[np.int64]
    browser: NDArray[np.int16]  # device + 8 × how many of the person's browsers on that device were busy
    number: NDArray[np.int8]  # of the person's sessions: 0, 1, …
    customer: NDArray[np.bool_]
    regular: NDArray[np.bool_]
    device: NDArray[np.int8]
    before: NDArray[np.int8]  # device of the customer's session before, -1 for none
    channel: NDArray[np.int8]
    hour: NDArray[np.int8]
    weekday: NDArray[np.int8]  # 0 Monday
    intent: NDArray[np.int8]
    chance: NDArray[np.float64]
    purchase: NDArray[np.bool_]
    pages: NDArray[np.int16]


def causes_of(shop: Shop, seed: int) -> CauseArrays:
    """The shop's causes as the simulation reads them."""
    populations = (shop.anonymous, shop.customers)
    means = np.array([mean_sessions(population.mean_sessions) for population in populations])
    share = shop.identified / means[1]
    share /= share + (1 - shop.identified) / means[0]
    return CauseArrays(
        seed=seed_of(seed),
        customer=float(share),
        sessions=np.array([_log_stay(population.mean_sessions) for population in populations]),
        regular=np.array([population.regular for population in populations]),
        chances=np.array([[population.other_chance, population.regular_chance] for population in populations]),
        wall=_wall(shop),
        hours=np.cumsum(shop.hours.share),
        hour_factors=np.array(shop.hours.factor),
        weekdays=np.cumsum(shop.weekdays.share),
        weekday_factors=np.array(shop.weekdays.factor),
        channels=np.cumsum(shop.channels.share),
        channel_factors=np.array(shop.channels.factor),
        devices=np.cumsum(shop.devices.share),
        device_factors=np.array(shop.devices.factor),
        switches=np.cumsum(shop.switches, axis=1),
        switch_factor=shop.switch_factor,
        intents=np.cumsum([shop.intents_of_others, shop.intents_of_purchases], axis=1),
        starts=np.cumsum([intent.start for intent in shop.intents], axis=1),
        chains=np.cumsum([intent.chain for intent in shop.intents], axis=2),
        stops=np.array([[_log_stay(mean) for mean in intent.pages] for intent in shop.intents]),
        dwells=np.array([(np.log(intent.dwell), intent.spread) for intent in shop.intents]),
        adds=np.array([intent.add for intent in shop.intents]),
        removes=np.array([intent.remove for intent in shop.intents]),
        retypes=np.array([intent.retype for intent in shop.intents]),
        abandons=np.array([intent.abandon for intent in shop.intents]),
        typed=np.array(shop.typed),
        logs_in=shop.logs_in,
        logs_in_at_checkout=shop.logs_in_at_checkout,
    )


def mean_sessions(declared: float) -> float:
    """The mean of the geometric distribution with that mean once it is cut at `MOST_SESSIONS`."""
    return float((1 - (1 - 1 / declared) ** MOST_SESSIONS) * declared)


def _log_stay(mean: float) -> float:
    return float(np.log1p(-1 / mean)) if mean > 1 else -np.inf


def _wall(shop: Shop) -> NDArray[np.int64]:
    """When each wall-clock hour begins, in UTC: a repeated one the first time, a skipped one an hour later."""
    zone, start = ZoneInfo(shop.zone), datetime.combine(shop.begin, time())
    hours = [(start + timedelta(hours=k)).replace(tzinfo=zone) for k in range(168 * shop.weeks)]
    return np.array([round(hour.astimezone(UTC).timestamp()) * SECOND for hour in hours], dtype=np.int64)


def empty_arrays(events: int, sessions: int) -> SimulationArrays:
    """Arrays for so many events and sessions, not filled yet."""
    kinds = {"time": "i8", "session": "i4", "query": "i4", "price": "f8", "person": "i8", "browser": "i2"}
    kinds |= dict.fromkeys(("recognised", "customer", "regular", "purchase"), "?") | {"chance": "f8", "pages": "i2"}
    sizes = [events] * EVENT_FIELDS + [sessions] * (len(SimulationArrays._fields) - EVENT_FIELDS)
    return SimulationArrays(
        *(np.empty(size, kinds.get(name, "i1")) for name, size in zip(SimulationArrays._fields, sizes, strict=True))
    )
