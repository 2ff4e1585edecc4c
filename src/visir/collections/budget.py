"""The memory of decoded pictures: one budget for the process, taken before a picture is decoded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from visir.threads import cores


class Budget:
    """How many bytes decoders may take together, and how many may wait that came out of them.

    Decoding waits for its turn, in the order of coming: what it takes it gives back soon, and while it holds it, it
    asks for nothing else. A picture that needs more than there is at all is decoded alone. What waits may take a
    quarter (`keep`); it is refused and never waited for, so that no two of those who hold some wait for each other.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.decoding = self.waiting = 0
        self._changed, self._turn = threading.Condition(), threading.Lock()

    @property
    def most(self) -> int:
        """The most that a picture can be given while others wait."""
        return self.limit - self.limit // 4

    @contextlib.contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """So many bytes for the time of decoding."""
        with self._turn, self._changed:
            self._changed.wait_for(lambda: not self.decoding or self.decoding + self.waiting + size <= self.limit)
            self.decoding += size
        try:
            yield
        finally:
            with self._changed:
                self.decoding -= size
                self._changed.notify_all()

    def keep(self, size: int) -> bool:
        """Count bytes that wait; False, and nothing counted, when there is no room for them."""
        with self._changed:
            if self.waiting + size > self.limit // 4:
                return False
            self.waiting += size
            return True

    def release(self, size: int) -> None:
        """Bytes that wait no more."""
        with self._changed:
            self.waiting -= size
            self._changed.notify_all()


DECODING = Budget(max(2**30, cores() * 2**27))
"""Of this process: a GiB, or 128 MiB for each core. A service sets its own limit."""
