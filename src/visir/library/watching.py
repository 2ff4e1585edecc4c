"""A library that is kept up to date in the background, by a thread that does not end without a word."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from visir.background_thread import BackgroundThread
from visir.library.watch import FIRST, LONGEST, SETTLE, require_place, require_watching, watch


class Watcher(BackgroundThread):
    """Watches the photos of a library, and updates it when they change, until `stop`.

    What goes wrong in an update is warned of once, and tried again. Should the watching itself end in an error, it is
    begun again, a little later each time; `fault` says why.

    Args:
        folder: The library's folder.
        changed: Updates the library.
        settle: Seconds without a change before it is updated.
        callback: Called with what goes wrong, as a sentence. Default: a warning.

    Attributes:
        fault: Why the last update failed, or the watching ended; empty while all is well.
    """

    def __init__(
        self,
        folder: Path,
        changed: Callable[[], object],
        *,
        settle: float = SETTLE,
        callback: Callable[[str], object] | None = None,
    ) -> None:
        require_watching()
        require_place(folder)
        self.folder, self.fault = folder, ""
        self._changed, self._settle = changed, settle
        self._callback = callback or (lambda message: warnings.warn(message, stacklevel=2))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"visir-watch-{folder.name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it watches: until `stop`, unless its thread was killed."""
        return self._thread.is_alive() and not self._stop.is_set()

    def stop(self, seconds: float = 30.0) -> None:
        """Watch no more; waits so long for an update that is under way."""
        self._stop.set()
        self._thread.join(seconds)

    def __repr__(self) -> str:
        return f"Watcher({str(self.folder)!r}, {'watching' if self.is_alive else 'stopped'})"

    def _run(self) -> None:
        wait = FIRST
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                watch(self.folder, self._update, settle=self._settle, stop=self._stop, callback=self._failed)
            except BaseException as fault:  # a thread that ends would end in silence
                self._failed(f"{self.folder}: watching ended: {fault or type(fault).__name__}; it is begun again")
            wait = FIRST if time.monotonic() - began > LONGEST else min(2 * wait, LONGEST)
            self._stop.wait(wait)

    def _update(self) -> object:
        report = self._changed()
        self.fault = ""
        return report

    def _failed(self, message: str) -> None:
        if message != self.fault:
            self.fault = message
            self._callback(message)
