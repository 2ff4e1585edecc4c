"""Work in a thread beside the program: it ends by `stop`, with a `with` block, or by Ctrl-C in `wait`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class BackgroundThread(ABC):
    """Something that runs in `_thread` until it is stopped."""

    _thread: threading.Thread

    @abstractmethod
    def stop(self) -> None:
        """End it, and return when it has ended."""

    def wait(self) -> None:
        """Return when it has been stopped, by another thread or by Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
