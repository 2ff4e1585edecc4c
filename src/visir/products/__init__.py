"""Catalogues of products, and category search in them (thesis chapter 7).

The surface, in the order of work: `open_catalogue`, `search` (words, encoders, a trained model, or several fused),
`train`, `evaluate`. `text_index` is the index that `search` looks words up in. `infer_categories` gives products
without a category their likely ones. `landing_page` chooses the products of a category's page, and `related_products`
products of other categories that fit its name. `click_judgements` turns the clicks of a search log into judgements.

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
    from visir.products.clicks import ClickJudgements, ClickLog, click_judgements, read_click_log
    from visir.products.encoding import encode_catalogue
    from visir.products.evaluation import CategoryEvaluation, evaluate
    from visir.products.inference import InferredCategories, infer_categories, write_inferred
    from visir.products.landing import LandingPage, landing_page, related_products
    from visir.products.model import load_categories_model
    from visir.products.opening import CategoryTree, open_catalogue, tree_errors
    from visir.products.reports.landing import write_landing_page
    from visir.products.task import CatalogueTasks, CategoryTask, category_task, relevant_products
    from visir.products.text_search import TextOptions, search, text_index
    from visir.products.training import train

__all__ = [
    "CatalogueTasks",
    "CategoryEvaluation",
    "CategoryTask",
    "CategoryTree",
    "ClickJudgements",
    "ClickLog",
    "InferredCategories",
    "LandingPage",
    "TextOptions",
    "category_task",
    "click_judgements",
    "encode_catalogue",
    "evaluate",
    "infer_categories",
    "landing_page",
    "load_categories_model",
    "open_catalogue",
    "read_click_log",
    "related_products",
    "relevant_products",
    "search",
    "text_index",
    "train",
    "tree_errors",
    "write_inferred",
    "write_landing_page",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "CategoryEvaluation": "visir.products.evaluation",
        "evaluate": "visir.products.evaluation",
        "CatalogueTasks": "visir.products.task",
        "CategoryTask": "visir.products.task",
        "CategoryTree": "visir.products.opening",
        "category_task": "visir.products.task",
        "encode_catalogue": "visir.products.encoding",
        "load_categories_model": "visir.products.model",
        "open_catalogue": "visir.products.opening",
        "relevant_products": "visir.products.task",
        "search": "visir.products.text_search",
        "TextOptions": "visir.products.text_search",
        "text_index": "visir.products.text_search",
        "train": "visir.products.training",
        "tree_errors": "visir.products.opening",
        "InferredCategories": "visir.products.inference",
        "ClickJudgements": "visir.products.clicks",
        "ClickLog": "visir.products.clicks",
        "click_judgements": "visir.products.clicks",
        "read_click_log": "visir.products.clicks",
        "LandingPage": "visir.products.landing",
        "landing_page": "visir.products.landing",
        "related_products": "visir.products.landing",
        "write_landing_page": "visir.products.reports.landing",
        "infer_categories": "visir.products.inference",
        "write_inferred": "visir.products.inference",
    },
)
