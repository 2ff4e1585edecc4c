"""FAISS, imported when it is needed, and the number of its threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from visir.errors import require


def load_faiss(purpose: str) -> Any:
    """Return the module."""
    require("faiss", extra="hnsw", purpose=purpose)
    import faiss

    return faiss


@contextlib.contextmanager
def faiss_threads(faiss: Any, n: int) -> Iterator[None]:
    """Let FAISS use `n` threads inside the block."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
