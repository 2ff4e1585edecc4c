"""How a process ends at Ctrl-C: with a line and status 130, never with a traceback."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 130


def stop() -> NoReturn:
    """Say that the process was stopped, and end it with status 130; a second Ctrl-C ends it at once."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    print("\nvisir: stopped; the same command goes on, or begins again", file=sys.stderr)  # noqa: T201
    # A Ctrl-C in code that is made from text, as data classes are, makes CPython end by the signal, whatever status it
    # is told. The next text that is run takes that back.
    exec("")
    sys.exit(INTERRUPTED)
