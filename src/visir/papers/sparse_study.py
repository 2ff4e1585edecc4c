"""The study of thesis chapter 3: what a dense model's vectors lose, and cost, in weighted words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.faithfulness import correlations, overlap_at
from visir.evaluation.results import Evaluation
from visir.evaluation.statistics import corrected, crossed_test, paired_t, randomisation
from visir.studies.run_trials import run_trials
from visir.studies.sparse_trial import K, SparseTrial, dense_evaluation

if TYPE_CHECKING:
    from visir.sparse.recipe import SparseRecipe

VARIANTS = ("none", "free", "caption", "caption+word")
ETAS = (1e-3, 1e-5)
SEEDS = (0, 1, 2)
EFFECTS = ("hit@1", "hit@5", "mrr@10")
"""What the chapter reports, text to image."""
DEVIATIONS = (f"exact@{K}", f"semantic@{K}")

Floats = NDArray[np.float64]
Key = tuple[str, float]
"""(variant, η)."""


@dataclass(frozen=True, eq=False)
class VariantResults:
    """One variant with one η, trained with several seeds; each list has one entry per seed."""

    variant: str  # "none", "free", "caption" or "caption+word"
    eta: float  # η, the weight of sparsity
    evaluations: Sequence[Evaluation]  # the evaluations
    costs: Sequence[Mapping[str, Any]]  # see `SparseTrial.costs`
    captions: Sequence[pa.Table]  # deviations caption by caption, see `SparseTrial.captions`

    def effects(self, measure: str) -> Floats:
        """(seeds,) The mean of a measure over the captions, as a fraction."""
        return np.array([evaluation.result.mean("t2i", measure) for evaluation in self.evaluations])

    def cost(self, name: str) -> Floats:
        """(seeds,) "flops", "image terms" or "text terms"."""
        return np.array([float(costs[name]) for costs in self.costs])

    def deviation(self, measure: str) -> Floats:
        """(seeds, captions) "exact@20" or "semantic@20"."""
        return np.stack([captions[measure].to_numpy() for captions in self.captions])

    def per_query(self, measure: str) -> Floats:
        """(seeds, captions) A measure query by query, in the order of the first evaluation's queries."""
        return np.stack([evaluation.result.values("t2i", measure) for evaluation in self.evaluations])


@dataclass(frozen=True, eq=False)
class SparseStudy:
    """The results of a study."""

    name: str  # the recipe's name
    dense: Evaluation  # the evaluation of the dense model
    models: Mapping[Key, VariantResults]  # (variant, η) → results of the sparse models
    seeds: Sequence[int]  # the seeds of each

    def faithfulness(self, key: Key) -> dict[str, Floats]:
        """Pearson's ρ with the dense model of each measure of Table 3.5, (seeds,) each."""
        by_seed = [
            correlations(self.dense.result, evaluation.result, measures=EFFECTS)
            for evaluation in self.models[key].evaluations
        ]
        return {name: np.array([values[name] for values in by_seed]) for name in EFFECTS}

    def overlap(self, key: Key, k: int = 10) -> Floats:
        """(seeds, captions) The share of the dense model's first `k` images that are among the sparse model's."""
        runs = [evaluation.runs["t2i"] for evaluation in self.models[key].evaluations]
        return np.stack([overlap_at(self.dense.runs["t2i"], run, k) for run in runs])

    @cached_property
    def thesis_p(self) -> dict[tuple[Key, str], float]:
        """p of each model and measure against the dense model, as in Table 3.1."""
        # The test is a paired two-tailed t-test over captions, with Bonferroni's correction over all pairs. Values are
        # means over seeds, caption by caption.
        pairs = [(key, measure) for key in self.models for measure in EFFECTS]
        raw = [paired_t(self._gaps(key, measure).mean(axis=0)).p for key, measure in pairs]
        return dict(zip(pairs, map(float, corrected(raw, "bonferroni")), strict=True))

    @cached_property
    def house_p(self) -> dict[tuple[Key, str], float]:
        """p of each model and measure against the dense model by visir's tests, with Holm's correction."""
        # Captions of one image are one sample (`significance`), and so are trainings (`crossed`). With one seed it is a
        # randomisation test over images.
        pairs = [(key, measure) for key in self.models for measure in EFFECTS]
        raw = [self._by_image_and_seed(self._gaps(key, measure)) for key, measure in pairs]
        return dict(zip(pairs, map(float, corrected(raw, "holm")), strict=True))

    def deviation_p(self, eta: float, measure: str, variant: str = "caption", baseline: str = "free") -> float:
        """p of a variant against another in `DEVIATIONS` (Table 3.3): paired two-tailed t-test over captions."""
        ours, baselines = (self.models[name, eta].deviation(measure).mean(axis=0) for name in (variant, baseline))
        return paired_t(ours - baselines).p

    @cached_property
    def owners(self) -> NDArray[np.str_]:
        """(captions,) The image of each query, in the order of the queries."""
        captions = self.dense.captions
        assert captions is not None, "an evaluation knows its captions"
        owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
        return np.array([owner[query] for query in self.dense.result.per_query["t2i"]["query_id"].to_pylist()])

    def _gaps(self, key: Key, measure: str) -> Floats:
        """(seeds, captions) sparse minus dense; queries of one protocol are in one order."""
        gaps: Floats = self.models[key].per_query(measure) - self.dense.result.values("t2i", measure)
        return gaps

    def _by_image_and_seed(self, gaps: Floats) -> float:
        if len(gaps) == 1:
            return randomisation(gaps[0], self.owners).p
        _, image = np.unique(self.owners, return_inverse=True)
        counts = np.bincount(image)
        return crossed_test(np.stack([np.bincount(image, gap) / counts for gap in gaps]))


def trials_of(
    recipe: SparseRecipe,
    variants: Sequence[str] = VARIANTS,
    etas: Sequence[float] = ETAS,
    seeds: Sequence[int] = SEEDS,
    split: str = "test",
) -> list[SparseTrial]:
    """A recipe in every variant, with every η and seed; seeds outermost, so that a first table is there early."""
    faults = [f"variant {variant!r} ({nearest(variant, VARIANTS)})" for variant in variants if variant not in VARIANTS]
    faults += [f"η {eta}: 0 or more" for eta in etas if eta < 0]
    for name, values in (("variants", variants), ("η", etas), ("seeds", seeds)):
        if not values or len(set(values)) < len(values):
            faults.append(f"{name} {list(values)}: at least one, each once")
    raise_faults(ConfigurationError, f"sparse study of {recipe.name}", faults)
    return [
        SparseTrial(f"{variant}/eta{eta:g}/seed{seed}", _changed(recipe, variant, eta, seed), split)
        for seed in seeds
        for eta in etas
        for variant in variants
    ]


def study(
    recipe: SparseRecipe,
    out: Path,
    *,
    variants: Sequence[str] = VARIANTS,
    etas: Sequence[float] = ETAS,
    seeds: Sequence[int] = SEEDS,
    split: str = "test",
    jobs: int | None = None,
) -> SparseStudy:
    """Train a recipe in all variants with all η and seeds, and evaluate them beside the dense model."""
    # All results stay in `out` and are not computed again: a killed study goes on, and more variants, η or seeds can be
    # added later.
    trials = trials_of(recipe, variants, etas, seeds, split)
    for trial in trials:
        trial.is_finished(out)  # raises for a folder of another study, before anything runs
    dense = dense_evaluation(recipe, out, split)  # first: trials that start together find the vectors in the store
    run_trials(trials, out, jobs=jobs)
    by_key: dict[Key, list[SparseTrial]] = {(variant, eta): [] for eta in etas for variant in variants}
    for trial in trials:
        by_key[trial.recipe.expansion.variant, trial.recipe.loss.eta].append(trial)
    models = {
        key: VariantResults(
            *key,
            [trial.evaluation(out) for trial in trials_of_key],
            [trial.costs(out) for trial in trials_of_key],
            [trial.captions(out) for trial in trials_of_key],
        )
        for key, trials_of_key in by_key.items()
    }
    return SparseStudy(recipe.name, dense, models, list(seeds))


def _changed(recipe: SparseRecipe, variant: str, eta: float, seed: int) -> SparseRecipe:
    changes = {
        "seed": seed,
        "expansion": recipe.expansion.model_copy(update={"variant": variant}),
        "loss": recipe.loss.model_copy(update={"eta": eta}),
    }
    return recipe.model_copy(update=changes)
