"""Chapter 4: retrieval with and without synthetic shortcuts."""

from __future__ import annotations

from itertools import pairwise

from visir.studies.trend_check import Means, TrendCheck


def figure_4_5(means: Means) -> list[TrendCheck]:
    """Figure 4.5 (section 4.5.1): I ≈ III; II perfect with shortcuts and useless without; IV in between, bit by bit.

    Args:
        means: Setup → "both rsum" without shortcuts, "with rsum" with them.
    """
    without = {name: values["both rsum"] for name, values in means.items() if "both rsum" in values}
    with_shortcuts = {name: values["with rsum"] for name, values in means.items() if "with rsum" in values}
    checks = []
    if "I" not in without:
        return []
    base = without["I"]
    for setup in ("III images", "III captions"):
        if setup in without:
            share = without[setup] / base
            statement = f"{setup} alone change little (within 10 %)"
            checks.append(TrendCheck(statement, abs(share - 1) <= 0.1, f"{share:.3f} of I"))
    if "II" in with_shortcuts:
        numbers = f"{with_shortcuts['II']:.1f} of 600; without {100 * without['II'] / base:.1f} % of I"
        checks.append(TrendCheck("II with shortcuts: at least 590 of 600", with_shortcuts["II"] >= 590, numbers))
        checks.append(TrendCheck("II without: at most 5 % of I", without["II"] <= 0.05 * base, numbers))
    bits = sorted(int(name.removeprefix("IV ")) for name in without if name.startswith("IV "))
    for label, sums, sign in (("without", without, -1), ("with", with_shortcuts, 1)):
        values = [sums[f"IV {bit}"] for bit in bits if f"IV {bit}" in sums]
        if len(values) > 1:
            steps = [sign * (later - earlier) for earlier, later in pairwise(values)]
            word = "falls" if sign < 0 else "rises"
            numbers = ", ".join(f"{bit}: {value:.1f}" for bit, value in zip(bits, values, strict=True))
            checks.append(TrendCheck(f"IV {label} {word} with every bit", min(steps) > 0, numbers))
    return checks
