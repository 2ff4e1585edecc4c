"""The shapes of chapter 3: what must come out whatever the collection, said with the numbers."""

from __future__ import annotations

from visir.papers.sparse_study import SparseStudy


def sparse_trend_checks(study: SparseStudy) -> list[tuple[str, bool, str]]:
    """(what the chapter says, whether it came out, the numbers) for every η whose variants are there; means over seeds.

    - `free` has the most FLOPs and the lowest Exact@20 (Tables 3.2, 3.3)
    - `none` has the fewest FLOPs and the lowest R@1 (Table 3.2)
    - `caption` lies between them in both (Table 3.2)
    - lower η: more FLOPs, and R@1 not lower (Fig. 3.2a)
    """
    found = []
    etas = sorted({eta for _, eta in study.models}, reverse=True)
    for eta in etas:
        there = {variant: one for (variant, of), one in study.models.items() if of == eta}
        if not {"none", "free", "caption"} <= set(there):
            continue
        costs = {name: float(one.cost("flops").mean()) for name, one in there.items()}
        hits = {name: 100 * float(one.effects("hit@1").mean()) for name, one in there.items()}
        exact = {name: 100 * float(one.deviation("exact@20").mean()) for name, one in there.items()}
        found += [
            (f"η={eta:g}: free costs most", max(costs, key=costs.__getitem__) == "free", _said(costs, "FLOPs")),
            (f"η={eta:g}: free says least", min(exact, key=exact.__getitem__) == "free", _said(exact, "Exact@20")),
            (f"η={eta:g}: none costs least", min(costs, key=costs.__getitem__) == "none", _said(costs, "FLOPs")),
            (f"η={eta:g}: none finds least", min(hits, key=hits.__getitem__) == "none", _said(hits, "R@1")),
            (
                f"η={eta:g}: caption lies between none and free",
                costs["none"] < costs["caption"] < costs["free"] and hits["none"] < hits["caption"] <= hits["free"],
                f"{_said(costs, 'FLOPs')}; {_said(hits, 'R@1')}",
            ),
        ]
    for variant in dict.fromkeys(variant for variant, _ in study.models):
        some = [study.models[variant, eta] for eta in etas if (variant, eta) in study.models]
        if len(some) > 1:
            costs = {f"η={one.eta:g}": float(one.cost("flops").mean()) for one in some}
            hits = {f"η={one.eta:g}": 100 * float(one.effects("hit@1").mean()) for one in some}
            rising = list(costs.values()) == sorted(costs.values()) and list(hits.values()) == sorted(hits.values())
            found.append(
                (f"{variant}: less η, more FLOPs and R@1", rising, f"{_said(costs, 'FLOPs')}; {_said(hits, 'R@1')}")
            )
    return found


def _said(values: dict[str, float], what: str) -> str:
    return f"{what} " + ", ".join(f"{name} {value:.1f}" for name, value in values.items())
