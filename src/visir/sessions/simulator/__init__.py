"""A generated log of a shop whose causes are known, from 10⁴ to 10⁹ events.

    from visir.sessions import load_mapping, sessionise
    from visir.sessions.simulator import Shop, generate, truth

    generate("log", sessions=100_000, seed=0)
    sessionise("log/events", load_mapping("log/mapping.toml"), "sessions")
    truth(Shop()).by_device.conversion  # exact; so are transition matrices, page chains, lengths, …: see `Truth`

`shop` (the causes) → `simulate` (people, compiled in `kernels`) → `table` (→ `dirt`) → `write`; `truth` (what follows
from the causes, by `chain` for what happens within a session). Sessions found in the log are exactly those planted.
"""

from visir.sessions.simulator.dirt import Dirt
from visir.sessions.simulator.generate import GeneratedLog, generate, parts
from visir.sessions.simulator.shop import BODY, PAGES, Cause, Intent, Population, Shop
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
    "parts",
    "truth",
]
