"""Search: exact, both tasks in one pass; indexes; ranks of the positives; runs in and out of other tools' formats.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.retrieval.formats import read_run, write_run

__getattr__, __dir__ = lazy(
    __name__,
    {
        "read_run": "visir.retrieval.formats",
        "write_run": "visir.retrieval.formats",
    },
)

__all__ = ["read_run", "write_run"]
