from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_referee import Row, find_sessions

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions import LogCounts, LogMapping, preset, sessionise

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

MINUTE = 60_000_000
SPRING = int(datetime(2025, 3, 30, 0, 40, tzinfo=UTC).timestamp()) * 1_000_000  # 20 minutes before summer time
SINCE, UNTIL = SPRING - 40 * MINUTE, SPRING + 300 * MINUTE
ZONE = "Europe/Amsterdam"
SCHEMA = pa.schema(
    [
        (name, pa.string())
        for name in ("visitor", "customer", "device", "location", "channel", "page", "query", "action")
    ]
    + [(name, pa.string()) for name in ("order_id", "key")]
    + [("time", pa.int64()), ("price", pa.float64())]
)
MAPPING = replace(
    preset("events"),
    zone=ZONE,
    bot="device = 'robot'",
    locations=("nl", "b'e"),
    since=datetime.fromtimestamp(SINCE / 1e6, UTC),
    until=datetime.fromtimestamp(UNTIL / 1e6, UTC),
)


def row(visitor: str | None, minutes: float | None, action: str = "page", **more: Any) -> Row:
    empty = dict.fromkeys(SCHEMA.names) | {"location": "nl"}
    time = None if minutes is None else SPRING + round(minutes * MINUTE)
    return {**empty, "visitor": visitor, "time": time, "action": action, **more}


def run(folder: Path, rows: list[Row], mapping: LogMapping = MAPPING, **how: Any) -> tuple[LogCounts, list[Row]]:
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "log.parquet")
    counts = sessionise(folder / "log.parquet", mapping, folder / "out", replace=True, **how)
    return counts, sorted(read(folder, "sessions"), key=lambda one: (one["visitor"], one["session"]))


def read(folder: Path, part: str) -> list[Row]:
    return [row for file in sorted((folder / "out" / part).glob("*")) for row in pq.read_table(file).to_pylist()]


def judged(folder: Path, rows: list[Row], buckets: int) -> None:
    """What the engine finds is what the referee finds: sessions, every event's place, every reason, every count."""
    counts, found_sessions = run(folder, rows, buckets=buckets, threads=1)
    sessions, accepted, rejected = find_sessions(rows, zone=ZONE, since=SINCE, until=UNTIL)
    assert found_sessions == sessions
    events = read(folder, "events")
    assert {e["arrival"]: (e["visitor"], e["session"], e["place"], e["late"]) for e in events} == accepted
    assert counts.flags["repeated_order"] == sum(event["repeated_order"] for event in events)
    assert not any(event["repeated_order"] and event["action"] != "other" for event in events)
    assert {row["arrival"]: row["reason"] for row in read(folder, "rejected")} == rejected
    assert counts.read == len(rows) == counts.accepted + sum(counts.rejected.values())
    assert {reason: n for reason, n in counts.rejected.items() if n} == {
        reason: list(rejected.values()).count(reason) for reason in set(rejected.values())
    }
    assert counts.flags["late"] == sum(late for *_, late in accepted.values())
    assert (counts.accepted, counts.sessions) == (len(accepted), len(sessions))
    assert counts.identified == sum(session["customer"] is not None for session in sessions)
    assert counts.purchases == sum(session["purchase"] for session in sessions)


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(["a", "b", "c", "", None]),
        # Steps of 15 minutes meet the limit of 30 exactly; a second more or less misses it.
        st.one_of(
            st.none(),
            st.integers(-4, 24).map(lambda k: 15.0 * k),
            st.integers(0, 12).map(lambda k: 15 * k + 1 / 60),
            st.just(-3e7),
        ),
        st.sampled_from(["page", "query", "add", "remove", "order", "other", "dance", ""]),
        customer=st.sampled_from([None, None, "", "x", "y"]),
        device=st.sampled_from([None, "pc", "tv", "robot"]),
        channel=st.sampled_from([None, "paid"]),
        query=st.sampled_from([None, "", "shoe", "hat"]),
        price=st.sampled_from([None, 1.5]),
        order_id=st.sampled_from([None, "", "o1", "o2"]),
        location=st.sampled_from(["nl", "b'e", "us", "", None]),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, buckets=st.integers(1, 3))
def test_agrees_with_the_referee(tmp_path: Path, rows: list[Row], buckets: int) -> None:
    judged(tmp_path, rows, buckets)


@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_referee_on_many_visitors(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = [
        row(
            f"v{draw.integers(200)}",
            float(draw.integers(-50, 320)),
            str(draw.choice(["page", "page", "query", "order", "x"])),
            customer=[None, None, None, "x", "y"][draw.integers(5)],
            device=[None, "pc", "tv", "robot"][draw.integers(4)],
            query=[None, "shoe", "hat"][draw.integers(3)],
            order_id=[None, "o1", "o2"][draw.integers(3)],
        )
        for _ in range(6000)
    ]
    judged(tmp_path, rows, buckets=5)


def test_thirty_minutes_do_not_end_a_session_and_a_microsecond_more_does(tmp_path: Path) -> None:
    rows = [row("a", 0), row("a", 30), row("b", 0), row("b", 30, key="k")]
    rows[3]["time"] += 1
    _, found_sessions = run(tmp_path, rows)
    assert [(one["visitor"], one["session"]) for one in found_sessions] == [("a", 1), ("b", 1), ("b", 2)]


def test_an_order_that_is_shown_again_is_one_order(tmp_path: Path) -> None:
    # The receipt of o1 is on two hits, and is opened again an hour later; o2 and an order without a number count.
    rows = [row("a", 0, "order", order_id="o1"), row("a", 0, "order", order_id="o1", key="second hit")]
    rows += [row("a", 1, "order", order_id="o2"), row("a", 2, "order"), row("a", 3, "order")]
    rows += [row("a", 60, "order", order_id="o1"), row("b", 60, "order", order_id="o1")]
    counts, sessions = run(tmp_path, rows)
    orders = [(one["visitor"], one["orders"], one["others"], one["purchase"]) for one in sessions]
    assert orders == [("a", 4, 1, True), ("a", 0, 1, False), ("b", 1, 0, True)]
    assert (counts.flags["repeated_order"], counts.purchases) == (2, 2)


def test_only_declared_locations_and_devices_are_accepted(tmp_path: Path) -> None:
    mapping = replace(MAPPING, devices=("pc",))
    rows = [row("a", 0, device="pc"), row("b", 0, device="pc", location="us"), row("c", 0, device="pc", location=None)]
    rows += [row("d", 0, device="tv"), row("e", 0)]
    counts, sessions = run(tmp_path, rows, mapping)
    assert [session["visitor"] for session in sessions] == ["a"]
    assert (counts.rejected["location"], counts.rejected["device"]) == (2, 2)


def test_a_login_takes_its_own_session_only(tmp_path: Path) -> None:
    # Session 1 (0, 10) is anonymous throughout; session 2 (60, 70, 80) logs in at 70.
    rows = [row("a", minutes) for minutes in (0, 10, 60)] + [row("a", 70, customer="x"), row("a", 80)]
    counts, found_sessions = run(tmp_path, rows)
    assert [(one["customer"], one["events"]) for one in found_sessions] == [(None, 2), ("x", 3)]
    assert (counts.sessions, counts.identified) == (2, 1)


def test_another_customer_begins_another_session(tmp_path: Path) -> None:
    # x logs in at 5; what follows is x's until y logs in at 15.
    rows = [row("a", 0), row("a", 5, customer="x"), row("a", 10), row("a", 15, customer="y"), row("a", 20)]
    _, found_sessions = run(tmp_path, rows)
    assert [(one["customer"], one["events"]) for one in found_sessions] == [("x", 3), ("y", 2)]


def test_hours_are_told_through_the_beginning_of_summer_time(tmp_path: Path) -> None:
    # 0:40 UTC is 1:40 in Amsterdam (winter); 1:20 UTC is 3:20 (summer). Sunday both times.
    _, found_sessions = run(tmp_path, [row("a", 0), row("b", 40)])
    assert [(one["hour"], one["weekday"]) for one in found_sessions] == [(1, 7), (3, 7)]


def test_an_order_does_not_make_a_session_longer(tmp_path: Path) -> None:
    actions = ("page", "query", "add", "remove", "order", "other")
    _, found_sessions = run(tmp_path, [row("a", k, action) for k, action in enumerate(actions)])
    assert (found_sessions[0]["length"], found_sessions[0]["events"], found_sessions[0]["purchase"]) == (4, 6, True)


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
def test_wall_clocks_are_read_as_the_standard_library_reads_them(tmp_path: Path, zone: str) -> None:
    walls = [
        datetime(2025, 1, 1) + timedelta(minutes=15 * quarter)
        for day in (67, 88, 91, 95, 278, 299, 306)  # all changes of 2025 in these zones lie in these three days each
        for quarter in range((day - 1) * 96, (day + 1) * 96)
    ]
    walls = sorted(set(walls))
    log = pa.table(
        {"visitor": ["a"] * len(walls), "time": [str(wall) for wall in walls], "action": ["page"] * len(walls)}
    )
    pq.write_table(log, tmp_path / "log.parquet")
    mapping = replace(preset("events"), unit="local", time_zone=zone, required=("visitor", "time"))
    counts = sessionise(tmp_path / "log.parquet", mapping, tmp_path / "out")
    first = [wall.replace(tzinfo=ZoneInfo(zone)) for wall in walls]
    there_and_back = [moment.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for moment in first]
    real = [wall == again for wall, again in zip(walls, there_and_back, strict=True)]
    second = [moment.replace(fold=1) for moment in first]
    twice = [
        is_real and one.utcoffset() != two.utcoffset() for one, two, is_real in zip(first, second, real, strict=True)
    ]
    assert {e["arrival"]: (e["time"], e["ambiguous_time"]) for e in read(tmp_path, "events")} == {
        number: (round(moment.timestamp() * 1e6), again)
        for number, (moment, is_real, again) in enumerate(zip(first, real, twice, strict=True), start=1)
        if is_real
    }
    assert counts.rejected["impossible_time"] == real.count(False)
    assert counts.flags["ambiguous_time"] == sum(twice)
    assert (sum(twice) > 0) == (zone != "Asia/Kolkata")


@pytest.mark.parametrize(
    ("unit", "written", "microseconds"),
    [
        ("s", "1740268801.75", 1_740_268_801_750_000),
        ("ms", "1740268801750", 1_740_268_801_750_000),
        ("us", "1740268801750001", 1_740_268_801_750_001),
        ("iso", "2025-02-23T00:00:01.750Z", 1_740_268_801_750_000),
        ("iso", "2025-02-23T01:00:01.750+01:00", 1_740_268_801_750_000),
        ("iso", "2025-02-23 00:00:01.750", 1_740_268_801_750_000),
        ("s", "99999999999999999999999", None),
        ("us", "9223372036854775808", None),
        ("us", "253402300800000000", None),
        ("s", "-1", None),
        ("iso", "infinity", None),
        ("iso", "yesterday", None),
        ("local", "yesterday", None),
        ("local", "1969-12-31 23:59:59", None),
    ],
)
def test_times_are_read_exactly_or_set_aside(tmp_path: Path, unit: str, written: str, microseconds: int | None) -> None:
    pq.write_table(pa.table({"visitor": ["a"], "time": [written], "action": ["page"]}), tmp_path / "log.parquet")
    counts = sessionise(tmp_path / "log.parquet", replace(preset("events"), unit=unit), tmp_path / "out")
    assert [row["time"] for row in read(tmp_path, "events")] == ([] if microseconds is None else [microseconds])
    assert counts.rejected["no_time"] == (microseconds is None)


def test_files_with_a_renamed_column_and_a_malformed_line(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.csv").write_text('client_id,t,what\na,10,page\n"b,c",11,page\na,12,page,surplus\n')
    (tmp_path / "log" / "2.csv").write_text("t,clientId,what\n20,a,order\n21,,page\n")
    mapping = LogMapping(
        "toy",
        "csv",
        raw={"visitor": ("client_id", "clientId"), "t": ("t",), "what": ("what",)},
        events={"visitor": "visitor", "time": "t", "action": "what"},
        required=("visitor", "t"),
        unit="s",
        actions={"page": "page", "order": "order"},
    )
    counts = sessionise(tmp_path / "log", mapping, tmp_path / "out")
    # Five lines: two of a, one of "b,c", one without visitor; and one that is no row.
    assert (counts.read, counts.accepted, counts.malformed, counts.rejected["no_visitor"]) == (4, 3, 1, 1)
    lines = pq.read_table(tmp_path / "out" / "malformed.parquet").to_pylist()
    assert [(line["file"], line["line"], line["text"]) for line in lines] == [("1.csv", 4, "a,12,page,surplus")]
    assert [(row["visitor"], row["events"], row["purchase"]) for row in read(tmp_path, "sessions")] == [
        ("a", 2, True),
        ("b,c", 1, False),
    ]


def test_lines_of_json(tmp_path: Path) -> None:
    lines = [{"visitor": "a", "time": SPRING}, {"visitor": "a", "time": SPRING + MINUTE, "action": "order"}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    counts = sessionise(tmp_path / "log.jsonl", replace(preset("events"), format="json"), tmp_path / "out")
    # The first event says no action, which is an action that no mapping names.
    assert (counts.sessions, counts.purchases, counts.flags["unknown_action"]) == (1, 1, 1)


def test_a_session_of_a_hundred_thousand_events(tmp_path: Path) -> None:
    count = 100_000
    rows = pa.table(
        {"visitor": ["a"] * count, "time": SPRING + np.arange(count)[::-1] * MINUTE, "action": ["page"] * count}
    )
    pq.write_table(rows, tmp_path / "log.parquet")
    counts = sessionise(tmp_path / "log.parquet", preset("events"), tmp_path / "out")
    # Written backwards: every event but the first to arrive is late.
    assert (counts.sessions, counts.accepted, counts.flags["late"]) == (1, count, count - 1)


def test_the_number_of_buckets_and_threads_changes_nothing_that_is_found(tmp_path: Path) -> None:
    rows = [row(f"v{k % 37}", (k * 7919) % 400, key=str(k)) for k in range(2000)]
    one = run(tmp_path, rows, buckets=1, threads=1)
    assert run(tmp_path, rows, buckets=8, threads=4) == one


def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    rows = [row(f"v{k % 37}", (k * 7919) % 400, key=str(k % 5)) for k in range(2000)]

    def written() -> dict[str, bytes]:
        run(tmp_path, rows, buckets=2, threads=4)
        files = (tmp_path / "out").rglob("*")
        return {str(file.relative_to(tmp_path)): file.read_bytes() for file in files if file.is_file()}

    assert written() == written()


def test_an_empty_log_has_no_sessions(tmp_path: Path) -> None:
    counts, found_sessions = run(tmp_path, [])
    assert (counts.read, counts.sessions, found_sessions) == (0, 0, [])


def test_counts_are_kept_with_what_they_depend_on(tmp_path: Path) -> None:
    run(tmp_path, [row("a", 0)])
    document = json.loads((tmp_path / "out" / "counts.json").read_text())
    assert document["counts"]["sessions"] == 1
    assert document["declared"]["zone"] == ZONE
    assert document["declared"]["until"] == "2025-03-30 05:40:00+00:00"


def test_a_log_without_the_columns_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"visitr": ["a"], "time": [1], "action": ["page"]}), tmp_path / "log.parquet")
    with pytest.raises(ConfigurationError, match="visitor: none of visitor; did you mean 'visitr'"):
        sessionise(tmp_path / "log.parquet", preset("events"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_expression_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    mapping = replace(preset("events"), events={**preset("events").events, "device": "agent.kind"})
    with refused(VisirError, "events", "agent", code="mapping-cannot-applied-log"):
        run(tmp_path, [row("a", 0)], mapping)


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    run(tmp_path, [row("a", 0)])
    with refused(VisirError, code="exists-already-folder-kind"):
        sessionise(tmp_path / "log.parquet", MAPPING, tmp_path / "out")


def test_no_idle_time_is_refused(tmp_path: Path) -> None:
    with refused(VisirError, "0", code="not-number-above"):
        sessionise(tmp_path / "log.parquet", MAPPING, tmp_path / "out", idle_minutes=0)
