"""The ground truth of category-to-image search: which products are relevant to which category, in three settings."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from visir.errors import CollectionError, nearest
from visir.products.tree import NONE, CategoryTree
from visir.records.catalogue import Catalogue
from visir.records.qrels import Qrels

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
