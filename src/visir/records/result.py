"""The result: per-query values of every measure, their aggregates, and the protocol that gives them meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import VisirError, nearest
from visir.records.protocol import Protocol


@dataclass(frozen=True, eq=False)
class Result:
    """What a system scored, query by query.

    - `per_query`: task -> table with column `query_id` and one float64 column per measure (fractions in [0, 1],
      ranks from 1)
    - `aggregates`: task -> {measure: value}: means over queries in the same units, medians for `median_rank`; sums
      such as `rsum` are kept in percentage points (0–300 per task, 0–600 in all, under the key "both"), because
      that is how every paper prints them
    - `versions`: of visir and of the packages that made the numbers; `timing`: seconds by stage; `notes`: what a reader
      must know (images set aside, …)
    - `origins`: where the vectors (by modality) or runs (by task) come from, and when they were made. Beside
      `timing` it is what differs when the same evaluation is made twice: once encoded, once found in the store.
    - `captions`: columns id, image_id of the captions that took part, in the source's order; None when they are not
      known. Captions of one image are no independent queries, so a test must know them.
    """

    system: str
    protocol: Protocol
    per_query: dict[str, pa.Table]
    aggregates: dict[str, dict[str, float]]
    versions: dict[str, str] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    captions: pa.Table | None = None
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks measured, e.g. ("i2t", "t2i")."""
        return tuple(self.per_query)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the per-query measures."""
        return tuple(name for name in next(iter(self.per_query.values())).column_names if name != "query_id")

    def values(self, task: str, measure: str) -> NDArray[np.float64]:
        """(n,) the per-query values of one measure, in the order of the table's `query_id`."""
        if task not in self.per_query:
            raise VisirError(f"result {self.system}: no task {task!r}", hint=nearest(task, self.per_query))
        table = self.per_query[task]
        if measure not in table.column_names:
            raise VisirError(f"result {self.system}: no measure {measure!r}", hint=nearest(measure, self.measures))
        values: NDArray[np.float64] = table[measure].to_numpy().astype(np.float64)
        return values

    def mean(self, task: str, measure: str) -> float:
        """The aggregate of one measure in one task."""
        if measure not in self.aggregates.get(task, {}):
            raise VisirError(
                f"result {self.system}: no {measure!r} for {task!r}",
                hint=nearest(measure, self.aggregates.get(task, {})),
            )
        return self.aggregates[task][measure]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tables, as plain values for JSON."""
        return {
            "system": self.system,
            "protocol": self.protocol.to_dict(),
            "protocol_fingerprint": self.protocol.fingerprint,
            "aggregates": self.aggregates,
            "versions": self.versions,
            "timing": self.timing,
            "origins": self.origins,
            "notes": list(self.notes),
        }
