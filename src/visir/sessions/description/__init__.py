"""What distinguishes sessions that buy (thesis sections 6.3 and 6.4), from a folder of sessions.

`session_log` (the folder, and sums over it) and `intervals` carry one file per table or figure: `totals` (6.1),
`lengths` (Fig. 6.2), `weekdays`, `hours` (Figs 6.3, 6.4), `channels` (6.2), `customers` (6.3), `devices` (6.4),
`switches` (Fig. 6.5), `queries` (6.5), `unique_queries` (6.6). `describe` makes them all. Each gives a `Statistic`.
"""

from visir.sessions.description.describe import Characterisation, describe
from visir.sessions.description.session_log import SessionLog, open_log
from visir.sessions.description.statistic import Statistic, StatisticCell, suppressed

__all__ = ["Characterisation", "SessionLog", "Statistic", "StatisticCell", "describe", "open_log", "suppressed"]
