"""What mteb hands a model, as items: data sets of queries and documents, and batches of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from visir.collections.readers.mteb_tasks import item_table, sides_of
from visir.collections.readers.task_reader import TaskReader
from visir.collections.task_draft import Side, TaskDraft
from visir.collections.task_memory import item_tables
from visir.records import Items, Role


def items_of_dataset(data: Any, role: Role, metadata: Any) -> Items:
    """The queries or documents of a task of mteb, with the text and the pictures that its category names."""
    side: Side = "queries" if role == "query" else "documents"
    letters = sides_of(metadata)[0 if role == "query" else 1]
    reader = TaskReader(TaskDraft(str(metadata.name), Path.cwd(), f"mteb:{metadata.name}"))
    reader.read_items(side, [item_table(data, letters, side)], join_titles=role == "document")
    draft = reader.finish()
    draft.raise_faults()
    return draft.items(side)


def items_of_batches(batches: Iterable[Mapping[str, Any]]) -> Items | None:
    """The inputs of an encoder of mteb; None where there are none."""
    rows: list[dict[str, Any]] = []
    for batch in batches:
        columns = {name: batch[name] for name in ("text", "image") if name in batch}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if not rows:
        return None
    reader = TaskReader(TaskDraft("mteb", Path.cwd(), "inputs of mteb"))
    reader.read_items("documents", item_tables(rows, "documents"), join_titles=False)
    draft = reader.finish()
    draft.raise_faults()
    return draft.items("documents")
