"""The protocol: everything except the system that a retrieval number depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from visir.display import Displayed, brief
from visir.fingerprint import hash_json
from visir.records.gallery import Gallery

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
class Protocol(Displayed, view="visir.reports.views.protocol"):
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
    galleries: dict[str, str] = field(
        default_factory=dict
    )  # task -> "5,000 images (all of the test split) · fingerprint"
    queries: dict[str, str] = field(default_factory=dict)  # task -> "25,000 captions · fingerprint"
    captions: str = "all"  # "all", "first", "random(seed=0)", "first 5"
    similarity: str = UNDECLARED
    recall: Recall = "hit"
    ties: Ties = "id"
    depth: int | None = None  # None: ranks are exact to the end of the gallery
    folds: int = 1
    estimator: str | None = (
        None  # which model estimates the gains of dcg_cm; "self (circular)" when it is the system under test
    )
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
