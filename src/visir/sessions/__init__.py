"""Sessions of shop logs (thesis chapter 6): raw events in, sessions out.

This application needs nothing of images or captions. `mapping` declares how the columns of a log become events;
`definition` says what a session is, as SQL text in the `dialect` of an engine; `source` finds the files of a log;
`sessionisation` runs the definition in bounded memory, `bucket` by bucket; `spark` runs it on a cluster. On the
sessions build `description` (what distinguishes sessions that buy), `prediction` (predicting a purchase) and `simulator`
(logs with known causes). Names are imported when first used.

Example:
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from visir.sessions import preset, sessionise
    >>> minutes = [0, 10, 50]  # more than thirty minutes without a request end a session
    >>> log = pa.table({"visitor": ["ann"] * 3, "time": [m * 60_000_000 for m in minutes], "action": ["page"] * 3})
    >>> pq.write_table(log, "log.parquet")
    >>> counts = sessionise("log.parquet", preset("events"), "sessions-of-ann")
    >>> counts.read, counts.sessions, counts.purchases
    (3, 2, 0)
    >>> pq.read_table("sessions-of-ann/sessions").select(["visitor", "session", "pages"]).to_pylist()
    [{'visitor': 'ann', 'session': 1, 'pages': 2}, {'visitor': 'ann', 'session': 2, 'pages': 1}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.sessions.counts import LogCounts
    from visir.sessions.definition import FLAGS, IDLE_MINUTES, REASONS
    from visir.sessions.mapping import ACTIONS, COLUMNS, COUNTED, LogMapping, load_mapping, preset, presets
    from visir.sessions.sessionisation import sessionise

__getattr__, __dir__ = lazy(
    __name__,
    {
        "ACTIONS": "visir.sessions.mapping",
        "COLUMNS": "visir.sessions.mapping",
        "COUNTED": "visir.sessions.mapping",
        "LogCounts": "visir.sessions.counts",
        "FLAGS": "visir.sessions.definition",
        "IDLE_MINUTES": "visir.sessions.definition",
        "LogMapping": "visir.sessions.mapping",
        "REASONS": "visir.sessions.definition",
        "load_mapping": "visir.sessions.mapping",
        "preset": "visir.sessions.mapping",
        "presets": "visir.sessions.mapping",
        "sessionise": "visir.sessions.sessionisation",
    },
)

__all__ = [
    "ACTIONS",
    "COLUMNS",
    "COUNTED",
    "FLAGS",
    "IDLE_MINUTES",
    "REASONS",
    "LogCounts",
    "LogMapping",
    "load_mapping",
    "preset",
    "presets",
    "sessionise",
]
