"""The product side of search: catalogues and their category trees (thesis chapter 7).

This room stands behind `evaluation/` on the road. Its catalogues, readers and tree know nothing of models; names are
imported when first used, so that opening a catalogue stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.products.encoding import encode_catalogue
    from visir.products.model.trained import load_categories_model
    from visir.products.open import open_catalogue
    from visir.products.relevance import relevant_products
    from visir.products.train import train_categories
    from visir.products.tree import CategoryTree, tree_errors

__all__ = [
    "CategoryTree",
    "encode_catalogue",
    "load_categories_model",
    "open_catalogue",
    "relevant_products",
    "train_categories",
    "tree_errors",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "CategoryTree": "visir.products.tree",
        "encode_catalogue": "visir.products.encoding",
        "load_categories_model": "visir.products.model.trained",
        "open_catalogue": "visir.products.open",
        "relevant_products": "visir.products.relevance",
        "train_categories": "visir.products.train",
        "tree_errors": "visir.products.tree",
    },
)
