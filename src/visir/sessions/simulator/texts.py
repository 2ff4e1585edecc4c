"""How many different queries a generated log must hold in each cell of Table 6.6, but for chance.

`Truth.unique_queries` is another quantity: different queries *of a session*, on average. Table 6.6 counts texts of the
whole log, and two sessions may ask the same. How often they do follows from how words are drawn: the first of a
session by popularity, ((w + 1) / Q)^⅓ - (w / Q)^⅓ for word w of Q, each new one an odd step further, round the list.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.sessions.records import Floats
from visir.sessions.simulator.kernels import QUERIES
from visir.sessions.simulator.shop import BODY, SEARCH, Shop

_MOST = 60
"""Different queries of a session that are followed; more than these have a chance below 1e-9 with the default shop."""


def different_texts(shop: Shop, sessions: NDArray[np.int64]) -> Floats:
    """Expected different texts of each outcome and device."""
    # A text that is submitted on two devices counts on both, as in `describe`. Exact for sessions that are drawn one by
    # one: Σ over words of 1 - (1 - q)ⁿ, q the chance that a session submits the word. No word comes twice among the
    # different ones of a session.
    # Returns: (2, d) expected numbers.
    words = _words()
    intents = np.array([shop.intents_of_others, shop.intents_of_purchases])
    expected = np.zeros(sessions.shape)
    for device in range(sessions.shape[1]):
        holding = np.array([_more_than(shop, intent, device) for intent in range(intents.shape[1])])
        for outcome in range(2):
            word_chances = (intents[outcome] @ holding) @ words
            none = np.exp(sessions[outcome, device] * np.log1p(-word_chances))
            expected[outcome, device] = (1 - none).sum()
    return expected


def _words() -> Floats:
    """(`_MOST`, `QUERIES`) chance that the k-th different query of a session, from 0, is each word."""
    edges = np.cbrt(np.arange(QUERIES + 1) / QUERIES)
    first = np.diff(edges)
    steps = 1 + 2 * np.arange(QUERIES // 2)
    rows = [first]
    for k in range(1, _MOST):
        moved = np.bincount(k * steps % QUERIES, minlength=QUERIES) / len(steps)
        rows.append(np.fft.irfft(np.fft.rfft(first) * np.fft.rfft(moved), QUERIES))
    chances: Floats = np.maximum(np.array(rows), 0)  # the transform leaves -1e-20
    return chances


def _more_than(shop: Shop, intent: int, device: int) -> Floats:
    """(`_MOST`,) chance that a session holds more than k different queries, followed page by page."""
    causes, typed = shop.intents[intent], shop.typed[device]
    stay = 1 - 1 / causes.pages[device]
    chain = np.array(causes.chain)
    ended = np.zeros(_MOST + 1)
    arriving = np.zeros((len(BODY), _MOST + 1))
    arriving[:, 0] = causes.start
    while arriving.sum() > 1e-13:
        new = typed * arriving[SEARCH]
        new[1:] *= 1 - causes.retype  # the first query of a session is new
        arriving[SEARCH] -= new
        arriving[SEARCH, 1:] += new[:-1]
        ended += (1 - stay) * arriving.sum(axis=0)
        arriving = stay * chain.T @ arriving
    return np.asarray(1 - np.cumsum(ended)[:_MOST])
