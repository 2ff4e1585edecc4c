"""The tables of chapter 3 from a study, beside the published ones as quoted rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.published import load
from visir.papers.sparse_study import DEVIATIONS, EFFECTS, Key, SparseStudy
from visir.reports.table import Cell, Column, Table

PUBLISHED_AS = {"none": "0", "free": "1", "caption": "c", "caption+word": "c+w"}
"""The thesis's names of the variants."""
QUOTED = "MS COCO (5k)"
_DAGGER, _SIGNIFICANT = 0.05, 0.01


def effectiveness(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.1: the published baselines, the dense model, and the study's models; `quoted` names a collection."""
    # † as in the thesis: different from the dense model (paired two-tailed t-test over captions, p < 0.05, Bonferroni).
    # ‡: also by the house's test, which takes captions of one image, and trainings, as the samples they are.
    rows = _quoted("thesis-table-3-1", ("R@1", "R@5", "mrr@10", "flops"), quoted)
    dense = study.dense.result
    rows.append([dense.system, *(f"{100 * dense.mean('t2i', measure):.1f}" for measure in EFFECTS), None, "visir"])
    for key, model in study.models.items():
        cells = [_spread(100 * model.effects(measure)) + _marks(study, key, measure) for measure in EFFECTS]
        rows.append([_name(key), *cells, _spread(model.cost("flops")), "visir"])
    notes = [
        "† differs from the dense model: paired two-tailed t-test over captions, p < 0.05, Bonferroni (as the thesis)",
        "‡ also with images and trainings as samples, p < 0.05, Holm (visir)",
        f"visir: {study.name}, mean ± standard deviation over seeds {_listed(study.seeds)}; text to image",
    ]
    notes += _of_quoted("thesis-table-3-1", quoted)
    head = [Column("model"), *(Column(name) for name in ("R@1", "R@5", "MRR@10", "FLOPs", "source"))]
    return Table.of(head, rows, caption="Table 3.1: effectiveness and cost", notes=notes)


def coactivation(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.2: effectiveness against cost by variant and η, with active terms and the longest list of images."""
    rows: list[list[Cell]] = [
        [*row[:-1], None, None, None, row[-1]]
        for row in _quoted("thesis-table-3-2", ("R@1", "R@5", "mrr@10", "flops"), quoted)
    ]
    for key, model in study.models.items():
        lists = [cost["longest image lists"] for cost in model.costs]
        longest = [
            100 * images[0][1] / cost["images"] if images else 0.0
            for images, cost in zip(lists, model.costs, strict=True)
        ]
        rows.append(
            [
                _name(key),
                *(_spread(100 * model.effects(measure)) for measure in EFFECTS),
                *(_spread(model.cost(cost)) for cost in ("flops", "text terms", "image terms")),
                f"{np.mean(longest):.0f}",
                "visir",
            ]
        )
    head = ("model", "R@1", "R@5", "MRR@10", "FLOPs", "terms/text", "terms/image", "longest list %", "source")
    notes = [
        "exp: 0 none, 1 free, c caption, c+w caption+word",
        "longest list: the share of the images that have the most frequent term",
        *_of_quoted("thesis-table-3-2", quoted),
    ]
    return Table.of([Column(name) for name in head], rows, caption="Table 3.2: dimension co-activation", notes=notes)


def deviation(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.3: how far the captions' terms are from their words; † different from `free` at the same η (p < 0.01)."""
    rows = _quoted("thesis-table-3-3", DEVIATIONS, quoted)
    for key, model in study.models.items():
        cells = []
        for measure in DEVIATIONS:
            mark = ""
            if key[0] != "free" and ("free", key[1]) in study.models:
                mark = " †" if study.deviation_p(key[1], measure, key[0]) < _SIGNIFICANT else ""
            cells.append(_spread(100 * model.deviation(measure).mean(axis=1)) + mark)
        rows.append([_name(key), *cells, "visir"])
    table = next((str(costs["static vectors"]) for model in study.models.values() for costs in model.costs), "")
    notes = [
        "† differs from exp=1 with the same η: paired two-tailed t-test over captions, p < 0.01 (as the thesis)",
        f"Semantic@20 by {table}; levels of another table do not compare",
        *_of_quoted("thesis-table-3-3", quoted),
    ]
    head = [Column("model"), Column("Exact@20"), Column("Semantic@20"), Column("source")]
    return Table.of(head, rows, caption="Table 3.3: semantic deviation of captions", notes=notes)


def faithfulness(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.5: Pearson's ρ with the dense model, query by query, times 100; and the overlap@10 of Fig. 3.2b."""
    rows: list[list[Cell]] = [
        [*row[:-1], None, row[-1]] for row in _quoted("thesis-table-3-5", ("ρ R@1", "ρ R@5", "ρ mrr@10"), quoted)
    ]
    for key in study.models:
        cells = [_spread(100 * correlation) for correlation in study.faithfulness(key).values()]
        rows.append([_name(key), *cells, _spread(100 * study.overlap(key).mean(axis=1)), "visir"])
    head = ("model", "ρ R@1", "ρ R@5", "ρ MRR@10", "overlap@10 %", "source")
    notes = ["overlap@10: the share of the dense model's first ten images that are among the sparse model's first ten"]
    notes += _of_quoted("thesis-table-3-5", quoted)
    return Table.of(
        [Column(name) for name in head], rows, caption="Table 3.5: faithfulness to the dense model", notes=notes
    )


def _quoted(name: str, labels: Sequence[str], collection: str | None) -> list[list[Cell]]:
    table = load(name)
    return [
        [row.system, *(_printed(row.values["t2i"].get(label)) for label in labels), "quoted"]
        for row in table.rows
        if row.collection == collection
    ]


def _of_quoted(name: str, collection: str | None) -> list[str]:
    """What is to be known of the quoted rows."""
    if not collection:
        return []
    return [f"quoted: the thesis's, on {collection}: another collection, other encoders", *load(name).notes]


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _printed(value: float | None) -> Cell:
    return None if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _name(key: Key) -> str:
    variant, eta = key
    return f"D2S (η={eta:.0e}, exp={PUBLISHED_AS[variant]})".replace("e-0", "e-").replace("e+00", "")


def _spread(values: NDArray[np.float64]) -> str:
    """The mean over seeds, with the standard deviation where there are several."""
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


def _marks(study: SparseStudy, key: Key, measure: str) -> str:
    thesis, house = study.thesis_p[key, measure] < _DAGGER, study.house_p[key, measure] < _DAGGER
    return " " + "†" * thesis + "‡" * house if thesis or house else ""
