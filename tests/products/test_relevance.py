"""Who is relevant to whom, on a catalogue small enough to see."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from refusals import refused
from visir.errors import CollectionError
from visir.products import CategoryTree, relevant_products
from visir.products.generated import generate_catalogue
from visir.products.task import Setting
from visir.records import Catalogue, Qrels

SMALL = Catalogue.of(
    "small",
    ids=["p1", "p2", "p3"],
    paths=[["Clothes", "Skirts"], ["Clothes"], ["Toys", "Trains", "Skirts"]],
    extra_paths=[["Clothes", "Hats"]],
)


def pairs(qrels: Qrels) -> dict[str, list[str]]:
    documents, queries = qrels.documents.to_pylist(), qrels.queries.to_pylist()
    return {one: documents[qrels.offsets[i] : qrels.offsets[i + 1]] for i, one in enumerate(queries)}


def test_three_settings_by_hand() -> None:
    # p2 lies in Clothes itself, which is thereby both a root and somebody's most specific category; Hats has nobody.
    assert pairs(relevant_products(SMALL, "all")) == {
        "Clothes": ["p1", "p2"],
        "Clothes > Skirts": ["p1"],
        "Toys": ["p3"],
        "Toys > Trains": ["p3"],
        "Toys > Trains > Skirts": ["p3"],
    }
    assert pairs(relevant_products(SMALL, "general")) == {"Clothes": ["p1", "p2"], "Toys": ["p3"]}
    assert pairs(relevant_products(SMALL, "specific")) == {
        "Clothes": ["p1", "p2"],
        "Clothes > Skirts": ["p1"],
        "Toys > Trains > Skirts": ["p3"],
    }


@pytest.mark.parametrize("setting", get_args(Setting))
def test_agrees_with_the_tree(setting: Setting) -> None:
    catalogue = generate_catalogue(200).catalogue
    tree = CategoryTree.of(catalogue)
    found = pairs(relevant_products(catalogue, setting))
    own = tree.rows(catalogue.products["category_id"])
    truth = tree.contains(np.arange(len(tree))[:, None], own)
    ids = catalogue.products["id"].to_pylist()
    level = {"all": [1, 2, 3], "general": [1], "specific": [3]}[setting]
    wanted = [row for row in range(len(tree)) if tree.depths[row] in level and truth[row].any()]
    assert found == {tree.ids[row]: [ids[at] for at in np.flatnonzero(truth[row])] for row in wanted}


def test_an_unknown_setting() -> None:
    with refused(CollectionError, "generl", code="unknown-setting") as told:
        relevant_products(SMALL, "generl")  # type: ignore[arg-type]
    assert "did you mean 'general'?" in str(told.value)
