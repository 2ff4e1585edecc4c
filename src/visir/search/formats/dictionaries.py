"""Runs as nested dictionaries, and as ir_measures and ranx take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from visir.errors import MissingPackageError
from visir.records import Gallery, Qrels, Run
from visir.search.formats.build import check_whole_grades, run_of

if TYPE_CHECKING:
    import ranx


def to_dict(run: Run, *, keep_order: bool = False) -> dict[str, dict[str, float]]:
    """{query: {document: score}}, best first.

    Tools that take this form sort by score and break ties in their own way: trec_eval (and so ir_measures) by falling
    document id, ranx by its sorting. With `keep_order` the scores are -rank instead, free of ties, so that any of them
    measures the very order of this run.
    """
    ids = run.documents.to_pylist()
    lengths = np.diff(run.offsets)
    ranks = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths) + 1
    scores = (-ranks if keep_order else run.scores).astype(np.float64).tolist()
    indices = run.indices.tolist()
    cuts = zip(run.queries.to_pylist(), run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    return {q: {ids[indices[e]]: scores[e] for e in range(a, b)} for q, a, b in cuts}


def from_dict(
    answers: Mapping[str, Mapping[str, float]],
    task: str,
    gallery: Gallery,
    *,
    name: str = "imported",
    depth: int | None = None,
    where: str = "dictionary",
) -> Run:
    """From {query: {document: score}}: by falling score, ties by document id.

    A query with nothing is left out; it counts as not answered, which is the same.
    """
    rows = [(query, document, score) for query, answer in answers.items() for document, score in answer.items()]
    return run_of(
        name,
        task,
        gallery,
        [query for query, _, _ in rows],
        [document for _, document, _ in rows],
        np.array([score for _, _, score in rows], np.float64),
        None,
        order="score",
        depth=depth,
        where=lambda i: f"{where}, query {rows[i][0]!r}" if rows else where,
    )


def to_ir_measures(run: Run) -> dict[str, dict[str, float]]:
    """What `ir_measures.calc(measures, qrels, run)` takes: this run's order, free of ties. Qrels: `to_dict(qrels)`."""
    return to_dict(run, keep_order=True)


def qrels_to_dict(qrels: Qrels) -> dict[str, dict[str, int]]:
    """{query: {document: grade}} with whole grades, as ir_measures and ranx take them; other grades are refused."""
    check_whole_grades(qrels)
    return {query: {d: int(grade) for d, grade in judged.items()} for query, judged in qrels.to_dict().items()}


def to_ranx(run: Run, *, keep_order: bool = True) -> ranx.Run:
    """A `ranx.Run` of the same name."""
    return _ranx().Run(to_dict(run, keep_order=keep_order), name=run.name)


def from_ranx(run: Any, task: str, gallery: Gallery) -> Run:
    """From a `ranx.Run`: by falling score, ties by document id."""
    return from_dict(run.to_dict(), task, gallery, name=run.name or "ranx", where=f"ranx run {run.name}")


def _ranx() -> Any:
    try:
        import ranx
    except ImportError:
        raise MissingPackageError("ranx", extra="interop", purpose="A run for ranx") from None
    return ranx
