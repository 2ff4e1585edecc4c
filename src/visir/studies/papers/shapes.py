"""What a figure shows, as sentences that come out or do not: for what has no printed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Means = Mapping[str, Mapping[str, float]]
"""System → label → the mean over seeds, of one collection."""


@dataclass(frozen=True)
class Shape:
    """What a figure says, whether it came out (None where it could not be looked at), and the numbers."""

    says: str
    came_out: bool | None
    numbers: str


def _figure_3_2(means: Means) -> list[Shape]:
    """Figure 3.2a: with less η every variant costs more and finds no less; control costs less than none."""
    found = []
    # (variant, η) → FLOPs, R@1
    points = {
        (name.partition(", η=")[0], float(name.partition("η=")[2])): (one["t2i flops"], one["t2i R@1"])
        for name, one in means.items()
        if "t2i flops" in one
    }
    for variant in dict.fromkeys(variant for variant, _ in points):
        etas = sorted((eta for of, eta in points if of == variant), reverse=True)
        some = [(eta, *points[variant, eta]) for eta in etas]
        if len(some) > 1:
            numbers = ", ".join(f"η {eta:g}: {cost:.1f} FLOPs, R@1 {hit:.1f}" for eta, cost, hit in some)
            found.append(Shape(f"{variant}: less η, more FLOPs", _rising([cost for _, cost, _ in some]), numbers))
            found.append(Shape(f"{variant}: less η, R@1 not lower", _rising([hit for _, _, hit in some]), numbers))
    for (variant, eta), (cost, hit) in points.items():
        if variant == "exp=c" and ("exp=1", eta) in points:
            free = points["exp=1", eta]
            said = f"{cost:.1f} against {free[0]:.1f} FLOPs, R@1 {hit:.1f} against {free[1]:.1f}"
            found.append(Shape(f"η {eta:g}: caption control costs less than none", cost < free[0], said))
    return found


def _table_3_4(means: Means) -> list[Shape]:
    """Table 3.4 (section 3.5.2): with control of expansion more of the heaviest terms are said of the image."""
    control, free = (means.get(f"D2S (η=1e-3, {one})", {}) for one in ("exp=c", "exp=1.0"))
    return [
        Shape(
            f"control: more of the ten heaviest terms of {what}s are said of the image",
            control[label] > free[label],
            f"{control[label]:.1f} against {free[label]:.1f} %",
        )
        for what in ("caption", "image")
        if (label := f"{what} exact@10") in control and label in free
    ]


def _figure_4_5(means: Means) -> list[Shape]:
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
            found.append(Shape(f"{one} alone change little (within 10 %)", abs(share - 1) <= 0.1, f"{share:.3f} of I"))
    if "II" in with_them:
        said = f"{with_them['II']:.1f} of 600; without {100 * without['II'] / base:.1f} % of I"
        found.append(Shape("II with shortcuts: at least 590 of 600", with_them["II"] >= 590, said))
        found.append(Shape("II without: at most 5 % of I", without["II"] <= 0.05 * base, said))
    bits = sorted(int(name.removeprefix("IV ")) for name in without if name.startswith("IV "))
    for label, sums, sign in (("without", without, -1), ("with", with_them, 1)):
        some = [sums[f"IV {one}"] for one in bits if f"IV {one}" in sums]
        if len(some) > 1:
            steps = [sign * (later - earlier) for earlier, later in pairwise(some)]
            word = "falls" if sign < 0 else "rises"
            numbers = ", ".join(f"{bit}: {one:.1f}" for bit, one in zip(bits, some, strict=True))
            found.append(Shape(f"IV {label} {word} with every bit", min(steps) > 0, numbers))
    return found


def _ltd_figure_2(means: Means) -> list[Shape]:
    """LTD, Figure 2 and section 5.3: what the multiplier does, and what the contrastive loss has of it."""
    found = []
    bounds = {float(name.partition("η=")[2]): one for name, one in means.items() if "η=" in name}
    top = {eta: one["λ, largest"] for eta, one in sorted(bounds.items()) if "λ, largest" in one}
    if len(top) > 1:
        said = ", ".join(f"η {eta:g}: {one:.1f}" for eta, one in top.items())
        found.append(Shape("the tighter the bound, the larger λ becomes", _rising(list(top.values())[::-1]), said))
    ends = {eta: one["reconstruction, last"] for eta, one in sorted(bounds.items()) if "reconstruction, last" in one}
    for eta, last in ends.items():
        said = f"η {eta:g}: the reconstruction loss ends at its bound (within 10 %)"
        found.append(Shape(said, last <= 1.1 * eta, f"{last:.3f}"))
    dual = means.get("LTD, L_dual β=1", {}).get("reconstruction, last")
    if ends and dual is not None:
        least = min(ends.values())
        said = f"dual {dual:.3f}, tightest constraint {least:.3f}"
        found.append(Shape("the dual loss leaves more unreconstructed than the tightest bound", dual > least, said))
    base = means.get("BL, L_con", {}).get("validation rsum")
    best = max((one["validation rsum"] for one in bounds.values() if "validation rsum" in one), default=None)
    if base is not None and best is not None:
        said = f"{best:.1f} against {base:.1f}"
        found.append(Shape("a constraint ends above the baseline (validation rsum)", best > base, said))
    return found


def _rising(values: list[float]) -> bool:
    return all(later >= earlier for earlier, later in pairwise(values))


SHAPES: dict[str, Callable[[Means], list[Shape]]] = {
    "figure-3-2": _figure_3_2,
    "figure-4-5": _figure_4_5,
    "ltd-figure-2": _ltd_figure_2,
    "table-3-4": _table_3_4,
}
