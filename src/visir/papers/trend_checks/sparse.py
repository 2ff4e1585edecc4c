"""Chapter 3: what less regularisation costs and finds, and what control of expansion does to terms."""

from __future__ import annotations

from visir.studies.trend_check import Means, TrendCheck, chance_of_order, rising


def figure_3_2(means: Means) -> list[TrendCheck]:
    """Figure 3.2a: with less η every variant costs more and finds no less; control costs less than none."""
    checks = []
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
            checks.append(TrendCheck(f"{variant}: less η, more FLOPs", rising(costs), numbers, chance))
            checks.append(TrendCheck(f"{variant}: less η, R@1 not lower", rising(hits), numbers, chance))
    for (variant, eta), (cost, hit) in points.items():
        if variant == "exp=c" and ("exp=1", eta) in points:
            free = points["exp=1", eta]
            numbers = f"{cost:.1f} against {free[0]:.1f} FLOPs, R@1 {hit:.1f} against {free[1]:.1f}"
            checks.append(TrendCheck(f"η {eta:g}: caption control costs less than none", cost < free[0], numbers))
    return checks


def table_3_4(means: Means) -> list[TrendCheck]:
    """Table 3.4 (section 3.5.2): with control of expansion more of the heaviest terms are said of the image."""
    control, free = (means.get(f"D2S (η=1e-3, {expansion})", {}) for expansion in ("exp=c", "exp=1.0"))
    return [
        TrendCheck(
            f"control: more of the ten heaviest terms of {modality}s are said of the image",
            control[label] > free[label],
            f"{control[label]:.1f} against {free[label]:.1f} %",
        )
        for modality in ("caption", "image")
        if (label := f"{modality} exact@10") in control and label in free
    ]
