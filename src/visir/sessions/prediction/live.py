"""A purchase model on a live stream: events in as they happen, a probability out each time a page opens.

The definition of a session is that of `sessionise`, one event at a time: a visitor's session ends after thirty minutes
without a request, or when another customer logs in. What is known of a session at a step is what `examples.draw` finds
in the log later, so the features are the same numbers, bit for bit.

What can only be done later is not done. An event is set aside and counted (`SET_ASIDE`) that comes after a later one of
its visitor, belongs to a session that is over, is a repetition, or has a time that has not come yet; a log would put
the first two in their place.

Memory holds the open sessions; of a visitor who was there in the last `VISITOR_DAYS` days two numbers; of a customer's
sessions of the last year a few numbers each. There is an end to each (`MOST_OPEN`, `MOST_VISITORS`, `MOST_PAST`; a
customer with more than `MOST_EARLIER` has no past), and no event goes through any of them. The stream's clock is the
median of its last times, so that a wrong stamp closes no session, and keeps none open but its own.
"""

from __future__ import annotations

import time as clocks
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from visir.collections.cells import amount_of
from visir.errors import VisirError
from visir.files import json_bytes, read_json
from visir.fingerprint import hash_json
from visir.sessions.definition import COLUMNS, LogMapping
from visir.sessions.examples import CUSTOMER_DAYS, DAY, SETTINGS, VISITOR_DAYS, Setting
from visir.sessions.prediction.models import SequenceClassifier
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_events import (
    TEXTS,
    CustomerSessions,
    EndedSession,
    Fault,
    OpenSession,
    examples_of,
    fault_of,
    read_stream,
)
from visir.sessions.sql import parts_of
from visir.storage import check_version, new_file

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


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

MOST_OPEN = 200_000
"""Open sessions, about 2 kB each: a shop with seven million sessions of fifteen minutes a day has so many at once. Of
more, the one that was quiet for longest is closed: a stream whose clock stands still would close none."""

MOST_VISITORS = MOST_PAST = 10_000_000
"""Visitors, and customers' sessions, of which something is remembered, about 300 bytes each; of more, the visitor who
is away for longest, or the customer with the oldest session, is forgotten."""

T = TypeVar("T")

_RECENT = 15
_SAVED = tuple(name for name in OpenSession.__slots__ if name not in ("hidden", "quiet", "is_over"))
_compared = itemgetter(*(name for name in COLUMNS if name not in ("price", "time")))


@dataclass(frozen=True)
class Score:
    """The chance of a purchase in a visitor's session."""

    visitor: str  # the visitor's id
    session: int  # its number among the sessions of the visitor, from 1; again from 1 after 30 days away
    began: int  # first request of the session, µs since 1970 (UTC)
    time: int  # of the event that brought the score, µs since 1970 (UTC)
    step: int  # pages opened so far
    setting: Setting  # whether the customer was known
    probability: float  # that the session ends with a purchase


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
        crowded_out: What there was no room for ("sessions" closed early, "visitors", "customers" forgotten) → how many.

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
        self._past: defaultdict[str, CustomerSessions] = defaultdict(CustomerSessions)
        self._past_size = 0  # sessions in `_past`, all together
        self.crowded_out: Counter[str] = Counter()
        self._quiet = _Ages(lambda visitor: self._open[visitor].ended if visitor in self._open else None)
        self._away = _Ages(lambda visitor: self._visitors.get(visitor, (0, None))[1])
        self._aged = _Ages(lambda customer: self._past[customer].first if customer in self._past else None)
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
        return len(self._visitors), self._past_size

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
        self._keep_visitor(visitor, number, ended)
        if customer is not None:
            session = EndedSession(ended, began, visitor, number, device, orders)
            self._of_customer(customer, lambda past: past.insert(session))

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
            self.rejected[fault[0]] += 1
            return []
        row: dict[str, Any] = {"action": event["action"]}
        for name in TEXTS:  # an id may be a number
            value = event.get(name)
            row[name] = None if value is None or value == "" else str(value)
        visitor, time, customer = row["visitor"], int(event["time"]), row["customer"]
        if time > self._now() + AHEAD:
            self.rejected["future"] += 1
            return []
        self._tick(time)
        session = self._open.get(visitor)
        same = (*_compared(row), amount_of(event.get("price")), time)
        if session is not None:
            is_late = time < session.ended
            if time == session.ended and same in session.moment:
                self.rejected["duplicate"] += 1
                return []
        elif visitor in self._visitors:
            is_late = time - self._visitors[visitor][1] <= self.idle
        else:
            is_late = time < self._forgot - VISITOR_DAYS * DAY  # its visitor would be forgotten by now
        if is_late:
            self.rejected["late"] += 1
            return []
        if session is not None:
            other = customer is not None and session.customer not in (None, customer)
            if time - session.ended > self.idle or other:
                self._close(session)
                session = None
        begins = session is None
        if session is None:
            if len(self._open) >= MOST_OPEN:
                self.crowded_out["sessions"] += 1
                self._close(self._open[self._quiet.oldest()])
            session = self._open[visitor] = OpenSession(visitor, self._number(visitor, time), time, time)
            self._quiet.add(visitor, time)
        before = session.customer
        steps = session.add(row, time, same, begins=begins)
        if session.quiet is not None:
            self._past_size -= self._past[session.first["customer"][0]].heard_of(session)
        elif before is None and session.customer is not None:
            self._past[session.customer].add_open(session)
        due = []
        for step in steps:
            known = session.first.get("customer")
            setting: Setting = "identified" if known is not None and known[1] <= step else "anonymous"
            part = self._parts[setting]
            if part is not None and step < len(part.steps):
                due.append(_Due(session, step, time, setting, self._past_of(session)))
        return due

    def _number(self, visitor: str, began: int) -> int:
        """The number of a session that begins, among those since the visitor was last away for long."""
        number, ended = self._visitors.get(visitor, (0, 0))
        return 1 if began - ended > VISITOR_DAYS * DAY else number + 1

    def _scores(self, due: Sequence[_Due]) -> list[Score]:
        """The scores of steps. Those of one step are computed together: no feature depends on what came after it."""
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for place, wanted in enumerate(due):
            groups[id(self._parts[wanted.setting]), wanted.step].append(place)
        chances = [0.0] * len(due)
        for (_, step), places in sorted(groups.items(), key=lambda group: group[0][1]):  # a session's in their order
            part = self._parts[due[places[0]].setting]
            assert part is not None
            sessions = [due[place].session for place in places]
            examples = examples_of(sessions, [due[place].past for place in places], self._zone)
            if isinstance(part, SequenceClassifier):  # the sessions keep their states
                states = part.start(len(sessions))
                for state, session in zip(states, sessions, strict=True):
                    if session.hidden is not None:
                        state[:] = session.hidden
                after, answers = part.advance(states, examples, step)
                for state, session in zip(after.tolist(), sessions, strict=True):
                    session.hidden = state
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
        limit = session.began - self.idle
        oldest = session.began - CUSTOMER_DAYS * DAY if "all" in self.model.parts else 0
        return self._of_customer(session.customer, lambda past: past.before(limit, oldest))

    def _of_customer(self, customer: str, change: Callable[[CustomerSessions], T]) -> T:
        """Do something with what a customer did; what there is no room for after it is forgotten."""
        past = self._past[customer]
        before = len(past.over)
        result = change(past)
        self._past_size += len(past.over) - before
        if past.first is not None and not before:
            self._aged.add(customer, past.first)
        while self._past_size > MOST_PAST and len(self._past) > 1:
            self.crowded_out["customers"] += 1
            self._past_size -= len(self._past.pop(self._aged.oldest()).over)
        return result

    def _keep_visitor(self, visitor: str, number: int, ended: int) -> None:
        if visitor not in self._visitors and len(self._visitors) >= MOST_VISITORS:
            self.crowded_out["visitors"] += 1
            del self._visitors[self._away.oldest()]
        self._visitors[visitor] = (number, ended)
        self._away.add(visitor, ended)

    def _tick(self, time: int) -> None:
        """Let the clock go on, and now and then close what is over and forget what is too old."""
        self._recent.append(time)
        self._seen += 1
        if self._seen % _RECENT:
            return
        now = sorted(self._recent)[len(self._recent) // 2]
        if abs(now - self._swept) >= self.idle // 2:
            self._swept = now
            for visitor in self._quiet.before(now - self.idle):
                self._close(self._open[visitor])
        if abs(now - self._forgot) >= DAY:
            self._forgot, stay = now, []
            for visitor in self._away.before(now - VISITOR_DAYS * DAY):
                if visitor in self._open:
                    stay.append(visitor)
                else:
                    del self._visitors[visitor]
            for visitor in stay:
                self._away.add(visitor, self._visitors[visitor][1])
            oldest = now - (CUSTOMER_DAYS + 1) * DAY
            for customer in self._aged.before(oldest) if "all" in self.model.parts else ():
                past = self._past[customer]
                self._past_size -= past.forget(oldest)
                if past.first is not None:
                    self._aged.add(customer, past.first)
                elif not past.open:
                    del self._past[customer]

    def close_all(self) -> None:
        """Close every session: the stream has ended."""
        for session in list(self._open.values()):
            self._close(session)

    def _close(self, session: OpenSession) -> None:
        del self._open[session.visitor]
        ended, customer = session.over(), session.customer
        self._keep_visitor(session.visitor, session.session, session.ended)
        if customer is not None:
            self._of_customer(customer, lambda past: past.close(session, ended))
        self._closed(ended, customer)

    def to_state(self) -> dict[str, Any]:
        """What is remembered, as plain values."""
        hidden = {session.visitor: session.hidden for session in self._open.values() if session.hidden is not None}
        quiet = {id(session.quiet) for session in self._open.values()}  # they may go on, and are no past yet
        return ({"hidden": hidden} if hidden else {}) | {
            "open": [
                [list(session.moment) if name == "moment" else getattr(session, name) for name in _SAVED]
                for session in self._open.values()
            ],
            "visitors": self._visitors,
            "past": {
                customer: [[getattr(ended, name) for name in EndedSession.__slots__] for ended in closed]
                for customer, past in self._past.items()
                if (closed := [ended for ended in past.over if id(ended) not in quiet])
            },
            "rejected": dict(self.rejected),
            "crowded_out": dict(self.crowded_out),
            "clock": [list(self._recent), self._seen, self._swept, self._forgot],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, as if the stream had not stopped.

        Args:
            state: Of `to_state`.
        """
        self._open = {}
        past = {customer: [EndedSession(*ended) for ended in past] for customer, past in state["past"].items()}
        self._past = defaultdict(CustomerSessions, {customer: CustomerSessions(past[customer]) for customer in past})
        self._past_size = sum(map(len, past.values()))
        for values in state["open"]:
            fields = dict(zip(_SAVED, values, strict=True))
            fields["first"] = {name: (value, step) for name, (value, step) in fields["first"].items()}
            fields["before"] = tuple(fields["before"])
            fields["moment"] = {tuple(event): None for event in fields["moment"]}
            fields["hidden"] = state.get("hidden", {}).get(fields["visitor"])
            session = self._open[fields["visitor"]] = OpenSession(**fields)
            if session.customer is not None:
                self._past[session.customer].add_open(session)
        self._visitors = {name: (number, ended) for name, (number, ended) in state["visitors"].items()}
        self._quiet.restart((session.ended, visitor) for visitor, session in self._open.items())
        self._away.restart((ended, visitor) for visitor, (_, ended) in self._visitors.items())
        self._aged.restart((sessions[0].ended, customer) for customer, sessions in past.items())
        self.crowded_out = Counter(state.get("crowded_out", {}))
        self.rejected = Counter(state["rejected"])
        recent, self._seen, self._swept, self._forgot = state["clock"]
        self._recent = deque(recent, _RECENT)


class _Ages:
    """Names by age: when each was last heard of, by what it is asked with; None for a name that is gone."""

    # Each is once in a heap, with a moment at which it was heard of; what has been heard of since is put back when its
    # turn comes. So what is looked at grows with what is too old, not with what there is.

    def __init__(self, last: Callable[[str], int | None]) -> None:
        self._last = last
        self._heap: list[tuple[int, str]] = []
        self._names: set[str] = set()

    def add(self, name: str, moment: int) -> None:
        """A name that was heard of."""
        if name not in self._names:
            self._names.add(name)
            heappush(self._heap, (moment, name))

    def before(self, moment: int) -> list[str]:
        """The names that were last heard of before a moment, oldest first; they are taken out."""
        return [*iter(lambda: self._pop(moment), None)]

    def oldest(self) -> str:
        """The name that was heard of before all others, which is taken out."""
        name = self._pop(None)
        assert name is not None
        return name

    def restart(self, moments: Iterable[tuple[int, str]]) -> None:
        """Begin anew with these."""
        self._heap = list(moments)
        self._names = {name for _, name in self._heap}
        heapify(self._heap)

    def _pop(self, before: int | None) -> str | None:
        while self._heap and (before is None or self._heap[0][0] < before):
            moment, name = heappop(self._heap)
            last = self._last(name)
            if last is not None and last > moment:
                heappush(self._heap, (last, name))
                continue
            self._names.discard(name)
            if last is not None:
                return name
        return None


# The state of a stream in one file: written at once, so that a killed reader goes on from the last one.
#
# A state belongs to its model: another model would score the sessions in it from other features.

VERSION = 1
"""Of the file."""

_REMEDY = "name another file (--state); the stream begins anew with it"


def save_state(scorer: LiveScorer, path: str | Path, *, lines: int) -> None:
    """Write the state of a stream, in place of an earlier one."""
    document = {
        "visir_purchase_stream": VERSION,
        "model": hash_json(scorer.model.card),
        "lines": lines,
        "state": scorer.to_state(),
    }
    with new_file(path, replace=True) as target:
        target.write_bytes(json_bytes(document))


def restore_state(scorer: LiveScorer, path: str | Path) -> int:
    """Go on from a saved state."""
    document = read_json(path)
    version = document.get("visir_purchase_stream") if isinstance(document, dict) else None
    check_version(version, VERSION, path, what="state of a stream", remedy=_REMEDY)
    try:
        model, lines = document["model"], int(document["lines"])
        if model == hash_json(scorer.model.card):
            scorer.restore(document["state"])
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise VisirError(f"{path}: damaged: {type(fault).__name__}: {fault}.", hint=_REMEDY) from fault
    if model != hash_json(scorer.model.card):
        raise VisirError(
            f"{path}: the state of a stream that another model scored.", hint=_REMEDY, code="state-of-another-model"
        )
    return lines


# Scoring a stream in one call.


def score(
    model: PurchaseModel | str | Path,
    events: Iterable[Event] | pa.Table | pd.DataFrame,
    *,
    history: Any = None,
    mapping: str | Path | LogMapping | None = None,
) -> Iterator[Score]:
    """Score events in the order in which they happened, as a live stream would be scored.

    Args:
        model: A trained model, or the folder of one.
        events: Dictionaries with the columns of an event (`visir.sessions.definition`), a DataFrame, or an Arrow table;
            times in µs since 1970 (UTC). `Sessions.events()` of another log has them. With a mapping: rows of the log.
        history: A folder of sessions: what visitors and customers did before the events.
        mapping: How rows become events: a preset, a TOML file, or a `LogMapping`; bots are left out as it declares.

    Yields:
        A score when a session begins (step 0), and then whenever a page opens, up to the model's last step or the
        first order.

    Raises:
        ConfigurationError: Events of a table lack the columns `visitor`, `time` or `action`; the first event has an
            unknown action, or a time in seconds or milliseconds; or the mapping does not fit.

    Example:
        >>> from visir.sessions import generate, make, train
        >>> _ = generate("stream", 2000)
        >>> sessions = make("stream/events", "stream-sessions", mapping="stream/mapping.toml")
        >>> scores = list(score(train(sessions, "lr"), sessions.events()))
        >>> scores[0].step, 0 < scores[0].probability < 0.5
        (0, True)
    """
    scorer = LiveScorer(model if isinstance(model, PurchaseModel) else load_model(model))
    if history is not None:
        scorer.remember_sessions(history)
    for chunk in read_stream(events, mapping, scorer.rejected):
        yield from scorer.observe_all(chunk)
