"""The result: the values of every measure for each query, their aggregates, and the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.records.protocol import Protocol


@dataclass(frozen=True, eq=False)
class Result(Tabular, Plotted, view="visir.reports.views.evaluation"):
    """The values of every measure of one system.

    Two runs of the same evaluation differ in `timing` and `origins` only: the first computes the vectors, the second
    reads them from the store.

    Attributes:
        system: The name of the system.
        protocol: What was searched, and how it was measured.
        per_query: For each task a table with the column `query_id` and one float64 column per measure (fractions in
            [0, 1], ranks from 1).
        aggregates: For each task {measure: value}: means over queries in the same units, medians for `median_rank`.
            Sums such as `rsum` are in percentage points (0–300 per task, 0–600 in all, under the key "both"), as every
            paper prints them.
        versions: Of visir and of the packages that computed the numbers.
        timing: Seconds by stage.
        notes: What a reader must know, e.g. images that were left out.
        captions: Columns id and image_id of the captions that took part, in the order of the source; None when they are
            unknown. Captions of one image are not independent queries, so a significance test needs them.
        origins: Where the vectors (by modality) or runs (by task) come from, and when they were computed.
        labels: For each task whose queries have labels: `query_id` and one column of strings for each label, in the
            order of `per_query`.
        chance: For each task with pools: `query_id` and one column per measure, its expected value when every score is
            random, as far as that is known.
        beyond: For each task {measure: queries}: of how many queries the rank is not known, because nothing right is
            among the answers and these do not hold the whole gallery. In `per_query` it is one below the last answer.
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
    labels: dict[str, pa.Table] = field(default_factory=dict)
    chance: dict[str, pa.Table] = field(default_factory=dict)
    beyond: dict[str, dict[str, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        protocol = self.protocol
        lines = [f"{task}: {_headline(values, protocol.recall)}" for task, values in self.aggregates.items()]
        return brief(
            self,
            f"{self.system} on {protocol.collection}{f', split {protocol.split}' if protocol.split else ''}",
            *lines[:4],
            f"protocol {protocol.fingerprint[:12]}"
            + (f", {counted(len(self.notes), 'notes')}: {self.notes[0]}" if self.notes else ""),
        )

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks measured, e.g. ("i2t", "t2i")."""
        return tuple(self.per_query)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the per-query measures."""
        return tuple(name for name in next(iter(self.per_query.values())).column_names if name != "query_id")

    def values(self, task: str, measure: str) -> NDArray[np.float64]:
        """Return the (n,) values of one measure, in the order of the table's `query_id`.

        Raises:
            VisirError: The task or the measure is unknown.
        """
        if task not in self.per_query:
            raise VisirError(
                f"result {self.system}: no task {task!r}", hint=nearest(task, self.per_query), code="no-task"
            )
        table = self.per_query[task]
        if measure not in table.column_names:
            raise VisirError(f"result {self.system}: no measure {measure!r}", hint=nearest(measure, self.measures))
        values: NDArray[np.float64] = table[measure].to_numpy().astype(np.float64)
        return values

    def mean(self, task: str, measure: str) -> float:
        """Return the aggregate of one measure in one task.

        Raises:
            VisirError: There is no such aggregate.
        """
        if measure not in self.aggregates.get(task, {}):
            raise VisirError(
                f"result {self.system}: no {measure!r} for {task!r}",
                hint=nearest(measure, self.aggregates.get(task, {})),
            )
        return self.aggregates[task][measure]

    def last_rank(self, task: str, measure: str) -> int | None:
        """The last rank that was looked at, where ranks beyond it are not known; None where every rank is known."""
        if not self.beyond.get(task, {}).get(measure):
            return None
        return int(self.values(task, measure).max()) - 1  # a rank that is not known is one below the last

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the tables, as plain values for JSON."""
        return {
            "system": self.system,
            "protocol": self.protocol.to_dict(),
            "protocol_fingerprint": self.protocol.fingerprint,
            "aggregates": self.aggregates,
            "beyond": self.beyond,
            "versions": self.versions,
            "timing": self.timing,
            "origins": self.origins,
            "notes": list(self.notes),
        }


def _headline(values: dict[str, float], recall: str) -> str:
    """The recall that the protocol names in percent and `rsum`; without R@1 the first measures as they are."""
    shown = {
        f"R@{name.partition('@')[2]}": 100 * value for name, value in values.items() if name.startswith(f"{recall}@")
    }
    shown |= {name: value for name, value in values.items() if name == "rsum"}
    if f"{recall}@1" not in values:
        return ", ".join(f"{name} {value:.4g}" for name, value in list(values.items())[:4])
    return ", ".join(f"{name} {value:.1f}" for name, value in list(shown.items())[:5])
