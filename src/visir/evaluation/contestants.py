"""What people hand in to be compared: evaluations, folders, runs with judgements, by name or in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.collections import read_qrels
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.brittleness_runs import evaluate_run
from visir.evaluation.chance import check
from visir.evaluation.classification.labelling import CLASSIFICATION, load_classification
from visir.evaluation.classification.result import Classification, method_title
from visir.evaluation.results import Evaluation, is_result, load
from visir.evaluation.systems.vectors import is_run
from visir.fingerprint import hash_columns
from visir.records import Gallery, Protocol, Result, Run
from visir.retrieval.formats import read_run
from visir.storage import is_made_by_visir

# A classification as the result of an evaluation: each picture is a query, the classes are the candidates.

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


USUAL = ("nDCG@10", "AP", "RR", "R@10")
"""The measures of runs when nothing is named."""


@dataclass(frozen=True)
class Contestants:
    """Results that are to be compared."""

    results: tuple[Result, ...]  # the results, the baseline first
    labels: tuple[str, ...]  # their names, all different
    allow: tuple[str, ...] = ()  # the protocol fields that may differ because of what they are
    notes: tuple[str, ...] = ()  # notes for the reader


def contestants_of(given: Sequence[Any], qrels: Any = None, measures: Sequence[str] | None = None) -> Contestants:
    """Open what is to be compared."""
    named = _named(given)
    if len(named) < 2:
        raise VisirError(
            "a comparison needs at least two results.",
            hint="visir.compare(first, second), or visir.compare({'a': run, 'b': run}, qrels=qrels)",
            code="comparison-needs-least-two",
        )
    if qrels is None:
        results = [_result(value, name) for name, value in named]
        return Contestants(tuple(results), _labels(results))
    return _of_runs([(name, _run(value, name)) for name, value in named], qrels, measures)


def _named(given: Sequence[Any]) -> list[tuple[str | None, Any]]:
    """(name or None, value) of each, from a row, a list, or a dictionary."""
    if len(given) == 1 and isinstance(given[0], Mapping) and not _is_answers(given[0]):
        return [(str(name), value) for name, value in given[0].items()]
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = given[0]
    return [(None, value) for value in given]


def _is_answers(value: Mapping[Any, Any]) -> bool:
    """Whether a dictionary is a run itself, {query: {document: score}}, and not runs by name."""
    answers = [answer for answer in value.values() if isinstance(answer, Mapping)]
    return len(answers) == len(value) > 0 and not any(
        isinstance(score, Mapping) for answer in answers for score in list(answer.values())[:1]
    )


def _result(value: Any, name: str | None) -> Result:
    if isinstance(value, (str, Path)):
        result: Any = result_in(value)
    elif isinstance(value, Classification):
        result = as_result(value)
    else:
        result = value.result if isinstance(value, Evaluation) else value
    if not isinstance(result, Result):
        raise _needs_judgements(f"a {type(value).__name__}")
    return result if name is None else replace(result, system=name)


def result_in(folder: str | Path) -> Result:
    """Read the result of a folder, whether it is of `visir evaluate` or of `visir classify`."""
    if is_run(folder) and not is_result(folder):
        raise _needs_judgements(repr(str(folder)))
    if is_made_by_visir(folder, CLASSIFICATION.name):
        return as_result(load_classification(folder))
    return load(folder)


def _needs_judgements(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is no result, and runs need judgements.",
        hint="visir.compare(first, second, qrels='qrels.txt'), or --qrels qrels.txt; results are what visir.evaluate "
        "returns or saved",
        code="no-result-runs-need",
    )


def _run(value: Any, name: str | None) -> Run:
    runs = value.runs if isinstance(value, Evaluation) else None
    if runs is not None and len(runs) == 1:
        value = next(iter(runs.values()))
    elif isinstance(value, (Evaluation, Result)):
        raise ConfigurationError(
            f"{value.system} is a result already; judgements are for runs.", hint="leave qrels out, or give its runs"
        )
    return read_run(value, name=name)


def _of_runs(runs: Sequence[tuple[str | None, Run]], qrels: Any, measures: Sequence[str] | None) -> Contestants:
    """The results of runs with one set of judgements; they are searches of one gallery, as far as that is known."""
    judged = read_qrels(qrels)
    known: Gallery | None = next((run.gallery for _, run in runs if run.gallery.is_known), None)
    tasks = [run.task for _, run in runs]
    notes: list[str] = []
    results = []
    for name, run in runs:
        if known is not None and not run.gallery.is_known:
            notes.append(check(run, known) or "")
            run = replace(run, gallery=known)
        run = replace(run, task=tasks[0], name=name or run.name)
        results.append(evaluate_run(judged, run, measures=measures or USUAL).result)
        notes += [f"{run.name}: {note}" for note in results[-1].notes]
    depths = [run.depth for _, run in runs]
    if len(set(depths)) > 1:
        notes.append(
            f"answers have up to {' | '.join(f'{depth:,}' for depth in depths)} documents; what is not among them "
            "counts as not found, so measures without a cutoff favour the longer"
        )
    return Contestants(tuple(results), _labels(results), ("depth",), tuple(filter(None, notes)))


def _labels(results: Sequence[Result]) -> tuple[str, ...]:
    """The systems' names, numbered where they repeat."""
    names = [result.system for result in results]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(names)
    )
