"""Logs as they are, through `visir sessions make`: all is counted and explained, nothing is dropped in silence."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from visir.sessions.cli import app
from visir.sessions.simulator import Dirt, GeneratedLog, Shop, generate

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

HOUR = 3_600_000_000
NEW_YORK = "America/New_York"
# Four weeks in which New York (9 March) and Amsterdam (30 March) begin summer time; and end it (2 Nov., 26 Oct.).
SPRING, AUTUMN = Shop(begin=date(2025, 3, 3)), Shop(begin=date(2025, 10, 6))

LOCAL = """
format = "csv"
unit = "local"
time_zone = "America/New_York"
zone = "Europe/Amsterdam"
bot = "agent = 'crawler'"
until = 2025-12-31T00:00:00Z
required = ["visitor", "time", "action"]
[raw]
visitor = ["client_id", "clientId"]
customer = "customer"
time = "time"
agent = "agent"
channel = "channel"
page = "page"
query = "query"
price = "price"
action = "action"
[events]
visitor = "visitor"
customer = "customer"
time = "time"
device = "agent"
channel = "channel"
page = "page"
query = "query"
price = "price"
action = "action"
[actions]
page = "page"
query = "query"
add = "add"
remove = "remove"
order = "order"
"""


def sessions(log: Path, mapping: Path, out: Path, *more: object) -> tuple[dict[str, Any], str]:
    """Run the verb; what it counted, and what it printed."""
    arguments = ["make", log, "--mapping", mapping, "--out", out, "--threads", 1, *more]
    found = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160", "NO_COLOR": "1"})
    if found.exception is not None:
        raise found.exception
    counts: dict[str, Any] = json.loads((out / "counts.json").read_text())["counts"]
    assert counts["read"] == counts["accepted"] + sum(counts["rejected"].values())
    for kind, count in (counts["rejected"] | counts["flags"]).items():
        assert (f"{kind} " in found.output) == (count > 0)  # what occurred is told, with its reason
    return counts, found.output


def table(out: Path, *without: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "sessions").drop_columns(list(without)).to_pylist()
    return sorted(rows, key=lambda row: (row["visitor"], row["session"]))


def wall(times: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """The wall clock in a zone as text, to the microsecond."""
    moments = times.cast(pa.timestamp("us", zone))
    return pc.strftime(moments, format="%Y-%m-%d %H:%M:%S")


def written(folder: Path, shop: Shop, dirt: Dirt | None) -> GeneratedLog:
    """A generated log as two CSV files of another country: wall clocks, visitor's column renamed on the way."""
    generated = generate(folder / "log", 4000, shop=shop, dirt=dirt)
    events = pq.read_table(folder / "log" / "events")
    events = pa.table({name: events[name].cast(events.schema.field(name).type.value_type)
                       if pa.types.is_dictionary(events.schema.field(name).type) else events[name]
                       for name in events.column_names})  # fmt: skip
    agent = pc.if_else(pc.is_null(events["device"]), "crawler", events["device"])
    own = {"client_id": events["visitor"], "agent": agent, "time": wall(events["time"], NEW_YORK)}
    own |= {name: events[name] for name in ("customer", "channel", "page", "query", "price", "action")}
    log, half = pa.table(own), len(events) // 2
    (folder / "csv").mkdir()
    csv.write_csv(log[:half], folder / "csv" / "1.csv")
    renamed = ["clientId" if name == "client_id" else name for name in log.column_names]
    csv.write_csv(log[half:].rename_columns(renamed), folder / "csv" / "2.csv")
    (folder / "local.toml").write_text(LOCAL)
    return generated


def test_every_kind_at_once(tmp_path: Path) -> None:
    """Two zones across the change of one, two names of one column, and all dirt: the clean log's sessions are found."""
    generated = written(tmp_path, SPRING, Dirt.of_every_kind(0.02))
    with (tmp_path / "csv" / "1.csv").open("a") as log:
        log.write("x,pc,2025-03-20 10:00:00,,,,,,page,surplus,columns\n")
        for number in range(100_000):  # a page a second for a day and four hours: a machine that says it is a TV
            day, second = divmod(number, 86_400)
            log.write(
                f"tv,tv,2025-03-{20 + day} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02},,,,,,page\n"
            )
    counts, _ = sessions(tmp_path / "csv", tmp_path / "local.toml", tmp_path / "found", "--buckets", 3)
    kinds = ("no_visitor", "no_time", "future", "bot")
    assert {kind: counts["rejected"][kind] for kind in kinds} == {kind: generated.dirt[kind] for kind in kinds}
    assert counts["flags"]["unknown_action"] == generated.dirt["unknown_action"]
    assert (counts["malformed"], counts["rejected"]["impossible_time"]) == (1, 0)
    generate(tmp_path / "clean", 4000, shop=SPRING)
    clean, _ = sessions(tmp_path / "clean" / "events", tmp_path / "clean" / "mapping.toml", tmp_path / "of_clean")
    assert (counts["sessions"], counts["purchases"]) == (clean["sessions"] + 1, clean["purchases"])
    assert counts["rejected"]["duplicate"] == generated.dirt["duplicate"]
    touched = ("ended", "events", "others")  # by actions that nobody knows, a microsecond after another event
    found = [row for row in table(tmp_path / "found", *touched) if row["visitor"] != "tv"]
    assert found == table(tmp_path / "of_clean", *touched)
    long = [row for row in table(tmp_path / "found") if row["visitor"] == "tv"]
    assert [(row["length"], row["pages"], row["session"]) for row in long] == [(100_000, 100_000, 1)]


def test_a_repeated_hour_of_another_zone_is_counted(tmp_path: Path) -> None:
    written(tmp_path, AUTUMN, None)
    counts, _ = sessions(tmp_path / "csv", tmp_path / "local.toml", tmp_path / "found")
    # 1:00 to 2:00 comes twice in New York on 2 November 2025: 5:00 to 6:00 in UTC, and 6:00 to 7:00.
    first = int(np.datetime64("2025-11-02T05:00:00", "us").astype(np.int64))
    time = pq.read_table(tmp_path / "log" / "events")["time"].to_numpy()
    assert counts["flags"]["ambiguous_time"] == ((time >= first) & (time < first + 2 * HOUR)).sum() > 5
    assert counts["rejected"]["impossible_time"] == 0
    accepted_events = pq.read_table(tmp_path / "found" / "events")
    times = accepted_events.filter(accepted_events["ambiguous_time"])["time"].to_numpy()
    assert ((times >= first) & (times < first + HOUR)).all()  # read as the first


def test_an_hour_that_never_was_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "local.toml").write_text(LOCAL)
    (tmp_path / "log.csv").write_text("client_id,time,action\na,2025-03-09 01:59:59,page\na,2025-03-09 02:30:00,page\n")
    counts, output = sessions(tmp_path / "log.csv", tmp_path / "local.toml", tmp_path / "found")
    assert (counts["accepted"], counts["rejected"]["impossible_time"]) == (1, 1)
    assert "a wall clock that summer time skipped" in output


def test_a_log_in_any_order_has_the_same_sessions(tmp_path: Path) -> None:
    generate(tmp_path / "log", 3000)
    mapping = tmp_path / "log" / "mapping.toml"
    sessions(tmp_path / "log" / "events", mapping, tmp_path / "found")
    events = pq.read_table(tmp_path / "log" / "events")
    shuffled = np.random.default_rng(0).permutation(len(events))
    pq.write_table(events.take(shuffled), tmp_path / "shuffled.parquet")
    counts, _ = sessions(tmp_path / "shuffled.parquet", mapping, tmp_path / "of_shuffled")
    assert table(tmp_path / "found") == table(tmp_path / "of_shuffled")
    seen: dict[str, int] = {}
    late = 0
    shuffle = events.take(shuffled)
    for visitor, time in zip(shuffle["visitor"].to_pylist(), shuffle["time"].to_pylist(), strict=True):
        late += time < seen.get(visitor, time)
        seen[visitor] = max(time, seen.get(visitor, time))
    assert counts["flags"]["late"] == late > 1000


@pytest.mark.parametrize("column", ["customer", "device", "channel", "page", "query", "price", "action"])
def test_a_column_without_values_costs_what_it_tells_and_no_row(tmp_path: Path, column: str) -> None:
    generated = generate(tmp_path / "log", 300)
    events = pq.read_table(tmp_path / "log" / "events")
    events = events.set_column(events.column_names.index(column), column, pa.nulls(len(events)))
    pq.write_table(events, tmp_path / "log.parquet")
    mapping = tmp_path / "log" / "mapping.toml"
    mapping.write_text(re.sub("(?m)^bot = .*$", "", mapping.read_text()))
    counts, _ = sessions(tmp_path / "log.parquet", mapping, tmp_path / "found")
    assert (counts["accepted"], counts["sessions"]) == (generated.rows, generated.sessions)
    assert counts["flags"]["unknown_action"] == (generated.rows if column == "action" else 0)
    assert (counts["identified"] > 0) == (column != "customer")
    assert (counts["purchases"] > 0) == (column != "action")


@pytest.mark.parametrize(
    ("line", "instead", "reason"),
    [
        ('unit = "us"', 'unit = "iso"', "no_time"),
        ('unit = "us"', 'unit = "s"', "no_time"),  # microseconds read as seconds lie beyond the year 9999
        ('visitor = "visitor"\ncustomer', 'visitor = "NULL"\ncustomer', "no_visitor"),
        ("until = 2019", "until = 2018", "future"),
    ],
)
def test_a_log_of_which_nothing_is_kept_says_why(tmp_path: Path, line: str, instead: str, reason: str) -> None:
    generated = generate(tmp_path / "log", 50)
    mapping = tmp_path / "log" / "mapping.toml"
    before, mark, after = mapping.read_text().rpartition(line)  # what is to be changed stands last under [events]
    assert mark
    mapping.write_text(before + instead + after)
    counts, output = sessions(tmp_path / "log" / "events", mapping, tmp_path / "found")
    assert (counts["accepted"], counts["rejected"][reason]) == (0, generated.rows)
    assert f"no row was accepted, most because of {reason}" in output


def test_the_real_shop_log_needs_both_names_of_its_visitors(data_dir: Path, tmp_path: Path) -> None:
    log = data_dir / "sessions" / "shop_events_14_days.tar.xz"
    if not log.is_file():
        pytest.skip(f"no log at {log}")
    from importlib import resources

    preset = (resources.files("visir.sessions") / "presets" / "shop-events.toml").read_text("utf-8")
    both = '["client_id", "clientId"]'
    assert both in preset
    (tmp_path / "shop.toml").write_text(preset.replace(both, '"client_id"'))
    counts, output = sessions(log, tmp_path / "shop.toml", tmp_path / "found")
    # Of 49,963 rows 14,329 name their visitor under client_id, 32,726 under clientId and 2,908 nowhere.
    assert (counts["read"], counts["rejected"]["no_visitor"], counts["malformed"]) == (49_963, 32_726 + 2_908, 0)
    assert "71.32%" in output
