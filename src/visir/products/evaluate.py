"""Systems in the three settings of category-to-image search: numbers by split, by seen and unseen, and compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest
from visir.evaluation.compare import Comparison, Difference, untested_notes
from visir.evaluation.measures import MEASURES, aggregate, measure
from visir.evaluation.scoring import versions
from visir.evaluation.significance import Correction, TestName, corrected, mean_interval, paired_test
from visir.products.relevance import Setting
from visir.products.split import Split, seen_categories
from visir.products.systems import System
from visir.products.task import By, Relevance, Task, task_of
from visir.records import Result, Run
from visir.records.catalogue import Catalogue

SETTINGS: tuple[Setting, ...] = ("all", "general", "specific")
TABLE = ("precision@1", "precision@5", "precision@10", "capped_map@5", "capped_map@10", "rprecision")
"""The columns of Table 7.1. Its mAP@k is read as `capped_map@k`; see `MEASURED`."""
MEASURED = (*TABLE, "map@5", "map@10", "hit@1", "mrr", "mean_rank")
"""What is measured when nothing is named: the table's columns, and the other divisor of mAP@k.

`map@k` divides by the number R of relevant products, as trec_eval and `ir_measures` do; with thousands of products in
a most general category it cannot exceed k / R. It cannot be the published one either: it never falls as k grows, and in
8 of the 18 rows of Table 7.1 mAP@10 is below mAP@5. `capped_map@k` divides by min(R, k).
"""


@dataclass(frozen=True, eq=False)
class Trial:
    """One system, one setting, one split.

    `seen`: (q,) bool, whether each query (in the order of `task.qrels`) was the category of a training pair.
    """

    task: Task
    result: Result
    run: Run
    seen: NDArray[np.bool_]


@dataclass(frozen=True)
class Spread:
    """A measure over the splits: its `mean`, the standard deviation `sd` of the splits' values (n − 1; NaN for one
    split), and how many `splits`.
    """

    mean: float
    sd: float
    splits: int


@dataclass(frozen=True, eq=False)
class CategoryEvaluation:
    """All trials: (system, setting) to one trial per split.

    A system that has no model for a setting is not in it.
    """

    catalogue: Catalogue
    trials: Mapping[tuple[str, Setting], tuple[Trial, ...]]
    cards: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """The systems, in the order in which they were given."""
        return list(dict.fromkeys(system for system, _ in self.trials))

    @property
    def settings(self) -> list[Setting]:
        """The settings, in the usual order."""
        there = {setting for _, setting in self.trials}
        return [one for one in SETTINGS if one in there]

    def spread(self, system: str, setting: Setting, name: str) -> Spread:
        """A measure of a system in a setting: every split counts alike."""
        values = [one.result.mean("t2i", name) for one in self._of(system, setting)]
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        return Spread(float(np.mean(values)), sd, len(values))

    def by_seen(self, system: str, setting: Setting, name: str) -> dict[str, tuple[float, int]]:
        """ "seen" and "unseen" to (mean, number of queries), over the queries of all splits together (Table 7.3).

        Unseen categories are few, and some splits have none, so splits are not averaged. A part without queries is
        left out.
        """
        trials = self._of(system, setting)
        values = np.concatenate([one.result.values("t2i", name) for one in trials])
        seen = np.concatenate([one.seen for one in trials])
        parts = {"seen": seen, "unseen": ~seen}
        return {part: (float(values[mask].mean()), int(mask.sum())) for part, mask in parts.items() if mask.any()}

    def compare(
        self,
        pairs: Sequence[tuple[str, str]] | None = None,
        *,
        measures: Sequence[str] = ("rprecision",),
        test: TestName = "t",
        correction: Correction = "holm",
        seed: int = 0,
    ) -> Comparison:
        """Differences between systems, paired by category, corrected over all that are asked for.

        - `pairs`: (baseline, system); None takes every pair
        - a category that is asked in several splits is one observation with all its values (a cluster): its splits
          share models' habits and the category's own difficulty, so they are no independent evidence

        Raises `ConfigurationError` when there is nothing to compare.
        """
        chosen = list(combinations(self.systems, 2)) if pairs is None else list(pairs)
        found: list[Difference] = []
        for setting in self.settings:
            for baseline, system in chosen:
                if (baseline, setting) not in self.trials or (system, setting) not in self.trials:
                    continue
                found += [self._difference(setting, baseline, system, name, test, seed) for name in measures]
        if not found:
            raise ConfigurationError("nothing to compare: fewer than two systems share a setting.")
        adjusted = corrected([one.p for one in found], correction)
        differences = tuple(replace(one, p_corrected=float(p)) for one, p in zip(found, adjusted, strict=True))
        return Comparison(
            tuple(self.systems),
            differences,
            f"two-sided paired {'t-test' if test == 't' else f'randomisation test (seed {seed})'} over categories, the "
            f"splits of one category together; 95 % intervals (t)",
            correction,
            sum(not one.untested for one in differences),
            {},
            {},
            untested_notes(differences),
        )

    def _difference(
        self, setting: Setting, baseline: str, system: str, name: str, test: TestName, seed: int
    ) -> Difference:
        pairs = _paired(self._of(baseline, setting), self._of(system, setting))
        gaps = np.concatenate([two.result.values("t2i", name) - one.result.values("t2i", name) for one, two in pairs])
        queries = pa.concat_arrays([one.task.qrels.queries for one, _ in pairs])
        groups = queries.dictionary_encode().indices.to_numpy()
        outcome = paired_test(test, gaps, groups, seed=seed)
        low, high = mean_interval(gaps, groups)
        value, before = _means(pairs, name)
        lower = name in MEASURES and MEASURES.get(name).best == "low"
        better = value < before if lower else value > before
        gap, p = float(gaps.mean()), outcome.p
        return Difference(setting, name, system, baseline, value, before, gap, low, high, p, p, better, outcome.reason)

    def _of(self, system: str, setting: Setting) -> tuple[Trial, ...]:
        if (system, setting) not in self.trials:
            known = [", ".join(one) for one in self.trials]
            raise ConfigurationError(f"no trial of {system}, {setting}", hint=nearest(f"{system}, {setting}", known))
        return self.trials[system, setting]


def evaluate(
    catalogue: Catalogue,
    systems: Sequence[System],
    splits: Sequence[Split],
    *,
    settings: Sequence[Setting] = SETTINGS,
    by: By = "id",
    relevance: Relevance = "path",
    measures: Sequence[str] = MEASURED,
    depth: int = 100,
    seed: int = 0,
) -> CategoryEvaluation:
    """Every system on every split in every setting that it answers, by exact search under one protocol.

    - `splits`: only their test parts are searched; their training parts say which categories are seen
    - `by`, `relevance`, `seed`: see `task_of`
    - `depth`: how many products per category the runs keep; measures see the whole ranking

    Raises `ConfigurationError` when two systems have one name, or no system answers anything.
    """
    names = [one.name for one in systems]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"two systems are called {twice[0]!r}.", hint="give each a name of its own")
    trials: dict[tuple[str, Setting], list[Trial]] = {(name, setting): [] for name in names for setting in settings}
    for split in splits:
        for setting in settings:
            task = task_of(catalogue, split, setting, by=by, relevance=relevance, seed=seed)
            for system in systems:
                if system.answers(task):
                    trials[system.name, setting].append(try_out(system, task, measures=measures, depth=depth))
    kept = {key: tuple(found) for key, found in trials.items() if found}
    if not kept:
        raise ConfigurationError(
            "no system answers any of the settings.", hint="were the models trained on these splits and settings?"
        )
    return CategoryEvaluation(catalogue, kept, {one.name: dict(one.card) for one in systems})


def try_out(system: System, task: Task, *, measures: Sequence[str] = MEASURED, depth: int = 100) -> Trial:
    """One system on one task: search, measure, and note what was not found."""
    started = time.perf_counter()
    found = system.search(task, depth)
    searched = time.perf_counter() - started
    assert found.ranks is not None
    per_query = measure(found.ranks, measures)
    timing = {"search": searched, "measure": time.perf_counter() - started - searched}
    lost = int((found.ranks.ranks == 0).sum())
    notes = [f"{lost:,} of {len(found.ranks.ranks):,} relevant products are not in the ranking"] if lost else []
    result = Result(
        system.name,
        task.protocol(system.similarity),
        {"t2i": per_query},
        {"t2i": aggregate(per_query)},
        versions(),
        timing,
        tuple(notes),
    )
    seen = system.seen(task)
    if seen is None:
        seen = seen_categories(task.catalogue, task.split, task.setting, task.seed)
    return Trial(task, result, found.run, _asked(task, seen))


def _asked(task: Task, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(q,) of a mask over categories: for a query by name, whether any category of the name is in it."""
    if task.by == "id":
        return seen[task.rows]
    named = {task.tree.names[row] for row in np.flatnonzero(seen)}
    return np.array([name in named for name in task.names], dtype=np.bool_)


def _paired(first: Sequence[Trial], second: Sequence[Trial]) -> list[tuple[Trial, Trial]]:
    """The trials of two systems on the same task."""
    of = {id(one.task): one for one in second}
    return [(one, of[id(one.task)]) for one in first if id(one.task) in of]


def _means(pairs: Sequence[tuple[Trial, Trial]], name: str) -> tuple[float, float]:
    """Of the second and of the first of each pair: the means over all queries."""
    first, second = (np.concatenate([pair[side].result.values("t2i", name) for pair in pairs]) for side in (0, 1))
    return float(second.mean()), float(first.mean())
