"""What distinguishes sessions that buy: every statistic against a slow one, by hand, and what a log cannot tell."""

from __future__ import annotations

import shutil
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from described import Row, folder, percent, steps, visit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, t

from refusals import refused
from visir.errors import VisirError
from visir.evaluation.published import open_table
from visir.sessions.description import Statistic, StatisticCell, describe, suppressed
from visir.sessions.description import session_log as log_module
from visir.sessions.description.outcomes import BUYING, OTHER
from visir.sessions.description.statistic import dominated_note, mean, share, standardised
from visir.stats import Moments
from visir.stats.means import wilson

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

DEVICES = ("pc", "phone", "tv")
RANDOM = st.lists(
    st.fixed_dictionaries(
        {
            "visitor": st.sampled_from("abcdefg"),
            "customer": st.sampled_from([None, None, "k", "l", "m"]),
            "device": st.sampled_from([None, *DEVICES]),
            "channel": st.sampled_from([None, "paid", "direct"]),
            "purchase": st.booleans(),
            "length": st.sampled_from([0, 1, 2, 3, 5, 19, 20, 21, 25, 60, 1000]),
            "day": st.integers(0, 9),
            "hour": st.integers(0, 23),
            "asked": st.lists(st.sampled_from(["", "shoes", "Shoes", "hat"]), max_size=3).map(tuple),
        }
    ),
    min_size=1,
    max_size=40,
)


def visits_of(drawn: list[Row]) -> list[Row]:
    return [visit(number=number, **values) for number, values in enumerate(drawn, 1)]


def shares(statistic: Statistic, column: str) -> list[float | None]:
    return [statistic.value(row, column).value for row in statistic.rows]  # type: ignore[misc]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=RANDOM)
def test_every_statistic_is_what_counting_gives(drawn: list[Row], tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = visits_of(drawn)
    characterisation = describe(folder(tmp_path_factory.mktemp("log"), rows), threads=1)
    for name, column in (("table-6-2", "channel"), ("table-6-4", "device")):
        statistic = characterisation.statistic(name)
        values = {row[column] for row in rows} - {None}
        assert set(statistic.rows) == values
        assert bool(statistic.unavailable) == (not values)
        for value in values:
            own = [row["purchase"] for row in rows if row[column] == value]
            assert statistic.value(value, "Purchase sessions").value == pytest.approx(
                percent(rows, column, value, True)
            )
            assert statistic.value(value, "Non-purchase sessions").value == pytest.approx(
                percent(rows, column, value, False)
            )
            assert statistic.value(value, "Conversion rate").value == pytest.approx(100 * sum(own) / len(own))
    hours = characterisation.statistic("figure-6-4")
    for hour in range(24):
        assert hours.value(f"{hour:02d}", "Purchase sessions").value == pytest.approx(percent(rows, "hour", hour, True))
    days = characterisation.statistic("figure-6-3")
    assert bool(days.unavailable) == (len({row["weekday"] for row in rows}) == 1)
    told = {row["device"] for row in rows} - {None}
    for reading, name in (("last", "figure-6-5"), ("journey", "figure-6-5-journey"), ("all", "figure-6-5-all")):
        expected, statistic = steps(rows, reading), characterisation.statistic(name)
        assert bool(statistic.unavailable) == (not expected)
        for left in told if expected else ():
            of = sum(count for (before, _), count in expected.items() if before == left)
            assert statistic.value(left, "Transitions").value == of
            for to in told:
                assert statistic.value(left, to).value == (pytest.approx(100 * expected[left, to] / of) if of else None)
    _judge_customers(characterisation.statistic("table-6-3"), rows)
    _judge_queries(characterisation.statistic("table-6-5"), characterisation.statistic("table-6-6"), rows)
    _judge_lengths(characterisation.statistic("figure-6-2"), characterisation.statistic("figure-6-2-percentiles"), rows)


def _judge_customers(statistic: Statistic, rows: list[Row]) -> None:
    devices: dict[str, set[str]] = {}
    buys: dict[str, bool] = {}
    for row in rows:
        if row["customer"]:
            devices.setdefault(row["customer"], set()).update({row["device"]} - {None})
            buys[row["customer"]] = buys.get(row["customer"], False) or row["purchase"]
    if statistic.unavailable:
        assert not devices or not any(row["device"] for row in rows)
        return
    for bought, column in ((True, "Purchasers"), (False, "Non-purchasers")):
        own = [len(devices[who]) for who in devices if buys[who] == bought and devices[who]]
        for label, test in (
            ("1 device", lambda n: n == 1),
            ("2 devices", lambda n: n == 2),
            ("> 1 device", lambda n: n > 1),
        ):
            expected = 100 * sum(map(test, own)) / len(own) if own else None
            assert statistic.value(label, column).value == (None if expected is None else pytest.approx(expected))


def _judge_queries(mean: Statistic, unique: Statistic, rows: list[Row]) -> None:
    if mean.unavailable:
        assert not any(row["device"] for row in rows) or not any(row["asked"] for row in rows)
        return
    for bought, column in ((True, "Purchase"), (False, "Non-purchase")):
        of = [row for row in rows if row["purchase"] == bought and row["device"]]
        whole = sum(row["queries"] for row in of)
        texts = {name: {q for row in of if row["device"] == name for q in row["asked"]} - {""} for name in mean.rows}
        once = [q for row in rows if row["device"] for q in row["asked"] if q]
        for device in mean.rows[:-1]:
            own = [row for row in of if row["device"] == device]
            asked = sum(row["queries"] for row in own)
            got = mean.value(device, f"{column}: queries per session").value
            assert got == (pytest.approx(asked / len(own)) if own else None)
            assert mean.value(device, f"{column}: share").value == (
                pytest.approx(100 * asked / whole) if whole else None
            )
            if not unique.unavailable:
                assert unique.value(device, f"{column}: texts").value == len(texts[device])
                alone = sum(once.count(text) == 1 for text in texts[device])
                assert unique.value(device, f"{column}: asked once").value == alone
        if not unique.unavailable:
            assert unique.value("Total", f"{column}: texts").value == sum(map(len, texts.values()))


def _judge_lengths(curve: Statistic, table: Statistic, rows: list[Row]) -> None:
    for device in table.rows:
        for bought, said in ((True, "Purchase"), (False, "Non-purchase")):
            own = sorted(row["length"] for row in rows if row["device"] == device and row["purchase"] == bought)
            assert table.value(device, f"{said}: sessions").value == len(own)
            if not own:
                assert table.value(device, f"{said}: P50").value is None
                continue
            # the nearest-rank percentile: ⌈q n⌉-th smallest, in whole numbers
            assert table.value(device, f"{said}: P50").value == own[-(-len(own) * 50 // 100) - 1]
            assert table.value(device, f"{said}: P90").value == own[-(-len(own) * 90 // 100) - 1]
            for x in curve.rows:
                longer = sum(length > int(x.replace(",", "")) for length in own)
                value = curve.value(x, f"{device}, {said.lower()}")
                assert value.value == pytest.approx(100 * longer / len(own))
                assert value.low is not None
                assert value.high is not None
                assert value.low - 1e-9 <= 100 * longer / len(own) <= value.high + 1e-9


def rates(*values: float, n: int = 100_000) -> list[Moments]:
    """Rates of n sessions, each of a visitor of its own."""
    return [Moments(y=p * n, yy=p * n, yn=p * n, n=n, nn=n, units=n) for p in values]


def test_the_standardised_rates_of_the_thesis() -> None:
    # mean 1/3, σ = √(((1/6)² + (2/15)² + (1/30)²) / 3) = 0.12472; 0.16667 / 0.12472 = 1.336
    values = [cell.value for cell in standardised(rates(0.5, 0.2, 0.3))]
    assert [round(value, 2) for value in values if isinstance(value, float)] == [1.34, -1.07, -0.27]
    assert [cell.value for cell in standardised(rates(0.2, 0.2))] == [None, None]
    assert standardised(rates(0.2))[0].value is None


def test_intervals_of_standardised_rates_of_common_groups_are_those_of_the_delta_method() -> None:
    # ∂z_i/∂r_j = (δ_ij - (1 + z_i z_j) / k) / σ
    values, n = (0.5, 0.2, 0.3, 0.25), 20_000
    z, sigma = (np.array(values) - np.mean(values)) / np.std(values), np.std(values)
    slopes = (np.eye(4) - (1 + np.outer(z, z)) / 4) / sigma
    half = 1.96 * np.sqrt(slopes**2 @ (np.array(values) * (1 - np.array(values)) / n))
    for cell, middle, width in zip(standardised(rates(*values, n=n)), z, half, strict=True):
        assert (cell.low, cell.high) == (
            pytest.approx(middle - width, abs=0.006),
            pytest.approx(middle + width, abs=0.006),
        )


def test_means_of_rare_counts() -> None:
    # 100 visitors with a session each: nothing counted, Poisson's upper end 3.689 / 100; one counted, 5.572 / 100
    assert mean(Moments(0, 0, 0, 100, 100, 100), support=0).high == pytest.approx(0.03689, abs=1e-5)
    cell = mean(Moments(1, 1, 1, 100, 100, 100), support=1)
    # var = 100/99 · (1 - 2·0.01 + 0.0001·100) / 100² = 0.0001: worth 0.0001 / 0.0001 = 1 count, and with t of 99
    # degrees of freedom for the normal quantile (1.959964 / 1.984217)² = 0.97570
    low, high = chi2.ppf(0.025, 2 * 0.97570), chi2.ppf(0.975, 2 * 1.97570)
    assert (cell.low, cell.high) == pytest.approx((0.01 * low / 2 / 0.97570, 0.01 * high / 2 / 0.97570), rel=1e-4)
    # many: normal. Half of 10,000 sessions have 2: mean 1, var 1 / 10,000
    many = mean(Moments(10_000, 20_000, 10_000, 10_000, 10_000, 10_000), support=1)
    assert (many.low, many.high) == (pytest.approx(0.9804, abs=5e-4), pytest.approx(1.0196, abs=5e-4))


def test_wilson_by_hand() -> None:
    # p = 0.2 of 10, z = 1.96: middle (0.2 + 3.8416/20) / 1.38416 = 0.28327, half 1.96/1.38416 · √(0.016 + 0.009604)
    low, high = wilson(0.2, 10, 1.96)
    half = 1.96 / 1.38416 * sqrt(0.016 + 0.009604)
    assert (low, high) == (pytest.approx(0.28327 - half, abs=1e-4), pytest.approx(0.28327 + half, abs=1e-4))
    assert wilson(0.0, 10, 1.96)[0] == 0.0
    assert wilson(1.0, 10, 1.96)[1] == 1.0


def test_a_visitor_who_does_everything_twice_makes_nothing_surer(tmp_path: Path) -> None:
    once = [visit(f"v{n}", purchase=n % 3 == 0, device=DEVICES[n % 2]) for n in range(60)]
    twice = once + [{**row, "session": 2} for row in once]
    a, b = (
        describe(folder(tmp_path / name, rows)).statistic("table-6-4") for name, rows in (("a", once), ("b", twice))
    )
    for row in a.rows:
        for column in ("Purchase sessions", "Conversion rate", "Standardised rate"):
            cell, other = a.value(row, column), b.value(row, column)
            assert (cell.value, cell.low, cell.high) == pytest.approx((other.value, other.low, other.high))


def test_a_share_of_visitors_is_that_of_sessions_when_each_comes_once() -> None:
    # Σ(y − p n)² = m p (1 − p): the design effect is m / (m − 1)
    moments = Moments(y=20, yy=20, yn=20, n=100, nn=100, units=100)
    assert moments.effective == pytest.approx(99)
    # all sessions of a visitor alike: 10 visitors with 10 sessions each are worth 9
    assert Moments(y=20, yy=200, yn=200, n=100, nn=1000, units=10).effective == pytest.approx(9)
    assert share(Moments(y=0, yy=0, yn=0, n=100, nn=1000, units=10)).high == pytest.approx(
        100 * wilson(0, 10, 2.2621572)[1]
    )
    assert share(Moments(0, 0, 0, 0, 0, 0)) == StatisticCell(None, support=0)


def test_a_rate_that_all_visitors_share_is_no_certainty() -> None:
    """Half of everybody's sessions: the variance is 0 but for rounding, and once was worth 4·10¹⁶ sessions."""
    n = np.array([2.0, 4, 6, 10]) * 7
    y = 0.3 * n
    moments = Moments(y.sum(), (y * y).sum(), (y * n).sum(), n.sum(), (n * n).sum(), 4)
    assert moments.variance == 0
    assert moments.effective == pytest.approx(22**2 / (4 + 16 + 36 + 100))  # sessions of a visitor are all alike
    cell = share(moments)
    assert cell.low is not None and cell.high is not None and cell.low < 10 and cell.high > 60
    # one of two sessions of each visitor: less spread than independent sessions have, and worth no more than there are
    alternate = Moments(y=50, yy=50, yn=100, n=100, nn=200, units=50)
    assert alternate.effective <= 100


def test_a_few_visitors_are_few_however_many_there_are() -> None:
    """A robot with 900 of 1,000 sessions: 100 others count for hardly more than it."""
    n = np.r_[900.0, np.ones(100)]
    y = np.r_[90.0, (np.arange(100) % 10 == 0)]
    moments = Moments(y.sum(), (y * y).sum(), (y * n).sum(), n.sum(), (n * n).sum(), 101)
    assert moments.visitors == pytest.approx(1000**2 / (900**2 + 100))
    assert moments.is_dominated
    assert moments.quantile() == pytest.approx(t.ppf(0.975, 1))
    (note,) = dominated_note({"robot": moments, "nobody": Moments(0, 0, 0, 0, 0, 0)})
    assert note.startswith("A few visitors have most of the sessions of robot:")
    assert not Moments(y=2, yy=2, yn=2, n=8, nn=8, units=8).is_dominated  # eight are few, and none has most


def test_a_group_of_a_few_purchases_is_not_standardised() -> None:
    def alone(y: int, n: int) -> Moments:
        return Moments(y, y, y, n, n, n)

    groups = [alone(50, 100), alone(20, 100), alone(30, 100)]
    few = alone(4, 100)
    assert few.is_small and alone(96, 100).is_small and not alone(6, 100).is_small
    values = [cell.value for cell in standardised([*groups[:2], few, groups[2]])]
    assert values[2] is None
    assert [value for value in values if value is not None] == pytest.approx([1.336, -1.069, -0.267], abs=1e-3)


def test_neither_buckets_nor_threads_change_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [
        visit(
            f"v{rng.integers(40)}",
            number,
            customer=rng.choice([None, "k", "l"]),
            device=str(rng.choice(DEVICES)),
            purchase=bool(rng.random() < 0.3),
            day=int(rng.integers(7)),
            asked=tuple(rng.choice(["a", "b", "c"], rng.integers(3))),
        )
        for number in range(200)
    ]
    log = folder(tmp_path / "log", rows, parts=3)
    plain = describe(log, threads=1)
    monkeypatch.setattr(log_module, "SESSIONS_PER_BUCKET", 30)
    assert describe(log, threads=2, memory="500MB") == plain


def test_three_readings_of_device_transitions(tmp_path: Path) -> None:
    # pc, phone (buys), tv, pc (buys), pc (buys), tv; another customer, who never buys: tv, phone
    walk = (("pc", False), ("phone", True), ("tv", False), ("pc", True), ("pc", True), ("tv", False))
    rows = [visit(f"v{at}", customer="k", day=at, device=on, purchase=buys) for at, (on, buys) in enumerate(walk)]
    rows += [visit("w", customer="l", device="tv"), visit("x", customer="l", day=1, device="phone")]
    characterisation = describe(folder(tmp_path / "log", rows))

    def of(name: str) -> dict[tuple[str, str], float]:
        statistic, names = characterisation.statistic(name), DEVICES
        told = {(a, b): statistic.value(a, b).value for a in names for b in names}
        return {step: value for step, value in told.items() if value}  # type: ignore[misc]

    # into purchase sessions: pc → phone, tv → pc, pc → pc
    assert of("figure-6-5") == {("pc", "phone"): 50, ("pc", "pc"): 50, ("tv", "pc"): 100}
    # not those that follow a purchase session at once: phone → tv, pc → pc
    assert of("figure-6-5-journey") == {("pc", "phone"): 100, ("tv", "pc"): 100}
    third = pytest.approx(100 / 3)
    assert of("figure-6-5-all") == {
        **dict.fromkeys([("pc", "phone"), ("pc", "pc"), ("pc", "tv")], third),
        ("phone", "tv"): 100,
        **dict.fromkeys([("tv", "pc"), ("tv", "phone")], 50),
    }


def test_it_shows_itself(tmp_path: Path) -> None:
    rows = [visit(f"v{day}", customer="k", day=day, device="pc", purchase=day % 2 == 0) for day in range(6)]
    description = describe(folder(tmp_path / "log", [*rows, visit("w", device="phone")]))
    assert ": 7 sessions, 42.9 % with a purchase)" in repr(description) and len(repr(description).splitlines()) == 2
    html = description._repr_html_() or ""
    assert "Devices" in html and "<table" in html and "svg" in (description.plot()._repr_html_() or "")
    devices = description.statistic("table-6-4")
    assert repr(devices).startswith("Statistic(table-6-4: Devices") and "| device " in devices.to_markdown()
    rows = devices.to_arrow().to_pylist()
    assert len(rows) == len(devices.rows) * len(devices.columns)
    assert rows[0]["value"] == devices.cells[0][0].value
    for statistic in description.statistics:
        assert statistic._repr_html_()
    with pytest.raises(
        VisirError, match=r"table-6-1: no plot; it is a table\n  → description.statistic\('table-6-1'\)"
    ):
        description.plot("table-6-1")


def test_what_a_log_cannot_tell_is_said(tmp_path: Path) -> None:
    rows = [visit(f"v{n}", device=None, channel=None, purchase=n > 3) for n in range(6)]
    characterisation = describe(folder(tmp_path / "log", rows))
    why = {statistic.name: statistic.unavailable for statistic in characterisation.statistics if statistic.unavailable}
    assert why == {
        "journeys-channels": "Cannot be computed: the log names no channel.",
        "journeys-pages": "Cannot be computed: the log names no page types.",
        "prices": "Cannot be computed: the log records no price.",
        "figure-6-2": "Cannot be computed: the log names no device.",
        "figure-6-2-percentiles": "Cannot be computed: the log names no device.",
        "figure-6-3": "Cannot be computed: the log covers a single day of the week.",
        "table-6-2": "Cannot be computed: the log names no channel.",
        "table-6-3": "Cannot be computed: the log names no customer.",
        "table-6-4": "Cannot be computed: the log names no device.",
        "figure-6-5": "Cannot be computed: the log names no customer, and a visitor is one browser.",
        "figure-6-5-journey": "Cannot be computed: the log names no customer, and a visitor is one browser.",
        "figure-6-5-all": "Cannot be computed: the log names no customer, and a visitor is one browser.",
        "table-6-5": "Cannot be computed: the log names no device.",
        "table-6-6": "Cannot be computed: the log names no device.",
    }
    assert "names no customer" in characterisation.statistic("table-6-1").notes[0]
    assert "Identified sessions" not in characterisation.statistic("table-6-1").rows


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((), "the log records no search"),
        (("",), "the log records searches without their words"),
        (("(other)", "(other)"), "all 10 recorded searches carry words, and always the same"),
        (("(other)", ""), "5 of 10 recorded searches carry words, and always the same"),
    ],
)
def test_queries_that_say_nothing(tmp_path: Path, asked: tuple[str, ...], why: str) -> None:
    rows = [visit(f"v{n}", asked=asked, purchase=n > 2) for n in range(5)]
    characterisation = describe(folder(tmp_path / "log", rows))
    assert characterisation.statistic("table-6-6").unavailable == f"Cannot be computed: {why}."


def test_a_log_without_purchases(tmp_path: Path) -> None:
    characterisation = describe(folder(tmp_path / "log", [visit(f"v{n}", device=DEVICES[n % 2]) for n in range(8)]))
    statistic = characterisation.statistic("table-6-4")
    assert shares(statistic, "Purchase sessions") == [None, None]
    assert shares(statistic, "Conversion rate") == [0.0, 0.0]
    assert shares(statistic, "Standardised rate") == [None, None]  # all rates are equal
    assert "The log has no purchase session." in statistic.notes


def test_small_cells_are_hidden_and_so_is_what_would_tell_them(tmp_path: Path) -> None:
    # purchases: pc 20, phone 12, tv 2; others: 50 each
    counts = {"pc": 20, "phone": 12, "tv": 2}
    rows = [
        visit(f"{d}{n}", device=d, purchase=n < count, day=n % 7)
        for d, count in counts.items()
        for n in range(50 + count)
    ]
    log = folder(tmp_path / "log", rows)
    statistic = describe(log, suppress=10).statistic("table-6-4")
    # tv has 2 purchases; alone it would be 100 % less the others, so the next smallest goes too
    assert [[cell.hidden for cell in row] for row in statistic.cells] == [
        [False, False, False, True],
        [True] * 4,
        [True] * 4,
    ]
    assert statistic.cells[1][0] == StatisticCell(None, hidden=True)
    assert statistic.notes[-1] == "9 cells are hidden: fewer than 10, or would tell those."
    assert describe(log).statistic("table-6-4") == describe(log, suppress=1).statistic("table-6-4")
    assert "hidden" not in str(describe(log, suppress=2).statistic("table-6-4").notes)


@given(
    support=st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=2), min_size=1, max_size=6),
    least=st.integers(0, 20),
)
def test_no_hidden_share_follows_from_the_rest(support: list[list[int]], least: int) -> None:
    cells = tuple(tuple(StatisticCell(float(n), support=n) for n in row) for row in support)
    rows = tuple(map(str, range(len(cells))))
    statistic = suppressed(Statistic("s", "", "", "", rows, ("a", "b"), ("%", "%"), cells), least)
    for column in range(2):
        gone = [row for row in range(len(rows)) if statistic.cells[row][column].hidden]
        assert least > 1 or not gone
        assert least <= 1 or all(support[row][column] >= least for row in range(len(rows)) if row not in gone)
        assert len(gone) != 1 or len(rows) == 1


def test_devices_of_customers_hide_their_complement(tmp_path: Path) -> None:
    rows = [visit(f"v{n}", customer=f"k{n}", device="pc") for n in range(30)]
    rows += [visit(f"w{n}", customer=f"k{n}", device="tv") for n in range(3)]
    statistic = describe(folder(tmp_path / "log", rows), suppress=5).statistic("table-6-3")
    # 3 customers with two devices: hidden, and with them "1 device" (27) and its complement "> 1 device"
    assert [row[1].hidden for row in statistic.cells] == [True, True, True]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        VisirError,
        match=r"\(no visir\.json\)\.\n  → make one of a log: visir sessions make",
    ):
        describe(tmp_path)
    (folder(tmp_path / "log", [])).joinpath("sessions")
    with refused(VisirError, code="holds-no-sessions"):
        describe(tmp_path / "log")
    with refused(VisirError, code="there-are-none"):
        describe(tmp_path / "log", suppress=-1)


def test_what_the_published_percentages_are_of() -> None:
    """The readings that the docstrings take, held against the printed tables."""

    def column(table: str, name: str, rows: Any = None) -> list[float]:
        plain = open_table(table)
        return [plain.number(row, name) for row in rows or plain.rows]

    # Tables 6.2 and 6.4: of all sessions with that outcome
    for table, slack in (("thesis-table-6-2", 1.0), ("thesis-table-6-4", 0.03)):
        plain = open_table(table)
        for name in plain.columns[:2]:
            assert sum(column(table, name)) == pytest.approx(100, abs=slack)
    # Table 6.3: of customers; the numbers of devices part them
    for name in ("Purchasers (%)", "Non-purchasers (%)"):
        several, single, *rest = column("thesis-table-6-3", name)
        assert several == pytest.approx(sum(rest), abs=0.02)
        assert several + single == pytest.approx(100)
    # Table 6.5: all queries over all sessions, those of Table 6.4; not the mean over devices
    devices = ("Smartphone", "PC", "Tablet", "Game Console", "TV")
    per_session = column("thesis-table-6-5", "Purchase: query/session", devices)
    weights = column("thesis-table-6-4", "Purchase sessions (%)", devices)
    assert np.dot(per_session, weights) / sum(weights) == pytest.approx(3.16, abs=0.07)
    assert np.mean(per_session) < 2.01
    assert sum(column("thesis-table-6-5", "Purchase: %", devices)) == pytest.approx(100, abs=0.02)
    # Table 6.6: of the sum over devices
    counts = column("thesis-table-6-6", "Purchase: count", devices)
    assert sum(counts) == open_table("thesis-table-6-6").number("Total", "Purchase: count")
    assert [round(100 * count / sum(counts), 2) for count in counts[:1]] == [36.89]


def test_only_what_the_manifest_names_is_read(tmp_path: Path) -> None:
    log = folder(tmp_path / "log", [visit(f"v{n}", purchase=n % 2 == 0, asked=("a",)) for n in range(20)])
    before = describe(log)
    shutil.copy(log / "sessions/part-00000.parquet", log / "sessions/part-00000 (copy).parquet")
    (log / "sessions/mine.parquet").write_text("mine\n")
    assert describe(log).statistics == before.statistics
    (log / "events/part-00001.parquet").unlink()
    with refused(VisirError, "events/part-00001.parquet is missing"):
        describe(log)


def test_one_zone_for_everything_of_time(tmp_path: Path) -> None:
    # Noon and 20:00 of Monday in UTC are 21:00 of Monday and 5:00 of Tuesday in Tokyo.
    target = folder(tmp_path / "log", [visit("a", hour=12, purchase=True), visit("b", hour=20)])
    in_utc, in_tokyo = describe(target), describe(target, zone="Asia/Tokyo")
    for description, days in ((in_utc, 1), (in_tokyo, 2)):
        assert description.statistic("table-6-1").value("Days with sessions", "Total").value == days
    assert in_utc.statistic("table-6-1").value("To", "Total").value == "2019-09-30 20:00"
    assert in_tokyo.statistic("table-6-1").value("To", "Total").value == "2019-10-01 05:00"
    hours = in_tokyo.statistic("figure-6-4")
    assert hours.corner == "hour (Asia/Tokyo)"
    assert (hours.value("21", BUYING).value, hours.value("05", OTHER).value) == (100, 100)
    assert in_tokyo.statistic("figure-6-3").value("Tuesday", OTHER).value == 100
    assert in_tokyo.declared["zone"] == "Asia/Tokyo"
    with pytest.raises(VisirError, match=r"'Asia/Tokio' is not a time zone.*Asia/Tokyo"):
        describe(target, zone="Asia/Tokio")
