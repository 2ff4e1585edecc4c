"""A classification as the result of an evaluation: each picture is a query, the classes are the candidates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from visir.evaluation.classification.result import Classification, method_title
from visir.fingerprint import hash_columns
from visir.records import Protocol, Result

WITH_PROMPTS = ("zero-shot", "tip-adapter", "tip-adapter-f")
"""The methods whose numbers depend on the templates."""


def as_result(classification: Classification) -> Result:
    """The values of every picture, so that two classifications can be compared as other results are."""
    # Top-1 and top-5 are hit@1 and hit@5. Each method with its number of shots is a task. Of several draws a picture
    # has the mean, so a test looks at the pictures, and the shots are those that were drawn.
    rows = dict(classification.protocol)
    ids, classes, names = (
        pa.array(column, pa.string()) for column in (classification.ids, classification.classes, classification.names)
    )
    pictures = hash_columns([ids, classes.take(pa.array(classification.truth))])
    cutoffs = (1, 5) if len(classes) > 5 else (1,)
    tables, candidates, queries = {}, {}, {}
    for (method, shots), predictions in classification.predictions.items():
        title = method_title(method, shots)
        values = {f"hit@{k}": (predictions.ranks <= k).mean(axis=0) for k in cutoffs}
        tables[title] = pa.table({"query_id": ids, **values})
        prompts = rows.get("prompts", "") if method in WITH_PROMPTS else ""
        trained = [rows.get(name, "") for name in ("drawn", "settings")] if shots else []
        candidates[title] = _line(f"{len(classes):,} classes · {hash_columns([classes, names])[:12]}", prompts)
        queries[title] = _line(f"{len(ids):,} pictures · {pictures[:12]}", *trained)
    protocol = Protocol(
        collection=classification.source,
        collection_fingerprint=pictures,
        split=rows.get("split", "all"),
        relevance="classes",
        galleries=candidates,
        queries=queries,
        ties="pessimistic",
    )
    aggregates = {
        title: {name: float(np.mean(table[name].to_numpy())) for name in table.column_names[1:]}
        for title, table in tables.items()
    }
    return Result(classification.model, protocol, tables, aggregates, notes=classification.notes)


def _line(*parts: str) -> str:
    return "; ".join(filter(None, parts))
