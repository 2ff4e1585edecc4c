"""Figure 6.4: at which hours of the day sessions with and without a purchase begin."""

from __future__ import annotations

from visir.sessions.describe.log import Log
from visir.sessions.describe.mix import About, spread
from visir.sessions.describe.statistic import Statistic


def hours(log: Log) -> Statistic:
    """Shares of all purchase sessions and of all non-purchase sessions by the hour they begin, in the log's zone."""
    about = About("figure-6-4", "At which hours sessions begin", "Figure 6.4", f"hour ({log.declared['zone']})")
    return spread(log, about, "hour", range(24), lambda hour: f"{hour:02d}")
