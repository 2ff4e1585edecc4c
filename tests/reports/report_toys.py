"""One tiny result, small enough to work out by hand, that the report tests share.

Three images a, b, c with two captions each; both tasks, every query answered with the whole gallery.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.evaluation.measures import aggregate, measure, rsum
from visir.records import TASKS, Collection, Protocol, Result, Run, gallery_line
from visir.retrieval.ranks import ranks_of

HOSTILE = '<script>alert("x")</script> & "quotes" <img src=x onerror=alert(1)>'
# Rows are images a, b, c; columns are captions a0 a1 b0 b1 c0 c1.
SCORES = np.array(
    [
        [0.9, 0.2, 0.8, 0.1, 0.0, -0.1],  # a: its captions at ranks 1 and 3
        [0.7, 0.6, 0.5, 0.4, 0.3, 0.2],  # b: 3 and 4
        [0.6, 0.5, 0.4, 0.3, 0.2, 0.1],  # c: 5 and 6
    ],
    np.float32,
)
# By column, the images in falling order:  a0: a b c | a1: b c a | b0: a b c | b1: b c a | c0: b c a | c1: b c a
# so the first positives of the captions stand at:  1 | 3 | 2 | 1 | 2 | 2


def collection(folder: Path, *, pictures: bool = True, hostile: bool = False) -> Collection:
    names = ["a", "b", "c"]
    if pictures:
        for name, colour in zip(names, ("crimson", "seagreen", "navy"), strict=True):
            Image.new("RGB", (40, 30), colour).save(folder / f"{name}.png")
    ids = [f"{name}{at}" for name in names for at in range(2)]
    texts = [HOSTILE if hostile else f"caption {one}" for one in ids]
    return Collection.build(
        "tiny",
        images={"id": names, "path": [f"{n}.png" for n in names] if pictures else [None] * 3, "split": ["test"] * 3},
        captions={"id": ids, "text": texts, "image_id": [one[0] for one in ids]},
        root=folder,
    )


def runs(tiny: Collection, depth: int = 6, scores: NDArray[np.float32] = SCORES) -> dict[str, Run]:
    images, captions = tiny.images["id"].to_pylist(), tiny.captions["id"].to_pylist()
    made: dict[str, Run] = {}
    for task, queries, documents, matrix, gallery in (
        ("i2t", images, captions, scores, tiny.caption_gallery("all of test")),
        ("t2i", captions, images, scores.T, tiny.image_gallery("all of test")),
    ):
        made[task] = Run.ranked(  # type: ignore[index]
            "tiny",
            task,  # type: ignore[arg-type]
            [query for query in queries for _ in documents],
            documents * len(queries),
            matrix.ravel(),
            gallery,
        ).cut(depth)
    return made


def result(tiny: Collection, made: dict[str, Run], **fields: object) -> Result:
    per_query = {d: measure(ranks_of(made[d], tiny.qrels(d)), beyond_depth=True) for d in TASKS}
    aggregates = {task: aggregate(table) for task, table in per_query.items()}
    for task, value in rsum(aggregates).items():
        aggregates.setdefault(task, {})["rsum"] = value
    protocol = Protocol(
        "tiny",
        tiny.fingerprint,
        "test",
        galleries={d: gallery_line(made[d].gallery) for d in TASKS},
        queries={"i2t": "3 images · 1111", "t2i": "6 captions · 2222"},
    )
    values: dict[str, object] = {"versions": {"visir": "0.1.0"}, "timing": {"search": 0.5}, **fields}
    return Result("toy", protocol, per_query, aggregates, **values)  # type: ignore[arg-type]
