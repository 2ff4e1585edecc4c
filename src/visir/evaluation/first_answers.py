"""Tasks whose first answers do not count: a picture that searches a gallery in which it stands itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from visir.evaluation.folds import Ranked
from visir.records import Ranks, Run, Task


def skips_first(folds: Mapping[str, Sequence[Task]]) -> bool:
    """Whether a task leaves first answers out; then a search has to go one deeper."""
    return any(tasks[0].skip_first for tasks in folds.values())


def without_first_answers(ranked: Ranked, folds: Mapping[str, Sequence[Task]]) -> Ranked:
    """Leave the first answer of every query out, in the tasks that say so (`Task.skip_first`)."""
    # A positive that stood first is not found: mteb reads such tasks so (`skip_first_result`).
    ranks, runs = dict(ranked[0]), dict(ranked[1])
    for name, tasks in folds.items():
        if tasks[0].skip_first:
            ranks[name] = [_moved(part) for part in ranks[name]]
            runs[name] = _shortened(runs[name])
    return ranks, runs


def _moved(ranks: Ranks) -> Ranks:
    moved = np.maximum(ranks.ranks - 1, 0)
    row = np.repeat(np.arange(len(ranks)), ranks.positives)
    order = np.lexsort((np.where(moved == 0, np.iinfo(np.int64).max, moved), row))
    depth = None if ranks.depth is None else max(ranks.depth - 1, 1)
    return replace(ranks, ranks=moved[order], grades=ranks.grades[order], depth=depth)


def _shortened(run: Run) -> Run:
    lengths = np.diff(run.offsets)
    left = np.ones(len(run.indices), bool)
    left[run.offsets[:-1][lengths > 0]] = False
    offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths - 1, 0))]).astype(np.int64)
    return replace(
        run, offsets=offsets, indices=run.indices[left], scores=run.scores[left], depth=max(run.depth - 1, 1)
    )
