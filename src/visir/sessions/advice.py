"""What to look at after a log was read: signs that the mapping does not mean what the log says."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

from visir.errors import nearest
from visir.sessions.counts import LogCounts
from visir.sessions.mapping import LogMapping

EXAMPLES = 3
_OLDEST = 1990
_DIGITS = {10: "s", 13: "ms", 16: "us"}
"""Digits of today's times since 1970 → their unit."""


def advice(folder: str | Path, mapping: LogMapping, counts: LogCounts) -> list[str]:
    """Sentences that name rows and words of the log, and the next action; empty where nothing is remarkable."""
    if not counts.read:
        return ["The log has no row: its files hold a head at most. Is it the right log?"]
    folder = Path(folder)
    sentences = []
    if counts.rejected["no_time"]:
        sentences += _unreadable_times(folder, mapping)
    if counts.accepted:
        sentences += _odd_times(folder, mapping)
    if counts.flags["no_offset"] and counts.flags["no_offset"] < counts.accepted:
        sentences.append(
            f"{counts.flags['no_offset']:,} times have no offset and were read as UTC, the others have one: are all of "
            'one clock? Where none has an offset, unit = "local" with time_zone reads a wall clock.'
        )
    if counts.flags["unknown_action"]:
        sentences += _unknown_actions(folder, mapping)
    if counts.accepted and not counts.purchases:
        meant = [name for name, action in mapping.actions.items() if action == "order"]
        words = f"{', '.join(map(repr, meant))} never occurs" if meant else 'no word means "order"'
        sentences.append(f"No session has a purchase: {words}. Check [actions] of the mapping.")
    return sentences


def _unreadable_times(folder: Path, mapping: LogMapping) -> list[str]:
    rows = ds.dataset(folder / "rejected").to_table(
        columns=["arrival", "written_time"], filter=(pc.field("reason") == "no_time")
    )
    rows = rows.filter(pc.is_valid(rows["written_time"])).sort_by("arrival").slice(0, EXAMPLES).to_pylist()
    if not rows:
        return []
    shown = ", ".join(f"row {row['arrival']:,}: {row['written_time']!r}" for row in rows)
    units = {_unit(row["written_time"]) for row in rows} - {"", mapping.unit}
    guess = f" They look like unit = {min(units)!r}. One log has one unit: convert what differs." if units else ""
    return [f"Times that cannot be read with unit = {mapping.unit!r}: {shown}.{guess}"]


def _unit(text: str) -> str:
    """The unit that a time looks like; "" where that cannot be told."""
    number = text.partition(".")[0]
    if number.isdigit():
        return _DIGITS.get(len(number), "")
    return "iso" if re.match(r"\d{4}-\d\d-\d\d", text) else ""


def _odd_times(folder: Path, mapping: LogMapping) -> list[str]:
    batches = ds.dataset(folder / "sessions").to_batches(columns=["began", "ended"])
    ends = [(pc.min(batch["began"]).as_py(), pc.max(batch["ended"]).as_py()) for batch in batches if len(batch)]
    first, last = min(began for began, _ in ends), max(ended for _, ended in ends)
    earliest, latest = (datetime.fromtimestamp(time / 1e6, UTC) for time in (first, last))
    if earliest.year >= _OLDEST:
        return []
    rest = f", and until {latest:%Y-%m-%d}: are two units mixed?" if latest.year >= _OLDEST else ": is it right?"
    return [f"With unit = {mapping.unit!r} the log begins on {earliest:%Y-%m-%d}{rest}"]


def _unknown_actions(folder: Path, mapping: LogMapping) -> list[str]:
    counts = Counter[str]()
    for batch in ds.dataset(folder / "events").to_batches(columns=["unknown_action"]):
        words = batch["unknown_action"].drop_null().value_counts().to_pylist()
        counts.update({word["values"]: word["counts"] for word in words})
    counted = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{word!r} ({count:,})" for word, count in counted[:EXAMPLES])
    more = f" and {len(counted) - EXAMPLES} more" if len(counted) > EXAMPLES else ""
    near = nearest(counted[0][0], list(mapping.actions)) if mapping.actions else "[actions] is empty"
    return [f'Words that [actions] does not name count as "other": {shown}{more}. For the first: {near}.']
