"""What a reader hands over: the columns of a record to be, and every fault it met on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from visir.errors import CollectionError, raise_faults
from visir.records import Collection
from visir.records.columns import text_column

MANY = 1_000
"""Readers stop collecting faults here: a file with more is of another format, not faulty."""
NOT_LOOKED_FOR = "images not looked for"
"""The note of a source when nobody wants its pictures."""


@dataclass
class SourceDraft(ABC):
    """What a reader hands over: a source before it is checked, whatever it becomes."""

    # A reader appends what it can read and writes down what it cannot, so that all faults of a source are known at
    # once. Pictures are listed in one of two ways. A source that names its pictures without saying where they lie fills
    # `names`; `visir.collections.readers.locate.place_images` turns them into `paths` and `archives`. A source that
    # knows the place fills `paths` and `archives` itself and leaves `names` empty.

    name: str  # the name of what it becomes
    root: Path  # the folder to which `paths` and `archives` are relative
    source: str  # where it comes from, in words
    ids: list[str] = field(default_factory=list)  # (n,) what has a picture: images, or products
    # (n,) the file name of each picture (parts of a path allowed), None where there is none; or empty.
    names: list[str | None] = field(default_factory=list)
    # (n,) where each picture lies, None where it is not at hand; or empty.
    paths: list[str | None] = field(default_factory=list)
    # (n,) the zip or tar in which it lies, None for plain files; or empty.
    archives: list[str | None] = field(default_factory=list)
    # By row, of pictures that are named: what stands behind the path once it is known
    # (`visir.collections.segments`).
    fragments: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)  # what cannot be read
    # What else is worth knowing; they become part of the `source` of the record.
    notes: list[str] = field(default_factory=list)

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
            hint="mend the source (visir data check PATH lists everything), or name its format: FORMAT:PATH",
        )

    @abstractmethod
    def build(self) -> Any:
        """The checked record; raises `CollectionError` where there is none."""

    def column(self, values: Sequence[str | None]) -> pa.Array:
        """(n,) a column of text, or of nothing where the list is empty; raises `CollectionError` for a number."""
        return text_column(values, self.name) if values else pa.nulls(len(self.ids), pa.string())

    def described_source(self) -> str:
        """Where it comes from, with the notes."""
        return "; ".join([self.source, *self.notes])


@dataclass
class Draft(SourceDraft):
    """A collection before it is checked: `build` raises all faults together, `visir.collections.check` reports them."""

    splits: list[str] = field(default_factory=list)  # (n,) the split of each image, "" for none
    # (m,) the id of each caption; `texts` (m,) what it says; `caption_images` (m,) the id of its image.
    caption_ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    caption_images: list[str] = field(default_factory=list)
    # (m,) the language of each caption, None where it is unknown; empty where none is known.
    languages: list[str | None] = field(default_factory=list)
    judgements: pa.Table | None = None  # judgements beside the links, as in `Collection`
    facts: pa.Table | None = None  # further columns by image, and `caption_facts` by caption, as in `Collection`
    caption_facts: pa.Table | None = None

    def add_image(self, identifier: str, name: str | None, split: str = "") -> None:
        """One image that the source names."""
        self.ids.append(identifier)
        self.names.append(name)
        self.splits.append(split)

    def add_caption(self, identifier: str, text: str, image: str, language: str | None = None) -> None:
        """One caption of the image with the id `image`, in a language ("de") where it is known."""
        if language is not None or self.languages:
            self.languages += [None] * (len(self.caption_ids) - len(self.languages)) + [language]
        self.caption_ids.append(identifier)
        self.texts.append(text)
        self.caption_images.append(image)

    def add_captions_of_row(
        self,
        place: str,
        image: str,
        texts: Sequence[object],
        first: int,
        *,
        ids: Sequence[object] = (),
        languages: Sequence[str | None] = (),
    ) -> int:
        """The captions that one row of a table gives an image; what is wrong with them is a fault."""
        for what, cells in (("caption ids", ids), ("languages", languages)):
            if cells and len(cells) != len(texts):
                self.fault(f"{place}: {len(texts)} captions, but {len(cells)} {what}")
                return first
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                self.fault(f"{place}: a caption must be text, found {repr(text)[:40]}")
                continue
            own = str(ids[number]) if ids else f"{image}#{first}"
            first += 1
            self.add_caption(own, text, image, languages[number] if languages else None)
        return first

    def set_classes(self, labels: Sequence[str | None], classes: Sequence[str]) -> None:
        """The class of each image as its fact "class", and all classes in their order."""
        order = {"classes": orjson.dumps(classes).decode()}
        schema = pa.schema([pa.field("image_id", pa.string()), pa.field("class", pa.string(), metadata=order)])
        self.facts = pa.table([self.ids, labels], schema=schema)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """The image and caption tables as they are, unchecked."""
        images = {
            "id": text_column(self.ids, self.name),
            "path": self.column(self.paths),
            "archive": self.column(self.archives),
            "split": text_column(self.splits, self.name),
        }
        captions = {
            "id": text_column(self.caption_ids, self.name),
            "text": text_column(self.texts, self.name),
            "image_id": text_column(self.caption_images, self.name),
        }
        if self.languages:
            captions["language"] = text_column(self.languages, self.name)
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
            source=self.described_source(),
            facts=self.facts,
            caption_facts=self.caption_facts,
        )
        return collection if self.judgements is None else collection.with_judgements(self.judgements)
