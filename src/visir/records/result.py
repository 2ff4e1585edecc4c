"""The result: the values of every measure for each query, their aggregates, and the protocol."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Displayed, Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.fingerprint import hash_json
from visir.records.run import Gallery

# The protocol: everything except the system that a retrieval number depends on.

Recall = Literal["hit", "recall", "capped_recall"]
Ties = Literal["id", "pessimistic", "optimistic", "trec"]

UNDECLARED = "not declared"
"""The similarity of a run whose authors do not state it."""
SYSTEM_FIELDS = (
    "similarity",
    "image_preprocessing",
    "text_preprocessing",
    "truncation",
    "vocabulary",
    "vectors_per_item",
    "composition",
    "matcher",
)
"""Fields that belong to the system under test.

The card shows them, because they explain differences. Two systems that differ in them may still be compared: every
model scores pairs, resizes images and cuts texts in its own way, and has its own matching head. A cosine, a dot product
and BM25 are how systems rank; what is measured is the ranking. All other fields must be equal. For example, `rerank`
must be, because the number of candidates of a second stage limits what it can find.
"""


@dataclass(frozen=True)
class Protocol(Displayed):
    """What was searched, with which queries, over which candidates, and how it was measured.

    Two numbers may be compared only if all fields except `SYSTEM_FIELDS` are equal (see `differences`). The hash of
    these fields names the protocol.

    Example:
        >>> first = Protocol("flickr30k", "0a", "test", similarity="cosine")
        >>> first.differences(first.changed(split="val", similarity="dot", image_preprocessing="resize 224"))
        {'split': ('test', 'val')}
    """

    collection: str
    collection_fingerprint: str
    split: str
    relevance: str = "links"
    galleries: dict[str, str] = field(default_factory=dict)  # task -> "5,000 images (all of the split) · fingerprint"
    queries: dict[str, str] = field(default_factory=dict)  # task -> "25,000 captions · fingerprint"
    captions: str = "all"  # "all", "first", "random(seed=0)", "first 5"
    similarity: str = UNDECLARED
    recall: Recall = "hit"
    ties: Ties = "id"
    depth: int | None = None  # None: ranks are exact to the end of the gallery
    folds: int = 1
    estimator: str | None = None  # what estimates the gains of dcg_cm; "self (circular)": the system under test
    query_template: str = "{}"
    rerank: str | None = None  # "top 128; nothing behind them" when a second stage re-ranks
    perturbation: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # further conditions (shortcuts, …), by name
    image_preprocessing: str = ""
    text_preprocessing: str = ""
    truncation: str = ""
    vocabulary: str = ""  # of sparse vectors: name, size, fingerprint
    vectors_per_item: str = ""  # of late interaction: "image 49, text 11.3 · 128 dimensions, float16"
    composition: str = ""  # how one vector is made of a text and an image: "sum(0.5)", "text", "by the model"
    matcher: str = ""  # of a second stage: its model and its score

    def __repr__(self) -> str:
        lines = [f"{task}: {self.queries.get(task, '?')} → {of_task}" for task, of_task in self.galleries.items()]
        counted_as = f"similarity {self.similarity}, recall {self.recall}, ties {self.ties}, relevance {self.relevance}"
        return brief(
            self,
            f"{self.collection}{f', split {self.split}' if self.split else ''}, {self.fingerprint[:12]}",
            *lines[:3],
            counted_as,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the task fields: equal exactly when two numbers may be compared."""
        return hash_json(self._task_fields())

    def differences(self, other: Protocol) -> dict[str, tuple[Any, Any]]:
        """Return {field: (own value, value of the other)} of the fields that forbid a comparison; {} if none does."""
        first, second = self._task_fields(), other._task_fields()
        return {name: (first[name], second[name]) for name in first if first[name] != second[name]}

    def system_differences(self, other: Protocol) -> dict[str, tuple[Any, Any]]:
        """Return {field: (own value, value of the other)} of the `SYSTEM_FIELDS` that differ, to show in a report."""
        first, second = asdict(self), asdict(other)
        return {name: (first[name], second[name]) for name in SYSTEM_FIELDS if first[name] != second[name]}

    def card(self) -> list[tuple[str, str]]:
        """Return the protocol as (label, value) rows in reading order, without empty values."""
        rows = []
        for name, value in asdict(self).items():
            if value in (None, "", {}, "{}"):
                continue
            label = name.replace("_", " ")
            if isinstance(value, dict):
                rows += [(f"{label} {key}", str(entry)) for key, entry in value.items()]
            else:
                rows.append((label, str(value)))
        return [*rows, ("protocol", self.fingerprint[:12])]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Protocol:
        """Make a protocol from the values of `to_dict`."""
        return cls(**values)

    def changed(self, **fields: Any) -> Protocol:
        """Return the protocol with these fields replaced."""
        return replace(self, **fields)

    def _task_fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in SYSTEM_FIELDS}


def gallery_line(gallery: Gallery) -> str:
    """Return the line of a gallery on the card: size, title, description, fingerprint."""
    return f"{gallery.size:,} {gallery.title} · {gallery.description} · {gallery.fingerprint[:12]}"


@dataclass(frozen=True, eq=False)
class Result(Tabular, Plotted):
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
        where = f"result {self.system}"
        if task not in self.per_query:
            raise VisirError(f"{where}: no task {task!r}", hint=nearest(task, self.per_query), code="no-task")
        table = self.per_query[task]
        if measure not in table.column_names:
            raise VisirError(f"{where}: no measure {measure!r}", hint=nearest(measure, self.measures))
        values: NDArray[np.float64] = table[measure].to_numpy().astype(np.float64)
        return values

    def mean(self, task: str, measure: str) -> float:
        """Return the aggregate of one measure in one task.

        Raises:
            VisirError: There is no such aggregate.
        """
        known = self.aggregates.get(task, {})
        if measure not in known:
            raise VisirError(f"result {self.system}: no {measure!r} for {task!r}", hint=nearest(measure, known))
        return known[measure]

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
    if f"{recall}@1" not in values:
        return ", ".join(f"{name} {value:.4g}" for name, value in list(values.items())[:4])
    shown = {f"R@{name.partition('@')[2]}": 100 * values[name] for name in values if name.startswith(f"{recall}@")}
    shown |= {name: value for name, value in values.items() if name == "rsum"}
    return ", ".join(f"{name} {value:.1f}" for name, value in list(shown.items())[:5])
