"""The ground truth of category-to-image search: which products are relevant to which category, in three settings."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import CollectionError, nearest
from visir.products.opening import NONE, CategoryTree
from visir.records.catalogue import Catalogue
from visir.records.qrels import Qrels
from visir.splitmix import seed_of, splitmix64

Setting = Literal["all", "general", "specific"]
SETTINGS: tuple[Setting, ...] = ("all", "general", "specific")
"""In the order of Table 7.1."""


def relevant_products(catalogue: Catalogue, setting: Setting) -> Qrels:
    """Which products are relevant to which category (thesis section 7.4.2).

    A product is relevant to a category when the category is on its path, in every setting. Settings differ in which
    categories are queries. A query is the id of a category, so of two that share a name each has the products of its
    own tree. The other reading, one query per name, would call a camera strap relevant to the "Accessories" of shoes.

    Args:
        catalogue: Products and their tree.
        setting: "all": every category that has products, in itself or below; "general": the roots among them;
            "specific": those that are the most specific category of at least one product.

    Returns:
        Ids of categories as queries, ids of products as documents, every grade 1.

    Raises:
        CollectionError: The setting is unknown.

    Example:
        >>> from visir.records import Catalogue
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys", "Boats"]])
        >>> relevant_products(catalogue, "general").to_dict()
        {'Toys': {'a': 1.0, 'b': 1.0}}
    """
    if setting not in SETTINGS:
        raise CollectionError(f"unknown setting {setting!r}", hint=nearest(setting, SETTINGS), code="unknown-setting")
    tree = CategoryTree.of(catalogue)
    own = tree.rows(catalogue.products["category_id"])
    paths = tree.paths[own]
    queried = np.ones(len(tree), dtype=np.bool_)
    if setting == "general":
        queried = tree.depths == 1
    elif setting == "specific":
        queried = np.isin(np.arange(len(tree)), own)
    # After the end of a path stands NONE, which as an index means the last category: hence both conditions.
    product, level = np.nonzero((paths != NONE) & queried[paths])
    return Qrels.of(
        pa.array(tree.ids, pa.string()).take(pa.array(paths[product, level])),
        catalogue.products["id"].take(pa.array(product)),
        name=f"category path, {setting} categories",
    )


# Category–product pairs: which category of its path stands for a product (thesis section 7.4.2).


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
