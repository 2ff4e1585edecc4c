"""The product side of search: catalogues and their category trees (thesis chapter 7).

This room stands behind `evaluation/` on the road. Its catalogues, readers and tree know nothing of models; names are
imported when first used, so that opening a catalogue stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.products.open import open_catalogue
    from visir.products.relevance import relevant_products
    from visir.products.tree import CategoryTree, tree_errors

__all__ = ["CategoryTree", "open_catalogue", "relevant_products", "tree_errors"]

__getattr__ = lazy(
    __name__,
    {
        "CategoryTree": "visir.products.tree",
        "open_catalogue": "visir.products.open",
        "relevant_products": "visir.products.relevance",
        "tree_errors": "visir.products.tree",
    },
)
