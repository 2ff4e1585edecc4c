"""Prediction examples: the sessions of a log that are long enough, what is known of each at every step, and its past.

The examples are defined as SQL text, once, for any engine (windows, filtered aggregates, `md5`). `draw` runs it with
DuckDB on the folder that `sessionise` wrote, slice by slice of the visitors: memory follows the slice and the sample,
not the log.

- **Long enough** (thesis 6.5.1) is at least twelve pages, "with 2 pages as a buffer", so that none of the steps 0–10 is
  where "the outcome is clear". By default the pages *before the first order* count (`counted_pages="before order"`): a
  session that orders on its fifth page and reads on has decided long before step 10. The other reading, twelve pages in
  all (`counted_pages="all"`), has such sessions, and predicts at late steps what has happened.
- **The setting** follows from what is known when a session begins (`setting_from="start"`): a session is identified if
  its first request names its customer. The other reading, "logged in … at a later point" too
  (`setting_from="session"`), is the thesis's letter (section 6.3: "we assign the session to the customer"): the session
  is the customer's from its beginning, with the customer's past. It selects sessions by what comes after the
  prediction; where customers log in to pay, being identified gives the outcome away.
- **Dwell times** are of the pages that were left when the k-th one opened (`dwell_times="left pages"`), or of the k-th
  page too (`dwell_times="current page"`); see `features.dwell`.
- **The past** of a session are its customer's sessions whose last request is more than the idle time before its first:
  only of those is it known that they are over, and what came of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from visir.errors import ConfigurationError, VisirError, docs_page, nearest, raise_faults
from visir.sessions.source import duckdb_engine
from visir.sessions.sql import parts_of, table_of, text_literal
from visir.sessions.table_labels import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples, Texts
from visir.storage import read_written_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Setting = Literal["anonymous", "identified"]
SETTINGS: tuple[Setting, ...] = ("anonymous", "identified")
CountedPages = Literal["before order", "all"]
SettingFrom = Literal["start", "session"]
DwellTimes = Literal["left pages", "current page"]

MIN_PAGES = 12
"""Ten steps and a buffer of two."""

DAY = 86_400_000_000
"""In microseconds."""

VISITOR_DAYS = 30
"""A visitor who stays away longer is new: what a stream must remember of visitors has an end."""

CUSTOMER_DAYS = 365
"""Sessions that ended longer ago are no part of a customer's past, for `EverySession`."""

MOST_EARLIER = 1_000
"""Of a customer with more sessions than this before another one (nearly three a day for a year) none counts as the
past: such an id is not one person's but that of everybody who is not logged in ("guest", "0")."""

KNOWN_AT = "CASE WHEN nth = 1 THEN 0 WHEN action = 'page' THEN step ELSE step + 1 END"
"""SQL: the step at which an event is known: a step is when a page opens, and what is done on the page comes later."""

EVENTS_AT_ONCE = 1_000_000
"""About as many events of a log are read at once."""


class NoSessionError(VisirError):
    """No session of a folder is as long as a sample wants it."""


@dataclass(frozen=True)
class Sample:
    """Which sessions are examples; the readings are explained in the module."""

    setting: Setting  # "anonymous" or "identified"
    # At most so many sessions, drawn by a hash of visitor, session and seed; all by default. No order of rows and no
    # number of files changes which are drawn.
    n: int | None = None
    seed: int = 0  # of the hash
    min_pages: int = MIN_PAGES  # pages that a session must have, the buffer of two included
    counted_pages: CountedPages = "before order"  # which pages count
    setting_from: SettingFrom = "start"  # what the setting follows from
    dwell_times: DwellTimes = "left pages"  # which dwell times are known at a step
    past_days: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        faults = [
            f"{name} {value!r}: {nearest(str(value), choices)}"
            for name, value, choices in (
                ("setting", self.setting, SETTINGS),
                ("counted_pages", self.counted_pages, get_args(CountedPages)),
                ("setting_from", self.setting_from, get_args(SettingFrom)),
                ("dwell_times", self.dwell_times, get_args(DwellTimes)),
            )
            if value not in choices
        ]
        if self.min_pages < 2:
            faults.append(f"min_pages {self.min_pages}: a buffer of 2 leaves no step to predict at")
        if self.n is not None and self.n < 1:
            faults.append(f"n {self.n}: at least one session")
        raise_faults(ConfigurationError, "sample of sessions", faults, hint=docs_page("background/purchase-intent"))

    @property
    def steps(self) -> range:
        """The steps that every example reaches with the buffer of two pages: 0 … 10, or fewer with fewer pages."""
        return range(min(STEPS, self.min_pages - 2) + 1)

    @property
    def condition(self) -> str:
        """SQL of the sessions that are examples."""
        counted = "reached" if self.counted_pages == "before order" else "pages"
        of_setting = {
            ("anonymous", "start"): "coalesce(customer_step, 1) > 0",
            ("identified", "start"): "customer_step = 0",
            ("anonymous", "session"): "customer IS NULL",
            ("identified", "session"): "customer IS NOT NULL",
        }[self.setting, self.setting_from]
        return f"{counted} >= {self.min_pages} AND {of_setting}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for cards and files."""
        return asdict(self)


@dataclass(frozen=True)
class EverySession:
    """All sessions, of any length and setting: what a shop has when a session begins."""

    # Left out are only sessions whose first request is an order, because nothing is left to predict.

    n: int | None = None  # at most so many sessions, drawn as by `Sample`; all by default
    seed: int = 0  # of the hash
    min_pages: ClassVar[int] = 0
    setting: ClassVar[str] = "scored"
    condition: ClassVar[str] = "reached >= 0"
    past_days: ClassVar[int | None] = CUSTOMER_DAYS

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for cards and files."""
        return asdict(self)


def examples_sql(sample: Sample | EverySession, sessions: str = "sessions", events: str = "events") -> str:
    """SQL of one row per example, in the order of their beginning: `page_1` …, `opened_1` … and what is known when."""
    # `opened_11` is when the tenth page was left.
    walk = "PARTITION BY e.visitor, e.session ORDER BY e.place ROWS UNBOUNDED PRECEDING"
    opened = [f"max(time) FILTER (WHERE action = 'page' AND step = {k}) AS opened_{k}" for k in range(1, STEPS + 2)]
    types = [f"max(page) FILTER (WHERE action = 'page' AND step = {k}) AS page_{k}" for k in range(1, STEPS + 1)]
    before = [
        f"count(*) FILTER (WHERE action = '{action}' AND {'nth = 1' if k == 0 else f'step < {k}'}) AS {action}_{k}"
        for action in ("add", "query")
        for k in range(STEPS + 1)
    ]
    pages = ", ".join([*types, *opened, *before])
    first_steps = ", ".join(
        f"min({KNOWN_AT}) FILTER (WHERE {name} IS NOT NULL) AS {name}_step"
        for name in ("device", "channel", "customer")
    )
    drawn = ranked = ""
    if sample.n is not None:
        drawn = f"WHERE rank <= {sample.n}"
        ranked = f", row_number() OVER (ORDER BY {_draw_order(sample)}) AS rank"
    return f"""
WITH long_sessions AS (
  SELECT visitor, session, customer, began, ended, hour, weekday, purchase, device, channel, pages
  FROM {sessions} WHERE pages >= {sample.min_pages}
),
walked AS (
  SELECT e.visitor, e.session, e.time, e.action, e.page, e.device, e.channel, e.customer,
    row_number() OVER ({walk.replace(" ROWS UNBOUNDED PRECEDING", "")}) AS nth,
    sum(CASE WHEN e.action = 'page' THEN 1 ELSE 0 END) OVER ({walk}) AS step,
    max(CASE WHEN e.action = 'order' THEN 1 ELSE 0 END) OVER ({walk}) AS ordered
  FROM {events} e JOIN long_sessions l ON e.visitor = l.visitor AND e.session = l.session
),
paused AS (
  SELECT visitor, session, began - lag(ended) OVER (PARTITION BY visitor ORDER BY session) AS away FROM {sessions}
),
stays AS (
  SELECT visitor, session,
    count(CASE WHEN away > {VISITOR_DAYS * DAY} THEN 1 END) OVER (PARTITION BY visitor ORDER BY session) AS stay
  FROM paused
),
visits AS (
  SELECT visitor, session, row_number() OVER (PARTITION BY visitor, stay ORDER BY session) - 1 AS visits FROM stays
),
known AS (
  SELECT visitor, session, CASE WHEN max(CASE WHEN nth = 1 THEN ordered END) = 1 THEN -1
    ELSE count(*) FILTER (WHERE action = 'page' AND ordered = 0) END AS reached,
    {first_steps}, {pages}
  FROM walked GROUP BY visitor, session
),
candidates AS (
  SELECT l.customer, l.began, l.ended, l.hour, l.weekday, l.purchase, l.device, l.channel, l.pages, v.visits, t.*
  FROM long_sessions l JOIN known t ON l.visitor = t.visitor AND l.session = t.session
    JOIN visits v ON l.visitor = v.visitor AND l.session = v.session
),
chosen AS (SELECT *{ranked} FROM candidates WHERE {sample.condition})
SELECT * FROM chosen {drawn} ORDER BY began, visitor, session"""


def _draw_order(sample: Sample | EverySession) -> str:
    """SQL of the order in which sessions are drawn."""
    return f"md5(visitor || '/' || CAST(session AS STRING) || '/{sample.seed}'), visitor, session"


def earlier_sql(
    examples: str, idle_minutes: float, sessions: str = "sessions", *, within_days: int | None = None
) -> str:
    """SQL of the sessions that were over before each example of the same customer began, by the time they ended."""
    # Where there are more than `MOST_EARLIER`, there are none.
    # Not a join on times: a customer id that many share would pair each session with all before it. So sessions are
    # numbered as they end, a pass says how many had ended at two moments of each example, and a block of numbers joins.
    idle = round(idle_minutes * 60_000_000)
    bounds = [("last", idle)] + [("first", days * DAY) for days in [within_days] if days is not None]
    moments = [
        f"SELECT customer, began - {ago}, 0, '{bound}', visitor, session, began FROM {examples} "
        "WHERE customer IS NOT NULL"
        for bound, ago in bounds
    ]
    block = f"CAST(floor({{}} / {MOST_EARLIER}) AS BIGINT)"
    return f"""
WITH ranked AS (
  SELECT customer, device, orders, ended,
    row_number() OVER (PARTITION BY customer ORDER BY ended, began, visitor, session) AS place
  FROM {sessions} WHERE customer IS NOT NULL
),
moments AS (
  SELECT customer, ended AS moment, 1 AS ends, '' AS bound, '' AS visitor, 0 AS session, 0 AS began FROM ranked
  UNION ALL {" UNION ALL ".join(moments)}
),
passed AS (
  SELECT *, sum(ends) OVER (PARTITION BY customer ORDER BY moment, ends ROWS UNBOUNDED PRECEDING) AS place FROM moments
),
bounded AS (
  SELECT customer, visitor, session, began, max(CASE WHEN bound = 'last' THEN place END) AS last,
    coalesce(max(CASE WHEN bound = 'first' THEN place END), 0) AS first
  FROM passed WHERE ends = 0 GROUP BY customer, visitor, session, began
),
wanted AS (
  SELECT *, {block.format("last")} AS block FROM bounded WHERE last - first <= {MOST_EARLIER}
  UNION ALL SELECT *, {block.format("last")} - 1 FROM bounded WHERE last - first <= {MOST_EARLIER}
)
SELECT e.visitor, e.session, s.device, s.orders, s.ended
FROM wanted e JOIN ranked s ON s.customer = e.customer AND {block.format("s.place")} = e.block
WHERE s.place > e.first AND s.place <= e.last
ORDER BY e.began, e.visitor, e.session, s.place"""


def draw(folder: str | Path, sample: Sample | EverySession) -> SessionExamples:
    """Draw the examples of a folder of sessions."""
    folder = Path(folder)
    idle = idle_minutes(folder)
    # No byte is read twice.
    with duckdb_engine(folder, "Drawing prediction examples", enable_external_file_cache=False) as engine:
        engine.execute(
            f"CREATE VIEW sessions AS SELECT * FROM {table_of(*(sessions for sessions, _ in parts_of(folder)))}"
        )
        _gather(engine, folder, sample)
        rows = _columns(engine, "SELECT * FROM examples ORDER BY began, visitor, session")
        if not len(rows["began"]):
            raise _no_session(engine, folder, sample)
        earlier = _columns(engine, earlier_sql("examples", idle, within_days=sample.past_days))
    examples = _examples(rows, earlier)
    if isinstance(sample, EverySession):
        return examples
    examples = replace(examples, current_page_left=sample.dwell_times == "current page")
    if sample.setting_from == "session":  # the customer's from its beginning
        named = np.array([customer is not None for customer in examples.customer])
        examples = replace(examples, customer_step=np.where(named, 0, NEVER))
    return examples


def _gather(engine: DuckDBPyConnection, folder: Path, sample: Sample | EverySession) -> None:
    """Make the table `examples` from those of each slice; it never holds more than are wanted."""
    limit = "" if sample.n is None else f"ORDER BY {_draw_order(sample)} LIMIT {sample.n}"
    for number, (sessions, events) in enumerate(slices(engine, folder)):
        rows = examples_sql(sample, sessions, events)
        if number == 0:
            engine.execute(f"CREATE TEMP TABLE examples AS {rows}")
            continue
        engine.execute(f"INSERT INTO examples {rows}")
        if limit:
            engine.execute(f"CREATE OR REPLACE TEMP TABLE examples AS SELECT * FROM examples {limit}")


def slices(engine: DuckDBPyConnection, folder: Path) -> Iterator[tuple[str, str]]:
    """Table expressions of sessions and their events, about `EVENTS_AT_ONCE` of them, all of a visitor in one."""
    # Files are in the order of visitors, so no more of a file is read than the slice needs.
    for files in parts_of(folder):
        sessions, events = map(table_of, files)
        numbered = "sum(events) OVER (ORDER BY visitor, session ROWS UNBOUNDED PRECEDING)"
        first = engine.execute(
            f"SELECT DISTINCT min(visitor) AS first FROM (SELECT visitor, {numbered} // {EVENTS_AT_ONCE} AS slice "
            f"FROM {sessions}) GROUP BY slice ORDER BY first"
        ).fetchall()
        bounds = [text_literal(row[0]) for row in first[1:]]
        for begin, end in pairwise([None, *bounds, None]):
            limits = [f"visitor >= {begin}"] * (begin is not None) + [f"visitor < {end}"] * (end is not None)
            where = f" WHERE {' AND '.join(limits)}" if limits else ""
            yield f"(SELECT * FROM {sessions}{where})", f"(SELECT * FROM {events}{where})"


def idle_minutes(folder: Path) -> float:
    """After how many minutes without a request the sessions of a folder end."""
    parts_of(folder)  # raises where there are none
    return float(read_written_json(folder / "counts.json")["declared"]["idle_minutes"])


def _columns(engine: DuckDBPyConnection, query: str) -> dict[str, Any]:
    # Through Arrow: nulls stay nulls, instead of turning whole numbers into floats.
    table = engine.sql(query).to_arrow_table()
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def _examples(rows: dict[str, Any], earlier: dict[str, Any]) -> SessionExamples:
    visitor, session = _texts(rows["visitor"]), _ints(rows["session"])
    pages = np.stack([_texts(rows[f"page_{k}"]) for k in range(1, STEPS + 1)], axis=1)
    opened = np.stack([_ints(rows[f"opened_{k}"], -1) for k in range(1, STEPS + 2)], axis=1)
    place = {key: row for row, key in enumerate(zip(visitor, session.tolist(), strict=True))}
    keys = zip(_texts(earlier["visitor"]), _ints(earlier["session"]).tolist(), strict=True)
    counts = np.bincount(np.fromiter((place[key] for key in keys), np.int64), minlength=len(visitor))
    return SessionExamples(
        visitor=visitor,
        session=session,
        customer=_texts(rows["customer"]),
        began=_ints(rows["began"]),
        ended=_ints(rows["ended"]),
        hour=_ints(rows["hour"]),
        weekday=_ints(rows["weekday"]),
        purchase=_ints(rows["purchase"].cast("int8")).astype(bool),
        pages=CodedTexts.of(pages),
        opened=opened,
        device=CodedTexts.of(_texts(rows["device"])),
        device_step=_ints(rows["device_step"], NEVER),
        channel=CodedTexts.of(_texts(rows["channel"])),
        channel_step=_ints(rows["channel_step"], NEVER),
        customer_step=_ints(rows["customer_step"], NEVER),
        reached=_ints(rows["reached"]),
        visits=_ints(rows["visits"]),
        added=np.stack([_ints(rows[f"add_{k}"]) for k in range(STEPS + 1)], axis=1),
        queried=np.stack([_ints(rows[f"query_{k}"]) for k in range(STEPS + 1)], axis=1),
        earlier=EarlierSessions(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            CodedTexts.of(_texts(earlier["device"])),
            _ints(earlier["orders"]),
            _ints(earlier["ended"]),
        ),
    )


def _texts(column: Any) -> Texts:
    texts = np.empty(len(column), dtype=object)
    texts[:] = column.to_pylist()
    return texts


def _ints(column: Any, missing: int = 0) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False).astype(np.int64)


def _no_session(engine: DuckDBPyConnection, folder: Path, sample: Sample | EverySession) -> NoSessionError:
    if isinstance(sample, EverySession):
        hint = "is the log empty, or of orders alone? [actions] of the mapping names what opens a page"
        return NoSessionError(
            f"{folder}: no session to score: none has a request before its first order.",
            hint=hint,
            code="no-session-score",
        )
    pages = engine.execute(
        "SELECT max(pages), count_if(pages >= 6), count_if(pages >= 12), count(customer) FROM sessions"
    ).fetchall()[0]
    hint = (
        f"the longest session has {pages[0] or 0} pages; {pages[1]:,} have 6 or more, {pages[2]:,} 12 or more; "
        f"{pages[3]:,} sessions have a customer. Fewer pages: --min-pages"
    )
    return NoSessionError(
        f"{folder}: no {sample.setting} session of {sample.min_pages} pages.", hint=hint, code="no-session-pages"
    )
