"""Chapter 4: retrieval with and without synthetic shortcuts."""

from __future__ import annotations

from itertools import pairwise

from visir.studies.trend_check import Means, TrendCheck


def figure_4_5(means: Means) -> list[TrendCheck]:
    """Figure 4.5 (section 4.5.1): I ≈ III; II perfect with shortcuts and useless without; IV in between, bit by bit."""
    without = {name: one["both rsum"] for name, one in means.items() if "both rsum" in one}
    with_them = {name: one["with rsum"] for name, one in means.items() if "with rsum" in one}
    found = []
    if "I" not in without:
        return []
    base = without["I"]
    for one in ("III images", "III captions"):
        if one in without:
            share = without[one] / base
            found.append(
                TrendCheck(f"{one} alone change little (within 10 %)", abs(share - 1) <= 0.1, f"{share:.3f} of I")
            )
    if "II" in with_them:
        said = f"{with_them['II']:.1f} of 600; without {100 * without['II'] / base:.1f} % of I"
        found.append(TrendCheck("II with shortcuts: at least 590 of 600", with_them["II"] >= 590, said))
        found.append(TrendCheck("II without: at most 5 % of I", without["II"] <= 0.05 * base, said))
    bits = sorted(int(name.removeprefix("IV ")) for name in without if name.startswith("IV "))
    for label, sums, sign in (("without", without, -1), ("with", with_them, 1)):
        some = [sums[f"IV {one}"] for one in bits if f"IV {one}" in sums]
        if len(some) > 1:
            steps = [sign * (later - earlier) for earlier, later in pairwise(some)]
            word = "falls" if sign < 0 else "rises"
            numbers = ", ".join(f"{bit}: {one:.1f}" for bit, one in zip(bits, some, strict=True))
            found.append(TrendCheck(f"IV {label} {word} with every bit", min(steps) > 0, numbers))
    return found
