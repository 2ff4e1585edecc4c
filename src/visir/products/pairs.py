"""Category–product pairs: which category of its path stands for a product (thesis section 7.4.2)."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from visir.errors import CollectionError, nearest
from visir.products.relevance import SETTINGS, Setting
from visir.products.tree import CategoryTree
from visir.records.catalogue import Catalogue
from visir.splitmix import seed_of, splitmix64


def drawn_categories(catalogue: Catalogue, setting: Setting, seed: int = 0) -> NDArray[np.int64]:
    """The category that each product makes a pair with."""
    # The draw is a function of `seed` and the id of the product alone, so a product has the same category in the whole
    # catalogue and in every part of it.
    # Returns: (n,) int64, one row of `catalogue.categories` for each product.
    if setting not in SETTINGS:
        raise CollectionError(f"unknown setting {setting!r}", hint=nearest(setting, SETTINGS), code="unknown-setting")
    tree = CategoryTree.of(catalogue)
    own = tree.rows(catalogue.products["category_id"])
    if setting == "general":
        return np.asarray(tree.roots[own])
    if setting == "specific":
        return own
    ids = catalogue.products["id"].to_pylist()
    digests = b"".join(blake2b(product.encode(), digest_size=8).digest() for product in ids)
    numbers = np.frombuffer(digests, dtype="<i8").astype(np.int64)
    level = splitmix64(seed_of(seed), numbers) % tree.depths[own].astype(np.uint64)
    return np.asarray(tree.paths[own, level.astype(np.int64)])
