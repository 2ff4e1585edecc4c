"""A shop over HTTP and on the page: prices in words, facets, pictures of a product."""

from __future__ import annotations

import csv
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("fastapi")

import visir

CHROMIUM = "/usr/bin/chromium"
SHOP = """id,title,category,price,brand,image
p1,red dress,Clothes > Dresses,€ 19.90,Acme,red.png|green.png
p2,blue dress,Clothes > Dresses;Sale,€ 49.90,Acme,
p3,wooden dog,Toys,€ 9.90,Zeta,blue.png
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shop")
    for name in ("red", "green", "blue"):
        Image.new("RGB", (32, 24), name).save(folder / f"{name}.png")
    (folder / "shop.csv").write_text(SHOP, encoding="utf-8")
    library = visir.index(folder / "shop.csv", "bow", out=folder / "shop.visir")
    with library.serve(port=0, background=True, open_browser=False) as service:
        yield service.url.rstrip("/")


def get(address: str, path: str, **given: str) -> Any:
    question = f"?{urllib.parse.urlencode(given)}" if given else ""
    with urllib.request.urlopen(f"{address}{path}{question}") as answer:
        return json.loads(answer.read())


def search(address: str, **body: Any) -> Any:
    request = urllib.request.Request(
        f"{address}/v1/libraries/shop/search", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def test_prices_in_the_words_come_back_as_conditions(address: str) -> None:
    answer = search(address, text="dress under 30 €")
    assert {hit["product"] for hit in answer["hits"]} == {"p1", "p3"}
    assert answer["hits"][0]["price"] == "19.90 EUR"
    assert answer["read"] == [{"words": "under 30 €", "where": [{"field": "price", "op": "<", "value": 30}]}]
    plain = search(address, text="dress under 30 €", read_prices=False)
    assert (len(plain["hits"]), plain["read"]) == (3, [])


def test_facets_and_what_they_ask_for(address: str) -> None:
    where = json.dumps([{"field": "price", "op": "<", "value": 30}])
    answer = get(address, "/v1/libraries/shop/facets", where=where)
    assert answer["total"] == 2
    by_field = {facet["field"]: facet for facet in answer["facets"]}
    assert {(value["label"], value["count"]) for value in by_field["brand"]["values"]} == {("Acme", 1), ("Zeta", 1)}
    for value in by_field["brand"]["values"]:
        listed = get(address, "/v1/libraries/shop/items", where=json.dumps([*json.loads(where), *value["where"]]))
        assert listed["total"] == value["count"]
    assert get(address, "/v1/libraries/shop/items", category="Sale")["items"][0]["product"] == "p2"


def test_facets_count_what_words_found_and_say_what_they_leave_out(address: str) -> None:
    where = json.dumps([{"field": "price", "op": "<", "value": 30}])
    found = get(address, "/v1/libraries/shop/facets", text="dress", where=where)
    assert (found["of"], found["total"]) == ("found", 1)
    by_field = {facet["field"]: facet for facet in found["facets"]}
    assert by_field["brand"]["left_out"] == []
    [price] = get(address, "/v1/libraries/shop/facets", text="dress", where=where, field="price")["facets"]
    assert price["left_out"] == json.loads(where)
    assert sum(value["count"] for value in price["values"]) == 2, "the price is counted without the price"
    ranked = get(address, "/v1/libraries/shop/facets", text="dress", by="vectors")
    assert (ranked["of"], ranked["total"]) == ("ranked", 3)
    nothing = get(address, "/v1/libraries/shop/facets", text="zzzqqq", by="words")
    assert (nothing["of"], nothing["total"], nothing["facets"]) == ("found", 0, [])
    [item] = [each["id"] for each in get(address, "/v1/libraries/shop/items")["items"] if each["product"] == "p1"]
    assert get(address, "/v1/libraries/shop/facets", like=item)["total"] == 2


def test_conditions_alone_are_listed(address: str) -> None:
    where = [{"field": "price", "op": "<", "value": 30}]
    answer = search(address, where=where)
    assert {hit["product"] for hit in answer["hits"]} == {"p1", "p3"}
    assert (answer["by"], answer["system"], answer["label"], answer["total"]) == ("filters", None, "by name", 2)
    listed = get(address, "/v1/libraries/shop/items", where=json.dumps(where))
    assert [hit["id"] for hit in answer["hits"]] == [item["id"] for item in listed["items"]]
    assert listed["order"] == "by name"


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs a browser")
def test_counts_words_and_specifications_on_the_page(tmp_path: Path) -> None:
    sync = pytest.importorskip("playwright.sync_api")
    with (tmp_path / "shop.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "title", "brand", "price", "product_specifications"])
        for n in range(1, 9):
            pairs = f'[{{"key"=>"Material", "value"=>"wool {n}"}}, {{"key"=>"Care", "value"=>nil}}]'
            specifications = f'{{"product_specification"=>{pairs}}}'
            table.writerow(
                [f"p{n}", "red dress" if n < 3 else "blue hat", "Acme" if n % 2 else "Zeta", n * 10, specifications]
            )
    with (
        visir.index(tmp_path / "shop.csv", "none", out=tmp_path / "shop.visir") as library,
        library.serve(port=0, background=True, open_browser=False) as service,
        sync.sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        page.goto(f"{service.url}?q=dress&where=price+%3C+15")
        count = page.locator(".column > .count").first
        sync.expect(count).to_contain_text("1 product found, best first")
        page.click("#filters-button")
        sync.expect(page.locator(".facets .of")).to_have_text("Of 1 product found by words:")
        sync.expect(page.locator("section[aria-label=price]")).to_contain_text("without price < 15")
        assert page.get_by_label("Field").locator("option").all_inner_texts()[:3] == ["price", "brand", "Material"]
        page.locator(".grid a").first.click()
        sync.expect(page.locator(".why")).to_contain_text("dress")
        sync.expect(page.locator(".why .parts")).to_contain_text("title")
        sync.expect(page.locator(".about dt", has_text="Material")).to_be_visible()
        sync.expect(page.locator(".about")).not_to_contain_text("=>")
        page.goto(f"{service.url}?q=zzzqqq")
        page.get_by_text("Nothing was found.").wait_for()
        sync.expect(count).to_have_text("")
        browser.close()


def test_an_unknown_facet_is_refused(address: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(address, "/v1/libraries/shop/facets", field="brnd")
    assert refused.value.code == 422
    assert "did you mean 'brand'" in refused.value.read().decode()


def test_every_picture_of_a_product(address: str) -> None:
    [item] = [each for each in get(address, "/v1/libraries/shop/items")["items"] if each["product"] == "p1"]
    pictures = []
    for number in (1, 2):
        with urllib.request.urlopen(f"{address}/v1/libraries/shop/items/{item['id']}/image?n={number}") as answer:
            assert answer.headers["Content-Type"] == "image/png"
            pictures.append(answer.read())
    assert pictures[0] != pictures[1]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{address}/v1/libraries/shop/items/{item['id']}/image?n=3")
    assert refused.value.code == 404
    files = get(address, f"/v1/libraries/shop/items/{item['id']}")["files"]
    assert [file["name"] for file in files] == ["red dress", "red.png", "green.png"]


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs a browser")
def test_a_price_in_the_words_is_a_filter_that_can_be_removed(address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/?q=dress+under+30")
        page.get_by_role("button", name="Remove the filter price < 30").wait_for()
        assert page.locator(".grid a").count() == 2
        page.click("#filters-button")
        playwright.expect(page.locator(".facets .of")).to_have_text("Of 1 product found by words:")
        page.locator(".facet", has_text="Acme").click()
        playwright.expect(page.locator(".grid a")).to_have_count(1)
        assert "where=brand" in page.url
        page.get_by_role("button", name="Remove the filter price < 30").click()
        page.get_by_role("button", name="Remove the filter brand = Acme").click()
        playwright.expect(page.locator(".grid a")).to_have_count(3)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert errors == []
        browser.close()


def test_words_vectors_or_both_over_http(address: str) -> None:
    [about] = get(address, "/v1/libraries")
    assert about["ways"] == ["both", "words", "vectors"]
    answer = search(address, text="wooden dgo")
    assert (answer["by"], answer["system"], answer["label"]) == ("both", "dense", "words and dense")
    assert answer["changes"] == ["searched for 'dog' instead of 'dgo'"]
    assert answer["hits"][0]["parts"].keys() == {"words", "dense"}
    words = search(address, text="dress", by="words")
    assert {hit["product"] for hit in words["hits"]} == {"p1", "p2"}
    assert (words["total"], words["matched"]) == (2, 2), "what was found"
    assert (answer["total"], answer["matched"]) == (3, 1), "what is ranked, and what of it shares a word"
    assert (words["by"], words["system"], words["label"]) == ("words", None, "words")
    vectors = search(address, text="dress", by="vectors")
    assert (vectors["by"], vectors["label"], len(vectors["hits"])) == ("vectors", "dense", 3)
    assert (vectors["total"], vectors["matched"]) == (3, None), "vectors rank everything"
    with pytest.raises(urllib.error.HTTPError) as refused:
        search(address, text="dress", by="wrds")
    assert refused.value.code == 422


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs a browser")
def test_a_shop_without_a_model_on_the_page(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    (tmp_path / "shop.csv").write_text(SHOP, encoding="utf-8")
    library = visir.index(tmp_path / "shop.csv", "none", out=tmp_path / "shop.visir")
    with (
        library.serve(port=0, background=True, open_browser=False) as service,
        playwright.sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 900, "height": 800})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{service.url.rstrip('/')}/?q=blue+drss")
        page.get_by_text("Searched for 'dress' instead of 'drss'.").wait_for()
        assert page.locator(".grid a").count() == 2
        assert not page.locator("#choose").is_visible(), "there is no model that could look at a photo"
        page.locator(".grid a").first.click()
        page.get_by_text("Rank").wait_for()
        assert page.get_by_role("button", name="More like this").count() == 0
        assert page.locator(".error").count() == 0
        assert errors == []
        browser.close()


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs a browser")
def test_words_vectors_or_both_on_the_page(address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 900, "height": 800})
        page.goto(f"{address}/?q=dress")
        playwright.expect(page.locator(".grid a")).to_have_count(3)
        assert page.get_by_role("radio", name="Both").is_checked()
        page.get_by_text("Words", exact=True).click()
        playwright.expect(page.locator(".grid a")).to_have_count(2)
        assert "system=words" in page.url
        page.get_by_text("Dense", exact=True).click()
        playwright.expect(page.locator(".grid a")).to_have_count(3)
        browser.close()


@pytest.mark.parametrize("width", [390, 1200])
def test_a_long_title_leaves_the_price_in_its_tile(width: int, tmp_path: Path) -> None:
    sync = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium here")
    rows = [f'p{n},"{"a printed cotton bed sheet with a very long name " * n}",Home,{n}99,Acme,' for n in range(1, 9)]
    (tmp_path / "shop.csv").write_text("\n".join(["id,title,category,price,brand,image", *rows]), encoding="utf-8")
    with (
        visir.index(tmp_path / "shop.csv", "bow", out=tmp_path / "shop.visir") as library,
        library.serve(port=0, background=True, open_browser=False) as service,
        sync.sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(f"{service.url}?q=cotton")
        page.locator(".grid .price").first.wait_for()
        hidden = page.evaluate(
            """() => [...document.querySelectorAll(".grid li")].filter((tile) => {
                const price = tile.querySelector(".price").getBoundingClientRect();
                return price.bottom > tile.getBoundingClientRect().bottom;
            }).length"""
        )
        assert page.locator(".grid .price").count() == 8
        assert hidden == 0
        browser.close()
