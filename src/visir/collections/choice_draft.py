"""Choice tasks before they are checked: items of one or two pictures, and captions of which some are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from visir.collections.draft import NOT_LOOKED_FOR, SourceDraft
from visir.collections.segments import Part, part_fragment
from visir.collections.task_draft import Side, TaskDraft
from visir.display import counted
from visir.errors import CollectionError
from visir.records.items import GROUP, IMAGE
from visir.records.task import TaskFile, TaskSet

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
