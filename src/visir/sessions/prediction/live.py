"""A purchase model on a live stream: events in as they happen, a probability out each time a page opens.

The definition of a session is that of `sessionise`, one event at a time: a visitor's session ends after thirty minutes
without a request, or when another customer logs in. What is known of a session at a step is what `examples.draw` finds
in the log later, so the features are the same numbers, bit for bit.

What can only be done later is not done: an event that comes after a later one of its visitor is rejected and counted (a
log would put it in its place). So are events without a visitor or a time, and repetitions.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from visir.errors import ConfigurationError
from visir.sessions.examples import Setting
from visir.sessions.folder import parts_of
from visir.sessions.mapping import ACTIONS, COLUMNS
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.records import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Event = Mapping[str, Any]
"""`visitor`, `customer`, `time` (µs since 1970), `device`, `channel`, `page`, `query`, `price`, `action`, `key`."""


@dataclass(frozen=True)
class Score:
    """The chance of a purchase in a visitor's session.

    Args:
        visitor: The visitor's id.
        session: The number of the session among those of the visitor, from 1.
        time: Of the event that brought the score, µs since 1970 (UTC).
        step: Pages opened so far.
        setting: Whether the customer was known.
        probability: That the session ends with a purchase.
    """

    visitor: str
    session: int
    time: int
    step: int
    setting: Setting
    probability: float


@dataclass(frozen=True, order=True)
class _EndedSession:
    """A session that is over, in the order in which a history counts them."""

    ended: int
    began: int
    visitor: str
    session: int
    device: str | None = field(compare=False)
    orders: int = field(compare=False)


@dataclass
class _OpenSession:
    """A session as far as it has come.

    `done`: "add", "query" → how often before each page opened; at 0 by the first request.
    `first_values`: "device", "channel", "customer" → (the first value, the step at which it became known).
    """

    visitor: str
    number: int
    began: int
    last: int
    first_values: dict[str, tuple[str, int]] = field(default_factory=dict)
    pages: list[str | None] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    visits: int = 0
    count: int = 0
    done: dict[str, list[int]] = field(default_factory=lambda: {"add": [0], "query": [0]})
    done_so_far: Counter[str] = field(default_factory=Counter)
    orders: int = 0
    moment: set[tuple[Any, ...]] = field(default_factory=set)


class LiveScorer:
    """Scores a stream of events. Not for several threads at once.

    Of a session that is over only its part of the customer's history stays in memory (a few numbers). A step beyond the
    model's last, and a session that has ordered already, get no more scores.

    Args:
        model: The trained model.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from visir.sessions import preset, sessionise
        >>> from visir.sessions.prediction.purchase_model import train
        >>> rows = [(f"v{k}", page, "page") for k in range(20) for page in range(4)]
        >>> rows += [(f"v{k}", 9, "order") for k in range(0, 20, 2)]
        >>> columns = dict(zip(("visitor", "time", "action"), map(list, zip(*rows))))
        >>> pq.write_table(pa.table(columns), "log.parquet")
        >>> _ = sessionise("log.parquet", preset("events"), "sessions")
        >>> scorer = LiveScorer(train("sessions", "rf", settings=["anonymous"], min_pages=4))
        >>> scores = scorer.observe({"visitor": "ann", "time": 0, "action": "page"})
        >>> [(score.step, score.setting) for score in scores]
        [(0, 'anonymous'), (1, 'anonymous')]
    """

    def __init__(self, model: PurchaseModel) -> None:
        self.model = model
        self.rejected: Counter[str] = Counter()
        self._idle = round(model.card["idle_minutes"] * 60_000_000)
        self._zone = ZoneInfo(model.card["zone"])
        self._open: OrderedDict[str, _OpenSession] = OrderedDict()  # the one that waits longest first
        self._numbers: Counter[str] = Counter()
        self._past: defaultdict[str, list[_EndedSession]] = defaultdict(list)

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
        """Add an earlier session from a log to the history of its customer.

        The visitor's next session gets the next number.

        Args:
            customer: The customer's id; None where nobody logged in.
            visitor: The visitor's id.
            session: The number of the session among those of the visitor, from 1.
            began: First request, µs since 1970 (UTC).
            ended: Last request, µs since 1970 (UTC).
            device: The session's device.
            orders: How many orders it holds.
        """
        self._numbers[visitor] = max(self._numbers[visitor], session)
        if customer is not None:
            insort(self._past[customer], _EndedSession(ended, began, visitor, session, device, orders))

    def remember_sessions(self, folder: str | Path) -> None:
        """Add all sessions of a folder to the history of their customers.

        Args:
            folder: A folder that `visir.sessions.make` wrote.
        """
        import pyarrow.parquet as pq

        names = ["customer", "visitor", "session", "began", "ended", "device", "orders"]
        for sessions, _ in parts_of(folder):
            for row in pq.read_table(sessions, columns=names).to_pylist():
                self.remember(**row)

    def observe(self, event: Event) -> list[Score]:
        """Take one event and return the scores it brings.

        A session that begins is scored at step 0; then every page that opens brings a score.

        Args:
            event: The columns of an event; `time` in µs since 1970 (UTC), not before the visitor's last event.
        """
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
        customer_before = session.first_values.get("customer") if session else None
        begins = session is None or time - session.last > self._idle
        if begins or (customer is not None and customer_before is not None and customer_before[0] != customer):
            if session is not None:
                self._close(session)
            begins = True
            self._numbers[visitor] += 1
            session = self._open[visitor] = _OpenSession(visitor, self._numbers[visitor], time, time)
        assert session is not None
        return self._add(session, row, time, same, begins)

    def _add(
        self, session: _OpenSession, row: dict[str, Any], time: int, same: tuple[Any, ...], begins: bool
    ) -> list[Score]:
        self._open.move_to_end(session.visitor)
        if time != session.last:
            session.moment.clear()
        session.moment.add(same)
        session.last = time
        action = row["action"] if row["action"] in ACTIONS else "other"
        opens = action == "page"
        session.count += opens
        for name, counts in session.done.items():
            if opens and session.count <= STEPS:
                counts.append(session.done_so_far[name])
            session.done_so_far[name] += action == name
            if begins:
                counts[0] = session.done_so_far[name]
        if opens and session.count <= STEPS:
            session.pages.append(row["page"])
            session.opened.append(time)
        session.orders += action == "order"
        for name in ("device", "channel", "customer"):
            if row[name] is not None and name not in session.first_values:
                session.first_values[name] = (row[name], 0 if begins else max(session.count, 1))
        if session.orders:
            return []
        steps = [0] * begins + [session.count] * opens
        scores = [self._score(session, step, time) for step in steps]
        return [score for score in scores if score is not None]

    def _score(self, session: _OpenSession, step: int, time: int) -> Score | None:
        customer = session.first_values.get("customer")
        setting: Setting = "identified" if customer is not None and customer[1] <= step else "anonymous"
        part = self.model.part(setting)
        if part is None or step >= len(part.steps):
            return None
        chance = float(part.probability(self._example(session), step)[0])
        return Score(session.visitor, session.number, time, step, setting, chance)

    def _example(self, session: _OpenSession) -> SessionExamples:
        """The session as far as it has come, as `draw` would find it."""
        device, device_step = session.first_values.get("device", (None, NEVER))
        channel, channel_step = session.first_values.get("channel", (None, NEVER))
        customer, customer_step = session.first_values.get("customer", (None, NEVER))
        past = [earlier for earlier in self._past.get(customer or "", ()) if earlier.ended + self._idle < session.began]
        local = datetime.fromtimestamp(session.began // 1_000_000, UTC).astimezone(self._zone)
        missing, unopened = STEPS - len(session.pages), STEPS + 1 - len(session.opened)
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
            opened=np.array([[*session.opened, *[-1] * unopened]], np.int64),
            device=CodedTexts.of([device]),
            device_step=np.array([device_step]),
            channel=CodedTexts.of([channel]),
            channel_step=np.array([channel_step]),
            customer_step=np.array([customer_step]),
            reached=np.array([session.count]),
            visits=np.array([session.visits]),
            added=np.array([session.done["add"] + [0] * missing]),
            queried=np.array([session.done["query"] + [0] * missing]),
            earlier=EarlierSessions(
                np.array([0, len(past)]),
                CodedTexts.of([earlier.device for earlier in past]),
                np.array([earlier.orders for earlier in past], np.int64),
                np.array([earlier.ended for earlier in past], np.int64),
            ),
        )

    def _expire(self, now: int) -> None:
        """Close the sessions that have waited too long; those that have waited longest are first."""
        while self._open:
            session = next(iter(self._open.values()))
            if now - session.last <= self._idle:
                return
            del self._open[session.visitor]
            self._close(session)

    def _close(self, session: _OpenSession) -> None:
        customer, _ = session.first_values.get("customer", (None, 0))
        device, _ = session.first_values.get("device", (None, 0))
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


def score(
    model: PurchaseModel | str | Path, events: Iterable[Event] | pa.Table | pd.DataFrame, *, history: Any = None
) -> Iterator[Score]:
    """Score events in the order in which they happened, as a live stream would be scored.

    Args:
        model: A trained model, or the folder of one.
        events: Dictionaries with the columns of an event (`visir.sessions.mapping`), a DataFrame, or an Arrow table;
            times in µs since 1970 (UTC). `Sessions.events()` of another log has them.
        history: A folder of sessions: what customers did before the events.

    Yields:
        A score when a session begins (step 0), and then whenever a page opens, up to the model's last step or the
        first order.

    Raises:
        ConfigurationError: Events of a table lack the columns `visitor`, `time` or `action`.

    Example:
        >>> from visir.sessions import generate, make, train
        >>> _ = generate("shop", 2000)
        >>> sessions = make("shop/events", "shop-sessions", mapping="shop/mapping.toml")
        >>> model = train(sessions, "lr", settings=["anonymous"], min_pages=6)
        >>> scores = list(score(model, sessions.events()))
        >>> scores[0].step, 0 < scores[0].probability < 0.5
        (0, True)
    """
    scorer = LiveScorer(model if isinstance(model, PurchaseModel) else load_model(model))
    if history is not None:
        scorer.remember_sessions(history)
    for event in _rows(events):
        yield from scorer.observe(event)


def check_columns(columns: Sequence[str]) -> None:
    """Check that events have the columns without which none can be scored.

    Raises:
        ConfigurationError: One is missing.
    """
    missing = [name for name in ("visitor", "time", "action") if name not in columns]
    if missing:
        raise ConfigurationError(
            f"events without {', '.join(missing)}; there are {', '.join(columns)}.",
            hint="a stream has the columns of an event, not of the log (docs/reference/session-logs.md); "
            "those of a log: visir.sessions.make(log, out, mapping=…).events()",
        )


def _rows(events: Any) -> Iterable[Event]:
    columns = getattr(events, "column_names", None) or getattr(events, "columns", None)
    if columns is None:
        return events  # type: ignore[no-any-return]
    check_columns([str(name) for name in columns])
    if hasattr(events, "to_pylist"):
        return events.to_pylist()  # type: ignore[no-any-return]
    return events.to_dict("records")  # type: ignore[no-any-return]
