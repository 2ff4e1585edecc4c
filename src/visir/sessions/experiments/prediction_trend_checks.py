"""Chapter 6, section 6.5: what predictions of a purchase go by, and how good they are, in Figures 6.6 and 6.7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean

from visir.studies.trend_check import Means, TrendCheck, chance_of_order, rising_pairs

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


def figure_6_6(means: Means) -> list[TrendCheck]:
    """Section 6.5.4: the day of the week leads for anonymous, earlier orders for identified; static features fade."""
    checks = []
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
            checks.append(TrendCheck(f"{setting}: {statement} most", set(first) == set(leading), numbers, chance))
            chance = 1 / comb(len(order), len(second))
            statement = f"{setting}: then dwell times and the page score"
            checks.append(TrendCheck(statement, set(second) == set(DYNAMIC), numbers, chance))
    static = list(_steps(means.get("static features", {})).values())
    if len(static) > 1:
        numbers = ", ".join(f"{step}: {share:.1f}" for step, share in enumerate(static))
        checks.append(TrendCheck("static features have all of it at step 0", abs(static[0] - 100) < 1e-6, numbers))
        fell, pairs = rising_pairs([-share for share in static])
        numbers = f"in {fell} of {pairs} pairs of steps; {numbers}"
        statement, chance = f"and ever less ({FALLS:.0%} of pairs of steps)", chance_of_order(len(static), FALLS)
        checks.append(TrendCheck(statement, fell >= FALLS * pairs, numbers, chance))
    return checks


def figure_6_7(means: Means) -> list[TrendCheck]:
    """Sections 6.5.2 and 6.5.3: what the extended set adds, when, and to which models."""
    return [*_anonymous(_of(means, "anonymous")), *_identified(_of(means, "identified"))]


Curves = Mapping[tuple[str, str], Mapping[int, float]]
"""(model, feature set) → step → F1 in percent."""


def _anonymous(curves: Curves) -> list[TrendCheck]:
    gains = _gains(curves)
    if not gains:
        return []
    checks = []
    by_step = {
        step: fmean(gain_by_step[step] for gain_by_step in gains.values()) for step in next(iter(gains.values()))
    }
    details = ", ".join(f"{step}: {gain:+.1f}" for step, gain in by_step.items())
    count = sum(gain > 0 for gain_by_step in gains.values() for gain in gain_by_step.values())
    total = sum(map(len, gains.values()))
    above = all(gain > 0 for gain in by_step.values())
    checks.append(
        TrendCheck("anonymous: the extended set is above the baseline at every step (mean of models)", above, details)
    )
    numbers = f"{count} of {total} models and steps"
    checks.append(TrendCheck("anonymous: so it is for every model", count == total, numbers))
    first, *rest = by_step.values()
    most = bool(rest) and first > max(rest)
    checks.append(TrendCheck("anonymous: it adds most at step 0", most, details, 1 / len(by_step)))
    mean = {model: fmean(x for feature_set in SETS for x in curves[model, feature_set].values()) for model in gains}
    order = sorted(mean, key=lambda model: -mean[model])
    details = ", ".join(f"{model} {mean[model]:.1f}" for model in order)
    if _BEST | set(_OTHERS) <= set(order):
        best = set(order[:3]) == _BEST
        checks.append(TrendCheck("anonymous: RF, GBDT and the neural model are best", best, details, 1 / comb(6, 3)))
        then = tuple(order[3:]) == _OTHERS
        checks.append(TrendCheck("anonymous: then SVM, LR, KNN", then, details, 1 / 120))
    return [*checks, *_after_step_0(curves, list(gains))]


def _after_step_0(curves: Curves, models: Sequence[str]) -> list[TrendCheck]:
    """Section 6.5.2: step 1 helps every baseline, the extended set not significantly; after it comes a plateau."""
    gain = {model: curves[model, "baseline"][1] - curves[model, "baseline"][0] for model in models}
    numbers = ", ".join(f"{model} {points:+.1f}" for model, points in gain.items())
    statement = "anonymous: every model of the baseline set gains at step 1"
    checks = [TrendCheck(statement, min(gain.values()) > 0, numbers)]
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
    checks.append(TrendCheck(statement, points < NO_GAIN, f"{points:+.1f}"))
    for feature_set, by_step in means.items():
        later = by_step[1:]
        if len(later) > 1:
            numbers = ", ".join(f"{step}: {mean:.1f}" for step, mean in enumerate(later, 1))
            statement = (
                f"anonymous: after step 1 the {feature_set} set is at a plateau (mean of models, {AROUND:g} points)"
            )
            checks.append(TrendCheck(statement, max(later) - min(later) <= AROUND, numbers))
    return checks


def _identified(curves: Curves) -> list[TrendCheck]:
    gains = _gains(curves)
    if not gains:
        return []
    values = [value for curve in curves.values() for value in curve.values()]
    numbers = f"{min(values):.1f} to {max(values):.1f}"
    around = all(abs(value - 96) <= AROUND for value in values)
    checks = [TrendCheck(f"identified: everything stays around 96 % (±{AROUND:g})", around, numbers)]
    mean = {model: fmean(gain_by_step.values()) for model, gain_by_step in gains.items()}
    numbers = ", ".join(f"{model} {gain:+.1f}" for model, gain in mean.items())
    none = all(abs(gain) < NO_GAIN for model, gain in mean.items() if model != "KNN")
    checks.append(
        TrendCheck(f"identified: the extended set adds less than {NO_GAIN:g} point, but to KNN", none, numbers)
    )
    if "KNN" in gains:
        first = {model: gain_by_step[0] for model, gain_by_step in gains.items()}
        numbers = ", ".join(f"{model} {gain:+.1f}" for model, gain in first.items())
        most = max(first, key=lambda model: first[model]) == "KNN"
        checks.append(TrendCheck("identified: at step 0 KNN gains most", most, numbers, 1 / len(first)))
        if 1 in gains["KNN"]:
            points = gains["KNN"][1]
            statement = f"identified: at step 1 KNN gains nothing (less than {NO_GAIN:g} point)"
            checks.append(TrendCheck(statement, points < NO_GAIN, f"{points:+.1f}"))
    return checks


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
