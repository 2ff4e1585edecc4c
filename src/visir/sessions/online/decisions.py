"""The log of decisions of an online test: who saw which variant, what was decided, what came of it.

One JSON object a line. A line decides, or tells an outcome, or both; later lines add to a session:

    {"session": "s1", "visitor": "v1", "variant": "model", "decision": "show", "time": "2026-11-02T10:00:00Z"}
    {"session": "s1", "outcome": 1}

| key | meaning |
|---|---|
| `session` | the session; one variant each |
| `variant` | the variant that it saw |
| `visitor` | the unit that was assigned at random; without it each session is its own unit |
| `decision` | what the system decided (a text or true/false), to see that it did what it should |
| `time` | ISO 8601 with an offset, or microseconds since 1970 (UTC); without it the order of the lines counts |
| `outcome` | a number (1 for a purchase, or its value), true or false; without it the session is left out |
"""

from __future__ import annotations

import hashlib
import json
import math
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.files import iter_lines

KEYS = ("session", "visitor", "variant", "decision", "time", "outcome")


@dataclass(slots=True)
class Decision:
    """One session of an online test."""

    session: str  # its name
    variant: str  # what it saw
    visitor: str  # the unit that was assigned; the session where the log names none
    decision: str  # what was decided, as a text; "" where nothing is told
    time: int  # microseconds since 1970 (UTC), or the number of its first line where the log has no times
    outcome: float | None  # what came of it; None where nothing is told
    line: int  # its first line
    timed: bool  # whether the log has a time for it


def assign(unit: str, variants: Sequence[str], *, test: str = "") -> str:
    """The variant of a unit: the same in every process and at every visit, as good as at random over units.

    Args:
        unit: The visitor (or session).
        variants: The names of the variants, of equal shares.
        test: The name of the test, so that two tests assign independently.

    Raises:
        ConfigurationError: There are fewer than two variants.

    Example:
        >>> [assign(f"v{k}", ["rules", "model"], test="spring") for k in range(4)]
        ['rules', 'model', 'model', 'model']
    """
    if len(set(variants)) < 2:
        raise ConfigurationError(f"{list(variants)}: a test needs two variants.", hint='["control", "model"]')
    digest = hashlib.sha256(f"{test}\n{unit}".encode()).digest()
    return variants[int.from_bytes(digest[:8], "big") * len(variants) >> 64]


class DecisionLog:
    """Writes a log of decisions: every call adds a line at the end of the file.

    Args:
        path: The file; it is begun where there is none, and never shortened.

    Example:
        >>> log = DecisionLog("decisions.jsonl")
        >>> log.decide("s1", "model", visitor="v1", decision="show")
        >>> log.outcome("s1", 1)
        >>> read_decisions("decisions.jsonl")[0].outcome
        1.0
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def decide(
        self,
        session: str,
        variant: str,
        *,
        visitor: str | None = None,
        decision: str | bool | None = None,
        time: int | None = None,
    ) -> None:
        """Add a decision.

        Args:
            session: The session.
            variant: What it sees.
            visitor: The unit that was assigned.
            decision: What the system decided.
            time: Microseconds since 1970 (UTC); by default now.
        """
        now = clock.time_ns() // 1000 if time is None else time
        row = {"session": session, "visitor": visitor, "variant": variant, "decision": decision, "time": now}
        self._add({key: value for key, value in row.items() if value is not None})

    def outcome(self, session: str, value: float) -> None:
        """Add what came of a session: 1 for a purchase and 0 for none, or an amount."""
        self._add({"session": session, "outcome": value})

    def _add(self, row: dict[str, Any]) -> None:
        with self._path.open("ab") as file:  # one write each, so that lines of several processes do not mix
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def read_decisions(path: str | Path) -> list[Decision]:
    """The sessions of a log of decisions, in the order of time."""
    faults: list[str] = []
    sessions: dict[str, Decision] = {}
    for number, line in enumerate(iter_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        row = _row(line)
        wrong = [row] if isinstance(row, str) else _faults(row)
        if not isinstance(row, str) and not wrong:
            wrong = _join(sessions, row, number)
        faults += [f"{path}, line {number}: {fault}" for fault in wrong]
    timeless = [each.line for each in sessions.values() if not each.timed]
    if 0 < len(timeless) < len(sessions):
        faults += [f"{path}, line {line}: no time, though other sessions have one" for line in timeless]
    hint = f"a line is a JSON object with {', '.join(KEYS)}"
    raise_faults(VisirError, f"{path}: a log of decisions", faults, hint=hint)
    if not sessions:
        raise VisirError(
            f"{path}: no decision in it.",
            hint='{"session": "s1", "variant": "model", "outcome": 1}',
            code="no-decision",
        )
    return sorted(sessions.values(), key=lambda each: (each.time, each.line))


def _row(line: bytes) -> dict[str, Any] | str:
    """The object of a line, or what is wrong with it."""
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError) as fault:
        return f"not JSON ({fault})"
    return row if isinstance(row, dict) else "JSON, but no object"


def _faults(row: dict[str, Any]) -> list[str]:
    faults = [f"unknown key {key!r}; {nearest(key, KEYS)}" for key in row if key not in KEYS]
    faults += [
        f"{key} is {json.dumps(value)}, not a text"
        for key in ("session", "visitor", "variant")
        if (value := row.get(key)) is not None and not (isinstance(value, str) and value)
    ]
    if row.get("session") is None:
        faults.append("no session")
    outcome = row.get("outcome")
    if outcome is not None and not (isinstance(outcome, bool | int | float) and math.isfinite(outcome)):
        faults.append(f"outcome is {json.dumps(outcome)}, not a number")
    if row.get("time") is not None and _microseconds(row["time"]) is None:
        faults.append(f"time is {json.dumps(row['time'])}: neither ISO 8601 with an offset nor microseconds since 1970")
    return faults


def _microseconds(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return round(moment.timestamp() * 1e6) if moment.tzinfo is not None else None


def _join(sessions: dict[str, Decision], row: dict[str, Any], number: int) -> list[str]:
    """Add a line to its session; returns what contradicts."""
    name, variant, outcome = row["session"], row.get("variant"), row.get("outcome")
    known = sessions.get(name)
    if known is None:
        if variant is None:
            return [f"session {name!r} has no variant yet: its decision must come first"]
        time = None if row.get("time") is None else _microseconds(row["time"])
        decision = "" if row.get("decision") is None else str(row["decision"]).lower()
        value = None if outcome is None else float(outcome)
        visitor, timed = row.get("visitor") or name, time is not None
        when = number if time is None else time
        sessions[name] = Decision(name, variant, visitor, decision, when, value, number, timed)
        return []
    faults = []
    if variant is not None and variant != known.variant:
        faults.append(f"session {name!r} saw {known.variant!r} at line {known.line}, and now {variant!r}")
    if row.get("visitor") is not None and row["visitor"] != known.visitor:
        faults.append(f"session {name!r} is of {known.visitor!r} at line {known.line}, and now of {row['visitor']!r}")
    if outcome is not None:
        known.outcome = float(outcome)
    return faults
