"""Readers of catalogues: small files in each layout, bad rows set aside and counted, and the real catalogues."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.collections.images import ImageReader
from visir.errors import CollectionError, VisirError
from visir.files import data_directory
from visir.products import CategoryTree, open_catalogue
from visir.records import Catalogue


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def attributes(catalogue: Catalogue, product: str) -> list[tuple[str, str]]:
    rows = catalogue.attributes.to_pylist()
    return [(row["name"], row["value"]) for row in rows if row["product_id"] == product]


def asides(catalogue: Catalogue) -> dict[str, int]:
    """{what: count} of the notes "set aside: 1,234 what (places)"."""
    told = [note.removeprefix("set aside: ").partition(" (") for note in catalogue.notes]
    return {text.split(" ", 1)[1]: int(text.split(" ", 1)[0].replace(",", "")) for text, _, _ in told}


def test_table_with_declared_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path / "shop.csv",
        "sku,label,tree,photo,specs,Colour,Size\n"
        "a,Red skirt,Clothes | Skirts,https://shop.test/x/a.jpg?w=9|https://shop.test/b.jpg,"
        '"{""Fit"": ""slim""}",red,\n'
        'b,,Clothes,b.jpg,"[{""name"": ""Fit"", ""value"": [""wide"", 7]}]",,XL\n',
    )
    (tmp_path / "a.jpg").touch()
    catalogue = open_catalogue(
        path,
        format="products",
        title_column="label",
        category_column="tree",
        separator="|",
        image_column="photo",
        attributes_column="specs",
        attribute_columns="Colour, Size",
    )
    assert catalogue.products.to_pylist() == [
        {"id": "a", "title": "Red skirt", "path": "a.jpg", "archive": None, "category_id": "Clothes > Skirts"},
        {"id": "b", "title": None, "path": None, "archive": None, "category_id": "Clothes"},
    ]
    assert attributes(catalogue, "a") == [("Fit", "slim"), ("Colour", "red")]
    assert attributes(catalogue, "b") == [("Fit", "wide"), ("Fit", "7"), ("Size", "XL")]
    assert catalogue.notes == ()
    assert catalogue.source == "table shop.csv; images: 1 of 3 found in " + f"{tmp_path.name}/"


def test_a_level_in_every_column(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.csv", "id,top,mid,low\n1,A,B,C\n2,A,B,\n3,A,,C\n4,,,\n")
    catalogue = open_catalogue(f"products:{path}", category_column="top,mid,low")
    assert catalogue.products["category_id"].to_pylist() == ["A > B > C", "A > B"]
    assert asides(catalogue) == {"products with an unreadable category path": 1, "products without a category": 1}


def test_parquet_is_the_same_catalogue_as_json_lines(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "1", "title": "x", "category_path": ["A", "B"], "attributes": [{"key": "k", "value": "v"}]},
        {"id": "2", "title": None, "category_path": ["A"], "attributes": []},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "shop.parquet")
    write(tmp_path / "shop.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    one, other = open_catalogue(tmp_path / "shop.parquet"), open_catalogue(tmp_path / "shop.jsonl")
    assert one.fingerprint == other.fingerprint
    assert attributes(one, "1") == [("k", "v")]


def test_bad_rows_are_set_aside_and_counted(tmp_path: Path) -> None:
    huge = "v" * 10_000_000
    lines = [
        '{"id": 1, "category_path": ["A"], "title": " x ", "attributes": {"b": true, "n": 1.5, "e": "", " ": "v"}}',
        '{"id": "1", "category_path": ["A"]}',
        '{"id": null, "category_path": ["A"]}',
        '{"id": "3", "category_path": []}',
        '{"id": "4", "category_path": ["A", 5]}',
        '{"id": "5", "category_path": ["A", ""]}',
        '{"id": "6", "category_path": "A > B", "attributes": "{not json"}',
        '{"id": "7", "category_path": [["A", "C"], ["D"]], "attributes": {"x": {"y": 1}, "l": ["p", "p", null]}}',
        "{broken",
        "[1]",
        "",
        '{"id": "8", "category_path": "[\\"A\\", \\"C\\"]", "attributes": [["k", "v"], 9]}',
        '{"id": "9", "category_path": ["A"], "title": "\\ud800"}',
        '{"id": "10", "category_path": ["A"], "attributes": {"long": "' + huge + '"}}',
    ]
    catalogue = open_catalogue(write(tmp_path / "shop.jsonl", "\n".join(lines)))
    assert catalogue.products["id"].to_pylist() == ["1", "6", "7", "8", "10"]
    assert catalogue.products["category_id"].to_pylist() == ["A", "A > B", "A > C", "A > C", "A"]
    assert catalogue.products["title"][0].as_py() == "x"
    assert attributes(catalogue, "1") == [("b", "true"), ("n", "1.5")]
    assert attributes(catalogue, "7") == [("l", "p")]
    assert attributes(catalogue, "8") == [("k", "v")]
    assert attributes(catalogue, "10") == [("long", huge)]
    assert asides(catalogue) == {
        "lines that are not valid JSON": 2,
        "lines that are no JSON object": 1,
        "rows joined to an earlier one with the same id": 1,
        "rows without a product id": 1,
        "products without a category": 1,
        "products with an unreadable category path": 2,
        "attributes without a value": 2,
        "attributes without a name": 1,
        "attributes that are not text": 1,
        "repetitions of an attribute of the same product": 1,
        "lists of attributes that are not valid JSON": 1,
        "further category paths of a product that has several": 1,
        "attributes that are no pair of name and value": 1,
    }
    assert "set aside: 1 rows joined to an earlier one with the same id ('1': line 2 to line 1)" in catalogue.notes
    assert any("'10' (10,000,000)" in line for line in catalogue.remarks())


def test_structures_where_text_is_expected_and_endless_paths(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": ["1"], "category_path": ["A"]},
        {"id": "2", "category_path": ["A"], "title": {"en": "x"}, "image": {"bytes": "", "path": None}},
        {"id": "3", "category_path": ">".join("a" * 1_000_000)},
        {"id": "4", "category_path": ["A"] * 64},
        {"id": "5", "category_path": {"A": "B"}},
    ]
    catalogue = open_catalogue(write(tmp_path / "shop.jsonl", "\n".join(map(json.dumps, rows))))
    assert catalogue.products["id"].to_pylist() == ["2", "4"]
    assert catalogue.products["title"].to_pylist() == [None, None]
    assert asides(catalogue) == {
        "rows without a product id": 1,
        "titles that are not text": 1,
        "pictures that are no file name": 1,
        "products with a category path of more than 64 levels": 1,
        "products with an unreadable category path": 1,
    }
    assert all(len(note) < 200 for note in catalogue.notes)


def test_bad_csv_rows_are_set_aside_with_their_lines(tmp_path: Path) -> None:
    text = 'id,category,title\n1,A,x\n2,A\n3,A,"y"z\n4,A,w\n\n5,A,"never closed\n6,A,v\n'
    catalogue = open_catalogue(write(tmp_path / "shop.csv", text))
    assert catalogue.products["id"].to_pylist() == ["1", "4"]
    assert asides(catalogue) == {"rows with too few or too many values": 1, "rows that are not readable as CSV": 2}
    assert "line 3: 2 values for 3 columns" in catalogue.notes[0]
    assert "line 4: " in catalogue.notes[1]
    assert "lines 7 to 8: unexpected end of data" in catalogue.notes[1]


def test_flipkart(tmp_path: Path) -> None:
    def row(one: str, title: str, tree: str, specification: str) -> str:
        cells = [one, title, tree, f"{one}.jpg", specification]
        return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"

    entries = '{"key"=>"Note", "value"=>"a \\"=>nil b"}, {"value"=>"x"}, {"key"=>"K", "value"=>nil}'
    many = '{"product_specification"=>[' + entries + "]}"
    path = write(
        tmp_path / "flipkart.csv",
        "uniq_id,product_name,product_category_tree,image,product_specifications\n"
        + row("a", "Big Blue Bath Towel", '["Home >> Towels >> Big Blue Ba..."]', many)
        + row("b", "Towel", '["Home >> Towels"]', '{"product_specification"=>{"key"=>"K", "value"=>"v"}}')
        + row("c", "Cup", '["Cup (Set of 2)"]', '{"product_specification"=>nil}')
        + row("d", "Mug", '["Home >> Mugs", "Toys >> Mugs"]', "")
        + row("e", "Jug", "Home", "")
        + row("f", "Jar", "[]", ""),
    )
    catalogue = open_catalogue(path)
    assert catalogue.products["category_id"].to_pylist() == ["Home > Towels", "Home > Towels", "Home > Mugs", "Home"]
    assert attributes(catalogue, "a") == [("Note", 'a "=>nil b')]
    assert attributes(catalogue, "b") == [("K", "v")]
    assert asides(catalogue) == {
        "last levels of paths that are the product's own name": 1,
        "products whose only category is their own name": 1,
        "further category paths of a product that has several": 1,
        "products without a category": 1,
        "attributes without a name": 1,
        "attributes without a value": 1,
    }
    kept = open_catalogue(path, product_names="keep")
    assert kept.products["category_id"].to_pylist()[:3] == [
        "Home > Towels > Big Blue Ba...",
        "Home > Towels",
        "Cup (Set of 2)",
    ]
    with refused(CollectionError, "product_names=", "no", "path's last level", hint=False):
        open_catalogue(path, product_names="no")


def test_xmarket(tmp_path: Path) -> None:
    """The fields that the makers' page shows for a product."""
    row: dict[str, Any] = {
        "asin": "B1",
        "title": "Antenna",
        "averageRating": "4.3",
        "imgUrl": '{"https://m.test/I/71x._AC_SX569_.jpg":[369,569],"https://m.test/I/71x._AC_SX355_.jpg":[230,355]}',
        "productDetails": {
            "Item Weight": "1.41 ounces",
            "ASIN": "B1",
            "Customer Reviews": ["/*", "* a comment of the page's style sheet"],
            "Best Sellers Rank": "#13 in Radio Antennas",
        },
        "categories": ["Electronics", "Antennas", "Radio Antennas"],
        "overviewFeatures": {"Brand": "Acme"},
        "features": ["long", "light"],
    }
    others = [row | {"asin": "B2", "imgUrl": []}, row | {"asin": "B3", "imgUrl": "{broken", "overviewFeatures": {}}]
    path = tmp_path / "metadata_us_Electronics.json.gz"
    path.write_bytes(gzip.compress(f"{json.dumps(row)}\n{json.dumps(others)}\n".encode()))
    for name in ("B1.jpg", "71x._AC_SX569_.jpg"):
        (tmp_path / name).touch()
    catalogue = open_catalogue(tmp_path)
    assert catalogue.products["id"].to_pylist() == ["B1", "B2", "B3"]
    assert catalogue.products["path"].to_pylist() == ["B1.jpg", None, None]
    assert set(catalogue.products["category_id"].to_pylist()) == {"Electronics > Antennas > Radio Antennas"}
    bullets = [("feature", "long"), ("feature", "light")]
    assert attributes(catalogue, "B1") == [("Item Weight", "1.41 ounces"), ("Brand", "Acme"), *bullets]
    assert asides(catalogue) == {"attributes of the page, not of the product": 9}
    assert "line 2, object 2: 'B3': 'ASIN'" not in catalogue.notes[0]  # the first three places only
    assert open_catalogue(path, pictures="url").products["path"].to_pylist() == ["71x._AC_SX569_.jpg", None, None]
    kept = attributes(open_catalogue(path, page_facts="keep"), "B1")
    assert ("Best Sellers Rank", "#13 in Radio Antennas") in kept
    assert len(kept) == 4 + 4  # with the id, the rank and both lines of "Customer Reviews"


def test_amazon_metadata_of_2014_is_python(tmp_path: Path) -> None:
    lines = [
        "{'asin': 'A1', 'title': \"It's a rug\", 'categories': [['Home', 'Rugs'], ['Sale']], 'brand': 'Rugly', "
        "'imUrl': 'http://m.test/r.png', 'price': 3.5, 'related': {'also_bought': ['A2']}}",
        "{'asin': 'A2', 'categories': [['Home']], 'price': __import__('os').getpid()}",
        "{'asin': 'A3', 'categories': [['Home']], 'title': '\\ud800'}",
        "{'asin': 'A4', 'categories': " + "[" * 100_000,
        "{'asin': 'A5', 'categories': [['Home']]",
        '{"asin": "A6", \'categories\': [["Home"]]}',
    ]
    path = write(tmp_path / "meta_Home.json", "\n".join(lines))
    (tmp_path / "r.png").touch()
    catalogue = open_catalogue(path, pictures="url")
    assert catalogue.products["id"].to_pylist() == ["A1", "A6"]
    assert catalogue.products.to_pylist()[0] == {
        "id": "A1",
        "title": "It's a rug",
        "path": "r.png",
        "archive": None,
        "category_id": "Home > Rugs",
    }
    assert attributes(catalogue, "A1") == [("brand", "Rugly")]
    assert asides(catalogue) == {
        "lines that are not valid JSON": 4,
        "further category paths of a product that has several": 1,
    }
    assert "line 2: neither JSON nor a Python dictionary" in catalogue.notes[0]


def test_amazon_metadata_of_2018_and_2023(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "asin": "B1",
            "category": ["Clothing", "Women", "</span></span></span>", "100% cotton"],
            "tech1": "<table>",
            "details": {"\n    Item Weight: \n": "1 pound", "Average Customer Review:": "4"},
            "feature": ["washable"],
            "imageURLHighRes": ["https://m.test/hi.jpg"],
            "imageURL": ["https://m.test/lo.jpg"],
        },
        {"asin": "B2", "category": "Home > Beds"},
        {"asin": "B3", "category": [], "main_cat": "Home"},
        {
            "parent_asin": "B4",
            "categories": ["Home"],
            "store": "Acme",
            "details": {"Size": "L", "Best Sellers Rank": {"Home": 3}, "Package": {"Width": 1}},
            "images": [{"thumb": "https://m.test/t.jpg", "large": "https://m.test/l.jpg", "hi_res": None}],
        },
        {"parent_asin": "B5", "categories": ["Home"], "details": '{"Size": "M"}', "images": {"large": ["x://m/5.jpg"]}},
    ]
    path = write(tmp_path / "meta.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    for name in ("hi.jpg", "l.jpg", "5.jpg"):
        (tmp_path / name).touch()
    catalogue = open_catalogue(path, pictures="url")
    assert catalogue.products["id"].to_pylist() == ["B1", "B4", "B5"]
    assert catalogue.products["category_id"].to_pylist() == ["Clothing > Women", "Home", "Home"]
    assert catalogue.products["path"].to_pylist() == ["hi.jpg", "l.jpg", "5.jpg"]
    assert attributes(catalogue, "B1") == [("Item Weight:", "1 pound"), ("feature", "washable")]
    assert attributes(catalogue, "B4") == [("Size", "L"), ("store", "Acme")]
    assert attributes(catalogue, "B5") == [("Size", "M")]
    assert asides(catalogue) == {
        "levels of paths that are markup, or follow it": 2,
        "attributes of the page, not of the product": 2,
        "fields 'tech1' that are no object": 1,
        "attributes that are not text": 1,
        "products with an unreadable category path": 1,
        "products without a category": 1,
    }


def test_fashion(tmp_path: Path) -> None:
    path = write(
        tmp_path / "styles.csv",
        "id,gender,masterCategory,subCategory,articleType,baseColour,season,year,usage,productDisplayName\n"
        "7,Men,Apparel,Topwear,Shirts,Blue,,2011,NA,Blue Shirt\n"
        "8,Men,Apparel,Topwear,Shirts,Blue,Fall,2011,Casual,Blue Shirt, with a comma\n",
    )
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "7.jpg").touch()
    catalogue = open_catalogue(path)
    assert catalogue.products.to_pylist() == [
        {
            "id": "7",
            "title": "Blue Shirt",
            "path": "images/7.jpg",
            "archive": None,
            "category_id": "Apparel > Topwear > Shirts",
        }
    ]
    assert attributes(catalogue, "7") == [("gender", "Men"), ("baseColour", "Blue"), ("year", "2011"), ("usage", "NA")]
    assert asides(catalogue) == {"rows with too few or too many values": 1}


def test_the_door_says_what_is_wrong(tmp_path: Path) -> None:
    shop = write(tmp_path / "a.csv", "id,category\n1,\n")
    with refused(CollectionError, "1 products without a category", "line 2", "1", code="no-products"):
        open_catalogue(shop)
    write(tmp_path / "b.csv", "id,category\n1,A\n")
    with refused(CollectionError, "catalogues", code="several-folder"):
        open_catalogue(tmp_path)
    assert open_catalogue(tmp_path / "b.csv").products.num_rows == 1
    with refused(CollectionError, "catalogues", code="no-known-format"):
        open_catalogue(write(tmp_path / "c.txt", "id"))
    with refused(CollectionError, code="no-such-file-folder"):
        open_catalogue(tmp_path / "nothing.csv")
    with refused(CollectionError, "categories", code="collection-no-column-3"):
        open_catalogue(write(tmp_path / "d.csv", "id,kind\n1,A\n"), format="products")
    with refused(CollectionError, code="not-csv-file-layout"):
        open_catalogue(write(tmp_path / "f.jsonl", "{}"), format="flipkart")
    with refused(CollectionError, "unknown option", "seperator"):
        open_catalogue(shop, seperator="|")
    with refused(VisirError, "catalogue", "format", "flipcart", code="unknown-name"):
        open_catalogue(shop, format="flipcart")
    with refused(CollectionError, "products", code="a-folder"):
        open_catalogue(tmp_path, format="products")
    with refused(CollectionError, code="no-products"):
        open_catalogue(write(tmp_path / "e.csv", ""), format="products")


def test_options_and_pictures_may_stand_in_the_text(tmp_path: Path) -> None:
    shop = write(tmp_path / "a.csv", "id,category,image\n1,A/B,x.jpg\n")
    (pictures := tmp_path / "pictures").mkdir()
    write(pictures / "x.jpg", "")
    catalogue = open_catalogue(f"products:{shop}?separator=%2F&images={pictures}")
    assert catalogue.products["category_id"].to_pylist() == ["A > B"]
    assert catalogue.products["path"].to_pylist() == ["pictures/x.jpg"]
    assert open_catalogue(f"{shop}?images=none", separator="/").products["path"].to_pylist() == [None]
    with pytest.raises(CollectionError, match="'separator' is given twice"):
        open_catalogue(f"{shop}?separator=a&separator=b")
    with refused(VisirError, "catalogue", "format", "product", code="unknown-name", meant="products"):
        open_catalogue(f"product:{shop}")
    with refused(CollectionError, "unknown option", "seperator", "unknown option", "title", hint=False):
        open_catalogue(f"{shop}?seperator=a&title=b")
    assert open_catalogue(catalogue) is catalogue


def test_a_catalogue_elsewhere_is_copied_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    files = fsspec.filesystem("memory")
    files.pipe_file("/shop/a.csv", b"id,category\n1,A>B\n")
    try:
        assert open_catalogue("memory://shop/a.csv").products["id"].to_pylist() == ["1"]
        assert open_catalogue("memory://shop?images=none").products.num_rows == 1
    finally:
        files.rm("/shop", recursive=True)


def real(folder: str) -> Path:
    path = data_directory() / folder
    if not path.is_dir():
        pytest.skip(f"no {folder} in {data_directory()} (set VISIR_DATA)")
    return path


def test_the_real_flipkart_sample() -> None:
    folder = real("products_flipkart_1050")
    catalogue = open_catalogue(folder / "flipkart_com-ecommerce_sample_1050.csv.xz")
    described = catalogue.describe()
    assert [described[key] for key in ("products", "with picture", "trees")] == [1050, 1047, 7]
    # the file's 12,786 entries: 12,281 with a key, of which 5 are repetitions, and 505 without
    assert described["attributes"] == 12_281 - 5
    assert asides(catalogue) == {
        "last levels of paths that are the product's own name": 308,
        "attributes without a name": 505,
        "repetitions of an attribute of the same product": 5,
    }
    # The same products as somebody else parsed them.
    kept = open_catalogue(folder / "flipkart_com-ecommerce_sample_1050.csv.xz", product_names="keep")
    other = open_catalogue(folder / "products.jsonl.xz")
    for column in ("id", "title", "category_id"):
        assert kept.products[column].to_pylist() == other.products[column].to_pylist()
    # Its dictionaries keep one value per name, and the backslash of escaped inches (4\\").
    ours, theirs = kept.attributes.to_pylist(), other.attributes.to_pylist()
    assert {str(row).replace('\\\\"', '"') for row in theirs} <= set(map(str, ours))
    tree = CategoryTree.of(kept)
    depths = tree.depths[tree.rows(kept.products["category_id"])]
    assert (depths.min(), depths.max()) == (2, 7)
    pictures = catalogue.pictures()
    assert max(ImageReader(pictures).open(0).size) == 256


def test_the_real_fashion_set() -> None:
    catalogue = open_catalogue(real("products_fashion_1601") / "products.jsonl.xz")
    described = catalogue.describe()
    assert [described[key] for key in ("products", "with picture", "attributes")] == [1601, 1601, 1601 * 5]
    tree = CategoryTree.of(catalogue)
    leaves = np.flatnonzero(tree.leaves)
    assert np.unique(tree.rows(catalogue.products["category_id"])).tolist() == leaves.tolist()
    # 64 types of article; two of them occur in two places of the tree
    assert (len(leaves), len({tree.names[row] for row in leaves})) == (66, 64)
    assert catalogue.notes == ()
    # three levels and five attributes by id in the list of everything, which was published apart
    full = open_catalogue(real("products_fashion_1601") / "styles_full_44446_no_titles.csv.xz")
    assert full.products.num_rows == 44_446
    leaf = dict(zip(full.products["id"].to_pylist(), full.products["category_id"].to_pylist(), strict=True))
    rows = zip(catalogue.products["id"].to_pylist(), catalogue.products["category_id"].to_pylist(), strict=True)
    assert all(leaf[one] == category for one, category in rows)


def test_the_real_amazon_sample_by_declared_columns() -> None:
    catalogue = open_catalogue(
        real("products_amazon_1000") / "amazon_sample_1000.csv.xz",
        format="products",
        id_column="Uniq Id",
        title_column="Product Name",
        category_column="Category",
        separator="|",
    )
    assert catalogue.products.num_rows == 914
    assert asides(catalogue) == {"products without a category": 86, "cells of Selling Price that are no price": 10}
    tree = CategoryTree.of(catalogue)
    assert tree.depths.max() == 7


@pytest.mark.parametrize(
    ("cells", "first", "further"),
    [
        (["Clothes > Skirts", "Toys"], ["Clothes", "Clothes > Skirts"], 0),
        (["Clothes/Skirts", "Clothes/Shirts"], ["Clothes", "Clothes > Skirts"], 0),
        (["Clothes | Skirts", "Toys | Dogs"], ["Clothes", "Clothes > Skirts"], 0),
        (["Clothes > Skirts | Sale > Summer", "Toys > Dogs"], ["Clothes", "Clothes > Skirts"], 1),
        (["Clothes > Skirts | Sale > Summer | New > Week", "Toys > Dogs"], ["Clothes", "Clothes > Skirts"], 2),
        (["Clothes > Skirts; Sale", "Toys > Dogs"], ["Clothes", "Clothes > Skirts"], 1),
        (['["Clothes >> Skirts"]', '["Toys >> Dogs"]'], ["Clothes", "Clothes > Skirts"], 0),
    ],
)
def test_a_separator_is_found(tmp_path: Path, cells: list[str], first: list[str], further: int) -> None:
    rows = "\n".join(
        json.dumps({"id": str(number), "title": "a", "category": cell}) for number, cell in enumerate(cells)
    )
    catalogue = open_catalogue(f"products:{write(tmp_path / 'shop.jsonl', rows)}?images=none")
    assert catalogue.products["category_id"].to_pylist()[0] == first[-1]
    assert set(first) <= set(catalogue.categories["id"].to_pylist())
    assert asides(catalogue).get("further category paths of a product that has several", 0) == further


@pytest.mark.parametrize(("first", "later", "kept"), [
    ("Clothes,Skirts", ",Sale", ["1", "2"]),
    (",Skirts", "Clothes,Sale", ["2"]),
    (",", ",Sale", ["2"]),
    (",", "Clothes,Skirts", ["1", "2"]),
])  # fmt: skip
def test_a_level_without_a_name_counts_in_the_first_path(tmp_path: Path, first: str, later: str, kept: list) -> None:
    """Of a product in several rows the first path is its own; whether a level lacks in a further one is nothing."""
    table = f"id,title,cat1,cat2\n1,a,{first}\n1,,{later}\n2,b,Toys,Dogs\n"
    catalogue = open_catalogue(f"products:{write(tmp_path / 'shop.csv', table)}?images=none")
    assert catalogue.products["id"].to_pylist() == kept
    assert asides(catalogue).get("products with an unreadable category path", 0) == 2 - len(kept)


def test_a_separator_that_is_in_doubt_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.csv", "id,title,category\n1,a,Sale|Skirts\n2,b,Skirts|Sale\n")
    with refused(CollectionError, code="separates-levels-path-several"):
        open_catalogue(f"products:{path}?images=none")
    assert open_catalogue(f"products:{path}?images=none&separator=|").products.num_rows == 2
