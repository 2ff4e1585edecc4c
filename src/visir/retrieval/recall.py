"""The effort that finds a wanted share of the exact answers: chosen on some questions, checked on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import Run

K = 10
"""Recall is of the best ten."""
QUESTIONS = 2000
"""Questions that are taken of those that are given, at most: one half chooses, the other checks."""
_LEAST, _DRAWN = 10, 400
_ERRORS = 2.0
"""Standard errors by which the wanted share must be exceeded: a single look is wrong in 1 of 40, and there are several
looks, of which those at efforts just below the right one may be."""


def drawn_of(documents: int) -> int:
    """Return how many of so many documents ask, where no questions are given."""
    return min(documents, max(_DRAWN, min(documents // 5, QUESTIONS)))


def questions_of(index: Any, given: Any) -> tuple[Any, bool]:
    """Return the questions, shuffled, and whether they are documents of the index, which then are no answers."""
    source, count = given, drawn_of(len(index.ids))
    if source is None:
        chosen = np.random.default_rng(0).choice(len(index.ids), count, replace=False)
        source = index.select(index.ids.take(pa.array(np.sort(chosen))))
    if len(source) < _LEAST:
        raise EmbeddingError(
            f"recall is measured with at least {_LEAST} questions, not {len(source)}.",
            hint="give more (queries=), or leave recall out",
            code="recall-questions",
        )
    order = np.random.default_rng(1).permutation(len(source))[:QUESTIONS]
    return source.select(source.ids.take(pa.array(order))), given is None


def exceeds(shares: NDArray[np.float64], wanted: float) -> bool:
    """Whether the mean of all questions, of which these are a sample, is the wanted one or more, nearly for certain."""
    # Where all is found of few questions, their spread is 0: at least what misses by chance would have.
    spread = max(shares.var(), wanted * (1 - wanted) / K)
    return bool(shares.mean() - _ERRORS * np.sqrt(spread / len(shares)) >= wanted)


def calibrated(
    index: Any, exact: Any, efforts: Sequence[dict[str, int]], wanted: float, given: Any = None
) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the first of some `efforts` that finds the `wanted` share of what `exact` finds, and what was measured.

    The share must be exceeded by two standard errors, so that other questions of the same kind find it too, in about 19
    of 20 indexes; half of the questions choose, and the others tell what is `found`.
    """
    questions, drawn = questions_of(index, given)
    middle = len(questions) // 2
    halves = questions.select(questions.ids[:middle]), questions.select(questions.ids[middle:])
    truths = [_answers(exact.search(half, K + drawn), drawn) for half in halves]
    effort: dict[str, int] = {}
    for effort in efforts:
        shares = _shares(_answers(index.search(halves[0], K + drawn, **effort), drawn), truths[0])
        if exceeds(shares, wanted):
            break
    checked = _shares(_answers(index.search(halves[1], K + drawn, **effort), drawn), truths[1])
    return effort, {
        "wanted": wanted,
        "found": round(float(checked.mean()), 4),
        "error": round(float(checked.std() / np.sqrt(len(checked))), 4),
        "questions": len(checked),
        "from": "the documents" if drawn else "given",
        "documents": len(index.ids),
    }


def _answers(run: Run, drawn: bool) -> list[set[str]]:
    ids = run.documents.take(pa.array(run.indices)).to_pylist()
    cuts = run.offsets.tolist()
    answers = []
    for query, start, stop in zip(run.queries.to_pylist(), cuts[:-1], cuts[1:], strict=True):
        answers.append({*[document for document in ids[start:stop] if not drawn or document != query][:K]})
    return answers


def _shares(answers: list[set[str]], truths: list[set[str]]) -> NDArray[np.float64]:
    return np.array([len(a & b) / len(b) for a, b in zip(answers, truths, strict=True) if b] or [1.0])
