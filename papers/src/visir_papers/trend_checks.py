"""Chapter 3: what less regularisation costs and finds, and what control of expansion does to terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from visir_papers.draws import Means, TrendCheck, chance_of_order, listed_checks, rising, rising_pairs

# Latent target decoding: the course of training under a constraint.

PAPER_BOUND, TOO_TIGHT = 0.2, 0.05
"""The bound of the paper's tables, and the one that it calls too low to be met."""
CONVERGED, MET, LTD_ZERO = 0.1, 0.02, 0.01
"""How far from its bound a loss may end that converges to it; how far above one that meets it (relative to the bound);
the λ that counts as 0 (relative to the largest)."""
SAME_CURVE = 0.1
"""How far apart two contrastive losses may end that have "the same trajectory" (relative)."""
_RECONSTRUCTION, _RSUM = "reconstruction, last", "validation rsum"


@listed_checks
def ltd_figure_2(means: Means) -> Iterator[TrendCheck]:
    """LTD, section 5.3, observations (1) to (5) of Figure 2, and its bound beside the baseline."""
    # "The bound" is the paper's, η = 0.2; another one that ends higher answers nothing.
    by_bound = {float(name.partition("η=")[2]): values for name, values in means.items() if "η=" in name}
    for eta, values in sorted(by_bound.items()):
        yield from _of_bound(eta, values)
    again = [values["λ, largest after 0"] for values in by_bound.values() if "λ, largest after 0" in values]
    if again:
        numbers = ", ".join(f"{value:.2f}" for value in again)
        yield TrendCheck("λ is positive again after it was 0, under some bound", max(again) > 0, numbers)
    yield from _scores(means, by_bound)


def _of_bound(eta: float, values: Mapping[str, float]) -> Iterator[TrendCheck]:
    """(1) λ rises until the bound is met and falls to 0 then; (3) the loss converges to the bound, unless it is .05."""
    largest, last = values.get("λ, largest"), values.get(_RECONSTRUCTION)
    if largest is not None:
        yield TrendCheck(f"η {eta:g}: λ rises above its start, 1", largest > 1, f"{largest:.1f}")
    if last is None:
        return
    if eta <= TOO_TIGHT:
        statement = f"η {eta:g}: the bound cannot be met (the loss ends more than {CONVERGED:.0%} above it)"
        yield TrendCheck(statement, last > (1 + CONVERGED) * eta, f"{last:.3f}")
        return
    statement = f"η {eta:g}: the reconstruction loss converges to its bound (within {CONVERGED:.0%})"
    yield TrendCheck(statement, abs(last / eta - 1) <= CONVERGED, f"{last:.3f}")
    least = values.get("λ, least after its peak")
    if largest is not None and least is not None:
        met = last <= (1 + MET) * eta
        numbers = f"{least:.2f} after {largest:.1f}" if met else f"the bound is not met: the loss ends at {last:.3f}"
        falls = least <= LTD_ZERO * largest if met else None
        yield TrendCheck(f"η {eta:g}: when the bound is met λ falls to 0", falls, numbers)


def _scores(means: Means, by_bound: dict[float, Mapping[str, float]]) -> Iterator[TrendCheck]:
    """(4) A lower reconstruction loss does not mean a higher rsum; (5) the contrastive loss does not depend on it."""
    paper, dual = by_bound.get(PAPER_BOUND, {}), means.get("LTD, L_dual β=1", {})
    baseline = means.get("BL, L_con", {})

    def compare(
        statement: str, label: str, higher: Mapping[str, float], lower: Mapping[str, float]
    ) -> Iterator[TrendCheck]:
        if label in higher and label in lower:
            numbers = f"{higher[label]:.4g} against {lower[label]:.4g}"
            yield TrendCheck(statement, higher[label] > lower[label], numbers)

    for eta in (0.1, TOO_TIGHT):
        statement = f"η {PAPER_BOUND:g} ends above η {eta:g} (validation rsum)"
        yield from compare(statement, _RSUM, paper, by_bound.get(eta, {}))
    yield from compare(
        f"the dual loss reconstructs more than η {PAPER_BOUND:g} (a lower loss)", _RECONSTRUCTION, paper, dual
    )
    yield from compare(f"η {PAPER_BOUND:g} ends above the dual loss (validation rsum)", _RSUM, paper, dual)
    yield from compare(f"η {PAPER_BOUND:g} ends above the baseline (validation rsum)", _RSUM, paper, baseline)
    label = "contrastive, last"
    if label in paper and label in baseline:
        share = paper[label] / baseline[label]
        statement = f"η {PAPER_BOUND:g} has the baseline's contrastive loss (within {SAME_CURVE:.0%} at the end)"
        yield TrendCheck(statement, abs(share - 1) <= SAME_CURVE, f"{share:.3f} of it")


# Chapter 4: retrieval with and without synthetic shortcuts.

CLIP = "CLIP"
NO_DROP, SLIGHT = 0.03, 0.15
"""How much of I's rsum "no drop" and "a slight drop" may take: what the words allow in the figure's own numbers."""
PERFECT, ZERO = 590, 0.05
"""Points of 600 that are "a perfect score", and the share of I that is "zero"."""
MOST = 0.9
"""In how many pairs of numbers of bits more bits must do more: neighbours differ by less than trainings do."""
ZERO_SHOT = "zero-shot"

Setups = Mapping[str, float]
"""Setup ("I", "II", "III images", "IV 4", "zero-shot") → rsum."""


@listed_checks
def figure_4_5(means: Means) -> Iterator[TrendCheck]:
    """Figure 4.5 (section 4.4.1), model by model: what the chapter says of CLIP is looked at in CLIP."""
    for model in dict.fromkeys(name.partition(", ")[0] for name in means):
        without, with_shortcuts = (
            {
                name.partition(", ")[2]: values[label]
                for name, values in means.items()
                if name.startswith(f"{model}, ") and label in values
            }
            for label in ("both rsum", "with rsum")
        )
        if "I" in without:
            yield from _one_side(model, without)
            yield from _unique(model, without, with_shortcuts)
            yield from _bits(model, without, with_shortcuts)


def _one_side(model: str, without: Setups) -> Iterator[TrendCheck]:
    """III: no drop; for VSE++ a slight one with shortcuts on captions."""
    for setup in ("III images", "III captions"):
        if setup in without:
            is_slight = model != CLIP and setup == "III captions"
            words, drop = ("at most a slight drop", SLIGHT) if is_slight else ("no drop", NO_DROP)
            share = without[setup] / without["I"]
            statement = f"{model}, {setup}: {words} (at least {1 - drop:.0%} of I)"
            yield TrendCheck(statement, share >= 1 - drop, f"{share:.3f} of I")


def _unique(model: str, without: Setups, with_shortcuts: Setups) -> Iterator[TrendCheck]:
    """II: perfect with shortcuts; without them zero for VSE++, below zero-shot for CLIP."""
    if "II" in with_shortcuts:
        statement = f"{model}, II with shortcuts: perfect (at least {PERFECT} of 600)"
        yield TrendCheck(statement, with_shortcuts["II"] >= PERFECT, f"{with_shortcuts['II']:.1f}")
    if "II" in without:
        yield from _gone(f"{model}, II without", model, without["II"], without)


def _gone(setup: str, model: str, value: float, without: Setups) -> Iterator[TrendCheck]:
    """How little is left: "zero" for a model from scratch, "below the zero-shot performance" for CLIP."""
    if model != CLIP:
        numbers = f"{value:.1f}, {100 * value / without['I']:.1f} % of I"
        yield TrendCheck(f"{setup}: zero (at most {ZERO:.0%} of I)", value <= ZERO * without["I"], numbers)
    elif ZERO_SHOT in without:
        numbers = f"{value:.1f} against {without[ZERO_SHOT]:.1f}"
        yield TrendCheck(f"{setup}: below zero-shot", value < without[ZERO_SHOT], numbers)


def _bits(model: str, without: Setups, with_shortcuts: Setups) -> Iterator[TrendCheck]:
    """IV: more bits, less without and more with shortcuts; of CLIP 0 bits change nothing."""
    bits = sorted(int(name.removeprefix("IV ")) for name in without if name.startswith("IV "))
    if model == CLIP and 0 in bits:
        for word, values in (("without", without), ("with", with_shortcuts)):
            share = values["IV 0"] / without["I"] if "IV 0" in values else None
            if share is not None:
                statement = f"{model}, IV {word}, 0 bits: neither drop nor increase (within {NO_DROP:.0%} of I)"
                yield TrendCheck(statement, abs(share - 1) <= NO_DROP, f"{share:.3f} of I")
    for word, setups, sign in (("without", without, -1), ("with", with_shortcuts, 1)):
        by_bits = {bit: setups[f"IV {bit}"] for bit in bits if f"IV {bit}" in setups}
        if len(by_bits) > 1:
            count, pairs = rising_pairs([sign * value for value in by_bits.values()])
            numbers = f"in {count} of {pairs} pairs; {', '.join(f'{bit}: {rsum:.1f}' for bit, rsum in by_bits.items())}"
            statement = (
                f"{model}, IV {word}: the more bits, the {'higher' if sign > 0 else 'lower'} ({MOST:.0%} of pairs)"
            )
            chance = chance_of_order(len(by_bits), MOST)
            yield TrendCheck(statement, count >= MOST * pairs, numbers, chance)
    most = f"IV {bits[-1]}" if bits else ""
    if len(bits) > 1 and bits[-1] >= 8:
        yield from _gone(f"{model}, {most} bits without", model, without[most], without)
        if most in with_shortcuts:
            numbers = f"{with_shortcuts[most]:.1f} against {without['I']:.1f}"
            better = with_shortcuts[most] > without["I"]
            yield TrendCheck(f"{model}, {most} bits with: above I", better, numbers)


@listed_checks
def figure_3_2(means: Means) -> Iterator[TrendCheck]:
    """Figure 3.2a: with less η every variant costs more and finds no less; control costs less than none."""
    # (variant, η) → FLOPs, R@1
    points = {
        (name.partition(", η=")[0], float(name.partition("η=")[2])): (values["t2i flops"], values["t2i R@1"])
        for name, values in means.items()
        if "t2i flops" in values
    }
    for variant in dict.fromkeys(variant for variant, _ in points):
        etas = sorted((eta for name, eta in points if name == variant), reverse=True)
        curve = [(eta, *points[variant, eta]) for eta in etas]
        if len(curve) > 1:
            numbers = ", ".join(f"η {eta:g}: {cost:.1f} FLOPs, R@1 {hit:.1f}" for eta, cost, hit in curve)
            costs, hits = [cost for _, cost, _ in curve], [hit for _, _, hit in curve]
            chance = chance_of_order(len(curve))
            yield TrendCheck(f"{variant}: less η, more FLOPs", rising(costs), numbers, chance)
            yield TrendCheck(f"{variant}: less η, R@1 not lower", rising(hits), numbers, chance)
    for (variant, eta), (cost, hit) in points.items():
        if variant == "exp=c" and ("exp=1", eta) in points:
            free = points["exp=1", eta]
            numbers = f"{cost:.1f} against {free[0]:.1f} FLOPs, R@1 {hit:.1f} against {free[1]:.1f}"
            yield TrendCheck(f"η {eta:g}: caption control costs less than none", cost < free[0], numbers)


@listed_checks
def table_3_4(means: Means) -> Iterator[TrendCheck]:
    """Table 3.4 (section 3.5.2): with control of expansion more of the heaviest terms are said of the image."""
    control, free = (means.get(f"D2S (η=1e-3, {expansion})", {}) for expansion in ("exp=c", "exp=1.0"))
    for modality in ("caption", "image"):
        if (label := f"{modality} exact@10") in control and label in free:
            statement = f"control: more of the ten heaviest terms of {modality}s are said of the image"
            numbers = f"{control[label]:.1f} against {free[label]:.1f} %"
            yield TrendCheck(statement, control[label] > free[label], numbers)
