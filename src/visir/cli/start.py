"""What runs first: Ctrl-C is heard from here on, while the verbs are still imported."""

from __future__ import annotations

import os
import sys


def run() -> None:
    """Run the command line."""
    # Threads of OpenMP spin while they wait for one another, up to milliseconds, which beside other work takes several
    # times the time of the work itself. libgomp reads this when PyTorch loads it; it is how long it spins by itself
    # where there are more threads than cores. A training has the machine to itself, and its steps would be 3 to 10 %
    # longer.
    if "OMP_WAIT_POLICY" not in os.environ and not {"train", "sparsify"} & set(sys.argv[1:3]):
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        from visir.cli.main import run as run_verbs

        run_verbs()
    except KeyboardInterrupt:
        from visir.cli.main import stop

        stop()
