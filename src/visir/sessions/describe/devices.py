"""Table 6.4: on which devices sessions with and without a purchase happen, and how well devices convert."""

from __future__ import annotations

from visir.sessions.describe.log import Log
from visir.sessions.describe.mix import About, mix
from visir.sessions.describe.statistic import Statistic


def devices(log: Log) -> Statistic:
    """Shares of all purchase and of all non-purchase sessions, conversion rates, and these standardised over devices.

    A session's device is the first that its events name. The thesis keeps the rates themselves to itself.
    """
    return mix(log, About("table-6-4", "Devices, and how well they convert", "Table 6.4", "device"), "device")
