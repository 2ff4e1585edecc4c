"""A study: how well short and long captions find their picture. It is one function that returns a report."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visir.reports import StudyReport


def length(source: Any, model: Any, k: int = 1) -> StudyReport:
    """Say how well short and long captions find their picture.

    Args:
        source: A collection of images and captions, as `visir.open` takes it.
        model: A model, or its name.
        k: A caption counts as right if its picture is among the first k.
    """
    import numpy as np  # inside, because `visir --help` imports this file

    import visir
    from visir.evaluation.statistics import interval_of
    from visir.reports import Chart, Column, Section, StudyReport, Table, drawing

    collection = visir.open(source)
    evaluation = visir.evaluate(collection, model, "t2i", measures=[f"R@{k}"])
    right = evaluation.values("t2i", f"R@{k}")
    texts = dict(zip(*(collection.captions[name].to_pylist() for name in ("id", "text")), strict=True))
    queries = evaluation.per_query["t2i"]["query_id"].to_pylist()
    words = np.array([len(texts[query].split()) for query in queries])

    edges = np.unique(np.quantile(words, [0, 0.25, 0.5, 0.75, 1]).round().astype(int))
    rows = []
    for low, high in pairwise(edges.tolist()):
        part = right[(words >= low) & (words < high + (high == edges[-1]))]
        rows.append((f"{low} to {high}", len(part), part.mean(), interval_of(part)))
    table = Table.over(
        rows,
        [
            Column("words", of=lambda row: row[0]),
            Column("captions", 0, of=lambda row: row[1]),
            Column(f"R@{k}", 1, "max", of=lambda row: row[2], scale=100, ends=lambda row: row[3]),
        ],
        notes=["In percent. Captions of one picture are taken for independent here, so intervals are too narrow."],
    )

    def draw() -> Any:
        with drawing(5.4, 2.8) as (figure, axes):
            axes.plot([row[0] for row in rows], [100 * row[2] for row in rows], marker="o")
            axes.set(xlabel="words in a caption", ylabel=f"R@{k}, %")
            return figure

    chart = Chart("length", draw, caption="Each point is a quarter of the captions.", label=f"R@{k} over words")
    sections = [Section("numbers", "Numbers", [table]), Section("plot", "By length", [chart])]
    facts = {"model": evaluation.system, "collection": evaluation.protocol.collection}
    return StudyReport("length of captions", f"{evaluation.system} by length", sections, facts)
