"""The lines of the protocol on what was searched: the candidates and the queries of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from visir.fingerprint import hash_columns
from visir.records import Items, Task, gallery_line


def candidates_line(tasks: Sequence[Task]) -> str:
    """The protocol's line on the candidates of a task."""
    first = tasks[0]
    if first.skip_first:
        others = [replace(task, skip_first=False) for task in tasks]
        return f"{candidates_line(others)} · without the first answer of each query"
    if first.excluded is not None:
        excluded = first.excluded
        line = f"without {len(excluded.documents):,} excluded documents of single queries"
        return f"{candidates_line([replace(first, excluded=None)])} · {line} · {excluded.fingerprint[:12]}"
    if first.pools is not None:
        documents = f"{len(first.documents):,} {first.documents.title}{_kinds(first.documents, None)}"
        return f"{first.pools} · {documents} · {first.pools.fingerprint[:12]}"
    if len(tasks) == 1:
        size, _, rest = gallery_line(first.gallery).partition(" · ")
        return " · ".join(filter(None, [size + _kinds(first.documents, first.gallery.ids), rest]))
    together = hash_columns([pa.array([task.gallery.fingerprint for task in tasks])], sort=False)
    return f"{len(tasks)} × {gallery_line(first.gallery).rsplit(' · ', 1)[0]} · {together[:12]}"


def queries_line(tasks: Sequence[Task]) -> str:
    """The protocol's line on the queries of a task."""
    parts = [task.judgements() for task in tasks]
    count = int(np.sum([len(part) for part in parts]))
    fingerprint = hash_columns([pa.concat_arrays([part.queries for part in parts])])
    kinds = _kinds(tasks[0].queries, parts[0].queries) if len(tasks) == 1 else ""
    return f"{count:,} {tasks[0].queries.title}{kinds} · {fingerprint[:12]}"


def _kinds(items: Items, ids: pa.StringArray | None) -> str:
    """How many of these items are texts, images and both, where they do not all hold the same."""
    if not items.is_mixed:
        return ""
    some = items if ids is None or len(ids) == len(items) else items.select(ids)
    return f" ({some.holding})"
