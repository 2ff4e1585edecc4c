"""From a recipe to a checkpoint folder that `visir.load` takes."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from visir.encoders.devices import pick_device
from visir.encoders.loading import load
from visir.errors import EncoderError
from visir.records import Collection
from visir.sparse.encoder import LAYOUT, SparseEncoder, write_files
from visir.sparse.examples import SparseExamples, open_splits
from visir.sparse.fit import Report, fit
from visir.sparse.head import SparseHead
from visir.sparse.language_model import WordEmbeddings, words_of
from visir.sparse.recipe import SparseRecipe
from visir.sparse.vocabulary import Tokenizer, load_tokenizer
from visir.sparse.vocabulary_pruning import VocabularyPruning
from visir.training.folder import RECIPE_FILE, check_free, open_training_folder
from visir.training.memory import peak_memory
from visir.training.recipe import expand
from visir.training.settings import to_toml
from visir.version import __version__


def sparsify(
    recipe: SparseRecipe,
    out: str | Path,
    *,
    collection: Collection | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Path:
    """Train the sparse head that `recipe` describes and write the checkpoint folder `out`; returns its path.

    The folder is an encoder: `visir.load(out)` gives a `SparseEncoder`. Beside what that needs it holds `recipe.toml`
    (the resolved recipe: `visir sparsify` runs it again), `curve.json` (one entry per epoch) and `steps.jsonl` (one
    line per step). Dense vectors come from the store or from a file; nothing is encoded twice.

    - `collection`: used instead of the one the recipe names, when it is at hand already
    - `resume`: go on from the state that an interrupted training left in `out`; without one, begin
    - `report`: called with each epoch's point of the curve

    Raises `VisirError` when `out` holds something already or another process trains into it, and `TrainingError` when
    the loss is NaN or infinite.
    """
    out = Path(out)
    check_free(out, resume)
    started = time.perf_counter()
    device = torch.device(pick_device(None if recipe.device == "auto" else recipe.device))
    splits = open_splits(recipe, collection)
    tokenizer = load_tokenizer(recipe.head.language_model)
    dense = load(expand(recipe.encoder))
    train, validation = (SparseExamples.of(one, dense, tokenizer, device) for one in splits)
    words = words_of(recipe.head.language_model, recipe.head.width)
    head = new_head(recipe, dense.dimension, words, tokenizer)
    prepared = time.perf_counter() - started
    with open_training_folder(out, LAYOUT, resume) as folder:
        folder.begin(recipe_text(recipe))
        narrowing = VocabularyPruning.of(recipe.head.terms, head, train)
        narrow = (narrowing.pairs(one) for one in (train, validation))
        fitted = fit(recipe, narrowing.narrow(head), *narrow, folder=folder, resume=resume, report=report)
        encoder = SparseEncoder(
            dense,
            narrowing.widen(fitted.head, head),
            tokenizer,
            variant=recipe.expansion.variant,
            name=str(out),
            device="cpu",
        )
        facts = {
            "recipe": recipe.model_dump(mode="json"),
            "words": words.origin,
            "terms": len(narrowing.kept),
            "trained_on": train.origin,
            "validated_on": validation.origin,
            "chosen_epoch": fitted.chosen,
            "validation": fitted.curve[fitted.chosen - 1].validation,
            "seconds": {"preparation": prepared, "training": sum(epoch.seconds for epoch in fitted.curve)},
            "peak_memory": peak_memory(),
            "versions": {"visir": __version__, "torch": torch.__version__},
            "threads": torch.get_num_threads(),
        }
        folder.finish(
            LAYOUT,
            lambda path: write_files(path, encoder, dense_name=expand(recipe.encoder), facts=facts),
            recipe_text(recipe),
            fitted.curve,
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
