"""The collection: images, captions, links between them, splits and judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Columnar, brief, counted, listed, quoted
from visir.errors import CollectionError, nearest, raise_faults
from visir.fingerprint import hash_columns
from visir.plugins import part as from_above
from visir.records.columns import conform, duplicates, strings
from visir.records.items import PLACES, Items, Modality
from visir.records.qrels import Qrels
from visir.records.run import Gallery
from visir.records.shortcuts import Corrupted, Injected
from visir.records.splitting import EXAMPLE, SplitRule, draw
from visir.records.task import QrelsByName, Task, check_known

if TYPE_CHECKING:
    from PIL.Image import Image


# The tables of a collection: their columns, how they are made of lists, and parts of them.

IMAGES = pa.schema([("id", pa.string()), ("path", pa.string()), ("archive", pa.string()), ("split", pa.string())])
CAPTIONS = pa.schema([("id", pa.string()), ("text", pa.string()), ("image_id", pa.string())])
LINKS = "links"
"""The name of the relevance that every collection has: a caption and the image it was written for, grade 1."""
LANGUAGE = "language"
"""The column of the captions' languages ("en", "de"), null where one is unknown; only where one is known."""
JUDGEMENTS = pa.schema(
    [
        ("relevance", pa.string()),  # the name of the set of judgements: "cxc", "eccv", "experts", …
        ("task", pa.string()),  # "t2i", "i2t", or "both"
        ("caption_id", pa.string()),
        ("image_id", pa.string()),
        ("grade", pa.float32()),  # > 0 is a positive; 0 is judged and not relevant
    ]
)


def faults_of(images: pa.Table, captions: pa.Table) -> list[str]:
    """Return what is wrong with the two tables: ids missing or twice, captions without text or image."""
    faults: list[str] = []
    for kind, table in (("image", images), ("caption", captions)):
        ids = table["id"]
        if ids.null_count or pc.any(pc.equal(ids, "")).as_py():
            faults.append(f"{kind}s without an id")
        faults += [f"duplicate {kind} id {duplicate!r}" for duplicate in duplicates(ids)]
    if captions["text"].null_count:
        without = captions.filter(pc.is_null(captions["text"]))["id"]
        faults += [f"caption {caption_id!r} has no text (null)" for caption_id in without.to_pylist()]
    orphans = captions.filter(pc.invert(pc.is_in(captions["image_id"], pc.unique(images["id"]))))
    faults += [
        f"caption {row['id']!r} belongs to image {row['image_id']!r}, which is not in the collection"
        for row in orphans.slice(0, 50).to_pylist()
    ]
    return faults


def caption_labels(captions: pa.Table) -> pa.Table | None:
    """Return the labels of captions as queries: `query_id` and `language`; None where no language is known."""
    if LANGUAGE not in captions.column_names:
        return None
    return pa.table({"query_id": captions["id"], LANGUAGE: captions[LANGUAGE]})


def table_of(columns: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """Return a table of a schema; missing columns are null, a missing split is ""."""
    if schema is CAPTIONS and LANGUAGE in columns:
        schema = schema.append(pa.field(LANGUAGE, pa.string()))
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise CollectionError(
            f"unknown column {sorted(unknown)[0]!r}",
            hint=nearest(sorted(unknown)[0], schema.names),
            code="unknown-column",
        )
    rows = max((len(values) for values in columns.values()), default=0)  # type: ignore[arg-type]
    missing = {part.name: [""] * rows if part.name == "split" else pa.nulls(rows, part.type) for part in schema}
    arrays = [_column({**missing, **columns}[part.name], part.type) for part in schema]
    return pa.table(arrays, schema=schema)


def _rows_with(table: pa.Table, column: str, ids: pa.ChunkedArray) -> pa.Table:
    """The rows that have one of these ids in a column."""
    return table.filter(pc.is_in(table[column], pc.unique(ids)))


def _column(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.cast(kind)
    if isinstance(values, Iterable):
        return pa.array(values if isinstance(values, (list, np.ndarray)) else list(values), kind)
    raise CollectionError(f"a column must be a list or an array, not {type(values).__name__}")


SIDES: dict[str, tuple[Modality, Modality]] = {"i2t": ("image", "text"), "t2i": ("text", "image")}
"""The tasks of every collection: the modality of the queries, and of the documents."""
TASKS = tuple(SIDES)
_LETTERS = {"t": "text", "i": "image", "it": "image + text"}


def task_words(task: str) -> str:
    """How a task is written out: "t2i" is "text → image"; a task with a name of its own keeps it."""
    if task == "both":
        return "both tasks"
    queries, _, documents = task.partition("2")
    if queries in _LETTERS and documents in _LETTERS:
        return f"{_LETTERS[queries]} → {_LETTERS[documents]}"
    return task


@dataclass(frozen=True, eq=False)
class Collection(Columnar):
    """Images and captions with their links, splits and judgements.

    Tables are immutable and columnar (PyArrow), so that 600,000 captions are read, hashed and stored in seconds.

    Attributes:
        name: The name of the collection.
        images: One row per image: `id`; `path`, which is inside `archive` (a zip or tar) when that is not null, both
            relative to `root`, null when only metadata is available; `split` ("train", "val", "test", or another name
            of the source; "" if none).
        captions: One row per caption: `id`, `text`, `image_id`, and `language` ("en", "de"; null where it is unknown)
            where the source names languages. A caption is in the split of its image. Captions of one image keep the
            order of the source.
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
        languages = self.captions[LANGUAGE] if LANGUAGE in self.captions.column_names else None
        for table, schema in (("images", IMAGES), ("captions", CAPTIONS), ("judgements", JUDGEMENTS)):
            object.__setattr__(self, table, conform(getattr(self, table), schema, f"{self.name}: {table}"))
        if languages is not None and languages.null_count < len(languages):
            object.__setattr__(self, "captions", self.captions.append_column(LANGUAGE, strings(languages)))
        raise_faults(
            CollectionError,
            f"{self.name}{f' ({self.source})' if self.source else ''}",
            faults_of(self.images, self.captions),
            hint="mend the source, or look at all of it with: visir data check PATH",
        )

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
            name, root, source, facts, caption_facts: As in `Collection`.
            images: Columns of `IMAGES`.
            captions: Columns of `CAPTIONS`, and "language" where languages are known.
            judgements: Columns of `JUDGEMENTS`.

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
            table_of(images, IMAGES),
            table_of(captions or {}, CAPTIONS),
            table_of(judgements or {}, JUDGEMENTS),
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
            f"languages: {', '.join(self.languages)}" if len(self.languages) > 1 else "",
            f"judgements: {', '.join(self.relevances)}" if self.judgements.num_rows else "",
            f"from {self.source}" if self.source else "",
        )

    def __len__(self) -> int:
        """The number of images."""
        return int(self.images.num_rows)

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        """Go through the images: the id of each, and its captions.

        Example:
            >>> list(Collection.build("toy", images={"id": ["a.jpg"]},
            ...                       captions={"id": ["1"], "text": ["red"], "image_id": ["a.jpg"]}))
            [('a.jpg', ['red'])]
        """
        texts: dict[str, list[str]] = {image: [] for image in self.images["id"].to_pylist()}
        for image, text in zip(self.captions["image_id"].to_pylist(), self.captions["text"].to_pylist(), strict=True):
            texts[image].append(text)
        return iter(texts.items())

    def image(self, id: str) -> Image:
        """Return a picture, upright RGB.

        Raises:
            CollectionError: There is no image of this id.
            ImageError: The picture cannot be read.

        Example:
            >>> import visir
            >>> visir.open("scenes:3?size=64").image("scene-0-000001").size
            (64, 64)
        """
        picture: Image = from_above("picture of")(self, id)
        return picture

    @cached_property
    def fingerprint(self) -> str:
        """A hash over ids, texts, links, splits and judgements: 32 hexadecimal digits, independent of row order.

        The location of the images has no influence: a collection has one fingerprint in a folder and in shards.
        """
        captions, views = self.captions, (self.injected, self.corrupted)
        parts = [
            hash_columns([self.images["id"], self.images["split"]]),
            hash_columns([captions[name] for name in CAPTIONS.names]),
            hash_columns(self.judgements.columns),
            *([hash_columns([captions["id"], captions[LANGUAGE]])] if LANGUAGE in captions.column_names else []),
            *(view.fingerprint for view in views if view is not None),
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

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the captions, sorted; empty where the source names none.

        Example:
            >>> captions = {"id": ["1", "2"], "text": ["a", "ein"], "image_id": ["a", "a"], "language": ["en", "de"]}
            >>> toy = Collection.build("toy", images={"id": ["a"]}, captions=captions)
            >>> toy.languages, toy.keep_languages("de").captions["text"].to_pylist()
            (('de', 'en'), ['ein'])
        """
        if LANGUAGE not in self.captions.column_names:
            return ()
        return tuple(sorted(pc.unique(self.captions[LANGUAGE]).drop_null().to_pylist()))

    def keep_languages(self, *languages: str) -> Collection:
        """Return the captions in these languages, with their images.

        Images that have captions in other languages only are left out; images without any caption stay.

        Args:
            *languages: As the collection names them: "de"; or several, joined by "+": "de+fr".

        Raises `CollectionError` for a language without captions.
        """
        names = [name for part in languages for name in part.replace(",", "+").split("+")]
        for language in names:
            if not self.languages:
                raise CollectionError(
                    f"{self.name}: the language of its captions is not known; {language!r} was asked for.",
                    hint="leave language= out",
                    code="language-captions-not-known",
                )
            if language not in self.languages:
                hint = nearest(language, self.languages)
                raise CollectionError(f"{self.name}: no captions in {language!r}", hint=hint, code="no-captions")
        inside = pc.is_in(self.captions[LANGUAGE], pa.array(names, pa.string()))
        captions, others = self.captions.filter(inside), self.captions.filter(pc.invert(inside))
        lost = pc.and_not(*(pc.is_in(self.images["id"], pc.unique(part["image_id"])) for part in (others, captions)))
        source = "; ".join(filter(None, [self.source, f"languages: {', '.join(names)}"]))
        name = f"{self.name} ({'+'.join(names)})"
        return replace(self, name=name, captions=captions, source=source).keep_images(pc.invert(lost))

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
            if part not in self.splits and not any(self.splits):
                raise CollectionError(
                    f"{self.name}: unknown split {part!r}; it has no splits.",
                    hint=f'make them when it is opened: split_by="{EXAMPLE}" in Python, '
                    f'"PATH?split_by={EXAMPLE.replace(" ", "")}" in a command; or use everything: split=all',
                    code="unknown-split-no-splits",
                )
            check_known(self.name, "split", part, self.splits)
        return self.keep_images(pc.is_in(self.images["split"], pa.array(names)))

    def sample(self, n: int, seed: int = 0) -> Collection:
        """Return n images drawn at random, with all their captions, in the order of the collection.

        The same ids and the same seed give the same images. Where there are fewer than n, all are returned.

        Example:
            >>> import visir
            >>> visir.open("scenes:20?size=64").sample(3).images["id"].to_pylist()
            ['scene-0-000010', 'scene-0-000012', 'scene-0-000013']
        """
        if n < 1:
            raise CollectionError(
                f"{self.name}: a sample of {n} images.", hint="for example collection.sample(100)", code="sample-images"
            )
        keys = np.array([draw(seed, f"image {image}") for image in self.images["id"].to_pylist()], "S16")
        keep = np.zeros(len(self), bool)
        keep[np.argsort(keys, kind="stable")[:n]] = True
        return self.keep_images(keep)

    def split_by(self, rule: str | SplitRule) -> Collection:
        """Return the collection with new splits in place of its own.

        All captions of an image are in its split. The same picture under two ids may come into two splits: group such
        pictures by a column, or let `visir.open(…, split_by="group(content, …)")` compare their bytes. The rule becomes
        part of the name, and the splits part of the fingerprint and so of every protocol.

        Args:
            rule: `"random(0.8, 0.1, 0.1, seed=0)"` (train, val, test), `"random(train=0.9, test=0.1)"`, or
                `"group(COLUMN, 0.8, 0.1, 0.1)"`: images with the same value in a column of `facts` stay together. The
                column `folder` is the folder of the picture, where no column is called so.

        Raises:
            CollectionError: The rule cannot be read, or there is no such column.

        Example:
            >>> toy = Collection.build("toy", images={"id": ["a", "b", "c", "d"]})
            >>> parts = toy.split_by("random(0.5, 0.5, seed=1)")
            >>> parts.splits, parts.split("test").images["id"].to_pylist()
            (('test', 'train'), ['a', 'd'])
        """
        rule = SplitRule.parse(rule) if isinstance(rule, str) else rule
        groups = self._groups(rule.group) if rule.group else None
        return self.with_splits(rule.assign(self.images["id"].to_pylist(), groups), str(rule))

    def _groups(self, column: str) -> list[str | None]:
        """The group of each image: its value in a column of the facts, or its folder."""
        columns = [] if self.facts is None else self.facts.column_names[1:]
        if self.facts is not None and column in columns:
            values = dict(zip(self.facts["image_id"].to_pylist(), self.facts[column].to_pylist(), strict=True))
            of_images = [values.get(image) for image in self.images["id"].to_pylist()]
            return [None if value is None else str(value) for value in of_images]
        if column == "folder":
            paths = zip(self.images["path"].to_pylist(), self.images["archive"].to_pylist(), strict=True)
            return [None if path is None else f"{archive or ''}:{path.rpartition('/')[0]}" for path, archive in paths]
        hint, fault = nearest(column, [*columns, "folder", "content"]), f"no column {column!r} to group images by."
        raise CollectionError(f"{self.name}: {fault}", hint=hint, code="no-column-group-images")

    def with_splits(self, splits: Sequence[str], rule: str) -> Collection:
        """Return the collection with the split of each image, and how they were made ("random(0.5,0.5,seed=0)")."""
        own = [name for name in self.splits if name]
        replaced = f" (in place of its own: {', '.join(own)})" if own else ""
        images = self.images.set_column(self.images.column_names.index("split"), "split", pa.array(splits, pa.string()))
        return replace(
            self,
            name=f"{self.name} split by {rule}",
            images=images,
            source="; ".join(filter(None, [self.source, f"splits: {rule}{replaced}"])),
        )

    def keep_images(self, keep: pa.ChunkedArray | pa.Array | np.ndarray) -> Collection:
        """Return the images where the (images,) boolean mask `keep` is true, with their captions and judgements."""
        images = self.images.filter(pa.array(keep) if isinstance(keep, np.ndarray) else keep)
        captions = _rows_with(self.captions, "image_id", images["id"])
        judgements = _rows_with(_rows_with(self.judgements, "image_id", images["id"]), "caption_id", captions["id"])
        return replace(
            self,
            images=images,
            captions=captions,
            judgements=judgements,
            facts=self.facts and _rows_with(self.facts, "image_id", images["id"]),
            caption_facts=self.caption_facts and _rows_with(self.caption_facts, "caption_id", captions["id"]),
            injected=self.injected and self.injected.keep(pc.unique(images["id"]), pc.unique(captions["id"])),
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
            ids, places = strings(self.images["id"]), self.images.select(PLACES.names)
            return Items(ids, None, places, self.root, "images", self.name, self.injected, self.corrupted)
        if modality == "text":
            ids, texts = strings(self.captions["id"]), strings(self.captions["text"])
            return Items(ids, texts, title="captions", name=self.name, injected=self.injected)
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
        check_known(self.name, "task", name, TASKS)
        queries, documents = SIDES[name]
        return Task(
            name,
            self.items(queries),
            self.items(documents),
            QrelsByName(self.relevances, lambda relevance: self.qrels(name, relevance)),
            source=self.name,
            source_fingerprint=self.fingerprint,
            labels=caption_labels(self.captions) if queries == "text" else None,
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
            check_known(self.name, "relevance", relevance, self.relevances)
            of_task = pc.is_in(self.judgements["task"], pa.array([task, "both"]))
            pairs = self.judgements.filter(pc.and_(pc.equal(self.judgements["relevance"], relevance), of_task))
            if pairs.num_rows == 0:
                raise CollectionError(
                    f"{self.name}: relevance {relevance!r} has no judgements for {task}.",
                    code="relevance-no-judgements",
                )
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
            "languages": list(self.languages),
            "relevances": list(self.relevances),
            "fingerprint": self.fingerprint,
            "source": self.source,
        }
