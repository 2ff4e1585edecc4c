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
from visir.evaluation.crossed import crossed_test
from visir.evaluation.evaluate import Evaluation
from visir.evaluation.faithfulness import correlations, overlap_at
from visir.evaluation.significance import corrected, paired_t, randomisation
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
    """One variant with one η, trained with several seeds; in each list one entry per seed.

    - `evaluations`; `costs`: see `SparseTrial`; `captions`: what each caption's vector says
    """

    variant: str
    eta: float
    evaluations: Sequence[Evaluation]
    costs: Sequence[Mapping[str, Any]]
    captions: Sequence[pa.Table]

    def effects(self, measure: str) -> Floats:
        """(seeds,) the mean of a measure over the captions, as a fraction."""
        return np.array([one.result.mean("t2i", measure) for one in self.evaluations])

    def cost(self, name: str) -> Floats:
        """(seeds,) "flops", "image terms" or "text terms"."""
        return np.array([float(one[name]) for one in self.costs])

    def deviation(self, measure: str) -> Floats:
        """(seeds, captions) "exact@20" or "semantic@20"."""
        return np.stack([one[measure].to_numpy() for one in self.captions])

    def per_query(self, measure: str) -> Floats:
        """(seeds, captions) a measure query by query, in the order of the first evaluation's queries."""
        return np.stack([one.result.values("t2i", measure) for one in self.evaluations])


@dataclass(frozen=True, eq=False)
class SparseStudy:
    """What the study found: the dense model, and sparse ones by (variant, η)."""

    name: str
    dense: Evaluation
    models: Mapping[Key, VariantResults]
    seeds: Sequence[int]

    def faithfulness(self, key: Key) -> dict[str, Floats]:
        """Pearson's ρ with the dense model of each measure of Table 3.5, (seeds,) each."""
        found = [correlations(self.dense.result, one.result, measures=EFFECTS) for one in self.models[key].evaluations]
        return {name: np.array([one[name] for one in found]) for name in EFFECTS}

    def overlap(self, key: Key, k: int = 10) -> Floats:
        """(seeds, captions) the share of the dense model's first `k` images that are among the sparse one's."""
        runs = [one.runs["t2i"] for one in self.models[key].evaluations]
        return np.stack([overlap_at(self.dense.runs["t2i"], one, k) for one in runs])

    @cached_property
    def thesis_p(self) -> dict[tuple[Key, str], float]:
        """p of each model and measure against the dense one as the chapter has it (Table 3.1): paired two-tailed
        t-test over captions, Bonferroni over all of them. Values are means over seeds, caption by caption.
        """
        pairs = [(key, measure) for key in self.models for measure in EFFECTS]
        raw = [paired_t(self._gaps(key, measure).mean(axis=0)).p for key, measure in pairs]
        return dict(zip(pairs, map(float, corrected(raw, "bonferroni")), strict=True))

    @cached_property
    def house_p(self) -> dict[tuple[Key, str], float]:
        """The same by the house's tests, Holm over all: captions of one image are one sample (`significance`), and so
        are trainings (`crossed`). With one seed a randomisation test over images.
        """
        pairs = [(key, measure) for key in self.models for measure in EFFECTS]
        raw = [self._by_image_and_seed(self._gaps(key, measure)) for key, measure in pairs]
        return dict(zip(pairs, map(float, corrected(raw, "holm")), strict=True))

    def deviation_p(self, eta: float, measure: str, variant: str = "caption", baseline: str = "free") -> float:
        """p of a variant against another in `DEVIATIONS` (Table 3.3): paired two-tailed t-test over captions."""
        one, other = (self.models[which, eta].deviation(measure).mean(axis=0) for which in (variant, baseline))
        return paired_t(one - other).p

    @cached_property
    def owners(self) -> NDArray[np.str_]:
        """(captions,) the image of each query, in the queries' order."""
        captions = self.dense.captions
        assert captions is not None, "an evaluation knows its captions"
        owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
        return np.array([owner[one] for one in self.dense.result.per_query["t2i"]["query_id"].to_pylist()])

    def _gaps(self, key: Key, measure: str) -> Floats:
        """(seeds, captions) sparse minus dense; queries of one protocol are in one order."""
        gaps: Floats = self.models[key].per_query(measure) - self.dense.result.values("t2i", measure)
        return gaps

    def _by_image_and_seed(self, gaps: Floats) -> float:
        if len(gaps) == 1:
            return randomisation(gaps[0], self.owners).p
        _, image = np.unique(self.owners, return_inverse=True)
        counts = np.bincount(image)
        return crossed_test(np.stack([np.bincount(image, one) / counts for one in gaps]))


def trials_of(
    recipe: SparseRecipe,
    variants: Sequence[str] = VARIANTS,
    etas: Sequence[float] = ETAS,
    seeds: Sequence[int] = SEEDS,
    split: str = "test",
) -> list[SparseTrial]:
    """`recipe` in every variant, with every η and seed; seeds outermost, so that a first table is there early.

    Raises `ConfigurationError` for an unknown variant, a negative η, or something named twice.
    """
    faults = [f"variant {one!r} ({nearest(one, VARIANTS)})" for one in variants if one not in VARIANTS]
    faults += [f"η {one}: 0 or more" for one in etas if one < 0]
    for what, values in (("variants", variants), ("η", etas), ("seeds", seeds)):
        if not values or len(set(values)) < len(values):
            faults.append(f"{what} {list(values)}: at least one, each once")
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
    """Train `recipe` in all variants with all η and seeds, evaluate them beside the dense model, and measure.

    Everything is kept in `out`, and what is there is not done again: a killed study goes on, and more variants, η or
    seeds can be added later. `recipe` says the collection, the dense encoder and the schedule.
    """
    trials = trials_of(recipe, variants, etas, seeds, split)
    for one in trials:
        one.is_finished(out)  # refuses a folder of another study before anything runs
    dense = dense_evaluation(recipe, out, split)  # first: trials that start together find the vectors in the store
    run_trials(trials, out, jobs=jobs)
    by_key: dict[Key, list[SparseTrial]] = {(variant, eta): [] for eta in etas for variant in variants}
    for one in trials:
        by_key[one.recipe.expansion.variant, one.recipe.loss.eta].append(one)
    models = {
        key: VariantResults(
            *key,
            [one.evaluation(out) for one in some],
            [one.costs(out) for one in some],
            [one.captions(out) for one in some],
        )
        for key, some in by_key.items()
    }
    return SparseStudy(recipe.name, dense, models, list(seeds))


def _changed(recipe: SparseRecipe, variant: str, eta: float, seed: int) -> SparseRecipe:
    changes = {
        "seed": seed,
        "expansion": recipe.expansion.model_copy(update={"variant": variant}),
        "loss": recipe.loss.model_copy(update={"eta": eta}),
    }
    return recipe.model_copy(update=changes)
