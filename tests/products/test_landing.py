"""Landing pages and promotions across categories: what is chosen, by hand and by properties, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from refusals import refused
from visir.cli.main import app
from visir.errors import ConfigurationError
from visir.products import landing_page, open_catalogue, related_products, write_landing_page
from visir.products.landing import in_turn
from visir.records import Catalogue
from visir.records.category_tree import CategoryTree
from visir.storage import FolderError

SHOP = Catalogue.of(
    "shop",
    ids=["d1", "d2", "d3", "s1", "s2", "p1", "p2", "h1", "w1"],
    paths=[
        ["Clothes", "Dresses", "Long"], ["Clothes", "Dresses", "Long"], ["Clothes", "Dresses", "Short"],
        ["Clothes", "Skirts"], ["Clothes"], ["Shoes", "Pumps"], ["Shoes", "Pumps"], ["Bags", "Handbags"],
        ["Tools", "Saws"],
    ],
    titles=["red dress", "dress", "dress short", "skirt dress", "dress hanger", "pumps for a dress", "dress shoes",
            None, "saw"],
    attributes=[[("Price", "20.0")], [], [], [], [], [("Price", "€ 35")], [], [("goes with", "dress")], []],
)  # fmt: skip


def test_a_page_has_the_products_of_the_category_and_related_ones_of_others() -> None:
    page = landing_page(SHOP, "dresses")
    (category,) = page.categories
    assert category.id == "Clothes > Dresses" and category.path == ("Clothes", "Dresses") and category.total == 3
    assert sorted(category.products) == ["d1", "d2", "d3"]
    assert category.below == (("Long", 2), ("Short", 1))
    # neither the category, nor its siblings, nor what stands right at "Clothes"; the saw shares no word
    assert sorted(category.related) == ["h1", "p1", "p2"]
    assert page.prices == {"d1": "20", "p1": "€ 35"}
    assert landing_page(SHOP, "Dresses", k=2).categories[0].products == category.products[:2]
    assert landing_page(SHOP, "Dresses", related=0).categories[0].related == ()
    assert "Clothes > Dresses: 3 of 3, 3 related" in repr(page)


def test_products_that_the_system_does_not_find_stand_at_the_end() -> None:
    assert landing_page(SHOP, "Tools", "bm25:plain").categories[0].products == ("w1",)
    products = landing_page(SHOP, "Clothes", "bm25:plain", k=9).categories[0].products  # no title says clothes
    assert products == ("d1", "d2", "d3", "s1", "s2")


def test_categories_below_take_turns() -> None:
    assert in_turn(list("abcdef"), [1, 1, 1, 2, 2, 3]) == list("adfbec")
    plain = landing_page(SHOP, "Dresses").categories[0].products
    turned = landing_page(SHOP, "Dresses", k=2, diverse=True).categories[0].products
    assert sorted(plain) == ["d1", "d2", "d3"] and "d3" in turned


@pytest.mark.parametrize(
    ("relatives", "expected"),
    [("path", {"s1", "p1", "p2", "h1"}), ("siblings", {"p1", "p2", "h1"}), ("tree", {"p1", "p2", "h1"})],
)
def test_relatives(relatives: str, expected: set[str]) -> None:
    answer = related_products(SHOP, "Dresses", k=9, relatives=relatives)  # type: ignore[arg-type]
    assert {product for product, _ in answer.products} == expected
    assert answer.right is None and answer.query == "Dresses"
    scores = [score for _, score in answer.products]
    assert scores == sorted(scores, reverse=True)


def test_no_related_product_is_of_the_category_or_its_relatives() -> None:
    catalogue = open_catalogue("generated:400")
    tree = CategoryTree.of(catalogue)
    own = dict(zip(*(catalogue.products[name].to_pylist() for name in ("id", "category_id")), strict=True))
    for row in range(0, len(tree), 9):
        answer = related_products(catalogue, tree.ids[row], "text:bow", k=20, per_category=3)
        places = tree.rows([own[product] for product, _ in answer.products])
        parent = tree.parents[row]
        assert not tree.contains(np.array(row if parent < 0 else parent), places).any()
        assert max(np.bincount(places)) <= 3 and len(places) == 20


def test_the_page(tmp_path: Path) -> None:
    catalogue = open_catalogue("generated:60")
    path = write_landing_page(tmp_path / "page.html", landing_page(catalogue, ["Animals", "Vehicles"], "text:bow"))
    text = path.read_text()
    assert ">Animals, Vehicles</h1>" in text and "from other categories" in text
    assert text.count("data:image/jpeg") >= 24 and "http://" not in text.replace("http://www.w3.org", "")
    write_landing_page(path, landing_page(catalogue, "Animals", "text:bow"), title="Zoo")  # its own page, unchanged
    assert ">Zoo</h1>" in path.read_text()
    path.write_text("mine")
    with refused(FolderError, code="exists-already"):
        write_landing_page(path, landing_page(catalogue, "Animals", "text:bow"))
    assert path.read_text() == "mine"


def test_a_shop_without_pictures_has_a_page_too(tmp_path: Path) -> None:
    text = write_landing_page(tmp_path / "page.html", landing_page(SHOP, "Dresses")).read_text()
    assert "red dress" in text and "picture cannot be shown" not in text


def test_the_command(tmp_path: Path) -> None:
    page = tmp_path / "dogs.html"
    command = ["products", "landing", "generated:80", "Dogs", "Cats", "-k", "3", "--html", str(page)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "Landing page" in result.output and page.is_file() and "visir products landing" not in result.output


def test_faults_are_named_together() -> None:
    several = Catalogue.of("two", ids=["a", "b"], paths=[["Men", "Shoes"], ["Women", "Shoes"]])
    with pytest.raises(
        ConfigurationError, match=r"(?s)k must be.*relatives 'all'.*called 'Shoes'.*'Men > Shoes'.*'Hats'"
    ):
        landing_page(several, ["Shoes", "Hats"], k=0, relatives="all")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"no product has an attribute 'Prise'.*Price"):
        landing_page(SHOP, "Dresses", price="Prise")
    with refused(ConfigurationError, "per_category", hint=False):
        related_products(SHOP, "Dresses", per_category=0)
    assert landing_page(several, "Men > Shoes", related=0).categories[0].products == ("a",)
