"""Make a run from the parallel columns of a file, and check them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import CollectionError, RunError
from visir.records import Gallery, Qrels, Run, strings

Order = Literal["rank", "score"]
"""The order of an answer: by the rank column of the file (the order of its authors; their scores may be rounded), or by
the scores, ties by document id. trec_eval ignores the rank column and breaks ties by *falling* document id."""

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
    """Make a run from parallel columns; queries keep the order in which they first occur.

    Args:
        name: The name of the system.
        task: The name of the task; None is `UNNAMED`.
        gallery: The candidates; None where nobody knows them.
        queries: (m,) query ids.
        documents: (m,) document ids.
        scores: (m,) scores.
        ranks: (m,) ranks, or None.
        order: "rank" or "score". Under "rank" the ranks of a query must differ, and scores must not rise along them.
        depth: How many documents per query the search was to return; None is the length of the longest answer.
        where: Returns the place of row i ("run.txt, line 7") for error messages.
        provenance: How the run was computed.

    Raises:
        RunError: The columns are empty, a score is not finite, a document is outside a listed gallery or occurs twice,
            or ranks repeat or disagree with the scores.
    """
    query, document = strings(queries), strings(documents)
    gallery = gallery or Gallery.unknown()
    if len(query) == 0:
        raise RunError(f"{where(0)}: the run is empty.")
    coded = query.dictionary_encode()
    code = coded.indices.to_numpy().astype(np.int64)
    if not np.isfinite(scores).all():
        raise RunError(f"{where(int(np.flatnonzero(~np.isfinite(scores))[0]))}: the score is not a finite number.")
    _check_in_gallery(document, gallery, where)
    if order == "rank" and ranks is not None:
        seats = np.lexsort((ranks, code))
        _check_order(code[seats], ranks[seats], scores[seats], seats, query, where)
    else:
        by_id = np.empty(len(document), np.int64)
        by_id[pc.sort_indices(document).to_numpy()] = np.arange(len(document))
        seats = np.lexsort((by_id, -scores, code))
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
        provenance or {},
    )


def narrow(scores: NDArray[Any]) -> NDArray[Any]:
    """Return scores as float32 if that loses nothing, else as float64: a text file does not state the type."""
    small = scores.astype(np.float32)
    return small if np.array_equal(small.astype(np.float64), scores.astype(np.float64)) else scores.astype(np.float64)


def check_whole_grades(qrels: Qrels) -> None:
    """Check that all grades are whole numbers, as trec_eval and similar tools require.

    Raises:
        CollectionError: A grade is not a whole number.
    """
    fractions = qrels.grades[qrels.grades % 1 != 0]
    if len(fractions):
        raise CollectionError(
            f"qrels {qrels.name}: the grade {fractions[0]} is not a whole number, as TREC asks.",
            hint="scale the grades, or keep only positives at a threshold",
        )


def _check_in_gallery(documents: pa.StringArray, gallery: Gallery, where: Callable[[int], str]) -> None:
    if gallery.ids is None:
        return
    outside = np.flatnonzero(~pc.is_in(documents, gallery.ids).to_numpy(zero_copy_only=False))
    if len(outside):
        raise RunError(
            f"{where(int(outside[0]))}: document {documents[int(outside[0])].as_py()!r} is not in the gallery "
            f"({gallery.size:,} · {gallery.description}); {len(outside):,} such rows in all.",
            hint="was it made over a larger gallery? Declare that one, or Gallery.stated(...) if it is not at hand",
        )


def _check_order(
    code: NDArray[np.int64],
    ranks: NDArray[Any],
    scores: NDArray[Any],
    seats: NDArray[np.int64],
    query: pa.StringArray,
    where: Callable[[int], str],
) -> None:
    inner = code[1:] == code[:-1]
    same = np.flatnonzero(inner & (ranks[1:] == ranks[:-1]))
    if len(same):
        row = int(seats[same[0] + 1])
        raise RunError(
            f"{where(row)}: query {query[row].as_py()!r} has rank {ranks[same[0]]} twice.",
            hint="if the rank column means nothing, read by score: order='score'",
        )
    rising = np.flatnonzero(inner & (scores[1:] > scores[:-1]))
    if len(rising):
        row = int(seats[rising[0] + 1])
        raise RunError(
            f"{where(row)}: query {query[row].as_py()!r}: the score {scores[rising[0] + 1]} at rank "
            f"{ranks[rising[0] + 1]} is above that of the rank before.",
            hint="rank and score disagree; if the scores are right, read by score: order='score'",
        )


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
