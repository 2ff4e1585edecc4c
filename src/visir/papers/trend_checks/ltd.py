"""Latent target decoding: the course of training under a constraint."""

from __future__ import annotations

from visir.studies.trend_check import Means, TrendCheck, rising


def ltd_figure_2(means: Means) -> list[TrendCheck]:
    """LTD, Figure 2 and section 5.3: what the multiplier does, and how it changes the contrastive loss.

    Args:
        means: System → label → value; the systems with a constraint have their bound in their name, "η=0.1".
    """
    checks = []
    by_bound = {float(name.partition("η=")[2]): values for name, values in means.items() if "η=" in name}
    by_bound = dict(sorted(by_bound.items()))
    largest = {eta: values["λ, largest"] for eta, values in by_bound.items() if "λ, largest" in values}
    if len(largest) > 1:
        numbers = ", ".join(f"η {eta:g}: {value:.1f}" for eta, value in largest.items())
        falling = rising(list(largest.values())[::-1])
        checks.append(TrendCheck("the tighter the bound, the larger λ becomes", falling, numbers))
    label = "reconstruction, last"
    last = {eta: values[label] for eta, values in by_bound.items() if label in values}
    for eta, loss in last.items():
        statement = f"η {eta:g}: the reconstruction loss ends at its bound (within 10 %)"
        checks.append(TrendCheck(statement, loss <= 1.1 * eta, f"{loss:.3f}"))
    dual = means.get("LTD, L_dual β=1", {}).get(label)
    if last and dual is not None:
        least = min(last.values())
        statement = "the dual loss leaves more unreconstructed than the tightest bound"
        checks.append(TrendCheck(statement, dual > least, f"dual {dual:.3f}, tightest constraint {least:.3f}"))
    label = "validation rsum"
    baseline = means.get("BL, L_con", {}).get(label)
    best = max((values[label] for values in by_bound.values() if label in values), default=None)
    if baseline is not None and best is not None:
        statement = "a constraint ends above the baseline (validation rsum)"
        checks.append(TrendCheck(statement, best > baseline, f"{best:.1f} against {baseline:.1f}"))
    return checks
