"""Table 6.4: on which devices sessions with and without a purchase happen, and how well devices convert."""

from __future__ import annotations

from visir.sessions.description.outcome_shares import StatisticHeading, shares_and_rates
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic


def devices(log: SessionLog) -> Statistic:
    """Shares of all purchase and of all non-purchase sessions, conversion rates, and these standardised over
    devices."""
    # A session's device is the first that its events name. The thesis does not print the rates themselves.
    return shares_and_rates(
        log, StatisticHeading("table-6-4", "Devices, and how well they convert", "Table 6.4", "device"), "device"
    )
