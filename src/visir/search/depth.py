"""How many answers may be asked for: one check of k, whoever asks."""

from __future__ import annotations

from numbers import Integral

from visir.errors import RunError

MOST = 2**31 - 1
"""Documents of a gallery are numbered in 32 bits: no answer is longer."""


def depth_fault(k: object, name: str = "k", *, most: int = MOST) -> str:
    """What is wrong with a number of answers; empty when nothing is."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        return f"{name} must be a whole number, not {k!r}"
    k = int(k)
    if k < 1:
        return f"{name} must be at least 1, not {k}"
    return f"{name} must be at most {most:,}" if k > most else ""


def check_depth(k: object, name: str = "k") -> None:
    """Raise `RunError` unless so many answers can be asked for."""
    if fault := depth_fault(k, name):
        raise RunError(f"{fault}.", hint="more than there are documents is no harm")
