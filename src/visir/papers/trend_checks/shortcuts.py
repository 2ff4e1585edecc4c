"""Chapter 4: retrieval with and without synthetic shortcuts."""

from __future__ import annotations

from collections.abc import Mapping

from visir.studies.trend_check import Means, TrendCheck, chance_of_order, rising_pairs

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


def figure_4_5(means: Means) -> list[TrendCheck]:
    """Figure 4.5 (section 4.4.1), model by model: what the chapter says of CLIP is looked at in CLIP."""
    checks = []
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
            checks += [
                *_one_side(model, without),
                *_unique(model, without, with_shortcuts),
                *_bits(model, without, with_shortcuts),
            ]
    return checks


def _one_side(model: str, without: Setups) -> list[TrendCheck]:
    """III: no drop; for VSE++ a slight one with shortcuts on captions."""
    checks = []
    for setup in ("III images", "III captions"):
        if setup in without:
            is_slight = model != CLIP and setup == "III captions"
            words, drop = ("at most a slight drop", SLIGHT) if is_slight else ("no drop", NO_DROP)
            share = without[setup] / without["I"]
            statement = f"{model}, {setup}: {words} (at least {1 - drop:.0%} of I)"
            checks.append(TrendCheck(statement, share >= 1 - drop, f"{share:.3f} of I"))
    return checks


def _unique(model: str, without: Setups, with_shortcuts: Setups) -> list[TrendCheck]:
    """II: perfect with shortcuts; without them zero for VSE++, below zero-shot for CLIP."""
    checks = []
    if "II" in with_shortcuts:
        statement = f"{model}, II with shortcuts: perfect (at least {PERFECT} of 600)"
        checks.append(TrendCheck(statement, with_shortcuts["II"] >= PERFECT, f"{with_shortcuts['II']:.1f}"))
    if "II" in without:
        checks += _gone(f"{model}, II without", model, without["II"], without)
    return checks


def _gone(setup: str, model: str, value: float, without: Setups) -> list[TrendCheck]:
    """How little is left: "zero" for a model from scratch, "below the zero-shot performance" for CLIP."""
    if model != CLIP:
        numbers = f"{value:.1f}, {100 * value / without['I']:.1f} % of I"
        return [TrendCheck(f"{setup}: zero (at most {ZERO:.0%} of I)", value <= ZERO * without["I"], numbers)]
    if ZERO_SHOT not in without:
        return []
    numbers = f"{value:.1f} against {without[ZERO_SHOT]:.1f}"
    return [TrendCheck(f"{setup}: below zero-shot", value < without[ZERO_SHOT], numbers)]


def _bits(model: str, without: Setups, with_shortcuts: Setups) -> list[TrendCheck]:
    """IV: more bits, less without and more with shortcuts; of CLIP 0 bits change nothing."""
    checks = []
    bits = sorted(int(name.removeprefix("IV ")) for name in without if name.startswith("IV "))
    if model == CLIP and 0 in bits:
        for word, values in (("without", without), ("with", with_shortcuts)):
            share = values["IV 0"] / without["I"] if "IV 0" in values else None
            if share is not None:
                statement = f"{model}, IV {word}, 0 bits: neither drop nor increase (within {NO_DROP:.0%} of I)"
                checks.append(TrendCheck(statement, abs(share - 1) <= NO_DROP, f"{share:.3f} of I"))
    for word, setups, sign in (("without", without, -1), ("with", with_shortcuts, 1)):
        by_bits = {bit: setups[f"IV {bit}"] for bit in bits if f"IV {bit}" in setups}
        if len(by_bits) > 1:
            count, pairs = rising_pairs([sign * value for value in by_bits.values()])
            numbers = f"in {count} of {pairs} pairs; {', '.join(f'{bit}: {rsum:.1f}' for bit, rsum in by_bits.items())}"
            statement = (
                f"{model}, IV {word}: the more bits, the {'higher' if sign > 0 else 'lower'} ({MOST:.0%} of pairs)"
            )
            chance = chance_of_order(len(by_bits), MOST)
            checks.append(TrendCheck(statement, count >= MOST * pairs, numbers, chance))
    most = f"IV {bits[-1]}" if bits else ""
    if len(bits) > 1 and bits[-1] >= 8:
        checks += _gone(f"{model}, {most} bits without", model, without[most], without)
        if most in with_shortcuts:
            numbers = f"{with_shortcuts[most]:.1f} against {without['I']:.1f}"
            better = with_shortcuts[most] > without["I"]
            checks.append(TrendCheck(f"{model}, {most} bits with: above I", better, numbers))
    return checks
