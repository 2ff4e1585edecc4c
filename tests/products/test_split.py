"""Folds by product id, and what a training part has seen."""

from __future__ import annotations

import numpy as np

from refusals import refused
from visir.errors import ConfigurationError
from visir.products import CategoryTree
from visir.products.generated import generate_catalogue
from visir.products.task import VALIDATION, Split, drawn_categories, folds, seen_categories
from visir.records import Catalogue


def test_every_product_is_tested_once_and_lies_in_one_part() -> None:
    splits = folds(generate_catalogue(500).catalogue, 5, seed=3)
    assert [one.name for one in splits] == [f"fold {k} of 5, seed 3" for k in range(1, 6)]
    assert (sum(one.test.astype(int) for one in splits) == 1).all()
    for one in splits:
        assert (one.train.astype(int) + one.validation + one.test == 1).all()
        assert 60 < one.test.sum() < 140  # 100 expected, a standard deviation of 9
        assert abs(one.validation.sum() / (~one.test).sum() - VALIDATION) < 0.06


def test_products_that_are_added_move_no_other() -> None:
    whole = generate_catalogue(400).catalogue
    some = np.random.default_rng(0).random(400) < 0.5
    for large, small in zip(folds(whole), folds(whole.keep_products(some)), strict=True):
        for part in ("train", "validation", "test"):
            assert (getattr(large, part)[some] == getattr(small, part)).all()


def test_a_product_stays_in_its_part_for_ever() -> None:
    """A model is tested on the fold that it was not trained on: folds cut by another release have to be the same."""
    catalogue = Catalogue.of("some", ids=[f"p{number}" for number in range(30)], paths=[["Toys"]] * 30)

    def numbers(mask: np.ndarray) -> list[int]:
        return np.flatnonzero(mask).tolist()

    first, second = folds(catalogue, 2)
    assert numbers(first.test) == [0, 1, 2, 6, 7, 10, 11, 14, 16, 18, 19, 23, 25, 26]
    assert numbers(second.test) == [3, 4, 5, 8, 9, 12, 13, 15, 17, 20, 21, 22, 24, 27, 28, 29]
    assert numbers(first.validation | second.validation) == [17, 18, 24]


def test_another_seed_is_another_cut() -> None:
    catalogue = generate_catalogue(400).catalogue
    assert (folds(catalogue, seed=0)[0].test != folds(catalogue, seed=1)[0].test).mean() > 0.2


def test_refuses_what_cannot_be_cut() -> None:
    with refused(ConfigurationError, "1", code="least-needed"):
        folds(generate_catalogue(50).catalogue, 1)
    with refused(ConfigurationError, "4", code="no-product-part-products"):
        folds(generate_catalogue(4).catalogue, 5)


def test_seen_are_the_categories_of_training_pairs() -> None:
    catalogue = Catalogue.of(
        "small",
        ids=["a", "b", "c"],
        paths=[["Clothes", "Skirts"], ["Clothes", "Hats"], ["Toys", "Trains"]],
        extra_paths=[["Toys", "Skirts"]],
    )
    split = Split(np.array([True, False, False]), np.array([False, True, False]), np.array([False, False, True]))
    ids = CategoryTree.of(catalogue).ids

    def seen(setting: str) -> list[str]:
        return [ids[row] for row in np.flatnonzero(seen_categories(catalogue, split, setting))]  # type: ignore[arg-type]

    assert seen("general") == ["Clothes"]
    # Hats belongs to a validation product, and of "Toys > Skirts" only the name was seen: both are unseen.
    assert seen("specific") == ["Clothes > Skirts"]
    assert seen("all") == [ids[drawn_categories(catalogue, "all")[0]]]
