"""The prediction study of thesis section 6.5: settings × models × feature sets × steps × folds.

A *cell* is one step of one fold of one setting: all models and both feature sets over the same features, which are
learnt once per fold. Each cell is written when it is finished; a study that was stopped goes on with the missing ones.
Cells are spread over processes of one thread each, which changes no number.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from hashlib import blake2b
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from visir.errors import ConfigurationError, VisirError, docs_page, nearest, raise_faults, require
from visir.files import json_bytes
from visir.fingerprint import DIGEST_BYTES, hash_json
from visir.progress import Progress
from visir.sessions.examples import Sample, Setting, draw
from visir.sessions.features import FEATURE_SETS, FeatureState, LearntFeatures, SessionFeature, features_of
from visir.sessions.prediction.models import (
    MODELS,
    SCHEMES,
    FittedClassifier,
    Scheme,
    TrainTestSplit,
    fit,
    measure_predictions,
    splits,
)
from visir.sessions.prediction.purchase_model import use_by_samples
from visir.sessions.table_labels import Bools, Floats, SessionExamples
from visir.storage import MANIFEST, FolderKind, Manifest, counted, put, read_written_json
from visir.threads import usable_cores

# What the random forest uses (Figure 6.6): impurity and permutation importance of each feature.


def impurity(fitted: FittedClassifier, features: Sequence[SessionFeature]) -> dict[str, float]:
    """Share of the decrease in impurity, summing to 1 (the thesis's reading, scikit-learn's default)."""
    # It is measured on training rows and favours features of many values (dwell times over device types).
    return {
        feature.name: float(value)
        for feature, value in zip(features, fitted.estimator.feature_importances_, strict=True)
    }


def permutation(
    fitted: FittedClassifier,
    features: Sequence[SessionFeature],
    states: Sequence[FeatureState],
    matrix: Floats,
    purchase: Bools,
    *,
    seed: int,
) -> dict[str, float]:
    """By how much ROC-AUC of the predicted sessions falls when a feature is exchanged between them at random."""
    # Of two features that say the same (device type and its conversion rate) each can replace the other, so both look
    # unimportant.
    # matrix: (n, features) of the predicted sessions.
    # purchase: (n,) whether each holds an order.
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    mixed = np.repeat(matrix[None], len(features) + 1, axis=0)  # the last one is left as it is
    for column in range(len(features)):
        mixed[column, :, column] = rng.permutation(matrix[:, column])
    chances = fitted.balanced(features, states, mixed.reshape(-1, len(features))).reshape(len(features) + 1, -1)
    areas = [float(roc_auc_score(purchase, column_chances)) for column_chances in chances]
    return {feature.name: areas[-1] - area for feature, area in zip(features, areas[:-1], strict=True)}


STUDY = FolderKind("intent-study", "a prediction study")
CELLS = FolderKind("intent-cells", "a folder of cells")

UNGROUPED_STEPS = (0, 5, 10)
"""Ungrouped folds are there to be distrusted; three steps show by how much."""


@dataclass(frozen=True)
class StudyPlan:
    """What a study computes. Ungrouped folds take only the steps among `UNGROUPED_STEPS`."""

    samples: tuple[Sample, ...]  # one per setting
    models: tuple[str, ...] = MODELS  # names among `models.MODELS`
    folds: int = 10  # how many folds of the cross-validation
    schemes: tuple[Scheme, ...] = SCHEMES  # how sessions are split, among `folds.SCHEMES`
    seed: int = 0  # of folds and models

    def __post_init__(self) -> None:
        faults = [f"model {model!r}: {nearest(model, MODELS)}" for model in self.models if model not in MODELS]
        faults += [f"scheme {scheme!r}: {nearest(scheme, SCHEMES)}" for scheme in self.schemes if scheme not in SCHEMES]
        if self.folds < 2:
            faults.append(f"{self.folds} folds: at least 2")
        raise_faults(
            ConfigurationError, "prediction study", faults, hint=f"see {docs_page('background/purchase-intent')}"
        )


@dataclass(frozen=True)
class PredictionCell:
    """One step of one fold of one setting."""

    setting: Setting  # of the sessions
    scheme: Scheme  # how they are split
    fold: int  # the number of the fold, from 0
    step: int  # pages opened so far
    train: int = 0  # training sessions
    test: int = 0  # predicted sessions
    # Model → feature set → measure; None for a measure that is not defined.
    scores: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)
    # Kind of importance → feature, of the random forest.
    importance: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0  # processor time

    @property
    def file(self) -> str:
        """Its name on disk."""
        return f"{self.setting}-{self.scheme}-fold{self.fold:02d}-step{self.step:02d}.json"


def run_study(
    sessions: str | Path, plan: StudyPlan, out: str | Path, *, jobs: int | None = None
) -> list[PredictionCell]:
    """Run what is missing of a study, and return all cells."""
    # `out`/study.json holds the plan and what it was applied to, `out`/cells the cells.
    require("sklearn", "duckdb", extra="sessions", purpose="The prediction study")
    out, drawn = Path(out), {sample.setting: draw(sessions, sample) for sample in plan.samples}
    card = card_of(plan, drawn, Path(sessions))
    if (out / "study.json").is_file() and read_written_json(out / "study.json")["plan"] != card["plan"]:
        raise VisirError(
            f"{out} holds another study.", hint="choose another folder, or remove that one", code="holds-another-study"
        )
    for sample in plan.samples:  # a split that cannot be made fails here, not in a worker
        for scheme in plan.schemes:
            splits(drawn[sample.setting], scheme, folds=plan.folds, seed=plan.seed)
    put(out, STUDY, {"study.json": json_bytes(card)})
    cells = [
        PredictionCell(sample.setting, scheme, fold, step)
        for scheme in plan.schemes
        for sample in plan.samples
        for fold in range(1 if scheme == "temporal" else plan.folds)
        for step in sample.steps
        if scheme != "ungrouped" or step in UNGROUPED_STEPS
    ]
    finished = counted(out / "cells", CELLS)
    missing = [cell for cell in cells if cell.file not in finished or not (out / "cells" / cell.file).is_file()]
    if missing:
        _run(missing, drawn, plan, out, jobs)
    return [load_cell(out / "cells" / cell.file) for cell in cells]


def load_study(out: str | Path) -> tuple[dict[str, Any], list[PredictionCell]]:
    """The card of a study, and the cells that are finished."""
    out = Path(out)
    if not (out / "study.json").is_file():
        raise VisirError(
            f"{out}: not a folder of a prediction study.",
            hint="visir sessions predict SESSIONS makes one",
            code="not-folder-prediction-study",
        )
    Manifest.read(out, STUDY)
    cells = out / "cells"
    names = Manifest.read(cells, CELLS).files if (cells / MANIFEST).is_file() else {}
    return read_written_json(out / "study.json"), [
        load_cell(cells / name) for name in sorted(names) if (cells / name).is_file()
    ]


def load_cell(path: Path) -> PredictionCell:
    """One finished cell."""
    return PredictionCell(**read_written_json(path))


def card_of(plan: StudyPlan, drawn: dict[Setting, SessionExamples], sessions: Path) -> dict[str, Any]:
    """The plan of a study, the sessions it was applied to, and the versions of packages."""
    import sklearn

    plan_values = {
        "samples": [sample.to_dict() for sample in plan.samples],
        "models": list(plan.models),
        "folds": plan.folds,
        "schemes": list(plan.schemes),
        "seed": plan.seed,
        "examples": {setting: fingerprint(examples) for setting, examples in drawn.items()},
    }
    sizes = {
        setting: {
            "sessions": len(examples),
            "purchases": int(examples.purchase.sum()),
            "visitors": len(set(examples.visitor)),
        }
        for setting, examples in drawn.items()
    }
    log = read_written_json(sessions / "counts.json")["declared"]
    use, versions = use_by_samples(sessions, drawn, plan.samples[0]), {"scikit-learn": sklearn.__version__}
    return {"plan": plan_values, "drawn": sizes, "purchases": use.to_dict(), "log": log, "versions": versions}


def fingerprint(examples: SessionExamples) -> str:
    """A hash of the sessions with everything that features read: cells of other features are another study's."""
    return hash_json(_plain(examples))


def _plain(record: Any) -> Any:
    """A record of arrays as plain values; numbers as the hash of their bytes."""
    if is_dataclass(record):
        return {column.name: _plain(getattr(record, column.name)) for column in fields(record)}
    if isinstance(record, np.ndarray):
        if record.dtype == object:
            return record.tolist()
        return [str(record.dtype), list(record.shape), blake2b(record.tobytes(), digest_size=DIGEST_BYTES).hexdigest()]
    return record


def _run(
    cells: Sequence[PredictionCell], drawn: dict[Setting, SessionExamples], plan: StudyPlan, out: Path, jobs: int | None
) -> None:
    workers = min(jobs or usable_cores(), len(cells))
    if workers == 1:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        _set_input(drawn, plan)
        with threadpool_limits(1), Progress("purchase intent", len(cells), "cells") as advance:
            for cell in cells:
                _write_cell(_run_cell(cell), out)
                advance()
        return
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(drawn, plan)
    )
    with pool, Progress("purchase intent", len(cells), "cells") as advance:
        try:
            for done in as_completed([pool.submit(_run_cell, cell) for cell in cells]):
                _write_cell(done.result(), out)
                advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _write_cell(cell: PredictionCell, out: Path) -> None:
    put(out / "cells", CELLS, {cell.file: json_bytes(asdict(cell))})


_worker_input: tuple[dict[Setting, SessionExamples], StudyPlan]  # what a worker process works on


def _set_input(drawn: dict[Setting, SessionExamples], plan: StudyPlan) -> None:
    global _worker_input
    _worker_input = (drawn, plan)
    _fold.cache_clear()


def _start_worker(drawn: dict[Setting, SessionExamples], plan: StudyPlan) -> None:
    """Prepare a process: its examples, and one thread for each of its libraries."""
    import sklearn.ensemble  # noqa: F401  loads OpenMP, which must be there to be limited
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    Thread(target=_end_with_parent, daemon=True).start()
    _set_input(drawn, plan)


def _end_with_parent() -> None:
    """End with the parent: a killed study leaves no workers behind, which would wait for work that never comes."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _fold(setting: Setting, scheme: Scheme, fold: int) -> tuple[TrainTestSplit, LearntFeatures]:
    """The split of a fold, and features learnt from its training sessions alone; once per fold."""
    drawn, plan = _worker_input
    split = splits(drawn[setting], scheme, folds=plan.folds, seed=plan.seed)[fold]
    return split, LearntFeatures.of(features_of(setting), drawn[setting], split.train)


def _run_cell(cell: PredictionCell) -> PredictionCell:
    drawn, plan = _worker_input
    return measured_cell(cell, drawn[cell.setting], plan, *_fold(cell.setting, cell.scheme, cell.fold))


def measured_cell(
    cell: PredictionCell, examples: SessionExamples, plan: StudyPlan, split: TrainTestSplit, learnt: LearntFeatures
) -> PredictionCell:
    """Train and measure all models of a cell."""
    import time

    began = time.process_time()
    matrix = learnt.matrix(examples, cell.step)
    train, test = matrix[split.train], matrix[split.test]
    bought, buys = examples.purchase[split.train], examples.purchase[split.test]
    scores: dict[str, dict[str, dict[str, float | None]]] = {model: {} for model in plan.models}
    importance: dict[str, dict[str, float]] = {}
    for feature_set in FEATURE_SETS:
        features = features_of(cell.setting, feature_set)
        positions = [learnt.features.index(feature) for feature in features]
        states = [learnt.states[position] for position in positions]
        for model in plan.models:
            fitted = fit(model, features, states, train[:, positions], bought, seed=plan.seed + cell.fold)
            balanced = fitted.balanced(features, states, test[:, positions])
            values = measure_predictions(balanced, fitted.share, buys)
            scores[model][feature_set] = {name: None if np.isnan(value) else value for name, value in values.items()}
            if (
                model == "rf"
                and feature_set == "extended"
                and fitted.estimator is not None
                and 0 < buys.sum() < len(buys)
            ):
                importance["impurity"] = impurity(fitted, features)
                importance["permutation"] = permutation(
                    fitted, features, states, test[:, positions], buys, seed=plan.seed + cell.fold
                )
    return PredictionCell(
        cell.setting,
        cell.scheme,
        cell.fold,
        cell.step,
        len(train),
        len(test),
        scores,
        importance,
        time.process_time() - began,
    )
