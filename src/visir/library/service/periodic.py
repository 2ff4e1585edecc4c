"""Background tasks that outlive whatever goes wrong in them."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from visir.errors import VisirError
from visir.library.service.logs import ServiceLog

LONGEST = 5.0
"""Seconds after which a task that failed is tried again, at the most."""


class PeriodicTask:
    """Calls `work` every so many seconds on a thread of its own, until `stop`.

    Whatever `work` raises is written into the log, once for each text, and it is called again: a little later each
    time. It has a thread to itself, so that one task whose disk hangs holds up no other.
    """

    def __init__(self, work: Callable[[], object], *, interval: float, name: str, log: ServiceLog) -> None:
        self._work, self._every, self._name, self._log = work, interval, name, log
        self._stop = threading.Event()
        self._last_message = ""
        self._thread = threading.Thread(target=self._run, name=f"visir-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Call it no more. Does not wait for a call that is under way."""
        self._stop.set()

    def _run(self) -> None:
        wait = self._every
        while not self._stop.wait(wait):
            try:
                self._work()
            except BaseException as fault:  # a thread that ends would end in silence
                self._log_once(fault)
                wait = max(self._every, min(2 * wait, LONGEST))
            else:
                wait, self._last_message = self._every, ""

    def _log_once(self, fault: BaseException) -> None:
        text = str(fault) or repr(fault)
        if text == self._last_message:
            return
        self._last_message = text
        more = {} if isinstance(fault, VisirError) else {"traceback": traceback.format_exception(fault)}
        self._log.write("error", "fault", task=self._name, fault=text, **more)
