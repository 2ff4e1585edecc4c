"""Differences of two groups: against published and recomputed values, and the rate of false findings."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from described import folder, visit
from numpy.typing import NDArray
from scipy.stats import norm, t

from visir.sessions.description import describe, open_log
from visir.sessions.description.differences import Pair, difference_of, pair_of
from visir.stats import Moments
from visir.stats.means import wilson

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

Counts = NDArray[np.float64]


def pair(y1: Counts, n1: Counts, y2: Counts, n2: Counts) -> Pair:
    """Sums over units, of arrays with a value for each unit."""
    sums = [
        (y.sum(), (y * y).sum(), (y * n).sum(), n.sum(), (n * n).sum(), int((n > 0).sum()))
        for y, n in ((y1, n1), (y2, n2))
    ]
    cross = tuple(float((a * b).sum()) for a in (y1, n1) for b in (y2, n2))
    return Pair(Moments(*sums[0]), Moments(*sums[1]), cross)  # type: ignore[arg-type]


def two_samples(a: int, m: int, b: int, n: int) -> Pair:
    """`a` of `m` and `b` of `n` visitors with one session each."""
    y = np.r_[np.ones(a), np.zeros(m - a), np.ones(b), np.zeros(n - b)]
    first = np.r_[np.ones(m), np.zeros(n)]
    return pair(y * first, first, y * (1 - first), 1 - first)


def test_one_session_for_each_visitor_is_newcombes_interval() -> None:
    # Newcombe (1998), table II, method 10, 56/70 and 48/80: 0.0524 … 0.3339. Here with Student's t and a
    # variance over visitors (n − 1).
    l1, u1 = wilson(56 / 70, 70, 1.959964)
    l2, u2 = wilson(48 / 80, 80, 1.959964)
    assert 0.2 - sqrt((0.8 - l1) ** 2 + (u2 - 0.6) ** 2) == pytest.approx(0.0524, abs=5e-5)
    (l1, u1), (l2, u2) = wilson(56 / 70, 69, t.ppf(0.975, 69)), wilson(48 / 80, 79, t.ppf(0.975, 79))
    difference = difference_of("", ("a", "b"), "", two_samples(56, 70, 48, 80))
    assert difference.difference == pytest.approx(20)
    assert difference.low == pytest.approx(100 * (0.2 - sqrt((0.8 - l1) ** 2 + (u2 - 0.6) ** 2)), rel=1e-3)
    assert difference.high == pytest.approx(100 * (0.2 + sqrt((u1 - 0.8) ** 2 + (0.6 - l2) ** 2)), rel=1e-3)


def test_of_many_visitors_it_is_the_test_of_two_shares() -> None:
    difference = difference_of("", ("a", "b"), "", two_samples(5_200, 10_000, 5_000, 10_000))
    z = 0.02 / sqrt(0.52 * 0.48 / 10_000 + 0.5 * 0.5 / 10_000)
    assert difference.p == pytest.approx(2 * norm.sf(z), rel=0.02)


def test_intervals_that_overlap_and_a_difference_that_is_there() -> None:
    a, b = two_samples(600, 1_000, 550, 1_000), difference_of("", ("a", "b"), "", two_samples(600, 1_000, 550, 1_000))
    ends = [wilson(group.y / group.n, group.n, 1.96) for group in (a.first, a.second)]
    assert ends[0][0] < ends[1][1]  # they overlap
    assert b.low is not None and b.low > 0 and b.p is not None and b.p < 0.05


def test_visitors_in_both_groups_are_compared_with_themselves() -> None:
    # 200 visitors, a session in each group; the second buys whenever the first does, and 10 visitors more.
    first = np.r_[np.ones(100), np.zeros(100)]
    second = np.r_[np.ones(110), np.zeros(90)]
    ones = np.ones(200)
    paired = difference_of("", ("a", "b"), "", pair(first, ones, second, ones))
    apart = difference_of("", ("a", "b"), "", two_samples(100, 200, 110, 200))
    assert paired.difference == apart.difference == pytest.approx(-5)
    assert paired.p is not None and apart.p is not None
    assert paired.p < 0.01 < 0.2 < apart.p


@pytest.mark.parametrize("kind", ["share", "mean"])
def test_no_more_false_findings_than_promised(kind: str) -> None:
    """Visitors of unlike rates, some in both groups, up to nine sessions each; no difference between the groups."""
    draw = np.random.default_rng(7)
    found = 0
    for _ in range(400):
        rate = draw.beta(1, 9, 400)
        n1, n2 = draw.poisson(1.0, 400) + (draw.random(400) < 0.5), draw.poisson(0.8, 400)
        count = draw.binomial if kind == "share" else lambda n, p: draw.poisson(n * p * 3)
        y1, y2 = count(n1, rate), count(n2, rate)
        difference = difference_of("", ("a", "b"), "", pair(*map(np.float64, (y1, n1, y2, n2))), kind)  # type: ignore[arg-type]
        found += difference.p is not None and difference.p < 0.05
    assert 0.02 <= found / 400 <= 0.08


def test_sums_from_a_log_are_those_of_its_rows(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    rows = [
        visit(f"v{draw.integers(30)}", k, device=["pc", "tv"][draw.integers(2)], purchase=bool(draw.random() < 0.3))
        for k in range(200)
    ]
    with open_log(folder(tmp_path / "log", rows)) as log:
        got = pair_of(log, "device = 'pc'", "device = 'tv'", "purchase")
    units = sorted({row["visitor"] for row in rows})
    counts = [
        np.array(
            [sum(row["visitor"] == unit and row["device"] == device and test(row) for row in rows) for unit in units]
        )
        for device in ("pc", "tv")
        for test in (lambda row: row["purchase"], lambda row: True)
    ]
    assert got == pair(*map(np.float64, counts))


def test_one_family_and_counts_instead_of_percentages(tmp_path: Path) -> None:
    rows = [
        visit(f"v{n}", device="pc" if n % 2 else "phone", purchase=n % 2 == 0 and n < 60, length=n % 7)
        for n in range(200)
    ]
    rows += [visit(f"w{n}", device="tv", purchase=n == 0) for n in range(4)]
    description = describe(folder(tmp_path / "log", rows))
    tested = [each for each in description.differences if each.p is not None]
    assert len(tested) >= 2
    assert all(each.corrected is not None and each.p is not None and each.corrected >= each.p for each in tested)
    smallest = min(tested, key=lambda each: each.p or 0)
    assert smallest.corrected == pytest.approx((smallest.p or 0) * len(tested))
    few = [each for each in description.differences if "tv" in (each.first, each.second)]
    assert {each.verdict for each in few} == {"too few"}
    assert not [
        each for each in describe(tmp_path / "log", suppress=10).differences if "tv" in (each.first, each.second)
    ]
