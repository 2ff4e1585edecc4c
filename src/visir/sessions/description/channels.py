"""Table 6.2: through which channels sessions with and without a purchase came."""

from __future__ import annotations

from visir.sessions.description.outcome_shares import StatisticHeading, shares_and_rates
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic


def channels(log: SessionLog) -> Statistic:
    """Shares of all purchase and of all non-purchase sessions, conversion rates, and these standardised over
    channels."""
    # The thesis standardises channels with the deviation of a sample (n − 1), it seems, and devices with that of a
    # population; here both are of a population, as its definition has it (section 6.2).
    return shares_and_rates(
        log, StatisticHeading("table-6-2", "Channels, and how well they convert", "Table 6.2", "channel"), "channel"
    )
