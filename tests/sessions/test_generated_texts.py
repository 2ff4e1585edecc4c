"""Table 6.6 of a generated log beside what its causes say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
pytest.importorskip("numba", reason="needs the extra 'sessions'")

from shop_truth import truth

from visir.sessions.simulator.shop import BODY, SEARCH, Shop
from visir.sessions.simulator.simulate import QUERIES
from visir.sessions.table_labels import Floats

# How many different queries a generated log must hold in each cell of Table 6.6, but for chance.

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


def test_words_are_chances_and_new_ones_stand_at_odd_steps() -> None:
    words = _words()
    np.testing.assert_allclose(words.sum(axis=1), 1)
    assert words[0, 0] == pytest.approx((1 / QUERIES) ** (1 / 3))
    # Every odd step is as likely, so the second word takes each place of the other parity with the same chance: all
    # first words of even places, shared by the odd places, and the other way round.
    assert words[1, 1::2] == pytest.approx(words[0, ::2].sum() / (QUERIES / 2))
    assert words[1, ::2] == pytest.approx(words[0, 1::2].sum() / (QUERIES / 2))


def test_the_mean_of_a_session_is_the_truths() -> None:
    shop = Shop()
    intents = np.array([shop.intents_of_others, shop.intents_of_purchases])
    for device in range(5):
        means = np.array([_more_than(shop, intent, device).sum() for intent in range(3)])
        assert intents @ means == pytest.approx(truth(shop).unique_queries[:, device], rel=1e-9)


def test_one_session_has_its_own_texts_and_many_share_theirs() -> None:
    own = different_texts(Shop(), np.ones((2, 5), np.int64))
    assert own == pytest.approx(truth().unique_queries, rel=1e-6)
    many = different_texts(Shop(), np.full((2, 5), 10**9))
    assert (many <= QUERIES).all()
    assert many[:, 0] == pytest.approx(QUERIES, rel=1e-3)


def test_table_6_6_of_a_log_is_what_was_planted(tmp_path: Path) -> None:
    from visir.sessions import load_mapping, sessionise
    from visir.sessions.description import describe
    from visir.sessions.simulator import generate

    generate(tmp_path / "log", 30_000, seed=5)
    sessionise(tmp_path / "log/events", load_mapping(tmp_path / "log/mapping.toml"), tmp_path / "sessions")
    found = describe(tmp_path / "sessions")
    names = truth().by_device.names
    outcomes = ("Non-purchase", "Purchase")
    lengths, table = found.statistic("figure-6-2-percentiles"), found.statistic("table-6-6")
    sessions = np.array([[lengths.value(name, f"{said}: sessions").value for name in names] for said in outcomes])
    expected = different_texts(Shop(), sessions.astype(np.int64))
    printed = np.array([[table.value(name, f"{said}: texts").value for name in names] for said in outcomes], float)
    # Texts are nearly independent, so their number varies no more than a Poisson count; a session brings several.
    assert (np.abs(printed - expected) <= 4.5 * np.sqrt(3 * expected) + 1).all(), (printed, expected)
    assert printed[0, 0] == pytest.approx(expected[0, 0], rel=0.03)
    # The mean of a session times the sessions would be off by a sixth: many ask for the same.
    assert printed[1, 0] < 0.9 * (truth().unique_queries * sessions)[1, 0]
