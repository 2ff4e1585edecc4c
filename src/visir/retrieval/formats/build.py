"""Make a run from the parallel columns of a file, and check them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import counted
from visir.errors import CollectionError, RunError
from visir.records import Gallery, Qrels, Run, strings

Order = Literal["rank", "score"]
"""The order of equal scores: by the rank column of the file, which is the order of its authors, whose scores may be
rounded ("rank"), or by document id ("score"). Scores decide in both; where ranks repeat, equal scores go by document id
too. trec_eval ignores the rank column and breaks ties by *falling* document id."""

NOTES = "notes"
"""Where the provenance of a run says what a reader must know of how it was read."""
UNNAMED = "run"
"""The task of a run that does not say its task."""


def run_of(
    name: str,
    task: str | None,
    gallery: Gallery | None,
    queries: object,
    documents: object,
    scores: NDArray[Any],
    ranks: NDArray[Any] | None,
    *,
    order: Order,
    depth: int | None,
    where: Callable[[int], str],
    provenance: dict[str, Any] | None = None,
) -> Run:
    """Make a run from parallel columns; queries keep the order in which they first occur."""
    # queries: (m,) query ids.
    # documents: (m,) document ids.
    # scores: (m,) scores.
    # ranks: (m,) ranks, or None.
    query, document = strings(queries), strings(documents)
    gallery = gallery or Gallery.unknown()
    if len(query) == 0:
        raise RunError(f"{where(0)}: the run is empty.")
    coded = query.dictionary_encode()
    code = coded.indices.to_numpy().astype(np.int64)
    if not np.isfinite(scores).all():
        raise RunError(
            f"{where(int(np.flatnonzero(~np.isfinite(scores))[0]))}: the score is not a finite number.",
            hint="leave out what was not scored; give what is to be last a low number",
        )
    _check_in_gallery(document, gallery, where)
    used = np.zeros(len(code)) if order == "score" or ranks is None else ranks
    seats = np.lexsort((used, -scores, code))
    inner = code[seats][1:] == code[seats][:-1]
    if np.any(inner & (np.diff(scores[seats]) == 0) & (np.diff(used[seats]) == 0)):
        by_id = np.empty(len(document), np.int64)
        by_id[pc.sort_indices(document).to_numpy()] = np.arange(len(document))
        seats = np.lexsort((by_id, used, -scores, code))
    notes = (
        [] if used is not ranks else _notes_on_ranks(code[seats], ranks[seats], scores[seats], len(coded.dictionary))
    )
    _check_no_duplicates(code, document, query, where)
    answered = np.bincount(code, minlength=len(coded.dictionary))
    listed = document.take(pa.array(seats)).dictionary_encode()
    return Run(
        name,
        task or UNNAMED,
        strings(coded.dictionary),
        np.concatenate([[0], np.cumsum(answered)]).astype(np.int64),
        strings(listed.dictionary),
        listed.indices.to_numpy().astype(np.int32),
        narrow(scores[seats]),
        gallery,
        depth or int(answered.max()),
        (provenance or {}) | ({NOTES: notes} if notes else {}),
    )


def narrow(scores: NDArray[Any]) -> NDArray[Any]:
    """Return scores as float32 if that loses nothing, else as float64: a text file does not state the type."""
    small = scores.astype(np.float32)
    return small if np.array_equal(small.astype(np.float64), scores.astype(np.float64)) else scores.astype(np.float64)


def check_whole_grades(qrels: Qrels) -> None:
    """Check that all grades are whole numbers, as trec_eval and similar tools require."""
    fractions = qrels.grades[qrels.grades % 1 != 0]
    if len(fractions):
        raise CollectionError(
            f"qrels {qrels.name}: the grade {fractions[0]} is not a whole number, as TREC asks.",
            hint="scale the grades, or keep only positives at a threshold",
            code="grade-not-whole-number",
        )


def _check_in_gallery(documents: pa.StringArray, gallery: Gallery, where: Callable[[int], str]) -> None:
    if gallery.ids is None:
        return
    outside = np.flatnonzero(~pc.is_in(documents, gallery.ids).to_numpy(zero_copy_only=False))
    if len(outside):
        raise RunError(
            f"{where(int(outside[0]))}: document {documents[int(outside[0])].as_py()!r} is not in the gallery "
            f"({gallery.size:,} · {gallery.description}); {len(outside):,} such rows in all.",
            hint="was it made over a larger gallery? Declare that one",
        )


def _notes_on_ranks(code: NDArray[np.int64], ranks: NDArray[Any], scores: NDArray[Any], queries: int) -> list[str]:
    """A note where the ranks of a query repeat, or are in another order than its scores."""
    inner = code[1:] == code[:-1]
    odd = len(np.unique(code[1:][inner & ~(np.diff(ranks) > 0)]))
    if not odd:
        return []
    falls = np.diff(scores) < 0
    reverse = bool((inner & falls).any() and (np.diff(ranks) < 0)[inner & falls].all())
    return [
        f"the ranks of {odd:,} of {counted(queries, 'queries')} repeat or contradict the scores; the scores decide, "
        "and among equal ones the document id"
        + (". Everywhere the highest score has the last rank: if these are distances, negate them" if reverse else "")
    ]


def _check_no_duplicates(
    code: NDArray[np.int64], document: pa.StringArray, query: pa.StringArray, where: Callable[[int], str]
) -> None:
    coded = document.dictionary_encode()
    pairs = code * len(coded.dictionary) + coded.indices.to_numpy()
    order = np.argsort(pairs, kind="stable")
    twice = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if len(twice):
        row = int(order[twice[0] + 1])
        raise RunError(f"{where(row)}: query {query[row].as_py()!r} lists document {document[row].as_py()!r} twice.")
