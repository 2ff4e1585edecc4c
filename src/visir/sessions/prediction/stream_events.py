"""Events of a stream: checked one by one, or made of a log's rows by a mapping.

A mapping is SQL, the same that makes the events of training (`definition.events_sql`). It runs on the rows that came
together; so bots, times and actions are read as in training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from math import isfinite
from numbers import Integral
from pathlib import Path
from typing import Any, TypeGuard

from visir.errors import ConfigurationError, nearest
from visir.sessions.definition import events_sql, rows_sql
from visir.sessions.engine import duckdb_engine, without_query
from visir.sessions.making import mapping_of
from visir.sessions.mapping import ACTIONS, COLUMNS, LogMapping

ROWS_AT_ONCE = 2_000

_OTHER_COLUMNS = (
    "a stream has visir's own columns (docs/reference/session-logs.md); of a log's own columns: --preset NAME or "
    "--mapping FILE (in Python: mapping=…)"
)

_OTHER_UNITS = (  # the years 1998 to 2128
    ("seconds", 1_000_000, range(900_000_000, 5_000_000_000)),
    ("milliseconds", 1_000, range(900_000_000_000, 5_000_000_000_000)),
)

TEXTS = tuple(name for name in COLUMNS if name not in ("time", "price", "action"))
"""Columns of text; a whole number is taken as its digits."""

LONGEST_TEXT = 8_192
"""Characters of an id, a page, a search: web servers take no longer address, and open sessions hold these texts."""

Fault = tuple[str, str]
"""Why an event cannot be used (`live.SET_ASIDE`), and what to do."""


def fault_of(event: Mapping[str, Any]) -> Fault | None:
    """Why an event cannot be used; None where it can."""
    time, action = event.get("time"), event.get("action")
    if event.get("visitor") in (None, ""):
        return "no_visitor", "an event needs the id of its visitor"
    if not _is_whole(time) or time < 0:
        return "no_time", f"time {_short(time)}: whole microseconds since 1970 (UTC) are needed"
    time = int(time)  # not NumPy's: those are looked for in a range one by one
    for unit, factor, values in _OTHER_UNITS:
        if time in values:
            return "wrong_unit", f"time {time} looks like {unit}: microseconds are needed, {factor:,} times as many"
    for name in TEXTS:
        value = event.get(name)
        if value is not None and not isinstance(value, str) and not _is_whole(value):
            return "no_text", f"{name} {_short(value)}: a text is needed"
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            return "long_text", f"{name}: a text of {len(value):,} characters; at most {LONGEST_TEXT:,}"
    if action not in ACTIONS:
        if action is None:
            return "unknown_action", f"an event needs an action: {', '.join(ACTIONS)}"
        return "unknown_action", f"action {_short(action)}: {nearest(str(action)[:100], ACTIONS)}"
    return None


def _short(value: Any) -> str:
    shown = repr(value) if isinstance(value, str | Integral | float | None) else f"of type {type(value).__name__}"
    return shown if len(shown) <= 100 else f"{shown[:100]}…"


def price_of(value: Any) -> float | None:
    """A price as a number; None where it is none, as in a log."""
    try:
        price = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return price if isfinite(price) else None


def _is_whole(value: Any) -> TypeGuard[Integral]:
    """Whether it is a whole number, of Python or of NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_columns(columns: Sequence[str]) -> None:
    """Check that events have the columns without which none can be scored."""
    missing = [name for name in ("visitor", "time", "action") if name not in columns]
    if missing:
        raise ConfigurationError(
            f"events without {', '.join(missing)}; there are {', '.join(columns)}.",
            hint=_OTHER_COLUMNS,
        )


class MappedStream:
    """Rows of a stream become events by a mapping, with one engine for all of them. `close` it at the end."""

    def __init__(self, mapping: LogMapping, rejected: Counter[str]) -> None:
        self._mapping, self._rejected = mapping, rejected
        unnested = [] if mapping.unnest is None else [mapping.unnest]
        self._names = list(dict.fromkeys([name for names in mapping.raw.values() for name in names] + unnested))
        rows = rows_sql(mapping, "chunk", ["arrival", *self._names], arrival="arrival")
        self._query = f"{events_sql(mapping, rows)} ORDER BY arrival"
        self._open = ExitStack()
        self._engine = self._open.enter_context(
            duckdb_engine(Path(mapping.name), "Reading a stream by a mapping", threads=1)
        )

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check that rows have the columns that the mapping needs."""
        present = list(dict.fromkeys(name for row in rows for name in row))
        rows_sql(self._mapping, "chunk", present, arrival="arrival")

    def events(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The events of rows that came together."""
        import duckdb
        import pyarrow as pa

        if not rows:
            return []
        columns = {name: _column([row.get(name) for row in rows], self._mapping.format) for name in self._names}
        self._engine.register("chunk", pa.table({"arrival": pa.array(range(len(rows)), pa.int64()), **columns}))
        try:
            events = self._engine.sql(self._query).to_arrow_table().to_pylist()
        except duckdb.Error as fault:
            raise ConfigurationError(
                f"mapping {self._mapping.name!r} cannot be applied to the stream: {without_query(str(fault))}",
                hint="compare the names and expressions under [raw] and [events] with the stream's columns",
            ) from fault
        self._rejected.update(event["reason"] for event in events if event["reason"] is not None)
        return [{name: event[name] for name in COLUMNS} for event in events if event["reason"] is None]

    def close(self) -> None:
        """Close the engine."""
        self._open.close()


def read_stream(
    rows: Any, mapping: str | Path | LogMapping | None, rejected: Counter[str]
) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Events of rows, in their order, some at once."""
    columns = getattr(rows, "column_names", None) or getattr(rows, "columns", None)
    if columns is not None:
        if mapping is None:
            check_columns([str(name) for name in columns])
        if hasattr(rows, "to_pylist"):
            rows = rows.to_pylist()
        else:  # what is missing in a DataFrame is not a number
            rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return read_chunks(_chunks(iter(rows)), mapping, rejected)


def read_chunks(
    chunks: Iterable[Sequence[Mapping[str, Any]]], mapping: str | Path | LogMapping | None, rejected: Counter[str]
) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The events of each chunk of rows."""
    check: Callable[[Sequence[Mapping[str, Any]]], object] = _check_first
    with ExitStack() as at_end:
        mapped = None if mapping is None else MappedStream(mapping_of(mapping), rejected)
        if mapped is not None:
            at_end.callback(mapped.close)
            check = mapped.check
        is_first = True
        for chunk in chunks:
            if is_first and chunk:
                check(chunk)
                is_first = False
            yield chunk if mapped is None else mapped.events(chunk)


def _check_first(chunk: Sequence[Mapping[str, Any]]) -> None:
    fault = fault_of(chunk[0])
    if fault is not None and fault[0] in ("wrong_unit", "unknown_action"):
        raise ConfigurationError(f"the first event cannot be scored: {fault[1]}.", hint=_OTHER_COLUMNS)


def _chunks(rows: Iterator[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        yield chunk


def _column(values: list[Any], file_format: str) -> Any:
    """A column; CSV is text, and a column without any value too."""
    import pyarrow as pa

    if file_format == "csv":
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    array = pa.array(values)
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array
