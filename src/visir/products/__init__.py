"""Catalogues of products, and category search in them (thesis chapter 7).

Catalogues, readers and the tree know nothing of models. Names are imported when they are first used, so that opening a
catalogue needs little.

Example:
    >>> from visir.products import CatalogueTasks, open_catalogue
    >>> catalogue = open_catalogue("generated:50")
    >>> catalogue.items
    Items(50 products, text+image: 'Hollis 100', 'Brightwater 101', …)
    >>> CatalogueTasks(catalogue).task("general")
    CategoryTask(general of generated: 3 categories, 50 products)
      categories: 'Animals', 'Home and leisure', …
      products: 'Hollis 100', 'Brightwater 101', …
      judgements: category path, general categories
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.products.encoding import encode_catalogue
    from visir.products.free_search import search_products
    from visir.products.model.trained import load_categories_model
    from visir.products.opening import open_catalogue
    from visir.products.relevance import relevant_products
    from visir.products.task import CatalogueTasks, CategoryTask, category_task
    from visir.products.training import train_categories
    from visir.products.tree import CategoryTree, tree_errors

__all__ = [
    "CatalogueTasks",
    "CategoryTask",
    "CategoryTree",
    "category_task",
    "encode_catalogue",
    "load_categories_model",
    "open_catalogue",
    "relevant_products",
    "search_products",
    "train_categories",
    "tree_errors",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "CatalogueTasks": "visir.products.task",
        "CategoryTask": "visir.products.task",
        "CategoryTree": "visir.products.tree",
        "category_task": "visir.products.task",
        "encode_catalogue": "visir.products.encoding",
        "load_categories_model": "visir.products.model.trained",
        "open_catalogue": "visir.products.opening",
        "relevant_products": "visir.products.relevance",
        "search_products": "visir.products.free_search",
        "train_categories": "visir.products.training",
        "tree_errors": "visir.products.tree",
    },
)
