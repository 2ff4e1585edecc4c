"""People come, open pages, and some buy: any range of people, as arrays.

Person `i` of a seed has random numbers of their own (SplitMix64, from a start that depends on the seed and `i` only).
So they do the same whatever the size of the log, and in whichever part or process they are simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import ConfigurationError, raise_faults
from visir.jit import interpreted, njit, pays
from visir.sessions.definition import ACTIONS
from visir.sessions.simulator.shop import (
    BASKET,
    CHECKOUT,
    CONFIRMATION,
    MOST_PAGES,
    MOST_SESSIONS,
    PAGES,
    PRODUCT,
    SEARCH,
    Shop,
)
from visir.sessions.table_labels import Floats
from visir.splitmix import seed_of, splitmix64

# A shop's causes as arrays, and empty arrays for what people do: what the compiled simulation reads and writes.

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


# The simulation itself, one person after the other, compiled.

RandomState = NDArray[np.uint64]
# As in visir.sessions.ACTIONS. NumPy's numbers, because a plain one has a type of its own when compiled, and every
# function is compiled anew for each.
PAGE, QUERY, ADD, REMOVE, ORDER, OTHER = np.arange(6)
_BASKET, _CHECKOUT, _CONFIRMATION = (np.int64(page) for page in (BASKET, CHECKOUT, CONFIRMATION))
_NOTHING = np.int64(-1)
QUERIES = 20_000
"""Different texts that can be searched for."""
SHORTEST, LONGEST = 2.0, 1500.0
"""Bounds of a dwell time in seconds: after 25 minutes on a page the session still goes on."""
_IDLE = 31 * 60 * SECOND
_COST, _AT_ONCE = 2**17, 32
"""What a person costs in Python, in multiplications (`visir.jit.pays`), and how many are simulated there at once."""
_MANY = 10_000
"""People whose simulation in Python (0.26 ms each) would last about as long as the compiler (4 s) takes."""


@njit()
def _next(state: RandomState) -> float:
    """A number from 0 to 1 (never 0, never 1), and on to the next: SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53


@njit()
def _place(seed: np.uint64, person: int) -> np.uint64:
    """Where a person's random numbers begin."""
    word = seed + (np.uint64(person) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
    word = (word ^ (word >> np.uint64(32))) * np.uint64(0xDABA0B6EB09322E3)
    word = (word ^ (word >> np.uint64(32))) * np.uint64(0xDABA0B6EB09322E3)
    return word ^ (word >> np.uint64(32))


@njit()
def _drawn(cumulative: Floats, state: RandomState) -> int:
    position, chance = 0, _next(state)
    while position < cumulative.shape[0] - 1 and chance >= cumulative[position]:
        position += 1
    return position


@njit()
def _geometric(log_stay: float, most: int, state: RandomState) -> int:
    """1, 2, …: at least one; `log_stay` is the logarithm of the chance of one more."""
    return min(int(1.0 + math.log(_next(state)) / log_stay), most)


@njit()
def _dwell(causes: CauseArrays, intent: int, state: RandomState) -> int:
    """A dwell time in µs (Box and Muller's normal number)."""
    normal = np.sqrt(-2 * math.log(_next(state))) * math.cos(2 * np.pi * _next(state))
    seconds = math.exp(causes.dwells[intent, 0] + causes.dwells[intent, 1] * normal)
    return int(min(max(seconds, SHORTEST), LONGEST) * SECOND)


@njit()
def _price(state: RandomState) -> float:
    """In whole cents; the median is 25."""
    normal = np.sqrt(-2 * math.log(_next(state))) * math.cos(2 * np.pi * _next(state))
    return float(np.round(2500 * math.exp(normal)) / 100)


@njit()
def _put(
    rows: SimulationArrays, event: int, time: int, session: int, action: Any, page: Any, query: Any, price: float
) -> int:
    rows.time[event] = time
    rows.session[event] = session
    rows.action[event] = action
    rows.page[event] = page
    rows.query[event] = query
    rows.price[event] = price
    rows.recognised[event] = True
    return event + 1


@njit()
def _session(causes: CauseArrays, rows: SimulationArrays, event: int, row: int, start: int, state: RandomState) -> int:
    """All events of the session in `row`, from `start` on; returns the next free place."""
    first = event
    intent, device, bought = rows.intent[row], rows.device[row], rows.purchase[row]
    pages = _geometric(causes.stops[intent, device], MOST_PAGES, state)
    now, page = start, 0
    basket, in_basket, price = False, 0.0, 0.0
    queries, word, step = 0, 0, 0
    checkout = int(_NOTHING)
    for k in range(pages):
        page = _drawn(causes.starts[intent] if k == 0 else causes.chains[intent, page], state)
        if page == SEARCH and _next(state) < causes.typed[device]:
            if queries == 0:
                drawn = _next(state)
                word = int(QUERIES * (drawn * (drawn * drawn)))  # some are far more popular than others
                step = 1 + 2 * int(QUERIES // 2 * _next(state))
                queries = 1
                query = 0
            elif _next(state) < causes.retypes[intent]:
                query = int(queries * _next(state))
            else:
                query = queries
                queries += 1
            event = _put(rows, event, now, row, QUERY, _NOTHING, (word + query * step) % QUERIES, np.nan)
            now += SECOND // 5
        price = _price(state) if page == PRODUCT else np.nan
        event = _put(rows, event, now, row, PAGE, page, _NOTHING, price)
        dwell = _dwell(causes, intent, state)
        if page == PRODUCT and _next(state) < causes.adds[intent]:
            event = _put(rows, event, now + dwell // 2, row, ADD, _NOTHING, _NOTHING, price)
            basket = True
            in_basket += price
        elif page == BASKET and basket and _next(state) < causes.removes[intent]:
            event = _put(rows, event, now + dwell // 2, row, REMOVE, _NOTHING, _NOTHING, np.nan)
            basket = False
            in_basket = 0.0
        if bought and not basket and k == pages - 1:  # a purchase needs something in the basket
            in_basket = _price(state)
            event = _put(rows, event, now + 3 * dwell // 4, row, ADD, _NOTHING, _NOTHING, in_basket)
        now += dwell
    if bought or _next(state) < causes.abandons[intent]:
        event = _put(rows, event, now, row, PAGE, _BASKET, _NOTHING, np.nan)
        now += _dwell(causes, intent, state)
        checkout = event
        event = _put(rows, event, now, row, PAGE, _CHECKOUT, _NOTHING, np.nan)
        pages += 2
        if bought:
            dwell = _dwell(causes, intent, state)
            event = _put(rows, event, now + dwell // 2, row, ORDER, _NOTHING, _NOTHING, np.round(100 * in_basket) / 100)
            event = _put(rows, event, now + dwell, row, PAGE, _CONFIRMATION, _NOTHING, np.nan)
            pages += 1
    rows.pages[row] = pages
    if not rows.customer[row]:
        rows.recognised[first:event] = False
        return event
    when = _next(state)
    if when < causes.logs_in:
        login = min(first + 1 + int(3 * _next(state)), event - 1)
        rows.recognised[first:login] = False
    elif when < causes.logs_in + causes.logs_in_at_checkout:
        rows.recognised[first : checkout if checkout >= 0 else event] = False
    return event


@njit()
def fill(
    causes: CauseArrays, first: int, last: int, most_sessions: int, rows: SimulationArrays, event: int, row: int
) -> tuple[int, int, int, bool]:
    """Fill `rows` from places on; the next person, the next places, and whether there was too little room."""
    # What a session may need at most is free before it begins, so nothing is ever written behind the end.
    state = np.zeros(1, np.uint64)
    slots, starts = np.zeros(MOST_SESSIONS, np.int64), np.zeros(MOST_SESSIONS, np.int64)
    busy = np.zeros((causes.device_factors.shape[0], MOST_SESSIONS), np.int64)
    weeks = causes.wall.shape[0] // 168
    for person in range(first, last):
        if row >= most_sessions:
            return person, event, row, False
        begun = event, row
        state[0] = _place(causes.seed, person)
        customer = _next(state) < causes.customer
        population = 1 if customer else 0
        regular = _next(state) < causes.regular[population]
        count = _geometric(causes.sessions[population], MOST_SESSIONS, state)
        if row + count > rows.person.shape[0]:
            return person, begun[0], begun[1], True
        for k in range(count):
            slot = int(weeks * _next(state)) * 168 + _drawn(causes.weekdays, state) * 24
            slot += _drawn(causes.hours, state)
            start = causes.wall[slot] + int(3600 * SECOND * _next(state))
            place = k
            while place > 0 and starts[place - 1] > start:
                slots[place], starts[place] = slots[place - 1], starts[place - 1]
                place -= 1
            slots[place], starts[place] = slot, start
        busy[:] = 0
        device = _drawn(causes.devices, state)
        for k in range(count):
            if event + 3 * MOST_PAGES + 10 > rows.time.shape[0]:
                return person, begun[0], begun[1], True
            before = device
            if k > 0 and customer:
                device = _drawn(causes.switches[before], state)
            channel = _drawn(causes.channels, state)
            hour, weekday = slots[k] % 24, slots[k] // 24 % 7
            chance = causes.chances[population, 1 if regular else 0] * causes.device_factors[device]
            chance *= causes.hour_factors[hour] * causes.weekday_factors[weekday] * causes.channel_factors[channel]
            if device != before:
                chance *= causes.switch_factor
            bought = _next(state) < chance
            rows.person[row] = person
            rows.number[row] = k
            rows.customer[row] = customer
            rows.regular[row] = regular
            rows.device[row] = device
            rows.before[row] = before if k > 0 and customer else -1
            rows.channel[row] = channel
            rows.hour[row] = hour
            rows.weekday[row] = weekday
            rows.chance[row] = chance
            rows.purchase[row] = bought
            rows.intent[row] = _drawn(causes.intents[1 if bought else 0], state)
            event = _session(causes, rows, event, row, starts[k], state)
            # A browser that is still at an earlier session would join the two: the person takes another one.
            browser = 0
            while busy[device, browser] > starts[k]:
                browser += 1
            busy[device, browser] = rows.time[event - 1] + _IDLE
            rows.browser[row] = device + 8 * browser
            row += 1
    return last, event, row, False


@dataclass(frozen=True)
class SimulatedPeople:
    """What a range of people did: arrays of events and of sessions (`SimulationArrays`), by person and time."""

    events: dict[str, NDArray[Any]]
    sessions: dict[str, NDArray[Any]]
    people: int


def simulate(causes: CauseArrays, first: int, last: int, *, most_sessions: int | None = None) -> SimulatedPeople:
    """Simulate a range of people."""
    people = last - first
    limit = np.iinfo(np.int64).max if most_sessions is None else most_sessions
    events, sessions = 24 * people + 10_000, 3 * people + 1_000
    rows, person, event, row = empty_arrays(events, sessions), first, 0, 0
    while person < last and row < limit:
        # Of many people nobody waits less by computing beside the compiler, and on one core much longer.
        left = min(last - person, limit - row)
        compiled = left > _MANY or pays(_COST * left, fill)
        end = last if compiled else min(person + _AT_ONCE, last)
        simulated: Any = fill if compiled else interpreted(fill)
        with np.errstate(over="ignore"):  # random words wrap around
            person, event, row, full = simulated(causes, person, end, limit, rows, event, row)
        if full:
            events, sessions = 2 * events, 2 * sessions
            filled, rows = rows, empty_arrays(events, sessions)
            grown: Any = zip(filled, rows, strict=True)
            for old, new in grown:
                new[: len(old)] = old
    arrays = rows._asdict()
    names = list(arrays)
    return SimulatedPeople(
        {name: arrays[name][:event] for name in names[:EVENT_FIELDS]},
        {name: arrays[name][:row] for name in names[EVENT_FIELDS:]},
        person - first,
    )


def rehearse() -> None:
    """Simulate nobody, with the types that all simulations have: that compiles the loops, or loads them."""
    fill(causes_of(Shop(), 0), 0, 0, 1, empty_arrays(1, 1), 0, 0)


# Simulated arrays as tables: events with the columns of the preset `events`, and what was planted per session.

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


# Dirt in a simulated log, as real ones have it, with known counts: it adds rows and delays some, and changes none.
#
# So the sessions of the clean log are found by rejecting the added rows and putting the others in order.

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
