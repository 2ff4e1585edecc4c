"""Train a recipe and evaluate its checkpoint: chapter 4, and latent target decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.collections import attach_judgements
from visir.encoders import load
from visir.errors import ConfigurationError
from visir.evaluation.compare import paired_rows
from visir.evaluation.evaluate import evaluate
from visir.evaluation.faithfulness import correlations, overlap_at
from visir.evaluation.measures import DEFAULT_MEASURES
from visir.evaluation.results import Evaluation, is_result, load_evaluation, save
from visir.evaluation.sparse_measures import active_terms, exact_at, flops, longest_lists, minilm_vectors, semantic_at
from visir.fingerprint import hash_json
from visir.parquet import read_table
from visir.records import Collection, Protocol, SparseEmbeddings
from visir.sparse.encoder import SparseEncoder, encode_sparse
from visir.sparse.recipe import SparseRecipe, read_sparse_recipe
from visir.sparse.run import sparsify
from visir.storage import changing, read_written_json
from visir.studies.trial import (
    CHECKPOINT,
    TRIAL,
    WITH,
    WITHOUT,
    DualEncoderTrial,
    TrainingTrial,
    begin_trial,
    run_trials,
)
from visir.training.data import open_whole
from visir.training.recipe import Recipe, expand, read_recipe
from visir.training.settings import Settings
from visir.training.shipped import find_recipe
from visir.training.trained import CURVE_FILE, STEPS_FILE, read_steps, wait_until_free
from visir_papers.draws import Draws, finite, unit_means, unit_sums
from visir_papers.experiment import Experiment, ExperimentContext, Measurement
from visir_papers.figures import curve_end, multiplier_course
from visir_papers.published_values import measured, query_draws

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.sparse.vocabulary import TextTerms


# Trainings that cells need: each done once for all studies, in a process of its own, resumed where it was stopped.


class PriorTraining(Settings):
    """A training that comes first: a recipe of `visir train`, and changes to it ("section.key=value")."""

    recipe: str
    set: tuple[str, ...] = ()

    def resolved(self, seed: int) -> Recipe:
        """The recipe with its changes and the seed."""
        return read_recipe(find_recipe(self.recipe), [*self.set, f"seed={seed}"])


def train_once(recipe: Recipe, context: ExperimentContext) -> Path:
    """Train a recipe and evaluate its test split, without shortcuts and, where it has some, also with them."""
    # The folder is named by the recipe's settings, so studies that agree on a training share it, and one that was
    # changed has a folder of its own.

    evaluations: dict[str, str | None] = {WITHOUT: None}
    if recipe.shortcuts is not None:
        evaluations[WITH] = str(recipe.shortcuts.record())
    values = recipe.model_dump(mode="json")
    values["data"].pop("obtain", None)
    for words in ("title", "group"):
        values.pop(words)
    trial = DualEncoderTrial(f"{recipe.name}-{hash_json(values)[:10]}/seed{recipe.seed}", recipe, evaluations)
    out = context.shared / "trainings"
    with context.locks.for_folder(trial.folder(out)):
        wait_for(trial.folder(out))
        run_trials([trial], out, jobs=1)
    return trial.folder(out)


def wait_for(folder: Path) -> None:
    """Wait for a training in this trial's folder that another process carries out."""
    # When a study is killed, its trainings are not: they are processes of their own and go on. The study goes on once
    # they are done.

    wait_until_free(folder / CHECKPOINT, f"{folder}: is being trained by another process; waiting for it")


def system_of(model: str | None, first: PriorTraining | None, context: ExperimentContext, where: str) -> str:
    """The name of a model, or the checkpoint of the training that comes first."""

    if (model is None) == (first is None):
        raise ConfigurationError(f"{where}: name either a model or a training that comes first.", hint="model or first")
    if first is not None:
        return str(train_once(first.resolved(context.seed), context) / CHECKPOINT)
    return expand(str(model))


# One sparse head, trained and measured, in a folder of its own that can be finished later (thesis chapter 3).

MEASURES = (*DEFAULT_MEASURES, "mrr@10")
DEPTH = 10
EVALUATION, COSTS_FILE, CAPTIONS_FILE = "test", "costs.json", "captions.parquet"
K = 20
"""Exact@20 and Semantic@20, as the chapter has them."""
EFFECTS = ("hit@1", "hit@5", "mrr@10")
"""What the chapter reports, text to image."""
DEVIATIONS = (f"exact@{K}", f"semantic@{K}")


@dataclass(frozen=True)
class SparseTrial(TrainingTrial):
    """A recipe of `visir sparsify`, whose checkpoint is evaluated on `split` and measured."""

    # The folder holds the `checkpoint`, the evaluation (`test/`, all tasks), `costs.json` (FLOPs, mean active terms of
    # each side, longest posting lists) and `captions.parquet` (id, exact@20, semantic@20, terms). The costs are over
    # all images and captions of the split: its galleries.

    RECIPE = SparseRecipe
    recipe: SparseRecipe  # of the training
    split: str = "test"  # which split is measured

    def evaluation(self, out: Path) -> Evaluation:
        """Its evaluation, with runs."""
        return load_evaluation(self.folder(out) / EVALUATION)

    def costs(self, out: Path) -> dict[str, Any]:
        """What its vectors cost."""
        costs: dict[str, Any] = read_written_json(self.folder(out) / COSTS_FILE)
        return costs

    def captions(self, out: Path) -> pa.Table:
        """What its captions say, one row for each."""
        return read_table(self.folder(out) / CAPTIONS_FILE)

    def _is_measured(self, folder: Path) -> bool:
        return is_result(folder / EVALUATION) and (folder / COSTS_FILE).is_file()

    def _train(self, checkpoint: Path) -> None:

        sparsify(recipe=self.recipe, out=checkpoint, resume=True)

    def _measure(self, folder: Path, collection: Collection, encoder: Encoder) -> None:

        assert isinstance(encoder, SparseEncoder), "a checkpoint of sparsify"
        part = collection.split(self.split)
        images, texts = encode_sparse(encoder, part, "image"), encode_sparse(encoder, part, "text")
        save(
            evaluate(collection, (images, texts), split=self.split, depth=DEPTH, measures=MEASURES, name=self.name),
            folder / EVALUATION,
        )
        words = encoder.tokenizer.terms(part.captions["text"].to_pylist())
        _write_costs(folder, images, texts, words)


def dense_evaluation(recipe: SparseRecipe, out: Path, split: str) -> Evaluation:
    """The dense encoder of a recipe on the same split, stored in `out/dense`."""

    folder = out / "dense"
    description = {
        "name": "dense",
        "encoder": recipe.encoder,
        "data": recipe.data.model_dump(mode="json"),
        "split": split,
    }
    begin_trial(folder, description)
    if not is_result(folder / EVALUATION):
        encoder = load(expand(recipe.encoder))
        evaluation = evaluate(
            open_whole(recipe.data), encoder, split=split, depth=DEPTH, measures=MEASURES, name=encoder.card.name
        )
        save(evaluation, folder / EVALUATION, replace=True)
    return load_evaluation(folder / EVALUATION)


def _write_costs(folder: Path, images: SparseEmbeddings, texts: SparseEmbeddings, words: TextTerms) -> None:

    table = minilm_vectors()
    captions = pa.table(
        {
            "id": texts.ids,
            f"exact@{K}": exact_at(texts, words, K),
            f"semantic@{K}": semantic_at(texts, words, table, K),
            "terms": active_terms(texts),
        }
    )
    costs = {
        "flops": flops(texts, images),
        "image terms": float(active_terms(images).mean()),
        "text terms": float(active_terms(texts).mean()),
        "images": len(images),
        "texts": len(texts),
        "longest image lists": longest_lists(images),
        "longest text lists": longest_lists(texts),
        "static vectors": table.name,
    }
    with changing(folder, TRIAL, busy=f"{folder}: another process is writing there; waiting for it") as change:
        with change.replacing(CAPTIONS_FILE) as path:
            pq.write_table(captions, path, compression="zstd")
        change.write_json(COSTS_FILE, costs)  # last: it says that the trial is finished


# Several trainings of which the validation split chooses one (thesis 4.5.1 and 4.5.2: η or β of LTD, ε of IFM).

Choice = tuple[str, ...]
"""Changes to a recipe, "section.key=value"."""


def choose(training: PriorTraining, choices: Sequence[Choice], context: ExperimentContext) -> tuple[Recipe, Path, str]:
    """Train every choice, and take the one with the highest rsum of the validation split."""
    # The split is searched *without* shortcuts, as the tables' test split is: with unique ones every training finds
    # everything. (The thesis says "the highest performance on the validation set".) The test split decides nothing.
    trainings = [training.model_copy(update={"set": (*training.set, *choice)}) for choice in choices]
    recipes = [changed.resolved(context.seed) for changed in trainings]
    folders = [train_once(recipe, context) for recipe in recipes]
    sums = [
        _validation_rsum(recipe, folder, context.folder / f"validation-{number}", context)
        for number, (recipe, folder) in enumerate(zip(recipes, folders, strict=True))
    ]
    best = max(range(len(sums)), key=lambda number: sums[number])
    listed = "; ".join(f"{', '.join(choice)}: {rsum:.1f}" for choice, rsum in zip(choices, sums, strict=True))
    return recipes[best], folders[best], f"{', '.join(choices[best])}, by validation rsum ({listed})"


def _validation_rsum(recipe: Recipe, folder: Path, target: Path, context: ExperimentContext) -> float:
    """rsum of the validation split without shortcuts; kept in `target`, so that a killed cell goes on."""

    with context.locks.process:
        if not is_result(target):
            encoder = load(str(folder / CHECKPOINT))
            collection = open_whole(recipe.data)
            save(evaluate(collection, encoder, split=recipe.data.validation, depth=10), target, replace=True)
        return load_evaluation(target).result.mean("both", "rsum")


CURVES = {"λ": "ltd multiplier", "reconstruction": "ltd", "contrastive": "contrastive"}
"""The curves of a training (LTD, Figure 2): label → its name in the log of steps."""


class TrainExperiment(Experiment):
    """A training, and its checkpoint on the test split: without shortcuts, as the tables of chapter 4 have it."""

    # Besides the table's labels there is "with rsum", the rsum of the split *with* the shortcuts of the training.

    experiment: Literal["train"] = "train"
    recipe: str  # a recipe of `visir train`
    set: tuple[str, ...] = ()  # changes to it, "section.key=value"
    # Further changes, of which the validation split chooses one list (`visir_papers.experiments.train`); the test split
    # of that training alone is measured.
    choices: tuple[tuple[str, ...], ...] = ()
    judgements: str | None = None  # further judgements (CxC) to attach
    relevance: str = "links"  # the judgements that count, instead of the links
    curves: bool = False  # whether to measure where the losses ended, and what λ did

    def describe(self) -> str:
        chosen = f", the best of {len(self.choices)} by validation" if self.choices else ""
        return f"visir train {self.recipe}" + "".join(f" --set {change}" for change in self.set) + chosen

    def measure(self, context: ExperimentContext) -> Measurement:
        training, chosen = PriorTraining(recipe=self.recipe, set=self.set), {}
        if self.choices:
            recipe, folder, chosen["chosen"] = choose(training, self.choices, context)
        else:
            recipe = training.resolved(context.seed)
            folder = train_once(recipe, context)
        evaluation = load_evaluation(folder / WITHOUT)
        if self.relevance != "links":
            evaluation = self._judged_otherwise(folder, recipe, context)
        cell = measured(evaluation, context, recipe.name, **chosen)
        values, draws = dict(cell.values), dict(cell.draws)
        if (folder / WITH).is_dir():
            with_shortcuts = load_evaluation(folder / WITH).result
            values["with rsum"] = with_shortcuts.mean("both", "rsum")
            draws["with rsum"] = query_draws(with_shortcuts, None)["both rsum"]
        return replace(cell, values=values | (_curves(folder) if self.curves else {}), draws=draws)

    def _judged_otherwise(self, folder: Path, recipe: Recipe, context: ExperimentContext) -> Evaluation:

        with context.locks.process:
            collection = open_whole(recipe.data)
            if self.judgements is not None:
                collection = attach_judgements(collection, expand(self.judgements))
            encoder = load(str(folder / CHECKPOINT))
            return evaluate(collection, encoder, split="test", relevance=self.relevance, depth=10)


def _curves(folder: Path) -> dict[str, float]:
    """The course of a training (`visir.training.trained`), and the validation rsum of the last epoch."""

    steps = list(read_steps(folder / CHECKPOINT / STEPS_FILE))
    curve = read_written_json(folder / CHECKPOINT / CURVE_FILE)
    values = {"validation rsum": float(curve[-1]["validation"]["rsum"])}
    for label, key in CURVES.items():
        series = [value for step in steps if (value := (step.losses | step.facts).get(key)) is not None]
        if series:
            curve_values = np.array(series, np.float64)
            values |= multiplier_course(curve_values) if label == "λ" else {f"{label}, last": curve_end(curve_values)}
    return values


# Train a sparse head and measure it beside its dense model: chapter 3.

# Draws of what a sparse head finds and says, beside its dense model: images are drawn with all their captions.

NAMES = {"hit@1": "R@1", "hit@5": "R@5", "mrr@10": "mrr@10"}
"""Measure → how chapter 3 prints it."""


def sparse_draws(dense: Evaluation, sparse: Evaluation, captions: pa.Table) -> dict[str, Draws]:
    """Draws of the values of `visir_papers.experiments.train` but the costs, which are of the whole gallery."""
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
        return f"visir sparsify {self.recipe}" + "".join(f" --set {change}" for change in self.set)

    def trained(self, context: ExperimentContext) -> tuple[SparseTrial, Path]:
        """Train the head where it is not trained yet."""

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
