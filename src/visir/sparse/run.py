"""From a recipe to a checkpoint folder that `visir.load` takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from visir.encoders.base import Encoder
from visir.encoders.broken import check_there
from visir.encoders.encoding import is_stored
from visir.encoders.loading import load
from visir.errors import ConfigurationError, EncoderError
from visir.launched import launched
from visir.sparse.encoder import LAYOUT, SparseEncoder, write_files
from visir.sparse.examples import SparseExamples
from visir.sparse.expansion import Variant
from visir.sparse.head import SparseHead
from visir.sparse.language_model import WordEmbeddings, words_of
from visir.sparse.learner import SparseLearner
from visir.sparse.recipe import SparseRecipe, read_sparse_recipe
from visir.sparse.vocabulary import Tokenizer, load_tokenizer
from visir.sparse.vocabulary_pruning import VocabularyPruning
from visir.training.checkpoint import Checkpoint
from visir.training.data import Splits, split_for_training
from visir.training.fit import FitResult, Report
from visir.training.keywords import SPARSE_KEYWORDS, RecipeChanges
from visir.training.processes import Processes
from visir.training.recipe import expand
from visir.training.resolving import RecipeKind
from visir.training.trained import TrainedModel

SAVE_SECONDS = 120.0
"""How often the state is written (it is four times W2, 375 MB of a BERT vocabulary): what a kill can cost at most."""


SPARSE = RecipeKind("sparsify", SparseRecipe, read_sparse_recipe, SPARSE_KEYWORDS, tuple(SparseRecipe.model_fields))
"""Recipes of `visir.sparsify`."""


def sparsify(
    data: Any = None,
    model: Any = None,
    *,
    recipe: str | Path | Mapping[str, Any] | SparseRecipe = "sparse",
    out: str | Path | None = None,
    variant: Variant | None = None,
    eta: float | None = None,
    images: Any = None,
    split_by: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    set: RecipeChanges | None = None,
    resume: bool = False,
    report: Report | None = None,
    **sections: Any,
) -> TrainedModel:
    """Train a head that says the vectors of any encoder in weighted words.

    What comes back is a folder and stands wherever a model does: `visir.load(run)` gives a `SparseEncoder`, and
    `visir.words(run, "a dog on a beach")` its words. Dense vectors come from the store or from a file; nothing is
    encoded twice. Everything else is as in `visir.train`.

    Args:
        data: Pictures and captions, as `visir.train` takes them; by default what the recipe names.
        model: Whose vectors: a model, a checkpoint, or vectors from a file ("npz:FILE").
        recipe: Recipes of this kind: `visir.recipes(verb="sparsify")`.
        out: The folder to write; `runs/NAME-seedSEED` when it is left out.
        variant: Whether captions may have words that are not their own: "none", "free", "caption", "caption+word".
        eta: η, the weight of sparsity: from 1e-5 (many words) to 1e-2 (few).
        images: Where the pictures of `data` are, when they do not lie beside it.
        split_by: How pictures are divided into training and validation: "random(train=0.8, val=0.2, seed=1)".
        epochs: How often every caption is seen.
        batch: How many pairs a step compares with one another.
        rate: The learning rate at its peak.
        seed: Of everything that is random.
        device: "cpu", "cuda", "cuda:1", or "auto".
        set: Any other keys of the recipe: {"head.terms": 3}.
        resume: Go on from the state that an interrupted training left in `out`; without one, begin.
        report: Called with each epoch.
        **sections: Keys at the top of the recipe: `loss={"eta": 1e-3}`.

    Returns:
        The trained model: `path`, `curve`, `validation`, `load()`.

    Raises:
        ConfigurationError: The recipe has faults; all of them are listed, with the nearest right names.
        VisirError: `out` holds something already, or another process trains into it.
        TrainingError: The loss is NaN or infinite; the ids of the batch are then also in `stopped-batch.json`.
    """
    if launched()[1] > 1:
        raise ConfigurationError(
            "a sparse head is trained in one process.", hint="visir sparsify without torchrun or accelerate"
        )
    keywords = {
        "model": model,
        "variant": variant,
        "eta": eta,
        "images": images,
        "split_by": split_by,
        "epochs": epochs,
        "batch": batch,
        "rate": rate,
        "seed": seed,
        "device": device,
    }
    resolved, collection = SPARSE.resolve(recipe, data, keywords, sections, set)
    if not resolved.encoder:
        raise ConfigurationError(
            f"{resolved.name}: whose vectors? No model is named.",
            hint="visir sparsify --data DATA --model MODEL; in Python visir.sparsify(data, model)",
        )
    checkpoint = Checkpoint.begin(resolved, "sparsify", out, LAYOUT, resume=resume)
    splits = split_for_training(collection, resolved.data, resolved.selection)
    if checkpoint.is_finished_with(resolved, trained_on=splits.train, validated_on=splits.validation):
        return TrainedModel(checkpoint.path)
    device_of_head = Processes.join(resolved.device).device
    tokenizer = load_tokenizer(resolved.head.language_model)
    dense = load(expand(resolved.encoder))
    check_pictures(dense, splits)
    examples = [
        SparseExamples.of(split, dense, tokenizer, device_of_head) for split in (splits.train, splits.validation)
    ]
    words = words_of(resolved.head.language_model, resolved.head.width)
    whole = new_head(resolved, dense.dimension, words, tokenizer)
    pruning = VocabularyPruning.of(resolved.head.terms, whole, examples[0])
    train, validation = map(pruning.prune_examples, examples)

    def write(path: Path, result: FitResult[SparseLearner], facts: dict[str, Any]) -> Mapping[str, Any]:
        head = pruning.restore(result.learner.head, whole)
        encoder = SparseEncoder(
            dense, head, tokenizer, variant=resolved.expansion.variant, name=str(checkpoint.path), device="cpu"
        )
        facts |= {"words": words.origin, "terms": len(pruning.terms)}
        return write_files(path, encoder, dense_name=expand(resolved.encoder), facts=facts)

    checkpoint.train(
        resolved,
        SparseLearner(resolved, pruning.prune(whole), train),
        train,
        validation,
        write,
        report=report,
        save_seconds=SAVE_SECONDS,
        save_every_epoch=False,
    )
    return TrainedModel(checkpoint.path)


def check_pictures(dense: Encoder, splits: Splits) -> None:
    """Raise one `ImageError` for all pictures of both splits that would be read and that are not there."""
    check_there([split for split in (splits.train, splits.validation) if not is_stored(dense, split.items("image"))])


def new_head(recipe: SparseRecipe, inputs: int, words: WordEmbeddings, tokenizer: Tokenizer) -> SparseHead:
    """A fresh head: W1 drawn from the seed, W2 from the language model."""
    vocabulary = tokenizer.vocabulary
    if len(words.table) < len(vocabulary):
        raise EncoderError(
            f"{recipe.head.language_model}: {len(words.table)} word embeddings for {len(vocabulary)} terms.",
            hint="the tokenizer and the model in this folder do not belong together",
        )
    # A table is often padded to a round number of rows beyond the tokenizer's last term.
    fitting = WordEmbeddings(words.table[: len(vocabulary)], words.bias[: len(vocabulary)], words.norm, words.origin)
    with torch.random.fork_rng([]):
        torch.manual_seed(recipe.seed)
        return SparseHead(inputs, fitting, vocabulary.usable)
