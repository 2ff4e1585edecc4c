"""Table 6.2: through which channels sessions with and without a purchase came."""

from __future__ import annotations

from visir.sessions.describe.log import Log
from visir.sessions.describe.mix import About, mix
from visir.sessions.describe.statistic import Statistic


def channels(log: Log) -> Statistic:
    """Shares of all purchase and of all non-purchase sessions, conversion rates, and these standardised over channels.

    The thesis standardises channels with the deviation of a sample (n − 1), it seems, and devices with that of a
    population; here both are of a population, as its definition has it (section 6.2).
    """
    return mix(log, About("table-6-2", "Channels, and how well they convert", "Table 6.2", "channel"), "channel")
