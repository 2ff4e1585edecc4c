"""The collection: images, captions, which belongs to which, splits and judgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError, nearest, raise_faults
from visir.fingerprint import hash_columns
from visir.records.columns import conform, strings
from visir.records.corrupted import Corrupted
from visir.records.gallery import Gallery
from visir.records.items import PLACES, Items, Modality
from visir.records.qrels import Qrels
from visir.records.shortcuts import Injected
from visir.records.task import QrelsByName, Task

IMAGES = pa.schema([("id", pa.string()), ("path", pa.string()), ("archive", pa.string()), ("split", pa.string())])
CAPTIONS = pa.schema([("id", pa.string()), ("text", pa.string()), ("image_id", pa.string())])
JUDGEMENTS = pa.schema(
    [
        ("relevance", pa.string()),  # the name of the set of judgements: "cxc", "eccv", "experts", …
        ("task", pa.string()),  # "t2i", "i2t", or "both"
        ("caption_id", pa.string()),
        ("image_id", pa.string()),
        ("grade", pa.float32()),  # > 0 is a positive; 0 is judged and not relevant
    ]
)
SIDES: dict[str, tuple[Modality, Modality]] = {"i2t": ("image", "text"), "t2i": ("text", "image")}
"""The tasks of every collection of images and captions: what their queries and what their documents hold."""
TASKS = tuple(SIDES)
LINKS = "links"
"""The name of the relevance that every collection has: a caption and the image it was written for, grade 1."""


@dataclass(frozen=True, eq=False)
class Collection:
    """What is searched: images and captions, their links, splits, and further judgements.

    Tables are immutable and columnar (PyArrow), so that 600,000 captions are read, hashed and stored in seconds.

    - `images`: one row per image: `id`; where the bytes are: `path`, inside `archive` (a zip or tar) when that is not
      null, both relative to `root`; `path` is null when only metadata is at hand; `split` ("train", "val", "test", or
      what the source calls it; "" if none).
    - `captions`: one row per caption: `id`, `text`, `image_id`. A caption is in the split of its image. Captions of one
      image keep the source's order.
    - `judgements`: graded, many-to-many, in named sets beside the links (CxC, ECCV Caption, human experts).
      A set *replaces* the links when it is the declared relevance; readers of sets that extend the links (CxC) include
      them.
    - `facts`: per image whatever else is known as columns (`image_id` first): latent facts of generated scenes,
      metadata.
    - `caption_facts`: the same per caption (`caption_id` first): which facts a caption tells.
    - `injected`: the synthetic shortcuts that pictures and captions carry, in a view that `visir.shortcuts` made
    - `corrupted`: what every picture suffers before a model sees it, in a view that `visir.robustness` made
    """

    name: str
    images: pa.Table
    captions: pa.Table
    judgements: pa.Table = field(default_factory=lambda: JUDGEMENTS.empty_table())
    root: Path = field(default_factory=Path)
    source: str = ""
    facts: pa.Table | None = None
    caption_facts: pa.Table | None = None
    injected: Injected | None = None
    corrupted: Corrupted | None = None

    def __post_init__(self) -> None:
        for table, schema in (("images", IMAGES), ("captions", CAPTIONS), ("judgements", JUDGEMENTS)):
            object.__setattr__(self, table, conform(getattr(self, table), schema, f"{self.name}: {table}"))
        self._check()

    @classmethod
    def build(
        cls,
        name: str,
        *,
        images: Mapping[str, object],
        captions: Mapping[str, object] | None = None,
        judgements: Mapping[str, object] | None = None,
        root: str | Path = ".",
        source: str = "",
        facts: pa.Table | None = None,
        caption_facts: pa.Table | None = None,
    ) -> Collection:
        """Make a collection from columns (lists or arrays): the door for readers.

        Missing columns become null or empty.
        """
        return cls(
            name,
            _table(images, IMAGES),
            _table(captions or {}, CAPTIONS),
            _table(judgements or {}, JUDGEMENTS),
            Path(root),
            source,
            facts,
            caption_facts,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over ids, texts, links, splits and judgements: 32 hexadecimal digits, independent of row order.

        Where the image bytes lie does not enter: the same collection in a folder and in shards is the same collection.
        """
        parts = [
            hash_columns([self.images["id"], self.images["split"]]),
            hash_columns([self.captions["id"], self.captions["text"], self.captions["image_id"]]),
            hash_columns([self.judgements[name] for name in JUDGEMENTS.names]),
            *(carried.fingerprint for carried in (self.injected, self.corrupted) if carried is not None),
        ]
        return hash_columns([pa.array(parts)], sort=False)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that occur, sorted."""
        return tuple(sorted(pc.unique(self.images["split"]).to_pylist()))

    @property
    def relevances(self) -> tuple[str, ...]:
        """The names of the relevance sets: "links" first, then those of the judgements."""
        return (LINKS, *sorted(pc.unique(self.judgements["relevance"]).to_pylist()))

    def split(self, name: str | None) -> Collection:
        """The part in one split, or in several joined by "+" ("train+val"); None or "all" is everything."""
        if name is None or name == "all":
            return self
        wanted = name.split("+")
        for part in wanted:
            if part not in self.splits:
                raise CollectionError(f"{self.name}: unknown split {part!r}", hint=nearest(part, self.splits))
        return self.keep_images(pc.is_in(self.images["split"], pa.array(wanted)))

    def keep_images(self, keep: pa.ChunkedArray | pa.Array | np.ndarray) -> Collection:
        """The part whose images are true in the boolean mask `keep`, with their captions and judgements."""
        images = self.images.filter(pa.array(keep) if isinstance(keep, np.ndarray) else keep)
        image_ids = pc.unique(images["id"])
        captions = self.captions.filter(pc.is_in(self.captions["image_id"], image_ids))
        judged = pc.and_(
            pc.is_in(self.judgements["image_id"], image_ids),
            pc.is_in(self.judgements["caption_id"], pc.unique(captions["id"])),
        )
        facts = self.facts
        if facts is not None:
            facts = facts.filter(pc.is_in(facts["image_id"], image_ids))
        caption_facts = self.caption_facts
        if caption_facts is not None:
            caption_facts = caption_facts.filter(pc.is_in(caption_facts["caption_id"], pc.unique(captions["id"])))
        return replace(
            self,
            images=images,
            captions=captions,
            judgements=self.judgements.filter(judged),
            facts=facts,
            caption_facts=caption_facts,
            injected=None if self.injected is None else self.injected.keep(image_ids, pc.unique(captions["id"])),
        )

    def with_judgements(self, judgements: pa.Table) -> Collection:
        """The collection with further judgement sets added."""
        return replace(self, judgements=pa.concat_tables([self.judgements, conform(judgements, JUDGEMENTS, self.name)]))

    def items(self, modality: Modality) -> Items:
        """The images ("image") or the captions ("text") of this collection as items, in its order.

        Raises:
            CollectionError: The collection has no items of this modality.
        """
        if modality == "image":
            return Items(
                strings(self.images["id"]),
                None,
                self.images.select(PLACES.names),
                self.root,
                "images",
                self.name,
                self.injected,
                self.corrupted,
            )
        if modality == "text":
            captions = self.captions
            return Items(
                strings(captions["id"]), strings(captions["text"]), title="captions", name=self.name,
                injected=self.injected,
            )  # fmt: skip
        raise CollectionError(f"{self.name}: items hold an image or a text, not {modality!r}.")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks of this collection; see `task`."""
        return TASKS

    def task(self, name: str) -> Task:
        """One task of this collection: "t2i" (captions search images) or "i2t" (images search captions).

        Raises:
            CollectionError: There is no task of this name.

        Example:
            >>> collection = Collection.build(
            ...     "two boats", images={"id": ["a", "b"]}, captions={"id": ["1"], "text": ["red"], "image_id": ["a"]}
            ... )
            >>> collection.task("t2i")
            Task(t2i: 1 captions, 2 images of two boats)
        """
        if name not in TASKS:
            raise CollectionError(f"{self.name}: unknown task {name!r}", hint=nearest(name, TASKS))
        queries, documents = SIDES[name]
        return Task(
            name,
            self.items(queries),
            self.items(documents),
            QrelsByName(self.relevances, lambda relevance: self.qrels(name, relevance)),
            source=self.name,
            source_fingerprint=self.fingerprint,
        )

    def image_gallery(self, description: str = "all images") -> Gallery:
        """All images of this collection as the candidates of text-to-image search."""
        return Gallery.of("image", self.images["id"], description)

    def caption_gallery(self, description: str = "all captions") -> Gallery:
        """All captions of this collection as the candidates of image-to-text search."""
        return Gallery.of("text", self.captions["id"], description)

    def qrels(self, task: str, relevance: str = LINKS) -> Qrels:
        """The positives of one task under a named relevance: queries are captions for "t2i", images for "i2t".

        Under "links" every caption is a query of t2i and every image that has a caption is a query of i2t. Under
        another set the queries are those that the set judges.
        """
        if relevance == LINKS:
            pairs, grades = self.captions.select(["id", "image_id"]).rename_columns(["caption_id", "image_id"]), None
        else:
            if relevance not in self.relevances:
                raise CollectionError(
                    f"{self.name}: unknown relevance {relevance!r}", hint=nearest(relevance, self.relevances)
                )
            chosen = pc.and_(
                pc.equal(self.judgements["relevance"], relevance),
                pc.is_in(self.judgements["task"], pa.array([task, "both"])),
            )
            pairs = self.judgements.filter(chosen)
            if pairs.num_rows == 0:
                raise CollectionError(f"{self.name}: relevance {relevance!r} has no judgements for {task}.")
            grades = pairs["grade"].to_numpy()
        query, document = ("caption_id", "image_id") if task == "t2i" else ("image_id", "caption_id")
        return Qrels.of(pairs[query], pairs[document], grades, name=relevance)

    def describe(self) -> dict[str, object]:
        """Counts that identify the collection at a glance."""
        return {
            "name": self.name,
            "images": self.images.num_rows,
            "captions": self.captions.num_rows,
            "splits": {s: int(pc.sum(pc.equal(self.images["split"], s)).as_py() or 0) for s in self.splits},
            "relevances": list(self.relevances),
            "fingerprint": self.fingerprint,
            "source": self.source,
        }

    def _check(self) -> None:
        faults: list[str] = []
        for kind, table in (("image", self.images), ("caption", self.captions)):
            ids = table["id"]
            if ids.null_count or pc.any(pc.equal(ids, "")).as_py():
                faults.append(f"{kind}s without an id")
            faults += [f"duplicate {kind} id {duplicate!r}" for duplicate in _duplicates(ids)]
        if self.captions["text"].null_count:
            without = self.captions.filter(pc.is_null(self.captions["text"]))["id"]
            faults += [f"caption {caption_id!r} has no text (null)" for caption_id in without.to_pylist()]
        orphans = self.captions.filter(pc.invert(pc.is_in(self.captions["image_id"], pc.unique(self.images["id"]))))
        faults += [
            f"caption {row['id']!r} belongs to image {row['image_id']!r}, which is not in the collection"
            for row in orphans.slice(0, 50).to_pylist()
        ]
        raise_faults(
            CollectionError,
            f"{self.name}{f' ({self.source})' if self.source else ''}",
            faults,
            hint="mend the source, or look at all of it with: visir data check PATH",
        )


def _duplicates(ids: pa.ChunkedArray) -> list[str]:
    if len(ids) == pc.count_distinct(ids, mode="all").as_py():
        return []
    counts = ids.value_counts().to_pylist() if isinstance(ids, pa.Array) else pc.value_counts(ids).to_pylist()
    return [str(entry["values"]) for entry in counts if entry["counts"] > 1 and entry["values"] is not None]


def _table(columns: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise CollectionError(f"unknown column {sorted(unknown)[0]!r}", hint=nearest(sorted(unknown)[0], schema.names))
    rows = max((len(values) for values in columns.values()), default=0)  # type: ignore[arg-type]
    made = []
    for part in schema:
        if part.name in columns:
            made.append(_column(columns[part.name], part.type))
        elif part.name == "split":
            made.append(pa.array([""] * rows, part.type))
        else:
            made.append(pa.nulls(rows, part.type))
    return pa.table(made, schema=schema)


def _column(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.cast(kind)
    if isinstance(values, Iterable):
        return pa.array(values if isinstance(values, (list, np.ndarray)) else list(values), kind)
    raise CollectionError(f"a column must be a list or an array, not {type(values).__name__}")
