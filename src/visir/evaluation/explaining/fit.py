"""One reading with its values, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from visir.display import Displayed, brief
from visir.evaluation.explaining.material import Reading
from visir.evaluation.explaining.searching import Combined
from visir.evaluation.explaining.trial import OTHER, Trials
from visir.evaluation.published.judge import Digits, Judgement, judge_one

_SAME = 1e-9


@dataclass(frozen=True)
class Fit(Displayed):
    """One reading, compared with the published values.

    Attributes:
        reading: The reading, of each task.
        values: Our values and the published ones.
        distance: The mean of |ours − published| / published, over all values but the cross-modal DCG, which does not
            depend on the reading of recall.
        candidates: For each task the number of candidates of each fold (one number: no folds).
        fits: Whether all printed digits follow.
        same: Other readings that give exactly the same values here.
    """

    reading: Combined
    values: tuple[Judgement, ...]
    distance: float
    candidates: Mapping[str, tuple[int, ...]]
    fits: bool
    same: tuple[Combined, ...] = ()

    def __repr__(self) -> str:
        equal = f"{self.reproduced} of {len(self.values)} values equal as printed"
        return brief(self, f"{self.reading}: {100 * self.distance:.2f} % off, {equal}")

    @property
    def reproduced(self) -> int:
        """The number of values that agree with the printed digits, in any way."""
        return sum(value.digits != "off" for value in self.values)

    def count(self, digits: Digits) -> int:
        """Count the values that agree in one way.

        Args:
            digits: The way ("truncated": only if further digits are cut off).

        Returns:
            The number of values.
        """
        return sum(value.digits == digits for value in self.values)

    def is_same(self, other: Fit) -> bool:
        """Whether another reading gives exactly the same values."""
        own, others = ([value.ours for value in fit.values] for fit in (self, other))
        return len(own) == len(others) and bool(np.allclose(own, others, rtol=0, atol=_SAME))


_OF_NOUGHT = 1.0
"""How far another value is from a printed 0."""


def fit_of(combined: Combined, trials: Trials, both: float | None, fits: bool) -> Fit | None:
    """Show a reading; None if it cannot be computed for every task."""
    values: list[Judgement] = []
    candidates: dict[str, tuple[int, ...]] = {}
    low = high = 0.0
    for task, reading in combined.by_task:
        trial = trials.of(task, reading)
        if trial is None:
            return None
        values += trial.values
        low, high = low + trial.sums[0], high + trial.sums[1]
        subject = OTHER[task] if reading["direction"] == "swapped" else task
        candidates[subject] = _sizes(trials, subject, trial.sizes)
    if both is not None and len(combined.by_task) == 2:
        values.append(judge_one("both", "rsum", "rsum", (low + high) / 2, both, trials.decimals))
    relative = [abs(value.relative) for value in values if not value.measure.startswith("dcg_cm")]
    gaps = [gap if np.isfinite(gap) else _OF_NOUGHT for gap in relative]
    distance = float(np.mean(gaps)) if gaps else 0.0
    return Fit(combined, tuple(values), distance, candidates, fits)


def _sizes(trials: Trials, task: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The candidates of each fold; of the result's own, as stated, where a gallery is known by its size only."""
    gallery = trials.bench.material.runs[task].gallery
    is_stated = gallery.ids is None and gallery.size > 0
    return (gallery.size,) if is_stated and sizes == trials.bench.part(task, Reading()).sizes else sizes
