"""What a session of one intent on one device holds, exactly: a Markov chain that stops after each page by chance.

With `stay` the chance of one more page, page k + 1 is opened with the chance stay^k, so expected visits are the start
times (I - stay · chain)⁻¹.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.records import Floats
from visir.sessions.simulator.shop import BASKET, BODY, CHECKOUT, CONFIRMATION, PAGES, PRODUCT, SEARCH, Shop

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
