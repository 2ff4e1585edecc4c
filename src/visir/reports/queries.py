"""A compact view of the best and worst queries for the terminal."""

from __future__ import annotations

from visir.records import Collection, Items, Result, Run, Task
from visir.reports.examples import ExampleQueries, Kind, by_image
from visir.reports.table import Cell, Column, Table
from visir.reports.words import task_words


def queries_table(
    result: Result, run: Run, source: Collection | Task, kind: Kind = "worst", *, count: int = 5, width: int = 60
) -> Table:
    """The worst, nearest-missed or best queries of one run: query, rank, and what came first instead.

    Items without a text are shown by id; images of a collection with their first caption.

    Args:
        result: The result that the run was measured in.
        run: What the search answered.
        source: The task that was searched, or the collection that it is of.
        kind: "worst", "near" (lost by a hair) or "best".
        count: How many queries are shown.
        width: To how many characters texts are cut.
    """
    task = source.task(run.task) if isinstance(source, Collection) else source
    captions: dict[str, str] = {}
    if isinstance(source, Collection):
        for image, text in zip(*(source.captions[name].to_pylist() for name in ("image_id", "text")), strict=True):
            captions.setdefault(image, text)
    queries, documents = _texts(task.queries), _texts(task.documents)

    def label(name: str, texts: dict[str, str]) -> str:
        if name in texts:
            return _short(texts[name], width)
        return f"{name}: {_short(captions[name], width)}" if not texts and name in captions else name

    relevance = result.protocol.relevance
    qrels = task.judgements(relevance if relevance in task.qrels else None)
    group = by_image(source) if isinstance(source, Collection) and run.task == "t2i" else None
    rows: list[list[Cell]] = [
        [
            label(example.query, queries),
            example.rank,
            label(example.top[0].id, documents) if example.top else None,
            label(example.positives[0].id, documents),
        ]
        for example in ExampleQueries(run, qrels, result).choose(kind, count, top=1, group=group)
    ]
    columns = [Column("query"), Column("rank", 0), Column("answered first"), Column("a right answer")]
    titles = {"worst": "Worst queries", "near": "Lost by a hair", "best": "Best queries"}
    return Table.of(columns, rows, caption=f"{titles[kind]}, {task_words(run.task)}")


def _texts(items: Items) -> dict[str, str]:
    """The texts of items by id; none for images."""
    if items.texts is None:
        return {}
    pairs = zip(items.ids.to_pylist(), items.texts.to_pylist(), strict=True)
    return {name: text for name, text in pairs if text is not None}


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
