"""Pairs: which category of its path a product is paired with."""

from __future__ import annotations

import numpy as np

from refusals import refused
from visir.errors import CollectionError
from visir.products.generated import generate_catalogue
from visir.products.task import drawn_categories
from visir.records import Catalogue
from visir.records.category_tree import CategoryTree

TOY = Catalogue.of(
    "toy", ids=["a", "b", "c"], paths=[["Home"], ["Home", "Rugs"], ["Toys", "Dolls", "Rag dolls"]], titles=None
)  # rows: Home 0, Rugs 1, Toys 2, Dolls 3, Rag dolls 4


def test_general_is_the_root_and_specific_the_own_category() -> None:
    assert drawn_categories(TOY, "general").tolist() == [0, 0, 2]
    assert drawn_categories(TOY, "specific").tolist() == [0, 1, 4]


def test_every_category_of_a_path_is_drawn_and_no_other() -> None:
    drawn = np.array([drawn_categories(TOY, "all", seed) for seed in range(200)])
    assert [set(column.tolist()) for column in drawn.T] == [{0}, {0, 1}, {2, 3, 4}]
    # 200 draws of one in three: 67 expected, deviation √(200 · 1/3 · 2/3) = 6.7; four of them allowed.
    assert (abs(np.bincount(drawn[:, 2])[2:] - 66.7) < 27).all()


def test_a_product_has_the_same_category_in_every_part() -> None:
    catalogue = generate_catalogue(300).catalogue
    whole = drawn_categories(catalogue, "all", 3)
    keep = np.arange(300) % 3 == 1
    assert (drawn_categories(catalogue.keep_products(keep), "all", 3) == whole[keep]).all()
    assert (drawn_categories(catalogue, "all", 4) != whole).any()
    tree = CategoryTree.of(catalogue)
    assert tree.contains(whole, tree.rows(catalogue.products["category_id"])).all()


def test_an_unknown_setting_is_refused() -> None:
    with refused(CollectionError, "leaf", code="unknown-setting"):
        drawn_categories(TOY, "leaf")  # type: ignore[arg-type]
