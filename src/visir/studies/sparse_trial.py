"""One sparse head, trained and measured, in a folder of its own that can be finished later (thesis chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from visir.evaluation.evaluate import evaluate
from visir.evaluation.measures import DEFAULT_MEASURES
from visir.evaluation.results import Evaluation, is_result, load_evaluation, save
from visir.parquet import read_table
from visir.records import Collection, SparseEmbeddings
from visir.sparse.recipe import SparseRecipe
from visir.storage import changing, read_written_json
from visir.studies.trial import TRIAL, TrainingTrial, begin_trial
from visir.training.data import open_whole
from visir.training.recipe import expand

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.sparse.vocabulary import TextTerms

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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"name": self.name, "recipe": self.recipe.model_dump(mode="json"), "split": self.split}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SparseTrial:
        """Back from `to_dict`."""
        return cls(values["name"], SparseRecipe.model_validate(values["recipe"]), values["split"])

    def _is_measured(self, folder: Path) -> bool:
        return is_result(folder / EVALUATION) and (folder / COSTS_FILE).is_file()

    def _train(self, checkpoint: Path) -> None:
        from visir.sparse.run import sparsify

        sparsify(recipe=self.recipe, out=checkpoint, resume=True)

    def _measure(self, folder: Path, collection: Collection, encoder: Encoder) -> None:
        from visir.sparse.encoder import SparseEncoder, encode_sparse

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
    from visir.encoders import load

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
    from visir.evaluation.sparse_measures import (
        active_terms,
        exact_at,
        flops,
        longest_lists,
        minilm_vectors,
        semantic_at,
    )

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
