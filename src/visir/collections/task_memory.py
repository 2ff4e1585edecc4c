"""A task whose queries, documents and judgements are in memory: dictionaries, lists, data frames, data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from visir.collections.draft import Side, TaskDraft, TaskSetDraft
from visir.collections.held_pictures import HeldPictures, is_picture
from visir.collections.picture_kinds import is_picture_name
from visir.collections.qrels_reading import judgement_rows
from visir.collections.readers.huggingface import dataset_table, is_dataset, is_dataset_dict
from visir.collections.readers.task_reader import (
    IMAGES,
    ITEM_IDS,
    PARTS,
    REQUIRED,
    TEXTS,
    PartFile,
    TaskPart,
    TaskReader,
    TaskTable,
    file_table,
    split_name,
)
from visir.collections.tables import OnFault, columns_of, table_rows
from visir.errors import CollectionError, nearest, raise_faults
from visir.files import user_path
from visir.records import Items

EXAMPLE = (
    'visir.open({"queries": {"q1": "a red boat"}, "documents": {"d1": "boat.jpg", "d2": "dog.jpg"}, '
    '"qrels": {"q1": ["d1"]}})'
)
_OF_KEY: dict[str, TaskPart] = {name: part for part, names in PARTS.items() for name in names} | {
    "judgements": "judgements",
    "judgments": "judgements",
    "candidates": "candidates",
    "docs": "documents",
}
_Row = tuple[str, dict[str, Any]]


def is_task(source: object) -> bool:
    """Whether an object is meant as a task: a dictionary with at least two of queries, documents and judgements."""
    if not isinstance(source, Mapping) or not source:
        return False
    return len({_OF_KEY.get(str(key).lower()) for key in source} & set(REQUIRED)) >= 2


def is_task_set(source: object) -> bool:
    """Whether an object is several tasks by name, each as `is_task` says."""
    return isinstance(source, Mapping) and bool(source) and all(is_task(part) for part in source.values())


def read_task_set(source: Mapping[str, Any], *, name: str = "", task: str = "", **options: Any) -> TaskSetDraft:
    """Read several tasks by name; see `read_task`."""
    if task:
        raise CollectionError("several tasks have their own names; task= does not apply.")
    drafts = TaskSetDraft(name or "tasks", Path.cwd(), "tasks in memory")
    for key, part in source.items():
        _fill(drafts.add_task(str(key)), part, **options)
    return drafts


def read_task(
    source: Mapping[str, Any],
    *,
    name: str = "",
    title: str = "join",
    unknown: str = "fault",
    task: str = "",
    labels: str | None = None,
    bad_rows: str = "refuse",
    **columns: str | None,
) -> TaskDraft:
    """Read a task whose parts are in memory, or in files anywhere."""
    # source: Its parts by name: "queries", "documents" (or "corpus"), "qrels" (or "judgements"), and, where queries
    # have candidates of their own, "pools". Queries and documents are each - `{id: item}` or a list of items, which are
    # then numbered from 0. An item is a text, a picture (a path, a PIL image, an array, bytes), or {"text": …, "image":
    # …}. Strings that all end like the names of pictures (".jpg") are pictures; among texts, those that name a picture
    # that is there, - a DataFrame, an Arrow table, a dictionary of columns, or a list of rows as dictionaries, with the
    # columns of a task's files (`_id` or `id`, `text`, `title`, `image`), - a `datasets.Dataset`, `Items`, or the path
    # of a file. Judgements are whatever `visir.collections.read_qrels` takes, or any of these by split. Pools are
    # `{query: [document, …]}` or a table.
    draft = TaskDraft(name or "task", Path.cwd(), "a task in memory", task=task)
    return _fill(draft, source, title=title, unknown=unknown, labels=labels, bad_rows=bad_rows, **columns)


def _fill(
    draft: TaskDraft,
    source: Mapping[str, Any],
    *,
    title: str = "join",
    unknown: str = "fault",
    labels: str | None = None,
    bad_rows: str = "refuse",
    **columns: str | None,
) -> TaskDraft:
    parts: dict[TaskPart, Any] = {}
    for key, value in source.items():
        part = _OF_KEY.get(str(key).lower())
        if part is None:
            raise CollectionError(f"a task has no part {key!r}.", hint=nearest(str(key), _OF_KEY), code="task-no-part")
        if part in parts:
            raise CollectionError(f"{key!r} and another name say the {part} of the task.", hint="leave one of them")
        if value is not None:
            parts[part] = value
    missing = [f"no {PARTS[part][0] if part == 'judgements' else part}" for part in REQUIRED if part not in parts]
    raise_faults(CollectionError, "a task", missing, hint=f"{EXAMPLE} works")
    tables: dict[TaskPart, list[TaskTable]] = {
        "queries": item_tables(parts["queries"], "queries", columns),
        "documents": item_tables(parts["documents"], "documents", columns),
        "judgements": _by_split(parts["judgements"], _judgement_table),
        "candidates": _by_split(parts["candidates"], _candidate_table) if "candidates" in parts else [],
    }
    return TaskReader(draft, columns, labels, bad_rows).read(
        tables, join_titles=title == "join", drop=unknown == "drop"
    )


def read_items(source: Any, *, name: str = "given") -> Items:
    """Read items that are in memory: texts, pictures, and both."""
    draft = TaskDraft(name, Path.cwd(), "items in memory")
    reader = TaskReader(draft)
    reader.read_items("documents", item_tables(source, "documents"), join_titles=False)
    for item, picture, path in zip(draft.ids, draft.names, draft.paths, strict=True):
        if path is None:
            draft.fault(f"{item!r}: there is no file {picture!r}")
    draft.raise_faults()
    return replace(draft.items("documents"), title="items")


def item_tables(value: Any, side: Side, columns: Mapping[str, str | None] = MappingProxyType({})) -> list[TaskTable]:
    """Queries or documents of any form as tables; see `read_task`."""
    role = "query" if side == "queries" else "document"
    image = columns.get(f"{role}_image_column")
    if is_dataset_dict(value):
        parts = value.items() if len(value) > 1 else [("", part) for part in value.values()]
        return [dataset_table(part, f"{side} {split}".strip(), image, split_name(split)) for split, part in parts]
    if is_dataset(value):
        return [dataset_table(value, side, image)]
    if isinstance(value, Items):
        return [_of_items(value, side)]
    if isinstance(value, (str, Path)):
        return [_of_file(value, side, image)]
    rows = list(_item_rows(value, side))
    held = HeldPictures()
    named = cache(partial(_image_column, names=(image,) if image else IMAGES))  # rows have the same few columns
    places = [_place(row, place, side, named(tuple(row)), held) for place, row in rows]
    if all(place is None for place in places):
        return [TaskTable(side, lambda report: iter(rows))]
    archive = str(held.write()) if len(held) else None

    def cell(row: int) -> tuple[str, str | None] | None:
        place = places[row]
        return (f"image#{place}", archive) if isinstance(place, int) else None if place is None else (place, None)

    return [TaskTable(side, lambda report: iter(rows), cell=cell, names_too=True)]


def _image_column(columns: tuple[str, ...], *, names: Sequence[str]) -> str | None:
    """The column of pictures: the one with the first of these names; None where there is none."""
    return next((column for name in names for column in columns if column.lower() == name.lower()), None)


def _place(row: dict[str, Any], place: str, side: Side, column: str | None, held: HeldPictures) -> int | str | None:
    """The number of a picture in memory, or the path of a file that is there; it leaves the row. None for any other."""
    picture = None if column is None else row[column]
    if column is None or picture is None:
        return None
    if is_picture(picture):
        row[column] = None
        return held.add(picture, f"{side}, {place}")
    if isinstance(picture, (str, Path)):
        row[column] = str(picture)
        if user_path(picture).is_file():
            row[column] = None
            return user_path(picture).absolute().as_posix()
    return None


def _item_rows(value: Any, side: Side) -> Iterator[_Row]:
    """Queries or documents as rows with the usual columns."""
    table = columns_of(value)
    if table is None and isinstance(value, Mapping) and _is_columns(value, side):
        table = {str(name): list(column) for name, column in value.items()}
    if table is not None:
        yield from table_rows(table, side)
        return
    if isinstance(value, Mapping):
        entries = [(f"{str(key)!r}", key, entry) for key, entry in value.items()]
    elif isinstance(value, Iterable) and not isinstance(value, (bytes, str)):
        entries = [(f"entry {number}", number, entry) for number, entry in enumerate(value)]
    else:
        raise CollectionError(f"{side}: a {type(value).__name__} holds none.", hint=f"{EXAMPLE} works")
    strings = [entry for _, _, entry in entries if isinstance(entry, str)]
    pictures = bool(strings) and all(is_picture_name(entry) for entry in strings)
    by_key = isinstance(value, Mapping)
    for place, key, entry in entries:
        if isinstance(entry, Mapping) and not is_picture(entry):
            row = {str(name): content for name, content in entry.items()}
            has_id = not by_key and any(name.lower() in ITEM_IDS[side] for name in row)
            yield place, row if has_id else {"_id": key, **row}
        elif isinstance(entry, Path) or is_picture(entry) or (isinstance(entry, str) and (pictures or is_there(entry))):
            yield place, {"_id": key, "image": entry}
        else:
            yield place, {"_id": key, "text": entry}


def is_there(text: str) -> bool:
    """Whether a text is the path of a picture that is there."""
    return is_picture_name(text) and user_path(text).is_file()


def _is_columns(value: Mapping[Any, Any], side: Side) -> bool:
    names = {str(name).lower() for name in value}
    lists = all(isinstance(column, (list, tuple)) for column in value.values())
    return lists and bool(names & set(ITEM_IDS[side])) and bool(names & {*TEXTS, *IMAGES, "title"})


def _of_items(items: Items, side: Side) -> TaskTable:
    ids = items.ids.to_pylist()
    texts = [None] * len(items) if items.texts is None else items.texts.to_pylist()
    root = items.root.absolute()

    places = [] if items.places is None else items.places.to_pylist()

    def cell(row: int) -> tuple[str, str | None] | None:
        path, archive = places[row]["path"], places[row]["archive"]
        if path is None:
            return None
        return (path, str(root / archive)) if archive is not None else (str(root / path), None)

    rows = [(f"{name!r}", {"_id": name, "text": text}) for name, text in zip(ids, texts, strict=True)]
    return TaskTable(side, lambda report: iter(rows), cell=cell if items.places is not None else None)


def _of_file(value: str | Path, part: str, image: str | None = None, split: str = "") -> TaskTable:
    path = user_path(value)
    if not path.is_file():
        raise CollectionError(
            f"{part}: {value}: no such file.",
            hint="a list of texts is written [text, …]; a folder with all parts opens by itself: visir.open(folder)",
            code="no-such-file",
        )
    return file_table(PartFile(path.absolute(), split), Path.cwd(), image)


def _by_split(value: Any, table: Callable[[Any, str], TaskTable]) -> list[TaskTable]:
    """Judgements or candidates, which may be given by split."""
    if is_dataset_dict(value) or (isinstance(value, Mapping) and _is_by_split(value)):
        return [table(part, split_name(str(split))) for split, part in value.items()]
    return [table(value, "")]


def _is_by_split(value: Mapping[Any, Any]) -> bool:
    """Whether the values are judgements themselves: {"test": {"q1": {"d1": 1}}}, {"test": DataFrame}."""

    def holds(part: Any) -> bool:
        if isinstance(part, Mapping):
            return bool(part) and all(isinstance(inner, (Mapping, list, tuple, set)) for inner in part.values())
        return is_dataset(part) or columns_of(part) is not None

    return bool(value) and all(holds(part) for part in value.values())


def _judgement_table(value: Any, split: str) -> TaskTable:
    if is_dataset(value):
        return dataset_table(value, "qrels", None, split)
    if isinstance(value, (str, Path)) and Path(value).suffix.lower() in (".jsonl", ".parquet"):
        return _of_file(value, "qrels", split=split)

    def rows(report: OnFault) -> Iterator[_Row]:
        for place, query, document, grade in judgement_rows(value):
            yield place, {"query-id": _plain(query), "corpus-id": _plain(document), "score": grade}

    return TaskTable("qrels", rows, split)


def _candidate_table(value: Any, split: str) -> TaskTable:
    if is_dataset(value):
        return dataset_table(value, "pools", None, split)
    if isinstance(value, (str, Path)):
        return _of_file(value, "pools", split=split)
    table = columns_of(value)

    def rows(report: OnFault) -> Iterator[_Row]:
        if table is not None:
            yield from table_rows(table, "pools")
            return
        if not isinstance(value, Mapping):
            raise CollectionError(
                f"pools: a {type(value).__name__} holds none.", hint='{"q1": ["d1", "d2"]}, or a table of pairs'
            )
        for query, documents in value.items():
            listed = list(documents) if isinstance(documents, (Sequence, set, frozenset, Mapping)) else [documents]
            yield f"{query!r}", {"query-id": _plain(query), "corpus-ids": [_plain(document) for document in listed]}

    return TaskTable("pools", rows, split)


def _plain(value: Any) -> Any:
    """An id of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value
