"""Figure 6.4: at which hours of the day sessions with and without a purchase begin."""

from __future__ import annotations

from visir.sessions.description.outcome_shares import StatisticHeading, shares_by_outcome
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic


def hours(log: SessionLog) -> Statistic:
    """Shares of all purchase sessions and of all non-purchase sessions by the hour they begin, in the log's zone."""
    about = StatisticHeading("figure-6-4", "At which hours sessions begin", "Figure 6.4", f"hour ({log.zone})")
    return shares_by_outcome(log, about, "hour", range(24), lambda hour: f"{hour:02d}")
