"""Whether Python runs interactively, where nothing may block a person."""

from __future__ import annotations


def in_background(background: bool | None) -> bool:
    """Whether to work in the background: as the caller says, else where Python runs interactively."""
    return is_interactive() if background is None else background


def is_interactive() -> bool:
    """Whether a person types lines one by one: a notebook, IPython, or Python's own prompt."""
    import builtins
    import sys

    return hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")
