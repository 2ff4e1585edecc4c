"""A purchase model on a live stream: events in as they happen, a probability out each time a page opens.

The definition of a session is that of `sessionise`, one event at a time: a visitor's session ends after thirty minutes
without a request, or when another customer logs in. What is known of a session at a step is what `examples.draw` finds
in the log later, so the features are the same numbers, bit for bit.

What can only be done later is not done. An event is set aside and counted (`SET_ASIDE`) that comes after a later one of
its visitor, belongs to a session that is over, is a repetition, or has a time that has not come yet; a log would put
the first two in their place.

Memory holds the open sessions; of a visitor who was there in the last `VISITOR_DAYS` days two numbers; of a customer's
sessions of the last year a few numbers each. The stream's clock is the median of its last times, so that a wrong stamp
closes no session, and keeps none open but its own.
"""

from __future__ import annotations

import time as clocks
from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from visir.sessions.examples import CUSTOMER_DAYS, DAY, SETTINGS, VISITOR_DAYS, Setting
from visir.sessions.folder import parts_of
from visir.sessions.mapping import COLUMNS
from visir.sessions.prediction.live_classifier import SequenceClassifier
from visir.sessions.prediction.open_session import EndedSession, OpenSession, examples_of
from visir.sessions.prediction.purchase_model import PurchaseModel
from visir.sessions.prediction.stream_events import TEXTS, Fault, fault_of, price_of
from visir.sessions.records import Floats, SessionExamples

Event = Mapping[str, Any]
"""`visitor`, `customer`, `time` (µs since 1970), `device`, `channel`, `page`, `query`, `price`, `action`, `key`."""

SET_ASIDE = {
    "no_visitor": "no visitor id, or an empty one",
    "no_time": "no time, or one before 1970",
    "wrong_unit": "a time in seconds or milliseconds",
    "no_text": "a column of text that holds something else",
    "long_text": "a text of more than 8,192 characters",
    "unknown_action": "an action that is none of visir's",
    "future": "a time more than five minutes after the clock",
    "late": "before the visitor's last event, or of a session that is over",
    "duplicate": "equal in every column to an event of the same moment",
}
"""Why an event brings no score and changes no session."""

AHEAD = 300_000_000
"""How far clocks of shops may be ahead of ours: five minutes, in µs."""

_RECENT = 15
_SAVED = tuple(name for name in OpenSession.__slots__ if name != "hidden")
_compared = itemgetter(*(name for name in COLUMNS if name not in ("price", "time")))


@dataclass(frozen=True)
class Score:
    """The chance of a purchase in a visitor's session.

    Args:
        visitor: The visitor's id.
        session: Its number among the sessions of the visitor, from 1; again from 1 after 30 days away.
        began: First request of the session, µs since 1970 (UTC).
        time: Of the event that brought the score, µs since 1970 (UTC).
        step: Pages opened so far.
        setting: Whether the customer was known.
        probability: That the session ends with a purchase.
    """

    visitor: str
    session: int
    began: int
    time: int
    step: int
    setting: Setting
    probability: float


class _Due(NamedTuple):
    """A step that is to be scored, and what the customer did before the session."""

    session: OpenSession
    step: int
    time: int
    setting: Setting
    past: list[EndedSession]


class LiveScorer:
    """Scores a stream of events. Not for several threads at once.

    A step beyond the model's last, and a session that has ordered already, get no more scores.

    Args:
        model: The trained model.
        now: The time, µs since 1970 (UTC); events more than five minutes after it are set aside.
        closed: Called with each session that is over, and whose it was, when its visitor comes back or time passes.

    Attributes:
        rejected: Why events were set aside (`SET_ASIDE`) → how many.

    Example:
        >>> from visir.sessions import generate, make, train
        >>> _ = generate("shop", 2000)
        >>> _ = make("shop/events", "sessions", mapping="shop/mapping.toml")
        >>> scorer = LiveScorer(train("sessions", "lr"))
        >>> scores = scorer.observe({"visitor": "ann", "time": 0, "action": "page"})
        >>> [(score.step, score.setting) for score in scores]
        [(0, 'anonymous'), (1, 'anonymous')]
    """

    def __init__(
        self,
        model: PurchaseModel,
        *,
        now: Callable[[], int] = lambda: clocks.time_ns() // 1_000,
        closed: Callable[[EndedSession, str | None], object] = lambda session, customer: None,
    ) -> None:
        self.model = model
        self.rejected: Counter[str] = Counter()
        self.idle = round(model.card["idle_minutes"] * 60_000_000)
        self._zone = ZoneInfo(model.card["zone"])
        self._parts = {setting: model.part(setting) for setting in SETTINGS}
        self._now = now
        self._closed = closed
        self._open: dict[str, OpenSession] = {}
        self._visitors: dict[str, tuple[int, int]] = {}  # → sessions so far, end of the last one
        self._past: defaultdict[str, list[EndedSession]] = defaultdict(list)
        self._logged_in: defaultdict[str, list[OpenSession]] = defaultdict(list)
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._seen = 0
        self._swept = self._forgot = 0

    @property
    def open_sessions(self) -> int:
        """How many sessions are in memory that may go on."""
        return len(self._open)

    @property
    def remembered(self) -> tuple[int, int]:
        """Visitors, and customers' sessions, of which something is remembered."""
        return len(self._visitors), sum(map(len, self._past.values()))

    def remember(
        self, customer: str | None, visitor: str, *, began: int, ended: int, device: str | None, orders: int
    ) -> None:
        """Add an earlier session from a log to what is remembered; those of a visitor in the order of time.

        Args:
            customer: The customer's id; None where nobody logged in.
            visitor: The visitor's id.
            began: First request, µs since 1970 (UTC).
            ended: Last request, µs since 1970 (UTC).
            device: The session's device.
            orders: How many orders it holds.
        """
        number = self._number(visitor, began)
        self._visitors[visitor] = (number, ended)
        if customer is not None:
            insort(self._past[customer], EndedSession(ended, began, visitor, number, device, orders))

    def remember_sessions(self, folder: str | Path) -> None:
        """Add all sessions of a folder to what is remembered.

        Args:
            folder: A folder that `visir.sessions.make` wrote.
        """
        from visir.parquet import read_table

        names = ["customer", "visitor", "began", "ended", "device", "orders"]
        for sessions, _ in parts_of(folder):
            for row in read_table(sessions, names).to_pylist():  # a visitor's in the order of time
                self.remember(**row)

    def observe(self, event: Event) -> list[Score]:
        """Take one event and return the scores it brings.

        A session that begins is scored at step 0; then every page that opens brings a score.

        Args:
            event: The columns of an event; `time` in µs since 1970 (UTC), not before the visitor's last event.
        """
        return self.observe_all([event])

    def observe_all(self, events: Sequence[Event], faults: Sequence[Fault | None] | None = None) -> list[Score]:
        """Take events in their order and return the scores they bring, in that order.

        The scores are those of `observe`, event by event. Events that came together are scored faster together.

        Args:
            events: As for `observe`.
            faults: `fault_of` of each event, where it is known already.
        """
        checked = map(fault_of, events) if faults is None else faults
        return self._scores(
            [due for event, fault in zip(events, checked, strict=True) for due in self._take(event, fault)]
        )

    def _take(self, event: Event, fault: Fault | None) -> list[_Due]:
        """Let an event change its session; return the steps that it brings."""
        if fault is not None:
            return self._set_aside(fault[0])
        row: dict[str, Any] = {"action": event["action"]}
        for name in TEXTS:  # an id may be a number
            value = event.get(name)
            row[name] = None if value is None or value == "" else str(value)
        visitor, time, customer = row["visitor"], int(event["time"]), row["customer"]
        if time > self._now() + AHEAD:
            return self._set_aside("future")
        self._tick(time)
        session = self._open.get(visitor)
        same = (*_compared(row), price_of(event.get("price")), time)
        if session is not None:
            if time < session.ended:
                return self._set_aside("late")
            if time == session.ended and same in session.moment:
                return self._set_aside("duplicate")
            other = customer is not None and session.customer not in (None, customer)
            if time - session.ended > self.idle or other:
                self._close(session)
                session = None
        elif visitor in self._visitors:
            if time - self._visitors[visitor][1] <= self.idle:
                return self._set_aside("late")
        elif time < self._forgot - VISITOR_DAYS * DAY:  # whose visitor would be forgotten by now
            return self._set_aside("late")
        begins = session is None
        if session is None:
            session = self._open[visitor] = OpenSession(visitor, self._number(visitor, time), time, time)
        before = session.customer
        steps = session.add(row, time, same, begins=begins)
        if before is None and session.customer is not None:
            self._logged_in[session.customer].append(session)
        return [due for step in steps if (due := self._due(session, step, time)) is not None]

    def _number(self, visitor: str, began: int) -> int:
        """The number of a session that begins, among those since the visitor was last away for long."""
        number, ended = self._visitors.get(visitor, (0, 0))
        return 1 if began - ended > VISITOR_DAYS * DAY else number + 1

    def _due(self, session: OpenSession, step: int, time: int) -> _Due | None:
        customer = session.first.get("customer")
        setting: Setting = "identified" if customer is not None and customer[1] <= step else "anonymous"
        part = self._parts[setting]
        if part is None or step >= len(part.steps):
            return None
        return _Due(session, step, time, setting, self._past_of(session))

    def _scores(self, due: Sequence[_Due]) -> list[Score]:
        """The scores of steps. Those of one step are computed together: no feature depends on what came after it."""
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for place, wanted in enumerate(due):
            groups[id(self._parts[wanted.setting]), wanted.step].append(place)
        chances = [0.0] * len(due)
        for (_, step), places in sorted(groups.items(), key=lambda group: group[0][1]):  # a session's in their order
            part = self._parts[due[places[0]].setting]
            assert part is not None
            rows = [due[place] for place in places]
            sessions = [row.session for row in rows]
            examples = examples_of(sessions, [row.past for row in rows], self._zone)
            if isinstance(part, SequenceClassifier):
                answers = _advanced(part, sessions, examples, step)
            else:
                answers = part.probability(examples, step)
            for place, chance in zip(places, answers.tolist(), strict=True):
                chances[place] = chance
        return [
            Score(session.visitor, session.session, session.began, time, step, setting, chance)
            for (session, step, time, setting, _), chance in zip(due, chances, strict=True)
        ]

    def _past_of(self, session: OpenSession) -> list[EndedSession]:
        """The customer's sessions that were over when this one began, in their order; some may still be open here."""
        if session.customer is None:
            return []
        others = [other.over() for other in self._logged_in[session.customer] if other is not session]
        past = self._past.get(session.customer, [])
        oldest = session.began - CUSTOMER_DAYS * DAY if "all" in self.model.parts else 0
        return [
            earlier
            for earlier in (sorted([*past, *others]) if others else past)
            if oldest <= earlier.ended < session.began - self.idle
        ]

    def _tick(self, time: int) -> None:
        """Let the clock go on, and now and then close what is over and forget what is too old."""
        self._recent.append(time)
        self._seen += 1
        if self._seen % _RECENT:
            return
        now = sorted(self._recent)[len(self._recent) // 2]
        if abs(now - self._swept) >= self.idle // 2:
            self._swept = now
            for session in [session for session in self._open.values() if now - session.ended > self.idle]:
                self._close(session)
        if abs(now - self._forgot) >= DAY:
            self._forgot = now
            self._forget(now)

    def _forget(self, now: int) -> None:
        gone = [name for name, (_, ended) in self._visitors.items() if now - ended > VISITOR_DAYS * DAY]
        for name in gone:
            if name not in self._open:
                del self._visitors[name]
        if "all" in self.model.parts:
            for customer in list(self._past):
                past = [earlier for earlier in self._past[customer] if now - earlier.ended <= (CUSTOMER_DAYS + 1) * DAY]
                if past:
                    self._past[customer] = past
                else:
                    del self._past[customer]

    def close_all(self) -> None:
        """Close every session: the stream has ended."""
        for session in list(self._open.values()):
            self._close(session)

    def _close(self, session: OpenSession) -> None:
        del self._open[session.visitor]
        ended, customer = session.over(), session.customer
        self._visitors[session.visitor] = (session.session, session.ended)
        if customer is not None:
            insort(self._past[customer], ended)
            others = [other for other in self._logged_in.pop(customer) if other is not session]
            if others:
                self._logged_in[customer] = others
        self._closed(ended, customer)

    def _set_aside(self, reason: str) -> list[_Due]:
        self.rejected[reason] += 1
        return []

    def to_state(self) -> dict[str, Any]:
        """What is remembered, as plain values."""
        hidden = {session.visitor: session.hidden for session in self._open.values() if session.hidden is not None}
        return ({"hidden": hidden} if hidden else {}) | {
            "open": [[*(getattr(session, name) for name in _SAVED)] for session in self._open.values()],
            "visitors": self._visitors,
            "past": {
                customer: [[getattr(ended, name) for name in EndedSession.__slots__] for ended in past]
                for customer, past in self._past.items()
            },
            "rejected": dict(self.rejected),
            "clock": [list(self._recent), self._seen, self._swept, self._forgot],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, as if the stream had not stopped.

        Args:
            state: Of `to_state`.
        """
        self._open, self._logged_in = {}, defaultdict(list)
        for values in state["open"]:
            fields = dict(zip(_SAVED, values, strict=True))
            fields["first"] = {name: (value, step) for name, (value, step) in fields["first"].items()}
            fields["before"] = tuple(fields["before"])
            fields["moment"] = [tuple(event) for event in fields["moment"]]
            fields["hidden"] = state.get("hidden", {}).get(fields["visitor"])
            session = self._open[fields["visitor"]] = OpenSession(**fields)
            if session.customer is not None:
                self._logged_in[session.customer].append(session)
        self._visitors = {name: (number, ended) for name, (number, ended) in state["visitors"].items()}
        past = {customer: [EndedSession(*ended) for ended in past] for customer, past in state["past"].items()}
        self._past = defaultdict(list, past)
        self.rejected = Counter(state["rejected"])
        recent, self._seen, self._swept, self._forgot = state["clock"]
        self._recent = deque(recent, _RECENT)


def _advanced(
    part: SequenceClassifier, sessions: Sequence[OpenSession], examples: SessionExamples, step: int
) -> Floats:
    """(n,) the chances after a step; the sessions keep their states."""
    before = part.start(len(sessions))
    for state, session in zip(before, sessions, strict=True):
        if session.hidden is not None:
            state[:] = session.hidden
    after, chances = part.advance(before, examples, step)
    for session, state in zip(sessions, after.tolist(), strict=True):
        session.hidden = state
    return chances
