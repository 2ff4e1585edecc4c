"""What a study found: means over folds with intervals, extended against baseline, and what folds flatter.

Folds of a cross-validation share most of their training sessions, so their scores are not independent and the plain
t-test finds too much. Here the variance of a mean over J folds is multiplied by 1/J + (test size / training size)
instead of 1/J (Nadeau & Bengio 2003, "corrected resampled t-test"); p-values of a setting are then corrected together
(Holm).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from visir.evaluation.significance import corrected
from visir.sessions.features import FEATURE_SETS, FEATURES
from visir.sessions.predict.measures import MEASURES
from visir.sessions.predict.study import StudyCell
from visir.sessions.records import Floats

COMPARED = ("f1", "roc_auc")
"""The measures by which the feature sets are compared."""


@dataclass(frozen=True)
class SummaryRow:
    """Mean measures over the folds that have them (None: none has); `low`–`high`: 95 % interval of F1, NaN of one."""

    setting: str
    scheme: str
    model: str
    which: str
    step: int
    folds: int
    means: dict[str, float | None]
    low: float
    high: float


@dataclass(frozen=True)
class FeatureSetComparison:
    """A measure of the extended set minus that of the baseline, over grouped folds; `corrected`: p after Holm.

    F1 and ROC-AUC: at step 0 the anonymous baseline calls everything a purchase, which F1 rewards and ROC-AUC does not.
    """

    measure: str
    setting: str
    model: str
    step: int
    difference: float
    low: float
    high: float
    p: float
    corrected: float


@dataclass(frozen=True)
class Optimism:
    """How much more ungrouped folds show than grouped ones: mean differences of F1 and ROC-AUC, extended set."""

    setting: str
    model: str
    step: int
    f1: float
    roc_auc: float


@dataclass(frozen=True)
class Summary:
    """A study in numbers. `importance`: kind → setting → feature → mean over steps and folds of the random forest.

    `static_share`: per step, the share of impurity importance that static features have in the anonymous setting
    (Figure 6.6, bottom).
    """

    card: dict[str, Any]
    rows: tuple[SummaryRow, ...]
    comparisons: tuple[FeatureSetComparison, ...]
    optimism: tuple[Optimism, ...]
    importance: dict[str, dict[str, dict[str, float]]]
    static_share: dict[int, float]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return asdict(self) | {"static_share": {str(step): share for step, share in self.static_share.items()}}


def corrected_t(differences: Floats, ratio: float, level: float = 0.95) -> tuple[float, float]:
    """Two-sided p, and half of the interval around the mean; `ratio`: test sessions per training session.

    Folds that all give the same leave no spread to judge chance by: no interval (NaN), and no p unless they all give 0.
    """
    from scipy.stats import t as student

    folds, mean = len(differences), float(differences.mean())
    spread = float(np.sqrt(differences.var(ddof=1) * (1 / folds + ratio)))
    if spread <= 1e-12:
        return (float("nan") if abs(mean) > 1e-12 else 1.0), float("nan")
    half = float(student.ppf((1 + level) / 2, folds - 1)) * spread
    return float(2 * student.sf(abs(mean) / spread, folds - 1)), half


def summarise(card: dict[str, Any], cells: Sequence[StudyCell]) -> Summary:
    """Of the cells that are there: an unfinished study gives means over fewer folds, which `SummaryRow.folds` says."""
    groups: defaultdict[tuple[str, str, int], list[StudyCell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda one: (one.setting, one.scheme, one.step, one.fold)):
        groups[cell.setting, cell.scheme, cell.step].append(cell)
    rows = [row for key, group in groups.items() for row in _rows(key, group)]
    return Summary(
        card,
        tuple(rows),
        _comparisons(groups),
        _optimism(rows),
        _importance(cells),
        _static_share(cells),
        sum(one.seconds for one in cells),
    )


def _rows(key: tuple[str, str, int], group: list[StudyCell]) -> list[SummaryRow]:
    setting, scheme, step = key
    made = []
    for model in group[0].scores:
        for which in FEATURE_SETS:
            scores = [one.scores[model][which] for one in group]
            f1 = np.array([one["f1"] for one in scores], np.float64)
            half = corrected_t(f1, _ratio(group))[1] if len(f1) > 1 else float("nan")
            means = {name: _mean([one[name] for one in scores]) for name in MEASURES}
            low, high = float(f1.mean() - half), float(f1.mean() + half)
            made.append(SummaryRow(setting, scheme, model, which, step, len(group), means, low, high))
    return made


def _comparisons(groups: dict[tuple[str, str, int], list[StudyCell]]) -> tuple[FeatureSetComparison, ...]:
    made: list[FeatureSetComparison] = []
    for measure in COMPARED:
        for setting in sorted({key[0] for key in groups}):
            found: list[tuple[str, int, float, float, float]] = []
            for (own, scheme, step), group in groups.items():
                if own != setting or scheme != "grouped":
                    continue
                for model in group[0].scores:
                    differences = _differences(group, model, measure)
                    if len(differences) > 1:
                        p, half = corrected_t(differences, _ratio(group))
                        found.append((model, step, float(differences.mean()), half, p))
            if found:
                holm = corrected([one[-1] for one in found]).tolist()
                made += [
                    FeatureSetComparison(measure, setting, model, step, mean, mean - half, mean + half, p, after)
                    for (model, step, mean, half, p), after in zip(found, holm, strict=True)
                ]
    return tuple(made)


def _differences(group: Sequence[StudyCell], model: str, measure: str) -> Floats:
    """Extended minus baseline of each fold that has the measure."""
    pairs = [(one.scores[model]["extended"][measure], one.scores[model]["baseline"][measure]) for one in group]
    return np.array([more - less for more, less in pairs if more is not None and less is not None], np.float64)


def _optimism(rows: Sequence[SummaryRow]) -> tuple[Optimism, ...]:
    by_key = {(one.setting, one.scheme, one.model, one.step): one for one in rows if one.which == "extended"}
    made = []
    for (setting, scheme, model, step), flattered in by_key.items():
        honest = by_key.get((setting, "grouped", model, step))
        if scheme == "ungrouped" and honest is not None:
            made.append(Optimism(setting, model, step, *(_minus(flattered, honest, one) for one in ("f1", "roc_auc"))))
    return tuple(made)


def _minus(one: SummaryRow, other: SummaryRow, measure: str) -> float:
    mine, theirs = one.means[measure], other.means[measure]
    return float("nan") if mine is None or theirs is None else mine - theirs


def _importance(cells: Sequence[StudyCell]) -> dict[str, dict[str, dict[str, float]]]:
    values: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cell in cells:
        for kind, told in cell.importance.items():
            for name, value in told.items():
                if cell.scheme == "grouped":
                    values[kind, cell.setting, name].append(value)
    made: dict[str, dict[str, dict[str, float]]] = {}
    for (kind, setting, name), several in values.items():
        made.setdefault(kind, {}).setdefault(setting, {})[name] = float(np.mean(several))
    return made


def _static_share(cells: Sequence[StudyCell]) -> dict[int, float]:
    static = {one.name for one in FEATURES if not one.dynamic}
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for cell in cells:
        if (cell.setting, cell.scheme) == ("anonymous", "grouped") and "impurity" in cell.importance:
            told = cell.importance["impurity"]
            shares[cell.step].append(sum(value for name, value in told.items() if name in static))
    return {step: float(np.mean(several)) for step, several in sorted(shares.items())}


def _ratio(group: Sequence[StudyCell]) -> float:
    return float(np.mean([one.test / one.train for one in group]))


def _mean(values: Sequence[float | None]) -> float | None:
    told = [one for one in values if one is not None]
    return float(np.mean(told)) if told else None
