"""From a recipe to a checkpoint folder that `visir.load` takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from visir.encoders.loading import load
from visir.errors import ConfigurationError, EncoderError
from visir.launched import launched
from visir.records import Collection
from visir.sparse.encoder import LAYOUT, SparseEncoder, write_files
from visir.sparse.examples import SparseExamples
from visir.sparse.head import SparseHead
from visir.sparse.language_model import WordEmbeddings, words_of
from visir.sparse.learner import SparseLearner
from visir.sparse.recipe import SparseRecipe
from visir.sparse.vocabulary import Tokenizer, load_tokenizer
from visir.sparse.vocabulary_pruning import VocabularyPruning
from visir.training.checkpoint import Checkpoint
from visir.training.data import open_whole, split_for_training
from visir.training.fit import FitResult, Report
from visir.training.folder import RECIPE_FILE, check_free
from visir.training.processes import Processes
from visir.training.recipe import expand
from visir.training.settings import to_toml

SAVE_SECONDS = 120.0
"""How often the state is written (it is four times W2, 375 MB of a BERT vocabulary): what a kill can cost at most."""


def sparsify(
    recipe: SparseRecipe,
    out: str | Path,
    *,
    collection: Collection | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Path:
    """Train a sparse head and write its checkpoint folder.

    The folder is an encoder: `visir.load(out)` gives a `SparseEncoder`. Beside what that needs it holds `recipe.toml`
    (the resolved recipe: `visir sparsify` runs it again), `curve.json` (one entry per epoch) and `steps.jsonl` (one
    line per step). Dense vectors come from the store or from a file; nothing is encoded twice.

    Args:
        recipe: What to train, and how.
        out: The checkpoint folder.
        collection: Used instead of the one that the recipe names.
        resume: Go on from the state that an interrupted training left in `out`; without one, begin.
        report: Called with each epoch's point of the curve.

    Returns:
        The path of the folder.

    Raises:
        VisirError: `out` holds something already, or another process trains into it.
        TrainingError: The loss is NaN or infinite; the ids of the batch are then also in `stopped-batch.json`.
    """
    if launched()[1] > 1:
        raise ConfigurationError(
            "a sparse head is trained in one process.", hint="visir sparsify without torchrun or accelerate"
        )
    out = Path(out)
    device = Processes.join(recipe.device).device
    checkpoint = Checkpoint(out, LAYOUT, recipe_text(recipe), resume)
    check_free(out, resume)
    started = time.perf_counter()
    splits = split_for_training(collection or open_whole(recipe.data), recipe.data, recipe.selection)
    tokenizer = load_tokenizer(recipe.head.language_model)
    dense = load(expand(recipe.encoder))
    examples = [SparseExamples.of(split, dense, tokenizer, device) for split in (splits.train, splits.validation)]
    words = words_of(recipe.head.language_model, recipe.head.width)
    whole = new_head(recipe, dense.dimension, words, tokenizer)
    pruning = VocabularyPruning.of(recipe.head.terms, whole, examples[0])
    train, validation = map(pruning.prune_examples, examples)

    def write(path: Path, result: FitResult[SparseLearner], facts: dict[str, Any]) -> Mapping[str, Any]:
        head = pruning.restore(result.learner.head, whole)
        encoder = SparseEncoder(dense, head, tokenizer, variant=recipe.expansion.variant, name=str(out), device="cpu")
        facts |= {"words": words.origin, "terms": len(pruning.terms)}
        return write_files(path, encoder, dense_name=expand(recipe.encoder), facts=facts)

    checkpoint.train(
        recipe,
        SparseLearner(recipe, pruning.prune(whole), train),
        train,
        validation,
        write,
        prepared=time.perf_counter() - started,
        report=report,
        save_seconds=SAVE_SECONDS,
        save_every_epoch=False,
    )
    return out


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


def recipe_text(recipe: SparseRecipe) -> str:
    """The resolved recipe as TOML, opening with the command that runs it."""
    return to_toml(recipe, f"visir sparsify {RECIPE_FILE}")
