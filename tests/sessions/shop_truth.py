"""What follows from a shop's causes, exactly: the numbers that the chapter's tables must show but for chance.

All are expectations of counts divided by expectations of counts, computed from the causes alone; no log is drawn. What
is cut off (`MOST_PAGES`; dwell times have bounds) changes them by less than 1e-12 with the default shop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visir.sessions.simulator.shop import (
    BASKET,
    BODY,
    CHECKOUT,
    CONFIRMATION,
    MOST_SESSIONS,
    PAGES,
    PRODUCT,
    SEARCH,
    Cause,
    Population,
    Shop,
)
from visir.sessions.simulator.simulate import mean_sessions
from visir.sessions.table_labels import Floats

# What a session of one intent on one device holds, exactly: a Markov chain that stops after each page by chance.

LENGTHS = 400
"""Chances of lengths up to this one; the last entry is "this or more"."""


def page_counts(shop: Shop, intent: int, device: int, outcome: int) -> Floats:
    """(10, 9) expected counts: row 0 of the first page's type, row 1 + i of types that follow one of type i."""
    causes, stay = shop.intents[intent], _stay(shop, intent, device)
    visits = _visits(np.array(causes.start), np.array(causes.chain), stay)
    counts = np.zeros((len(PAGES) + 1, len(PAGES)))
    counts[0, : len(BODY)] = causes.start
    counts[1 : len(BODY) + 1, : len(BODY)] = stay * visits[:, None] * np.array(causes.chain)
    funnel = 1.0 if outcome else causes.abandon
    counts[1 : len(BODY) + 1, BASKET] += funnel * (1 - stay) * visits
    counts[1 + BASKET, CHECKOUT] += funnel
    if outcome:
        counts[1 + CHECKOUT, CONFIRMATION] += 1
    return counts


def queries(shop: Shop, intent: int, device: int) -> Floats:
    """(2,) expected queries and different queries of a session (the same for both outcomes)."""
    # The first query is new, each later one with the chance 1 - retype, so unique = (1 - retype) · queries + retype ·
    # chance of any.
    causes, stay, typed = shop.intents[intent], _stay(shop, intent, device), shop.typed[device]
    start, chain = np.array(causes.start), np.array(causes.chain)
    submitted = typed * _visits(start, chain, stay)[SEARCH]
    silent = np.ones(len(BODY))
    silent[SEARCH] = 1 - typed
    none = (1 - stay) * _visits(start * silent, chain * silent, stay).sum()
    return np.array([submitted, (1 - causes.retype) * submitted + causes.retype * (1 - none)])


def actions(shop: Shop, intent: int, device: int, outcome: int) -> Floats:
    """(`LENGTHS` + 1,) chance of every number of counted actions, followed page by page."""
    causes, stay = shop.intents[intent], _stay(shop, intent, device)
    body = len(BODY)
    chain = np.array(causes.chain)
    extra = np.zeros((2, body))  # without, with something in the basket: chance of one action more at this page
    extra[:, SEARCH], extra[:, PRODUCT], extra[1, BASKET] = shop.typed[device], causes.add, causes.remove
    ended = np.zeros((2, LENGTHS + 1))
    arriving = np.zeros((2, body, LENGTHS + 1))
    arriving[0, :, 0] = causes.start
    while arriving.sum() > 1e-13:
        plain = _longer((1 - extra)[..., None] * arriving, 1)
        more = _longer(extra[..., None] * arriving, 2)
        arrived = plain.copy()
        arrived[:, SEARCH] += more[:, SEARCH]
        arrived[1, PRODUCT] += more[:, PRODUCT].sum(axis=0)
        arrived[0, BASKET] += more[1, BASKET]
        ended += (1 - stay) * arrived.sum(axis=1)
        arriving = stay * np.einsum("bil,ij->bjl", arrived, chain)
    if outcome:
        return np.asarray(_longer(ended[0], 4) + _longer(ended[1], 3))
    every = ended.sum(axis=0)
    return np.asarray((1 - causes.abandon) * every + causes.abandon * _longer(every, 2))


def _stay(shop: Shop, intent: int, device: int) -> float:
    return 1 - 1 / shop.intents[intent].pages[device]


def _visits(start: Floats, chain: Floats, stay: float) -> Floats:
    return np.asarray(np.linalg.solve((np.eye(len(start)) - stay * chain).T, start))


def _longer(chances: Floats, by: int) -> Floats:
    moved = np.zeros_like(chances)
    moved[..., by:] = chances[..., :-by]
    moved[..., -1] += chances[..., -by:].sum(axis=-1)
    return moved


@dataclass(frozen=True, eq=False)
class Truth:
    """Planted and derived numbers. Index 0 of "outcome" is a session without purchase, 1 one with.

    Sessions (Table 6.1, 6.2, 6.4; Figs 6.3, 6.4):

    - `identified`: share of the sessions that are a customer's
    - `conversion`: share of all sessions with a purchase; `conversion_identified`, `conversion_anonymous`
    - `by_device`, `by_channel`, `by_weekday`, `by_hour`: see `CauseShares`; in the order of the shop's names,
      weekday 0 is Monday

    Customers (Table 6.3, Fig. 6.5):

    - `switches` (d, d): chance of the next session's device (columns) after a device (rows), over consecutive sessions
      of a customer; `switches_before` (2, d, d): the same where the second session has that outcome
    - `devices` (2, d): share of the customers without and with a purchase who use 1, 2, … devices in the log
    - `after_orders` (3,): share with a purchase among customers' sessions after 0, 1, 2 or more purchase sessions

    Within sessions (Fig. 6.2, Table 6.5, the page chains of section 6.5), by outcome:

    - `length` (2, d, n): chance that a session on that device has 0, 1, … counted actions (pages, queries, items put
      into and taken out of the basket); the last entry is "or more"
    - `queries` (2, d), `unique_queries` (2, d): mean per session. Table 6.6 counts texts of the whole log, which
      sessions share.
    - `pages` (2, 9): share of each type (`PAGES`) among pages opened; `first_page` (2, 9): of the first
    - `page_chain` (2, 9, 9): chance of the next page's type (columns) after a page (rows) within a session, `NaN` where
      that page is never followed
    - `intents` (2, i): share of each of the shop's intents
    """

    identified: float
    conversion: float
    conversion_identified: float
    conversion_anonymous: float
    by_device: CauseShares
    by_channel: CauseShares
    by_weekday: CauseShares
    by_hour: CauseShares
    switches: Floats
    switches_before: Floats
    devices: Floats
    after_orders: Floats
    length: Floats
    queries: Floats
    unique_queries: Floats
    pages: Floats
    first_page: Floats
    page_chain: Floats
    intents: Floats


@dataclass(frozen=True, eq=False)
class CauseShares:
    """Sessions by the values of a cause: shares that add up to 1, and the share with a purchase (`conversion`)."""

    names: tuple[str, ...]
    share: Floats
    conversion: Floats

    @property
    def of_purchases(self) -> Floats:
        """Shares among sessions with a purchase."""
        return _shares(self.share * self.conversion)

    @property
    def of_others(self) -> Floats:
        """Shares among sessions without."""
        return _shares(self.share * (1 - self.conversion))

    @property
    def standardised(self) -> Floats:
        """Conversion rates minus their mean, divided by their (population) standard deviation (section 6.2)."""
        return np.asarray((self.conversion - self.conversion.mean()) / self.conversion.std())


def _shares(counts: Floats) -> Floats:
    return np.asarray(counts / counts.sum())


def truth(shop: Shop | None = None) -> Truth:
    """Everything that is known about any log of a shop."""
    shop = shop or Shop()
    share = np.array(shop.devices.share)
    switches = np.array(shop.switches)
    relative = np.array(shop.devices.factor) * np.where(np.eye(len(share), dtype=bool), 1.0, shop.switch_factor)
    first = 1 / mean_sessions(shop.customers.mean_sessions)
    arrived = first * share * np.array(shop.devices.factor) + (1 - first) * share @ (switches * relative)
    of_customers = _mean_chance(shop.customers) * arrived / share
    of_anonymous = _mean_chance(shop.anonymous) * np.array(shop.devices.factor)
    conversion = shop.identified * of_customers + (1 - shop.identified) * of_anonymous
    by_device = CauseShares(shop.devices.names, share, conversion)
    overall = float(share @ conversion)
    bought = switches * relative
    left = switches * (1 - _mean_chance(shop.customers) * relative)
    customers, after_orders = _customers(shop, relative)
    of_outcome = np.stack([by_device.of_others, by_device.of_purchases])
    intents = np.array([shop.intents_of_others, shop.intents_of_purchases])
    length, query_means, moves = _within(shop, of_outcome, intents)
    opened = moves.sum(axis=1)
    chains = moves[:, 1:]
    with np.errstate(invalid="ignore"):
        page_chain = chains / chains.sum(axis=2, keepdims=True)
    return Truth(
        identified=shop.identified,
        conversion=overall,
        conversion_identified=float(share @ of_customers),
        conversion_anonymous=float(share @ of_anonymous),
        by_device=by_device,
        by_channel=_split(shop.channels, overall),
        by_weekday=_split(shop.weekdays, overall),
        by_hour=_split(shop.hours, overall),
        switches=switches,
        switches_before=np.stack([flows / flows.sum(axis=1, keepdims=True) for flows in (left, bought)]),
        devices=customers,
        after_orders=after_orders,
        length=length,
        queries=query_means[..., 0],
        unique_queries=query_means[..., 1],
        pages=opened / opened.sum(axis=1, keepdims=True),
        first_page=moves[:, 0],
        page_chain=page_chain,
        intents=intents,
    )


def _within(shop: Shop, of_outcome: Floats, intents: Floats) -> tuple[Floats, Floats, Floats]:
    """Lengths (2, d, n), mean queries and unique queries (2, d, 2), counts of first pages and moves (2, 10, 9)."""
    devices = range(of_outcome.shape[1])
    length = np.zeros((2, len(devices), LENGTHS + 1))
    query_means = np.zeros((2, len(devices), 2))
    moves = np.zeros((2, len(PAGES) + 1, len(PAGES)))
    for outcome in range(2):
        for device in devices:
            for intent, weight in enumerate(intents[outcome]):
                length[outcome, device] += weight * actions(shop, intent, device, outcome)
                query_means[outcome, device] += weight * queries(shop, intent, device)
                moves[outcome] += of_outcome[outcome, device] * weight * page_counts(shop, intent, device, outcome)
    return length, query_means, moves


def _mean_chance(population: Population) -> float:
    return population.regular * population.regular_chance + (1 - population.regular) * population.other_chance


def _split(cause: Cause, overall: float) -> CauseShares:
    return CauseShares(cause.names, np.array(cause.share), overall * np.array(cause.factor))


def _customers(shop: Shop, relative: Floats) -> tuple[Floats, Floats]:
    """Devices in use by customers without and with a purchase; conversion after 0, 1, 2+ purchase sessions."""
    # Followed session by session: the chance of every (device, set of devices so far, purchase sessions so far).
    d = len(shop.devices.share)
    stay = 1 - 1 / shop.customers.mean_sessions
    used = np.zeros((2, d))
    sessions, bought = np.zeros(3), np.zeros(3)
    customers = shop.customers
    traits = ((customers.regular, customers.regular_chance), (1 - customers.regular, customers.other_chance))
    sizes = np.array([bin(devices).count("1") for devices in range(2**d)])
    for weight, chance in traits:
        now = np.zeros((d, 2**d, 3))
        for number in range(MOST_SESSIONS):
            after_session = np.zeros_like(now)
            for j in range(d):
                if number == 0:
                    arriving = np.zeros((1, 2**d, 3))
                    arriving[0, 0, 0] = weight * shop.devices.share[j]
                    chances = np.array([chance * shop.devices.factor[j]])
                else:
                    arriving = now * np.array(shop.switches)[:, j, None, None]
                    chances = chance * relative[:, j]
                buying = arriving * chances[:, None, None]
                sessions += arriving.sum(axis=(0, 1))
                bought += buying.sum(axis=(0, 1))
                after = (arriving - buying).sum(axis=0)
                after[:, 1:] += buying.sum(axis=0)[:, :-1]
                after[:, 2] += buying.sum(axis=0)[:, 2]
                for held in range(2**d):
                    after_session[j, held | 1 << j] += after[held]
            ending = after_session * (1 - stay if number < MOST_SESSIONS - 1 else 1.0)
            for size in range(1, d + 1):
                people = ending[:, sizes == size]
                used[0, size - 1] += people[..., 0].sum()
                used[1, size - 1] += people[..., 1:].sum()
            now = after_session * stay
    return used / used.sum(axis=1, keepdims=True), bought / sessions
