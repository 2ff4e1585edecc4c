"""Sessions of shop logs (thesis chapter 6): raw events in, sessions out.

Stands beside the road: it needs nothing of images or captions. `mapping` (a log's columns become events), `definition`
(what a session is, as SQL text) → `source` (where a log lies) → `sessionise` (run in bounded memory).
"""

from visir.sessions.definition import FLAGS, IDLE_MINUTES, REASONS
from visir.sessions.mapping import ACTIONS, COLUMNS, COUNTED, Mapping, load_mapping, preset, presets
from visir.sessions.sessionise import Counts, sessionise

__all__ = [
    "ACTIONS",
    "COLUMNS",
    "COUNTED",
    "FLAGS",
    "IDLE_MINUTES",
    "REASONS",
    "Counts",
    "Mapping",
    "load_mapping",
    "preset",
    "presets",
    "sessionise",
]
