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
    from visir.products.clicks import ClickJudgements as ClickJudgements
    from visir.products.clicks import ClickLog as ClickLog
    from visir.products.clicks import click_judgements as click_judgements
    from visir.products.clicks import read_click_log as read_click_log
    from visir.products.encoding import encode_catalogue as encode_catalogue
    from visir.products.evaluation import CategoryEvaluation as CategoryEvaluation
    from visir.products.evaluation import evaluate as evaluate
    from visir.products.inference import InferredCategories as InferredCategories
    from visir.products.inference import infer_categories as infer_categories
    from visir.products.inference import write_inferred as write_inferred
    from visir.products.landing import LandingPage as LandingPage
    from visir.products.landing import landing_page as landing_page
    from visir.products.landing import related_products as related_products
    from visir.products.model import load_categories_model as load_categories_model
    from visir.products.opening import open_catalogue as open_catalogue
    from visir.products.opening import tree_errors as tree_errors
    from visir.products.reports.landing import write_landing_page as write_landing_page
    from visir.products.task import CatalogueTasks as CatalogueTasks
    from visir.products.task import CategoryTask as CategoryTask
    from visir.products.task import category_task as category_task
    from visir.products.task import relevant_products as relevant_products
    from visir.products.text_search import TextOptions as TextOptions
    from visir.products.text_search import search as search
    from visir.products.text_search import text_index as text_index
    from visir.products.training import train as train
    from visir.records.category_tree import CategoryTree as CategoryTree

__getattr__, __dir__, __all__ = lazy(__name__)
