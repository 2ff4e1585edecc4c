"""Sessions of shop logs (thesis chapter 6): raw events in, sessions out.

Stands beside the road: it needs nothing of images or captions. `mapping` (a log's columns become events), `definition`
(what a session is, as SQL text, in the `dialect` of an engine) → `source` (where a log lies) → `sessionise` (run in
bounded memory, `bucket` by bucket) or `spark` (run on a cluster).
"""

from visir.sessions.counts import Counts
from visir.sessions.definition import FLAGS, IDLE_MINUTES, REASONS
from visir.sessions.mapping import ACTIONS, COLUMNS, COUNTED, Mapping, load_mapping, preset, presets
from visir.sessions.sessionise import sessionise

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
