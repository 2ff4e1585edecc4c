"""What could not be encoded is left out of a task, with the items that cannot be measured without it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.records import GROUP, Task


def without_items(task: Task, queries: pa.StringArray, documents: pa.StringArray) -> tuple[Task, list[str]]:
    """Leave out of a task what could not be encoded."""
    notes = []
    for title, ids in ((task.queries.title, queries), (task.documents.title, documents)):
        if len(ids):
            examples = ", ".join(ids[:5].to_pylist()) + (", …" if len(ids) > 5 else "")
            notes.append(f"{counted(len(ids), title)} could not be encoded; set aside: {examples}")
    if not notes:
        return task, []
    if "all_first" in task.measures or (task.labels is not None and GROUP in task.labels.column_names):
        queries, lost = _with_their_items(task, queries, documents)
        notes += lost
    qrels = task.judgements()
    left = qrels.select(qrels.queries.filter(pc.invert(pc.is_in(qrels.queries, queries))))
    gallery = task.gallery
    assert gallery.ids is not None
    if task.pools is not None:
        task = replace(task, pools=task.pools.without(queries, documents))
    if task.excluded is not None:
        task = replace(task, excluded=task.excluded.without(queries, documents))
    remaining = gallery.restrict(gallery.ids.filter(pc.invert(pc.is_in(gallery.ids, documents))), gallery.description)
    return replace(task, qrels={qrels.name: left}, candidates=remaining), notes


def _with_their_items(
    task: Task, queries: pa.StringArray, documents: pa.StringArray
) -> tuple[pa.StringArray, list[str]]:
    """The broken queries with all queries of their items, and of items that lost a candidate; and a note."""
    # A choice with a candidate less is an easier one, and an item with a query less too.
    names = items = task.queries.ids
    if task.labels is not None and GROUP in task.labels.column_names:
        names, items = task.labels["query_id"].combine_chunks(), task.labels[GROUP].combine_chunks()
    touched = pc.is_in(names, queries)
    if task.pools is not None:
        of_candidates = task.pools.queries.take(pa.array(task.pools.query_rows))
        short = of_candidates.filter(pc.is_in(task.pools.documents, documents))
        touched = pc.or_(touched, pc.is_in(names, short))
    broken_items = items.filter(touched).drop_null().unique()
    everything = names.filter(pc.or_(touched, pc.is_in(items, broken_items)))
    note = (
        f"{counted(len(broken_items), 'items', 'are')} not measured: one of their queries or candidates was set aside"
    )
    return everything, [note] if len(broken_items) else []
