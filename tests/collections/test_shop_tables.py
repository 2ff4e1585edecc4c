"""Tables of products as shops export them: columns, categories, prices, repeated ids, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import visir
from refusals import refused
from visir.collections.cells import amount_of, read_amounts
from visir.collections.readers.products import read
from visir.collections.readers.shop_cells import CategoryStyle, without_entities
from visir.collections.readers.shop_columns import ShopColumns
from visir.errors import CollectionError
from visir.files import data_directory
from visir.products import open_catalogue
from visir.records import Collection


def shop(folder: Path, text: str, name: str = "shop.csv") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def fact(collection: Collection, name: str) -> dict[str, object]:
    """{id of the first picture: value} of a fact, where there is one."""
    assert collection.facts is not None
    pairs = zip(collection.facts["image_id"].to_pylist(), collection.facts[name].to_pylist(), strict=True)
    return {image: value for image, value in pairs if value is not None}


def notes(collection: Collection) -> str:
    return "\n".join(note for note in collection.source.split("; ") if note.startswith("products: "))


# ---- categories ----

CELLS = {
    "arrows": (["Clothes > Skirts", "Toys"], [("Clothes", "Skirts")]),
    "double arrows": (["Clothes >> Skirts > Denim"], [("Clothes", "Skirts > Denim")]),
    "slashes": (["Clothes/Skirts", "Clothes/Shirts"], [("Clothes", "Skirts")]),
    "bars": (["Clothes | Skirts", "Toys | Dogs"], [("Clothes", "Skirts")]),
    "JSON path": (['["Clothes", "Skirts"]'], [("Clothes", "Skirts")]),
    "JSON of one text": (['["Clothes >> Skirts"]'], [("Clothes", "Skirts")]),
    "JSON of several texts": (['["Clothes > Skirts", "Sale"]'], [("Clothes", "Skirts"), ("Sale",)]),
    "Python list": ([["Clothes", "Skirts"]], [("Clothes", "Skirts")]),
    "list of lists": ([[["Clothes", "Skirts"], ["Sale"]]], [("Clothes", "Skirts"), ("Sale",)]),
    "semicolons": (["Skirts;Sale", "Shirts"], [("Skirts",), ("Sale",)]),
    "paths and bars": (["Clothes > Skirts | Sale > Summer"], [("Clothes", "Skirts"), ("Sale", "Summer")]),
    "slashes and bars": (["Clothes/Skirts|Sale/Summer", "Clothes/A"], [("Clothes", "Skirts"), ("Sale", "Summer")]),
    "slashes and semicolons": (["Clothes/Skirts;Sale", "Clothes/A"], [("Clothes", "Skirts"), ("Sale",)]),
    "paths and commas": (["Clothes > Skirts, Sale > Summer"], [("Clothes", "Skirts"), ("Sale", "Summer")]),
    "a comma in a name": (["Clothes > Coats, Jackets", "A > B"], [("Clothes", "Coats, Jackets")]),
    "a slash in a name": (["Audio/Video", "Garden", "Toys"], [("Audio/Video",)]),
    "a slash below arrows": (["Media > Audio/Video"], [("Media", "Audio/Video")]),
    "Chinese": (["服装 > 裙子"], [("服装", "裙子")]),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_of_categories(name: str) -> None:
    cells, paths = CELLS[name]
    assert CategoryStyle.find("shop.csv", cells).read(cells[0]) == paths


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["Sale|Skirts", "Skirts|Sale"], ("separator=|", "paths_separator=|")),
        (['["Sale", "Skirts"]', '["Skirts", "Sale"]'], ("separator=list", "paths_separator=list")),
        (["Clothes, Skirts", "Clothes, Shirts"], ("separator=,", "paths_separator=,", "separator=none")),
    ],
)
def test_cells_that_can_be_read_in_two_ways_are_asked_for(cells: list[str], options: tuple[str, ...]) -> None:
    with pytest.raises(CollectionError) as error:
        CategoryStyle.find("shop.csv, column 'tags'", cells)
    assert "shop.csv, column 'tags'" in error.value.message
    assert all(option in (error.value.hint or "") for option in options)


def test_options_settle_how_categories_are_read() -> None:
    several = CategoryStyle.find("shop.csv", ["Sale|Skirts", "Skirts|Sale"], paths_separator="|", separator="none")
    assert several.read("Sale|Skirts") == [("Sale",), ("Skirts",)]
    path = CategoryStyle.find("shop.csv", ["Sale|Skirts", "Skirts|Sale"], separator="|")
    assert path.read("Sale|Skirts") == [("Sale", "Skirts")]
    each = CategoryStyle.find("shop.csv", [["Sale", "Skirts"]], paths_separator="list")
    assert each.read(["Sale", "Skirts"]) == [("Sale",), ("Skirts",)]
    commas = CategoryStyle.find("shop.csv", ["Clothes, Skirts", "Clothes, Shirts"], separator=",")
    assert commas.read("Clothes, Skirts") == [("Clothes", "Skirts")]


# ---- prices ----


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["€ 1.299,00", "12,50 €"], [(1299.0,), (12.5,)]),
        (["$1,299.00", "$5"], [(1299.0,), (5.0,)]),
        (["CHF 1'299.00", "CHF 5.-"], [(1299.0,), (5.0,)]),
        (["1 299,00 kr", "9,95"], [(1299.0,), (9.95,)]),
        (["kr 1 299", "kr. 99,50", "1 299:-", "฿12", "12 THB"], [(1299.0,), (99.5,), (1299.0,), (12.0,), (12.0,)]),
        (["1 299 kronor", "9,95"], [(), (9.95,)]),
        (["1 299,00", "9,95"], [(1299.0,), (9.95,)]),
        (["Rs. 1,299", "Rs. 99.50"], [(1299.0,), (99.5,)]),
        (["1,299", "450"], [(1299.0,), (450.0,)]),
        (["$10.99 - $20.99"], [(10.99, 20.99)]),
        ([12, 9.5, None, ""], [(12.0,), (9.5,), (), ()]),
        (["0.999"], [(0.999,)]),
        (["USD 12", "12 eur"], [(12.0,), (12.0,)]),
    ],
)
def test_amounts(cells: list[object], values: list[tuple[float, ...]]) -> None:
    amounts = read_amounts(cells)
    assert amounts.values == values
    assert not amounts.faults


def test_currencies_stand_before_or_behind() -> None:
    assert read_amounts(["€ 5", "5 €", "$5", "5 GBP", "5"]).currencies == ["EUR", "EUR", "USD", "GBP", None]
    assert read_amounts(["12 kr", "฿5"]).currencies == [None, "THB"]  # of Sweden, Norway or Denmark
    assert amount_of("kr 1.299") is None and amount_of("kr 12,50") == 12.5


def test_amounts_that_can_be_read_in_two_ways() -> None:
    assert "decimal=comma or decimal=point" in read_amounts(["1.299", "2.500"]).faults[0][1]
    assert read_amounts(["1.299", "2.500"], decimal="comma").values == [(1299.0,), (2500.0,)]
    assert read_amounts(["1.299", "2.500"], decimal="point").values == [(1.299,), (2.5,)]
    [first, second] = read_amounts(["1,299.00", "5", "1.299,00"]).faults
    assert (first[0], second[0]) == (0, 2)
    said = read_amounts(["1.299,00", "5.50", "1,5"], decimal="point")  # the others count as no number
    assert (said.values, said.unread, said.faults) == ([(), (5.5,), ()], [0, 2], [])


def test_text_is_no_price() -> None:
    amounts = read_amounts(["on request", "$6.94 $ 6 . 94", "n/a", "", None])
    assert amounts.values == [(), (), (), (), ()]
    assert amounts.unread == [0, 1, 2]


def test_a_truth_value_of_json_is_no_price() -> None:
    amounts = read_amounts([True, False, 2, 9.5])
    assert (amounts.values, amounts.unread) == ([(), (), (2.0,), (9.5,)], [0, 1])


# ---- columns ----


@pytest.mark.parametrize(
    ("header", "category"),
    [
        ("sku,Name,Product Type", ("Product Type",)),
        ("id,title,product_category", ("product_category",)),
        ("id,title,cat1,cat2,cat3", ("cat1", "cat2", "cat3")),
        ("id,title,Category Level 1,Category Level 2", ("Category Level 1", "Category Level 2")),
        ("id,title,masterCategory,subCategory,articleType", ("masterCategory", "subCategory", "articleType")),
        ("id,title,Google Product Category", ("Google Product Category",)),
        ("id,title,price", ()),
    ],
)
def test_headers_of_categories(header: str, category: tuple[str, ...]) -> None:
    assert ShopColumns.find("shop.csv", header.split(",")).category == category


def test_a_named_column_that_is_not_there() -> None:
    with refused(CollectionError, "shop.csv", "no column", "titel", meant="title"):
        ShopColumns.find("shop.csv", ["id", "title"], title_column="titel")


def test_a_table_without_ids_names_the_option(tmp_path: Path) -> None:
    place = shop(tmp_path, "ref,title,price\n1,a,5\n")
    with refused(CollectionError, code="no-column-product-ids") as error:
        visir.open(f"products:{place}")
    assert "shop.csv?id_column=ref" in (error.value.hint or "")
    assert visir.open(f"products:{place}?id_column=ref").images.num_rows == 1


# ---- whole tables ----

SHOP = """id;title;Product Type;Price (€);brand;stock;ean;image
p1;Red dress;Clothes > Dresses;1.299,00;Acme;3;04006381333931;p1.png
p1;;;;;;;p1-back.png
p2;Blue dress;Clothes > Dresses | Sale;49,90;Acme;0;04006381333932;
p3;Wooden dog;;on request;;7;04006381333933;dog.png
p2;Green dress;Clothes > Dresses;49,90;Acme;0;04006381333932;p2.png
"""


def test_a_table_of_products(tmp_path: Path) -> None:
    for name in ("p1", "p1-back", "dog"):
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{name}.png")
    collection = visir.open(shop(tmp_path, SHOP))
    assert collection.images["id"].to_pylist() == ["p1", "p1#2", "p2", "p3"]
    assert collection.images["path"].to_pylist() == ["p1.png", "p1-back.png", None, "dog.png"]
    assert dict(zip(*(collection.captions[name].to_pylist() for name in ("image_id", "text")), strict=True)) == {
        "p1": "Red dress", "p2": "Blue dress", "p3": "Wooden dog"
    }  # fmt: skip
    assert fact(collection, "product") == {"p1": "p1", "p1#2": "p1", "p2": "p2", "p3": "p3"}
    assert fact(collection, "price") == {"p1": 1299.0, "p2": 49.9}
    assert fact(collection, "currency") == {"p1": "EUR", "p2": "EUR"}
    assert fact(collection, "category") == {"p1": ["Clothes/Dresses"], "p2": ["Clothes/Dresses", "Sale"]}
    assert fact(collection, "stock") == {"p1": 3, "p2": 0, "p3": 7}
    assert fact(collection, "ean")["p1"] == "04006381333931"
    report = notes(collection)
    assert "products: 3 read" in report
    assert "without a picture: 1 (p2)" in report
    assert "without a category: 1 (p3)" in report
    assert "rows joined to an earlier one with the same id: 1 ('p1': line 3 to line 2)" in report
    assert "'p2' in line 4 and line 6: title 'Blue dress' and 'Green dress'" in report
    assert "cells of Price (€) that are no price (the product is kept): 1 (line 5: 'on request')" in report


def test_every_form_gives_the_same_products(tmp_path: Path) -> None:
    rows = [{"id": "a", "title": "A", "price": 5.0, "category": ["X", "Y"], "brand": "B"},
            {"id": "b", "title": "B", "price": 7.5, "category": None, "brand": "C"}]  # fmt: skip
    lines = "\n".join(map(json.dumps, rows))
    tabs = "id\ttitle\tprice\tcategory\tbrand\na\tA\t5\tX > Y\tB\nb\tB\t7.5\t\tC\n"
    first, second = (visir.open(shop(tmp_path, text, name)) for text, name in ((lines, "a.jsonl"), (tabs, "b.tsv")))
    for name in ("price", "category", "brand", "product"):
        assert fact(first, name) == fact(second, name)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,title,price\n1,a,5\n2,b\n", "", "shop.csv, line 3: 2 values for 3 columns"),
        ("id,title,price\n1,a,5\n,b,6\n", "", "line 3, column 'id': no id"),
        ("id,title,price\n1,a,1.299\n2,b,2.500\n", "", "line 2, column 'price': '1.299' is 1299 or 1.299"),
        ("id,title,price\n1,a,5\n", "?separatr=x", "unknown option 'separatr'"),
        ("id,title,price\n", "", "no products below its header line"),
        ("id,title,title\n1,a,b\n", "", "line 1: a column is named twice"),
        ("", "", "no column of product ids|empty"),
    ],
)
def test_bad_input_names_file_line_and_column(tmp_path: Path, text: str, options: str, message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        visir.open(f"products:{shop(tmp_path, text)}{options}")


def test_bytes_of_another_encoding_name_the_line_and_the_option(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_bytes("id,title,price\n1,Röcke,5\n".encode("latin-1"))
    with refused(CollectionError, "2", code="table-not-utf-8") as error:
        visir.open(f"products:{tmp_path / 'shop.csv'}")
    assert "encoding=latin-1" in (error.value.hint or "")
    opened = visir.open(f"products:{tmp_path / 'shop.csv'}?encoding=latin-1")
    assert opened.captions["text"].to_pylist() == ["Röcke"]


def test_bad_rows_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    place = shop(tmp_path, "id,title,price\n1,a,5\n2,b\n,c,6\n")
    collection = visir.open(f"products:{place}?bad_rows=skip")
    assert collection.images["id"].to_pylist() == ["1"]
    assert "rows with too few or too many values (left out): 1 (line 3" in notes(collection)
    assert "rows without a product id (left out): 1 (line 4)" in notes(collection)


def test_captions_are_no_products(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    collection = visir.open(shop(tmp_path, "id,name,image,caption,price\n1,t,a.png,a red square,5\n"))
    assert "table of products" not in collection.source


REAL = {
    "products_amazon_1000/amazon_sample_1000.csv.xz": (1000, 914, 990),
    "products_flipkart_1050/flipkart_com-ecommerce_sample_1050.csv.xz": (1050, 1050, 1049),
    "products_flipkart_1050/products.jsonl.xz": (1050, 1050, 1049),
    "products_fashion_1601/products.jsonl.xz": (1601, 1601, 0),
    "products_fashion_1601/styles_4998_with_titles.csv.xz": (4998, 4998, 0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_catalogues(name: str) -> None:
    path = (data_directory() or Path("missing")) / name
    if not path.exists():
        pytest.skip("needs the data set")
    collection = visir.open(f"products:{path}")
    products, with_category, with_price = REAL[name]
    assert len(set(fact(collection, "product").values())) == products
    assert len(fact(collection, "category")) == with_category
    assert collection.facts is not None
    assert "price" in collection.facts.column_names or not with_price
    assert not with_price or len(fact(collection, "price")) == with_price


def test_options_of_a_plain_table_read_a_plain_table(tmp_path: Path) -> None:
    """Whoever names the column of captions wants images and captions, whatever else the table has."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    place = shop(tmp_path, "id,title,description,price,picture\na,Skirt,A blue skirt,12.50,a.png\n")
    assert visir.open(place).captions["text"].to_pylist() == ["Skirt"]  # products
    read = visir.open(place, caption="title,description", image="picture", id="id")
    assert read.captions["text"].to_pylist() == ["Skirt", "A blue skirt"]
    with refused(CollectionError, "products", "unknown option", "no_such_option"):
        visir.open(place, no_such_option="x")


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        ("Home &amp; Garden; Caf&#233;s &#x263A;", "Home & Garden; Cafés ☺"),
        ("AT&T, R&D; &notanentity; &copy 2020 & more;", "AT&T, R&D; &notanentity; &copy 2020 & more;"),
        ("&amp;lt;", "&lt;"),
        ('["5&quot; pan", "A &amp; B"]', '["5\\" pan","A & B"]'),
        (["A &amp; B", {"n": "&euro;"}, 3, None], ["A & B", {"n": "€"}, 3, None]),
        ("[sic] A &amp; B", "[sic] A & B"),
    ],
)
def test_entities_of_cells(cell: object, plain: object) -> None:
    assert without_entities(cell) == plain


def test_entities_separate_no_categories(tmp_path: Path) -> None:
    table = tmp_path / "shop.csv"
    cells = ["Home &amp; Garden > Tables; Sale", "Home &amp; Garden > Mugs", "Sale"]
    table.write_text(
        "\n".join(["id,title,category,price,image", *(f"{n},thing,{c},{n},a&amp;{n}.jpg" for n, c in enumerate(cells))])
    )
    draft = read(table)
    facts = draft.build().facts
    assert facts is not None and facts["category"].to_pylist() == [
        ["Home & Garden/Tables", "Sale"],
        ["Home & Garden/Mugs"],
        ["Sale"],
    ]
    assert draft.names == ["a&0.jpg", "a&1.jpg", "a&2.jpg"]
    assert {row["name"] for row in open_catalogue(table, format="products").categories.to_pylist()} == {
        "Home & Garden", "Tables", "Mugs", "Sale"
    }  # fmt: skip


WOO = """ID,SKU,Name,Sale price,Regular price,Categories
101,TS-1,Red T-Shirt,,19.90,Clothing > Tshirts
102,TS-2,Blue T-Shirt,12.00,24.90,"Clothing > Tshirts, Sale"
103,HD-1,Green Hoodie,,45,"Clothing > Hoodies, Clothing > Winter"
104,PF-1,Rose Perfume,,,"Body Care > Perfume\\, Cologne > Unisex"
"""


def test_of_several_prices_the_one_that_is_paid(tmp_path: Path) -> None:
    collection = visir.open(f"products:{shop(tmp_path, WOO)}", images="none")
    assert fact(collection, "price") == {"101": 19.9, "102": 12.0, "103": 45.0}
    assert fact(collection, "Regular price") == {"101": 19.9, "102": 24.9, "103": 45.0}
    assert fact(collection, "category")["103"] == ["Clothing/Hoodies", "Clothing/Winter"]
    assert fact(collection, "category")["104"] == ["Body Care/Perfume, Cologne/Unisex"]
    report = notes(collection)
    assert "price: column 'Sale price', else 'Regular price' (price_column= names one)" in report
    assert "without a price: 1 (104)" in report
    only = visir.open(f"products:{tmp_path / 'shop.csv'}?price_column=Regular price", images="none")
    assert fact(only, "price") == {"101": 19.9, "102": 24.9, "103": 45.0}


def test_prices_of_two_currencies_are_not_one_field(tmp_path: Path) -> None:
    table = "id,title,price EUR,price USD\n1,a cup,10,12\n2,a pan,,900\n"
    collection = visir.open(f"products:{shop(tmp_path, table)}", images="none")
    assert fact(collection, "price") == {"1": 10.0, "2": None} or fact(collection, "price") == {"1": 10.0}
    assert "price: column 'price EUR', not 'price USD'" in notes(collection)
    table = "id,title,sale price,price EUR\n1,a cup,8,10\n2,a pan,,12\n"
    collection = visir.open(f"products:{shop(tmp_path, table)}", images="none")
    assert fact(collection, "price") == {"1": 8.0, "2": 12.0}, "a column that names no currency goes with one that does"


def test_a_sale_price_goes_before_the_price(tmp_path: Path) -> None:
    text = "id\ttitle\tprice\tsale price\nA1\tRed shirt\t20.00 USD\t12.00 USD\nA2\tBlue shirt\t15.00 USD\t\n"
    (tmp_path / "google.tsv").write_text(text)
    collection = visir.open(f"products:{tmp_path / 'google.tsv'}", images="none")
    assert fact(collection, "price") == {"A1": 12.0, "A2": 15.0}
    assert fact(collection, "regular price") == {"A1": 20.0, "A2": 15.0}
    assert fact(collection, "currency") == {"A1": "USD", "A2": "USD"}


def test_rows_of_variants_keep_their_pictures(tmp_path: Path) -> None:
    text = """Handle,Title,Product Category,Option1 Value,Variant Price,Image Src,Image Position
tee,Red Tee,Apparel > Shirts,S,19.00,https://cdn.example/red.jpg?v=1,1
tee,,,M,21.00,https://cdn.example/red2.jpg?v=1,2
tee,,,,,https://cdn.example/red3.jpg?v=1,3
mug,Mug,Home > Kitchen,Default Title,9.50,,
"""
    collection = visir.open(f"products:{shop(tmp_path, text)}", images="none")
    assert collection.images["id"].to_pylist() == ["tee", "tee#2", "tee#3", "mug"]
    assert fact(collection, "pictures") == {"tee": ["red.jpg", "red2.jpg", "red3.jpg"]}
    assert fact(collection, "price") == {"tee": 19.0, "mug": 9.5}
    assert "(of variants: other values are those of the first): 2 ('tee': line 3 to line 2," in notes(collection)
