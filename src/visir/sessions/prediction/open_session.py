"""A session of a stream, as far as it has come, and what stays of it when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from visir.sessions.records import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples

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


@dataclass(slots=True)
class OpenSession:
    """A session that may go on.

    Args:
        visitor: The visitor's id.
        session: Its number among the sessions of the visitor that are remembered, from 1.
        began: First request, µs since 1970 (UTC).
        ended: Last request so far, µs since 1970 (UTC).
        first: "device", "channel", "customer" → the first value and the step at which it became known.
        pages: Types of the first pages.
        opened: When they opened.
        before: (2 × steps so far) items added and searches before each page opened; at 0 by the first request.
        done: Items added and searches so far.
        count: Pages opened so far.
        orders: Orders so far.
        moment: Events of the last microsecond, to know a repetition.
        hidden: The state of a `SequenceClassifier` after the last step; None before the first, and for other models.
    """

    visitor: str
    session: int
    began: int
    ended: int
    first: dict[str, tuple[str, int]] = field(default_factory=dict)
    pages: list[str | None] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    before: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    done: list[int] = field(default_factory=lambda: [0, 0])
    count: int = 0
    orders: int = 0
    moment: list[tuple[Any, ...]] = field(default_factory=list)
    hidden: list[float] | None = None

    def add(self, row: dict[str, Any], time: int, same: tuple[Any, ...], *, begins: bool) -> list[int]:
        """Take an event of the session.

        Args:
            row: Its columns.
            time: Of the event, not before `ended`.
            same: What makes two events equal.
            begins: Whether it is the first.

        Returns:
            The steps that it brings; none after an order.
        """
        if time != self.ended:
            self.moment.clear()
        self.moment.append(same)
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


def examples_of(
    sessions: Sequence[OpenSession], pasts: Sequence[Sequence[EndedSession]], zone: ZoneInfo
) -> SessionExamples:
    """The sessions as `draw` would find them.

    Args:
        sessions: n open sessions; one may occur several times.
        pasts: For each the customer's sessions that were over when it began, in their order.
        zone: Of hours and weekdays.
    """
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
