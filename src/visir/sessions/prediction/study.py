"""The prediction study of thesis section 6.5: settings × models × feature sets × steps × folds.

A *cell* is one step of one fold of one setting: all models and both feature sets over the same features, which are
learnt once per fold. Each cell is written when it is finished; a study that was stopped goes on with the missing ones.
Cells are spread over processes of one thread each, which changes no number.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import product
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

import visir.stats as stats
from visir.display import Plotted, Tabular, brief
from visir.errors import ConfigurationError, VisirError, docs_page, nearest, raise_faults, require
from visir.files import json_bytes
from visir.fingerprint import DIGEST_BYTES, hash_json
from visir.progress import Progress
from visir.sessions.examples import (
    MIN_PAGES,
    SETTINGS,
    CountedPages,
    DwellTimes,
    Sample,
    Setting,
    SettingFrom,
    draw,
)
from visir.sessions.features import FEATURE_SETS, FEATURES, LearntFeatures, features_of
from visir.sessions.prediction.models import (
    MEASURES,
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
from visir.storage import Cells, FolderKind, Manifest, put, read_written_json
from visir.threads import usable_cores

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
    schemes: tuple[Scheme, ...] = SCHEMES  # how sessions are split, among `models.SCHEMES`
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
    for sample, scheme in product(plan.samples, plan.schemes):  # a split that cannot be made fails here, in no worker
        splits(drawn[sample.setting], scheme, folds=plan.folds, seed=plan.seed)
    put(out, STUDY, {"study.json": json_bytes(card)})
    cells = [
        PredictionCell(sample.setting, scheme, fold, step)
        for scheme, sample in product(plan.schemes, plan.samples)
        for fold in range(1 if scheme == "temporal" else plan.folds)
        for step in sample.steps
        if scheme != "ungrouped" or step in UNGROUPED_STEPS
    ]
    folder = Cells(out / "cells", CELLS)
    finished = set(folder.names())
    missing = [cell for cell in cells if cell.file not in finished]
    if not missing:
        return [PredictionCell(**folder.load(cell.file)) for cell in cells]
    workers = min(jobs or usable_cores(), len(missing))
    with ExitStack() as at_end, Progress("purchase intent", len(missing), "cells") as advance:
        if workers == 1:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

            _set_input(drawn, plan)
            at_end.enter_context(threadpool_limits(1))
            measured: Iterable[PredictionCell] = map(_run_cell, missing)
        else:
            pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (drawn, plan))
            at_end.callback(pool.shutdown, cancel_futures=True)
            measured = (done.result() for done in as_completed([pool.submit(_run_cell, cell) for cell in missing]))
        for cell in measured:
            folder.put({cell.file: json_bytes(asdict(cell))})
            advance()
    return [PredictionCell(**folder.load(cell.file)) for cell in cells]


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
    cells, card = Cells(out / "cells", CELLS), read_written_json(out / "study.json")
    with STUDY.reading(out, "study.json"):
        return {**card}, [PredictionCell(**cells.load(name)) for name in cells.names()]


def card_of(plan: StudyPlan, drawn: dict[Setting, SessionExamples], sessions: Path) -> dict[str, Any]:
    """The plan of a study, the sessions it was applied to, and the versions of packages."""
    import sklearn

    return {
        "plan": {
            "samples": [sample.to_dict() for sample in plan.samples],
            "models": list(plan.models),
            "folds": plan.folds,
            "schemes": list(plan.schemes),
            "seed": plan.seed,
            "examples": {setting: fingerprint(examples) for setting, examples in drawn.items()},
        },
        "drawn": {
            setting: {
                "sessions": len(examples),
                "purchases": int(examples.purchase.sum()),
                "visitors": len(set(examples.visitor)),
            }
            for setting, examples in drawn.items()
        },
        "purchases": use_by_samples(sessions, drawn, plan.samples[0]).to_dict(),
        "log": read_written_json(sessions / "counts.json")["declared"],
        "versions": {"scikit-learn": sklearn.__version__},
    }


def fingerprint(examples: SessionExamples) -> str:
    """A hash of the sessions with everything that features read: cells of other features are another study's."""

    def plain(record: Any) -> Any:
        """A record of arrays as plain values; numbers as the hash of their bytes."""
        if is_dataclass(record):
            return {column.name: plain(getattr(record, column.name)) for column in fields(record)}
        if not isinstance(record, np.ndarray) or record.dtype == object:
            return record.tolist() if isinstance(record, np.ndarray) else record
        return [str(record.dtype), list(record.shape), blake2b(record.tobytes(), digest_size=DIGEST_BYTES).hexdigest()]

    return hash_json(plain(examples))


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
    began, seed = time.process_time(), plan.seed + cell.fold
    matrix = learnt.matrix(examples, cell.step)
    train, test = matrix[split.train], matrix[split.test]
    bought, buys = examples.purchase[split.train], examples.purchase[split.test]
    scores: dict[str, dict[str, dict[str, float | None]]] = {model: {} for model in plan.models}
    importance: dict[str, dict[str, float]] = {}
    for feature_set in FEATURE_SETS:
        own = learnt.only(features_of(cell.setting, feature_set))
        places = [learnt.features.index(feature) for feature in own.features]
        for model in plan.models:
            fitted = fit(model, own, train[:, places], bought, seed=seed)
            values = measure_predictions(fitted.balanced(own, test[:, places]), fitted.share, buys)
            scores[model][feature_set] = {name: None if np.isnan(value) else value for name, value in values.items()}
            has_both = 0 < buys.sum() < len(buys)
            if (model, feature_set) == ("rf", "extended") and fitted.estimator is not None and has_both:
                # Figure 6.6. Impurity is the thesis's reading, scikit-learn's default: shares of the decrease. It is
                # measured on training rows and favours features of many values (dwell times over device types).
                shares = fitted.estimator.feature_importances_.tolist()
                importance = {
                    "impurity": {each.name: share for each, share in zip(own.features, shares, strict=True)},
                    "permutation": permutation(fitted, own, test[:, places], buys, seed=seed),
                }
    seconds = time.process_time() - began
    return replace(cell, train=len(train), test=len(test), scores=scores, importance=importance, seconds=seconds)


def permutation(
    fitted: FittedClassifier, learnt: LearntFeatures, matrix: Floats, purchase: Bools, *, seed: int
) -> dict[str, float]:
    """By how much ROC-AUC of the predicted sessions falls when a feature is exchanged between them at random."""
    # Of two features that say the same (device type and its conversion rate) each can replace the other, so both look
    # unimportant.
    # matrix: (n, features) of the predicted sessions.
    # purchase: (n,) whether each holds an order.
    from sklearn.metrics import roc_auc_score

    rng, count = np.random.default_rng(seed), len(learnt.features)
    mixed = np.repeat(matrix[None], count + 1, axis=0)  # the last one is left as it is
    for column in range(count):
        mixed[column, :, column] = rng.permutation(matrix[:, column])
    chances = fitted.balanced(learnt, mixed.reshape(-1, count)).reshape(count + 1, -1)
    *areas, whole = (float(roc_auc_score(purchase, column_chances)) for column_chances in chances)
    return {feature.name: whole - area for feature, area in zip(learnt.features, areas, strict=True)}


# What a study found: means over folds with intervals, extended against baseline, and what other folds flatter.
#
# Folds of a cross-validation share most of their training sessions, so their scores are not independent and the plain
# t-test finds too much. Here the variance of a mean over J folds is multiplied by 1/J + (test size / training size)
# instead of 1/J (Nadeau & Bengio 2003, "corrected resampled t-test"). All p-values of a setting, of both measures, are
# then corrected together (Holm).
#
# F1 is not tested where one of the sets has nothing to go by and calls every session a purchase (step 0 of the
# anonymous baseline). F1 then measures how many sessions the other set calls a purchase: with shuffled labels it is
# "significant" in 12 % of comparisons (`benchmarks/calibration.py`).

COMPARED = ("f1", "roc_auc")
"""The measures by which the feature sets are compared."""


@dataclass(frozen=True)
class SummaryRow:
    """Means over folds of one model, feature set and step."""

    setting: str  # of the sessions
    scheme: str  # how they are split
    model: str  # its name
    feature_set: str  # the feature set
    step: int  # pages opened so far
    folds: int  # how many folds there are
    means: dict[str, float | None]  # mean of each measure over the folds that have it; None where none has
    low: float  # lower end of the 95 % interval of F1; NaN of one fold
    high: float  # upper end


@dataclass(frozen=True)
class FeatureSetComparison:
    """A measure of the extended set minus that of the baseline, over grouped folds."""

    # At step 0 the anonymous baseline calls everything a purchase, which F1 rewards and ROC-AUC does not.

    measure: str  # one of `COMPARED`
    setting: str  # of the sessions
    model: str  # its name
    step: int  # pages opened so far
    difference: float  # mean over folds
    low: float  # lower end of its 95 % interval
    high: float  # upper end
    p: float  # two-sided, of the corrected t-test; NaN where it cannot be tested
    corrected: float  # the same after Holm, over all models, steps and measures of the setting


@dataclass(frozen=True)
class Optimism:
    """How much more ungrouped folds show than grouped ones: mean differences of F1 and ROC-AUC, extended set."""

    setting: str
    model: str
    step: int
    f1: float
    roc_auc: float


@dataclass(frozen=True, repr=False)
class Summary(Tabular, Plotted):
    """A study in numbers."""

    card: dict[str, Any]  # of the study
    rows: tuple[SummaryRow, ...]  # means over folds
    comparisons: tuple[FeatureSetComparison, ...]  # extended against baseline
    optimism: tuple[Optimism, ...]  # what ungrouped folds show more than grouped ones
    # Kind → setting → feature → mean over steps and folds of the random forest.
    importance: dict[str, dict[str, dict[str, float]]]
    # Step → the share of impurity importance that static features have in the anonymous setting (Figure 6.6, bottom).
    static_share: dict[int, float]
    seconds: float  # processor time of all cells

    def __repr__(self) -> str:
        plan = self.card["plan"]
        settings = list(dict.fromkeys(row.setting for row in self.rows))
        steps = [row.step for row in self.rows]
        return brief(
            self,
            f"{', '.join(settings)}: {', '.join(plan['models'])}",
            f"steps {min(steps)} to {max(steps)}, {plan['folds']} folds: {', '.join(plan['schemes'])}" if steps else "",
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return asdict(self) | {"static_share": {str(step): share for step, share in self.static_share.items()}}


def summarise(card: dict[str, Any], cells: Sequence[PredictionCell]) -> Summary:
    """Summarise the cells of a study. An unfinished study gives means over fewer folds, as `SummaryRow.folds` says."""
    groups: defaultdict[tuple[str, str, int], list[PredictionCell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: (cell.setting, cell.scheme, cell.step, cell.fold)):
        groups[cell.setting, cell.scheme, cell.step].append(cell)
    rows: list[SummaryRow] = []
    families: defaultdict[str, list[FeatureSetComparison]] = defaultdict(list)
    for (setting, scheme, step), group in groups.items():
        ratio = float(np.mean([cell.test / cell.train for cell in group]))
        for model in group[0].scores:
            # (sets, measures, folds), NaN where a measure is not defined
            values = np.array(
                [
                    [[cell.scores[model][name][measure] for cell in group] for measure in MEASURES]
                    for name in FEATURE_SETS
                ],
                np.float64,
            )
            for feature_set, of_set in zip(FEATURE_SETS, values, strict=True):
                means = {measure: _mean(of_folds) for measure, of_folds in zip(MEASURES, of_set, strict=True)}
                f1 = of_set[MEASURES.index("f1")]
                ends = stats.estimate(f1, kind="folds", ratio=ratio, bounds=(0.0, 1.0)).ends
                rows.append(SummaryRow(setting, scheme, model, feature_set, step, len(group), means, *ends))
            if scheme == "grouped":
                families[setting] += _comparisons(setting, model, step, values, ratio)
    comparisons: list[FeatureSetComparison] = []
    for _, family in sorted(families.items()):
        family.sort(key=lambda comparison: COMPARED.index(comparison.measure))
        adjusted = stats.adjust([comparison.p for comparison in family]).tolist()
        comparisons += [replace(each, corrected=after) for each, after in zip(family, adjusted, strict=True)]
    extended = {
        (row.scheme, row.setting, row.model, row.step): row.means for row in rows if row.feature_set != "baseline"
    }
    optimism = []
    for (scheme, setting, model, step), flattered in extended.items():
        honest = extended.get(("grouped", setting, model, step))
        if scheme == "ungrouped" and honest is not None:  # None as NaN: what is not defined has no difference
            gains = np.subtract(*(np.array([means[name] for name in COMPARED], float) for means in (flattered, honest)))
            optimism.append(Optimism(setting, model, step, *gains.tolist()))
    importance: defaultdict[str, defaultdict[str, defaultdict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    static: defaultdict[int, list[float]] = defaultdict(list)
    for cell in (cell for cell in cells if cell.scheme == "grouped"):
        for kind, shares in cell.importance.items():
            for name, value in shares.items():
                importance[kind][cell.setting][name].append(value)
        if cell.setting == "anonymous" and (share := static_share(cell)) is not None:
            static[cell.step].append(share)
    mean_importance = {
        kind: {
            setting: {name: float(np.mean(several)) for name, several in by_name.items()}
            for setting, by_name in by_setting.items()
        }
        for kind, by_setting in importance.items()
    }
    mean_static = {step: float(np.mean(several)) for step, several in sorted(static.items())}
    seconds = sum(cell.seconds for cell in cells)
    return Summary(card, tuple(rows), tuple(comparisons), tuple(optimism), mean_importance, mean_static, seconds)


def _comparisons(setting: str, model: str, step: int, values: Floats, ratio: float) -> Iterator[FeatureSetComparison]:
    """Compare the feature sets by (sets, measures, folds) values of a model."""
    roc_auc = values[:, MEASURES.index("roc_auc")]
    # A set that gives all sessions of every fold the same chance knows nothing.
    knows_nothing = (np.isnan(roc_auc) | (roc_auc == 0.5)).all(axis=1).any()
    for measure in COMPARED:
        baseline, extended = values[:, MEASURES.index(measure)]
        both = ~np.isnan(extended - baseline)
        if both.sum() > 1:
            tested = stats.difference(extended[both], baseline[both], test="folds", ratio=ratio)
            p = float("nan") if measure == "f1" and knows_nothing else tested.p
            yield FeatureSetComparison(measure, setting, model, step, tested.value, tested.low, tested.high, p, p)


def static_share(cell: PredictionCell) -> float | None:
    """The share of the impurity importance that static features have; None where there is no forest."""
    impurity = cell.importance.get("impurity")
    static = {feature.name for feature in FEATURES if not feature.dynamic}
    return None if impurity is None else sum(value for name, value in impurity.items() if name in static)


def _mean(values: Floats) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


def predict(
    sessions: str | Path,
    out: str | Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    n: int | Mapping[Setting, int] | None = None,
    models: Sequence[str] = MODELS,
    folds: int = 10,
    schemes: Sequence[Scheme] = SCHEMES,
    min_pages: int = MIN_PAGES,
    counted_pages: CountedPages = "before order",
    setting_from: SettingFrom = "start",
    dwell_times: DwellTimes = "left pages",
    seed: int = 0,
    jobs: int | None = None,
) -> Summary:
    """Compare models and feature sets at every step of a session (thesis section 6.5).

    Args:
        sessions: A folder of sessions. `visir.sessions.make` wrote it.
        out: The study's folder; an interrupted study goes on in it.
        settings: "anonymous", "identified", or both.
        n: So many sessions for each setting, or by setting; the thesis has 22,982 anonymous and 6,319 identified.
        models: Among "rf", "lr", "knn", "svm", "mlp", "gbdt".
        folds: Folds of the cross-validation.
        schemes: How sessions are split: "grouped", "temporal", "ungrouped".
        min_pages: Pages a session must have; steps end two before.
        counted_pages: Which pages count: "before order" or "all".
        setting_from: What the setting follows from: the 'start' of a session, or all of the 'session'.
        dwell_times: Which dwell times are known at a step: of the "left pages", or of the "current page" too. See
            `visir.sessions.features`.
        seed: Of samples, folds and models.
        jobs: Processes; by default one per core.

    Returns:
        Means over folds, and what more features bring, with intervals.

    Raises:
        ConfigurationError: Values do not fit; all faults are listed.
        VisirError: No session qualifies.

    Example:
        >>> from visir.sessions import generate, make
        >>> _ = generate("shop", 1000)
        >>> sessions = make("shop/events", "sessions", mapping="shop/mapping.toml")
        >>> summary = predict(sessions, "study", settings=["anonymous"], models=["lr"], folds=2, schemes=["grouped"],
        ...                   min_pages=4, jobs=1)
        >>> sorted({row.model for row in summary.rows})
        ['lr']
    """
    sizes = dict(n) if isinstance(n, Mapping) else dict.fromkeys(settings, n)
    samples = tuple(
        Sample(setting, sizes.get(setting), seed, min_pages, counted_pages, setting_from, dwell_times)
        for setting in settings
    )
    plan = StudyPlan(samples, tuple(models), folds, tuple(schemes), seed)
    cells = run_study(sessions, plan, out, jobs=jobs)
    return summarise(load_study(out)[0], cells)
