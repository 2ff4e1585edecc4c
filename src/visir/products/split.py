"""Folds of a catalogue, cut by product, and which categories a training part has seen."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError
from visir.products.pairs import drawn_categories
from visir.products.relevance import Setting
from visir.records.catalogue import Catalogue
from visir.splitmix import seed_of, splitmix64

Mask = NDArray[np.bool_]
VALIDATION = 0.1
"""The share of the products outside the test part that choose the epoch and the settings."""
_FOLD, _VALIDATION = range(2)


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of the products of a catalogue; every product is in exactly one of them."""

    train: Mask  # (n,) which products are learnt from
    validation: Mask  # (n,) which products choose the epoch and the settings
    test: Mask  # (n,) which products are searched
    name: str = ""  # which split it is: "fold 2 of 5, seed 0"


def everything(catalogue: Catalogue) -> Split:
    """All products as the test part: what is searched where nothing is held out."""
    none = np.zeros(catalogue.products.num_rows, dtype=np.bool_)
    return Split(none, none, ~none, "all")


def folds(catalogue: Catalogue, n: int = 5, seed: int = 0) -> list[Split]:
    """Cut the products into folds; each fold is the test part of one split, the others train and validate."""
    # The fold of a product depends on `seed` and its id alone: products that are added later move no other, and two
    # catalogues that share products cut them alike. So folds are only about equally large, and categories are not
    # spread evenly: a category whose products are all in the test part is an unseen one, as in any new catalogue. The
    # thesis says no more than "test set" (section 7.4.2).
    if n < 2:
        raise ConfigurationError(f"{n} folds: at least 2 are needed.", hint="5 is usual", code="least-needed")
    fold = _numbers(catalogue, seed, _FOLD) % np.uint64(n)
    held_out = _numbers(catalogue, seed, _VALIDATION) / 2.0**64 < VALIDATION
    splits = []
    for number in range(n):
        test = fold == number
        split = Split(~test & ~held_out, ~test & held_out, test, f"fold {number + 1} of {n}, seed {seed}")
        for part in ("train", "validation", "test"):
            if not getattr(split, part).any():
                raise ConfigurationError(
                    f"{catalogue.name}: {split.name} has no product in its {part} part "
                    f"({catalogue.products.num_rows:,} products in all).",
                    hint="take fewer folds, another seed, or a larger catalogue",
                    code="no-product-part-products",
                )
        splits.append(split)
    return splits


def seen_categories(catalogue: Catalogue, split: Split, setting: Setting, seed: int = 0) -> Mask:
    """(c,) bool over `catalogue.categories`: which were the query of a training pair (thesis section 7.6.2)."""
    # The pairs are those of `drawn_categories` with this seed, so in the setting "all" a category with few training
    # products may be unseen although it has some. A category of which only the name occurs elsewhere is unseen.
    seen = np.zeros(catalogue.categories.num_rows, dtype=np.bool_)
    seen[drawn_categories(catalogue, setting, seed)[split.train]] = True
    return seen


def _numbers(catalogue: Catalogue, seed: int, stream: int) -> NDArray[np.uint64]:
    """(n,) a random number of each product, from its id, the seed and the purpose."""
    ids = catalogue.products["id"].to_pylist()
    digests = b"".join(blake2b(product.encode(), digest_size=8).digest() for product in ids)
    return splitmix64(seed_of(seed, stream), np.frombuffer(digests, dtype="<i8").astype(np.int64))
