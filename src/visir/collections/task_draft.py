"""A task from elsewhere before it is checked: queries, documents, judgements, and every fault met on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from visir.collections.draft import SourceDraft
from visir.errors import CollectionError, ImageError
from visir.records.items import PLACES, Items
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
        judged, grades = list(self.judgements), list(self.judgements.values())
        return TaskFile(
            self.name,
            self.items("queries"),
            self.items("documents"),
            pa.table([*_columns(judged), pa.array(grades, pa.float32())], schema=TASK_JUDGEMENTS),
            self._candidates(),
            self.task,
            self.described_source(),
            labels=self._labels(),
            galleries=_table(self.galleries, TASK_DOCUMENTS),
            unjudged=_table(self.unjudged, TASK_QUERIES),
            excluded=_table(self.excluded, TASK_EXCLUDED),
            submission=self.submission,
            measures=self.measures,
            ties=self.ties,
            notes=tuple(self.remarks),
        )

    def _candidates(self) -> pa.Table | None:
        if self.pools is not None or not self.candidates:
            return self.pools
        return pa.table(_columns(list(self.candidates)), schema=TASK_CANDIDATES)

    def _labels(self) -> pa.Table | None:
        if not self.labels:
            return None
        columns: dict[str, list[str | None]] = {"query_id": list(self.queries.ids)}
        for name, values in self.labels.items():
            columns[name] = [values.get(query) for query in self.queries.ids]
        return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})

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


def _columns(triples: list[tuple[str, str, str]]) -> list[pa.Array]:
    return [pa.array([triple[position] for triple in triples], pa.string()) for position in range(3)]


def _table(pairs: dict[tuple[str, str], None], schema: pa.Schema) -> pa.Table | None:
    if not pairs:
        return None
    return pa.table([pa.array([pair[position] for pair in pairs], pa.string()) for position in range(2)], schema=schema)


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
