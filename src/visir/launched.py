"""Which of several processes this one is, as the launcher that started it tells in the environment.

`torchrun`, `accelerate launch` and most other launchers set the same variables: `RANK` of `WORLD_SIZE` over all
machines, `LOCAL_RANK` of `LOCAL_WORLD_SIZE` on this one.
"""

from __future__ import annotations

import os

from visir.errors import ConfigurationError


def launched() -> tuple[int, int]:
    """(number of this process, number of processes), as `torchrun` and `accelerate launch` tell it; else (0, 1)."""
    # For several processes on the CPU take `torchrun`. There `accelerate launch` leaves them to MPI, and starts a
    # single one without it: told to meet others at `MASTER_PORT`, but not how many. That raises `ConfigurationError`.
    if "ACCELERATE_USE_CPU" in os.environ and "MASTER_PORT" in os.environ and "WORLD_SIZE" not in os.environ:
        raise ConfigurationError(
            "accelerate launch was asked for several processes, but started this one alone, as it does on the CPU.",
            hint="torchrun --nproc-per-node 2 -m visir …; or start one process without a launcher",
        )
    rank, count = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < count:
        raise ConfigurationError(
            f"RANK={rank} of WORLD_SIZE={count}: there is no such process.",
            hint="unset both to start one process; processes are counted from 0",
            code="no-such-process",
        )
    return rank, count


def launched_here() -> tuple[int, int]:
    """The same on this machine: (`LOCAL_RANK`, `LOCAL_WORLD_SIZE`); what is not told is as over all machines."""
    rank, count = launched()
    return _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", count)


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if value == "":
        return default
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(
            f"{name}={value!r} is not a number.", hint=f"unset {name}", code="not-number"
        ) from None
