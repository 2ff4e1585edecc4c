"""Systems in the three settings of category search: numbers by split, by seen and unseen, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.compare import (
    Comparison,
    Difference,
    in_words,
    intervals_in_words,
    notes_of,
    paired_difference,
    with_correction,
)
from visir.evaluation.evaluate import evaluate as evaluate_system
from visir.evaluation.scoring import versions
from visir.products.opening import TreeErrors, open_catalogue, tree_errors
from visir.products.systems import CategorySystem, systems_of
from visir.products.task import (
    SETTINGS,
    By,
    CategoryTask,
    Mask,
    Relevance,
    Setting,
    Split,
    category_task,
    seen_categories,
)
from visir.products.task import folds as cut
from visir.records import Result, Run
from visir.records.catalogue import Catalogue
from visir.stats import Correction, TestName
from visir.storage import FolderKind, new_folder

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
    """One system, one setting, one split."""

    task: CategoryTask  # what was searched
    result: Result  # the numbers
    run: Run  # the answers
    seen: Mask  # (q,) whether each query (in the order of `task.judgements()`) was the category of a training pair

    def mean(self, measure: str) -> float:
        """A measure, over all queries."""
        return self.result.mean(self.task.name, measure)

    def values(self, measure: str) -> NDArray[np.float64]:
        """(q,) a measure of each query."""
        return self.result.values(self.task.name, measure)


@dataclass(frozen=True)
class SplitMean:
    """A measure over the splits."""

    mean: float  # every split counts alike
    sd: float  # the standard deviation of the values of the splits (n − 1); NaN for one split
    splits: int  # how many there are


@dataclass(frozen=True, eq=False, repr=False)
class CategoryEvaluation(Tabular, Plotted):
    """All trials of several systems.

    Args:
        catalogue: What was searched.
        trials: (system, setting) to one trial per split. A system that has no model for a setting is not in it.
        cards: What changes the numbers of each system.
    """

    catalogue: Catalogue
    trials: Mapping[tuple[str, Setting], tuple[Trial, ...]]
    cards: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def __repr__(self) -> str:
        folds = counted(max(map(len, self.trials.values())), "folds")
        measure = "rprecision" if "rprecision" in self.measures else self.measures[0]
        lines = [
            f"{setting}: {measure} "
            + ", ".join(
                f"{system} {100 * self.spread(system, setting, measure).mean:.1f}"
                for system in self.systems
                if (system, setting) in self.trials
            )
            for setting in self.settings
        ]
        return brief(self, f"{self.catalogue.name}: {', '.join(self.systems)}, {folds}", *lines)

    @property
    def systems(self) -> list[str]:
        """The systems, in the order in which they were given."""
        return list(dict.fromkeys(system for system, _ in self.trials))

    @property
    def settings(self) -> list[Setting]:
        """The settings, in the usual order."""
        evaluated = {setting for _, setting in self.trials}
        return [setting for setting in SETTINGS if setting in evaluated]

    @property
    def measures(self) -> list[str]:
        """What was measured."""
        trial = next(iter(self.trials.values()))[0]
        return list(trial.result.aggregates[trial.task.name])

    def spread(self, system: str, setting: Setting, name: str) -> SplitMean:
        """A measure of a system in a setting, over the splits."""
        values = [trial.mean(name) for trial in self._trials_of(system, setting)]
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        return SplitMean(float(np.mean(values)), sd, len(values))

    def by_seen(self, system: str, setting: Setting, name: str) -> dict[str, tuple[float, int]]:
        """A measure over the seen and over the unseen categories of all splits together (Table 7.3).

        Unseen categories are few, and some splits have none, so splits are not averaged.

        Returns:
            "seen" and "unseen" to (mean, number of queries); a part without queries is left out.
        """
        trials = self._trials_of(system, setting)
        values = np.concatenate([trial.values(name) for trial in trials])
        seen = np.concatenate([trial.seen for trial in trials])
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
        """Differences between systems, paired by category, corrected over all comparisons.

        A category that is a query in several splits is one observation, the mean of its values: its splits share the
        habits of the models and the difficulty of the category, so they are no independent evidence. So differences are
        means over categories; those of the tables are over the queries of each split.

        Args:
            pairs: (baseline, system); None takes every pair.
            measures: What is compared.
            test: "t", "randomisation" or "wilcoxon"; see `visir.stats.difference`.
            correction: For how many comparisons there are.
            seed: Of the randomisation test.

        Raises:
            ConfigurationError: There is nothing to compare.
        """
        chosen = list(combinations(self.systems, 2)) if pairs is None else list(pairs)
        differences: list[Difference] = []
        counts: dict[str, dict[str, int]] = {}
        for setting in self.settings:
            for baseline, system in chosen:
                if (baseline, setting) not in self.trials or (system, setting) not in self.trials:
                    continue
                differences += [self._difference(setting, baseline, system, name, test, seed) for name in measures]
                categories = self._categories(setting, baseline, system).unique()
                counts.setdefault(setting, {})[f"{setting}, {system} against {baseline}"] = len(categories)
        if not differences:
            raise ConfigurationError("nothing to compare: fewer than two systems share a setting.")
        tested = with_correction(differences, correction)
        units: dict[str, int] = {}  # of each setting; of each pair where pairs share more or fewer splits
        for name, of_pairs in counts.items():
            units |= {name: next(iter(of_pairs.values()))} if len(set(of_pairs.values())) == 1 else of_pairs
        return Comparison(
            tuple(self.systems),
            tested,
            f"{in_words(test, seed, units)} over categories, each the mean of its splits; {intervals_in_words(units)}",
            correction,
            sum(not difference.untested for difference in tested),
            {},
            {},
            notes_of(tested, units, test),
        )

    def _difference(
        self, setting: Setting, baseline: str, system: str, name: str, test: TestName, seed: int
    ) -> Difference:
        pairs = _paired(self._trials_of(baseline, setting), self._trials_of(system, setting))
        categories = self._categories(setting, baseline, system)
        first, second = (
            mean_by_category(np.concatenate([pair[side].values(name) for pair in pairs]), categories) for side in (0, 1)
        )
        return paired_difference(setting, name, (system, baseline), second, first, test=test, seed=seed)

    def _categories(self, setting: Setting, baseline: str, system: str) -> pa.StringArray:
        """The category of each query of the splits that both systems answered."""
        pairs = _paired(self._trials_of(baseline, setting), self._trials_of(system, setting))
        return pa.concat_arrays([first.task.judgements().queries for first, _ in pairs])

    def _trials_of(self, system: str, setting: Setting) -> tuple[Trial, ...]:
        if (system, setting) not in self.trials:
            pairs = [", ".join(pair) for pair in self.trials]
            raise ConfigurationError(
                f"no trial of {system}, {setting}", hint=nearest(f"{system}, {setting}", pairs), code="no-trial"
            )
        return self.trials[system, setting]


def evaluate(
    catalogue: Catalogue | str | Path,
    systems: Sequence[CategorySystem | str | Path] = ("bm25", "bm25:plain"),
    splits: Sequence[Split] | None = None,
    *,
    folds: int = 5,
    fold: int | Sequence[int] | None = None,
    split_seed: int = 0,
    every_setting: bool = False,
    device: str | None = None,
    settings: Sequence[Setting] = SETTINGS,
    by: By = "id",
    relevance: Relevance = "path",
    measures: Sequence[str] = MEASURED,
    depth: int = 100,
    seed: int = 0,
) -> CategoryEvaluation:
    """Search the test products of each fold with the names of categories, and measure: P@k, mAP@k, R-precision.

    Args:
        catalogue: What is searched: a catalogue, or anything that `open_catalogue` takes.
        systems: Baselines by name ("bm25", "bm25:plain", "text:NAME", "clip:NAME"), folders of trained models
            (`train`), or systems of your own. A model is tested on the fold that it was not trained on.
        splits: Only their test parts are searched; their training parts say which categories are seen. None cuts the
            catalogue into `folds`.
        folds: Into how many folds the products are cut.
        fold: Test these folds only, from 1; None tests every one.
        split_seed: Another seed cuts other folds.
        every_setting: Ask models in all settings, not only in that of their training.
        device: Where encoders run; None takes the best there is.
        settings: Which categories are queries; see `relevant_products`.
        by: What makes a category: its "id" (a place in the tree), or its "name". See `category_task`.
        relevance: What counts as right: "path", every category on a product's path; "drawn", one drawn category only.
            See `category_task`.
        measures: What is measured.
        depth: How many products per category the runs keep; measures see the whole ranking.
        seed: See `category_task`.

    Raises:
        ConfigurationError: A setting, a fold or a baseline is unknown, two systems have one name, or no system answers
            anything.

    Example:
        >>> from visir.products.generated import generate_catalogue
        >>> catalogue = generate_catalogue(60).catalogue
        >>> evaluation = evaluate(catalogue, ["bm25"], folds=2, settings=["general"])
        >>> evaluation.systems, evaluation.settings, evaluation.spread("BM25", "general", "rprecision").splits
        (['BM25'], ['general'], 2)
    """
    catalogue = open_catalogue(catalogue)
    splits = _splits(catalogue, splits, folds, fold, split_seed, settings)
    systems = systems_of(systems, catalogue, splits, every_setting=every_setting, device=device)
    names = [system.name for system in systems]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigurationError(
            f"two systems are called {repeated[0]!r}.", hint="give each a name of its own", code="two-systems-called"
        )
    trials: dict[tuple[str, Setting], list[Trial]] = {(name, setting): [] for name in names for setting in settings}
    for split in splits:
        for setting in settings:
            task = category_task(catalogue, split, setting, by=by, relevance=relevance, seed=seed)
            for system in systems:
                if system.covers(task):
                    trials[system.name, setting].append(evaluate_task(system, task, measures=measures, depth=depth))
    evaluated = {key: tuple(of_splits) for key, of_splits in trials.items() if of_splits}
    if not evaluated:
        raise ConfigurationError(
            "no system answers any of the settings.",
            hint="were the models trained on these splits and settings?",
            code="no-system-answers-settings",
        )
    return CategoryEvaluation(catalogue, evaluated, {system.name: dict(system.card) for system in systems})


def _splits(
    catalogue: Catalogue,
    splits: Sequence[Split] | None,
    folds: int,
    fold: int | Sequence[int] | None,
    seed: int,
    settings: Sequence[str],
) -> Sequence[Split]:
    chosen = [] if fold is None else [fold] if isinstance(fold, int) else list(fold)
    faults = [f"unknown setting {name!r} ({nearest(name, SETTINGS)})" for name in settings if name not in SETTINGS]
    faults += [f"fold {number}: there are 1 to {folds}" for number in chosen if not 1 <= number <= folds]
    raise_faults(ConfigurationError, "evaluate categories", faults)
    if splits is not None:
        return splits
    return [split for number, split in enumerate(cut(catalogue, folds, seed), 1) if not chosen or number in chosen]


def evaluate_task(
    system: CategorySystem, task: CategoryTask, *, measures: Sequence[str] = MEASURED, depth: int = 100
) -> Trial:
    """Evaluate one system on one task, and note which queries are seen categories."""
    evaluation = evaluate_system(task, system, measures=measures, depth=depth)
    seen = system.seen(task)
    if seen is None:
        seen = seen_categories(task.catalogue, task.fold, task.setting, task.seed)
    names = {task.tree.names[row] for row in np.flatnonzero(seen)}  # any category of the name counts
    queries = seen[task.rows] if task.by == "id" else np.array([name in names for name in task.names], np.bool_)
    return Trial(task, evaluation.result, evaluation.runs[task.name], queries)


def _paired(first: Sequence[Trial], second: Sequence[Trial]) -> list[tuple[Trial, Trial]]:
    """The trials of two systems on the same task."""
    by_task = {id(trial.task): trial for trial in second}
    return [(trial, by_task[id(trial.task)]) for trial in first if id(trial.task) in by_task]


def mean_by_category(values: NDArray[np.float64], categories: pa.StringArray) -> NDArray[np.float64]:
    """The mean over its splits of each category: one observation, however many splits it is a query of."""
    # values: (n,) a value per category and split.
    # categories: (n,) the category of each.
    # Returns: (categories,) the means, in the order of the first values.
    codes = categories.dictionary_encode().indices.to_numpy()
    means: NDArray[np.float64] = np.bincount(codes, values) / np.bincount(codes)
    return means


# An evaluation of category-to-image search on disk: three plain open files, written atomically.
#
# result.json        per system and setting: means and spread over the splits, seen and unseen, wrong first answers,
#                    the protocol of each split; and every comparison
# per_query.parquet  system, setting, split, query_id, query, relevant, seen, and one column per measure
# answers.parquet    system, setting, split, query_id, rank, product_id, score, relevant: the first 100 products

CATEGORIES_RESULT = FolderKind(
    "categories-result", "an evaluation of categories", remedy="visir products evaluate … --out FOLDER"
)

FILES = {
    "result.json": "means, spread, seen and unseen, errors, comparisons, protocols",
    "per_query.parquet": "every measure of every category",
    "answers.parquet": "the first products for every category",
}
"""What `save` writes."""


def save(evaluation: CategoryEvaluation, folder: str | Path) -> Path:
    """Write the three files into a new folder, or in the place of an earlier evaluation; other files there stay."""
    with new_folder(folder, CATEGORIES_RESULT, replace=True) as change:
        for name, content in contents(evaluation).items():
            if isinstance(content, pa.Table):
                pq.write_table(content, change.file(name), compression="zstd")
            else:
                change.write_json(name, content)
    return Path(folder)


def contents(evaluation: CategoryEvaluation) -> dict[str, Any]:
    """What stands in the three files: two tables of Arrow, and plain values."""
    trials = [(system, setting, trial) for (system, setting), part in evaluation.trials.items() for trial in part]
    tables = (("per_query.parquet", _per_query), ("answers.parquet", _answers))
    made: dict[str, Any] = {name: pa.concat_tables([of(*trial) for trial in trials]) for name, of in tables}
    return made | {"result.json": summary(evaluation)}


def summary(evaluation: CategoryEvaluation) -> dict[str, Any]:
    """The contents of `result.json`, as plain values; fractions in [0, 1]."""
    compared = evaluation.compare() if len(evaluation.systems) > 1 else None
    return {
        "visir_categories": 1,
        "catalogue": evaluation.catalogue.describe(),
        "cards": {name: dict(card) for name, card in evaluation.cards.items()},
        "results": [_summary_of(evaluation, system, setting) for system, setting in evaluation.trials],
        "comparison": compared and {
            "how": compared.how,
            "correction": compared.correction,
            "family": compared.family,
            "differences": [asdict(difference) for difference in compared.differences],
        },
        "versions": versions(),
    }  # fmt: skip


def _summary_of(evaluation: CategoryEvaluation, system: str, setting: Setting) -> dict[str, Any]:
    trials = evaluation.trials[system, setting]
    measures = trials[0].result.measures
    means = {name: asdict(evaluation.spread(system, setting, name)) for name in measures}
    parts = {name: evaluation.by_seen(system, setting, name) for name in measures}
    return {
        "system": system,
        "setting": setting,
        "measures": {
            name: {**mean, "sd": None if np.isnan(mean["sd"]) else mean["sd"]} for name, mean in means.items()
        },
        "seen and unseen": {
            part: {"queries": parts[measures[0]][part][1]} | {name: parts[name][part][0] for name in measures}
            for part in parts[measures[0]]
        },
        "first answers": _text_keys(asdict(first_answers(trials))),
        "protocols": [trial.result.protocol.to_dict() for trial in trials],
        "notes": [note for trial in trials for note in trial.result.notes],
    }


def _per_query(system: str, setting: Setting, trial: Trial) -> pa.Table:
    values = trial.result.per_query[trial.task.name]
    columns = {
        **_trial_columns(values.num_rows, system, setting, trial),
        "query_id": values["query_id"].combine_chunks(),
        "query": trial.task.names,
        "relevant": trial.task.judgements().positives,
        "seen": trial.seen,
    }
    names = [name for name in values.column_names if name != "query_id"]
    return pa.table(columns | {name: values[name].combine_chunks() for name in names})


def _answers(system: str, setting: Setting, trial: Trial) -> pa.Table:
    run = trial.run.to_arrow()
    lengths = np.diff(trial.run.offsets)
    relevant = hits(trial, int(lengths.max(initial=1)))[
        np.repeat(np.arange(len(lengths)), lengths), run["rank"].to_numpy() - 1
    ]
    return pa.table(
        _trial_columns(run.num_rows, system, setting, trial)
        | {
            "query_id": run["query_id"].combine_chunks(),
            "rank": run["rank"].combine_chunks(),
            "product_id": run["document_id"].combine_chunks(),
            "score": run["score"].combine_chunks().cast(pa.float64()),
            "relevant": relevant,
        }
    )


def _trial_columns(n: int, system: str, setting: Setting, trial: Trial) -> dict[str, pa.Array]:
    """The columns that say to which trial a row belongs; typed, because a trial may have no row."""
    values = {"system": system, "setting": setting, "split": trial.task.fold.name}
    return {name: pa.array([value] * n, pa.string()) for name, value in values.items()}


def _text_keys(values: dict[str, Any]) -> dict[str, Any]:
    """The same with keys of text: JSON has no others."""
    return {str(key): _text_keys(value) if isinstance(value, dict) else value for key, value in values.items()}


# Where wrong first answers lie in the tree (thesis section 7.6.1, Table 7.2 and Figure 7.2).


@dataclass(frozen=True)
class FirstAnswers:
    """The first answers of a system in a setting, over all splits."""

    setting: Setting  # which categories are queries
    queries: int  # how many queries there are
    right: int  # for how many of them the first product is relevant
    # How many have no product at all (BM25 where no word is shared). They are wrong, and lie nowhere in the tree.
    unanswered: int
    errors: TreeErrors  # of the other wrong ones: same and different tree, depth differences and tree distances


@dataclass(frozen=True, eq=False)
class WrongFirstAnswers:
    """The wrong first answers of a system, query by query, over all splits."""

    queries: list[str]  # the ids of all queries, split by split
    rows: NDArray[np.int64]  # (k,) which of them have a wrong first answer
    targets: NDArray[np.int64]  # (k,) rows of their categories c in the tree
    predicted: NDArray[np.int64]  # (k,) rows of c_p
    right: int  # how many queries are answered rightly
    unanswered: int  # how many have no answer


def first_answers(trials: Sequence[Trial]) -> FirstAnswers:
    """Compare each category c with the category c_p of the product on rank 1, where that product is not relevant."""
    # c_p is the category that stands for the product in the setting (`drawn_categories`): its root, its most specific
    # category, or for "all" the drawn one, as the thesis draws it. So in the setting "general" every error lies in
    # another tree: two roots of a forest have nothing in common. (The thesis counts two in the same tree there, whose
    # predicted category is more general than a most general one.) For a query by name that several categories have, c
    # is the one nearest to c_p.
    wrong = wrong_first_answers(trials)
    errors = tree_errors(trials[0].task.tree, wrong.targets, wrong.predicted)
    return FirstAnswers(trials[0].task.setting, len(wrong.queries), wrong.right, wrong.unanswered, errors)


def wrong_first_answers(trials: Sequence[Trial]) -> WrongFirstAnswers:
    """The same, query by query."""
    triples: list[tuple[int, int, int]] = []
    queries: list[str] = []
    right = unanswered = 0
    for trial in trials:
        is_right = hits(trial, 1)[:, 0]
        answered = np.diff(trial.run.offsets) > 0
        right, unanswered = right + int(is_right.sum()), unanswered + int((~answered).sum())
        wrong = np.flatnonzero(~is_right & answered)
        firsts = trial.run.documents.take(trial.run.indices[trial.run.offsets[wrong]]).to_pylist()
        predicted = [trial.task.predicted[product] for product in firsts]
        start = len(queries)
        triples += [
            (start + int(query), _target(trial, int(query), c_p), c_p)
            for query, c_p in zip(wrong, predicted, strict=True)
        ]
        queries += trial.task.judgements().queries.to_pylist()
    rows, targets, predictions = np.array(triples, dtype=np.int64).reshape(-1, 3).T
    return WrongFirstAnswers(queries, rows, targets, predictions, right, unanswered)


def hits(trial: Trial, k: int) -> NDArray[np.bool_]:
    """(q, k) bool: whether the product on each of the first k ranks is relevant; False beyond the end of the answer."""
    run, qrels = trial.run, trial.task.judgements()
    is_hit = np.zeros((len(run), k), dtype=np.bool_)
    lengths = np.minimum(np.diff(run.offsets), k)
    query = np.repeat(np.arange(len(run)), lengths)
    rank = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    products = run.indices[run.offsets[query] + rank].astype(np.int64)
    documents = pc.index_in(qrels.documents, run.documents).fill_null(-1).to_numpy().astype(np.int64)
    judged = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    in_run = documents >= 0
    width = max(len(run.documents), 1)
    is_hit[query, rank] = np.isin(query * width + products, judged[in_run] * width + documents[in_run])
    return is_hit


def _target(trial: Trial, query: int, predicted: int) -> int:
    """The row of the category that is the query; of several of one name, the nearest to the predicted one."""
    task = trial.task
    row = int(task.rows[query])
    if task.by == "id":
        return row
    namesakes = task.namesakes[task.tree.names[row]]
    return int(namesakes[np.argmin(task.tree.distances(namesakes, np.array(predicted)))])
