"""Which prices sessions see, and what orders cost (thesis section 6.3 records both)."""

from __future__ import annotations

from visir.sessions.description.intervals import quantile, share
from visir.sessions.description.outcome_shares import OUTCOMES
from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import Statistic, StatisticCell
from visir.sessions.folder import table_of
from visir.wilson import wilson

_SEEN = ("page", "query", "add")
"""Actions whose price is one that was seen; that of an order is what was paid."""


def prices(log: SessionLog) -> Statistic:
    """Sessions with a price seen, the median over sessions of the median price seen, and the median order."""
    # Of each session the median of its prices counts once, so that a long session does not count more than a short one.
    # Intervals of medians are those of the share below, turned around (Woodruff 1952); sessions of one visitor are held
    # together.
    about = ("prices", "Which prices sessions see and pay", "Section 6.3")
    events = table_of(*(events for _, events in log.parts))
    kinds = ", ".join(f"'{action}'" for action in _SEEN)
    log.db.execute(
        "CREATE OR REPLACE TEMP TABLE prices AS SELECT visitor, session, "
        f"median(price) FILTER (WHERE action IN ({kinds})) AS seen, sum(price) FILTER (WHERE action = 'order') AS paid "
        f"FROM {events} WHERE price > 0 GROUP BY visitor, session"
    )
    if not log.value("SELECT count(*) FROM prices"):
        return Statistic.without(*about, "the log records no price")
    joined = "(SELECT b.*, p.seen, p.paid FROM bucket b LEFT JOIN prices p USING (visitor, session))"
    with_price = log.shares("purchase", "seen IS NOT NULL", source=joined)
    cells = [
        tuple(share(moments(with_price, bought, True)) for bought in OUTCOMES),
        tuple(_median(log, "seen", joined, bought) for bought in OUTCOMES),
        (_median(log, "paid", joined, True), StatisticCell(None)),
    ]
    log.db.execute("DROP TABLE prices")
    return Statistic(
        *about,
        corner="",
        rows=("Sessions with a price seen (%)", "Price seen: median over sessions", "Paid in a session: median"),
        columns=tuple(f"{outcome} sessions" for outcome in OUTCOMES.values()),
        units=("", ""),
        cells=tuple(cells),
        notes=(
            "Prices are in the log's own unit. Of a session, the median of the prices on its pages and queries and of "
            "items put into the basket; paid is the sum of its orders.",
            "Intervals (95 %) hold sessions of one visitor together.",
        ),
        sums="",
    )


def _median(log: SessionLog, column: str, joined: str, bought: bool) -> StatisticCell:
    """The median over sessions of one outcome, with the interval of the share that is no higher."""
    where = f"{column} IS NOT NULL AND purchase = {'true' if bought else 'false'}"
    sessions = f"{log.sessions} s JOIN prices USING (visitor, session)"
    count, middle = log.rows(f"SELECT count(*), quantile_disc({column}, 0.5) FROM {sessions} WHERE {where}")[0]
    if not count:
        return StatisticCell(None, support=0)
    below = moments(log.shares("0", f"{column} <= {middle!r}::DOUBLE", source=joined, where=where), 0, True)
    low, high = wilson(0.5, below.effective, quantile(below))
    ends = log.value(f"SELECT quantile_disc({column}, [{low}, {high}]) FROM {sessions} WHERE {where}")
    return StatisticCell(float(middle), float(ends[0]), float(ends[1]), support=int(count))
