"""Journeys and prices, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from described import Row, folder, visit

from visir.sessions.description import Characterisation, describe

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")


def page(kind: str, price: float | None = None, action: str = "page") -> Row:
    return {"action": action, "page": kind, "price": price}


ORDER = page("ordered", 30.0, "order")


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Characterisation:
    """Ann: paid, direct, direct on a tv (buys), then organic (buys); bob buys at once; eve never does."""
    rows = [
        visit("a", 1, customer="ann", channel="paid", events=(page("home"), page("home"), page("list"))),
        visit("a", 2, customer="ann", day=1, events=(page("list"), page("item", 10.0))),
        visit(
            "b",
            1,
            customer="ann",
            day=2,
            device="tv",
            purchase=True,
            events=(page("item", 20.0), page("item", 90.0), page("basket"), ORDER, page("thanks")),
        ),
        visit("a", 3, customer="ann", day=3, channel="organic", purchase=True, events=(page("home"), ORDER)),
        visit("c", 1, channel="organic", purchase=True, events=(page("home"), ORDER)),
        visit("d", 1, events=(page("home"), page("item", 5.0), page("item", 7.0), page("item", 50.0))),
    ]
    return describe(folder(tmp_path_factory.mktemp("sessions") / "log", rows))


def test_sessions_of_a_journey(description: Characterisation) -> None:
    statistic = description.statistic("journeys")
    counts = {row: statistic.value(row, "Journeys").value for row in statistic.rows}
    assert counts == {"1": 2, "2": 0, "3": 1, "4": 0, "5 or more": 0}
    assert statistic.value("1", "Share").value == pytest.approx(200 / 3)
    assert [statistic.value(row, "Within 24 hours").value for row in ("1", "2", "3")] == [100, None, 0]
    assert [statistic.value(row, "On several device types").value for row in ("1", "3")] == [0, 100]


def test_channels_of_a_journey(description: Characterisation) -> None:
    statistic = description.statistic("journeys-channels")
    assert [(row, cells[0].value) for row, cells in zip(statistic.rows, statistic.cells, strict=True)] == [
        ("organic", 2),
        ("paid › direct", 1),
    ]


def test_pages_before_an_order(description: Characterisation) -> None:
    statistic = description.statistic("journeys-pages")
    # equal neighbours are one step, over the ends of sessions too; what follows the order is no way to it
    assert [(row, cells[0].value) for row, cells in zip(statistic.rows, statistic.cells, strict=True)] == [
        ("home", 2),
        ("home › list › item › basket", 1),
    ]


def test_prices_seen_and_paid(description: Characterisation) -> None:
    statistic = description.statistic("prices")
    seen, median, paid = ([cell.value for cell in cells] for cells in statistic.cells)
    assert seen == [pytest.approx(100 / 3), pytest.approx(200 / 3)]  # 1 of 3 purchase sessions, 2 of 3 others
    assert median == [55.0, 7.0]  # purchase: the median of 20 and 90; others: of 10 and of 5, 7, 50
    assert paid == [30.0, None]


def test_what_costs_nothing_is_no_price_and_orders_of_a_session_are_added(tmp_path: Path) -> None:
    rows = [
        visit("a", events=(page("item", 0.0), page("item", 8.0), page("item", -1.0))),
        visit("b", events=(page("item", 0.0),)),
        visit("c", purchase=True, events=(page("item", 4.0), page("ordered", 10.0, "order"), ORDER)),
    ]
    seen, median, paid = describe(folder(tmp_path / "log", rows)).statistic("prices").cells
    assert [cell.value for cell in seen] == [100, 50]
    assert [cell.value for cell in median] == [4.0, 8.0]
    assert paid[0].value == 40.0


def test_a_log_without_pages_prices_and_purchases(tmp_path: Path) -> None:
    description = describe(folder(tmp_path / "log", [visit("a", channel=None)]))
    told = {name: description.statistic(name).unavailable for name in ("journeys", "journeys-channels", "prices")}
    assert told == {
        "journeys": "Cannot be computed: the log has no purchase session.",
        "journeys-channels": "Cannot be computed: the log names no channel.",
        "prices": "Cannot be computed: the log records no price.",
    }
    assert "page types" in description.statistic("journeys-pages").unavailable
