"""Libraries of a shop's products: what is found, what an update encodes, filters, facets, and prices in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import visir
from refusals import refused
from visir.errors import CollectionError
from visir.library import Library, LibraryError
from visir.library.facets import round_ends
from visir.library.filters import Field
from visir.library.price_words import read_prices

COLOURS = {"red": (220, 10, 10), "green": (10, 220, 10), "blue": (10, 10, 220)}
SHOP = """id;title;category;price;brand;stock;image
p1;red dress;Clothes > Dresses;1.299,00 €;Acme;3;red.png
p1;;;;;;green.png
p2;blue dress;Clothes > Dresses | Sale;49,90 €;acme;0;
p3;wooden dog;;on request;Zeta;7;blue.png
p4;yellow hat;Clothes > Hats;9,90 €;Zeta;1;gone.png
p5;;Clothes > Hats;19,90 €;Zeta;0;
"""


def texts(values: list[str]) -> NDArray[np.float32]:
    """(n, 4) how often each colour occurs, and one where there is none."""
    counts = [[float(word in text.split()) for word in COLOURS] for text in values]
    return np.array([[*row, 0.1 if any(row) else 1.0] for row in counts], np.float32)


def images(values: list[Image.Image]) -> NDArray[np.float32]:
    means = [np.asarray(image.convert("RGB"), np.float32).mean(axis=(0, 1)) / 255 for image in values]
    return np.array([[*mean, 0.0] for mean in means], np.float32)


def colours() -> visir.Encoder:
    return visir.Encoder.wrap("colours", image=images, text=texts, version="1")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, colour in COLOURS.items():
        Image.new("RGB", (32, 24), colour).save(tmp_path / f"{name}.png")
    (tmp_path / "shop.csv").write_text(SHOP, encoding="utf-8")
    return tmp_path / "shop.csv"


@pytest.fixture
def library(shop: Path) -> Library:
    return visir.index(shop, colours(), out=shop.with_name("shop.visir"))


def products(library: Library) -> set[str | None]:
    return {picture.item.product for picture in library}


def test_no_product_is_lost(library: Library) -> None:
    assert products(library) == {"p1", "p2", "p3", "p4", "p5"}
    assert library.report is not None
    remarks = "\n".join(library.report.remarks)
    assert "without a picture: 2 (p2, p5)" in remarks
    assert "without a category: 1 (p3)" in remarks
    assert "without a title: 1 (p5)" in remarks
    assert "with pictures that are not there (images= says where they are): 1 (p4: gone.png)" in remarks
    assert "rows joined to an earlier one with the same id: 1" in remarks
    assert repr(library.report).startswith("UpdateReport(5 products; 5 added;")


def test_a_product_is_found_by_its_text_and_by_each_of_its_pictures(library: Library) -> None:
    assert library.search("blue", k=1)[0].item.product == "p2"  # it has no picture
    assert library.search(image=Image.new("RGB", (8, 8), COLOURS["blue"]), k=2)[1].item.product == "p3"
    green = library.search(image=Image.new("RGB", (8, 8), COLOURS["green"]), k=1)
    assert green[0].item.product == "p1"  # the second of its pictures
    assert [file.name for file in green[0].item.files] == ["red dress", "red.png", "green.png"]


def test_the_vector_is_the_mean_of_unit_means(library: Library) -> None:
    [first] = [picture.id for picture in library if picture.item.product == "p1"]
    vector = library.snapshot.indexes["dense"].select([first]).vectors[0]

    def unit(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return values / np.linalg.norm(values)

    pictures = [unit(images([Image.new("RGB", (1, 1), COLOURS[name])])[0]) for name in ("red", "green")]
    expected = unit(unit(np.mean(pictures, axis=0)) + unit(texts(["red dress"])[0]))
    assert vector == pytest.approx(expected, abs=1e-6)


def test_originals_of_products(library: Library, shop: Path) -> None:
    first = library["p1"]
    assert first.path == shop.with_name("red.png").absolute()
    data, kind = library.snapshot.open_image(first.id)
    assert (data, kind) == (shop.with_name("red.png").read_bytes(), "image/png")
    with pytest.raises(LibraryError, match="has no picture"):
        library.snapshot.open_image(library["p2"].id)


def test_numbers_stay_numbers(library: Library) -> None:
    assert library.fields["price"].type == "number"
    found = {hit.item.product for hit in library.search("dress", where=["price < 50", "brand = ACME"])}
    assert found == {"p2"}
    within = library.search("hat", where=["price >= 9.9", "price <= 19.9"])
    assert {hit.item.product for hit in within} == {"p4", "p5"}


def test_a_product_lies_in_all_its_categories(library: Library) -> None:
    assert {hit.item.product for hit in library.search(category="Sale")} == {"p2"}
    assert {hit.item.product for hit in library.search(category="Clothes/Dresses")} == {"p1", "p2"}
    assert {hit.item.product for hit in library.search("dress", where="category = Sale")} == {"p2"}
    assert [(each.path, each.items) for each in library.categories] == [("Clothes", 4), ("Sale", 1)]


# ---- updates ----


def test_an_update_encodes_only_what_changed(library: Library, shop: Path) -> None:
    before = {picture.item.product: picture.id for picture in library}
    assert library.update().same
    shop.write_text(SHOP.replace("49,90", "39,90"), encoding="utf-8")
    report = library.update()
    assert (report.encoded, report.rewritten, report.changed) == (0, 1, 0)
    assert library["p2"].fields["price"] == 39.9
    changed = SHOP.replace("yellow hat", "green hat").replace("p3;wooden", "p9;wooden")
    shop.write_text(changed, encoding="utf-8")
    report = library.update()
    assert (report.added, report.changed, report.deleted, report.encoded) == (1, 1, 1, 2)
    after = {picture.item.product: picture.id for picture in library}
    assert after.keys() == {"p1", "p2", "p4", "p5", "p9"}
    assert {product for product in before if after.get(product) != before[product]} == {"p3", "p4"}
    assert library.check() == []
    assert library.search("green", k=2)[0].item.product in ("p1", "p4")


def test_a_changed_picture_is_encoded_again(library: Library, shop: Path) -> None:
    Image.new("RGB", (30, 20), "white").save(shop.with_name("green.png"))
    report = library.update()
    assert (report.changed, report.encoded) == (1, 1)
    assert library.check() == []


def test_a_broken_picture_leaves_its_product(shop: Path) -> None:
    shop.with_name("blue.png").write_bytes(b"no picture")
    library = visir.index(shop, colours(), out=shop.with_name("shop.visir"))
    assert library.report is not None
    assert list(library.report.broken) == ["p3: blue.png"]
    assert "p3" in products(library)
    report = library.update()
    assert report.same
    assert list(report.broken) == ["p3: blue.png"]
    Image.new("RGB", (9, 9), "blue").save(shop.with_name("blue.png"))
    assert library.update().broken == {}


def test_pictures_that_went_away_together_change_nothing(library: Library, shop: Path) -> None:
    for name in COLOURS:
        os.rename(shop.with_name(f"{name}.png"), shop.with_name(f"{name}.away"))  # noqa: PTH104
    with refused(LibraryError, code="none-pictures-names"):
        library.update()
    assert library["p1"].item.width == 32


def test_a_table_that_cannot_be_read_changes_nothing(library: Library, shop: Path) -> None:
    shop.write_text(SHOP + "p6;only two\n", encoding="utf-8")
    with refused(CollectionError, "line 8", "2 values for 7 columns"):
        library.update()
    assert len(library) == 5


def test_a_folder_of_pictures_and_a_table_without_them(shop: Path) -> None:
    shop.write_text("id,title,price\n1,red dress,5\n2,blue dress,6\n", encoding="utf-8")
    library = visir.index(shop, images=shop.parent, out=shop.with_name("plain.visir"))
    assert products(library) == {"1", "2"}
    assert library.report is not None
    assert "no column of pictures (image_column= names it)" in library.report.remarks
    shop.write_text("id,title,price,image\n1,red dress,5,\n2,blue dress,6,lost.png\n", encoding="utf-8")
    with refused(CollectionError, "1", code="none-images", hint="lost.png"):
        visir.index(shop, images=shop.parent, out=shop.with_name("lost.visir"))


def test_entities_are_characters(shop: Path) -> None:
    shop.write_text(
        "id;title;category;price;brand\n"
        '1;"Caf&eacute; table";"Home &amp; Garden > Tables";5;"A &amp; B"\n'
        '2;R&D mug;"Home &amp; Garden > Mugs";6;A & B\n',
        encoding="utf-8",
    )
    library = visir.index(shop, out=shop.with_name("entities.visir"))
    assert [hit.item.name for hit in library.search("café", by="words")] == ["Café table"]
    assert [(value.label, value.count) for value in library.facets(fields=["brand"])["brand"].values] == [("A & B", 2)]
    assert [value.category for value in library.facets()["category"].values] == ["Home & Garden"]
    assert library.report is not None
    assert any(line.startswith("cells with HTML entities (read as characters): 4") for line in library.report.remarks)


def test_nothing_of_the_shop_is_touched(shop: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in shop.parent.iterdir()}
    visir.index(shop, colours(), out=shop.parent.parent / "made.visir").update(verify=True)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in shop.parent.iterdir()} == before


def test_models_of_texts_alone_and_of_pictures_alone(shop: Path) -> None:
    words = visir.index(shop, "bow", out=shop.with_name("words.visir"))
    assert words.search("blue dress", k=1)[0].item.product == "p2"
    pictures = visir.index(shop, "pixels", out=shop.with_name("pictures.visir"))
    assert products(pictures) == {"p1", "p3"}
    assert pictures.report is not None
    assert "has no picture, and pixels takes pictures alone" in pictures.report.broken["p2"]


def test_given_vectors_belong_to_products(shop: Path) -> None:
    ids = ["p1", "p1#2", "p2", "p3", "p4", "p5"]
    np.savez(shop.with_name("v.npz"), image=np.eye(6, dtype=np.float32), image_ids=np.array(ids))
    library = visir.index(shop, f"npz:{shop.with_name('v.npz')}", out=shop.with_name("shop.visir"))
    assert np.argmax(library.snapshot.indexes["dense"].select([library["p3"].id]).vectors[0]) == 3


# ---- facets ----


def test_facets_count_what_conditions_leave(library: Library) -> None:
    facets = library.facets()
    assert facets.total == 5
    assert [(value.label, value.count) for value in facets["brand"].values] == [("Zeta", 3), ("acme", 2)]
    assert {(value.category, value.count) for value in facets["category"].values} == {("Clothes", 4), ("Sale", 1)}
    for facet in facets.facets:
        for value in facet.values:
            found = library.search("dress", k=10, where=value.where, category=value.category)
            assert found.total == value.count, (facet.field, value)
    under = library.facets(where="price < 50")
    assert {(value.label, value.count) for value in under["brand"].values} == {("Zeta", 2), ("acme", 1)}
    chosen = library.facets(where="brand = Zeta", fields=["brand"])
    assert chosen.total == 3
    assert {value.label for value in chosen["brand"].values} == {"Zeta", "acme"}  # another choice can be compared
    below = library.facets(category="Clothes")["category"]
    assert {(value.label, value.count) for value in below.values} == {("Dresses", 2), ("Hats", 2)}


def test_a_field_with_one_number_has_no_ranges(library: Library) -> None:
    assert library.facets(where="stock = 7", fields=["stock", "price", "brand"]).facets[0].field == "stock"
    assert [facet.field for facet in library.facets(category="Sale").facets] == ["brand"]


def test_long_texts_group_nothing(shop: Path) -> None:
    rows = SHOP.splitlines()
    long = "soft cotton " * 900
    described = [f"{rows[0]};description", *(f"{row};{long if row[:2] == 'p3' else 'short'}" for row in rows[1:])]
    shop.write_text("\n".join(described), encoding="utf-8")
    library = visir.index(shop, out=shop.with_name("long.visir"))
    assert "description" not in {facet.field for facet in library.facets().facets}
    assert {value.count for value in library.facets(fields=["description"])["description"].values} == {1, 4}
    place = str(shop.with_name("long.visir"))
    command = [sys.executable, "-m", "visir", "library", "facets", place, "--field", "description"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.count("soft cotton") in range(1, 10)


def test_facets_name_an_unknown_field(library: Library) -> None:
    with refused(visir.VisirError, "unknown field", "brnd", meant="brand"):
        library.facets(fields=["brnd"])


def test_ends_of_ranges_are_round_and_inside() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.01, 1, 1000):
        amounts = rng.lognormal(3, 1, 500) * scale
        ends = round_ends(amounts)
        assert ends == sorted(set(ends))
        assert 1 <= len(ends) <= 4
        assert all(amounts.min() < end <= amounts.max() for end in ends)
    assert round_ends(np.array([5.0, 5.0])) == [5] or round_ends(np.array([5.0, 5.0])) == []


# ---- prices in words ----

EURO = {
    "price": Field("price", "number"),
    "weight": Field("weight", "number"),
    "currency": Field("currency", "text", ("EUR",)),
}
SEVERAL = {**EURO, "currency": Field("currency", "text", ("EUR", "USD"))}


@pytest.mark.parametrize(
    ("text", "rest", "where"),
    [
        ("red dress under 50", "red dress", ["price < 50"]),
        ("red dress under 50 €", "red dress", ["price < 50"]),
        ("red dress below €50", "red dress", ["price < 50"]),
        ("dress Less Than 49.90 euros", "dress", ["price < 49.9"]),
        ("dress up to 49,90€ long", "dress long", ["price <= 49.9"]),
        ("watch over 1,200", "watch", ["price > 1200"]),
        ("watch at least 100 EUR", "watch", ["price >= 100"]),
        ("shoes between 20 and 50", "shoes", ["price >= 20", "price <= 50"]),
        ("shoes between 50 and 20 €", "shoes", ["price >= 20", "price <= 50"]),
        ("shoes from 20 to 50", "shoes", ["price >= 20", "price <= 50"]),
        ("shoes 20-50 €", "shoes", ["price >= 20", "price <= 50"]),
        ("shoes <= 30", "shoes", ["price <= 30"]),
        ("stone weight under 5", "stone", ["weight < 5"]),
        ("under 50", "", ["price < 50"]),
        ("dress over 20 under 50", "dress", ["price > 20", "price < 50"]),
        ("rotes Kleid unter 50", "rotes Kleid", ["price < 50"]),
        ("Kleid ab 20 €", "Kleid", ["price >= 20"]),
        ("Kleid ab 20", "Kleid ab 20", []),  # "ab 20 Teile", "ab 20 Jahren": a short word needs a currency
        ("Regal über 40 Zoll", "Regal über 40 Zoll", []),
        ("Kleid zwischen 20 und 40 Euro", "Kleid", ["price >= 20", "price <= 40"]),
        ("robe à partir de 20 €", "robe", ["price >= 20"]),
        ("robe moins de 50", "robe", ["price < 50"]),
        ("vestido entre 20 y 40", "vestido", ["price >= 20", "price <= 40"]),
        ("vestito fino a 40 €", "vestito", ["price <= 40"]),
        ("jurk onder 30", "jurk", ["price < 30"]),
        # not conditions
        ("under armour shirt", "under armour shirt", []),
        ("rug under 40 cm", "rug under 40 cm", []),
        ("rug under 40cm", "rug under 40cm", []),
        ("toys over 3 years", "toys over 3 years", []),
        ("jeans 501", "jeans 501", []),
        ("size 36-38", "size 36-38", []),
        ("nightstand under 1080p", "nightstand under 1080p", []),
        ("dress under 50 $", "dress under 50 $", []),
        ("thunder 50", "thunder 50", []),
    ],
)
def test_prices_in_words(text: str, rest: str, where: list[str]) -> None:
    left, read = read_prices(text, EURO)
    assert left == rest
    assert sorted(str(condition) for words in read for condition in words.where) == sorted(where)


def test_a_currency_counts_where_there_are_several() -> None:
    assert [str(each) for each in read_prices("cup under 5 $", SEVERAL)[1][0].where] == ["price < 5", "currency = USD"]
    assert [str(each) for each in read_prices("cup under 5", SEVERAL)[1][0].where] == ["price < 5"]


def test_without_prices_nothing_is_read() -> None:
    assert read_prices("cup under 5", {"price": Field("price", "text")}) == ("cup under 5", ())
    assert read_prices("cup under 5", {}) == ("cup under 5", ())


def test_prices_in_the_words_of_a_search(library: Library) -> None:
    results = library.search("blue dress under 50 €")
    assert {hit.item.product for hit in results} == {"p2", "p4", "p5"}
    assert results.read[0].words == "under 50 €"
    assert "'under 50 €' as price < 50" in results.title
    plain = library.search("blue dress under 50 €", read_prices=False)
    assert (len(plain), plain.read) == (5, ())
    assert results[0].score == pytest.approx(library.search("blue dress", where="price < 50")[0].score)


def test_price_words_alone_list_and_find_nothing(library: Library) -> None:
    """No word of theirs is looked for, so that nothing is "found"."""
    results = library.search("under 50", by="words")
    passing = library.search(where="price < 50")
    assert (results.total, results.matched) == (passing.total, None) and results.total > 0
    assert {hit.item.product for hit in results} == {hit.item.product for hit in passing}
    assert results.how_many.endswith("that pass the filters")
