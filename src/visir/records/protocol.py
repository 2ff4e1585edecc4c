"""The protocol: everything beside the system that a retrieval number depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from visir.fingerprint import hash_json
from visir.records.gallery import Gallery

Recall = Literal["hit", "recall", "capped_recall"]
Ties = Literal["id", "pessimistic", "optimistic"]

UNDECLARED = "not declared"
"""The similarity of a run whose makers do not say how they scored."""
SYSTEM_FIELDS = ("image_preprocessing", "text_preprocessing", "truncation", "vocabulary", "matcher")
"""Fields that belong to the system under test.

They are on the card, because they explain differences, but two systems that differ in them may still be compared: every
model resizes images and cuts texts in its own way, and has a matching head of its own. All other fields must be equal:
of a second stage, how many candidates it is given and what is found behind them decides how much can be found at all.
"""


@dataclass(frozen=True)
class Protocol:
    """What was searched, by which queries, over which candidates, and how it was counted.

    Two numbers may be compared only when all task fields agree (see `differences`). The hash of those fields names the
    protocol.
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
        None  # who estimates the gains of dcg_cm; "self (circular)" when it is the system under test
    )
    query_template: str = "{}"
    rerank: str | None = None  # "top 128; nothing behind them" when a second stage re-ranks
    perturbation: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # further conditions (shortcuts, …), by name
    image_preprocessing: str = ""
    text_preprocessing: str = ""
    truncation: str = ""
    vocabulary: str = ""  # of sparse vectors: whose words, how many, fingerprint
    matcher: str = ""  # of a second stage: which model, by which score

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the task fields: equal exactly when two numbers may be compared."""
        return hash_json(self._task_fields())

    def differences(self, other: Protocol) -> dict[str, tuple[Any, Any]]:
        """Task fields that differ: {field: (mine, the other's)}; empty when numbers may be compared."""
        mine, theirs = self._task_fields(), other._task_fields()
        return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}

    def system_differences(self, other: Protocol) -> dict[str, tuple[Any, Any]]:
        """System fields in which two protocols differ: shown beside a comparison, never a reason to refuse it."""
        mine, theirs = asdict(self), asdict(other)
        return {name: (mine[name], theirs[name]) for name in SYSTEM_FIELDS if mine[name] != theirs[name]}

    def card(self) -> list[tuple[str, str]]:
        """The protocol as (label, value) rows, in reading order, without what is empty."""
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
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Protocol:
        """Back from `to_dict`."""
        return cls(**values)

    def changed(self, **fields: Any) -> Protocol:
        """The protocol with some fields replaced."""
        return replace(self, **fields)

    def _task_fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in SYSTEM_FIELDS}


def gallery_line(gallery: Gallery) -> str:
    """How a gallery is written on the card: size, what it is, fingerprint."""
    return f"{gallery.size:,} {gallery.title} · {gallery.description} · {gallery.fingerprint[:12]}"
