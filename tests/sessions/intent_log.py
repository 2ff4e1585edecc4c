"""A small log with a purchase intent in it, for tests: visitors, two devices a customer, logins, orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.sessions import preset, sessionise

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
BEGAN = 1_740_787_200_000_000  # 1 March 2025, 00:00 UTC, a Saturday
Row = dict[str, Any]
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("visitor", "customer", "device", "channel", "page", "query", "action", "key")]
    + [("time", pa.int64()), ("price", pa.float64())]
)


def event(visitor: str, minutes: float, page: str | None = "list", action: str = "page", **more: Any) -> Row:
    empty = dict.fromkeys(SCHEMA.names)
    return {
        **empty,
        "visitor": visitor,
        "time": BEGAN + round(minutes * MINUTE),
        "page": page,
        "action": action,
        **more,
    }


def folder_of(rows: list[Row], where: Path) -> Path:
    """The folder of sessions of these events."""
    where.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), where / "log.parquet")
    sessionise(where / "log.parquet", preset("events"), where / "sessions", replace=True, threads=1)
    return where / "sessions"


def random_log(customers: int = 60, seed: int = 0) -> list[Row]:
    """Customers with two visitors (a phone, a pc) over three weeks, in the order of time. Some log in late, some never;
    buyers open "product" and "basket" more often and stay longer; nulls where logs have them."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for number in range(customers):
        logs_in = rng.choice(["start", "later", "never"], p=[0.5, 0.2, 0.3])
        days = np.sort(rng.uniform(0, 21, rng.integers(2, 7)))
        for day in days:
            device = str(rng.choice(["pc", "smartphone"], p=[0.6, 0.4]))
            buys = rng.random() < (0.5 if device == "pc" else 0.25)
            visitor, minute = f"v{number}-{device}", float(day * 24 * 60)
            channel = rng.choice(["paid", "direct", ""], p=[0.5, 0.3, 0.2]) or None
            pages = int(rng.integers(8, 22))
            types = rng.choice(
                ["list", "product", "basket", ""], pages, p=[0.2, 0.5, 0.2, 0.1] if buys else [0.6, 0.25, 0.05, 0.1]
            )
            for place, page in enumerate(types):
                known = logs_in == "start" or (logs_in == "later" and place >= 3)
                tells = place > 0 or rng.random() < 0.9  # a first request that does not tell its device, here and there
                common = {"customer": f"c{number}" if known else None, "device": device if tells else None}
                rows.append(event(visitor, minute, page or None, channel=channel, **common))
                minute += float(rng.exponential(1.5 if buys else 0.7))
                if rng.random() < 0.15:
                    rows.append(event(visitor, minute, None, "query", query="shoe", **common))
                    minute += 0.05
            if buys:
                rows.append(event(visitor, minute, None, "order", price=20.0, **common))
    return sorted(rows, key=lambda row: row["time"])
