"""Restrict a run to some of its queries and to a smaller gallery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import RunError
from visir.records import Gallery, Run
from visir.records.columns import strings


def is_whole(run: Run) -> bool:
    """Whether a run ranks the whole gallery for every query."""
    return run.gallery.ends_by(int(np.diff(run.offsets).min()))


def restrict(run: Run, gallery: Gallery, queries: object = None) -> Run:
    """Restrict a run to a smaller gallery and to some queries."""
    # The rest of a ranking is the ranking that a search over the smaller gallery gives, as far as it reaches. A run
    # that was cut at some depth then has fewer documents, and a different number for each query. The depth of the
    # result is that of the *shortest* answer, so that no measure looks deeper than every query reaches.
    if gallery.ids is None:
        raise RunError(f"the gallery ({gallery.description}) is only stated; a run cannot be restricted to it.")
    is_kept = np.ones(len(run), bool)
    if queries is not None:
        is_kept = pc.is_in(run.queries, strings(queries)).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    inside = pc.is_in(run.documents, gallery.ids).to_numpy(zero_copy_only=False)
    keep = is_kept[row] & inside[run.indices]
    lengths = np.bincount(row[keep], minlength=len(run))[is_kept]
    if len(lengths) == 0:
        raise RunError(f"run {run.name} ({run.task}): none of the wanted queries is in it.")
    return replace(
        run,
        queries=run.queries.filter(pa.array(is_kept)),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=run.indices[keep],
        scores=run.scores[keep],
        gallery=gallery,
        depth=gallery.size if is_whole(run) else int(lengths.min()),
    )
