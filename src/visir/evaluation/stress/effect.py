"""The effect of one perturbation on one system: the change of rsum, over all queries and over the changed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.significance import FEW_UNITS, NO_INTERVAL, TestName, interval, paired_test, resampled_sums
from visir.records import Corrupted, Result, Run

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class RsumChange:
    """How rsum of one task changed over a set of queries."""

    before: float  # rsum before, in points (0–300)
    after: float  # rsum after
    # The 95 % bootstrap interval of `points`; images are drawn with all their captions. NaN of too few images
    # (`is_too_few`).
    points_interval: Interval
    # The same of `percent`. It is the interval of the ratio: the rsum before is resampled too.
    percent_interval: Interval
    queries: int  # the number of queries
    images: int  # the number of their images

    @property
    def is_too_few(self) -> bool:
        """Whether there are fewer than ten images: too few for an interval of a ratio."""
        return self.images < FEW_UNITS

    @property
    def interval_in_words(self) -> str:
        """The interval of `percent` as a reader meets it."""
        low, high = self.percent_interval
        if self.is_too_few:
            return "too few images for an interval"
        return "no interval" if isnan(low) else f"95 % interval {low:+.1f} to {high:+.1f} %"

    @property
    def points(self) -> float:
        """Points of rsum gained; negative for a loss."""
        return self.after - self.before

    @property
    def percent(self) -> float:
        """100 · points / before; negative for a loss, NaN if rsum before is 0."""
        return 100 * self.points / self.before if self.before else float("nan")

    @property
    def percent_left(self) -> float:
        """Percent of the rsum before that is left; `visir stress --fail-under` checks it."""
        return 100 + self.percent


@dataclass(frozen=True, eq=False)
class ConditionOutcome(Displayed):
    """The search results and measures of one perturbation."""

    name: str  # the name of the perturbation
    title: str  # its title
    family: str  # its family
    description: str  # its line on the protocol card
    task: str  # the task
    changed: NDArray[np.bool_]  # (n,) which of the task's queries the perturbation changed, in the order of the result
    result: Result  # the result over all queries
    run: Run  # the run over all queries
    texts: Mapping[str, str]  # query id → the perturbed caption, for the changed ones
    corrupted: Corrupted | None = None  # the corruption of the pictures, for image queries

    def __repr__(self) -> str:
        changed = f"{int(self.changed.sum()):,} of {counted(len(self.changed), 'queries')} changed"
        return brief(self, f"{self.name}, {self.task}: {changed}", self.description)


@dataclass(frozen=True, eq=False)
class Effect(Displayed):
    """The outcome of a perturbation, compared with the unperturbed one."""

    # A synonym of an adjective helps or harms only the captions that have one, so the change over all queries and the
    # change over the changed queries answer different questions.

    outcome: ConditionOutcome  # the outcome
    overall: RsumChange  # the change over all queries, unchanged ones included
    # The change over the changed queries only; None if there are none. Its interval draws from the images of the
    # changed queries.
    on_changed: RsumChange | None
    p: float  # the two-sided p-value of the paired test over images with their captions
    p_corrected: float  # the same, corrected within the family
    before: Floats  # (n,) each query's rsum before, in points
    after: Floats  # (n,) each query's rsum after

    def __repr__(self) -> str:
        return brief(
            self,
            f"{self.name}, {self.outcome.task}: rsum {self.overall.before:.1f} → {self.overall.after:.1f}, "
            f"{self.overall.percent:+.1f} %",
            f"{self.overall.interval_in_words}, p = {self.p_corrected:.2g} (corrected)",
            f"{100 * self.coverage:.0f} % of {counted(len(self.before), 'queries')} changed",
        )

    @property
    def name(self) -> str:
        """The name of the perturbation."""
        return self.outcome.name

    @property
    def coverage(self) -> float:
        """The share of queries that the perturbation changed, 0 to 1."""
        return float(self.outcome.changed.mean())

    @property
    def queries(self) -> pa.StringArray:
        """(n,) the query ids, in the order of all per-query values."""
        return self.outcome.result.per_query[self.outcome.task]["query_id"].combine_chunks()

    def worst(self, count: int, ranks: tuple[Floats, Floats], group: Sequence[str]) -> list[int]:
        """Find the queries that lost most: first by rsum, then by how far the first positive fell."""
        # ranks: (n,) each: the rank of the first positive before and after.
        # group: (n,) at most one query of each group is taken.
        lost = np.where(self.outcome.changed, self.before - self.after, 0.0)
        before, after = ranks
        ids = self.queries.to_numpy(zero_copy_only=False)
        chosen: list[int] = []
        seen: set[str] = set()
        for position in np.lexsort((ids, before, -np.nan_to_num(after, posinf=1e12), -lost)):
            if lost[position] <= 0 or len(chosen) == count:
                break
            if group[position] not in seen:
                seen.add(group[position])
                chosen.append(int(position))
        return chosen


def effects(
    plain: Result, outcomes: Sequence[ConditionOutcome], clusters: Sequence[str] | None, *, test: TestName, seed: int
) -> list[Effect]:
    """Measure the effects of outcomes of one task, all from one resampling."""
    # clusters: (n,) the image of each query, in the order of the results; None where every query is an image.
    if not outcomes:
        return []
    task = outcomes[0].task
    before = rsum_by_query(plain, task)
    after = [rsum_by_query(outcome.result, task) for outcome in outcomes]
    owners = np.arange(len(before)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    changes = rsum_changes(before, after, owners, seed=seed)
    measured = []
    for outcome, values, overall in zip(outcomes, after, changes, strict=True):
        part = outcome.changed
        on_changed = rsum_changes(before[part], [values[part]], owners[part], seed=seed)[0] if part.any() else None
        p = paired_test(test, values - before, clusters, seed=seed).p
        measured.append(Effect(outcome, overall, on_changed, p, p, before, values))
    return measured


def rsum_by_query(result: Result, task: str) -> Floats:
    """Sum each query's recalls at 1, 5 and 10."""
    # Returns: (n,) the sums in points; their mean is the task's rsum.
    recall = result.protocol.recall
    total: Floats = 100 * np.sum([result.values(task, f"{recall}@{k}") for k in RSUM_CUTOFFS], axis=0)
    return total


def rsum_changes(before: Floats, after: Sequence[Floats], owners: NDArray[Any], *, seed: int) -> list[RsumChange]:
    """The changes from one rsum to several over the same queries, all from one resampling of their images."""
    # before: (n,) each query's rsum before, in points.
    # after: (n,) each: their rsum after.
    # owners: (n,) the image of each query.
    images = len(np.unique(owners))
    points = percent = [NO_INTERVAL] * len(after)
    if images >= FEW_UNITS:
        counts, drawn_before, *drawn_after = resampled_sums(
            np.stack([np.ones(len(before)), before, *after], axis=1), owners, seed=seed
        ).T
        points = [interval((drawn - drawn_before) / counts, images) for drawn in drawn_after]
        with np.errstate(divide="ignore", invalid="ignore"):
            percent = [interval(100 * (drawn - drawn_before) / drawn_before, images) for drawn in drawn_after]
    return [
        RsumChange(float(before.mean()), float(values.mean()), of_points, of_percent, len(before), images)
        for values, of_points, of_percent in zip(after, points, percent, strict=True)
    ]
