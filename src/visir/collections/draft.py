"""What a reader hands over: the columns of a collection to be, and every fault it met on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from visir.errors import CollectionError, raise_faults
from visir.records import Collection
from visir.records.columns import text_column

MANY = 1_000
"""Readers stop collecting faults here: a file with more is of another format, not faulty."""


@dataclass
class Draft:
    """A collection before it is checked.

    A reader appends what it can read and writes down what it cannot, so that all faults of a source are known at once:
    `build` raises them together, `visir.collections.check` reports them beside those of the images.

    `names` holds, for sources that name their pictures without saying where they lie, one file name per image (parts of
    a path allowed); `visir.collections.readers.locate` turns them into `paths` and `archives`. Sources that know the
    place fill `paths` and `archives` themselves and leave `names` empty.
    """

    name: str
    root: Path
    source: str
    ids: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    paths: list[str | None] = field(default_factory=list)
    archives: list[str | None] = field(default_factory=list)
    caption_ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    caption_images: list[str] = field(default_factory=list)
    judgements: pa.Table | None = None
    facts: pa.Table | None = None
    caption_facts: pa.Table | None = None
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_image(self, identifier: str, name: str | None, split: str = "") -> None:
        """One image that the source names."""
        self.ids.append(identifier)
        self.names.append(name)
        self.splits.append(split)

    def add_caption(self, identifier: str, text: str, image: str) -> None:
        """One caption of the image with the id `image`."""
        self.caption_ids.append(identifier)
        self.texts.append(text)
        self.caption_images.append(image)

    def fault(self, text: str) -> None:
        """Write down a fault; past `MANY` of them, give up and raise."""
        self.faults.append(text)
        if len(self.faults) >= MANY:
            self.raise_faults()

    def raise_faults(self) -> None:
        """Raise all faults written down so far as one `CollectionError`; nothing if there are none."""
        raise_faults(
            CollectionError,
            f"{self.name} ({self.source})",
            self.faults,
            hint="mend the source (visir data check PATH lists everything), or name its format with --format",
        )

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """The image and caption tables as they are, unchecked."""
        rows = len(self.ids)
        images = {
            "id": text_column(self.ids, self.name),
            "path": text_column(self.paths, self.name) if self.paths else pa.nulls(rows, pa.string()),
            "archive": text_column(self.archives, self.name) if self.archives else pa.nulls(rows, pa.string()),
            "split": text_column(self.splits, self.name),
        }
        captions = {
            "id": text_column(self.caption_ids, self.name),
            "text": text_column(self.texts, self.name),
            "image_id": text_column(self.caption_images, self.name),
        }
        return pa.table(images), pa.table(captions)

    def build(self) -> Collection:
        """The checked collection; raises `CollectionError` with every fault otherwise."""
        self.raise_faults()
        if not self.ids:
            raise CollectionError(f"{self.name} ({self.source}): no images in it.", hint="is this the right file?")
        images, captions = self.tables()
        collection = Collection(
            self.name,
            images,
            captions,
            root=self.root.absolute(),
            source="; ".join([self.source, *self.notes]),
            facts=self.facts,
            caption_facts=self.caption_facts,
        )
        return collection if self.judgements is None else collection.with_judgements(self.judgements)
