"""Choice tasks before they are checked: items of one or two pictures, and captions of which some are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from visir.collections.draft import NOT_LOOKED_FOR, SourceDraft
from visir.collections.picture_parts import with_part
from visir.errors import CollectionError
from visir.records.items import PLACES, Items
from visir.records.labels import GROUP, IMAGE
from visir.records.task_file import TASK_CANDIDATES, TASK_JUDGEMENTS, TaskFile
from visir.records.task_set import TaskSet

Missing = Literal["aside", "fault"]


@dataclass(frozen=True)
class ChoiceItem:
    """One item of a choice task.

    Args:
        id: Its id.
        pictures: The row of each picture in the draft's `names`, with what it is called in this item ("" for the only
            one).
        captions: What each caption is called in this item, and its text.
        right: For each picture the positions of its right captions.
        labels: What is known of the item: "category", …
        crops: For each picture the part that belongs to the item, as (left, top, width, height); None for all of it.
    """

    id: str
    pictures: Sequence[tuple[int, str]]
    captions: Sequence[tuple[str, str]]
    right: Sequence[Sequence[int]]
    labels: Mapping[str, str | None]
    crops: Sequence[tuple[int, int, int, int] | None] = ()


@dataclass
class ChoiceDraft(SourceDraft):
    """Items of a choice task before they are checked.

    An item whose pictures are not at hand cannot be measured. It is set aside, counted and named in the notes, or is a
    fault; all items stay when nobody looked for pictures.

    Args:
        items: The items.
        measures: The measures of the tasks.
        also_texts: Whether the right captions also search the other captions (the text-only task of SugarCrepe++).
        missing: What becomes of items whose pictures are not at hand: "aside" or "fault".
        obtain: Where the pictures are to be had.
        remarks: What a reader of the numbers must know; notes of the source too.
    """

    items: list[ChoiceItem] = field(default_factory=list)
    measures: tuple[str, ...] = ("all_first",)
    also_texts: bool = False
    missing: Missing = "aside"
    obtain: str = ""
    remarks: list[str] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def add(
        self,
        identifier: str,
        pictures: Mapping[str, str | None],
        captions: Mapping[str, str],
        right: Sequence[Sequence[int]],
        labels: Mapping[str, str | None],
        *,
        cells: Sequence[tuple[str, str]] = (),
        crop: tuple[int, int, int, int] | None = None,
    ) -> None:
        """Add one item.

        Args:
            identifier: Its id.
            pictures: What each picture is called in the item, and its file name.
            captions: What each caption is called in the item, and its text.
            right: For each picture the positions of its right captions.
            labels: What is known of it.
            cells: Where the pictures are known to be, as (path, archive).
            crop: The part of the only picture that belongs to the item.
        """
        if identifier in self._known:
            self.fault(f"item {identifier!r} stands twice")
            return
        self._known.add(identifier)
        rows = []
        for number, (key, name) in enumerate(pictures.items()):
            rows.append((len(self.ids), key))
            self.ids.append(f"{identifier}/{key}" if key else identifier)
            self.names.append(None if cells else name)
            self.paths.append(cells[number][0] if cells else None)
            self.archives.append(cells[number][1] if cells else None)
        given = dict(labels)
        self.items.append(ChoiceItem(identifier, rows, list(captions.items()), right, given, [crop] * len(rows)))

    def remark(self, text: str) -> None:
        """Note what a reader of the source and of the numbers must know."""
        self.notes.append(text)
        self.remarks.append(text)

    def missing_pictures(self) -> list[str]:
        """The names of the pictures that are not at hand; none where nobody looked for them."""
        if NOT_LOOKED_FOR in self.notes:
            return []
        rows = [row for row, path in enumerate(self.paths) if path is None]
        return list(dict.fromkeys(self.called(row) for row in rows))

    def called(self, row: int) -> str:
        """What a picture is called where people read it: its file name, as far as the source says it, or its id."""
        return (self.names[row] or self.ids[row]).removesuffix(".*")

    def build(self) -> TaskFile | TaskSet:
        """The checked tasks; raises `CollectionError` with every fault otherwise."""
        self.raise_faults()
        if not self.items:
            raise CollectionError(f"{self.name} ({self.source}): no items in it.", hint="are these the files?")
        items = self._with_pictures()
        tasks = {"i2t": self._task(items, "i2t")}
        if any(len(item.pictures) > 1 for item in items):
            tasks["t2i"] = self._task(items, "t2i")
        if self.also_texts:
            tasks["t2t"] = self._task(items, "t2t")
        return tasks["i2t"] if len(tasks) == 1 else TaskSet(self.name, tasks, self.described_source())

    def _with_pictures(self) -> list[ChoiceItem]:
        absent = self.missing_pictures()
        if not absent:
            return self.items
        whole = [item for item in self.items if all(self.paths[row] is not None for row, _ in item.pictures)]
        aside = len(self.items) - len(whole)
        examples = ", ".join(absent[:5]) + (", …" if len(absent) > 5 else "")
        problem = f"{aside:,} of {len(self.items):,} items have no picture here ({len(absent):,} pictures: {examples})"
        hint = f"images=FOLDER says where they are{f' ({self.obtain})' if self.obtain else ''}"
        if self.missing == "fault" or not whole:
            raise CollectionError(
                f"{self.name}: {problem}.",
                hint=f"{hint}; images='none' goes without, for vectors of your own or for texts alone",
            )
        self.notes.append(f"set aside: {problem}; {hint}")
        self.remarks.append(f"set aside: {problem}")
        return whole

    def _task(self, items: Sequence[ChoiceItem], name: str) -> TaskFile:
        rows = _Rows()
        for item in items:
            getattr(rows, f"add_{name}")(self, item)
        sides = {"i": self._images, "t": self._texts}
        queries, documents = sides[name[0]](rows.queries), sides[name[2]](rows.documents)
        by_query = rows.labels
        columns = list(dict.fromkeys(column for values in by_query for column in values))
        labels = {column: pa.array([values.get(column) for values in by_query], pa.string()) for column in columns}
        empty = pa.array([""] * len(rows.judged), pa.string())
        judged = [empty, *map(pa.array, zip(*rows.judged, strict=True)), pa.array([1.0] * len(rows.judged))]
        candidates = [pa.array([""] * len(rows.pools)), *map(pa.array, zip(*rows.pools, strict=True))]
        return TaskFile(
            self.name,
            queries,
            documents,
            pa.table(judged, names=TASK_JUDGEMENTS.names),
            pa.table(candidates, names=TASK_CANDIDATES.names),
            name,
            self.described_source(),
            labels=pa.table({"query_id": queries.ids, **labels}),
            ties="pessimistic",
            measures=self.measures,
            notes=tuple(self.remarks),
        )

    def _images(self, rows: Mapping[str, tuple[ChoiceItem, int]]) -> Items:
        places = []
        for item, number in rows.values():
            row = item.pictures[number][0]
            path, crop = self.paths[row], item.crops[number] if item.crops else None
            if path is not None and crop is not None:
                path = with_part(path, crop)
            places.append((path, self.archives[row]))
        columns = [pa.array([place[side] for place in places], pa.string()) for side in (0, 1)]
        table = pa.table(columns, schema=PLACES)
        return Items(pa.array(list(rows), pa.string()), None, table, self.root.absolute(), "images", self.name)

    def _texts(self, rows: Mapping[str, tuple[ChoiceItem, int]]) -> Items:
        texts = [item.captions[number][1] for item, number in rows.values()]
        return Items(pa.array(list(rows), pa.string()), self.column(texts), title="captions", name=self.name)


class _Rows:
    """The rows of one task: queries and documents by id, who is right, who is a candidate, labels of queries."""

    def __init__(self) -> None:
        self.queries: dict[str, tuple[ChoiceItem, int]] = {}
        self.documents: dict[str, tuple[ChoiceItem, int]] = {}
        self.judged: list[tuple[str, str]] = []
        self.pools: list[tuple[str, str]] = []
        self.labels: list[dict[str, str | None]] = []

    def add_i2t(self, draft: ChoiceDraft, item: ChoiceItem) -> None:
        """Each picture chooses among the captions."""
        captions = [f"{item.id}/{key}" for key, _ in item.captions]
        self.documents |= {caption: (item, number) for number, caption in enumerate(captions)}
        for number, (row, key) in enumerate(item.pictures):
            right = [captions[position] for position in item.right[number]]
            query = f"{item.id}/{key}" if key else item.id
            self._add(query, item, number, captions, right, draft.called(row))

    def add_t2i(self, draft: ChoiceDraft, item: ChoiceItem) -> None:
        """Each right caption chooses among the pictures."""
        pictures = [f"{item.id}/{key}" if key else item.id for _, key in item.pictures]
        self.documents |= {picture: (item, number) for number, picture in enumerate(pictures)}
        for number, (key, _) in enumerate(item.captions):
            right = [picture for place, picture in enumerate(pictures) if number in item.right[place]]
            if right:
                self._add(f"{item.id}/{key}", item, number, pictures, right, None)

    def add_t2t(self, draft: ChoiceDraft, item: ChoiceItem) -> None:
        """Each right caption chooses among the other captions: the right ones say the same."""
        captions = [f"{item.id}/{key}" for key, _ in item.captions]
        self.documents |= {caption: (item, number) for number, caption in enumerate(captions)}
        right = [captions[position] for position in item.right[0]]
        image = draft.called(item.pictures[0][0])
        for number in item.right[0]:
            query = captions[number]
            others = [caption for caption in captions if caption != query]
            self._add(query, item, number, others, [caption for caption in right if caption != query], image)

    def _add(
        self, query: str, item: ChoiceItem, number: int, pool: Sequence[str], right: Sequence[str], image: str | None
    ) -> None:
        self.queries[query] = (item, number)
        self.pools += [(query, document) for document in pool]
        self.judged += [(query, document) for document in right]
        labels: dict[str, str | None] = {GROUP: item.id, **item.labels}
        if image is not None:
            labels[IMAGE] = image
        self.labels.append(labels)
