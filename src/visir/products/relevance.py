"""The ground truth of category-to-image search: which products are relevant to which category, in three settings."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from visir.errors import CollectionError, nearest
from visir.products.tree import NONE, CategoryTree
from visir.records.catalogue import Catalogue
from visir.records.qrels import Qrels

Setting = Literal["all", "general", "specific"]


def relevant_products(catalogue: Catalogue, setting: Setting) -> Qrels:
    """Queries are ids of categories, documents ids of products, every grade 1 (thesis section 7.4.2).

    A product is relevant to a category when the category is on its path, in every setting. What differs is who asks:

    - "all": every category that has products, in itself or below
    - "general": the most general ones among them, the roots
    - "specific": those that are the most specific category of at least one product

    Categories are told apart by id, so of two that share a name each has the products of its own tree. The other
    reading, one query per name, would call a camera strap relevant to the "Accessories" of shoes. Raises
    `CollectionError` for an unknown setting.
    """
    if setting not in get_args(Setting):
        raise CollectionError(f"unknown setting {setting!r}", hint=nearest(setting, get_args(Setting)))
    tree = CategoryTree.of(catalogue)
    own = tree.rows(catalogue.products["category_id"])
    paths = tree.paths[own]
    asks = np.ones(len(tree), dtype=np.bool_)
    if setting == "general":
        asks = tree.depths == 1
    elif setting == "specific":
        asks = np.isin(np.arange(len(tree)), own)
    # Behind a path's end stands NONE, which as an index means the last category: hence both conditions.
    product, level = np.nonzero((paths != NONE) & asks[paths])
    return Qrels.of(
        pa.array(tree.ids, pa.string()).take(pa.array(paths[product, level])),
        catalogue.products["id"].take(pa.array(product)),
        name=f"category path, {setting} categories",
    )
