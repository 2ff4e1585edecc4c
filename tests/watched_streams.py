"""Streams that know which threads read them."""

from __future__ import annotations

import io
import threading


class Watched(io.BytesIO):
    """Bytes; `threads` has the threads that read them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.threads: set[int] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        self.threads.add(threading.get_ident())
        return super().read(size)
