"""Latent target decoding: the course of training under a constraint."""

from __future__ import annotations

from visir.studies.trend_check import Means, TrendCheck, rising


def ltd_figure_2(means: Means) -> list[TrendCheck]:
    """LTD, Figure 2 and section 5.3: what the multiplier does, and what the contrastive loss has of it."""
    found = []
    bounds = {float(name.partition("η=")[2]): one for name, one in means.items() if "η=" in name}
    top = {eta: one["λ, largest"] for eta, one in sorted(bounds.items()) if "λ, largest" in one}
    if len(top) > 1:
        said = ", ".join(f"η {eta:g}: {one:.1f}" for eta, one in top.items())
        found.append(TrendCheck("the tighter the bound, the larger λ becomes", rising(list(top.values())[::-1]), said))
    ends = {eta: one["reconstruction, last"] for eta, one in sorted(bounds.items()) if "reconstruction, last" in one}
    for eta, last in ends.items():
        said = f"η {eta:g}: the reconstruction loss ends at its bound (within 10 %)"
        found.append(TrendCheck(said, last <= 1.1 * eta, f"{last:.3f}"))
    dual = means.get("LTD, L_dual β=1", {}).get("reconstruction, last")
    if ends and dual is not None:
        least = min(ends.values())
        said = f"dual {dual:.3f}, tightest constraint {least:.3f}"
        found.append(
            TrendCheck("the dual loss leaves more unreconstructed than the tightest bound", dual > least, said)
        )
    base = means.get("BL, L_con", {}).get("validation rsum")
    best = max((one["validation rsum"] for one in bounds.values() if "validation rsum" in one), default=None)
    if base is not None and best is not None:
        said = f"{best:.1f} against {base:.1f}"
        found.append(TrendCheck("a constraint ends above the baseline (validation rsum)", best > base, said))
    return found
