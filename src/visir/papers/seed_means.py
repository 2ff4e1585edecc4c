"""The mean of a value over the seeds of its cells, and draws of that mean: new queries and new trainings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from visir.papers.cells import TableCell
from visir.studies.draws import Draws, few_units


def mean_draws(cells: Sequence[TableCell], label: str) -> Draws | None:
    """Draws of the mean of a value over finished cells of one row, one for each seed."""
    # Queries and seeds are both samples, so their deviations add up (as in `visir.evaluation.crossed`): those over
    # queries are the mean of the cells' own, which are of the same queries; those over seeds have the tails of
    # Student's t. Seed i of one system is paired with seed i of another. Where the seeds are folds, the value of a fold
    # already has the chance of its queries in it.
    values = np.array([cell.measured.values[label] for cell in cells])
    own = [cell.measured.draws[label] - value for cell, value in zip(cells, values, strict=True)
           if label in cell.measured.draws]  # fmt: skip
    ratio = cells[0].measured.fold_ratio
    if len(cells) == 1:
        return cells[0].measured.draws.get(label)
    name = f"seeds {', '.join(str(cell.seed) for cell in cells)}"
    variance = 1 / len(cells) + (ratio or 0.0)
    draws: Draws = values.mean() + few_units(values[:, None], variance, name)[:, 0]
    if ratio is None and len(own) == len(cells):
        draws = draws + np.mean(own, axis=0)
    return draws
