"""Exports of shops through both doors, the collection of a library and the catalogue: one reading of every cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import visir
from refusals import refused
from visir.errors import CollectionError
from visir.files import data_directory
from visir.products import landing_page, open_catalogue

WOO = """ID,Type,SKU,Name,Published,Short description,In stock?,Sale price,Regular price,Categories,Tags,Images,Attribute 1 name
101,simple,TS-1,Red T-Shirt,1,A red &amp; soft one,1,,19.90,Clothing > Tshirts,"a, b","https://s.test/r.jpg, https://s.test/r2.jpg",Size
102,simple,TS-2,Blue T-Shirt,1,,1,12.00,24.90,"Clothing > Tshirts, Sale",,https://s.test/b.jpg?w=3,Size
103,simple,HD-1,Green Hoodie,1,,1,,45,"Clothing > Hoodies, Clothing > Winter",,,
104,simple,PF-1,Rose Perfume,1,,1,n/a,,"Body Care > Perfume\\, Cologne > Unisex",,,
"""  # noqa: E501
SHOPIFY = """Handle,Title,Body (HTML),Vendor,Product Category,Type,Option1 Name,Option1 Value,Variant SKU,Variant Price,Variant Compare At Price,Image Src,Image Position
tee,Red Tee,<p>Soft</p>,Acme,Apparel & Accessories > Clothing > Shirts,Shirts,Size,S,T-S,19.00,25.00,https://cdn.test/red.jpg?v=1,1
tee,,,,,,,M,T-M,21.00,,https://cdn.test/red2.jpg?v=1,2
tee,,,,,,,,,,,https://cdn.test/red3.jpg?v=1,3
mug,Mug,,Acme,Home & Garden > Kitchen,Mugs,Title,Default Title,M-1,9.50,,,
"""  # noqa: E501
GOOGLE = """id\ttitle\tdescription\tlink\timage_link\tadditional_image_link\tprice\tsale_price\tbrand\tproduct_type
A1\tRed 5" pan\ta pan\thttps://s.test/1\thttps://s.test/1.jpg\thttps://s.test/1b.jpg,https://s.test/1c.jpg\t20.00 USD\t12.00 USD\tAcme\tKitchen > Pans
A2\tBlue shirt\t\thttps://s.test/2\thttps://s.test/2.jpg\t\t1,150.00 USD\t\tNULL\tVehicles & Parts > Maintenance, Care & Decor > Cleaning
A3\tWax\t\thttps://s.test/3\thttps://s.test/3.jpg\t\t5.00 USD\t\tAcme\tVehicles & Parts > Maintenance, Care & Decor > Waxes
"""  # noqa: E501
GOOGLE += "".join(
    f"B{n}\tPan {n}\t\thttps://s.test/b\t{n}.jpg\t\t{n}.00 USD\t\tAcme\tKitchen > Pans {n}\n" for n in range(9)
)
MAGENTO = """sku,store_view_code,product_type,categories,name,description,price,special_price,base_image,additional_images,additional_attributes
24-MB01,,simple,"Default Category/Gear,Default Category/Gear/Bags",Joust Duffle Bag,<p>Bag</p>,34.000000,,/m/b/mb01.jpg,"/m/b/mb01b.jpg,/m/b/mb01c.jpg",activity=Gym
24-WG01,,simple,Default Category/Gear/Fitness,Yoga Ball,,23.000000,19.000000,/w/g/wg01.jpg,,
24-WG02,,simple,,Foam Brick,,,,,,
"""  # noqa: E501
PRESTA = """ID;Active (0/1);Name *;Categories (x,y,z...);Price tax excluded;Price tax included;Reference;Image URLs (x,y,z...)
1;1;Mug with a fox;Home/Accessories;9,92;11,90;demo_1;https://p.test/2.jpg,https://p.test/3.jpg
2;1;Notebook;Home/Stationery;1.074,79;1.289,75;demo_2;
3;1;None;Home/Art;9,00;;demo_3;
"""  # noqa: E501
AMAZON = """Uniq Id,Product Name,Brand Name,Category,List Price,Selling Price,About Product,Image
4c6,Longboard,DB,"Sports & Outdoors | Outdoor Recreation | Skates, Skateboards & Scooters | Longboards",,$237.68,Fits,https://m.test/a.jpg|https://m.test/b.jpg
66d,Circuit kit,,"Toys & Games | Learning & Education | Science Kits & Toys",$49.99,$39.90 - $45.00,,https://m.test/c.jpg
2c5,Paint,,,,on request,,
"""
FLIPKART = """uniq_id,product_name,product_category_tree,retail_price,discounted_price,image,description,brand,product_specifications
a,Blue Towel,"[""Home >> Towels >> Blue Towel""]",999.0,299.0,"[""http://f.test/a1.jpeg"", ""http://f.test/a2.jpeg""]",A towel,Acme,"{""product_specification""=>[{""key""=>""Color"", ""value""=>""Blue""}, {""value""=>""x""}]}"
b,Mug,"[""Home >> Mugs"", ""Toys >> Mugs""]",,99.0,,,,"{""product_specification""=>nil}"
"""  # noqa: E501

# From product to what both doors make of it: title, category paths, pictures, price.
EXPECTED: dict[str, tuple[str, str, dict[str, tuple[str | None, list[str], list[str], Any]]]] = {
    "woocommerce": ("shop.csv", WOO, {
        "101": ("Red T-Shirt", ["Clothing > Tshirts"], ["r.jpg", "r2.jpg"], 19.9),
        "102": ("Blue T-Shirt", ["Clothing > Tshirts", "Sale"], ["b.jpg"], 12.0),
        "103": ("Green Hoodie", ["Clothing > Hoodies", "Clothing > Winter"], [], 45.0),
        "104": ("Rose Perfume", ["Body Care > Perfume, Cologne > Unisex"], [], None),
    }),
    "shopify": ("shop.csv", SHOPIFY, {
        "tee": ("Red Tee", ["Apparel & Accessories > Clothing > Shirts"], ["red.jpg", "red2.jpg", "red3.jpg"], 19.0),
        "mug": ("Mug", ["Home & Garden > Kitchen"], [], 9.5),
    }),
    "google": ("shop.tsv", GOOGLE, {
        "A1": ('Red 5" pan', ["Kitchen > Pans"], ["1.jpg", "1b.jpg", "1c.jpg"], 12.0),
        "A2": ("Blue shirt", ["Vehicles & Parts > Maintenance, Care & Decor > Cleaning"], ["2.jpg"], 1150.0),
        "A3": ("Wax", ["Vehicles & Parts > Maintenance, Care & Decor > Waxes"], ["3.jpg"], 5.0),
    }),
    "magento": ("shop.csv", MAGENTO, {
        "24-MB01": ("Joust Duffle Bag", ["Default Category > Gear", "Default Category > Gear > Bags"],
                    ["/m/b/mb01.jpg", "/m/b/mb01b.jpg", "/m/b/mb01c.jpg"], 34.0),
        "24-WG01": ("Yoga Ball", ["Default Category > Gear > Fitness"], ["/w/g/wg01.jpg"], 19.0),
        "24-WG02": ("Foam Brick", [], [], None),
    }),
    "prestashop": ("shop.csv", PRESTA, {
        "1": ("Mug with a fox", ["Home > Accessories"], ["2.jpg", "3.jpg"], 11.9),
        "2": ("Notebook", ["Home > Stationery"], [], 1289.75),
        "3": (None, ["Home > Art"], [], 9.0),
    }),
    "amazon": ("shop.csv", AMAZON, {
        "4c6": ("Longboard", ["Sports & Outdoors > Outdoor Recreation > Skates, Skateboards & Scooters > Longboards"],
                ["a.jpg", "b.jpg"], [237.68]),
        "66d": ("Circuit kit", ["Toys & Games > Learning & Education > Science Kits & Toys"], ["c.jpg"], [39.9, 45.0]),
        "2c5": ("Paint", [], [], None),
    }),
    "flipkart": ("shop.csv", FLIPKART, {
        "a": ("Blue Towel", ["Home > Towels > Blue Towel"], ["a1.jpeg", "a2.jpeg"], 299.0),
        "b": ("Mug", ["Home > Mugs", "Toys > Mugs"], [], 99.0),
    }),
}  # fmt: skip


def of_library(source: str) -> tuple[dict[str, list[Any]], str]:
    """From product to title, paths, pictures and price, as a library reads them; and the report."""
    collection = visir.open(source, images="none")
    facts, titles = (
        collection.facts,
        dict(zip(*(collection.captions[n].to_pylist() for n in ("image_id", "text")), strict=True)),
    )
    assert facts is not None
    rows = [row for row in facts.to_pylist() if row["image_id"] == row["product"]]
    read = {
        row["product"]: [
            titles.get(row["product"]),
            [path.replace("/", " > ") for path in row.get("category") or []],
            row.get("pictures") or [],
            row.get("price"),
        ]
        for row in rows
    }
    return read, collection.source


def of_catalogue(source: str) -> dict[str, list[Any]]:
    """From product to title and category of a catalogue, and the place of its picture."""
    rows = open_catalogue(source).products.to_pylist()
    return {row["id"]: [row["title"], row["category_id"], row["path"]] for row in rows}


@pytest.mark.parametrize("shop", EXPECTED)
def test_an_export_is_read_alike_through_both_doors(tmp_path: Path, shop: str) -> None:
    name, text, expected = EXPECTED[shop]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    for _, _, pictures, _ in expected.values():
        for picture in pictures:
            (tmp_path / picture.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / picture.lstrip("/")).touch()
    assert open_catalogue(path).fingerprint == open_catalogue(f"products:{path}").fingerprint or shop == "flipkart"
    assert "table of products" in visir.open(str(path), images="none").source, "the format is seen"
    library, report = of_library(f"products:{path}")
    catalogue, prices = of_catalogue(f"products:{path}"), open_catalogue(f"products:{path}").prices
    for product, (title, paths, pictures, price) in expected.items():
        assert library[product] == [title, paths, pictures, price]
        if not paths:
            assert product not in catalogue and f"without a category: 1 ({product})" in report
            continue
        if price is not None:
            low = price[0] if isinstance(price, list) else price
            assert prices[product].startswith(f"{low:,.2f}".removesuffix(".00"))
        first = pictures[0].lstrip("/") if pictures else None
        assert catalogue[product] == [title, paths[0], first]
    assert len(catalogue) == sum(bool(paths) for _, paths, _, _ in library.values())


def test_a_landing_page_shows_the_price_that_is_paid(tmp_path: Path) -> None:
    (tmp_path / "shop.tsv").write_text(GOOGLE)
    page = landing_page(f"products:{tmp_path / 'shop.tsv'}?images=none", ["Pans", "Vehicles & Parts"])
    assert (page.prices["A1"], page.prices["A2"]) == ("12 USD", "1,150 USD")


def test_what_says_nothing_is_counted_by_both(tmp_path: Path) -> None:
    text = "id,title,category,price,image\n1,NULL,Toys > Dogs,N/A,nan\n2,A &amp; B,Toys > Cats,5,\n3,c,None,7,\n"
    (tmp_path / "shop.csv").write_text(text)
    _, report = of_library(f"products:{tmp_path / 'shop.csv'}")
    notes = "; ".join(open_catalogue(f"products:{tmp_path / 'shop.csv'}", images="none").notes)
    for column, line, cell in (("title", 2, "NULL"), ("price", 2, "N/A"), ("image", 2, "nan"), ("category", 4, "None")):
        what = f"cells of {column} that say that there is nothing"
        assert f"{what}: 1 (line {line}: {cell!r})" in report
        assert f"1 {what} (line {line}: {cell!r})" in notes
    assert "cells with HTML entities (read as characters): 1 (line 3: 'A & B')" in report
    assert "1 cells with HTML entities (read as characters) (line 3: 'A & B')" in notes


@pytest.mark.parametrize(
    "name",
    [
        "products_amazon_1000/amazon_sample_1000.csv.xz",
        "products_flipkart_1050/flipkart_com-ecommerce_sample_1050.csv.xz",
        "products_flipkart_1050/products.jsonl.xz",
        "products_fashion_1601/products.jsonl.xz",
        "products_fashion_1601/styles_4998_with_titles.csv.xz",
    ],
)
def test_real_tables_are_read_alike_through_both_doors(name: str) -> None:
    path = (data_directory() or Path("missing")) / name
    if not path.exists():
        pytest.skip("needs the data set")
    library, _ = of_library(f"products:{path}")
    catalogue = {row["id"]: row for row in open_catalogue(f"products:{path}", images="none").products.to_pylist()}
    assert set(catalogue) == {product for product, (_, paths, _, _) in library.items() if paths}
    for product, row in catalogue.items():
        title, paths, _, _ = library[product]
        # A library writes a slash within a name as a bar.
        assert row["title"] == title and row["category_id"].replace(" / ", " | ").replace("/", "|") == paths[0]


def test_published_layouts_agree_with_the_table() -> None:
    """Flipkart's and Myntra's layouts have rules of their own for a path, and for what is an attribute; no others."""
    for name, options in (
        ("products_flipkart_1050/flipkart_com-ecommerce_sample_1050.csv.xz", {"product_names": "keep"}),
        ("products_fashion_1601/styles_4998_with_titles.csv.xz", {}),
    ):
        path = (data_directory() or Path("missing")) / name
        if not path.exists():
            pytest.skip("needs the data set")
        layout, table = open_catalogue(path, **options), open_catalogue(f"products:{path}")
        for column in ("id", "title", "category_id"):
            assert layout.products[column].equals(table.products[column])


def test_listings_of_abo_are_read_alike_through_both_doors(tmp_path: Path) -> None:
    """A collection has an image for each main picture, a catalogue a product for each item: of one listing the same."""
    (metadata := tmp_path / "listings" / "metadata").mkdir(parents=True)
    (pictures := tmp_path / "images" / "metadata").mkdir(parents=True)
    name = [{"language_tag": "de_DE", "value": "Stuhl"}, {"language_tag": "en_US", "value": " Chair &amp; table "}]
    node = [{"node_id": 7, "node_name": "/Categories/Furniture/Chairs"}]
    listing = {"item_id": "B01", "domain_name": "amazon.com", "item_name": name, "node": node, "main_image_id": "51a"}
    (metadata / "listings_0.json").write_text(json.dumps(listing) + "\n")
    (pictures / "images.csv").write_text("image_id,height,width,path\n51a,20,10,0e/0e12.jpg\n")
    (picture := tmp_path / "images" / "small" / "0e" / "0e12.jpg").parent.mkdir(parents=True)
    picture.touch()
    collection, catalogue = visir.open(f"abo:{tmp_path}"), open_catalogue(f"abo:{tmp_path}")
    [image], [caption], [product] = (
        collection.images.to_pylist(),
        collection.captions.to_pylist(),
        catalogue.products.to_pylist(),
    )
    assert collection.facts is not None and collection.facts["item_id"].to_pylist() == [product["id"]] == ["B01"]
    assert caption["text"].strip() == product["title"] == "Chair &amp; table"
    assert image["path"] == product["path"] == "images/small/0e/0e12.jpg"
    assert product["category_id"] == "Furniture > Chairs"


def test_rows_that_cannot_be_read_stop_a_library_and_are_left_out_of_a_catalogue(tmp_path: Path) -> None:
    shop = tmp_path / "shop.csv"
    shop.write_text("id,title,category,price\n1,a,Toys > Dogs,5\n,b,Toys > Cats,5\n3,c\n")
    for open_door, stops in ((visir.open, {}), (open_catalogue, {"bad_rows": "stop"})):
        with refused(CollectionError, "4", "3"):
            open_door(f"products:{shop}", **stops)
    notes = "; ".join(open_catalogue(f"products:{shop}").notes)
    assert "1 rows without a product id (line 3)" in notes and "1 rows with too few or too many values (line 4" in notes
