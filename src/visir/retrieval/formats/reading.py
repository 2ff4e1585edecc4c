"""`read_run`: whatever holds a run becomes a `Run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from visir.errors import RunError
from visir.records import Gallery, Run
from visir.records.columns import as_array
from visir.retrieval.formats.build import run_of
from visir.retrieval.formats.dictionaries import from_dict, from_frame, from_ranx
from visir.retrieval.formats.files import read_file

_TAKEN = (
    "a file (run.trec, run.json, run.parquet), {query: {document: score}}, a data frame with the columns query_id, "
    "document_id and score, (scores, query_ids, document_ids), a list of (query, document, score), or a ranx.Run"
)


def read_run(
    source: Any,
    *,
    task: str | None = None,
    gallery: Gallery | None = None,
    name: str | None = None,
    format: str | None = None,
    **options: Any,
) -> Run:
    """Make a `Run` of whatever holds one.

    Args:
        source: One of:

            - a file: TREC (.trec .run .txt .res), JSON, Parquet; TREC and JSON may be compressed (.gz, .xz);
            - a dictionary {query: {document: score}}, as of ranx, ir_measures and pytrec_eval;
            - a data frame of pandas or polars or an Arrow table with columns such as query_id, document_id, score
              (names of ir_measures, ranx, PyTerrier and BEIR are known too; a column `rank` orders equal scores);
            - a tuple (scores, query_ids, document_ids) of a matrix (n, m) and the ids of its rows and columns;
            - a list of (query, document, score), such as `ir_measures.ScoredDoc`;
            - a `ranx.Run`, or a `Run`.
        task: The name of the task, e.g. "t2i"; needed for an evaluation of a task of this name.
        gallery: What was searched; left out where nobody knows it. An evaluation knows it.
        name: The name of the system; by default that of the file or the run.
        format: The format of a file, where its suffix does not tell: "trec", "json", "parquet".
        options: `depth` (how many documents per query the search was to return; for a matrix also how many are
            taken); for TREC files, Parquet files and frames `order`: what decides among equal scores, their "rank"
            (the default) or, with "score", the document id.

    Raises:
        RunError: It is none of these, or it has a fault.

    Example:
        >>> import visir
        >>> run = visir.read_run({"q1": {"a": 0.5, "b": 0.75}}, name="mine")
        >>> run["q1"], run.top("q1", 1)
        ([('b', 0.75), ('a', 0.5)], ['b'])
        >>> visir.read_run(([[0.5, 0.75]], ["q1"], ["a", "b"])).to_dict()
        {'q1': {'b': 0.75, 'a': 0.5}}
    """
    if isinstance(source, str | Path):
        return read_file(source, format=format, task=task, gallery=gallery, name=name, **options)
    if isinstance(source, Run):
        gallery = gallery or source.gallery
        return replace(source, name=name or source.name, task=task or source.task, gallery=gallery)
    if type(source).__module__.partition(".")[0] == "ranx":
        return from_ranx(source, task, gallery, name=name)
    if isinstance(source, Mapping):
        wrong = next((answer for answer in source.values() if not isinstance(answer, Mapping)), None)
        if wrong is not None:
            raise RunError(
                f"a dictionary of {type(wrong).__name__} is no run.",
                hint="give {query: {document: score}}, e.g. {'q1': {'a.jpg': 0.5, 'b.jpg': 0.25}}",
            )
        return from_dict(source, task, gallery, name=name or "dictionary", **options)
    if hasattr(source, "columns"):
        return from_frame(source, task, gallery, name=name or "frame", **options)
    if isinstance(source, tuple) and len(source) == 3 and not isinstance(source[0], str):
        return _from_matrix(source, task, gallery, name=name or "matrix", **options)
    if isinstance(source, Iterable):
        return _from_triples(list(source), task, gallery, name=name or "list", **options)
    raise RunError(f"{type(source).__name__} is no run.", hint=f"give {_TAKEN}")


def _from_matrix(
    source: tuple[Any, Any, Any], task: str | None, gallery: Gallery | None, *, name: str, depth: int | None = None
) -> Run:
    """A run from a matrix of scores; by falling score, ties by document id."""
    given, query_ids, document_ids = source
    scores = as_array(given)
    queries, documents = [str(name) for name in query_ids], [str(name) for name in document_ids]
    if scores.shape != (len(queries), len(documents)):
        raise RunError(
            f"the scores have the shape {scores.shape}, for {len(queries)} queries and {len(documents)} documents.",
            hint="give (scores, query_ids, document_ids), with one row of scores for each query",
            code="scores-shape-queries-documents",
        )
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise RunError(
            f"the score of query {queries[row]!r} and document {documents[column]!r} is not finite.",
            code="score-query-document-not",
        )
    count = min(depth or len(documents), len(documents))
    by_id = np.argsort(np.array(documents, object), kind="stable")  # a stable sort then leaves ties in this order
    best = by_id[np.argsort(-scores[:, by_id].astype(np.float64), axis=1, kind="stable")[:, :count]]
    rows = np.repeat(np.arange(len(queries)), count)
    return run_of(
        name,
        task,
        gallery or Gallery.of("text+image", documents, "the columns of the matrix"),
        [queries[row] for row in rows],
        [documents[column] for column in best.ravel()],
        scores[rows, best.ravel()].astype(np.float64),
        None,
        order="score",
        depth=depth,
        where=lambda i: f"matrix, query {queries[rows[i]]!r}" if len(rows) else "matrix",
    )


def _from_triples(
    rows: list[Any], task: str | None, gallery: Gallery | None, *, name: str, depth: int | None = None
) -> Run:
    """A run from (query, document, score) in any order; by falling score, ties by document id."""
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != 3:
            raise RunError(f"a list of {type(row).__name__} is no run: {row!r}.", hint=f"give {_TAKEN}")
    return run_of(
        name,
        task,
        gallery,
        [str(query) for query, _, _ in rows],
        [str(document) for _, document, _ in rows],
        np.array([score for _, _, score in rows], np.float64),
        None,
        order="score",
        depth=depth,
        where=lambda i: f"list, row {i}",
    )
