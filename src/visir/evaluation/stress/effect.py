"""The effects of perturbations: the change of rsum over all queries, changed ones, by label; similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Displayed, Tabular, brief, counted
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.by_label import check_label, queries_by_value
from visir.evaluation.measures import RSUM_CUTOFFS
from visir.records import Corrupted, Result, Run
from visir.stats import TestName
from visir.stats.differences import FEW_UNITS

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
        p = stats.difference(values, before, owners if clusters is not None else None, test=test, seed=seed).p
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
    points = percent = [stats.NO_INTERVAL] * len(after)
    if images >= FEW_UNITS:
        counts, drawn_before, *drawn_after = stats.resampled_sums(
            np.stack([np.ones(len(before)), before, *after], axis=1), owners, seed=seed
        ).T
        points = [_ends((drawn - drawn_before) / counts, images) for drawn in drawn_after]
        with np.errstate(divide="ignore", invalid="ignore"):
            percent = [_ends(100 * (drawn - drawn_before) / drawn_before, images) for drawn in drawn_after]
    return [
        RsumChange(float(before.mean()), float(values.mean()), of_points, of_percent, len(before), images)
        for values, of_points, of_percent in zip(after, points, percent, strict=True)
    ]


def _ends(drawn: Floats, images: int) -> Interval:
    return stats.estimate_of_draws(np.nan, drawn, images).ends


# What perturbations cost for each value of a label of the queries: by language, by category.


@dataclass(frozen=True)
class LabelledEffect:
    """The effect of one perturbation on the queries with one value of a label."""

    task: str  # the task
    perturbation: str  # the name of the perturbation
    title: str  # its title
    value: str  # the value, such as "de"; "(none)" for queries without one
    coverage: float  # the share of these queries that the perturbation changed, 0 to 1
    change: RsumChange  # how their rsum changed, unchanged queries included


@dataclass(frozen=True)
class StressByLabel(Tabular):
    """The effects of a stress study for each value of a label."""

    system: str  # the name of the system
    collection: str  # the name of the collection
    label: str  # the name of the label: "language"
    # One for each perturbation and value, in the order of the study and of the first query of each value.
    rows: tuple[LabelledEffect, ...]

    def __repr__(self) -> str:
        lines = [f"{row.perturbation}, {row.value}: {row.change.percent:+.1f} %" for row in self.rows]
        return brief(self, f"{self.system} by {self.label}: {counted(len(self.rows), 'rows')}", *lines)

    def __getitem__(self, name: tuple[str, str]) -> LabelledEffect:
        """The row of a perturbation and a value: `by["char_swap", "de"]`."""
        for row in self.rows:
            if (row.perturbation, row.value) == tuple(name):
                return row
        known = ", ".join(f"[{row.perturbation!r}, {row.value!r}]" for row in self.rows[:12])
        raise VisirError(f"there is no row {name!r}.", hint=f"there are {known}")


def effects_by_label(
    plain: Result, effects: Sequence[Effect], images: Mapping[str, str], label: str, *, seed: int = 0
) -> tuple[LabelledEffect, ...]:
    """Measure the effects on the queries of each value of a label, with 95 % intervals."""
    # Images are drawn with all their captions that have the value. There are no tests: an interval says how uncertain
    # each change is, and not whether two values differ.
    known = {name for labels in plain.labels.values() for name in labels.column_names[1:]}
    check_label(label, known, plain.protocol.collection)
    rows = []
    for task, labels in plain.labels.items():
        of_task = [effect for effect in effects if effect.outcome.task == task]
        if label not in labels.column_names or not of_task:
            continue
        queries = labels["query_id"].to_pylist()
        clusters = np.array([images.get(query, query) for query in queries])
        by_value = {}
        for value, chosen in queries_by_value(labels, label):
            after = [effect.after[chosen] for effect in of_task]
            by_value[value] = chosen, rsum_changes(of_task[0].before[chosen], after, clusters[chosen], seed=seed)
        for number, effect in enumerate(of_task):
            for value, (chosen, changes) in by_value.items():
                coverage = float(effect.outcome.changed[chosen].mean())
                rows.append(LabelledEffect(task, effect.name, effect.outcome.title, value, coverage, changes[number]))
    return tuple(rows)


# The Jaccard analysis: do perturbations break the same captions? (brittleness paper, section 5.4, Table 5)


GROUPS = ("decreased", "increased", "unchanged")


@dataclass(frozen=True, eq=False)
class Jaccard(Displayed):
    """How similar the sets of captions are on which perturbations have the same effect."""

    names: tuple[str, ...]  # (p,) the perturbations
    counts: Mapping[str, NDArray[np.int64]]  # by group: (p,) the number of captions of each perturbation in the group
    # By group: (p, p) the Jaccard similarity |A ∩ B| / |A ∪ B| of every two sets; NaN where both are empty.
    pairwise: Mapping[str, NDArray[np.float64]]
    queries: int  # the number of captions, n

    def __repr__(self) -> str:
        means = ", ".join(f"{group} {self.mean(group):.3f}" for group in self.counts)
        return brief(self, f"{counted(len(self.names), 'perturbations')}, {counted(self.queries, 'captions')}: {means}")

    def mean(self, group: str) -> float:
        """The mean similarity over all pairs of perturbations."""
        # With p perturbations there are p (p − 1) / 2 pairs: 78 for thirteen. Pairs of two empty sets are left out.
        pairs = self._pairs(group)
        return float(pairs.mean()) if len(pairs) else float("nan")

    def range(self, group: str) -> tuple[float, float]:
        """The lowest and the highest similarity of all pairs."""
        # Returns: (lowest, highest); (NaN, NaN) without any pair.
        pairs = self._pairs(group)
        return (float(pairs.min()), float(pairs.max())) if len(pairs) else (float("nan"), float("nan"))

    def by_chance(self, group: str) -> float:
        """The mean similarity that independent sets of these sizes would have: pq / (p + q − pq) for each pair."""
        # Most captions are unchanged, so two sets of unchanged captions are similar by their size alone. Compare a
        # similarity with this value.
        share = self.counts[group] / self.queries
        both = share[:, None] * share[None, :]
        either = share[:, None] + share[None, :] - both
        upper = np.triu_indices(len(share), 1)
        is_defined = either[upper] > 0
        return float((both[upper][is_defined] / either[upper][is_defined]).mean()) if is_defined.any() else float("nan")

    def _pairs(self, group: str) -> NDArray[np.float64]:
        values = self.pairwise[group][np.triu_indices(len(self.names), 1)]
        defined: NDArray[np.float64] = values[~np.isnan(values)]
        return defined


def jaccard(differences: Mapping[str, NDArray[np.float64]]) -> Jaccard:
    """Analyse the per-query changes of rsum."""
    # The paper sorts the perturbed captions of a model into those that decreased rsum, increased it, or left it as it
    # was, and takes the similarity of each group "across all image-caption pairs within a dataset". Here, for each
    # group, there is one set of captions per perturbation, and the sets are compared pairwise. The other reading, the
    # intersection of all thirteen sets at once, gives values near 0 for every group but the unchanged.
    # differences: {perturbation: (n,) rsum after − before}, all over the same n queries.
    if len(differences) < 2:
        raise ConfigurationError(
            "a similarity of sets needs two perturbations at least.",
            hint="name more of them",
            code="similarity-sets-needs-two",
        )
    if len({len(difference) for difference in differences.values()}) > 1:
        raise ConfigurationError(
            "perturbations over different queries cannot be compared caption by caption.",
            code="perturbations-over-different-queries",
        )
    matrix = np.stack(list(differences.values()))
    # Sums of three recalls in binary: values that differ in the last bits are equal.
    sign = np.where(np.abs(matrix) < 1e-9, 0, np.sign(matrix)).astype(np.int8)
    counts, pairwise = {}, {}
    for group, which in zip(GROUPS, (-1, 1, 0), strict=True):
        member = (sign == which).astype(np.float64)
        both = member @ member.T
        sizes = np.diag(both)
        either = sizes[:, None] + sizes[None, :] - both
        pairwise[group] = np.divide(both, either, out=np.full_like(both, np.nan), where=either > 0)
        counts[group] = sizes.astype(np.int64)
    return Jaccard(tuple(differences), counts, pairwise, matrix.shape[1])
