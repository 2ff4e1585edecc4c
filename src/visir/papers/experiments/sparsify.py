"""Train a sparse head and measure it beside its dense model: chapter 3."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from visir.fingerprint import hash_json
from visir.papers.sparse_draws import NAMES, sparse_draws
from visir.records import Protocol
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of, wait_for

if TYPE_CHECKING:
    from visir.studies.sparse_trial import SparseTrial


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
