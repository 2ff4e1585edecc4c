"""Base rates: how many of all sessions that reach a step buy.

A model learns from long sessions, of which many buy. A live session is any session: on a real log of 7,998 sessions,
62 buy (0.8 %), and of those with twelve pages a third. A probability that is right for long sessions is many times too
high for the first page. So a saved model brings its chances to the share of purchases among *all* sessions that reach
the step (`models.at_share`): the mean of its probabilities is then that share, as far as its features mean the same for
short sessions.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from visir.sessions.engine import duckdb_engine
from visir.sessions.examples import KNOWN_AT, Setting, slices
from visir.sessions.records import STEPS

BaseRates = dict[tuple[Setting, int], tuple[int, int]]
"""(setting, step) → (sessions that reach the step without an order before, those of them that buy)."""


def base_rates_sql(sessions: str, events: str) -> str:
    """SQL of the rows step, identified, sessions, purchases."""
    # A session reaches step k when it opens its k-th page before its first order; every session reaches step 0. It is
    # identified at a step when a customer was known by then.
    walk = "PARTITION BY visitor, session ORDER BY place"
    return f"""
WITH walked AS (
  SELECT visitor, session, action, customer, row_number() OVER ({walk}) AS nth,
    sum(CASE WHEN action = 'page' THEN 1 ELSE 0 END) OVER ({walk} ROWS UNBOUNDED PRECEDING) AS step,
    max(CASE WHEN action = 'order' THEN 1 ELSE 0 END) OVER ({walk} ROWS UNBOUNDED PRECEDING) AS ordered
  FROM {events}
),
reached AS (
  SELECT visitor, session, count(*) FILTER (WHERE action = 'page' AND ordered = 0) AS pages,
    min({KNOWN_AT}) FILTER (WHERE customer IS NOT NULL) AS customer_step
  FROM walked GROUP BY visitor, session
)
SELECT k.step, coalesce(r.customer_step <= k.step, false) AS identified, count(*) AS sessions,
  count(*) FILTER (WHERE s.purchase) AS purchases
FROM {sessions} s JOIN reached r ON s.visitor = r.visitor AND s.session = r.session
CROSS JOIN (SELECT unnest(range({STEPS + 1})) AS step) k
WHERE r.pages >= k.step
GROUP BY ALL"""


def base_rates(folder: str | Path) -> BaseRates:
    """Count the sessions of a folder that reach each step, and those of them that buy."""
    folder = Path(folder)
    counted: Counter[tuple[Setting, int]] = Counter()
    bought: Counter[tuple[Setting, int]] = Counter()
    with duckdb_engine(folder, "Counting sessions", enable_external_file_cache=False) as engine:
        for sessions, events in slices(engine, folder):
            for step, identified, n, purchases in engine.execute(base_rates_sql(sessions, events)).fetchall():
                key: tuple[Setting, int] = ("identified" if identified else "anonymous", step)
                counted[key] += n
                bought[key] += purchases
    settings: tuple[Setting, ...] = ("anonymous", "identified")
    return {(setting, step): (counted[setting, step], bought[setting, step])
            for setting in settings for step in range(STEPS + 1)}  # fmt: skip


def rate_at(rates: BaseRates, settings: tuple[Setting, ...], step: int) -> float | None:
    """The share of sessions in these settings that buy, of those that reach a step; None when none reaches it."""
    # Half a purchase and half a session without one are added, so that a share of 0 or 1 of a few sessions is not taken
    # for certainty.
    sessions = sum(rates[setting, step][0] for setting in settings)
    purchases = sum(rates[setting, step][1] for setting in settings)
    return (purchases + 0.5) / (sessions + 1) if sessions else None
