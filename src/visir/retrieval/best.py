"""Exact search over dense vectors, wherever it is computed; the answers are the same."""

from __future__ import annotations

import numpy as np

from visir.jit import pays
from visir.records import Ties
from visir.retrieval import few
from visir.retrieval.device_scan import scan_on_device
from visir.retrieval.scan import Answers, SearchState, scan
from visir.retrieval.torch_device import TorchDevice
from visir.retrieval.vectors import Side


def scan_on(
    device: str | None, rows: Side, columns: Side, forward: SearchState, backward: SearchState | None, ties: Ties
) -> list[Answers]:
    """Score every row of one side with every row of the other; see `visir.retrieval.scan.scan`."""
    if device:
        return scan_on_device(device, rows, columns, forward, backward, ties)
    return scan(rows, columns, forward, backward, ties)


def best_of(queries: Side, documents: Side, depth: int, device: str | None = None) -> Answers:
    """The best documents of each query; of equal ones the first."""
    # Few vectors are searched without compiled loops, and without the device that is named: that takes less than their
    # way there.
    if device:
        TorchDevice(device)  # the same error for few vectors as for many
    if not pays(len(queries) * len(documents) * documents.embeddings.dimension):
        return few.best(queries.block(0, len(queries)), documents.block(0, len(documents)), depth)
    none = np.zeros(len(queries) + 1, np.int64)
    state = SearchState(np.arange(len(queries)), none, np.empty(0, np.int64), depth)
    return scan_on(device, queries, documents, state, None, "id")[0]
