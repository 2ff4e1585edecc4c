"""Judgements and a run, and nothing else: measured as ranx and ir_measures do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections import read_qrels
from visir.errors import ConfigurationError
from visir.evaluation.results import Evaluation
from visir.evaluation.scoring import canonical, score
from visir.evaluation.second_stage import stages_of
from visir.evaluation.systems.runs import origins
from visir.fingerprint import hash_columns
from visir.records import UNDECLARED, Protocol, Qrels, Ranks, Recall, Run, Ties, gallery_line, show_id_forms
from visir.retrieval.formats import read_run
from visir.retrieval.formats.build import NOTES
from visir.retrieval.ranks import ranks_of

USUAL = ("ndcg@10", "map", "mrr", "hit@1", "precision@10", "recall@10", "recall@100", "rprecision")
"""The measures of a run when nothing is named."""


def check_order(qrels: Any, run: Any) -> None:
    """Refuse dictionaries that are given in the wrong order, as far as their values show it."""
    if _are_whole(qrels) is False and _are_whole(run):
        raise ConfigurationError(
            "the first has scores with fractions, the second whole numbers alone: judgements come first, then the run.",
            hint="visir.evaluate(qrels, run); for grades with fractions: "
            "visir.evaluate(visir.collections.read_qrels(qrels), run)",
            code="judgements-come-first-run",
        )


def _are_whole(given: Any) -> bool | None:
    """Whether all values of a dictionary of dictionaries are whole numbers; None where it is something else."""
    if not isinstance(given, Mapping) or not all(isinstance(row, Mapping) for row in given.values()):
        return None
    values = (value for row in given.values() for value in row.values() if isinstance(value, (int, float)))
    return all(float(value).is_integer() for value in values)


def evaluate_run(
    qrels: Any,
    run: Any,
    *,
    measures: Sequence[str] | None = None,
    recall: Recall | None = None,
    ties: Ties = "id",
    name: str | None = None,
    similarity: str | None = None,
) -> Evaluation:
    """Measure a run with judgements alone; `visir.evaluate(qrels, run)` calls this."""
    # Every judged query counts; one without an answer counts as failed. What is not in the answers was not found, so a
    # measure may look deeper than they reach.
    declared: Recall = recall or "recall"
    names = canonical(measures or USUAL, declared)
    check_order(qrels, run)
    judged: Qrels = read_qrels(qrels)
    answers: Run = read_run(run, name=name)
    queries = np.repeat(judged.queries.to_numpy(zero_copy_only=False), np.diff(judged.offsets))
    started = time.perf_counter()
    ranks = ranks_of(answers, judged, ties)
    protocol = Protocol(
        collection=judged.name,
        collection_fingerprint=hash_columns([pa.array(queries), judged.documents, pa.array(judged.grades)]),
        split="",
        relevance=judged.name,
        galleries={answers.task: gallery_line(answers.gallery) if answers.gallery.is_known else "not known"},
        queries={answers.task: f"{len(judged):,} queries"},
        captions="",
        similarity=similarity or answers.provenance.get("similarity") or UNDECLARED,
        recall=declared,
        ties=ties,
        depth=ranks.depth,
        **stages_of([answers]),
    )
    result = score(
        answers.name,
        {answers.task: [ranks]},
        protocol,
        measures=names,
        notes=_notes(answers, judged, ranks),
        timing={"rank": time.perf_counter() - started},
        beyond_depth=True,
    )
    result.origins.update(origins({answers.task: answers}))
    return Evaluation(result, {answers.task: answers}, {answers.task: judged})


def _notes(run: Run, qrels: Qrels, ranks: Ranks) -> list[str]:
    notes = list(run.provenance.get(NOTES, ()))
    missing = len(qrels) - int(pc.sum(pc.is_in(qrels.queries, run.queries)).as_py() or 0)
    if missing:
        notes.append(f"{missing:,} of {len(qrels):,} judged queries are not answered; they count as failed")
    more = len(run) - (len(qrels) - missing)
    if more:
        notes.append(f"{more:,} answered queries are not judged; they do not count")
    if np.any(qrels.grades != np.floor(qrels.grades)):
        notes.append("the judgements have grades that are no whole numbers; are judgements and run swapped?")
    without = int((ranks.positives == 0).sum())
    if without:
        notes.append(f"{without:,} queries have no positive; they count as failed")
    if ranks.depth is not None and (missing or run.gallery.is_known):
        notes.append(f"answers have up to {run.depth:,} documents; what is not among them counts as not found")
    if not np.any(ranks.ranks > 0):
        forms = show_id_forms("run", run.documents.to_pylist(), "judgements", qrels.documents.to_pylist())
        notes.append(f"no right document is in any answer; do the ids have one form? {forms}")
    return notes
