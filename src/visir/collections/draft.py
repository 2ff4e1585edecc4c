"""What a reader hands over: the columns of a record to be, and every fault it met on the way."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa

from visir.collections.segments import Part, part_fragment
from visir.display import counted
from visir.errors import CollectionError, ImageError, raise_faults
from visir.records import Collection
from visir.records.columns import text_column
from visir.records.items import GROUP, IMAGE, PLACES, Items
from visir.records.result import Ties
from visir.records.task import (
    TASK_CANDIDATES,
    TASK_DOCUMENTS,
    TASK_EXCLUDED,
    TASK_JUDGEMENTS,
    TASK_QUERIES,
    TaskFile,
    TaskSet,
)

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
    # The names are paths below `root`, those that are there stand in `paths`, and where nobody says where the pictures
    # are, none is looked for anywhere else.
    whole_paths: bool = False
    # By row, of pictures that are named: what stands behind the path once it is known
    # (`visir.collections.segments`).
    fragments: dict[int, str] = field(default_factory=dict)
    # Files of `root` that may be tables of the pictures and were not read.
    tables_beside: list[str] = field(default_factory=list)
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
    # The captions as a table (id, text, image_id, and language), for a reader with very many of them; in their place.
    captions: pa.Table | None = None
    judgements: pa.Table | None = None  # judgements beside the links, as in `Collection`
    facts: pa.Table | None = None  # further columns by image, and `caption_facts` by caption, as in `Collection`
    caption_facts: pa.Table | None = None

    def add_image(
        self, identifier: str, name: str | None, split: str = "", *, place: tuple[str | None, str | None] | None = None
    ) -> None:
        """One image that the source names; or whose place it knows, as (path, archive)."""
        self.ids.append(identifier)
        self.splits.append(split)
        if place is None:
            self.names.append(name)
        else:
            self.paths.append(place[0])
            self.archives.append(place[1])

    def add_caption(self, identifier: str, text: str, image: str, language: str | None = None) -> None:
        """One caption of the image with the id `image`, in a language ("de") where it is known."""
        if language is not None or self.languages:
            self.languages += [None] * (len(self.caption_ids) - len(self.languages)) + [language]
        self.caption_ids.append(identifier)
        self.texts.append(text)
        self.caption_images.append(image)

    def add_captions(
        self, ids: list[str], texts: list[str], images: list[str], languages: list[str | None] | None = None
    ) -> None:
        """Many captions by their columns, as `add_caption`."""
        if self.languages or (languages and any(language is not None for language in languages)):
            unknown: list[str | None] = [None] * len(ids)
            self.languages += [None] * (len(self.caption_ids) - len(self.languages)) + (languages or unknown)
        self.caption_ids += ids
        self.texts += texts
        self.caption_images += images

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
        if self.captions is not None:
            return pa.table(images), self.captions
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


# A task from elsewhere before it is checked: queries, documents, judgements, and every fault met on the way.


Side = Literal["queries", "documents"]


@dataclass
class TaskSide:
    """One side of a task before it is checked."""

    ids: list[str] = field(default_factory=list)  # (n,) the id of each item
    texts: list[str | None] = field(default_factory=list)  # (n,) its text, None where it has none
    # (n,) the row of its picture in the draft's `ids`, None where it has none.
    pictures: list[int | None] = field(default_factory=list)
    title: str = ""  # what people call the items: "captions"; "" takes the name of the side

    def __post_init__(self) -> None:
        self.known: set[str] = set(self.ids)


@dataclass
class TaskDraft(SourceDraft):
    """A task before it is checked. `ids`, `names`, `paths` and `archives` are those of the pictures of both sides."""

    task: str = ""  # how results name the task; "" takes the usual name of its modalities
    queries: TaskSide = field(default_factory=TaskSide)  # what is searched with
    documents: TaskSide = field(default_factory=TaskSide)  # what is searched
    # (split, query, document) → grade, at least 0.
    judgements: dict[tuple[str, str, str], float] = field(default_factory=dict)
    # (split, query, document) → None; empty where every document is a candidate.
    candidates: dict[tuple[str, str, str], None] = field(default_factory=dict)
    # The same as a table, for a reader with very many of them; it comes before `candidates`.
    pools: pa.Table | None = None
    # (split, document) → None; empty where all splits have the same documents.
    galleries: dict[tuple[str, str], None] = field(default_factory=dict)
    # (split, query) → None: queries whose answers are not published.
    unjudged: dict[tuple[str, str], None] = field(default_factory=dict)
    # (query, document) → None: documents that are no candidates of a query.
    excluded: dict[tuple[str, str], None] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)  # name of a label → query → value
    submission: str = ""  # the format in which answers are handed in; "" for none
    measures: tuple[str, ...] = ()  # the measures that are taken where nobody names any; () takes the default ones
    ties: Ties = "id"  # how equal scores are counted where nobody says
    remarks: list[str] = field(default_factory=list)  # what a reader of the numbers must know

    def add_item(
        self,
        side: Side,
        identifier: str,
        text: str | None,
        *,
        picture: str | None = None,
        cell: tuple[str, str | None] | None = None,
    ) -> None:
        """Add one item."""
        # cell: Where its picture is known to be, as (path, archive); None for none.
        items = self.queries if side == "queries" else self.documents
        items.known.add(identifier)
        items.ids.append(identifier)
        items.texts.append(text)
        items.pictures.append(None if picture is None and cell is None else len(self.ids))
        if picture is not None or cell is not None:
            self.ids.append(identifier)
            self.names.append(picture)
            self.paths.append(cell[0] if cell else None)
            self.archives.append(cell[1] if cell else None)

    def add_choice(
        self, split: str, query: str, pool: Iterable[str], right: Iterable[str], labels: Mapping[str, str | None]
    ) -> None:
        """Say among which documents a query chooses, which of them are right, and what is known of the query."""
        self.candidates |= dict.fromkeys((split, query, document) for document in pool)
        self.judgements |= dict.fromkeys(((split, query, document) for document in right), 1.0)
        for name, value in labels.items():
            values = self.labels.setdefault(name, {})
            if value is not None:
                values[query] = value

    def build(self) -> TaskFile:
        """The checked task; raises `CollectionError` with every fault otherwise."""
        self.raise_faults()
        if not self.judgements and not self.unjudged:
            raise CollectionError(f"{self.name} ({self.source}): no judgements in it.", hint="are these the files?")
        judgements = _table([(*key, grade) for key, grade in self.judgements.items()], TASK_JUDGEMENTS)
        labels = {
            name: pa.array([values.get(query) for query in self.queries.ids], pa.string())
            for name, values in self.labels.items()
        }
        return TaskFile(
            self.name,
            self.items("queries"),
            self.items("documents"),
            TASK_JUDGEMENTS.empty_table() if judgements is None else judgements,
            _table(self.candidates, TASK_CANDIDATES) if self.pools is None else self.pools,
            self.task,
            self.described_source(),
            labels=pa.table({"query_id": pa.array(self.queries.ids, pa.string()), **labels}) if labels else None,
            galleries=_table(self.galleries, TASK_DOCUMENTS),
            unjudged=_table(self.unjudged, TASK_QUERIES),
            excluded=_table(self.excluded, TASK_EXCLUDED),
            submission=self.submission,
            measures=self.measures,
            ties=self.ties,
            notes=tuple(self.remarks),
        )

    def items(self, side: Side) -> Items:
        """One side as items; a side on which no item has a text, or none has a picture, has no such column."""
        items = self.queries if side == "queries" else self.documents
        places, has_texts = None, any(text is not None for text in items.texts)
        if any(row is not None for row in items.pictures):
            # Beside texts, a picture that was not found keeps its name: an item without a path has no picture there.
            paths = [name if path is None and has_texts else path
                     for name, path in zip(self.names or self.paths, self.paths, strict=True)]  # fmt: skip
            columns = [[None if row is None else values[row] for row in items.pictures]
                       for values in (paths, self.archives)]  # fmt: skip
            places = pa.table([self.column(values) for values in columns], schema=PLACES)
        texts = self.column(items.texts) if places is None or has_texts else None
        return Items(self.column(items.ids), texts, places, self.root.absolute(), items.title or side, self.name)


def _table(rows: dict[Any, None] | list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table | None:
    """Rows as a table; None without any."""
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=schema) if rows else None


@dataclass
class TaskSetDraft(SourceDraft):
    """Several tasks of one source before they are checked. Their pictures are listed together, and looked for once."""

    parts: dict[str, TaskDraft] = field(default_factory=dict)  # the tasks by name, as `add_task` makes them

    def add_task(self, name: str) -> TaskDraft:
        """Add a task without any items."""
        part = TaskDraft(self.name, self.root, self.source, self.ids, self.names, self.paths, self.archives)
        part.faults, part.task = self.faults, name
        self.parts[name] = part
        return part

    def build(self) -> TaskSet:
        """The checked tasks; raises `CollectionError` with every fault otherwise."""
        self.raise_faults()
        for part in self.parts.values():
            part.paths, part.archives = self.paths, self.archives
        return TaskSet(self.name, {name: part.build() for name, part in self.parts.items()}, self.described_source())


# The note of a source that says how many of its pictures were found, and where; read again when one is missing.

_FOUND = re.compile(r"images: [\d,]+ of [\d,]+ found in ([^;]+)")


def found_note(number: int, count: int, where: str) -> str:
    """The note."""
    return f"images: {number:,} of {count:,} found" + (f" in {where}" if where else " (none beside it)")


def no_picture(where: str, source: str) -> ImageError:
    """The error for a picture without a path."""
    option = "(--images; in a recipe data.images)"
    note = _FOUND.search(source)
    if note is None:
        return ImageError(
            f"{where}: only its metadata is at hand.",
            hint=f"say where the pictures are: images=FOLDER_OR_ZIP {option}",
            code="metadata-hand",
        )
    return ImageError(
        f"{where}: not found in {note[1]}, where others are.",
        hint=f"mend its name; or say where it is beside these: images=[PLACE, PLACE] {option}",
    )


# Choice tasks before they are checked: items of one or two pictures, and captions of which some are right.


Missing = Literal["drop", "fault"]


@dataclass(frozen=True)
class ChoiceItem:
    """One item of a choice task."""

    id: str  # its id
    pictures: Mapping[str, int]  # the id of each picture, and its row in the draft's `names`
    captions: Mapping[str, str]  # the id of each caption, and its text
    right: Sequence[Sequence[int]]  # for each picture the positions of its right captions
    labels: Mapping[str, str | None]  # what is known of the item: "category", …

    def choices(self, task: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """Each query of the item in one task, with its candidates and those that are right."""
        pictures, captions = list(self.pictures), list(self.captions)
        of_picture = [[captions[position] for position in positions] for positions in self.right]
        if task == "i2t":
            for picture, right in zip(pictures, of_picture, strict=True):
                yield picture, captions, right
        elif task == "t2i":
            for caption in captions:
                owners = [picture for picture, right in zip(pictures, of_picture, strict=True) if caption in right]
                if owners:
                    yield caption, pictures, owners
        else:
            for caption in of_picture[0]:
                others = [other for other in captions if other != caption]
                yield caption, others, [other for other in of_picture[0] if other != caption]


@dataclass
class ChoiceDraft(SourceDraft):
    """Items of a choice task before they are checked."""

    # An item whose pictures are not at hand cannot be measured. It is left out, counted and named in the notes, or is a
    # fault; all items stay when nobody looked for pictures.

    items: dict[str, ChoiceItem] = field(default_factory=dict)  # the items by id
    measures: tuple[str, ...] = ("all_first",)  # the measures of the tasks
    # Whether the right captions also search the other captions (the text-only task of SugarCrepe++).
    also_texts: bool = False
    missing: Missing = "drop"  # what becomes of items whose pictures are not at hand: "drop" or "fault"
    obtain: str = ""  # where the pictures are to be had
    remarks: list[str] = field(default_factory=list)  # what a reader of the numbers must know; notes of the source too

    def add(
        self,
        identifier: str,
        pictures: Mapping[str, str | None],
        captions: Mapping[str, str],
        right: Sequence[Sequence[int]],
        labels: Mapping[str, str | None],
        *,
        cells: Sequence[tuple[str, str]] = (),
        crop: Part | None = None,
        fragment: str = "",
    ) -> None:
        """Add one item."""
        # cells: Where the pictures are known to be, as (path, archive).
        # crop: The part of the pictures that belongs to the item, as (left, top, width, height); None for all of it.
        if identifier in self.items:
            self.fault(f"item {identifier!r} stands twice")
            return
        rows = {}
        fragment += "" if crop is None else part_fragment(crop)
        for number, (key, name) in enumerate(pictures.items()):
            picture = f"{identifier}/{key}" if key else identifier
            rows[picture] = len(self.ids)
            self.ids.append(picture)
            self.names.append(None if cells else name)
            self.paths.append(f"{cells[number][0]}{fragment}" if cells else None)
            if fragment:
                self.fragments[rows[picture]] = fragment
            self.archives.append(cells[number][1] if cells else None)
        texts = {f"{identifier}/{key}": text for key, text in captions.items()}
        self.items[identifier] = ChoiceItem(identifier, rows, texts, right, dict(labels))

    def remark(self, text: str) -> None:
        """Note what a reader of the source and of the numbers must know."""
        self.notes.append(text)
        self.remarks.append(text)

    def called(self, row: int) -> str:
        """What a picture is called where people read it: its file name, as far as the source says it, or its id."""
        return (self.names[row] or self.ids[row]).removesuffix(".*")

    def build(self) -> TaskFile | TaskSet:
        """The checked tasks; raises `CollectionError` with every fault otherwise."""
        self.raise_faults()
        if not self.items:
            raise CollectionError(f"{self.name} ({self.source}): no items in it.", hint="are these the files?")
        items = self._with_pictures()
        names = ["i2t"]
        if any(len(item.pictures) > 1 for item in items):
            names.append("t2i")
        if self.also_texts:
            names.append("t2t")
        tasks = {name: self._task(items, name) for name in names}
        return tasks["i2t"] if len(tasks) == 1 else TaskSet(self.name, tasks, self.described_source())

    def _with_pictures(self) -> list[ChoiceItem]:
        """The items whose pictures are at hand; all items where nobody looked for pictures."""
        items = list(self.items.values())
        absent = dict.fromkeys(self.called(row) for row, path in enumerate(self.paths) if path is None)
        if not absent or NOT_LOOKED_FOR in self.notes:
            return items
        whole = [item for item in items if all(self.paths[row] is not None for row in item.pictures.values())]
        examples = ", ".join(list(absent)[:5]) + (", …" if len(absent) > 5 else "")
        problem = (
            f"{len(items) - len(whole):,} of {len(items):,} items have no picture here "
            f"({counted(len(absent), 'pictures')}: {examples})"
        )
        hint = f"images=FOLDER says where they are{f' ({self.obtain})' if self.obtain else ''}"
        if self.missing == "fault" or not whole:
            raise CollectionError(
                f"{self.name}: {problem}.",
                hint=f"{hint}; images='none' goes without, for vectors of your own or for texts alone",
                code="items-no-picture",
            )
        self.notes.append(f"left out: {problem}; {hint}")
        self.remarks.append(f"left out: {problem}")
        return whole

    def _task(self, items: Sequence[ChoiceItem], name: str) -> TaskFile:
        task = TaskDraft(self.name, self.root, self.source, notes=self.notes, task=name, measures=self.measures,
                         ties="pessimistic", remarks=self.remarks)  # fmt: skip
        titles = {"i": "images", "t": "captions"}
        task.queries.title, task.documents.title = titles[name[0]], titles[name[2]]
        for item in items:
            for document in item.pictures if name[2] == "i" else item.captions:
                self._add_item(task, "documents", item, document)
            for query, pool, right in item.choices(name):
                self._add_item(task, "queries", item, query)
                row = item.pictures.get(query, next(iter(item.pictures.values())))
                image = {} if name == "t2i" else {IMAGE: self.called(row)}
                task.add_choice("", query, pool, right, {GROUP: item.id, **item.labels, **image})
        return task.build()

    def _add_item(self, task: TaskDraft, side: Side, item: ChoiceItem, identifier: str) -> None:
        row = item.pictures.get(identifier)
        if row is None:
            task.add_item(side, identifier, item.captions[identifier])
            return
        path = self.paths[row]
        cell = None if path is None else (path, self.archives[row])
        task.add_item(side, identifier, None, picture=self.called(row), cell=cell)
