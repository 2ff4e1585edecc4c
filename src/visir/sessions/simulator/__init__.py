"""A simulated log of a shop whose causes are known, from 10⁴ to 10⁹ events.

`shop` (the causes) → `simulate` (people, compiled in `kernels`) → `table` (→ `dirt`) → `generate`; `truth` is what
follows from the causes, by `chain` for what happens within a session. The sessions in the log are exactly those that
were simulated.

Example:
    >>> from visir.sessions import load_mapping, sessionise
    >>> from visir.sessions.simulator import Shop, generate, truth
    >>> log = generate("log", sessions=1000, seed=0)
    >>> counts = sessionise("log/events", load_mapping("log/mapping.toml"), "sessions")
    >>> counts.sessions == log.sessions, counts.purchases == log.purchases
    (True, True)
    >>> truth(Shop()).by_device.names  # exact; so are transition matrices, page chains, lengths, …: see `Truth`
    ('smartphone', 'pc', 'tablet', 'game console', 'tv')
"""

from visir.sessions.simulator.generate import GeneratedLog, generate, simulated_parts
from visir.sessions.simulator.shop import BODY, PAGES, Cause, Intent, Population, Shop
from visir.sessions.simulator.simulate import Dirt
from visir.sessions.simulator.truth import CauseShares, Truth, truth

__all__ = [
    "BODY",
    "PAGES",
    "Cause",
    "CauseShares",
    "Dirt",
    "GeneratedLog",
    "Intent",
    "Population",
    "Shop",
    "Truth",
    "generate",
    "simulated_parts",
    "truth",
]
