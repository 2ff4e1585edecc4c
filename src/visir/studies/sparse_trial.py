"""One sparse head, trained and measured, in a folder of its own that can be finished later (thesis chapter 3)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from visir.collections import open_collection
from visir.errors import CollectionError, VisirError
from visir.evaluation.evaluate import Evaluation, evaluate
from visir.evaluation.measures import DEFAULT_MEASURES
from visir.evaluation.results import is_result, load_evaluation, save
from visir.files import json_bytes, read_json
from visir.records import Collection
from visir.sparse.recipe import SparseRecipe
from visir.storage import changing, put
from visir.studies.trial import CHECKPOINT, TRIAL, TRIAL_FILE, differing_fields
from visir.training.recipe import expand

MEASURES = (*DEFAULT_MEASURES, "mrr@10")
DEPTH = 10
EVALUATION, COSTS_FILE, CAPTIONS_FILE = "test", "costs.json", "captions.parquet"
K = 20
"""Exact@20 and Semantic@20, as the chapter has them."""


@dataclass(frozen=True)
class SparseTrial:
    """A recipe of a sparse head, whose checkpoint is evaluated on `split` and measured.

    The folder holds the `checkpoint`, the evaluation (`test/`, both directions), `costs.json` (FLOPs, mean active terms
    of each side, longest posting lists) and `captions.parquet` (id, exact@20, semantic@20, terms). The costs are over
    all images and captions of the split: its galleries.
    """

    module: ClassVar[str] = "visir.studies.sparse_trial"

    name: str
    recipe: SparseRecipe
    split: str = "test"

    def folder(self, out: Path) -> Path:
        """Where it is kept."""
        return out / self.name

    def is_finished(self, out: Path) -> bool:
        """Whether it is trained, evaluated and measured."""
        refuse_another(self.folder(out), self.to_dict())
        folder = self.folder(out)
        return is_result(folder / EVALUATION) and (folder / COSTS_FILE).is_file()

    def evaluation(self, out: Path) -> Evaluation:
        """Its evaluation, with runs."""
        return load_evaluation(self.folder(out) / EVALUATION)

    def costs(self, out: Path) -> dict[str, Any]:
        """What its vectors cost."""
        costs: dict[str, Any] = read_json(self.folder(out) / COSTS_FILE)
        return costs

    def captions(self, out: Path) -> pa.Table:
        """What its captions say, one row for each."""
        return pq.read_table(self.folder(out) / CAPTIONS_FILE)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"name": self.name, "recipe": self.recipe.model_dump(mode="json"), "split": self.split}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SparseTrial:
        """Back from `to_dict`."""
        return cls(values["name"], SparseRecipe.model_validate(values["recipe"]), values["split"])

    def carry_out(self, out: Path) -> None:
        """Train, evaluate and measure, as far as that is not done yet; an interrupted training goes on."""
        from visir.encoders import load
        from visir.encoders.families import CHECKPOINT_FILE
        from visir.sparse.encoder import SparseEncoder, encode_sparse
        from visir.sparse.run import sparsify

        folder = self.folder(out)
        begin(folder, self.to_dict())
        checkpoint, collection = folder / CHECKPOINT, collection_of(self.recipe)
        if not (checkpoint / CHECKPOINT_FILE).is_file():
            sparsify(self.recipe, checkpoint, collection=collection, resume=True)
        encoder = load(str(checkpoint), device=None if self.recipe.device == "auto" else "cpu")
        assert isinstance(encoder, SparseEncoder), "a checkpoint of sparsify"
        part = collection.split(self.split)
        images, texts = encode_sparse(encoder, part, "image"), encode_sparse(encoder, part, "text")
        save(
            evaluate(collection, (images, texts), split=self.split, depth=DEPTH, measures=MEASURES, name=self.name),
            folder / EVALUATION,
        )
        words = encoder.tokenizer.terms(part.captions["text"].to_pylist())
        _measure(folder, images, texts, words)


def dense_evaluation(recipe: SparseRecipe, out: Path, split: str) -> Evaluation:
    """The dense encoder of a recipe on the same split, kept in `out/dense`."""
    from visir.encoders import load

    folder = out / "dense"
    said = {"name": "dense", "encoder": recipe.encoder, "data": recipe.data.model_dump(mode="json"), "split": split}
    begin(folder, said)
    if not is_result(folder / EVALUATION):
        encoder = load(expand(recipe.encoder))
        found = evaluate(
            collection_of(recipe), encoder, split=split, depth=DEPTH, measures=MEASURES, name=encoder.card.name
        )
        save(found, folder / EVALUATION)
    return load_evaluation(folder / EVALUATION)


def collection_of(recipe: SparseRecipe) -> Collection:
    """The collection that a recipe names, all splits of it; a missing one says what to download (`data.obtain`)."""
    images = None if recipe.data.images is None else expand(recipe.data.images)
    try:
        return open_collection(expand(recipe.data.collection), images=images)
    except VisirError as fault:
        if not recipe.data.obtain:
            raise
        raise CollectionError(fault.message, hint=expand(recipe.data.obtain)) from fault


def begin(folder: Path, said: dict[str, Any]) -> None:
    """Make the folder of what `said` describes, unless there is another."""
    refuse_another(folder, said)
    put(folder, TRIAL, {TRIAL_FILE: json_bytes(said)})


def refuse_another(folder: Path, said: dict[str, Any]) -> None:
    """What lies in the folder must be what `said` describes: a table of two recipes under one name is none."""
    if not (folder / TRIAL_FILE).is_file():
        return
    there = read_json(folder / TRIAL_FILE)
    differing = [one for one in differing_fields(there, said) if not one.endswith("data.obtain")]
    if differing:
        raise VisirError(
            f"{folder} holds another trial ({', '.join(differing)} differ).",
            hint="remove the folder, or keep it and choose another one: --out DIR",
        )


def _measure(folder: Path, images: Any, texts: Any, words: Any) -> None:
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


def main() -> None:
    """`python -m visir.studies.sparse_trial OUT FOLDER`: carry out the trial that FOLDER describes."""
    out, folder = Path(sys.argv[1]), Path(sys.argv[2])
    SparseTrial.from_dict(read_json(folder / TRIAL_FILE)).carry_out(out)


if __name__ == "__main__":
    main()
