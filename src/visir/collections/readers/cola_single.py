"""COLA, single-object: an object with several attributes ("square white plate") searches pictures that have some."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.collections.readers.sniffing import json_head, plain_name
from visir.collections.sources import Format
from visir.collections.task_draft import TaskDraft
from visir.files import read_json
from visir.records.task import TASK_CANDIDATES

MEASURES = ("map",)
_NAME = re.compile(r"COLA_singleobjects_benchmark_\w+\.json")
_EXPECTED = "[picture, …, 0 or 1 for each class, 0 or 1 for each class]"


def read(path: Path) -> TaskDraft:
    """Read `COLA_singleobjects_benchmark_GQA.json`, or that of CLEVR or PACO."""
    # Each class is a query. Its candidates are the pictures of its difficult set (`hard_list`); those that show the
    # class (`label`) are right. Classes without a right picture in their set are left out, as no average precision is
    # defined. COLA's MAP is the measure `map`.
    # The file has `labels`, the names of the classes, and `data`, a row for each picture; both by name, as COLA's
    # README describes it, or in a list, as its `scripts/eval.py` reads it.
    content = read_json(path) if path.is_file() else None
    if isinstance(content, dict) and {"labels", "data"} <= set(content):
        content = [content["labels"], content["data"]]
    if not (isinstance(content, list) and len(content) == 2 and all(isinstance(part, list) for part in content)):
        raise FORMAT.lacks(path, "no labels and data in it")
    classes, rows = content
    draft = TaskDraft("COLA single objects", path.parent, f"COLA {plain_name(path)}", task="t2i")
    draft.measures, draft.ties = MEASURES, "pessimistic"
    draft.queries.title, draft.documents.title = "classes", "images"
    for number, name in enumerate(classes):
        if not isinstance(name, str) or not name.strip():
            draft.fault(f'class {number}: expected a text such as "square white plate", found {str(name)[:60]!r}')
    marks: list[tuple[list[Any], list[Any]]] = []
    for number, row in enumerate(rows):
        if not _is_row(row, len(classes)):
            draft.fault(f"picture {number}: expected {_EXPECTED} for {len(classes):,} classes")
            continue
        draft.add_item("documents", str(number), None, picture=row[0])
        marks.append((row[-2], row[-1]))
    draft.raise_faults()
    _add_classes(draft, classes, np.array(marks, np.uint8).reshape(len(marks), 2, len(classes)).astype(bool))
    return draft


def _is_row(row: Any, classes: int) -> bool:
    """Whether a row has a picture and two lists of 0 and 1; what stands between differs, and is not used."""
    if not isinstance(row, list) or len(row) not in (3, 4) or not isinstance(row[0], str):
        return False
    return all(isinstance(part, list) and len(part) == classes and set(part) <= {0, 1} for part in row[-2:])


def _add_classes(draft: TaskDraft, classes: list[str], marks: NDArray[np.bool_]) -> None:
    """Add the classes with their candidates and right answers; `marks` is (pictures, [shows, difficult], classes)."""
    shows, difficult = marks[:, 0], marks[:, 1]
    queries, documents = [], []
    left_out = 0
    for number, name in enumerate(classes):
        pool = np.flatnonzero(difficult[:, number])
        right = pool[shows[pool, number]]
        if not len(right):
            left_out += 1
            continue
        query = str(number)
        draft.add_item("queries", query, name)
        draft.judgements |= {("", query, draft.documents.ids[row]): 1.0 for row in right}
        queries += [query] * len(pool)
        documents += [draft.documents.ids[row] for row in pool]
    draft.pools = pa.table([[""] * len(queries), queries, documents], schema=TASK_CANDIDATES)
    if left_out:
        line = f"{left_out:,} of {len(classes):,} classes not counted: no picture of their difficult set shows them"
        draft.notes.append(line)
        draft.remarks.append(line)


FORMAT = Format(
    name="cola-single",
    title="COLA: find the pictures of an object with several attributes",
    layout="COLA_singleobjects_benchmark_{GQA,CLEVR,PACO}.json: {labels: [class, …], data: [[picture, objects, 0 or 1 "
    "for each class: shown, 0 or 1 for each class: in its difficult set], …]}",
    reference="Ray et al., COLA (NeurIPS 2023)",
    obtain="https://github.com/arijitray1993/COLA, folder data",
    sniff=lambda path: path.is_file() and _NAME.fullmatch(plain_name(path)) is not None and bool(json_head(path)),
    read=read,
    one_file=True,
)
