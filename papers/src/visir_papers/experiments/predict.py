"""Predict purchases: Table 6.7 and Figures 6.6 and 6.7 of the thesis, out of one prediction study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from math import comb
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from visir.errors import VisirError
from visir.files import json_bytes
from visir.fingerprint import hash_json
from visir.reports.plots import DASHES, FAINT, INK, SERIES, drawing
from visir.sessions.examples import CountedPages, DwellTimes, SettingFrom
from visir.sessions.features import FEATURES
from visir.sessions.reports.intent import MARKERS
from visir.storage import locked, put
from visir_papers.draws import (
    Drawing,
    Means,
    PublishedValues,
    TrendCheck,
    chance_of_order,
    listed_checks,
    measure_of,
    point_of,
    rising_pairs,
)
from visir_papers.experiment import ExperimentContext, InsufficientDataError, Measurement
from visir_papers.experiments.describe import SessionLogExperiment, counts_of, draws_around, sessions_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot
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
        return f"which features are {self.column}" + (f", seen on {self.log}" if self.log else "")

    def measure(self, context: ExperimentContext) -> Measurement:
        declared = {
            feature.name: feature.dynamic if self.column == "dynamic" else feature.baseline for feature in FEATURES
        }
        provenance, protocol = {"system": "visir's features"}, {"features": "as declared"}
        if self.log and self.column == "dynamic":
            folder = sessions_of(self, context)
            counts = counts_of(folder)
            declared = self._changing(folder / "log", context)
            provenance = self.provenance()
            protocol = {**self.protocol(counts), "features": "dynamic where values change"}
        values = {f"{feature.scope}: {feature.name}": float(declared[feature.name]) for feature in FEATURES}
        return Measurement(values, provenance, protocol)

    def _changing(self, log: Path, context: ExperimentContext) -> dict[str, bool]:
        """Which features have, for any session, one value at a step and another at a later one."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.features import LearntFeatures, features_of

        sample = Sample("identified", self.sessions, context.seed)
        examples, features = draw(log, sample), features_of("identified")
        learnt = LearntFeatures.of(features, examples)
        matrices = [learnt.matrix(examples, step) for step in sample.steps]
        return {
            feature.name: any(
                not np.array_equal(before[:, column], after[:, column], equal_nan=True)
                for before, after in pairwise(matrices)
            )
            for column, feature in enumerate(features)
        }


# One curve of the prediction study (`visir sessions predict`): Figures 6.6 and 6.7.

_SUMMARY = "summary.json"
_STEP = "step {}"
MEASURES = {"f1": "", "roc_auc": "ROC-AUC, ", "pr_auc": "PR-AUC, ", "ece": "calibration error, "}
"""Measure → what precedes "step 0" in a label: nothing for F1, which is all that the thesis prints."""


class PredictExperiment(SessionLogExperiment):
    """One curve of the prediction study: a setting, a model, a feature set."""

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
        readings = {name: getattr(self, name) for name in ("counted_pages", "setting_from", "dwell_times")}
        options = "".join(f' --{name.replace("_", "-")} "{value}"' for name, value in readings.items())
        return f"visir sessions predict{options}, {self.setting}, {self.folds} folds, on {self.log}"

    def measure(self, context: ExperimentContext) -> Measurement:
        from visir.sessions.prediction.models import all_bought
        from visir.sessions.prediction.study import load_study

        folder = sessions_of(self, context)
        study, counts = self._study(folder, context), counts_of(folder)
        card, cells = load_study(study)
        cells = [cell for cell in cells if (cell.setting, cell.scheme) == (self.setting, "grouped")]
        drawn = card["drawn"][self.setting]
        if self.quantity == "all bought":  # it is what it is: without draws
            scores = all_bought(drawn["purchases"] / drawn["sessions"])
            steps = sorted({cell.step for cell in cells})
            labels = {MEASURES[measure] + _STEP.format(step): measure for measure in scores for step in steps}
            values, draws = {label: 100 * scores[measure] for label, measure in labels.items()}, {}
        else:
            by_label: dict[str, dict[int, list[float]]] = {}  # label → fold → a value, or one for each step
            for measure in MEASURES if self.quantity == "measures" else ("",):
                for cell in cells:
                    for label, value in self._read(cell, measure).items():
                        if value is not None:  # folds in which nobody buys have no ROC-AUC
                            by_label.setdefault(label, {}).setdefault(cell.fold, []).append(100 * value)
            values = {label: float(np.mean(list(chain(*own.values())))) for label, own in by_label.items()}
            folds = sorted({cell.fold for cell in cells})  # which share most of what they are trained on
            means = [
                {name: float(np.mean(own[fold])) for name, own in by_label.items() if fold in own} for fold in folds
            ]
            ratio = float(np.mean([cell.test / cell.train for cell in cells]))
            draws = draws_around(values, means, 1 / len(folds) + ratio, study.name)
        pages = "before an order" if self.counted_pages == "before order" else "in all"
        bought = f"{drawn['sessions']:,}, {drawn['purchases']:,} with a purchase"
        begins = {"start": "the first request", "session": "the whole session, logins later on included"}
        facts = {
            f"{self.setting} sessions": f"{bought}, of at least {self.min_pages} pages {pages}",
            "setting from": begins[self.setting_from],
            "dwell times": f"of {self.dwell_times}",
            "folds": f"{self.folds}, grouped by person",
            **{f"version of {name}": version for name, version in card["versions"].items()},
        }
        return Measurement(values, self.provenance(), {**self.protocol(counts), **facts}, draws=draws)

    def _read(self, cell: PredictionCell, measure: str) -> Mapping[str, float | None]:
        """Label → value of one fold and step."""
        from visir.sessions.prediction.study import static_share

        if self.quantity == "importance":
            return cell.importance.get("impurity", {})
        if self.quantity == "static share":
            return {_STEP.format(cell.step): static_share(cell)}
        return {MEASURES[measure] + _STEP.format(cell.step): cell.scores[self.model][self.features].get(measure)}

    def _study(self, folder: Path, context: ExperimentContext) -> Path:
        """The folder of the study, which is run where it is missing; its summary is in it."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.prediction.study import STUDY, StudyPlan, load_study, run_study, summarise

        readings = (self.min_pages, self.counted_pages, self.setting_from, self.dwell_times)
        sample = Sample(self.setting, self.sessions, context.seed, *readings)
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


# Curves of the cells of a figure.

ALL_BOUGHT = "all bought"
SETS = ("baseline", "extended")
Curves = Mapping[tuple[str, str], Mapping[int, float]]
"""(model, feature set) → step → value in percent."""


def _steps(values: Mapping[str, float], measure: str = "") -> dict[int, float]:
    """Step → value of a measure, by default F1 (or a share)."""
    points = {point_of(label): value for label, value in values.items() if measure_of(label) == measure}
    return {int(label.removeprefix("step ")): value for label, value in points.items() if label.startswith("step ")}


def _curves(means: Means, setting: str, measure: str = "") -> dict[tuple[str, str], dict[int, float]]:
    """The curves of a setting; calling every session a purchase has no feature set."""
    curves = {}
    for name, values in means.items():
        own, model, feature_set = (*name.split(", "), "", "")[:3]
        if own == setting and (steps := _steps(values, measure)):
            curves[model, feature_set] = steps
    return curves


def _listed(values: Mapping[Any, float], form: str = "+.1f", between: str = " ") -> str:
    return ", ".join(f"{name}{between}{value:{form}}" for name, value in values.items())


# Chapter 6, section 6.5: what predictions of a purchase go by, and how good they are, in Figures 6.6 and 6.7.

DYNAMIC = ("current page dwell time, mean", "current page dwell time, σ", "page sequence score")
ORDERS = ("number of orders", "days since last purchase")
AROUND = 2.0
"""Points of F1 that "stays around 96 %" allows, and a plateau from its lowest to its highest step."""
FALLS = 0.9
"""Of all pairs of steps, in how many the later has less: neighbours differ by less than folds do."""
NO_GAIN = 1.0
"""Points of F1 below which a gain is none, or not "significant": the thesis tests no significance."""
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
        numbers = _listed(dict(enumerate(static)), ".1f", ": ")
        yield TrendCheck("static features have all of it at step 0", abs(static[0] - 100) < 1e-6, numbers)
        fell, pairs = rising_pairs([-share for share in static])
        numbers = f"in {fell} of {pairs} pairs of steps; {numbers}"
        statement, chance = f"and ever less ({FALLS:.0%} of pairs of steps)", chance_of_order(len(static), FALLS)
        yield TrendCheck(statement, fell >= FALLS * pairs, numbers, chance)


@listed_checks
def figure_6_7(means: Means) -> Iterator[TrendCheck]:
    """Sections 6.5.2 and 6.5.3: what the extended set adds, when, and to which models."""
    for setting, checks in (("anonymous", _anonymous), ("identified", _identified)):
        curves = {key: steps for key, steps in _curves(means, setting).items() if key[1] in SETS}
        gains = {
            model: {step: more - curves[model, "baseline"][step] for step, more in curve.items()}
            for (model, feature_set), curve in curves.items()
            if feature_set == "extended" and (model, "baseline") in curves
        }
        if gains:
            yield from checks(curves, gains)


Gains = Mapping[str, Mapping[int, float]]
"""Model → step → F1 of the extended set minus that of the baseline."""


def _anonymous(curves: Curves, gains: Gains) -> Iterator[TrendCheck]:
    by_step = {step: fmean(gain[step] for gain in gains.values()) for step in next(iter(gains.values()))}
    details = _listed(by_step, between=": ")
    above = all(gain > 0 for gain in by_step.values())
    yield TrendCheck("anonymous: the extended set is above the baseline at every step (mean of models)", above, details)
    single = [points for gain in gains.values() for points in gain.values()]
    count, total = sum(points > 0 for points in single), len(single)
    yield TrendCheck("anonymous: so it is for every model", count == total, f"{count} of {total} models and steps")
    first, *rest = by_step.values()
    most = bool(rest) and first > max(rest)
    yield TrendCheck("anonymous: it adds most at step 0", most, details, 1 / len(by_step))
    mean = {model: fmean(x for feature_set in SETS for x in curves[model, feature_set].values()) for model in gains}
    order = sorted(mean, key=lambda model: -mean[model])
    details = _listed({model: mean[model] for model in order}, ".1f")
    if _BEST | set(_OTHERS) <= set(order):
        best = set(order[:3]) == _BEST
        yield TrendCheck("anonymous: RF, GBDT and the neural model are best", best, details, 1 / comb(6, 3))
        then = tuple(order[3:]) == _OTHERS
        yield TrendCheck("anonymous: then SVM, LR, KNN", then, details, 1 / 120)
    # Step 1 helps every baseline, the extended set not significantly; after it comes a plateau.
    rise = {model: curves[model, "baseline"][1] - curves[model, "baseline"][0] for model in gains}
    statement = "anonymous: every model of the baseline set gains at step 1"
    yield TrendCheck(statement, min(rise.values()) > 0, _listed(rise))
    means = {
        feature_set: [fmean(curves[model, feature_set][step] for model in gains) for step in by_step]
        for feature_set in SETS
    }
    points = means["extended"][1] - means["extended"][0]
    about = f"(mean of models, under {NO_GAIN:g} point)"
    statement = f"anonymous: step 1 does not significantly help the extended set {about}"
    yield TrendCheck(statement, points < NO_GAIN, f"{points:+.1f}")
    for feature_set, (_, *later) in means.items():
        if len(later) > 1:
            numbers = _listed(dict(enumerate(later, 1)), ".1f", ": ")
            about = f"is at a plateau (mean of models, {AROUND:g} points)"
            statement = f"anonymous: after step 1 the {feature_set} set {about}"
            yield TrendCheck(statement, max(later) - min(later) <= AROUND, numbers)


def _identified(curves: Curves, gains: Gains) -> Iterator[TrendCheck]:
    values = [value for curve in curves.values() for value in curve.values()]
    around = all(abs(value - 96) <= AROUND for value in values)
    numbers = f"{min(values):.1f} to {max(values):.1f}"
    yield TrendCheck(f"identified: everything stays around 96 % (±{AROUND:g})", around, numbers)
    mean = {model: fmean(gain.values()) for model, gain in gains.items()}
    none = all(abs(gain) < NO_GAIN for model, gain in mean.items() if model != "KNN")
    statement = f"identified: the extended set adds less than {NO_GAIN:g} point, but to KNN"
    yield TrendCheck(statement, none, _listed(mean))
    if "KNN" in gains:
        first = {model: gain[0] for model, gain in gains.items()}
        most = max(first, key=lambda model: first[model]) == "KNN"
        yield TrendCheck("identified: at step 0 KNN gains most", most, _listed(first), 1 / len(first))
        if 1 in gains["KNN"]:
            points = gains["KNN"][1]
            statement = f"identified: at step 1 KNN gains nothing (less than {NO_GAIN:g} point)"
            yield TrendCheck(statement, points < NO_GAIN, f"{points:+.1f}")


# Figures 6.6 and 6.7, drawn from the values of a study's cells.

PRINTED_IDENTIFIED = 96
"""Section 6.5.3: "stays around 96 %"."""


def importance(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.6: which features a prediction uses."""
    for setting, thesis in (
        ("anonymous", "The thesis: week day first, then dwell times and the page score."),
        ("identified", "The thesis: number of orders and days since the last, then dwell times and the page score."),
    ):
        if shares := means.get(setting):
            names = sorted(shares, key=lambda name: shares[name])  # lying bars, the largest on top
            with drawing(7.4, 0.9 + 0.3 * len(names)) as (figure, axes):
                axes.barh(names, [shares[name] for name in names], color=SERIES[0], height=0.62)
                axes.set_xlabel(f"{setting}: % of the decrease in impurity")
                axes.tick_params(axis="y", length=0)
                axes.grid(axis="y", visible=False)
            yield figure, thesis
    if static := _steps(means.get("static features", {})):
        shown = _steps({label: value for (system, label), value in printed.items() if system == "static features"})
        with drawing(4.6, 2.8) as (figure, axes):
            axes.plot(list(static), list(static.values()), color=SERIES[0], marker="o", linewidth=1.8)
            hollow = {"color": SERIES[1], "fillstyle": "none", "markersize": 10, "clip_on": False}
            axes.plot(list(shown), list(shown.values()), "D", **hollow)
            axes.set_ylim(0, 106)
            _at_steps(axes)
            axes.set_ylabel("static features, %")
        yield figure, "Anonymous setting: the share of all static features. Hollow: printed in the text."


def predictions(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.7: how well purchase is predicted, step by step."""
    if means:
        yield (
            prediction_panels(means),
            "Solid and filled: extended feature set; dashed and hollow: baseline. Dotted: calling every session a "
            "purchase. The thesis prints F1 alone, as a figure, and says that identified sessions stay around 96 %; "
            "ROC-AUC, PR-AUC and the calibration error are not the thesis's.",
        )


def prediction_panels(means: Means) -> Plot:
    """A panel for each measure and setting, two in a row; a colour and a marker for each model."""
    # Of two settings each has a column; one alone has its measures in both.
    settings = list(dict.fromkeys(name.partition(", ")[0] for name in means))
    measures = [before.removesuffix(", ") for before in MEASURES.values()]
    curves = {(measure, setting): _curves(means, setting, measure) for measure in measures for setting in settings}
    measured = {measure for (measure, _), of_setting in curves.items() if of_setting}
    shown = {key: of_setting for key, of_setting in curves.items() if key[0] in measured}
    models = list(dict.fromkeys(model for of_setting in shown.values() for model, _ in of_setting))
    styles = {
        model: {"color": SERIES[place % len(SERIES)], "marker": MARKERS[place % len(MARKERS)], "markersize": 4.2}
        for place, model in enumerate(model for model in models if model != ALL_BOUGHT)
    }
    solid, hollow = {"linewidth": 1.6}, {"linewidth": 1.1, "linestyle": DASHES[1], "fillstyle": "none"}
    rows = -(-len(shown) // 2)
    with drawing(9.0, 0.9 + 2.7 * rows, rows=rows, columns=2) as (figure, drawn):
        panels = drawn.ravel()
        for axes, ((measure, setting), of_setting) in zip(panels, shown.items(), strict=False):
            for (model, feature_set), values in of_setting.items():
                style = {"color": INK, "linestyle": DASHES[2], "linewidth": 1.4}
                if model != ALL_BOUGHT:
                    style = styles[model] | (solid if feature_set == "extended" else hollow)
                axes.plot(list(values), list(values.values()), **style)
            if not measure and setting == "identified":
                axes.axhline(PRINTED_IDENTIFIED, color=FAINT, linewidth=1)
                axes.annotate(
                    "thesis: around 96", (0, PRINTED_IDENTIFIED), (2, -3), textcoords="offset points",
                    va="top", fontsize=8, color=FAINT,
                )  # fmt: skip
            axes.set_title(setting, loc="left")
            axes.set_ylabel(f"{measure or 'F1'}, × 100")
            _at_steps(axes)
        for axes in panels[len(shown) :]:
            axes.set_axis_off()
        first = panels[0]
        for model, style in styles.items():
            first.plot([], [], label=model, **style)
        first.plot([], [], color=INK, label="extended")
        first.plot([], [], color=INK, linestyle=DASHES[1], label="baseline")
        first.plot([], [], color=INK, linestyle=DASHES[2], label="all called a purchase")
        figure.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8.5)
        return figure


def _at_steps(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step: pages opened so far")
