"""Intervals of lengths and prices where sessions of one visitor are alike: by another road, and by simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from described import folder, visit
from numpy.typing import NDArray

from visir.sessions.description import describe
from visir.sessions.description.outcomes import percentile_cell
from visir.sessions.description.session_log import LengthCounts
from visir.sessions.description.statistic import mean
from visir.stats import Moments
from visir.stats.means import wilson

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
Counts = NDArray[np.int64]


def test_each_length_has_the_design_effect_of_its_own_share(tmp_path: Path) -> None:
    """The variance of a ratio of two sums over visitors; a third of 60 visitors have sessions ten times as long."""
    rng = np.random.default_rng(4)
    owners = np.repeat(np.arange(60), rng.geometric(0.2, 60))
    lengths = rng.integers(1, 6, len(owners)) * np.where(owners % 3 == 0, 10, 1)
    rows = [
        visit(f"v{owner}", session, day=session % 20, length=int(length))
        for session, (owner, length) in enumerate(zip(owners, lengths, strict=True), 1)
    ]
    description = describe(folder(tmp_path / "log", rows))
    curve, table = (description.statistic(name) for name in ("figure-6-2", "figure-6-2-percentiles"))
    (device,) = table.rows
    for x in (0, 1, 3, 12):
        low, high = independent_interval(lengths > x, owners)
        cell = curve.value(str(x), f"{device}, non-purchase")
        assert (cell.value, cell.low, cell.high) == pytest.approx((100 * (lengths > x).mean(), low, high), rel=1e-6)
    p90 = table.value(device, "Non-purchase: P90")
    assert p90.value == np.quantile(lengths, 0.9, method="inverted_cdf")


def independent_interval(counted: NDArray[np.bool_], owners: Counts) -> tuple[float, float]:
    y, n = np.bincount(owners, counted), np.bincount(owners).astype(float)
    p, worth = y.sum() / n.sum(), n.sum() ** 2 / (n**2).sum()
    variance = worth / (worth - 1) * ((y - p * n) ** 2).sum() / n.sum() ** 2
    effective = min(p * (1 - p) / variance, n.sum()) if 0 < p < 1 else worth
    low, high = wilson(p, effective, scipy.stats.t.ppf(0.975, max(worth - 1, 1)))
    return 100 * low, 100 * high


def test_p90_holds_where_some_visitors_have_all_the_long_sessions() -> None:
    """15 % of 200 visitors. With the design effect of the median, which is hardly theirs, 79 % of intervals held it."""
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(200):
        visits = rng.geometric(0.1, 200)
        owners = np.repeat(np.arange(200), visits)
        is_long = (rng.random(200) < 0.15)[owners]
        lengths = np.where(is_long, rng.integers(11, 100, len(owners)), rng.integers(1, 11, len(owners)))
        added = []
        for length in np.unique(lengths).tolist():
            least, longer = (np.bincount(owners, lengths >= end, 200).astype(int) for end in (length, length + 1))
            own = least - longer
            added.append((length, own.sum(), (least**2 - longer**2).sum(), (own * visits).sum()))
        group = LengthCounts.of(added, (visits.sum(), (visits**2).sum(), 200))
        cell = percentile_cell(group, 90)
        inside += (cell.low or 0) <= 40 <= (cell.high or 0)
    assert inside >= 0.9 * 200


def test_a_few_visitors_with_many_sessions_do_not_make_a_median_price_sure(tmp_path: Path) -> None:
    """Two visitors see one price in thirty sessions each, six others another price each once."""
    rows = [
        visit(name, session, day=session, events=({"action": "page", "page": "item", "price": price},))
        for name, price, count in (("a", 10.0, 30), ("b", 50.0, 30), *((f"v{at}", 20.0 + at, 1) for at in range(6)))
        for session in range(1, count + 1)
    ]
    cell = describe(folder(tmp_path / "log", rows)).statistic("prices").cells[1][1]
    assert (cell.low, cell.high) == (10.0, 50.0), "about two visitors: either price may be the median"


def test_a_mean_of_one_visitor_is_worth_one_count_and_not_one_for_each_session() -> None:
    alone = mean(Moments(2_000, 2_000**2, 2_000 * 1_000, 1_000, 1_000**2, 1), support=1)
    assert alone.value == 2.0 and alone.low is not None and alone.high is not None
    assert alone.low < 0.2 and alone.high > 20
    alike = mean(Moments(2_000, 4_000, 2_000, 1_000, 1_000, 1_000), support=1)  # two in each session, of all visitors
    assert (alike.low, alike.high) == (pytest.approx(1.91, abs=0.01), pytest.approx(2.09, abs=0.01))
