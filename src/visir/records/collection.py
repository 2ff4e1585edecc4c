"""The collection: images, captions, links between them, splits and judgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Columnar, brief, counted, listed, quoted
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
"""The tasks of every collection: the modality of the queries, and of the documents."""
TASKS = tuple(SIDES)
LINKS = "links"
"""The name of the relevance that every collection has: a caption and the image it was written for, grade 1."""


@dataclass(frozen=True, eq=False)
class Collection(Columnar, view="visir.reports.views.collection"):
    """Images and captions with their links, splits and judgements.

    Tables are immutable and columnar (PyArrow), so that 600,000 captions are read, hashed and stored in seconds.

    Attributes:
        name: The name of the collection.
        images: One row per image: `id`; `path`, which is inside `archive` (a zip or tar) when that is not null, both
            relative to `root`, null when only metadata is available; `split` ("train", "val", "test", or another name
            of the source; "" if none).
        captions: One row per caption: `id`, `text`, `image_id`. A caption is in the split of its image. Captions of one
            image keep the order of the source.
        judgements: Graded pairs, many-to-many, in named sets beside the links (CxC, ECCV Caption, human experts). A set
            *replaces* the links when it is the declared relevance; readers of sets that extend the links (CxC) include
            them.
        root: The folder to which paths are relative.
        source: Where the collection comes from, in words.
        facts: Further columns per image (`image_id` first): latent facts of generated scenes, metadata.
        caption_facts: Further columns per caption (`caption_id` first): the facts that the caption states.
        injected: The synthetic shortcuts of images and captions, in a view by `visir.shortcuts`.
        corrupted: The corruption that is applied to every image, in a view by `visir.robustness`.

    Raises:
        CollectionError: Columns are missing, ids are missing or repeat, a caption has no text or its image is not in
            the collection. The message lists the faults.
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
        """Make a collection from columns (lists or arrays). Missing columns become null or empty.

        Args:
            name: The name of the collection.
            images: Columns of `IMAGES`.
            captions: Columns of `CAPTIONS`.
            judgements: Columns of `JUDGEMENTS`.
            root: The folder to which paths are relative.
            source: Where the collection comes from, in words.
            facts: Further columns per image, `image_id` first.
            caption_facts: Further columns per caption, `caption_id` first.

        Raises:
            CollectionError: A column is unknown, or the collection has another fault (see `Collection`).

        Example:
            >>> toy = Collection.build("toy", images={"id": ["a", "b"], "split": ["train", "test"]},
            ...                        captions={"id": ["1", "2"], "text": ["red", "blue"], "image_id": ["a", "b"]})
            >>> toy.splits, toy.split("test").captions["text"].to_pylist()
            (('test', 'train'), ['blue'])
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

    def __repr__(self) -> str:
        images, captions = self.images.num_rows, self.captions.num_rows
        splits = {entry["values"]: entry["counts"] for entry in pc.value_counts(self.images["split"]).to_pylist()}
        return brief(
            self,
            f"{self.name}: {counted(images, 'images')}, {counted(captions, 'captions')}",
            f"splits: {', '.join(f'{name} {splits[name]:,}' for name in self.splits)}" if set(splits) - {""} else "",
            f"images: {listed(self.images['id'].slice(0, 3).to_pylist(), images)}" if images else "",
            f"captions: {listed(map(quoted, self.captions['text'].slice(0, 2).to_pylist()), captions, limit=2)}"
            if captions
            else "",
            f"judgements: {', '.join(self.relevances)}" if self.judgements.num_rows else "",
            f"from {self.source}" if self.source else "",
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over ids, texts, links, splits and judgements: 32 hexadecimal digits, independent of row order.

        The location of the images has no influence: a collection has one fingerprint in a folder and in shards.
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
        """Return the part of the collection in one split.

        Args:
            name: A split, or several joined by "+" ("train+val"); None or "all" is everything.

        Raises:
            CollectionError: There is no split of this name.
        """
        if name is None or name == "all":
            return self
        names = name.split("+")
        for part in names:
            if part not in self.splits:
                raise CollectionError(f"{self.name}: unknown split {part!r}", hint=nearest(part, self.splits))
        return self.keep_images(pc.is_in(self.images["split"], pa.array(names)))

    def keep_images(self, keep: pa.ChunkedArray | pa.Array | np.ndarray) -> Collection:
        """Return the images where the (images,) boolean mask `keep` is true, with their captions and judgements."""
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
        """Return the collection with further sets of judgements, rows of `JUDGEMENTS`."""
        return replace(self, judgements=pa.concat_tables([self.judgements, conform(judgements, JUDGEMENTS, self.name)]))

    def items(self, modality: Modality) -> Items:
        """Return the images ("image") or the captions ("text") as items, in the order of the collection.

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
        """Return a task of this collection: "t2i" (captions are queries) or "i2t" (images are queries).

        Raises:
            CollectionError: There is no task of this name.

        Example:
            >>> collection = Collection.build(
            ...     "two boats", images={"id": ["a", "b"]}, captions={"id": ["1"], "text": ["red"], "image_id": ["a"]}
            ... )
            >>> collection.task("t2i")
            Task(t2i of two boats: 1 caption, 2 images)
              captions: 'red'
              images: a, b
              judgements: links
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
        """Return all images as the candidates of text-to-image search."""
        return Gallery.of("image", self.images["id"], description)

    def caption_gallery(self, description: str = "all captions") -> Gallery:
        """Return all captions as the candidates of image-to-text search."""
        return Gallery.of("text", self.captions["id"], description)

    def qrels(self, task: str, relevance: str = LINKS) -> Qrels:
        """Return the judgements of one task.

        Under "links" every caption is a query of t2i, and every image that has a caption is a query of i2t. Under
        another set the queries are those that the set judges.

        Args:
            task: "t2i" (queries are captions) or "i2t" (queries are images).
            relevance: "links", or the name of a set of judgements.

        Raises:
            CollectionError: There is no set of this name, or it has no judgements of this task.
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
        """Return the counts that identify the collection."""
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
    arrays = []
    for part in schema:
        if part.name in columns:
            arrays.append(_column(columns[part.name], part.type))
        elif part.name == "split":
            arrays.append(pa.array([""] * rows, part.type))
        else:
            arrays.append(pa.nulls(rows, part.type))
    return pa.table(arrays, schema=schema)


def _column(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.cast(kind)
    if isinstance(values, Iterable):
        return pa.array(values if isinstance(values, (list, np.ndarray)) else list(values), kind)
    raise CollectionError(f"a column must be a list or an array, not {type(values).__name__}")
