"""A build of kind ivf that ends, as by Ctrl-C, at its fourth part."""

from __future__ import annotations

from typing import Any

import pytest

from visir.retrieval import dense as ivf


def stop_at_fourth_part(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many vectors each part had, as they are appended; emptied by the test, three more parts go through."""
    sizes: list[int] = []
    append = ivf.append

    def append_or_stop(codes: Any, vectors: Any) -> None:
        if len(sizes) == 3:
            raise KeyboardInterrupt
        sizes.append(len(vectors))
        append(codes, vectors)

    monkeypatch.setattr(ivf, "append", append_or_stop)
    return sizes
