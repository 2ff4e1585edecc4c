"""Judgements by ids, in any form of qrels: a TREC file, CSV, JSON, a dictionary, a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.judgements.judged import Judged
from visir.collections.qrels_reading import read_qrels
from visir.collections.readers.delimited import is_text_table
from visir.collections.readers.sniffing import head, plain_name
from visir.collections.sources import JudgementFormat, Option, one_of
from visir.errors import CollectionError
from visir.records import JUDGEMENTS, Collection, Qrels, show_id_forms

_SUFFIXES = (".qrels", ".qrel", ".trec", ".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


def read(
    path: Path,
    collection: Collection,
    *,
    name: str = "",
    task: str = "",
    query: str | None = None,
    document: str | None = None,
    grade: str | None = None,
) -> Judged:
    """Read judgements whose ids are those of the collection's captions and images."""
    # Queries are captions and documents images, or the other way round; which of the two, the ids tell. Judgements of
    # captions and images that are not in the collection are left out and counted.
    qrels = read_qrels(path, name=name, query=query, document=document, grade=grade)
    return judge(qrels, collection, str(path), task=task)


def judge(source: Any, collection: Collection, where: str = "qrels", *, task: str = "") -> Judged:
    """Return the judgements of qrels as rows of a collection.

    Args:
        source: Whatever `visir.collections.read_qrels` takes.
        collection: The collection that is judged.
        where: Where they come from, for errors and the source.
        task: "t2i" or "i2t"; "" takes what fits the ids.

    Raises:
        CollectionError: No judgement is about a caption and an image of the collection; the message shows an id of each
            side.
    """
    qrels = read_qrels(source)
    queries = qrels.queries.take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    captions, images = collection.captions["id"], collection.images["id"]
    fitting = {
        "t2i": pc.and_(pc.is_in(queries, captions), pc.is_in(qrels.documents, images)),
        "i2t": pc.and_(pc.is_in(queries, images), pc.is_in(qrels.documents, captions)),
    }
    counts = {name: int(pc.sum(mask).as_py() or 0) for name, mask in fitting.items()}
    if task and task not in counts:
        raise CollectionError(
            f"{where}: unknown task {task!r}", hint="t2i (queries are captions) or i2t", code="unknown-task"
        )
    if not task and all(counts.values()):
        raise CollectionError(
            f"{where}: its queries could be captions or images: ids of both fit.",
            hint='say which: "QRELS?task=t2i" for captions, task=i2t for images',
            code="queries-of-either-side",
        )
    task = task or max(counts, key=lambda name: counts[name])
    if not counts[task]:
        raise CollectionError(
            f"{where}: none of its {len(qrels.documents):,} judgements is about a caption and an image of "
            f"{collection.name}.",
            hint=_forms(qrels, collection),
            code="none-judgements-about-caption",
        )
    mask = fitting[task]
    rows = int(counts[task])
    sides = (queries.filter(mask), qrels.documents.filter(mask))
    caption, image = sides if task == "t2i" else sides[::-1]
    columns = [[qrels.name] * rows, [task] * rows, caption, image, pa.array(qrels.grades).filter(mask)]
    table = pa.table(dict(zip(JUDGEMENTS.names, columns, strict=True)), schema=JUDGEMENTS)
    left = len(qrels.documents) - rows
    tail = f", {left:,} about other images or captions left out" if left else ""
    return Judged(table, f"judgements {qrels.name} of {where}: {rows:,}{tail}")


def _forms(qrels: Qrels, collection: Collection) -> str:
    """Ids of both sides, in the direction that fits better."""
    captions, images = collection.captions["id"].to_pylist(), collection.images["id"].to_pylist()
    queries, documents = qrels.queries.to_pylist(), qrels.documents[:2_000].to_pylist()
    t2i = (captions, queries), (images, documents)
    i2t = (images, queries), (captions, documents)
    names = {id(captions): "captions of the collection", id(images): "images of the collection"}

    def closeness(pairs: Sequence[tuple[list[str], list[str]]]) -> int:
        return sum("they differ" in show_id_forms("", a, "", b) or bool(set(a) & set(b)) for a, b in pairs)

    closest = t2i if closeness(t2i) >= closeness(i2t) else i2t
    best = zip(("queries", "documents"), closest, strict=True)
    shown = [
        show_id_forms(names[id(own)], own, role, theirs) for role, (own, theirs) in best if not set(own) & set(theirs)
    ]
    return "the ids are different: " + "; ".join(shown) + "; give both the same form"


def _sniff(path: Path) -> bool:
    if not path.is_file() or not plain_name(path).lower().endswith(_SUFFIXES):
        return False
    if is_text_table(path) or plain_name(path).lower().endswith((".qrels", ".qrel", ".trec")):
        return bool(head(path).strip())
    return True


FORMAT = JudgementFormat(
    name="qrels",
    title="relevance judgements by ids",
    layout='TREC qrels ("query 0 document grade"), or CSV, TSV, JSON, Parquet with query, document and grade',
    reference="TREC; BEIR",
    sniff=_sniff,
    options=(
        Option("name", "the name of the set (default: that of the file)", ""),
        Option("task", "t2i (queries are captions) or i2t (default: what fits the ids)", "", one_of("t2i", "i2t")),
        Option("query", "the column of query ids (default: query_id, qid, …)"),
        Option("document", "the column of document ids (default: document_id, doc_id, docno, …)"),
        Option("grade", "the column of grades (default: grade, relevance, score, …)"),
    ),
    read=read,
    sets="one, of the name of the file",
    last=True,
)
