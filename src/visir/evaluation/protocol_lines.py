"""The lines of the protocol on what was searched: the candidates and the queries of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from visir.fingerprint import hash_columns
from visir.records import Task, gallery_line


def candidates_line(tasks: Sequence[Task]) -> str:
    """The protocol's line on the candidates of a task.

    Args:
        tasks: The task of each fold.

    Returns:
        The line.
    """
    first = tasks[0]
    if first.skip_first:
        others = [replace(task, skip_first=False) for task in tasks]
        return f"{candidates_line(others)} · without the first answer of each query"
    if first.excluded is not None:
        excluded = first.excluded
        line = f"without {len(excluded.documents):,} excluded documents of single queries"
        return f"{candidates_line([replace(first, excluded=None)])} · {line} · {excluded.fingerprint[:12]}"
    if first.pools is not None:
        size = len(first.documents)
        return f"{first.pools} · {size:,} {first.documents.title} · {first.pools.fingerprint[:12]}"
    if len(tasks) == 1:
        return gallery_line(first.gallery)
    together = hash_columns([pa.array([task.gallery.fingerprint for task in tasks])], sort=False)
    return f"{len(tasks)} × {gallery_line(first.gallery).rsplit(' · ', 1)[0]} · {together[:12]}"


def queries_line(tasks: Sequence[Task]) -> str:
    """The protocol's line on the queries of a task.

    Args:
        tasks: The task of each fold.

    Returns:
        The line.
    """
    parts = [task.judgements() for task in tasks]
    count = int(np.sum([len(part) for part in parts]))
    fingerprint = hash_columns([pa.concat_arrays([part.queries for part in parts])])
    return f"{count:,} {tasks[0].queries.title} · {fingerprint[:12]}"
