"""What one perturbation does to one system: how rsum changed, over all queries and over those that were changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.resampling import interval, resampled_sums
from visir.evaluation.significance import TestName, paired_test
from visir.records import Corrupted, Result, Run

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class RsumChange:
    """How rsum of one task changed over a set of queries.

    - `before`, `after`: rsum in points (0–300); `points`: after − before
    - `percent`: 100 · points / before, negative for a loss; NaN where nothing was found before
    - `points_interval`, `percent_interval`: 95 % bootstrap intervals, images drawn with all their captions. That of the
      percentage is of the ratio itself: what was found before is drawn with the rest.
    - `queries`: how many
    """

    before: float
    after: float
    points_interval: Interval
    percent_interval: Interval
    queries: int

    @property
    def points(self) -> float:
        """Points of rsum gained; negative for a loss."""
        return self.after - self.before

    @property
    def percent(self) -> float:
        """Percent of the rsum before; negative for a loss."""
        return 100 * self.points / self.before if self.before else float("nan")

    @property
    def percent_left(self) -> float:
        """Percent of the rsum before that is left: what `visir stress --fail-under` looks at."""
        return 100 + self.percent


@dataclass(frozen=True, eq=False)
class ConditionOutcome:
    """One perturbation as it was searched and measured, before anything is said of it.

    - `name`, `title`, `family`: as the perturbation calls itself; `description`: on the protocol card
    - `changed`: (n,) which of the task's queries the perturbation changed, in the order of the result
    - `result`, `run`: over all queries
    - `texts`: query id → the caption as it was sent, of the changed ones
    - `corrupted`: what the pictures suffered, of image queries
    """

    name: str
    title: str
    family: str
    description: str
    task: str
    changed: NDArray[np.bool_]
    result: Result
    run: Run
    texts: Mapping[str, str]
    corrupted: Corrupted | None = None


@dataclass(frozen=True, eq=False)
class Effect:
    """An outcome beside the unperturbed one.

    - `overall`: over all queries, those the perturbation left as they were among them; `on_changed`: over the changed
      ones only (None when it changed none): two different questions. A synonym of an adjective helps or harms only the
      captions that have one.
    - `p`: two-sided, of the paired test over images with their captions; `p_corrected`: within the family
    - `before`, `after`: (n,) each query's rsum in points
    """

    outcome: ConditionOutcome
    overall: RsumChange
    on_changed: RsumChange | None
    p: float
    p_corrected: float
    before: Floats
    after: Floats

    @property
    def name(self) -> str:
        """The perturbation."""
        return self.outcome.name

    @property
    def coverage(self) -> float:
        """The share of queries that the perturbation changed, 0 to 1."""
        return float(self.outcome.changed.mean())

    @property
    def queries(self) -> pa.StringArray:
        """The query ids, in the order of everything per query."""
        return self.outcome.result.per_query[self.outcome.task]["query_id"].combine_chunks()

    def worst(self, count: int, ranks: tuple[Floats, Floats], group: Sequence[str]) -> list[int]:
        """Positions of the queries that lost most: rsum first, then how far the right answer fell.

        `ranks`: of the first right answer before and after; `group`: (n,) at most one query of each is taken.
        """
        lost = np.where(self.outcome.changed, self.before - self.after, 0.0)
        before, after = ranks
        ids = self.queries.to_numpy(zero_copy_only=False)
        chosen: list[int] = []
        seen: set[str] = set()
        for at in np.lexsort((ids, before, -np.nan_to_num(after, posinf=1e12), -lost)):
            if lost[at] <= 0 or len(chosen) == count:
                break
            if group[at] not in seen:
                seen.add(group[at])
                chosen.append(int(at))
        return chosen


def effects(
    plain: Result, outcomes: Sequence[ConditionOutcome], clusters: Sequence[str] | None, *, test: TestName, seed: int
) -> list[Effect]:
    """The effects of outcomes of one task, all from one resampling; `p_corrected` is left as `p`.

    `clusters`: (n,) the image of each query, in the order of the results; None where every query is an image.
    """
    if not outcomes:
        return []
    task = outcomes[0].task
    before = rsum_by_query(plain, task)
    after = [rsum_by_query(outcome.result, task) for outcome in outcomes]
    columns = [np.ones(len(before)), before]
    for outcome, values in zip(outcomes, after, strict=True):
        some = outcome.changed.astype(np.float64)
        columns += [values, some, some * before, some * values]
    sums = resampled_sums(np.stack(columns, axis=1), clusters, seed=seed)
    measured = []
    for at, (outcome, values) in enumerate(zip(outcomes, after, strict=True)):
        drawn = sums[:, 2 + 4 * at : 6 + 4 * at].T
        overall = _change(before, values, sums[:, 0], sums[:, 1], drawn[0])
        part = outcome.changed
        on_changed = _change(before[part], values[part], drawn[1], drawn[2], drawn[3]) if part.any() else None
        p = paired_test(test, values - before, clusters, seed=seed).p
        measured.append(Effect(outcome, overall, on_changed, p, p, before, values))
    return measured


def rsum_by_query(result: Result, task: str) -> Floats:
    """(n,) each query's recalls at 1, 5 and 10, summed, in points: their mean is the task's rsum."""
    recall = result.protocol.recall
    total: Floats = 100 * np.sum([result.values(task, f"{recall}@{k}") for k in RSUM_CUTOFFS], axis=0)
    return total


def _change(before: Floats, after: Floats, counts: Floats, drawn_before: Floats, drawn_after: Floats) -> RsumChange:
    with np.errstate(divide="ignore", invalid="ignore"):
        points = (drawn_after - drawn_before) / counts
        percent = 100 * (drawn_after - drawn_before) / drawn_before
    return RsumChange(float(before.mean()), float(after.mean()), interval(points), interval(percent), len(before))
