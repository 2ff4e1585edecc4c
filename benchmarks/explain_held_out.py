"""Set-ups by somebody who has not seen how readings are computed; `explain_setups.py --held-out` runs them.

    SetUp("val for test", lambda world: of_part(world.part("val")), ("val split",), needs_vectors=True)

A set-up is a function of a world (`explain_worlds.World`) that returns printed numbers, {"i2t R@1": "20.5", …}, and one
regular expression for each cause that the answer is to name; see `SetUp`.
"""

from __future__ import annotations

from explain_setups import SetUp

SETUPS: tuple[SetUp, ...] = ()
"""Every held-out set-up."""
