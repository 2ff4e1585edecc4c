"""A simulated log of a shop whose causes are known, from 10⁴ to 10⁹ events.

`shop` (the causes) → `simulate` (people, compiled; their events as a table; dirt) → `generate`. The sessions in the log
are exactly those that were simulated.

Example:
    >>> from visir.sessions import load_mapping, sessionise
    >>> from visir.sessions.simulator import generate
    >>> log = generate("log", sessions=1000, seed=0)
    >>> counts = sessionise("log/events", load_mapping("log/mapping.toml"), "sessions")
    >>> counts.sessions == log.sessions, counts.purchases == log.purchases
    (True, True)
"""

from visir.sessions.simulator.generate import GeneratedLog, generate, simulated_parts
from visir.sessions.simulator.shop import BODY, PAGES, Cause, Intent, Population, Shop
from visir.sessions.simulator.simulate import Dirt

__all__ = [
    "BODY",
    "PAGES",
    "Cause",
    "Dirt",
    "GeneratedLog",
    "Intent",
    "Population",
    "Shop",
    "generate",
    "simulated_parts",
]
