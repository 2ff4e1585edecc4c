"""Rows of judgements in the making: only pairs that the collection holds, counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from visir.errors import CollectionError
from visir.records import JUDGEMENTS, Collection


@dataclass(frozen=True)
class Judged:
    """What a reader of judgements returns: the rows, and a line on where they come from and how many fitted."""

    table: pa.Table
    note: str


@dataclass
class Judging:
    """Collects judgements, keeping those whose caption and image are both in the collection."""

    # A collection that was cut to one split rightly leaves judgements of others out, so this is counted, not an error;
    # a collection to which *nothing* fits has other ids, and that is.

    collection: Collection
    source: str
    relevance: list[str] = field(default_factory=list)
    task: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    grades: list[float] = field(default_factory=list)
    outside: int = 0

    def __post_init__(self) -> None:
        self.known_images = set(self.collection.images["id"].to_pylist())
        self.image_of: dict[str, str] = dict(
            zip(
                self.collection.captions["id"].to_pylist(),
                self.collection.captions["image_id"].to_pylist(),
                strict=True,
            )
        )

    def add(self, relevance: str, task: str, caption: str, image: str, grade: float) -> None:
        """One judged pair."""
        if caption not in self.image_of or image not in self.known_images:
            self.outside += 1
            return
        self.relevance.append(relevance)
        self.task.append(task)
        self.captions.append(caption)
        self.images.append(image)
        self.grades.append(grade)

    def done(self, *, hint: str) -> Judged:
        """The rows; raises `CollectionError` with `hint` if none fits."""
        if not self.grades:
            raise CollectionError(
                f"{self.source}: none of its {self.outside:,} judgements is about a pair in {self.collection.name}.",
                hint=hint,
                code="none-judgements-about-pair",
            )
        columns = [self.relevance, self.task, self.captions, self.images, self.grades]
        table = pa.table(dict(zip(JUDGEMENTS.names, columns, strict=True)), schema=JUDGEMENTS)
        left = f", {self.outside:,} about other images or captions left out" if self.outside else ""
        return Judged(table, f"judgements of {self.source}: {len(self.grades):,}{left}")


COCO_HINT = (
    "it needs COCO's own ids: read dataset_coco.json (karpathy), captions_val2014.json (coco_captions), "
    "or an annotation list with caption_ids=coco_test_ids.npy and captions_per_image=5"
)
