from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.errors import ConfigurationError
from visir.sessions import load_mapping, preset, presets, sessionise

GOOD = """
format = "csv"
[raw]
visitor = "id"
time = "t"
what = ["action", "event"]
[events]
visitor = "visitor"
time = "time"
action = "what"
[actions]
view = "page"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "own.toml").write_text(text)
    return folder / "own.toml"


def test_a_mapping_of_ones_own_is_a_toml_file(tmp_path: Path) -> None:
    mapping = load_mapping(written(tmp_path, GOOD))
    assert (mapping.name, mapping.unit, mapping.raw["what"]) == ("own", "us", ("action", "event"))


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as fault:
        replace(preset("events"), unit="h", zone="Europe/Amsterdm", events={"visitr": "x"}, actions={"view": "pag"})
    text = str(fault.value)
    for part in (
        "unknown unit 'h'",
        "'Europe/Amsterdm' is not a time zone",
        "did you mean 'visitor'",
        "did you mean 'page'",
        "events.time is missing",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("format = ", "not valid TOML"),
        (GOOD.replace("format", "formt"), "did you mean 'format'"),
        (GOOD.replace("[raw]", "[rows]"), "raw is missing"),
        ("until = 2025-01-01T00:00:00\n" + GOOD, "has no offset"),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_mapping(written(tmp_path, text))


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with refused(ConfigurationError, meant="hotel-search"):
        preset("hotel-serch")


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_sound(name: str) -> None:
    assert preset(name).about


# Counted outside visir: rows; rows without a client id (49,963 − 14,329 − 32,726 = 2,908); Google's 45 transactions
# have 43 numbers, in 43 visits and as many sessions, on 92 hits; the shop's 294 orders are all kept, four of them
# second ones of their session. Sessions are what the definition finds, kept here so that a change of it is seen.
REAL = [
    ("ga-sessions", "ga_sessions_sample.parquet", 13_233, {}, 2_513, 43, 0, 43),
    ("ga4-events", "ga4_events_sample.parquet", 24_219, {}, 20_840, 604, 0, 618),
    ("hotel-search", "hotel_sessions_100k.parquet", 100_003, {}, 7_711, 7_292, 0, 13_597),
    (
        "shop-events",
        "shop_events_14_days.tar.xz",
        49_963,
        {"no_visitor": 2_908, "bot": 6_155, "duplicate": 1},
        32_168,
        290,
        811,
        294,
    ),
]


@pytest.mark.parametrize(("name", "file", "read", "rejected", "sessions", "purchases", "identified", "orders"), REAL)
def test_real_logs(
    data_dir: Path,
    tmp_path: Path,
    name: str,
    file: str,
    read: int,
    rejected: dict[str, int],
    sessions: int,
    purchases: int,
    identified: int,
    orders: int,
) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    log = data_dir / "sessions" / file
    if not log.is_file():
        pytest.skip(f"no log at {log}")
    counts = sessionise(log, preset(name), tmp_path / "out", buckets=3)
    assert counts.read == read == counts.accepted + sum(counts.rejected.values())
    assert {reason: count for reason, count in counts.rejected.items() if count} == rejected
    assert (counts.sessions, counts.purchases, counts.identified) == (sessions, purchases, identified)
    assert counts.flags["unknown_action"] == 0
    rows = [row for part in (tmp_path / "out" / "sessions").iterdir() for row in pq.read_table(part).to_pylist()]
    assert len(rows) == sessions
    assert sum(row["orders"] for row in rows) == orders
