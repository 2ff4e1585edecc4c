"""The generated log on disk: found again by the sessioniser, the same whatever the size, dirt counted."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import visir.sessions.simulator.simulate as simulate
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions import LogCounts, load_mapping, sessionise
from visir.sessions.simulator import Cause, Dirt, Population, Shop, generate, simulated_parts
from visir.sessions.simulator.shop import CHECKOUT
from visir.sessions.simulator.simulate import EVENTS, PLANTED

SUMMER = Shop(begin=date(2025, 7, 7), weeks=1, zone="America/New_York")


def find_sessions(log: Path, out: Path) -> tuple[LogCounts, list[dict[str, Any]]]:
    counts = sessionise(log / "events", load_mapping(log / "mapping.toml"), out, threads=1)
    return counts, read(out / "sessions")


def read(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return sorted(rows, key=lambda row: (row["visitor"], row["began"]))


@pytest.mark.parametrize("shop", [Shop(), SUMMER])
def test_sessions_found_are_those_planted(tmp_path: Path, shop: Shop) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    generated = generate(tmp_path / "log", 5000, seed=1, shop=shop, planted=True)
    counts, sessions = find_sessions(tmp_path / "log", tmp_path / "out")
    planted = read(tmp_path / "log" / "planted")
    names = ("visitor", "began", "customer", "device", "channel", "hour", "weekday", "purchase", "pages")
    assert [[session[name] for name in names] for session in sessions] == [
        [row[name] for name in names] for row in planted
    ]
    assert (counts.read, counts.accepted, counts.sessions, counts.purchases) == (
        generated.rows, generated.rows, generated.sessions, generated.purchases
    )  # fmt: skip
    assert 5000 <= generated.sessions < 5028
    assert counts.flags == dict.fromkeys(counts.flags, 0)


def test_a_repeated_hour_is_told_once(tmp_path: Path) -> None:
    """The default log ends on the day on which summer time ends: no session begins in the hour that is told twice."""
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    hours = np.zeros(24)
    hours[1:4] = 1 / 3
    shop = Shop(hours=Cause(tuple(map(str, range(24))), tuple(hours), (1.0,) * 24))
    generate(tmp_path / "log", 20_000, shop=shop, planted=True)
    _, sessions = find_sessions(tmp_path / "log", tmp_path / "out")
    midnight = 1_572_127_200_000_000  # when 27 October 2019 begins in Amsterdam; 2:00 comes again 3 hours later
    assert not [session for session in sessions if 3 <= (session["began"] - midnight) / 3_600_000_000 < 4]
    last = [session["hour"] for session in sessions if session["began"] >= midnight]
    assert np.bincount(last, minlength=4)[1:4] == pytest.approx(len(last) / 3, rel=0.15)
    assert {session["hour"] for session in sessions} == {1, 2, 3}


def test_columns_are_those_declared(tmp_path: Path) -> None:
    generated = generate(tmp_path / "log", 300, planted=True)
    log = pq.read_table(tmp_path / "log" / "events")
    assert log.schema.remove_metadata().equals(EVENTS)
    assert pq.read_table(tmp_path / "log" / "planted").schema.remove_metadata().equals(PLANTED)
    assert pa.compute.is_in(log["action"], pa.array(["page", "query", "add", "remove", "order"])).to_pylist() == [
        True
    ] * len(log)
    document = json.loads((tmp_path / "log" / "generated.json").read_text())
    assert document["counts"] == asdict(generated)
    assert document["shop"]["zone"] == "Europe/Amsterdam"


def test_a_person_is_the_same_in_any_part_and_any_size() -> None:
    def drawn(sessions: int, people_per_part: int) -> dict[str, np.ndarray[Any, Any]]:
        every = list(simulated_parts(sessions, seed=5, people_per_part=people_per_part))
        together = {name: np.concatenate([row.events[name] for row in every]) for name in ("time", "page", "query")}
        return together | {name: np.concatenate([row.sessions[name] for row in every]) for name in every[0].sessions}

    whole, pieces, small = drawn(3000, 50_000), drawn(3000, 37), drawn(500, 50_000)
    for name, values in whole.items():
        np.testing.assert_array_equal(values, pieces[name])
        np.testing.assert_array_equal(values[: len(small[name])], small[name])
    assert len(small["person"]) < 528


def test_without_a_compiler_people_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for compiled in (True, False):
        monkeypatch.setattr(simulate, "pays", lambda numbers, *loops, compiled=compiled: compiled)
        people = simulate.simulate(simulate.causes_of(Shop(), 3), 10, 130)
        some = simulate.simulate(simulate.causes_of(Shop(), 3), 0, 130, most_sessions=40)
        made.append((people, some))
    for one, other in zip(*made, strict=True):
        assert one.people == other.people > 10
        for name, values in {**one.events, **one.sessions}.items():
            np.testing.assert_array_equal(values, {**other.events, **other.sessions}[name], name)
    assert made[0][0].people == 120 and len(made[0][0].events["time"]) > 1_000


def test_of_many_people_the_compiler_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it on one core, 20,000 people took 17.5 s in Python, and 7.3 s after it."""
    asked: list[int] = []
    monkeypatch.setattr(simulate, "pays", lambda numbers, *loops: asked.append(numbers) or True)
    monkeypatch.setattr(simulate, "_MANY", 100)
    causes = simulate.causes_of(Shop(), 3)
    assert simulate.simulate(causes, 0, 101).people == 101 and not asked
    simulate.simulate(causes, 0, 50_000, most_sessions=40)  # a part is of 50,000 people; 40 at most are needed
    assert asked[0] == 40 * simulate._COST


def test_where_there_is_too_little_room_more_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    causes, rooms = simulate.causes_of(Shop(), 3), []
    expected = simulate.simulate(causes, 0, 300)
    made = simulate.empty_arrays
    monkeypatch.setattr(simulate, "empty_arrays", lambda *room: rooms.append(room) or made(*[n // 8 for n in room]))
    people = simulate.simulate(causes, 0, 300)
    assert people.people == 300 and len(rooms) > 2
    for name, values in expected.events.items():
        np.testing.assert_array_equal(people.events[name], values, name)


def test_another_seed_is_another_log_and_the_same_seed_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        generate(tmp_path / name, 500, seed=seed, dirt=Dirt.of_every_kind(0.02), planted=True)

    def written(name: str) -> dict[str, bytes]:
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        return {str(file.relative_to(tmp_path / name)): file.read_bytes() for file in files}

    assert written("one") == written("again")
    assert written("one")["events/part-00000.parquet"] != written("two")["events/part-00000.parquet"]


def test_dirt_is_counted_and_hides_no_session(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    dirt = Dirt(duplicate=0.03, no_visitor=0.02, no_time=0.01, future=0.015, bot=0.05, unknown_action=0.025, late=0.04)
    clean = generate(tmp_path / "clean", 4000)
    dirty = generate(tmp_path / "dirty", 4000, dirt=dirt)
    assert (dirty.sessions, dirty.purchases) == (clean.sessions, clean.purchases)
    for kind, share in asdict(dirt).items():
        if kind != "late":
            assert dirty.dirt[kind] == pytest.approx(clean.rows * share, rel=0.15)
    _, expected = find_sessions(tmp_path / "clean", tmp_path / "of_clean")
    counts, sessions = find_sessions(tmp_path / "dirty", tmp_path / "of_dirty")
    rejected = dict.fromkeys(("early", "impossible_time", "location", "device"), 0) | {
        kind: dirty.dirt[kind] for kind in ("no_visitor", "no_time", "future", "bot", "duplicate")
    }
    assert counts.rejected == rejected
    never = dict.fromkeys(("repeated_order", "ambiguous_time", "no_offset", "no_price", "open_price", "no_id"), 0)
    assert counts.flags == never | {kind: dirty.dirt[kind] for kind in ("late", "unknown_action")}
    assert counts.read == dirty.rows == counts.accepted + sum(rejected.values())
    assert dirty.dirt["late"] > 100
    # An unknown action is an event of its session (a microsecond after another one), and changes nothing else.
    touched = ("events", "others", "ended")
    strip = [{name: value for name, value in row.items() if name not in touched} for row in expected]
    assert [{name: value for name, value in session.items() if name not in touched} for session in sessions] == strip
    assert sum(session["others"] for session in sessions) == dirty.dirt["unknown_action"]


def known_events(shop: Shop, sessions: int = 6_000) -> tuple[Any, NDArray[np.bool_], NDArray[np.bool_]]:
    """The part, and of each session: whether its first event knows the customer, and whether any event does."""
    part = next(simulated_parts(sessions, shop=shop))
    session, recognised = part.events["session"], part.events["recognised"]
    ever = np.zeros(len(part.sessions["person"]), bool)
    np.logical_or.at(ever, session, recognised)
    return part, recognised[np.flatnonzero(np.diff(session, prepend=-1))], ever


def test_who_logs_in_at_the_checkout_is_known_from_there_on_and_only_there() -> None:
    part, at_start, ever = known_events(Shop(logs_in=0.0, logs_in_at_checkout=1.0))
    events, sessions = part.events, part.sessions
    checkout = np.zeros(len(ever), bool)
    checkout[events["session"][events["page"] == CHECKOUT]] = True
    assert not at_start.any()
    assert np.array_equal(ever, checkout & sessions["customer"])
    assert (sessions["purchase"] & sessions["customer"])[ever].mean() > 0.5 > sessions["purchase"].mean()
    # Before the checkout page nobody is known, from it on everybody who is a customer: 1 once, then for good.
    for number in np.flatnonzero(ever)[:50]:
        mine = events["session"] == number
        first = int(np.flatnonzero(events["page"][mine] == CHECKOUT)[0])
        assert events["recognised"][mine].tolist() == [place >= first for place in range(int(mine.sum()))]


def test_when_customers_log_in_changes_nothing_else() -> None:
    plain, start, ever = known_events(Shop())
    other, start_other, ever_other = known_events(Shop(logs_in_at_checkout=0.4))
    for name in ("time", "action", "page", "session"):
        assert np.array_equal(plain.events[name], other.events[name]), name
    for name, values in plain.sessions.items():
        assert np.array_equal(values, other.sessions[name]), name
    assert not (start_other & ~start).any() and start_other.sum() < start.sum()
    assert not (ever_other & ~ever).any() and ever_other.sum() < ever.sum()
    with refused(ConfigurationError, "logs_in 0.3 and logs_in_at_checkout 0.8 exceed 1 together"):
        Shop(logs_in_at_checkout=0.8)


def test_faults_are_told_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as fault:
        Shop(begin=date(2019, 10, 1), weeks=0, zone="Mars", logs_in=2.0)
    for part in (
        "begin must be a Monday; 2019-10-01 is a Tuesday",
        "weeks must be",
        "zone 'Mars'",
        "logs_in: a chance",
    ):
        assert part in str(fault.value)
    with pytest.raises(ConfigurationError, match="the chance of a purchase would reach"):
        Shop(customers=Population(6.4, 0.5, 0.5, 0.1))
    with pytest.raises(ConfigurationError, match="switches: they change the shares of the devices"):
        Shop(switches=((0.5, 0.5, 0, 0, 0), *Shop().switches[1:]))
    with pytest.raises(ConfigurationError, match="sessions must be at least 1, not 0"):
        generate(tmp_path / "log", 0)
    with pytest.raises(ConfigurationError, match=r"bot: a share lies between 0 and 1, found 2"):
        Dirt(bot=2)
    assert not (tmp_path / "log").exists()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "mine").touch()
    with pytest.raises(VisirError, match=r"holds files that visir did not write, or no longer knows \(mine\)"):
        generate(tmp_path / "log", 10)


def test_without_factors_nothing_tells_a_purchase() -> None:
    plain = {name: Cause(row.names, row.share, (1.0,) * len(row.names)) for name, row in causes().items()}
    shop = replace(Shop(), **plain, switch_factor=1.0, customers=Population(6.4, 0.5, 0.1, 0.1))
    part = next(simulated_parts(20_000, shop=shop))
    chances = part.sessions["chance"][part.sessions["customer"]]
    np.testing.assert_allclose(chances, 0.1)


def causes() -> dict[str, Cause]:
    return {name: getattr(Shop(), name) for name in ("devices", "channels", "weekdays", "hours")}
