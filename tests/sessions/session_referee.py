"""The definition of sessions again, in plain Python: one visitor after the other, one event after the other."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

MEANINGS = {"page", "query", "add", "remove", "order", "other"}
IDLE = 30 * 60 * 1_000_000
Row = dict[str, Any]


def find_sessions(
    rows: list[Row], *, zone: str, since: int, until: int
) -> tuple[list[Row], dict[int, tuple[str, int, int, bool]], dict[int, str]]:
    """Sessions; arrival → (visitor, session, place, late) of the kept; arrival → reason of the others.

    Rows are those of the preset "events"; arrival is a row's number, from 1. The device "robot" is a bot.
    """
    rejected: dict[int, str] = {}
    of_visitor: dict[str, list[Row]] = defaultdict(list)
    seen: set[tuple[Any, ...]] = set()
    for arrival, row in enumerate(rows, start=1):
        same = tuple(row[name] or None if name != "price" and name != "time" else row[name] for name in sorted(row))
        if not row["visitor"]:
            rejected[arrival] = "no_visitor"
        elif row["time"] is None or row["time"] < 0:
            rejected[arrival] = "no_time"
        elif row["time"] < since:
            rejected[arrival] = "early"
        elif row["time"] >= until:
            rejected[arrival] = "future"
        elif row["device"] == "robot":
            rejected[arrival] = "bot"
        elif row["location"] not in ("nl", "b'e"):
            rejected[arrival] = "location"
        elif same in seen:
            rejected[arrival] = "duplicate"
        else:
            seen.add(same)
            of_visitor[row["visitor"]].append({**row, "arrival": arrival})
    kept: dict[int, tuple[str, int, int, bool]] = {}
    sessions: list[Row] = []
    for visitor in sorted(of_visitor):
        latest = -1
        late: set[int] = set()
        for event in of_visitor[visitor]:  # as they arrived
            if event["time"] < latest:
                late.add(event["arrival"])
            latest = max(latest, event["time"])
        number, before, known = 0, None, None
        open_session: list[Row] = []
        shown: set[str] = set()
        for place, event in enumerate(sorted(of_visitor[visitor], key=lambda e: (e["time"], e["arrival"])), start=1):
            customer = event["customer"] or None
            if event["action"] == "order" and event["order_id"]:
                if event["order_id"] in shown:
                    event["action"] = "other"
                shown.add(event["order_id"])
            idle = before is None or event["time"] - before > IDLE
            if idle or (customer is not None and known is not None and customer != known):
                if open_session:
                    sessions.append(_summary(visitor, number, open_session, zone))
                number, known, open_session = number + 1, None, []
            known = customer or known
            before = event["time"]
            open_session.append(event)
            kept[event["arrival"]] = (visitor, number, place, event["arrival"] in late)
        sessions.append(_summary(visitor, number, open_session, zone))
    return sessions, kept, rejected


def _summary(visitor: str, number: int, events: list[Row], zone: str) -> Row:
    began = datetime.fromtimestamp(events[0]["time"] / 1e6, UTC).astimezone(ZoneInfo(zone))
    actions = [event["action"] if event["action"] in MEANINGS else "other" for event in events]
    devices = [event["device"] for event in events if event["device"]]
    return {
        "visitor": visitor,
        "session": number,
        "customer": next((event["customer"] for event in events if event["customer"]), None),
        "began": events[0]["time"],
        "ended": events[-1]["time"],
        "hour": began.hour,
        "weekday": began.isoweekday(),
        "length": sum(action not in ("order", "other") for action in actions),
        "events": len(events),
        "pages": actions.count("page"),
        "queries": actions.count("query"),
        "adds": actions.count("add"),
        "removes": actions.count("remove"),
        "orders": actions.count("order"),
        "others": actions.count("other"),
        "unique_queries": len({event["query"] for event in events if event["query"]}),
        "purchase": "order" in actions,
        "device": devices[0] if devices else None,
        "devices": len(set(devices)),
        "channel": next((event["channel"] for event in events if event["channel"]), None),
    }
