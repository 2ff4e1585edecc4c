"""Folders of sessions made by hand, and the statistics again, in plain Python."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from visir.sessions.sql import SESSIONS as SESSIONS_KIND
from visir.storage import new_folder

DAY = 86_400_000_000
MONDAY = 1_569_801_600_000_000  # 2019-09-30, 00:00 UTC
Row = dict[str, Any]
SESSIONS = pa.schema(
    [("visitor", pa.string()), ("session", pa.int64()), ("customer", pa.string())]
    + [(name, pa.int64()) for name in ("began", "ended", "length", "queries", "orders")]
    + [("hour", pa.int8()), ("weekday", pa.int8()), ("purchase", pa.bool_())]
    + [("device", pa.string()), ("channel", pa.string())]
)
_TEXTS, _WHOLE = ("visitor", "action", "query", "page"), ("session", "place")
EVENTS = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.int64()) for name in _WHOLE),
        ("price", pa.float64()),
    ]
)


def visit(
    visitor: str, number: int = 1, *, day: int = 0, hour: int = 12, asked: tuple[str, ...] = (), **more: Any
) -> Row:
    """The `number`-th session of `visitor`, on a day from Monday on; `asked`: its queries, "" for one without words."""
    plain = {"customer": None, "device": "pc", "channel": "direct", "purchase": False, "length": 3}
    began = MONDAY + day * DAY + hour * DAY // 24 + number
    told = {"visitor": visitor, "session": number, "began": began, "ended": began, "hour": hour, "weekday": day % 7 + 1}
    row = {**plain, **told, "queries": len(asked), "asked": asked, **more}
    return {"orders": int(row["purchase"]), **row}


def folder(target: Path, rows: list[Row], parts: int = 2) -> Path:
    """A folder as `sessionise` writes it, as far as it is read."""
    counts = {
        "read": len(rows) + 1,
        "malformed": 0,
        "accepted": len(rows),
        "rejected": {"bot": 1, "no_time": 0},
        "flags": {"late": 0},
        "visitors": len({row["visitor"] for row in rows}),
        "sessions": len(rows),
        "identified": sum(row["customer"] is not None for row in rows),
        "purchases": sum(row["purchase"] for row in rows),
        "purchases_identified": sum(row["purchase"] and row["customer"] is not None for row in rows),
    }
    declared = {"mapping": "by hand", "zone": "UTC", "idle_minutes": 30, "about": "made <b>by hand</b>"}
    with new_folder(target, SESSIONS_KIND, replace=True) as change:
        for part in range(parts):
            own = [row for row in rows if sum(map(ord, row["visitor"])) % parts == part]
            events = [
                {"visitor": row["visitor"], "session": row["session"], "action": "query", "query": text or None}
                for row in own
                for text in row["asked"]
            ]
            events += [
                {"visitor": row["visitor"], "session": row["session"], "place": place, **event}
                for row in own
                for place, event in enumerate(row.get("events", ()), start=1)
            ]
            name = f"part-{part:05d}.parquet"
            plain = [{key: value for key, value in row.items() if key not in ("asked", "events")} for row in own]
            pq.write_table(pa.Table.from_pylist(plain, SESSIONS), change.file(f"sessions/{name}"))
            pq.write_table(pa.Table.from_pylist(events, EVENTS), change.file(f"events/{name}"))
        change.write_json("counts.json", {"counts": counts, "declared": declared, "engine": "none"})
    return target


def percent(rows: list[Row], column: str, value: Any, purchase: bool) -> float | None:
    """Of the sessions with that outcome and a known column, the percentage with that value."""
    known = [row for row in rows if row["purchase"] == purchase and row[column] is not None]
    return 100 * sum(row[column] == value for row in known) / len(known) if known else None


def steps(rows: list[Row], reading: str) -> Counter[tuple[str, str]]:
    """Device transitions of Figure 6.5, customer by customer."""
    found: Counter[tuple[str, str]] = Counter()
    for customer in {row["customer"] for row in rows} - {None}:
        own = sorted(
            (row for row in rows if row["customer"] == customer), key=lambda row: (row["began"], row["visitor"])
        )
        for at, (before, after) in enumerate(pairwise(own), start=1):
            wanted = {
                "last": after["purchase"],
                "journey": not before["purchase"] and any(row["purchase"] for row in own[at:]),
                "all": True,
            }
            if wanted[reading] and before["device"] and after["device"]:
                found[before["device"], after["device"]] += 1
    return found
