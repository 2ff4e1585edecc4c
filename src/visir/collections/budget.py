"""The memory of decoded pictures: one budget for the process, taken before a picture is decoded."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from visir.errors import ConfigurationError
from visir.threads import cores

LIMIT_VARIABLE = "VISIR_MAX_PIXELS"
"""The environment variable that raises the limit of pixels of a picture."""
_PIXELS = 89_478_485
"""Pictures with more pixels are refused before they are decoded (a quarter GiB as RGB; Pillow's own warning limit)."""


def pixel_limit() -> int | None:
    """Return how many pixels a picture may have: `VISIR_MAX_PIXELS`, otherwise 89 million; None for any number."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip().lower().replace("_", "")
    if not text:
        return _PIXELS
    if text == "none":
        return None
    try:
        pixels = int(float(text))
    except (ValueError, OverflowError):
        pixels = 0
    if pixels < 1:
        raise ConfigurationError(
            f"{LIMIT_VARIABLE}={text!r} is no number of pixels.",
            hint=f"for example {LIMIT_VARIABLE}=300e6, or none",
            code="visir-max-pixels-no",
        )
    return pixels


class Budget:
    """How many bytes decoders may take together, and how many bytes of decoded pictures may wait."""

    # Decoders wait for their turn, first come, first served. A decoder gives back its bytes soon, and asks for nothing
    # else in the meantime. A picture that needs more than the limit is decoded alone. Decoded pictures that wait may
    # take a quarter of the limit (`hold`). They never wait for room, so no two holders wait for each other.

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.decoding = self.waiting = 0
        self._changed, self._turn = threading.Condition(), threading.Lock()

    @property
    def largest(self) -> int:
        """The most that a picture can be given while others wait."""
        return self.limit - self.limit // 4

    @contextlib.contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Reserve so many bytes for the time of decoding; waits until there is room."""
        with self._turn, self._changed:
            self._changed.wait_for(lambda: not self.decoding or self.decoding + self.waiting + size <= self.limit)
            self.decoding += size
        try:
            yield
        finally:
            with self._changed:
                self.decoding -= size
                self._changed.notify_all()

    def hold(self, size: int) -> bool:
        """Count bytes of a decoded picture that waits; False, and nothing counted, when there is no room for them."""
        with self._changed:
            if self.waiting + size > self.limit // 4:
                return False
            self.waiting += size
            return True

    def release(self, size: int) -> None:
        """Count bytes no longer that were held."""
        with self._changed:
            self.waiting -= size
            self._changed.notify_all()


DECODING = Budget(max(2**30, cores() * 2**27))
"""Of this process: a GiB, or 128 MiB for each core. A service sets its own limit."""
