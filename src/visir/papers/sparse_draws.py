"""Draws of what a sparse head finds and says, beside its dense model: images are drawn with all their captions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.evaluation.compare import paired_rows
from visir.evaluation.faithfulness import overlap_at
from visir.evaluation.results import Evaluation
from visir.papers.sparse_study import DEVIATIONS, EFFECTS
from visir.studies.draws import Draws, finite, unit_means, unit_sums

NAMES = {"hit@1": "R@1", "hit@5": "R@5", "mrr@10": "mrr@10"}
"""Measure → how chapter 3 prints it."""


def sparse_draws(dense: Evaluation, sparse: Evaluation, captions: pa.Table) -> dict[str, Draws]:
    """Draws of the values of `visir.papers.experiments.sparsify` but the costs, which are of the whole gallery."""
    assert sparse.captions is not None, "an evaluation knows its captions"
    image_of = dict(zip(sparse.captions["id"].to_pylist(), sparse.captions["image_id"].to_pylist(), strict=True))
    of_captions = {f"t2i {measure}": 100 * captions[measure].to_numpy() for measure in DEVIATIONS}
    draws = unit_means([image_of[caption] for caption in captions["id"].to_pylist()], of_captions)
    images = [image_of[query] for query in dense.result.per_query["t2i"]["query_id"].to_pylist()]
    rows = paired_rows(dense.result, sparse.result, "t2i")
    of_queries = {measure: sparse.result.values("t2i", measure)[rows] for measure in EFFECTS}
    values = {f"t2i {NAMES[measure]}": 100 * values for measure, values in of_queries.items()}
    draws |= unit_means(
        images, {**values, "t2i overlap@10": 100 * overlap_at(dense.runs["t2i"], sparse.runs["t2i"], 10)}
    )
    for measure, values_of_queries in of_queries.items():
        correlated = _correlation(images, dense.result.values("t2i", measure), values_of_queries)
        draws |= finite({f"t2i ρ {NAMES[measure]}": 100 * correlated})
    return draws


def _correlation(units: list[str], first: NDArray[np.float64], second: NDArray[np.float64]) -> Draws:
    """Draws of Pearson's ρ; NaN where one of the two does not vary."""
    columns = [np.ones_like(first), first, second, first * first, second * second, first * second]
    n, x, y, xx, yy, xy = unit_sums(units, np.stack(columns, axis=1)).T
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Draws = (n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y))
    return correlation
