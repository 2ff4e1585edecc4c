"""Background tasks that outlive whatever goes wrong in them."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from visir.errors import VisirError
from visir.serving.logs import ServiceLog

LONGEST = 5.0
"""Seconds after which a task that failed is tried again, at the most."""


class PeriodicTask:
    """Calls `work` at regular intervals on a thread of its own, until `stop`."""

    # Whatever `work` raises is logged, once for each text, and `work` is called again: a little later each time. The
    # task has a thread to itself, so that a task whose disk hangs delays no other.

    def __init__(self, work: Callable[[], object], *, interval: float, name: str, log: ServiceLog) -> None:
        self._work, self._interval, self._name, self._log = work, interval, name, log
        self._stop = threading.Event()
        self._last_message = ""
        self._starting = threading.Lock()
        self._thread = self._started()

    def stop(self) -> None:
        """Call it no more. Does not wait for a call that is under way."""
        self._stop.set()

    @property
    def is_alive(self) -> bool:
        """Whether it is called, or was stopped on purpose."""
        return self._stop.is_set() or self._thread.is_alive()

    def revive(self) -> None:
        """Begin it again, if its thread has ended though nobody has stopped it."""
        with self._starting:
            if not self.is_alive:
                self._log.write("error", "fault", task=self._name, fault="its thread ended; it is begun again")
                self._thread = self._started()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"visir-{self._name}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        wait = self._interval
        while not self._stop.wait(wait):
            try:
                self._work()
            except BaseException as fault:  # a thread that ends would end in silence
                self._log_once(fault)
                wait = max(self._interval, min(2 * wait, LONGEST))
            else:
                wait, self._last_message = self._interval, ""

    def _log_once(self, fault: BaseException) -> None:
        text = str(fault) or repr(fault)
        if text == self._last_message:
            return
        self._last_message = text
        more = {} if isinstance(fault, VisirError) else {"traceback": traceback.format_exception(fault)}
        self._log.write("error", "fault", task=self._name, fault=text, **more)
