"""A compact view of the best and worst queries for the terminal."""

from __future__ import annotations

from visir.records import Collection, Result, Run
from visir.reports.examples import Examples, Kind, by_image
from visir.reports.table import Cell, Column, Table
from visir.reports.words import task_words


def queries_table(
    result: Result, run: Run, collection: Collection, kind: Kind = "worst", *, count: int = 5, width: int = 60
) -> Table:
    """The `count` worst, nearest-missed ("near") or best queries of one run: query, rank, and what came first instead.

    Captions are cut to `width` characters; images are shown by id, with their first caption.
    """
    texts = dict(zip(collection.captions["id"].to_pylist(), collection.captions["text"].to_pylist(), strict=True))
    first: dict[str, str] = {}
    for owner, text in zip(collection.captions["image_id"].to_pylist(), texts.values(), strict=True):
        first.setdefault(owner, text)

    def caption(one: str) -> str:
        return _short(texts.get(one, one), width)

    def image(one: str) -> str:
        return f"{one}: {_short(first[one], width)}" if one in first else one

    query, answer = (caption, image) if run.task == "t2i" else (image, caption)
    group = by_image(collection) if run.task == "t2i" else None
    sorted_out = Examples(run, collection.qrels(run.task, result.protocol.relevance), result)
    rows: list[list[Cell]] = [
        [query(one.query), one.rank, answer(one.top[0].id) if one.top else None, answer(one.positives[0].id)]
        for one in sorted_out.choose(kind, count, top=1, group=group)
    ]
    columns = [Column("query"), Column("rank", 0), Column("answered first"), Column("a right answer")]
    titles = {"worst": "Worst queries", "near": "Lost by a hair", "best": "Best queries"}
    return Table.of(columns, rows, caption=f"{titles[kind]}, {task_words(run.task)}")


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
