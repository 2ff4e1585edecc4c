"""The check of k, the number of answers per query."""

from __future__ import annotations

from numbers import Integral

from visir.errors import RunError

MOST = 2**31 - 1
"""The longest answer: documents of a gallery are numbered in 32 bits."""


def depth_fault(k: object, name: str = "k", *, most: int = MOST) -> str:
    """Return what is wrong with a number of answers, or ""."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        return f"{name} must be a whole number, not {k!r}"
    k = int(k)
    if k < 1:
        return f"{name} must be at least 1, not {k}"
    return f"{name} must be at most {most:,}" if k > most else ""


def check_depth(k: object, name: str = "k") -> None:
    """Check a number of answers."""
    if fault := depth_fault(k, name):
        raise RunError(f"{fault}.", hint="more than there are documents is no harm")
