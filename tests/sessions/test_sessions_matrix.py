"""What each log tells of chapter 6, in one matrix: by hand on small logs, and the documentation's against the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sessions_matrix import matrix
from visir.files import data_directory
from visir.reports.table import Table
from visir.sessions import load_mapping, preset, sessionise

for package in ("duckdb", "sklearn", "numba"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")

DOCS = Path(__file__).parents[2] / "docs/background/sessions-that-buy.md"
LOGS = {
    "ga-sessions": "ga_sessions_sample.parquet",
    "ga4-events": "ga4_events_sample.parquet",
    "hotel-search": "hotel_sessions_100k.parquet",
    "shop-events": "shop_events_14_days.tar.xz",
}
HOUR = 3_600_000_000


def sessions(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """The sessions of these events."""
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "log.parquet")
    sessionise(folder / "log.parquet", preset("events"), folder / "sessions")
    return folder / "sessions"


def cells(table: Table) -> dict[str, tuple[Any, ...]]:
    return {str(row[0]): row[1:] for row in table.rows}


def test_a_log_of_devices_alone(tmp_path: Path) -> None:
    # On Thursday 1 January 1970 (UTC), b a minute later: A buys on a phone, b looks at one page on a computer.
    said = {"visitor": "A", "device": "phone", "time": 12 * HOUR}
    rows = [{**said, "action": "page"}, {**said, "action": "order", "time": 12 * HOUR + 1}]
    rows.append({"visitor": "b", "device": "computer", "time": 12 * HOUR + 60_000_000, "action": "page"})
    found = cells(matrix({"small": sessions(tmp_path / "small", rows)}))
    rare = "without Tablet / Game Console / TV"
    assert found == {
        "Table 6.1": (
            "yes; without Anonymous / Logged-in or recognized / Logged-in or recognized customers / Queries / "
            "Queries per session",
        ),
        "Table 6.2": ("no: the log names no channel",),
        "Table 6.3": ("no: the log names no customer",),
        "Table 6.4": (f"yes; {rare}",),
        "Table 6.5": ("no: the log records no search",),
        "Table 6.6": ("no: the log records no search",),
        "Table 6.7": ("no; anonymous: none; identified: none",),
        "Figure 6.2": (f"yes; {rare}",),
        "Figure 6.3": ("no: the log covers a single day of the week",),
        "Figure 6.4": ("yes",),
        "Figure 6.5": ("no: the log names no customer, and a visitor is one browser",),
        "Figure 6.6": ("no; anonymous: none; identified: none",),
        "Figure 6.7": ("no; anonymous: none; identified: none",),
    }


def test_features_that_do_not_vary_and_steps_that_can_be_counted(tmp_path: Path) -> None:
    # Three pages a minute apart, on one device, through one channel: two buy, two do not. Nobody is known when a
    # session begins, so nothing of history can be. A customer comes back once and buys: one step into a purchase.
    rows: list[dict[str, Any]] = []
    for at, (visitor, day, pages, buys) in enumerate(
        [("A", 0, "pqr", 1), ("b", 1, "prq", 0), ("C", 2, "ppp", 1), ("d", 3, "qqq", 0)]
    ):
        said = {"visitor": visitor, "device": "pc", "channel": "direct"}
        begins = (24 * day + 10 + at) * HOUR
        rows += [
            {**said, "time": begins + minute * 60_000_000, "action": "page", "page": page, "customer": None}
            for minute, page in enumerate(pages)
        ]
        rows += [{**said, "time": begins + 180_000_000, "action": "order", "page": None, "customer": None}] * buys
    for day in (0, 1):
        said = {"visitor": "k", "device": "pc", "channel": "direct", "page": "p", "customer": "K"}
        rows.append({**said, "time": (24 * day + 9) * HOUR, "action": "page"})
    rows.append({**rows[-1], "time": rows[-1]["time"] + 1, "action": "order"})
    found = cells(matrix({"small": sessions(tmp_path / "small", rows)}))
    assert found["Table 6.7"] == (
        # By the second page: number of pages, page score, hour and day vary. No page is left before the second opens.
        "yes; anonymous: 4 of 9, of sessions of 3 pages, without current page dwell time, mean / current page dwell "
        "time, σ; always the same: channel type / device type / device conversion rate; identified: none",
    )
    assert found["Figure 6.5"] == ("yes; without Smartphone / Tablet / Game Console / TV; 1 step",)
    assert found["Figure 6.3"] == ("yes; without Monday / Tuesday / Wednesday",)
    assert found["Table 6.2"] == ("yes; without Paid / Organic / Other",)


def test_a_log_that_tells_everything(tmp_path: Path) -> None:
    from visir.sessions.simulator import generate

    generate(tmp_path / "log", 6_000, seed=0)
    sessionise(tmp_path / "log/events", load_mapping(tmp_path / "log/mapping.toml"), tmp_path / "sessions")
    found = cells(matrix({"generated": tmp_path / "sessions"}))
    whole = [name for name, (said,) in found.items() if said == "yes"]
    assert whole == [*(f"Table 6.{one}" for one in (1, 2, 3, 4, 5, 6)), "Figure 6.2", "Figure 6.3", "Figure 6.4"]
    assert found["Table 6.7"] == ("yes; anonymous: 9 of 9; identified: 15 of 15",)
    assert found["Figure 6.7"][0].startswith("yes; anonymous: ")


@pytest.mark.nightly
@pytest.mark.skipif(
    not (data_directory() / "sessions").is_dir(), reason="needs the real logs of sessions: VISIR_DATA/sessions"
)
def test_the_documentation_says_what_the_code_says(tmp_path: Path) -> None:
    for name, file in LOGS.items():
        sessionise(data_directory() / "sessions" / file, preset(name), tmp_path / name)
    table = matrix({name: tmp_path / name for name in LOGS})
    lines = [
        f"| {' | '.join(row)} |"
        for row in (["thesis", *(f"`{name}`" for name in LOGS)], *([str(cell) for cell in row] for row in table.rows))
    ]
    printed = DOCS.read_text(encoding="utf-8").splitlines()
    gone = [line for line in lines if line not in printed]
    assert not gone, "docs/background/sessions-that-buy.md should hold these lines:\n" + "\n".join(gone)
