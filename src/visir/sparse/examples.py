"""What is learnt from: dense vectors and own terms, on the device once and for all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.collections import open_collection
from visir.encoders.base import Encoder
from visir.encoders.encoding import encode
from visir.errors import CollectionError, VisirError
from visir.records import Collection
from visir.sparse.recipe import SparseRecipe
from visir.sparse.vocabulary import TextTerms, Tokenizer
from visir.training.data import owners_of
from visir.training.recipe import expand


@dataclass(frozen=True, eq=False)
class SparseExamples:
    """The captions of one split, each with its image.

    - `images` (n, d), `texts` (m, d): dense vectors, float32; `owners` (m,): the row of each caption's image
    - `own` (m, L): each caption's terms, filled up with the size of the vocabulary
    - `terms`: the same, packed; `frequencies` (|V|,): the share of the captions that have a term, float64
    - `origin`: where they come from, as plain values; `captions`: their ids
    """

    images: Tensor
    texts: Tensor
    owners: Tensor
    own: Tensor
    terms: TextTerms
    frequencies: Tensor
    origin: dict[str, Any]
    captions: NDArray[Any]

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of(cls, split: Collection, encoder: Encoder, tokenizer: Tokenizer, device: torch.device) -> SparseExamples:
        """Encode a split, or find its vectors in the store, and tokenise its captions."""
        vectors = {
            side: torch.from_numpy(np.array(encode(encoder, split, side).vectors, dtype=np.float32)).to(device)
            for side in ("image", "text")
        }
        terms = tokenizer.terms(split.captions["text"].to_pylist())
        size = len(tokenizer.vocabulary)
        return cls(
            vectors["image"],
            vectors["text"],
            torch.from_numpy(owners_of(split)).to(device),
            torch.from_numpy(padded(terms, size)).to(device),
            terms,
            torch.from_numpy(terms.frequencies(size)).to(device),
            {"collection": split.describe(), "encoder": encoder.card.to_dict(), "vocabulary": tokenizer.name},
            split.captions["id"].to_numpy(),
        )


def padded(terms: TextTerms, size: int) -> NDArray[np.int64]:
    """(m, L) int64: the terms of each text, filled up with `size`; L is the longest text's number, at least 1."""
    lengths = np.diff(terms.offsets)
    table = np.full((len(terms), max(1, int(lengths.max(initial=0)))), size, np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = terms.terms
    return table


def open_splits(recipe: SparseRecipe, collection: Collection | None = None) -> tuple[Collection, Collection]:
    """What a recipe trains on and what it chooses the epoch by; `collection` instead of the one it names, if given.

    Raises `CollectionError`, with what to download and where to put it (`data.obtain`), when the data is not there, and
    for a split in which nothing is to be told apart.
    """
    if collection is None:
        images = None if recipe.data.images is None else expand(recipe.data.images)
        try:
            collection = open_collection(expand(recipe.data.collection), images=images)
        except VisirError as fault:
            if not recipe.data.obtain:
                raise
            raise CollectionError(fault.message, hint=expand(recipe.data.obtain)) from fault
    train, validation = (_split(collection, getattr(recipe.data, key), key) for key in ("train", "validation"))
    shared = pc.sum(pc.is_in(validation.images["id"], pc.unique(train.images["id"]))).as_py()
    if shared and recipe.selection.keep == "mrr":
        warnings.warn(
            f"{shared:,} of {validation.images.num_rows:,} validation images are trained on too, so the validation "
            'MRR says nothing of new images: let it choose nothing (selection.keep = "last")',
            stacklevel=2,
        )
    return train, validation


def _split(collection: Collection, name: str, key: str) -> Collection:
    try:
        split = collection.split(name)
    except VisirError as fault:
        raise CollectionError(f"data.{key}: {fault.message}", hint=fault.hint) from fault
    if pc.count_distinct(split.captions["image_id"]).as_py() < 2:
        raise CollectionError(
            f"data.{key}: {split.name}: in {name!r} fewer than two images have captions; training tells pairs apart.",
            hint="choose other splits: data.train and data.validation",
        )
    return split
