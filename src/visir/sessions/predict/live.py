"""A purchase model asked live: events in as they happen, a probability out each time a page opens.

The definition of a session is that of `sessionise`, one event at a time: a visitor's session ends after thirty minutes
without a request, or when another customer logs in. What is told of a session at a step is what `examples.draw` finds
of it later, so the features are the same numbers, bit for bit.

What can only be done later is not done: an event that comes after a later one of its visitor is rejected and counted
(a log would put it in its place), and so are events without a visitor or a time, and repetitions.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from visir.sessions.examples import Setting
from visir.sessions.mapping import ACTIONS, COLUMNS
from visir.sessions.predict.purchase_model import PurchaseModel
from visir.sessions.records import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples

Event = Mapping[str, Any]
"""`visitor`, `customer`, `time` (µs since 1970), `device`, `channel`, `page`, `query`, `price`, `action`, `key`."""


@dataclass(frozen=True)
class Score:
    """Told at `time` of a visitor's session (numbered from 1): its chance of a purchase, at a step, in a setting."""

    visitor: str
    session: int
    time: int
    step: int
    setting: Setting
    probability: float


@dataclass(frozen=True, order=True)
class _Past:
    """A session that is over, in the order in which they count."""

    ended: int
    began: int
    visitor: str
    session: int
    device: str | None = field(compare=False)
    orders: int = field(compare=False)


@dataclass
class _Open:
    """A session as far as it has come; `told`: device, channel, customer → (value, the step at which it was known)."""

    visitor: str
    number: int
    began: int
    last: int
    told: dict[str, tuple[str, int]] = field(default_factory=dict)
    pages: list[str | None] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    count: int = 0
    orders: int = 0
    moment: set[tuple[Any, ...]] = field(default_factory=set)


class LiveScorer:
    """Scores a stream of events. Not for several threads at once.

    Sessions that are over are forgotten, except what of them is a customer's history (a few numbers each). A step
    beyond the model's last, and a session that has ordered already, get no more answers.
    """

    def __init__(self, model: PurchaseModel) -> None:
        self.model = model
        self.rejected: Counter[str] = Counter()
        self._idle = round(model.card["idle_minutes"] * 60_000_000)
        self._zone = ZoneInfo(model.card["zone"])
        self._open: OrderedDict[str, _Open] = OrderedDict()  # the one that waits longest first
        self._numbers: Counter[str] = Counter()
        self._past: defaultdict[str, list[_Past]] = defaultdict(list)

    def remember(
        self,
        customer: str | None,
        visitor: str,
        session: int,
        *,
        began: int,
        ended: int,
        device: str | None,
        orders: int,
    ) -> None:
        """An earlier session from a log: history of its customer; the visitor's next session gets the next number."""
        self._numbers[visitor] = max(self._numbers[visitor], session)
        if customer is not None:
            insort(self._past[customer], _Past(ended, began, visitor, session, device, orders))

    def tell(self, event: Event) -> list[Score]:
        """Take one event; the answers it brings: at step 0 when a session begins, then when each page opens."""
        row = {name: event.get(name) or None for name in COLUMNS}
        visitor, time = row["visitor"], event.get("time")
        if visitor is None:
            return self._reject("no_visitor")
        if isinstance(time, bool) or not isinstance(time, int) or time < 0:
            return self._reject("no_time")
        self._expire(time)
        session, customer = self._open.get(visitor), row["customer"]
        if session is not None and time < session.last:
            return self._reject("late")
        same = (*(row[name] for name in COLUMNS if name != "price"), event.get("price"), time)
        if session is not None and same in session.moment:
            return self._reject("duplicate")
        known = session.told.get("customer") if session else None
        begins = session is None or time - session.last > self._idle
        if begins or (customer is not None and known is not None and known[0] != customer):
            if session is not None:
                self._close(session)
            begins = True
            self._numbers[visitor] += 1
            session = self._open[visitor] = _Open(visitor, self._numbers[visitor], time, time)
        assert session is not None
        return self._take(session, row, time, same, begins)

    def _take(self, session: _Open, row: dict[str, Any], time: int, same: tuple[Any, ...], begins: bool) -> list[Score]:
        self._open.move_to_end(session.visitor)
        if time != session.last:
            session.moment.clear()
        session.moment.add(same)
        session.last = time
        action = row["action"] if row["action"] in ACTIONS else "other"
        opens = action == "page"
        session.count += opens
        if opens and session.count <= STEPS:
            session.pages.append(row["page"])
            session.opened.append(time)
        session.orders += action == "order"
        for name in ("device", "channel", "customer"):
            if row[name] is not None and name not in session.told:
                session.told[name] = (row[name], 0 if begins else session.count)
        if session.orders:
            return []
        steps = [0] * begins + [session.count] * opens
        scores = [self._score(session, step, time) for step in steps]
        return [one for one in scores if one is not None]

    def _score(self, session: _Open, step: int, time: int) -> Score | None:
        known = session.told.get("customer")
        setting: Setting = "identified" if known is not None and known[1] <= step else "anonymous"
        if setting not in self.model.parts:
            setting = "anonymous"
        part = self.model.parts.get(setting)
        if part is None or step >= len(part.steps):
            return None
        chance = float(part.probability(self._example(session), step)[0])
        return Score(session.visitor, session.number, time, step, setting, chance)

    def _example(self, session: _Open) -> SessionExamples:
        """The session as far as it has come, as `draw` would find it."""
        device, device_step = session.told.get("device", (None, NEVER))
        channel, channel_step = session.told.get("channel", (None, NEVER))
        customer, customer_step = session.told.get("customer", (None, NEVER))
        past = [one for one in self._past.get(customer or "", ()) if one.ended + self._idle < session.began]
        local = datetime.fromtimestamp(session.began // 1_000_000, UTC).astimezone(self._zone)
        missing = STEPS - len(session.pages)
        return SessionExamples(
            visitor=np.array([session.visitor], object),
            session=np.array([session.number]),
            customer=np.array([customer], object),
            began=np.array([session.began]),
            ended=np.array([session.last]),
            hour=np.array([local.hour]),
            weekday=np.array([local.isoweekday()]),
            purchase=np.array([session.orders > 0]),
            pages=CodedTexts.of(np.array([[*session.pages, *[None] * missing]], object)),
            opened=np.array([[*session.opened, *[-1] * missing]], np.int64),
            device=CodedTexts.of([device]),
            device_step=np.array([device_step]),
            channel=CodedTexts.of([channel]),
            channel_step=np.array([channel_step]),
            customer_step=np.array([customer_step]),
            earlier=EarlierSessions(
                np.array([0, len(past)]),
                CodedTexts.of([one.device for one in past]),
                np.array([one.orders for one in past], np.int64),
                np.array([one.ended for one in past], np.int64),
            ),
        )

    def _expire(self, now: int) -> None:
        """Close the sessions that have waited too long; those that waited longest stand first."""
        while self._open:
            session = next(iter(self._open.values()))
            if now - session.last <= self._idle:
                return
            del self._open[session.visitor]
            self._close(session)

    def _close(self, session: _Open) -> None:
        customer, _ = session.told.get("customer", (None, 0))
        device, _ = session.told.get("device", (None, 0))
        self.remember(
            customer,
            session.visitor,
            session.number,
            began=session.began,
            ended=session.last,
            device=device,
            orders=session.orders,
        )

    def _reject(self, reason: str) -> list[Score]:
        self.rejected[reason] += 1
        return []
