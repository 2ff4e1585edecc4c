"""An evaluation of category-to-image search on disk: three plain open files, written atomically.

result.json        per system and setting: means and spread over the splits, seen and unseen, wrong first answers,
                   the protocol of each split; and every comparison
per_query.parquet  system, setting, split, query_id, query, relevant, seen, and one column per measure
answers.parquet    system, setting, split, query_id, rank, product_id, score, relevant: the first 100 products
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.evaluation.scoring import versions
from visir.products.evaluation import CategoryEvaluation, Trial
from visir.products.landing import first_answers, hits
from visir.products.relevance import Setting
from visir.storage import FolderChange, FolderKind, new_folder

CATEGORIES_RESULT = FolderKind(
    "categories-result", "an evaluation of categories", remedy="visir products evaluate … --out FOLDER"
)

FILES = {
    "result.json": "means, spread, seen and unseen, errors, comparisons, protocols",
    "per_query.parquet": "every measure of every category",
    "answers.parquet": "the first products for every category",
}
"""What `save` writes."""


def save(evaluation: CategoryEvaluation, folder: str | Path) -> Path:
    """Write the three files into a new folder, or in the place of an earlier evaluation; other files there stay.

    Args:
        evaluation: What was measured.
        folder: A new or empty folder, or one of an earlier evaluation.

    Returns:
        The folder.

    Raises:
        FolderError: The folder holds something else.
    """
    with new_folder(folder, CATEGORIES_RESULT, replace=True) as change:
        write_result(change, evaluation)
    return Path(folder)


def write_result(change: FolderChange, evaluation: CategoryEvaluation) -> None:
    """Write the three files into a folder that is being made."""
    trials = [(system, setting, trial) for (system, setting), part in evaluation.trials.items() for trial in part]
    for name, table_of in (("per_query.parquet", _per_query), ("answers.parquet", _answers)):
        pq.write_table(pa.concat_tables([table_of(*trial) for trial in trials]), change.file(name), compression="zstd")
    change.write_json("result.json", summary(evaluation))


def summary(evaluation: CategoryEvaluation) -> dict[str, Any]:
    """The contents of `result.json`, as plain values; fractions in [0, 1]."""
    compared = evaluation.compare() if len(evaluation.systems) > 1 else None
    return {
        "visir_categories": 1,
        "catalogue": evaluation.catalogue.describe(),
        "cards": {name: dict(card) for name, card in evaluation.cards.items()},
        "results": [_summary_of(evaluation, system, setting) for system, setting in evaluation.trials],
        "comparison": compared and {
            "how": compared.how,
            "correction": compared.correction,
            "family": compared.family,
            "differences": [asdict(difference) for difference in compared.differences],
        },
        "versions": versions(),
    }  # fmt: skip


def _summary_of(evaluation: CategoryEvaluation, system: str, setting: Setting) -> dict[str, Any]:
    trials = evaluation.trials[system, setting]
    measures = trials[0].result.measures
    means = {name: asdict(evaluation.spread(system, setting, name)) for name in measures}
    parts = {name: evaluation.by_seen(system, setting, name) for name in measures}
    return {
        "system": system,
        "setting": setting,
        "measures": {name: {**mean, "sd": _null_for_nan(mean["sd"])} for name, mean in means.items()},
        "seen and unseen": {
            part: {"queries": parts[measures[0]][part][1]} | {name: parts[name][part][0] for name in measures}
            for part in parts[measures[0]]
        },
        "first answers": _text_keys(asdict(first_answers(trials))),
        "protocols": [trial.result.protocol.to_dict() for trial in trials],
        "notes": [note for trial in trials for note in trial.result.notes],
    }


def _per_query(system: str, setting: Setting, trial: Trial) -> pa.Table:
    values = trial.result.per_query[trial.task.name]
    columns = {
        **_trial_columns(values.num_rows, system, setting, trial),
        "query_id": values["query_id"].combine_chunks(),
        "query": trial.task.names,
        "relevant": trial.task.judgements().positives,
        "seen": trial.seen,
    }
    names = [name for name in values.column_names if name != "query_id"]
    return pa.table(columns | {name: values[name].combine_chunks() for name in names})


def _answers(system: str, setting: Setting, trial: Trial) -> pa.Table:
    run = trial.run.to_arrow()
    lengths = np.diff(trial.run.offsets)
    relevant = hits(trial, int(lengths.max(initial=1)))[
        np.repeat(np.arange(len(lengths)), lengths), run["rank"].to_numpy() - 1
    ]
    return pa.table(
        _trial_columns(run.num_rows, system, setting, trial)
        | {
            "query_id": run["query_id"].combine_chunks(),
            "rank": run["rank"].combine_chunks(),
            "product_id": run["document_id"].combine_chunks(),
            "score": run["score"].combine_chunks().cast(pa.float64()),
            "relevant": relevant,
        }
    )


def _trial_columns(n: int, system: str, setting: Setting, trial: Trial) -> dict[str, pa.Array]:
    """The columns that say to which trial a row belongs; typed, because a trial may have no row."""
    values = {"system": system, "setting": setting, "split": trial.task.fold.name}
    return {name: pa.array([value] * n, pa.string()) for name, value in values.items()}


def _null_for_nan(value: float) -> float | None:
    return None if value != value else value


def _text_keys(values: dict[str, Any]) -> dict[str, Any]:
    """The same with keys of text: JSON has no others."""
    return {str(key): _text_keys(value) if isinstance(value, dict) else value for key, value in values.items()}
