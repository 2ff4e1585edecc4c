"""Latent target decoding: the course of training under a constraint."""

from __future__ import annotations

from collections.abc import Mapping

from visir.studies.trend_check import Means, TrendCheck

PAPER_BOUND, TOO_TIGHT = 0.2, 0.05
"""The bound of the paper's tables, and the one that it calls too low to be met."""
CONVERGED, MET, ZERO = 0.1, 0.02, 0.01
"""How far from its bound a loss may end that converges to it; how far above one that meets it (relative to the bound);
the λ that counts as 0 (relative to the largest)."""
SAME_CURVE = 0.1
"""How far apart two contrastive losses may end that have "the same trajectory" (relative)."""
_RECONSTRUCTION, _RSUM = "reconstruction, last", "validation rsum"


def ltd_figure_2(means: Means) -> list[TrendCheck]:
    """LTD, section 5.3, observations (1) to (5) of Figure 2, and its bound beside the baseline."""
    # "The bound" is the paper's, η = 0.2; another one that ends higher answers nothing.
    by_bound = {float(name.partition("η=")[2]): values for name, values in means.items() if "η=" in name}
    checks = [check for eta, values in sorted(by_bound.items()) for check in _of_bound(eta, values)]
    again = [values["λ, largest after 0"] for values in by_bound.values() if "λ, largest after 0" in values]
    if again:
        numbers = ", ".join(f"{value:.2f}" for value in again)
        checks.append(TrendCheck("λ is positive again after it was 0, under some bound", max(again) > 0, numbers))
    return checks + _scores(means, by_bound)


def _of_bound(eta: float, values: Mapping[str, float]) -> list[TrendCheck]:
    """(1) λ rises until the bound is met and falls to 0 then; (3) the loss converges to the bound, unless it is .05."""
    checks = []
    largest, last = values.get("λ, largest"), values.get(_RECONSTRUCTION)
    if largest is not None:
        checks.append(TrendCheck(f"η {eta:g}: λ rises above its start, 1", largest > 1, f"{largest:.1f}"))
    if last is None:
        return checks
    if eta <= TOO_TIGHT:
        statement = f"η {eta:g}: the bound cannot be met (the loss ends more than {CONVERGED:.0%} above it)"
        return [*checks, TrendCheck(statement, last > (1 + CONVERGED) * eta, f"{last:.3f}")]
    statement = f"η {eta:g}: the reconstruction loss converges to its bound (within {CONVERGED:.0%})"
    checks.append(TrendCheck(statement, abs(last / eta - 1) <= CONVERGED, f"{last:.3f}"))
    least = values.get("λ, least after its peak")
    if largest is not None and least is not None:
        met = last <= (1 + MET) * eta
        numbers = f"{least:.2f} after {largest:.1f}" if met else f"the bound is not met: the loss ends at {last:.3f}"
        falls = least <= ZERO * largest if met else None
        checks.append(TrendCheck(f"η {eta:g}: when the bound is met λ falls to 0", falls, numbers))
    return checks


def _scores(means: Means, by_bound: dict[float, Mapping[str, float]]) -> list[TrendCheck]:
    """(4) A lower reconstruction loss does not mean a higher rsum; (5) the contrastive loss does not depend on it."""
    checks = []
    paper, dual = by_bound.get(PAPER_BOUND, {}), means.get("LTD, L_dual β=1", {})
    baseline = means.get("BL, L_con", {})

    def compare(statement: str, label: str, higher: Mapping[str, float], lower: Mapping[str, float]) -> None:
        if label in higher and label in lower:
            numbers = f"{higher[label]:.4g} against {lower[label]:.4g}"
            checks.append(TrendCheck(statement, higher[label] > lower[label], numbers))

    for eta in (0.1, TOO_TIGHT):
        statement = f"η {PAPER_BOUND:g} ends above η {eta:g} (validation rsum)"
        compare(statement, _RSUM, paper, by_bound.get(eta, {}))
    compare(f"the dual loss reconstructs more than η {PAPER_BOUND:g} (a lower loss)", _RECONSTRUCTION, paper, dual)
    compare(f"η {PAPER_BOUND:g} ends above the dual loss (validation rsum)", _RSUM, paper, dual)
    compare(f"η {PAPER_BOUND:g} ends above the baseline (validation rsum)", _RSUM, paper, baseline)
    label = "contrastive, last"
    if label in paper and label in baseline:
        share = paper[label] / baseline[label]
        statement = f"η {PAPER_BOUND:g} has the baseline's contrastive loss (within {SAME_CURVE:.0%} at the end)"
        checks.append(TrendCheck(statement, abs(share - 1) <= SAME_CURVE, f"{share:.3f} of it"))
    return checks
