"""A task: what searches what, and a few queries with their right answers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.records import Task
from visir.reports.page import Block, GalleryEntry, QueryGallery, Strip
from visir.reports.shown import BUDGET, ShownItems
from visir.reports.views.parts import facts, some_rows
from visir.reports.words import task_words

QUERIES, ANSWERS = 3, 5
"""How many queries are shown, and how many right answers of each."""


def blocks(task: Task) -> list[Block]:
    """The counts, and queries from all over the task."""
    heading = facts(
        task_words(task.name),
        f"of {task.source}" if task.source else "",
        f"split {task.split}" if task.split != "all" else "",
        f"{counted(len(task.queries), task.queries.title)} search {counted(len(task.documents), task.documents.title)}",
        *(f"{items.title}: {items.holding}" for items in (task.queries, task.documents) if items.is_mixed),
        f"judgements: {', '.join(task.relevances)}",
        "" if task.pools is None else str(task.pools),
    )
    qrels = task.judgements()
    queries = qrels.queries.filter(pc.is_in(qrels.queries, task.queries.ids))
    names = queries.take(pa.array(some_rows(len(queries), QUERIES))).to_pylist()
    right = {
        query: [document for document, grade in of_query.items() if grade > 0]
        for query, of_query in qrels.select(names).to_dict().items()
    }
    present = set(task.documents.ids.to_pylist()) if names else set()
    right = {query: [name for name in documents if name in present] for query, documents in right.items()}
    lists = [
        (task.queries, names),
        (task.documents, [name for documents in right.values() for name in documents[:ANSWERS]]),
    ]
    shown = ShownItems(lists, budget=BUDGET)
    entries = []
    for name in names:
        query = shown.tile(task.queries, name)
        tiles = [shown.tile(task.documents, document, right=True) for document in right.get(name, [])[:ANSWERS]]
        more = max(0, len(right.get(name, [])) - ANSWERS)
        entries.append(
            GalleryEntry(
                f"“{query.text}”" if query.text else "",
                counted(len(right.get(name, [])), "right answers"),
                [Strip(tiles, more=more, is_ranked=False)],
                [] if query.picture is None else [query],
            )
        )
    return [heading, QueryGallery(entries)]
