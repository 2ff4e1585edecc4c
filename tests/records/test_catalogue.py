"""The catalogue record: what it holds, what it refuses (all at once), what it only remarks on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import CollectionError
from visir.records.catalogue import LONG, Catalogue, path_id


def small(**changed: Any) -> Catalogue:
    columns: dict[str, Any] = {
        "ids": ["p1", "p2", "p3"],
        "paths": [["Clothes", "Skirts"], ["Clothes"], ["Toys", "Trains", "Skirts"]],
        "titles": ["a red skirt", None, "skirts for trains"],
        "attributes": [[("colour", "red"), ("colour", "dark red")], [], [("scale", "1:87")]],
        "image_paths": ["a.jpg", None, "c.jpg"],
    }
    return Catalogue.of("small", **(columns | changed))


def tables(**changed: Any) -> Catalogue:
    """From tables, as they may come from elsewhere."""
    products = {"id": ["p"], "title": ["t"], "path": [None], "archive": [None], "category_id": ["a"]}
    attributes: dict[str, list[Any]] = {"product_id": [], "name": [], "value": []}
    categories = {"id": ["a"], "name": ["A"], "parent": [None]}
    made = {"products": products, "attributes": attributes, "categories": categories}
    for name, columns in changed.items():
        made[name] = made[name] | columns
    return Catalogue("given", *(pa.table(made[name]) for name in ("products", "attributes", "categories")))


def test_categories_come_from_paths_and_same_names_stay_apart() -> None:
    catalogue = small()
    assert catalogue.categories.to_pylist() == [
        {"id": "Clothes", "name": "Clothes", "parent": None},
        {"id": "Clothes > Skirts", "name": "Skirts", "parent": "Clothes"},
        {"id": "Toys", "name": "Toys", "parent": None},
        {"id": "Toys > Trains", "name": "Trains", "parent": "Toys"},
        {"id": "Toys > Trains > Skirts", "name": "Skirts", "parent": "Toys > Trains"},
    ]
    # p2's most specific category is an inner one for p1
    assert catalogue.products["category_id"].to_pylist() == ["Clothes > Skirts", "Clothes", "Toys > Trains > Skirts"]
    assert catalogue.attributes["product_id"].to_pylist() == ["p1", "p1", "p3"]
    described = catalogue.describe()
    assert [described[key] for key in ("products", "with picture", "with title")] == [3, 2, 2]
    assert [described[key] for key in ("attributes", "categories", "trees")] == [3, 5, 2]


names = st.lists(st.text(alphabet="a> ", min_size=1).map(str.strip).filter(bool), min_size=1, max_size=4)


@settings(deadline=None)
@given(names, names)
def test_different_paths_have_different_ids(one: list[str], other: list[str]) -> None:
    assert (path_id(one) == path_id(other)) == (one == other)


def test_fingerprint_knows_contents_and_not_the_order_or_the_place() -> None:
    first = small()
    order = np.array([2, 0, 1])
    shuffled = Catalogue(
        "other name",
        first.products.take(order),
        first.attributes.take(order),
        first.categories.take(np.array([4, 3, 2, 1, 0])),
        source="elsewhere",
    )
    assert shuffled.fingerprint == first.fingerprint
    assert small(image_paths=["x.jpg", None, None]).fingerprint == first.fingerprint
    changes: list[dict[str, Any]] = [
        {"titles": ["a red skirt", "", "skirts for trains"]},
        {"attributes": [[("colour", "red")], [("colour", "dark red")], [("scale", "1:87")]]},
        {"paths": [["Clothes", "Skirts"], ["Clothes", "Skirts"], ["Toys", "Trains", "Skirts"]]},
        {"extra_paths": [["Clothes", "Hats"]]},
    ]
    assert len({first.fingerprint, *(small(**change).fingerprint for change in changes)}) == 5


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(CollectionError) as told:
        tables(
            products={
                "id": ["p", "p", "", "q"],
                "title": [None] * 4,
                "path": [None] * 4,
                "archive": [None] * 4,
                "category_id": ["a", "gone", "a", None],
            },
            attributes={"product_id": ["p", "p", "r"], "name": ["colour", " ", "size"], "value": ["", "x" * 100, "9"]},
            categories={
                "id": ["a", "b", "c", "d", "e", "f"],
                "name": ["A", "B", "C", "", "E", "F"],
                "parent": [None, "c", "b", "lost", "e", "b"],
            },
        )
    text = str(told.value)
    for line in (
        "products without an id: 1\n",
        "duplicate product id 'p' (2 times)",
        "product 'p' is in category 'gone', which is not in the tree",
        "product 'q' has no category",
        "category 'd' has no name",
        "category 'd' is an orphan: its parent 'lost' is not in the tree",
        "categories in a cycle, each below the next: 'b' → 'c' → 'b'\n",
        "categories in a cycle, each below the next: 'e' → 'e'\n",
        "attribute 'size' belongs to product 'r', which is not in the catalogue",
        f"product 'p' has an attribute without a name (value '{'x' * 60}'… (100 characters))",
        "product 'p' has an attribute without a value (name 'colour')",
    ):
        assert line in text
    assert "(11 faults)" in text
    assert "'f'" not in text  # it leads into a cycle, but is in none


def test_columns_of_unequal_length_and_products_without_a_path() -> None:
    with refused(CollectionError, "3", "1", "titles", code="ids-of-another-count", hint=False):
        small(titles=["only one"])
    with pytest.raises(CollectionError, match="product 'p2' has no category"):
        small(paths=[["A"], [], ["B"]])
    with refused(CollectionError, "titles", code="not-valid-text"):
        small(titles=["half \ud800", None, None])
    with pytest.raises(CollectionError, match="category 'A > ' has no name"):
        small(paths=[["A", ""], ["A"], ["A"]])


def test_remarks_count_and_name_what_is_odd() -> None:
    value = "v" * 10_000_000
    catalogue = small(attributes=[[("story", value)], [], []], extra_paths=[["Clothes", "Hats", "Caps"]])
    assert catalogue.remarks() == [
        "products without a picture: 1 ('p2')",
        "products without a title: 1 ('p2')",
        "products without attributes: 2 ('p2', 'p3')",
        "categories without products: 2 ('Clothes > Hats', 'Clothes > Hats > Caps')",
        f"attribute values longer than {LONG:,} characters (models cut them, visir does not): 1 ('p1' (10,000,000))",
    ]
    assert catalogue.attributes["value"][0].as_py() == value
    assert tables(attributes={"product_id": ["p"], "name": ["n"], "value": ["v"]}).remarks() == [
        "products without a picture: 1 ('p')"
    ]


def test_a_part_keeps_the_whole_tree() -> None:
    part = small().keep_products(np.array([True, False, False]))
    assert part.products["id"].to_pylist() == ["p1"]
    assert part.attributes["product_id"].to_pylist() == ["p1", "p1"]
    assert part.categories.num_rows == 5
    assert "categories without products: 3" in part.remarks()[0]


def test_pictures_are_a_collection() -> None:
    pictures = small(image_archives=["z.zip", None, None]).pictures()
    assert pictures.images.to_pylist() == [
        {"id": "p1", "path": "a.jpg", "archive": "z.zip", "split": ""},
        {"id": "p3", "path": "c.jpg", "archive": None, "split": ""},
    ]


def test_an_empty_catalogue_is_one() -> None:
    empty = Catalogue.of("empty", ids=[], paths=[])
    assert empty.describe()["products"] == 0
    assert empty.remarks() == []
    assert len(empty.fingerprint) == 32
