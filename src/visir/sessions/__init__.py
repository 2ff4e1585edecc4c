"""Sessions of shop logs (thesis chapter 6): raw events in, sessions out.

Stands beside the road: it needs nothing of images or captions. `mapping` (a log's columns become events), `definition`
(what a session is, as SQL text, in the `dialect` of an engine) → `source` (where a log lies) → `sessionisation` (run in
bounded memory, `bucket` by bucket) or `spark` (run on a cluster). Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.sessions.counts import LogCounts
    from visir.sessions.definition import FLAGS, IDLE_MINUTES, REASONS
    from visir.sessions.mapping import ACTIONS, COLUMNS, COUNTED, LogMapping, load_mapping, preset, presets
    from visir.sessions.sessionisation import sessionise

__getattr__ = lazy(
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
