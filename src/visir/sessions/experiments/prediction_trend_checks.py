"""Chapter 6, section 6.5: what predictions of a purchase go by, and how good they are, in Figures 6.6 and 6.7."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from statistics import fmean

from visir.studies.trend_check import Means, TrendCheck

DYNAMIC = ("current page dwell time, mean", "current page dwell time, σ", "page sequence score")
ORDERS = ("number of orders", "days since last purchase")
AROUND = 2.0
"""Points of F1 that "stays around 96 %" allows."""
FALLS = 0.9
"""Of all pairs of steps, in how many the later has less: neighbours differ by less than folds do."""
NO_GAIN = 1.0
"""Points of F1 below which a gain is none: the thesis tests no significance."""
SETS = ("baseline", "extended")
_BEST = {"RF", "GBDT", "neural"}
_OTHERS = ("SVM", "LR", "KNN")


def figure_6_6(means: Means) -> list[TrendCheck]:
    """Section 6.5.4: the day of the week leads for anonymous, earlier orders for identified; static features fade."""
    found = []
    for setting, leading, said in (
        ("anonymous", ("week day",), "the day of the week counts"),
        ("identified", ORDERS, "number of orders and days since the last count"),
    ):
        shares = means.get(setting, {})
        if shares:
            order = sorted(shares, key=lambda one: -shares[one])
            first, then = order[: len(leading)], order[len(leading) : len(leading) + len(DYNAMIC)]
            numbers = ", ".join(f"{one} {shares[one]:.1f} %" for one in (*first, *then))
            found.append(TrendCheck(f"{setting}: {said} most", set(first) == set(leading), numbers))
            found.append(
                TrendCheck(f"{setting}: then dwell times and the page score", set(then) == set(DYNAMIC), numbers)
            )
    static = list(_steps(means.get("static features", {})).values())
    if len(static) > 1:
        numbers = ", ".join(f"{step}: {share:.1f}" for step, share in enumerate(static))
        found.append(TrendCheck("static features have all of it at step 0", abs(static[0] - 100) < 1e-6, numbers))
        pairs = list(combinations(static, 2))
        fell = sum(later < earlier for earlier, later in pairs)
        numbers = f"in {fell} of {len(pairs)} pairs of steps; {numbers}"
        found.append(TrendCheck(f"and ever less ({FALLS:.0%} of pairs of steps)", fell >= FALLS * len(pairs), numbers))
    return found


def figure_6_7(means: Means) -> list[TrendCheck]:
    """Sections 6.5.2 and 6.5.3: what the extended set adds, when, and to which models."""
    return [*_anonymous(_of(means, "anonymous")), *_identified(_of(means, "identified"))]


Curves = Mapping[tuple[str, str], Mapping[int, float]]
"""(model, feature set) → step → F1 in percent."""


def _anonymous(curves: Curves) -> list[TrendCheck]:
    gains = _gains(curves)
    if not gains:
        return []
    found = []
    by_step = {step: fmean(one[step] for one in gains.values()) for step in next(iter(gains.values()))}
    said = ", ".join(f"{step}: {gain:+.1f}" for step, gain in by_step.items())
    count = sum(gain > 0 for one in gains.values() for gain in one.values())
    total = sum(map(len, gains.values()))
    above = all(gain > 0 for gain in by_step.values())
    found.append(
        TrendCheck("anonymous: the extended set is above the baseline at every step (mean of models)", above, said)
    )
    numbers = f"{count} of {total} models and steps"
    found.append(TrendCheck("anonymous: so it is for every model", count == total, numbers))
    first, *rest = by_step.values()
    found.append(TrendCheck("anonymous: it adds most at step 0", bool(rest) and first > max(rest), said))
    mean = {model: fmean(x for which in SETS for x in curves[model, which].values()) for model in gains}
    order = sorted(mean, key=lambda one: -mean[one])
    said = ", ".join(f"{model} {mean[model]:.1f}" for model in order)
    if _BEST | set(_OTHERS) <= set(order):
        found.append(TrendCheck("anonymous: RF, GBDT and the neural model are best", set(order[:3]) == _BEST, said))
        found.append(TrendCheck("anonymous: then SVM, LR, KNN", tuple(order[3:]) == _OTHERS, said))
    after = {which: fmean(curves[model, which][1] - curves[model, which][0] for model in gains) for which in SETS}
    said = f"baseline {after['baseline']:+.1f}, extended {after['extended']:+.1f}"
    rises = all(curves[model, "baseline"][1] > curves[model, "baseline"][0] for model in gains)
    found.append(TrendCheck("anonymous: every model of the baseline set gains at step 1", rises, said))
    less = after["extended"] < after["baseline"]
    found.append(TrendCheck("anonymous: with the extended set step 1 brings less", less, said))
    return found


def _identified(curves: Curves) -> list[TrendCheck]:
    gains = _gains(curves)
    if not gains:
        return []
    values = [one for curve in curves.values() for one in curve.values()]
    said = f"{min(values):.1f} to {max(values):.1f}"
    around = all(abs(one - 96) <= AROUND for one in values)
    found = [TrendCheck(f"identified: everything stays around 96 % (±{AROUND:g})", around, said)]
    mean = {model: fmean(one.values()) for model, one in gains.items()}
    said = ", ".join(f"{model} {gain:+.1f}" for model, gain in mean.items())
    none = all(abs(gain) < NO_GAIN for model, gain in mean.items() if model != "KNN")
    found.append(TrendCheck(f"identified: the extended set adds less than {NO_GAIN:g} point, but to KNN", none, said))
    if "KNN" in gains:
        first = {model: one[0] for model, one in gains.items()}
        said = ", ".join(f"{model} {gain:+.1f}" for model, gain in first.items())
        found.append(
            TrendCheck("identified: at step 0 KNN gains most", max(first, key=lambda one: first[one]) == "KNN", said)
        )
    return found


def _of(means: Means, setting: str) -> Curves:
    found = {}
    for name, values in means.items():
        of, _, rest = name.partition(", ")
        model, _, which = rest.partition(", ")
        if of == setting and which in SETS and values:
            found[model, which] = _steps(values)
    return found


def _gains(curves: Curves) -> dict[str, dict[int, float]]:
    """Model → step → F1 of the extended set minus that of the baseline."""
    return {
        model: {step: more - curves[model, "baseline"][step] for step, more in curve.items()}
        for (model, which), curve in curves.items()
        if which == "extended" and (model, "baseline") in curves
    }


def _steps(values: Mapping[str, float]) -> dict[int, float]:
    """Step → F1 (or share); labels of other measures do not begin with "step"."""
    return {int(label.removeprefix("step ")): one for label, one in values.items() if label.startswith("step ")}
