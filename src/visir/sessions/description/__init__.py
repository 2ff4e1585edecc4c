"""What distinguishes sessions that buy (thesis sections 6.3 and 6.4), from a folder of sessions.

`describe` holds the list of all statistics, and makes them; `outcomes` and `journeys` compute them from sums over the
folder (`session_log`), as a `Statistic` each; `differences` compares groups.
"""

from visir.sessions.description.describe import Characterisation, describe
from visir.sessions.description.session_log import SessionLog, open_log
from visir.sessions.description.statistic import Statistic, StatisticCell, suppressed

__all__ = ["Characterisation", "SessionLog", "Statistic", "StatisticCell", "describe", "open_log", "suppressed"]
