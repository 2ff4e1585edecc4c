"""Memory-mapped arrays: pages that were read are given back, so that they do not count as memory of the process."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any


def release(array: Any) -> None:
    """Give back the pages of an array that is mapped read-only from a file; of another array, do nothing."""
    # The system may keep the pages in its cache, so reading them again costs no disk.
    _advise(array, "MADV_DONTNEED")


def expect_single_rows(array: Any) -> None:
    """Say that single rows of a mapped array will be read, so that the system reads no more than these from disk."""
    _advise(array, "MADV_RANDOM")


def _advise(array: Any, advice: str) -> None:
    while array is not None and not isinstance(getattr(array, "_mmap", None), mmap.mmap):
        array = getattr(array, "base", None)
    # Pages of a map that was written to ("c") would lose what was written.
    if array is not None and array.mode == "r" and hasattr(mmap, advice):
        with contextlib.suppress(OSError, ValueError):  # a file system that takes no advice, a map that was closed
            array._mmap.madvise(getattr(mmap, advice))
