"""The planted numbers are what a large generated log shows, but for chance: every share within 4.5 standard errors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from shop_truth import Truth, truth

from visir.sessions.simulator import PAGES, Shop, simulated_parts
from visir.sessions.simulator.simulate import ADD, ORDER, PAGE, QUERY, REMOVE

SESSIONS = 400_000
Array = NDArray[Any]


@cache
def told() -> Truth:
    return truth(Shop())


@cache
def drawn() -> tuple[dict[str, Array], dict[str, Array]]:
    """Events and sessions of a log, as arrays; events numbered by session through all parts."""
    events: dict[str, list[Array]] = {}
    sessions: dict[str, list[Array]] = {}
    count = 0
    for part in simulated_parts(SESSIONS, seed=3):
        for into, own in ((events, part.events), (sessions, part.sessions)):
            for name, values in own.items():
                into.setdefault(name, []).append(values + count if name == "session" else values)
        count += len(part.sessions["person"])
    return tuple({name: np.concatenate(ones) for name, ones in one.items()} for one in (events, sessions))  # type: ignore[return-value]


def close(hits: Array, expected: Array | float, sizes: Array | float) -> None:
    """Counts `hits` of `sizes` independent tries with the chance `expected`: no binomial z beyond 4.5.

    With some 400 comparisons in this file, chance alone goes beyond with probability 0.003, and the seed is fixed.
    """
    hits, expected, sizes = np.broadcast_arrays(np.asarray(hits, float), expected, sizes)
    known = np.isfinite(expected) & (sizes > 0)
    spread = np.sqrt(sizes * expected * (1 - expected))[known] + 0.5
    z = np.abs(hits - sizes * expected)[known] / spread
    assert z.size
    assert z.max() < 4.5, (z.max(), z)


@pytest.mark.parametrize("cause", ["device", "channel", "weekday", "hour"])
def test_shares_and_conversion(cause: str) -> None:
    _, sessions = drawn()
    split = getattr(told(), f"by_{cause}")
    counts = np.bincount(sessions[cause], minlength=len(split.names))
    bought = np.bincount(sessions[cause][sessions["purchase"]], minlength=len(split.names))
    if cause != "device":  # people keep their devices, so sessions are no independent tries there
        close(counts, split.share, counts.sum())
        close(bought, split.of_purchases, bought.sum())
        close(counts - bought, split.of_others, (counts - bought).sum())
    else:
        np.testing.assert_allclose(counts / counts.sum(), split.share, rtol=0.02, atol=0.0005)
    close(bought / 2, split.conversion, counts / 2)  # people keep their traits: two sessions count as one try


def test_overall_conversion() -> None:
    _, sessions = drawn()
    for expected, own in (
        (told().conversion_identified, sessions["customer"]),
        (told().conversion_anonymous, ~sessions["customer"]),
    ):
        close(sessions["purchase"][own].sum() / 2, expected, own.sum() / 2)
    assert sessions["customer"].mean() == pytest.approx(told().identified, rel=0.02)


def test_conversion_is_the_mixture_of_its_parts() -> None:
    one = told()
    assert one.conversion == pytest.approx(
        one.identified * one.conversion_identified + (1 - one.identified) * one.conversion_anonymous
    )
    for split in (one.by_device, one.by_channel, one.by_weekday, one.by_hour):
        assert split.share @ split.conversion == pytest.approx(one.conversion)
        assert split.standardised.std() == pytest.approx(1)


def test_switches_before_each_outcome() -> None:
    _, sessions = drawn()
    later = sessions["before"] >= 0
    d = len(told().by_device.names)
    for outcome in (0, 1):
        own = later & (sessions["purchase"] == bool(outcome))
        counts = np.bincount(sessions["before"][own] * d + sessions["device"][own], minlength=d * d).reshape(d, d)
        close(counts, told().switches_before[outcome], counts.sum(axis=1, keepdims=True))
    # The thesis's order before a purchase: who is on a PC stays most, and a TV is left for a PC more than kept.
    before = told().switches_before[1]
    assert np.diag(before).argmax() == 1
    assert before[4].argmax() == 1


def test_devices_and_orders_of_customers() -> None:
    _, sessions = drawn()
    own = {name: values[sessions["customer"]] for name, values in sessions.items()}
    people, person = np.unique(own["person"], return_inverse=True)
    d = len(told().by_device.names)
    used = np.zeros((len(people), d), bool)
    used[person, own["device"]] = True
    buyers = np.bincount(person, own["purchase"]) > 0
    for outcome in (0, 1):
        counts = np.bincount(used[buyers == bool(outcome)].sum(axis=1), minlength=d + 1)[1:]
        close(counts, told().devices[outcome], counts.sum())
    earlier = np.cumsum(own["purchase"]) - own["purchase"]
    start = np.searchsorted(person, np.arange(len(people)))
    group = np.minimum(earlier - earlier[start][person], 2)
    close(np.bincount(group, own["purchase"]), told().after_orders, np.bincount(group))
    assert (np.diff(told().after_orders) > 0.03).all()  # past purchasers buy more


def test_lengths() -> None:
    events, sessions = drawn()
    counted = np.isin(events["action"], (PAGE, QUERY, ADD, REMOVE))
    length = np.bincount(events["session"][counted], minlength=len(sessions["person"]))
    for outcome in (0, 1):
        for device in range(3):
            own = length[(sessions["device"] == device) & (sessions["purchase"] == bool(outcome))]
            for limit in (1, 2, 5, 12, 25, 60):
                expected = told().length[outcome, device, limit:].sum()
                close(np.array((own >= limit).sum()), expected, len(own))
    orders = np.bincount(events["session"][events["action"] == ORDER], minlength=len(sessions["person"]))
    assert (orders == sessions["purchase"]).all()


def test_queries_and_unique_queries() -> None:
    events, sessions = drawn()
    asked = events["action"] == QUERY
    queries = np.bincount(events["session"][asked], minlength=len(sessions["person"]))
    different = np.unique(events["session"][asked].astype(np.int64) * 2**20 + events["query"][asked]) >> 20
    unique = np.bincount(different, minlength=len(sessions["person"]))
    for outcome in (0, 1):
        for device in range(5):
            own = (sessions["device"] == device) & (sessions["purchase"] == bool(outcome))
            for counts, expected in ((queries, told().queries), (unique, told().unique_queries)):
                error = counts[own].std() / np.sqrt(own.sum()) + 1e-9
                assert abs(counts[own].mean() - expected[outcome, device]) < 4.5 * error


def test_pages_and_their_chains() -> None:
    events, sessions = drawn()
    opened = events["action"] == PAGE
    page, session = events["page"][opened].astype(int), events["session"][opened]
    bought = sessions["purchase"][session]
    follows = session[1:] == session[:-1]
    first = np.concatenate([[True], ~follows])
    count = len(PAGES)
    for outcome in (False, True):
        own = bought == outcome
        close(np.bincount(page[own & first], minlength=count), told().first_page[int(outcome)], (own & first).sum())
        moves = follows & own[1:]
        chain = np.bincount(page[:-1][moves] * count + page[1:][moves], minlength=count * count).reshape(count, count)
        # Moves of one session are not independent tries (a session has one intent): 4 of them count as one.
        close(chain / 4, told().page_chain[int(outcome)], chain.sum(axis=1, keepdims=True) / 4)
        share = np.bincount(page[own], minlength=count) / own.sum()
        np.testing.assert_allclose(share, told().pages[int(outcome)], rtol=0.03, atol=0.0005)


def test_dwell_times_tell_intents_apart() -> None:
    events, sessions = drawn()
    opened = events["action"] == PAGE
    time, session = events["time"][opened], events["session"][opened]
    gap = np.diff(time)[np.diff(session) == 0] / 1e6
    assert (gap >= 2).all()
    assert (gap < 1501).all()
    intent = sessions["intent"][session[1:][np.diff(session) == 0]]
    for number, one in enumerate(Shop().intents):
        assert np.median(gap[intent == number]) == pytest.approx(one.dwell, rel=0.02)
