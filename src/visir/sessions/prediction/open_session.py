"""A session of a stream, as far as it has come; what stays of it when it is over; and what its customer did before."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from visir.sessions.examples import MOST_EARLIER
from visir.sessions.records import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples

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


class CustomerSessions:
    """The sessions of one customer: those that are over, and those that are open."""

    # An open session counts as over for a session that began after it had been quiet for long. An id that many share
    # ("guest") has thousands of open ones, so each waits in a heap until it can be that quiet: all costs grow with the
    # events alone. Where more than `MOST_EARLIER` would count, none does; a few more are remembered.

    __slots__ = ("_cut", "_number", "_quiet", "_waiting", "open", "over")

    def __init__(self, over: Sequence[EndedSession] = ()) -> None:
        self.over = list(over)  # in their order; open ones that are quiet, too
        self.open = 0
        self._waiting: list[tuple[int, int, OpenSession]] = []  # a heap: each was heard of then, or later
        self._number = 0  # so that sessions themselves are not compared
        self._quiet: set[int] | None = None  # most customers have none
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
        self._is_not_quiet(session)
        self._wait(session)
        return int(is_there)

    def close(self, session: OpenSession, ended: EndedSession) -> None:
        """A session is over."""
        self.open = max(0, self.open - 1)  # the customer may have been forgotten meanwhile
        if session.quiet is None:
            self.insert(ended)
        else:
            self._is_not_quiet(session)
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
                if self._quiet is None:
                    self._quiet = set()
                self._quiet.add(id(session.quiet))
                self.insert(session.quiet)
            else:
                self._wait(session)
        end = bisect_left(self.over, limit, key=_ended)
        begin = bisect_left(self.over, oldest, hi=end, key=_ended)
        return [] if end - begin > MOST_EARLIER or oldest <= self._cut else self.over[begin:end]

    def forget(self, before: int) -> None:
        """Forget what ended before."""
        del self.over[: bisect_left(self.over, before, key=_ended)]

    def closed(self) -> list[EndedSession]:
        """Sessions that are over for good."""
        return [ended for ended in self.over if not self._quiet or id(ended) not in self._quiet]

    def _is_not_quiet(self, session: OpenSession) -> None:
        if self._quiet is not None:
            self._quiet.discard(id(session.quiet))
        session.quiet = None

    def _wait(self, session: OpenSession) -> None:
        self._number += 1
        heappush(self._waiting, (session.ended, self._number, session))


def _ended(session: EndedSession) -> int:
    return session.ended


def examples_of(
    sessions: Sequence[OpenSession], pasts: Sequence[Sequence[EndedSession]], zone: ZoneInfo
) -> SessionExamples:
    """The sessions as `draw` would find them."""
    unknown = (None, NEVER)
    device, device_step = zip(*(session.first.get("device", unknown) for session in sessions), strict=True)
    channel, channel_step = zip(*(session.first.get("channel", unknown) for session in sessions), strict=True)
    customer, customer_step = zip(*(session.first.get("customer", unknown) for session in sessions), strict=True)
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
