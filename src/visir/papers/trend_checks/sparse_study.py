"""The trends of chapter 3 in a study of sparse heads, whatever the collection."""

from __future__ import annotations

from visir.papers.sparse_study import SparseStudy
from visir.studies.trend_check import TrendCheck


def sparse_trend_checks(study: SparseStudy) -> list[TrendCheck]:
    """What the chapter says of its variants, for every η that has them; means over seeds."""
    # - `free` has the most FLOPs and the lowest Exact@20 (Tables 3.2, 3.3).
    # - `none` has the fewest FLOPs and the lowest R@1 (Table 3.2).
    # - `caption` lies between them in both (Table 3.2).
    # - Lower η: more FLOPs, and R@1 not lower (Fig. 3.2a).
    checks = []
    etas = sorted({eta for _, eta in study.models}, reverse=True)
    for eta in etas:
        models = {variant: model for (variant, model_eta), model in study.models.items() if model_eta == eta}
        if not {"none", "free", "caption"} <= set(models):
            continue
        costs = {name: float(model.cost("flops").mean()) for name, model in models.items()}
        hits = {name: 100 * float(model.effects("hit@1").mean()) for name, model in models.items()}
        exact = {name: 100 * float(model.deviation("exact@20").mean()) for name, model in models.items()}
        flops, recalls = _listed(costs, "FLOPs"), _listed(hits, "R@1")
        between = costs["none"] < costs["caption"] < costs["free"] and hits["none"] < hits["caption"] <= hits["free"]
        checks += [
            TrendCheck(f"η={eta:g}: free costs most", max(costs, key=costs.__getitem__) == "free", flops),
            TrendCheck(
                f"η={eta:g}: free says least", min(exact, key=exact.__getitem__) == "free", _listed(exact, "Exact@20")
            ),
            TrendCheck(f"η={eta:g}: none costs least", min(costs, key=costs.__getitem__) == "none", flops),
            TrendCheck(f"η={eta:g}: none finds least", min(hits, key=hits.__getitem__) == "none", recalls),
            TrendCheck(f"η={eta:g}: caption lies between none and free", between, f"{flops}; {recalls}"),
        ]
    for variant in dict.fromkeys(variant for variant, _ in study.models):
        by_eta = {eta: study.models[variant, eta] for eta in etas if (variant, eta) in study.models}
        if len(by_eta) > 1:
            costs = {f"η={eta:g}": float(model.cost("flops").mean()) for eta, model in by_eta.items()}
            hits = {f"η={eta:g}": 100 * float(model.effects("hit@1").mean()) for eta, model in by_eta.items()}
            is_rising = list(costs.values()) == sorted(costs.values()) and list(hits.values()) == sorted(hits.values())
            numbers = f"{_listed(costs, 'FLOPs')}; {_listed(hits, 'R@1')}"
            checks.append(TrendCheck(f"{variant}: less η, more FLOPs and R@1", is_rising, numbers))
    return checks


def _listed(values: dict[str, float], name: str) -> str:
    return f"{name} " + ", ".join(f"{key} {value:.1f}" for key, value in values.items())
