"""Events of a stream: checked one by one, or made of a log's rows by a mapping.

A mapping is SQL, the same that makes the events of training (`definition.events_sql`). It runs on the rows that came
together; so bots, times and actions are read as in training.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from itertools import islice
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeGuard
from zoneinfo import ZoneInfo

import numpy as np

from visir.errors import ConfigurationError, nearest
from visir.sessions.definition import ACTIONS, COLUMNS, LogMapping, events_sql, rows_sql
from visir.sessions.examples import MOST_EARLIER
from visir.sessions.making import mapping_of
from visir.sessions.source import duckdb_engine, without_query
from visir.sessions.table_labels import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples

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
    rest = iter(rows)
    return read_chunks(iter(lambda: list(islice(rest, ROWS_AT_ONCE)), []), mapping, rejected)


def read_chunks(
    chunks: Iterable[Sequence[Mapping[str, Any]]], mapping: str | Path | LogMapping | None, rejected: Counter[str]
) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The events of each chunk of rows."""
    with ExitStack() as at_end:
        mapped, is_first = None if mapping is None else MappedStream(mapping_of(mapping), rejected), True
        if mapped is not None:
            at_end.callback(mapped.close)
        for chunk in chunks:
            if is_first and chunk:
                is_first = False
                if mapped is not None:
                    mapped.check(chunk)
                elif (fault := fault_of(chunk[0])) is not None and fault[0] in ("wrong_unit", "unknown_action"):
                    raise ConfigurationError(f"the first event cannot be scored: {fault[1]}.", hint=_OTHER_COLUMNS)
            yield chunk if mapped is None else mapped.events(chunk)


def _column(values: list[Any], file_format: str) -> Any:
    """A column; CSV is text, and a column without any value too."""
    import pyarrow as pa

    if file_format == "csv":
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    array = pa.array(values)
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


# A session of a stream, as far as it has come; what stays of it when it is over; and what its customer did before.

MOST_OF_A_MOMENT = 1_000
"""Events of one microsecond of one visitor that a repetition is looked for among; no browser sends so many."""

COUNTED = ("add", "query")
"""Actions whose number so far is known at a step."""
FIRST = ("device", "channel", "customer")
"""Columns of which the first value counts."""


@dataclass(frozen=True, order=True, slots=True)
class EndedSession:
    """A session that is over, in the order in which a history counts them."""

    ended: int
    began: int
    visitor: str
    session: int
    device: str | None = field(compare=False)
    orders: int = field(compare=False)


@dataclass(slots=True, eq=False)
class OpenSession:
    """A session that may go on."""

    visitor: str  # the visitor's id
    session: int  # its number among the sessions of the visitor that are remembered, from 1
    began: int  # first request, µs since 1970 (UTC)
    ended: int  # last request so far, µs since 1970 (UTC)
    # "device", "channel", "customer" → the first value and the step at which it became known.
    first: dict[str, tuple[str, int]] = field(default_factory=dict)
    pages: list[str | None] = field(default_factory=list)  # types of the first pages
    opened: list[int] = field(default_factory=list)  # when they opened
    # (2 × steps so far) items added and searches before each page opened; at 0 by the first request.
    before: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    done: list[int] = field(default_factory=lambda: [0, 0])  # items added and searches so far
    count: int = 0  # pages opened so far
    orders: int = 0  # orders so far
    # Events of the last microsecond, to know a repetition: the first `MOST_OF_A_MOMENT`, as keys.
    moment: dict[tuple[Any, ...], None] = field(default_factory=dict)
    # The state of a `SequenceClassifier` after the last step; None before the first, and for other models.
    hidden: list[float] | None = None
    # How it counts in the customer's past, since it was found to be quiet for long; None otherwise.
    quiet: EndedSession | None = None
    is_over: bool = False  # whether it was closed

    def add(self, row: dict[str, Any], time: int, same: tuple[Any, ...], *, begins: bool) -> list[int]:
        """Take an event of the session."""
        if time != self.ended:
            self.moment.clear()
        if len(self.moment) < MOST_OF_A_MOMENT:
            self.moment[same] = None
        self.ended = time
        action = row["action"]
        opens = action == "page"
        self.count += opens
        if opens and self.count <= STEPS:
            self.pages.append(row["page"])
            self.opened.append(time)
        for place, name in enumerate(COUNTED):
            counts = self.before[place]
            if begins:
                counts.append(int(action == name))
            if opens and self.count <= STEPS:
                counts.append(self.done[place])
            self.done[place] += action == name
        self.orders += action == "order"
        for name in FIRST:
            if row[name] is not None and name not in self.first:
                self.first[name] = (row[name], 0 if begins else self.count + (not opens))
        if self.orders:
            return []
        return [0] * begins + [self.count] * opens

    @property
    def customer(self) -> str | None:
        """Who is logged in; None where nobody is."""
        return self.first.get("customer", (None, 0))[0]

    def over(self) -> EndedSession:
        """What stays of it."""
        device = self.first.get("device", (None, 0))[0]
        return EndedSession(self.ended, self.began, self.visitor, self.session, device, self.orders)


_ended = attrgetter("ended")


class CustomerSessions:
    """The sessions of one customer: those that are over, and those that are open."""

    # An open session counts as over for a session that began after it had been quiet for long. An id that many share
    # ("guest") has thousands of open ones, so each waits in a heap until it can be that quiet: all costs grow with the
    # events alone. Where more than `MOST_EARLIER` would count, none does; a few more are remembered.

    __slots__ = ("_cut", "_number", "_waiting", "open", "over")

    def __init__(self, over: Sequence[EndedSession] = ()) -> None:
        self.over = list(over)  # in their order; open ones that are quiet, too
        self.open = 0
        self._waiting: list[tuple[int, int, OpenSession]] = []  # a heap: each was heard of then, or later
        self._number = 0  # so that sessions themselves are not compared
        self._cut = -1  # when the last one ended that there was no room for

    @property
    def first(self) -> int | None:
        """When the first of them ended; None where there is none."""
        return self.over[0].ended if self.over else None

    def add_open(self, session: OpenSession) -> None:
        """A session whose customer is known now."""
        self.open += 1
        self._wait(session)

    def heard_of(self, session: OpenSession) -> int:
        """An event of a session that seemed to be over: how many fewer are (it may have been forgotten)."""
        assert session.quiet is not None
        place = bisect_left(self.over, session.quiet)
        is_there = self.over[place : place + 1] == [session.quiet]
        if is_there:
            del self.over[place]
        session.quiet = None
        self._wait(session)
        return int(is_there)

    def close(self, session: OpenSession, ended: EndedSession) -> None:
        """A session is over."""
        self.open = max(0, self.open - 1)  # the customer may have been forgotten meanwhile
        if session.quiet is None:
            self.insert(ended)
        session.is_over = True
        if len(self._waiting) > 2 * self.open + 16:
            self._waiting = [entry for entry in self._waiting if not entry[2].is_over and entry[2].quiet is None]
            heapify(self._waiting)

    def insert(self, ended: EndedSession) -> None:
        """Remember a session that is over."""
        insort(self.over, ended)
        if len(self.over) > 3 * MOST_EARLIER:  # a thousand at once, so that each costs little
            self._cut = max(self._cut, self.over[MOST_EARLIER - 1].ended)
            del self.over[:MOST_EARLIER]

    def before(self, limit: int, oldest: int) -> list[EndedSession]:
        """Those that ended before `limit`, and not before `oldest`; none where they are more than `MOST_EARLIER`."""
        while self._waiting and self._waiting[0][0] < limit:
            _, _, session = heappop(self._waiting)
            if session.is_over or session.quiet is not None:
                continue
            if session.ended < limit:
                session.quiet = session.over()
                self.insert(session.quiet)
            else:
                self._wait(session)
        end = bisect_left(self.over, limit, key=_ended)
        begin = bisect_left(self.over, oldest, hi=end, key=_ended)
        return [] if end - begin > MOST_EARLIER or oldest <= self._cut else self.over[begin:end]

    def forget(self, before: int) -> int:
        """Forget what ended before; returns how many."""
        count = bisect_left(self.over, before, key=_ended)
        del self.over[:count]
        return count

    def _wait(self, session: OpenSession) -> None:
        self._number += 1
        heappush(self._waiting, (session.ended, self._number, session))


def examples_of(
    sessions: Sequence[OpenSession], pasts: Sequence[Sequence[EndedSession]], zone: ZoneInfo
) -> SessionExamples:
    """The sessions as `draw` would find them."""
    (device, device_step), (channel, channel_step), (customer, customer_step) = (
        zip(*(session.first.get(name, (None, NEVER)) for session in sessions), strict=True) for name in FIRST
    )
    local = [datetime.fromtimestamp(session.began // 1_000_000, UTC).astimezone(zone) for session in sessions]
    earlier = [ended for past in pasts for ended in past]
    return SessionExamples(
        visitor=np.array([session.visitor for session in sessions], object),
        session=np.array([session.session for session in sessions]),
        customer=np.array(customer, object),
        began=np.array([session.began for session in sessions]),
        ended=np.array([session.ended for session in sessions]),
        hour=np.array([time.hour for time in local]),
        weekday=np.array([time.isoweekday() for time in local]),
        purchase=np.array([session.orders > 0 for session in sessions]),
        pages=CodedTexts.of(_filled([session.pages for session in sessions], STEPS, None, object)),
        opened=_filled([session.opened for session in sessions], STEPS + 1, -1, np.int64),
        device=CodedTexts.of(device),
        device_step=np.array(device_step),
        channel=CodedTexts.of(channel),
        channel_step=np.array(channel_step),
        customer_step=np.array(customer_step),
        reached=np.array([session.count for session in sessions]),
        visits=np.array([session.session - 1 for session in sessions]),
        added=_filled([session.before[0] for session in sessions], STEPS + 1, 0, np.int64),
        queried=_filled([session.before[1] for session in sessions], STEPS + 1, 0, np.int64),
        earlier=EarlierSessions(
            np.cumsum([0, *map(len, pasts)]),
            CodedTexts.of([ended.device for ended in earlier]),
            np.array([ended.orders for ended in earlier], np.int64),
            np.array([ended.ended for ended in earlier], np.int64),
        ),
    )


def _filled(rows: Sequence[Sequence[Any]], columns: int, missing: Any, kind: Any) -> Any:
    """(n, columns) rows, each filled up to the same length."""
    return np.array([[*row, *[missing] * (columns - len(row))] for row in rows], kind)
