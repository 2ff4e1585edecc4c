"""What a study found: means over folds with intervals, extended against baseline, and what other folds flatter.

Folds of a cross-validation share most of their training sessions, so their scores are not independent and the plain
t-test finds too much. Here the variance of a mean over J folds is multiplied by 1/J + (test size / training size)
instead of 1/J (Nadeau & Bengio 2003, "corrected resampled t-test"). All p-values of a setting, of both measures, are
then corrected together (Holm).

F1 is not tested where one of the sets has nothing to go by and calls every session a purchase (step 0 of the anonymous
baseline). F1 then measures how many sessions the other set calls a purchase: with shuffled labels it is
"significant" in 12 % of comparisons (`benchmarks/calibration.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from visir.display import Plotted, Tabular, brief
from visir.evaluation.statistics import corrected
from visir.sessions.features import FEATURE_SETS, FEATURES
from visir.sessions.prediction.models import MEASURES
from visir.sessions.prediction.study import PredictionCell
from visir.sessions.table_labels import Floats

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
class Summary(Tabular, Plotted, view="visir.sessions.reports.summary_view"):
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


def corrected_t(differences: Floats, ratio: float, level: float = 0.95) -> tuple[float, float]:
    """Two-sided p, and half of the interval around the mean, of the corrected resampled t-test."""
    # Folds that all give the same leave no spread to judge chance by: no interval (NaN), and no p unless they all give
    # 0.
    # differences: (folds,) a difference per fold.
    from scipy.stats import t as student

    folds, mean = len(differences), float(differences.mean())
    spread = float(np.sqrt(differences.var(ddof=1) * (1 / folds + ratio)))
    if spread <= 1e-12:
        return (float("nan") if abs(mean) > 1e-12 else 1.0), float("nan")
    half = float(student.ppf((1 + level) / 2, folds - 1)) * spread
    return float(2 * student.sf(abs(mean) / spread, folds - 1)), half


def summarise(card: dict[str, Any], cells: Sequence[PredictionCell]) -> Summary:
    """Summarise the cells of a study. An unfinished study gives means over fewer folds, as `SummaryRow.folds` says."""
    groups: defaultdict[tuple[str, str, int], list[PredictionCell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: (cell.setting, cell.scheme, cell.step, cell.fold)):
        groups[cell.setting, cell.scheme, cell.step].append(cell)
    rows = [row for key, group in groups.items() for row in _rows(key, group)]
    return Summary(
        card,
        tuple(rows),
        _comparisons(groups),
        _optimism(rows),
        _importance(cells),
        _static_share(cells),
        sum(cell.seconds for cell in cells),
    )


def _rows(key: tuple[str, str, int], group: list[PredictionCell]) -> list[SummaryRow]:
    setting, scheme, step = key
    rows = []
    for model in group[0].scores:
        for feature_set in FEATURE_SETS:
            scores = [cell.scores[model][feature_set] for cell in group]
            f1 = np.array([measures["f1"] for measures in scores], np.float64)
            half = corrected_t(f1, _ratio(group))[1] if len(f1) > 1 else float("nan")
            means = {name: _mean([measures[name] for measures in scores]) for name in MEASURES}
            low, high = float(f1.mean() - half), float(f1.mean() + half)
            rows.append(SummaryRow(setting, scheme, model, feature_set, step, len(group), means, low, high))
    return rows


def _comparisons(groups: dict[tuple[str, str, int], list[PredictionCell]]) -> tuple[FeatureSetComparison, ...]:
    comparisons: list[FeatureSetComparison] = []
    for setting in sorted({key[0] for key in groups}):
        family: list[FeatureSetComparison] = []
        for measure in COMPARED:
            for (group_setting, scheme, step), group in groups.items():
                if group_setting != setting or scheme != "grouped":
                    continue
                for model in group[0].scores:
                    differences = _differences(group, model, measure)
                    if len(differences) < 2:
                        continue
                    p, half = corrected_t(differences, _ratio(group))
                    if measure == "f1" and any(_knows_nothing(group, model, name) for name in FEATURE_SETS):
                        p = float("nan")
                    mean = float(differences.mean())
                    family.append(
                        FeatureSetComparison(measure, setting, model, step, mean, mean - half, mean + half, p, p)
                    )
        adjusted = corrected([comparison.p for comparison in family]).tolist()
        comparisons += [
            replace(comparison, corrected=after) for comparison, after in zip(family, adjusted, strict=True)
        ]
    return tuple(comparisons)


def _knows_nothing(group: Sequence[PredictionCell], model: str, feature_set: str) -> bool:
    """Whether a model gives all sessions of every fold the same chance: no session stands above another."""
    return all(cell.scores[model][feature_set]["roc_auc"] in (None, 0.5) for cell in group)


def _differences(group: Sequence[PredictionCell], model: str, measure: str) -> Floats:
    """Extended minus baseline of each fold that has the measure."""
    pairs = [(cell.scores[model]["extended"][measure], cell.scores[model]["baseline"][measure]) for cell in group]
    return np.array([more - less for more, less in pairs if more is not None and less is not None], np.float64)


def _optimism(rows: Sequence[SummaryRow]) -> tuple[Optimism, ...]:
    by_key = {(row.setting, row.scheme, row.model, row.step): row for row in rows if row.feature_set == "extended"}
    optimism = []
    for (setting, scheme, model, step), flattered in by_key.items():
        honest = by_key.get((setting, "grouped", model, step))
        if scheme == "ungrouped" and honest is not None:
            optimism.append(
                Optimism(setting, model, step, *(_minus(flattered, honest, measure) for measure in ("f1", "roc_auc")))
            )
    return tuple(optimism)


def _minus(row: SummaryRow, other: SummaryRow, measure: str) -> float:
    value, other_value = row.means[measure], other.means[measure]
    return float("nan") if value is None or other_value is None else value - other_value


def _importance(cells: Sequence[PredictionCell]) -> dict[str, dict[str, dict[str, float]]]:
    values: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cell in cells:
        for kind, by_feature in cell.importance.items():
            for name, value in by_feature.items():
                if cell.scheme == "grouped":
                    values[kind, cell.setting, name].append(value)
    means: dict[str, dict[str, dict[str, float]]] = {}
    for (kind, setting, name), several in values.items():
        means.setdefault(kind, {}).setdefault(setting, {})[name] = float(np.mean(several))
    return means


def _static_share(cells: Sequence[PredictionCell]) -> dict[int, float]:
    static = {feature.name for feature in FEATURES if not feature.dynamic}
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for cell in cells:
        if (cell.setting, cell.scheme) == ("anonymous", "grouped") and "impurity" in cell.importance:
            impurity = cell.importance["impurity"]
            shares[cell.step].append(sum(value for name, value in impurity.items() if name in static))
    return {step: float(np.mean(several)) for step, several in sorted(shares.items())}


def _ratio(group: Sequence[PredictionCell]) -> float:
    return float(np.mean([cell.test / cell.train for cell in group]))


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None
