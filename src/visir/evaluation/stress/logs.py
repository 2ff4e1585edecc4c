"""The study of the brittleness paper, computed from its authors' logs instead of our own searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from visir.errors import RunError
from visir.evaluation.brittleness_runs import Log, evaluate_log, read
from visir.evaluation.stress.effect import ConditionOutcome
from visir.evaluation.stress.stress import Stress, assemble
from visir.records import PLAIN, Recall
from visir.robustness.perturbations import PERTURBATIONS


def stress_logs(folder: str | Path, *, recall: Recall = "hit") -> Stress:
    """Compute the effects in the logs of one model on one collection."""
    # Text-to-image only: the authors perturbed no pictures. A caption counts as changed if its text differs from that
    # in the unperturbed log.
    place = Path(folder).resolve() / "t2i"
    if not (place / f"{PLAIN}.parquet").is_file():
        raise RunError(f"{place}: no unperturbed log ({PLAIN}.parquet).", hint="changes are measured from it")
    plain = read(place / f"{PLAIN}.parquet")
    before = evaluate_log(plain, recall=recall)
    outcomes = []
    for name in PERTURBATIONS:
        path = place / f"{name}.parquet"
        if path.is_file():
            outcomes.append(_outcome(plain, read(path), name, recall))
    queries = plain.qrels.queries.to_pylist()
    captions = pa.table(
        {
            "id": plain.qrels.queries,
            "text": [plain.texts[query] for query in queries],
            "image_id": plain.qrels.documents,  # each caption has one image
        }
    )
    return assemble(
        plain.system, before.result, before.runs, before.qrels, outcomes, captions, notes=before.result.notes
    )


def _outcome(plain: Log, log: Log, name: str, recall: Recall) -> ConditionOutcome:
    if not log.qrels.queries.equals(plain.qrels.queries):
        raise RunError(f"{log.run.provenance['source']}: asks other queries than the unperturbed log.")
    perturbation = PERTURBATIONS.get(name)
    changed = {
        query: log.texts[query] for query in log.qrels.queries.to_pylist() if log.texts[query] != plain.texts[query]
    }
    evaluated = evaluate_log(log, recall=recall)
    return ConditionOutcome(
        name,
        perturbation.title,
        perturbation.family,
        name,
        "t2i",
        np.array([query in changed for query in log.qrels.queries.to_pylist()]),
        evaluated.result,
        log.run,
        changed,
    )
