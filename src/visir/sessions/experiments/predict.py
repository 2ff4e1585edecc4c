"""Predict purchases: Figures 6.6 and 6.7 of the thesis, out of one prediction study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import comb
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from visir.errors import VisirError
from visir.files import json_bytes
from visir.fingerprint import hash_json
from visir.sessions.examples import CountedPages, DwellTimes, SettingFrom
from visir.sessions.experiments.log_experiment import SessionLogExperiment, counts_of, sessions_of
from visir.sessions.features import FEATURES
from visir.sessions.prediction.study import PredictionCell
from visir.storage import locked, put, read_written_json
from visir.studies.experiment import (
    Draws,
    ExperimentContext,
    InsufficientDataError,
    Means,
    Measurement,
    TrendCheck,
    chance_of_order,
    few_units,
    listed_checks,
    rising_pairs,
)

if TYPE_CHECKING:
    from visir.sessions.prediction.study import PredictionCell


# Which features there are, which of them change during a session, which are in the baseline set: Table 6.7.


class FeaturesExperiment(SessionLogExperiment):
    """visir's own feature set beside the ticks of the table: 1 for a tick, 0 for a dash."""

    # Labels: "session: …" and "history: …", as in the table.

    experiment: Literal["features"] = "features"
    column: Literal["dynamic", "baseline"]  # "dynamic" or "baseline", the columns
    # A log; a feature then counts as dynamic when its values on `sessions` identified sessions change from one step to
    # another. Without a log, when visir declares it so.
    log: str = ""
    sessions: int = 500  # how many sessions

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"which features are {self.column}" + (f", seen on {self.log}" if self.log else "")

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.sessions.features import FEATURES

        declared = {
            feature.name: feature.dynamic if self.column == "dynamic" else feature.baseline for feature in FEATURES
        }
        provenance, protocol = {"system": "visir's features"}, {"features": "as declared"}
        if self.log and self.column == "dynamic":
            folder = sessions_of(self, context)
            counts = counts_of(folder)
            declared = self._changing(folder / "log", context)
            provenance, protocol = (
                self.provenance(counts),
                {**self.protocol(counts), "features": "dynamic where values change"},
            )
        values = {f"{feature.scope}: {feature.name}": float(declared[feature.name]) for feature in FEATURES}
        return Measurement(values, provenance, protocol)

    def _changing(self, log: object, context: ExperimentContext) -> dict[str, bool]:
        """Which features have, for any session, one value at a step and another at a later one."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.features import LearntFeatures, features_of

        sample = Sample("identified", self.sessions, context.seed)
        examples, features = draw(str(log), sample), features_of("identified")
        learnt = LearntFeatures.of(features, examples, np.ones(len(examples), bool))
        matrices = [learnt.matrix(examples, step) for step in sample.steps]
        return {
            feature.name: any(
                not np.array_equal(before[:, column], after[:, column], equal_nan=True)
                for before, after in pairwise(matrices)
            )
            for column, feature in enumerate(features)
        }


# Draws of means over the folds of a prediction study: folds share most of what they are trained on.

Values = Mapping[str, float | None]
"""Label → value of one fold and step."""


def curve_draws(
    cells: Sequence[PredictionCell], name: str, read: Callable[[PredictionCell], Values]
) -> dict[str, Draws]:
    """Draws of the mean over folds of each label; a label that some fold lacks has none."""
    folds = sorted({cell.fold for cell in cells})
    values: dict[str, dict[int, float]] = {}
    for cell in cells:
        for label, value in read(cell).items():
            if value is not None:
                values.setdefault(label, {})[cell.fold] = value
    return _drawn({label: by_fold for label, by_fold in values.items() if len(by_fold) == len(folds)}, cells, name)


def importance_draws(cells: Sequence[PredictionCell], name: str) -> dict[str, Draws]:
    """Draws of each feature's share of the impurity importance, in percent, mean over steps and folds."""
    sums: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        for feature, share in cell.importance.get("impurity", {}).items():
            sums.setdefault(feature, {}).setdefault(cell.fold, []).append(100 * share)
    # A feature that is there at some steps only has its mean over those.
    means = {
        feature: {fold: float(np.mean(some)) for fold, some in by_fold.items()} for feature, by_fold in sums.items()
    }
    folds = {cell.fold for cell in cells}
    return _drawn({feature: by_fold for feature, by_fold in means.items() if by_fold.keys() == folds}, cells, name)


def static_share(cell: PredictionCell) -> float | None:
    """The share of the impurity importance that static features have, in percent."""
    impurity = cell.importance.get("impurity")
    if impurity is None:
        return None
    static = {feature.name for feature in FEATURES if not feature.dynamic}
    return 100 * sum(share for feature, share in impurity.items() if feature in static)


def _drawn(values: Mapping[str, Mapping[int, float]], cells: Sequence[PredictionCell], name: str) -> dict[str, Draws]:
    folds = sorted({cell.fold for cell in cells})
    if len(folds) < 2 or not values:
        return {}
    matrix = np.array([[by_fold[fold] for by_fold in values.values()] for fold in folds])
    ratio = float(np.mean([cell.test / cell.train for cell in cells]))
    drawn = matrix.mean(axis=0) + few_units(matrix, 1 / len(folds) + ratio, name)
    return dict(zip(values, drawn.T, strict=True))


# Chapter 6, section 6.5: what predictions of a purchase go by, and how good they are, in Figures 6.6 and 6.7.

DYNAMIC = ("current page dwell time, mean", "current page dwell time, σ", "page sequence score")
ORDERS = ("number of orders", "days since last purchase")
AROUND = 2.0
"""Points of F1 that "stays around 96 %" allows, and a plateau from its lowest to its highest step."""
FALLS = 0.9
"""Of all pairs of steps, in how many the later has less: neighbours differ by less than folds do."""
NO_GAIN = 1.0
"""Points of F1 below which a gain is none, or not "significant": the thesis tests no significance."""
SETS = ("baseline", "extended")
_BEST = {"RF", "GBDT", "neural"}
_OTHERS = ("SVM", "LR", "KNN")


@listed_checks
def figure_6_6(means: Means) -> Iterator[TrendCheck]:
    """Section 6.5.4: the day of the week leads for anonymous, earlier orders for identified; static features fade."""
    for setting, leading, statement in (
        ("anonymous", ("week day",), "the day of the week counts"),
        ("identified", ORDERS, "number of orders and days since the last count"),
    ):
        shares = means.get(setting, {})
        if shares:
            order = sorted(shares, key=lambda feature: -shares[feature])
            first, second = order[: len(leading)], order[len(leading) : len(leading) + len(DYNAMIC)]
            numbers = ", ".join(f"{feature} {shares[feature]:.1f} %" for feature in (*first, *second))
            chance = 1 / comb(len(order), len(first))
            yield TrendCheck(f"{setting}: {statement} most", set(first) == set(leading), numbers, chance)
            chance = 1 / comb(len(order), len(second))
            statement = f"{setting}: then dwell times and the page score"
            yield TrendCheck(statement, set(second) == set(DYNAMIC), numbers, chance)
    static = list(_steps(means.get("static features", {})).values())
    if len(static) > 1:
        numbers = ", ".join(f"{step}: {share:.1f}" for step, share in enumerate(static))
        yield TrendCheck("static features have all of it at step 0", abs(static[0] - 100) < 1e-6, numbers)
        fell, pairs = rising_pairs([-share for share in static])
        numbers = f"in {fell} of {pairs} pairs of steps; {numbers}"
        statement, chance = f"and ever less ({FALLS:.0%} of pairs of steps)", chance_of_order(len(static), FALLS)
        yield TrendCheck(statement, fell >= FALLS * pairs, numbers, chance)


@listed_checks
def figure_6_7(means: Means) -> Iterator[TrendCheck]:
    """Sections 6.5.2 and 6.5.3: what the extended set adds, when, and to which models."""
    yield from _anonymous(_of(means, "anonymous"))
    yield from _identified(_of(means, "identified"))


Curves = Mapping[tuple[str, str], Mapping[int, float]]
"""(model, feature set) → step → F1 in percent."""


def _anonymous(curves: Curves) -> Iterator[TrendCheck]:
    gains = _gains(curves)
    if not gains:
        return
    by_step = {
        step: fmean(gain_by_step[step] for gain_by_step in gains.values()) for step in next(iter(gains.values()))
    }
    details = ", ".join(f"{step}: {gain:+.1f}" for step, gain in by_step.items())
    count = sum(gain > 0 for gain_by_step in gains.values() for gain in gain_by_step.values())
    total = sum(map(len, gains.values()))
    above = all(gain > 0 for gain in by_step.values())
    yield TrendCheck("anonymous: the extended set is above the baseline at every step (mean of models)", above, details)
    numbers = f"{count} of {total} models and steps"
    yield TrendCheck("anonymous: so it is for every model", count == total, numbers)
    first, *rest = by_step.values()
    most = bool(rest) and first > max(rest)
    yield TrendCheck("anonymous: it adds most at step 0", most, details, 1 / len(by_step))
    mean = {model: fmean(x for feature_set in SETS for x in curves[model, feature_set].values()) for model in gains}
    order = sorted(mean, key=lambda model: -mean[model])
    details = ", ".join(f"{model} {mean[model]:.1f}" for model in order)
    if _BEST | set(_OTHERS) <= set(order):
        best = set(order[:3]) == _BEST
        yield TrendCheck("anonymous: RF, GBDT and the neural model are best", best, details, 1 / comb(6, 3))
        then = tuple(order[3:]) == _OTHERS
        yield TrendCheck("anonymous: then SVM, LR, KNN", then, details, 1 / 120)
    yield from _after_step_0(curves, list(gains))


def _after_step_0(curves: Curves, models: Sequence[str]) -> Iterator[TrendCheck]:
    """Section 6.5.2: step 1 helps every baseline, the extended set not significantly; after it comes a plateau."""
    gain = {model: curves[model, "baseline"][1] - curves[model, "baseline"][0] for model in models}
    numbers = ", ".join(f"{model} {points:+.1f}" for model, points in gain.items())
    statement = "anonymous: every model of the baseline set gains at step 1"
    yield TrendCheck(statement, min(gain.values()) > 0, numbers)
    means = {
        feature_set: [
            fmean(curves[model, feature_set][step] for model in models) for step in curves[models[0], "extended"]
        ]
        for feature_set in SETS
    }
    points = means["extended"][1] - means["extended"][0]
    statement = (
        f"anonymous: step 1 does not significantly help the extended set (mean of models, under {NO_GAIN:g} point)"
    )
    yield TrendCheck(statement, points < NO_GAIN, f"{points:+.1f}")
    for feature_set, by_step in means.items():
        later = by_step[1:]
        if len(later) > 1:
            numbers = ", ".join(f"{step}: {mean:.1f}" for step, mean in enumerate(later, 1))
            statement = (
                f"anonymous: after step 1 the {feature_set} set is at a plateau (mean of models, {AROUND:g} points)"
            )
            yield TrendCheck(statement, max(later) - min(later) <= AROUND, numbers)


def _identified(curves: Curves) -> Iterator[TrendCheck]:
    gains = _gains(curves)
    if not gains:
        return
    values = [value for curve in curves.values() for value in curve.values()]
    numbers = f"{min(values):.1f} to {max(values):.1f}"
    around = all(abs(value - 96) <= AROUND for value in values)
    yield TrendCheck(f"identified: everything stays around 96 % (±{AROUND:g})", around, numbers)
    mean = {model: fmean(gain_by_step.values()) for model, gain_by_step in gains.items()}
    numbers = ", ".join(f"{model} {gain:+.1f}" for model, gain in mean.items())
    none = all(abs(gain) < NO_GAIN for model, gain in mean.items() if model != "KNN")
    yield TrendCheck(f"identified: the extended set adds less than {NO_GAIN:g} point, but to KNN", none, numbers)
    if "KNN" in gains:
        first = {model: gain_by_step[0] for model, gain_by_step in gains.items()}
        numbers = ", ".join(f"{model} {gain:+.1f}" for model, gain in first.items())
        most = max(first, key=lambda model: first[model]) == "KNN"
        yield TrendCheck("identified: at step 0 KNN gains most", most, numbers, 1 / len(first))
        if 1 in gains["KNN"]:
            points = gains["KNN"][1]
            statement = f"identified: at step 1 KNN gains nothing (less than {NO_GAIN:g} point)"
            yield TrendCheck(statement, points < NO_GAIN, f"{points:+.1f}")


def _of(means: Means, setting: str) -> Curves:
    curves = {}
    for name, values in means.items():
        curve_setting, _, rest = name.partition(", ")
        model, _, feature_set = rest.partition(", ")
        if curve_setting == setting and feature_set in SETS and values:
            curves[model, feature_set] = _steps(values)
    return curves


def _gains(curves: Curves) -> dict[str, dict[int, float]]:
    """Model → step → F1 of the extended set minus that of the baseline."""
    return {
        model: {step: more - curves[model, "baseline"][step] for step, more in curve.items()}
        for (model, feature_set), curve in curves.items()
        if feature_set == "extended" and (model, "baseline") in curves
    }


def _steps(values: Mapping[str, float]) -> dict[int, float]:
    """Step → F1 (or share); labels of other measures do not begin with "step"."""
    return {int(label.removeprefix("step ")): value for label, value in values.items() if label.startswith("step ")}


_SUMMARY = "summary.json"
_STEP = "step {}"
MEASURES = {"f1": "", "roc_auc": "ROC-AUC, ", "pr_auc": "PR-AUC, ", "ece": "calibration error, "}
"""Measure → what precedes "step 0" in a label: nothing for F1, which is all that the thesis prints."""


class PredictExperiment(SessionLogExperiment):
    """One curve of the prediction study (`visir sessions predict`): a setting, a model, a feature set."""

    # Labels: "step 0" … for F1, "ROC-AUC, step 0" … for the others of `MEASURES`; the names of features. All cells of a
    # setting share one study of all models, which goes on where it was stopped. A log without sessions of the setting
    # leaves the cell "not run", with the reason.

    experiment: Literal["predict"] = "predict"
    setting: Literal["anonymous", "identified"]  # which sessions are predicted
    # "measures" of `model` with `features`, × 100. "all bought": those of calling every session a purchase, to compare
    # F1 with. Of the random forest with the extended set "importance" (percent of the decrease in impurity, mean over
    # steps) or "static share" (that of all static features by step).
    quantity: Literal["measures", "all bought", "importance", "static share"] = "measures"
    model: Literal["rf", "lr", "knn", "svm", "mlp", "gbdt"] = "rf"  # name of the model
    features: Literal["baseline", "extended"] = "extended"  # the feature set
    sessions: Annotated[int, Field(gt=0)] | None = None  # at most so many; all by default
    # Pages that a session must have. Fewer pages have fewer steps: the last is two before, and never the eleventh.
    min_pages: Annotated[int, Field(ge=3)] = 12
    # Which pages count; see `visir.sessions.examples.Sample`. The thesis (6.5.1) leaves out sessions of fewer than
    # twelve pages: "all".
    counted_pages: CountedPages = "before order"
    # What the setting follows from. The thesis (6.3) gives a session with a later login to the customer: "session".
    setting_from: SettingFrom = "start"
    dwell_times: DwellTimes = "left pages"  # which dwell times are known at a step
    folds: Annotated[int, Field(ge=2)] = 10  # of the cross-validation, grouped by person

    def describe(self) -> str:
        """See `Experiment.describe`."""
        readings = {
            "counted-pages": self.counted_pages,
            "setting-from": self.setting_from,
            "dwell-times": self.dwell_times,
        }
        options = "".join(f' --{name} "{value}"' for name, value in readings.items())
        return f"visir sessions predict{options}, {self.setting}, {self.folds} folds, on {self.log}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.sessions.prediction.models import all_bought

        folder = sessions_of(self, context)
        study = self._study(folder, context)
        summary, counts = read_written_json(study / _SUMMARY), counts_of(folder)
        drawn = summary["card"]["drawn"][self.setting]
        if self.quantity == "measures":
            rows = [row for row in summary["rows"] if (row["model"], row["feature_set"]) == (self.model, self.features)]
            values = {
                before + _STEP.format(row["step"]): 100 * row["means"][measure]
                for measure, before in MEASURES.items()
                for row in rows
                if row["means"][measure] is not None  # folds in which nobody buys have no ROC-AUC
            }
        elif self.quantity == "all bought":
            steps = sorted({row["step"] for row in summary["rows"]})
            scores = all_bought(drawn["purchases"] / drawn["sessions"])
            values = {
                MEASURES[measure] + _STEP.format(step): 100 * value
                for measure, value in scores.items()
                for step in steps
            }
        elif self.quantity == "importance":
            part = summary["importance"].get("impurity", {}).get(self.setting, {})
            values = {name: 100 * value for name, value in part.items()}
        else:
            values = {_STEP.format(step): 100 * share for step, share in summary["static_share"].items()}
        bought = f"{drawn['sessions']:,}, {drawn['purchases']:,} with a purchase"
        pages = "before an order" if self.counted_pages == "before order" else "in all"
        facts = {f"{self.setting} sessions": f"{bought}, of at least {self.min_pages} pages {pages}"}
        facts["setting from"] = {
            "start": "the first request",
            "session": "the whole session, logins later on included",
        }[self.setting_from]
        facts["dwell times"] = f"of {self.dwell_times}"
        facts |= {"folds": f"{self.folds}, grouped by person"}
        facts |= {f"version of {name}": version for name, version in summary["card"]["versions"].items()}
        return Measurement(
            values, self.provenance(counts), {**self.protocol(counts), **facts}, draws=self._draws(study, values)
        )

    def _draws(self, study: Path, values: Mapping[str, float]) -> dict[str, Draws]:
        """Draws of the values, paired over all cells of the study; "all bought" is what it is."""
        from visir.sessions.prediction.study import load_study

        if self.quantity == "all bought":
            return {}
        cells = [cell for cell in load_study(study)[1] if (cell.setting, cell.scheme) == (self.setting, "grouped")]
        if self.quantity == "importance":
            draws = importance_draws(cells, study.name)
        elif self.quantity == "static share":
            draws = curve_draws(cells, study.name, lambda cell: {_STEP.format(cell.step): static_share(cell)})
        else:
            draws = curve_draws(cells, study.name, self._scores)
        return {label: drawn for label, drawn in draws.items() if label in values}

    def _scores(self, cell: PredictionCell) -> dict[str, float | None]:
        """Label → measure × 100 of one fold and step."""
        scores = cell.scores.get(self.model, {}).get(self.features, {})
        percent = {name: None if value is None else 100 * value for name, value in scores.items()}
        return {before + _STEP.format(cell.step): percent.get(measure) for measure, before in MEASURES.items()}

    def _study(self, folder: Path, context: ExperimentContext) -> Path:
        """The folder of the study, which is run where it is missing; its summary is in it."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.prediction.study import STUDY, StudyPlan, load_study, run_study, summarise

        sample = Sample(
            self.setting,
            self.sessions,
            context.seed,
            self.min_pages,
            self.counted_pages,
            self.setting_from,
            self.dwell_times,
        )
        plan = StudyPlan((sample,), folds=self.folds, schemes=("grouped",), seed=context.seed)
        key = hash_json({"sample": sample.to_dict(), "folds": self.folds, "seed": context.seed})[:10]
        out = folder / f"predict-{self.setting}-{key}"
        # One study at a time: it has a process for every core.
        with context.locks.process, locked(folder / f"{out.name}.lock", waiting=f"{out}: waiting", elsewhere="--out"):
            if not (out / _SUMMARY).is_file():
                if not (out / "study.json").is_file():
                    try:
                        draw(folder / "log", sample)
                    except VisirError as fault:
                        raise InsufficientDataError(fault.message.partition(": ")[2] or fault.message) from fault
                cells = run_study(folder / "log", plan, out)
                put(out, STUDY, {_SUMMARY: json_bytes(summarise(load_study(out)[0], cells).to_json())})
        return out
