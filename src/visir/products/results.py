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
from visir.products.errors import first_answers, hits
from visir.products.evaluate import CategoryEvaluation, Trial
from visir.products.relevance import Setting
from visir.storage import FolderChange, FolderKind, new_folder

CATEGORIES_RESULT = FolderKind(
    "categories-result", "an evaluation of categories", remedy="visir categories evaluate … --out FOLDER"
)

FILES = {
    "result.json": "means, spread, seen and unseen, errors, comparisons, protocols",
    "per_query.parquet": "every measure of every category",
    "answers.parquet": "the first products for every category",
}
"""What `save` writes."""


def save(evaluation: CategoryEvaluation, folder: str | Path) -> Path:
    """Write the three files into a new folder, or in the place of an earlier evaluation; other files there stay."""
    with new_folder(folder, CATEGORIES_RESULT, replace=True) as change:
        write_result(change, evaluation)
    return Path(folder)


def write_result(change: FolderChange, evaluation: CategoryEvaluation) -> None:
    """Write the three files into a folder that is being made."""
    pieces = [(system, setting, trial) for (system, setting), trials in evaluation.trials.items() for trial in trials]
    for name, made in (("per_query.parquet", _per_query), ("answers.parquet", _answers)):
        pq.write_table(pa.concat_tables([made(*one) for one in pieces]), change.file(name), compression="zstd")
    change.write_json("result.json", summary(evaluation))


def summary(evaluation: CategoryEvaluation) -> dict[str, Any]:
    """What `result.json` holds, as plain values; fractions in [0, 1]."""
    systems = []
    for (system, setting), trials in evaluation.trials.items():
        measures = trials[0].result.measures
        spreads = {name: asdict(evaluation.spread(system, setting, name)) for name in measures}
        parts = {name: evaluation.by_seen(system, setting, name) for name in measures}
        systems.append(
            {
                "system": system,
                "setting": setting,
                "measures": {name: {**one, "sd": _known(one["sd"])} for name, one in spreads.items()},
                "seen and unseen": {
                    part: {"queries": parts[measures[0]][part][1]} | {name: parts[name][part][0] for name in measures}
                    for part in parts[measures[0]]
                },
                "first answers": _plain_keys(asdict(first_answers(trials))),
                "protocols": [one.result.protocol.to_dict() for one in trials],
                "notes": [note for one in trials for note in one.result.notes],
            }
        )
    compared = evaluation.compare() if len(evaluation.systems) > 1 else None
    return {
        "visir_categories": 1,
        "catalogue": evaluation.catalogue.describe(),
        "cards": {name: dict(card) for name, card in evaluation.cards.items()},
        "results": systems,
        "comparison": compared and {
            "how": compared.how,
            "correction": compared.correction,
            "family": compared.family,
            "differences": [asdict(one) for one in compared.differences],
        },
        "versions": versions(),
    }  # fmt: skip


def _per_query(system: str, setting: Setting, trial: Trial) -> pa.Table:
    values = trial.result.per_query[trial.task.name]
    n = values.num_rows
    told = {
        **_where(n, system, setting, trial),
        "query_id": values["query_id"].combine_chunks(),
        "query": trial.task.names,
        "relevant": trial.task.judgements().positives,
        "seen": trial.seen,
    }
    return pa.table(told | {name: values[name].combine_chunks() for name in values.column_names if name != "query_id"})


def _answers(system: str, setting: Setting, trial: Trial) -> pa.Table:
    run = trial.run.to_table()
    n = run.num_rows
    lengths = np.diff(trial.run.offsets)
    right = hits(trial, int(lengths.max(initial=1)))[
        np.repeat(np.arange(len(lengths)), lengths), run["rank"].to_numpy() - 1
    ]
    return pa.table(
        _where(n, system, setting, trial)
        | {
            "query_id": run["query_id"].combine_chunks(),
            "rank": run["rank"].combine_chunks(),
            "product_id": run["document_id"].combine_chunks(),
            "score": run["score"].combine_chunks().cast(pa.float64()),
            "relevant": right,
        }
    )


def _where(n: int, system: str, setting: Setting, trial: Trial) -> dict[str, pa.Array]:
    """The columns that say which trial a row is of; typed, for a trial may have no row."""
    told = {"system": system, "setting": setting, "split": trial.task.fold.name}
    return {name: pa.array([value] * n, pa.string()) for name, value in told.items()}


def _known(value: float) -> float | None:
    return None if value != value else value


def _plain_keys(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has keys of text only."""
    return {str(key): _plain_keys(one) if isinstance(one, dict) else one for key, one in values.items()}
