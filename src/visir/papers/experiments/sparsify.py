"""Train a sparse head and measure it beside its dense model: chapter 3."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.evaluation.compare import paired_rows
from visir.evaluation.faithfulness import overlap_at
from visir.evaluation.results import Evaluation
from visir.fingerprint import hash_json
from visir.papers.sparse_study import DEVIATIONS, EFFECTS
from visir.records import Protocol
from visir.studies.draws import Draws, finite, unit_means, unit_sums
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of, wait_for

if TYPE_CHECKING:
    from visir.studies.sparse_trial import SparseTrial


# Draws of what a sparse head finds and says, beside its dense model: images are drawn with all their captions.

NAMES = {"hit@1": "R@1", "hit@5": "R@5", "mrr@10": "mrr@10"}
"""Measure → how chapter 3 prints it."""


def sparse_draws(dense: Evaluation, sparse: Evaluation, captions: pa.Table) -> dict[str, Draws]:
    """Draws of the values of `visir.papers.experiments.sparsify` but the costs, which are of the whole gallery."""
    assert sparse.captions is not None, "an evaluation knows its captions"
    image_of = dict(zip(sparse.captions["id"].to_pylist(), sparse.captions["image_id"].to_pylist(), strict=True))
    of_captions = {f"t2i {measure}": 100 * captions[measure].to_numpy() for measure in DEVIATIONS}
    draws = unit_means([image_of[caption] for caption in captions["id"].to_pylist()], of_captions)
    images = [image_of[query] for query in dense.result.per_query["t2i"]["query_id"].to_pylist()]
    rows = paired_rows(dense.result, sparse.result, "t2i")
    of_queries = {measure: sparse.result.values("t2i", measure)[rows] for measure in EFFECTS}
    values = {f"t2i {NAMES[measure]}": 100 * values for measure, values in of_queries.items()}
    draws |= unit_means(
        images, {**values, "t2i overlap@10": 100 * overlap_at(dense.runs["t2i"], sparse.runs["t2i"], 10)}
    )
    for measure, values_of_queries in of_queries.items():
        correlated = _correlation(images, dense.result.values("t2i", measure), values_of_queries)
        draws |= finite({f"t2i ρ {NAMES[measure]}": 100 * correlated})
    return draws


def _correlation(units: list[str], first: NDArray[np.float64], second: NDArray[np.float64]) -> Draws:
    """Draws of Pearson's ρ; NaN where one of the two does not vary."""
    columns = [np.ones_like(first), first, second, first * first, second * second, first * second]
    n, x, y, xx, yy, xy = unit_sums(units, np.stack(columns, axis=1)).T
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Draws = (n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y))
    return correlation


class SparseHeadExperiment(Experiment):
    """A cell that needs a sparse head over frozen vectors (`visir sparsify`), trained once for all studies."""

    recipe: str  # a recipe of `visir sparsify`
    set: tuple[str, ...] = ()  # changes to it, "section.key=value"
    # A training of `visir train` whose checkpoint is the dense model, instead of the recipe's encoder.
    training: PriorTraining | None = None

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"visir sparsify {self.recipe}" + "".join(f" --set {change}" for change in self.set)

    def trained(self, context: ExperimentContext) -> tuple[SparseTrial, Path]:
        """Train the head where it is not trained yet."""
        from visir.sparse.recipe import read_sparse_recipe
        from visir.studies.run_trials import run_trials
        from visir.studies.sparse_trial import SparseTrial, dense_evaluation
        from visir.training.shipped import find_recipe

        recipe = read_sparse_recipe(find_recipe(self.recipe, "sparsify"), [*self.set, f"seed={context.seed}"])
        if self.training is not None:
            recipe = recipe.model_copy(update={"encoder": system_of(None, self.training, context, self.describe())})
        described: dict[str, Any] = recipe.model_dump(mode="json")
        described["data"].pop("obtain", None)
        # Everything of one encoder and collection lies in one folder, beside the dense model's evaluation.
        out = context.shared / "heads" / hash_json({"encoder": recipe.encoder, "data": described["data"]})[:10]
        with context.locks.for_folder(out), context.locks.process:
            dense_evaluation(recipe, out, "test")
        trial = SparseTrial(f"{recipe.name}-{hash_json(described)[:10]}/seed{recipe.seed}", recipe)
        with context.locks.for_folder(trial.folder(out)):
            wait_for(trial.folder(out))
            run_trials([trial], out, jobs=1)
        return trial, out

    def provenance(self, trial: SparseTrial, protocol: Protocol) -> dict[str, str]:
        """The head, its dense model and its collection, (label, value)."""
        recipe = trial.recipe
        return {
            "system": f"{recipe.name}, {recipe.expansion.variant}, η {recipe.loss.eta:g}",
            "dense model": self.training.recipe if self.training else recipe.encoder,
            "collection": protocol.collection,
            "fingerprint": protocol.collection_fingerprint[:12],
        }


class SparsifyExperiment(SparseHeadExperiment):
    """Evaluate a sparse head on the test split, text to image."""

    # Labels: R@1, R@5, mrr@10, flops; exact@20, semantic@20; "ρ …", the correlation with the dense model query by
    # query; overlap@10 with it; terms of texts and images. All but the costs are in percent.

    experiment: Literal["sparsify"] = "sparsify"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.evaluation.faithfulness import correlations, overlap_at
        from visir.evaluation.results import load_evaluation
        from visir.papers.sparse_study import DEVIATIONS, EFFECTS
        from visir.studies.sparse_trial import EVALUATION

        trial, out = self.trained(context)
        dense = load_evaluation(out / "dense" / EVALUATION)
        sparse, costs, captions = trial.evaluation(out), trial.costs(out), trial.captions(out)
        values = {f"t2i {NAMES[measure]}": 100 * sparse.result.mean("t2i", measure) for measure in EFFECTS}
        values |= {f"t2i {measure}": 100 * float(captions[measure].to_numpy().mean()) for measure in DEVIATIONS}
        correlation = correlations(dense.result, sparse.result, measures=EFFECTS)
        values |= {f"t2i ρ {NAMES[measure]}": 100 * correlation[measure] for measure in EFFECTS}
        values["t2i overlap@10"] = 100 * float(overlap_at(dense.runs["t2i"], sparse.runs["t2i"], 10).mean())
        values |= {f"t2i {cost}": float(costs[cost]) for cost in ("flops", "text terms", "image terms")}
        protocol = sparse.result.protocol
        return Measurement(
            values,
            self.provenance(trial, protocol),
            {**dict(protocol.card()), "static vectors": str(costs["static vectors"])},
            notes=tuple(sparse.result.notes),
            draws=sparse_draws(dense, sparse, captions),
        )
