"""A run cut down to some of its queries and to a smaller gallery, as if it had been searched so in the first place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import RunError
from visir.records import Gallery, Run
from visir.records.columns import strings


def is_whole(run: Run) -> bool:
    """Whether every query is answered with the whole gallery."""
    return bool((np.diff(run.offsets) >= run.gallery.size).all())


def restrict(run: Run, gallery: Gallery, queries: object = None) -> Run:
    """The run with the documents of `gallery` only, and the given queries only (None keeps all).

    What is left of a ranking is the ranking that a search over the smaller gallery would have given, as far down as it
    goes. A run that was cut at some depth goes less deep afterwards, and differently so for each query: the depth of
    the result is that of the *shortest* answer, so that no measure looks further than every query reaches.
    """
    if gallery.ids is None:
        raise RunError(f"the gallery ({gallery.description}) is only stated; a run cannot be restricted to it.")
    wanted = np.ones(len(run), bool)
    if queries is not None:
        wanted = pc.is_in(run.queries, strings(queries)).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    inside = pc.is_in(run.documents, gallery.ids).to_numpy(zero_copy_only=False)
    keep = wanted[row] & inside[run.indices]
    lengths = np.bincount(row[keep], minlength=len(run))[wanted]
    if len(lengths) == 0:
        raise RunError(f"run {run.name} ({run.task}): none of the wanted queries is in it.")
    return replace(
        run,
        queries=run.queries.filter(pa.array(wanted)),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=run.indices[keep],
        scores=run.scores[keep],
        gallery=gallery,
        depth=gallery.size if is_whole(run) else int(lengths.min()),
    )
