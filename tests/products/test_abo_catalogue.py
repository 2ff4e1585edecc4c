"""Amazon Berkeley Objects as a catalogue, in a small folder of the official layout."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from refusals import refused
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.products import open_catalogue
from visir.records import Catalogue


def said(**texts: object) -> list[dict[str, object]]:
    return [{"language_tag": tag, "value": value} for tag, value in texts.items()]


def listing(item: object, node: object, name: object, **more: Any) -> dict[str, Any]:
    return {"item_id": item, "domain_name": "amazon.com", "item_name": name, "node": node, **more}


def node(*names: str) -> list[dict[str, Any]]:
    return [{"node_id": 7, "node_name": name} for name in names]


CHAIR = listing(
    "B01",
    node("/Categories/Furniture/Chairs", "/Categories/Sale"),
    said(de_DE="Stuhl", en_US="Chair"),
    main_image_id="51a+L",
    other_image_id=["81b"],
    brand=said(de_DE="Marke", en_GB="Brand"),
    bullet_point=said(en_US="soft") + said(en_US="warm") + said(en_US="soft") + said(fr_FR="doux"),
    color=[{"language_tag": "en_US", "standardized_values": ["Red"], "value": "Crimson"}],
    item_weight=[{"normalized_value": {"unit": "pounds", "value": 2.5}, "unit": "grams", "value": 1134}],
    item_dimensions={
        "height": {"normalized_value": {"unit": "inches", "value": 9}, "unit": "inches", "value": 9.0},
        "width": {"unit": "inches", "value": 4},
    },
    model_number=[{"value": "M-1"}],
    model_year=[{"language_tag": "en_US", "value": 2019}],
    material=said(it_IT="legno"),
    style="plain text",
    pattern=[{"value": {"no": "text"}}],
    product_type=[{"value": "CHAIR"}],
    item_keywords=said(en_US="seat"),
    color_code=["#ff0000"],
)
FIRST = [
    listing("B02", node("/Shoes/Categories/Boots"), said(en_IN="Boot"), domain_name="amazon.in", main_image_id="99z"),
    listing("B02", None, said(en_US="Boot, no node"), main_image_id="81b"),
    CHAIR,
    listing("B01", node("/Categories/Furniture/Stools"), said(en_US="Chair again")),
    listing("B03", node("/Kategorien/Lampen"), said(de_DE="Lampe"), domain_name="amazon.de"),
]
LAST = [
    listing("B04", [], said(en_US="Nowhere")),
    listing("B05", node("/Categories"), said(en_US="Everything")),
    listing("B06", [{"node_id": 1, "path": "/Categories/Rugs"}], said(en_AU="Rug")),
    listing("B07", "Rugs", said(en_AU="Rug")),
    listing(None, node("/Categories/Rugs"), said(en_AU="Rug")),
    listing("B08", [{"node_name": 5}], said(en_AU="Rug")),
]
CSV = "image_id,height,width,path\n51a+L,2560,1920,0e/0e12.jpg\n81b,5,6,1f/1f34.jpg\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("listings/metadata", "images/metadata", "images/small/0e", "images/original/0e"):
        (tmp_path / name).mkdir(parents=True)
    for shard, rows in (("0", FIRST), ("f", LAST)):
        text = "".join(json.dumps(row) + "\n" for row in rows) + ("" if shard == "0" else "{broken\n[]\n")
        (tmp_path / f"listings/metadata/listings_{shard}.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "images/metadata/images.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    Image.new("RGB", (8, 9), "red").save(tmp_path / "images/small/0e/0e12.jpg")
    Image.new("RGB", (80, 90), "red").save(tmp_path / "images/original/0e/0e12.jpg")
    return tmp_path


def attributes(catalogue: Catalogue, product: str) -> list[tuple[str, str]]:
    rows = catalogue.attributes.to_pylist()
    return [(row["name"], row["value"]) for row in rows if row["product_id"] == product]


def asides(catalogue: Catalogue) -> dict[str, int]:
    told = [note.removeprefix("set aside: ").partition(" (") for note in catalogue.notes]
    return {text.split(" ", 1)[1]: int(text.split(" ", 1)[0].replace(",", "")) for text, _, _ in told}


def test_the_official_layout(folder: Path) -> None:
    catalogue = open_catalogue(folder)
    # B02 comes from India, whose listing has a category, though the American one has the language that is wanted more.
    assert catalogue.products.select(["id", "title", "path", "category_id"]).to_pylist() == [
        {"id": "B02", "title": "Boot", "path": None, "category_id": "Shoes > Boots"},
        {"id": "B01", "title": "Chair", "path": "images/small/0e/0e12.jpg", "category_id": "Furniture > Chairs"},
        {"id": "B06", "title": "Rug", "path": None, "category_id": "Rugs"},
    ]
    assert ImageReader(catalogue.pictures()).open(0).size == (8, 9)
    assert asides(catalogue) == {
        "further listings of a product, of other shops or languages": 2,
        "further category paths of a product that has several": 1,
        "attributes that are not text": 1,
        "attributes in other languages only": 1,
        "listings without a name in en_US,en": 1,
        "rows without a product id": 1,
        "lines that are no listing": 2,
        "main images that are not in images.csv": 1,
        "products without a category": 2,
        "products with an unreadable category path": 2,
    }
    for inner in ("listings", "listings/metadata"):
        assert open_catalogue(folder / inner).fingerprint == catalogue.fingerprint
    assert open_catalogue(f"abo:{folder}").fingerprint == catalogue.fingerprint


def test_attributes_in_the_wanted_language(folder: Path) -> None:
    assert attributes(open_catalogue(folder), "B01") == [
        ("brand", "Brand"),
        ("bullet_point", "soft"),
        ("bullet_point", "warm"),
        ("color", "Crimson"),
        ("item_dimensions height", "9 inches"),
        ("item_dimensions width", "4 inches"),
        ("item_weight", "2.5 pounds"),
        ("model_number", "M-1"),
        ("model_year", "2019"),
        ("style", "plain text"),
    ]
    asked = open_catalogue(folder, attributes="product_type,item_keywords,color_code")
    assert attributes(asked, "B01") == [("product_type", "CHAIR"), ("item_keywords", "seat"), ("color_code", "#ff0000")]
    with refused(CollectionError, "colour", code="unknown-attribute", meant="color"):
        open_catalogue(folder, attributes="colour")


def test_other_languages_and_shops(folder: Path) -> None:
    german = open_catalogue(folder, language="de,en", drop_levels="Categories,Kategorien")
    rows = {row["id"]: row for row in german.products.to_pylist()}
    assert (rows["B01"]["title"], rows["B03"]["category_id"]) == ("Stuhl", "Lampen")
    # Brands in German; the colour is said in English only, which is the second choice.
    assert attributes(german, "B01")[0] == ("brand", "Marke")
    assert ("color", "Crimson") in attributes(german, "B01")
    india = open_catalogue(folder, shops="amazon.in", language="any")
    assert india.products["id"].to_pylist() == ["B02"]
    assert asides(india)["listings of other shops"] == 9  # 11 lines, one of India, one without an id
    assert open_catalogue(folder, drop_levels="").categories["id"].to_pylist()[0] == "Shoes"


def test_what_is_missing_is_told(folder: Path) -> None:
    (folder / "images/metadata/images.csv.gz").unlink()
    with refused(CollectionError, code="no-images-metadata-images"):
        open_catalogue(folder)
    with refused(CollectionError, code="no-listings-metadata-listings"):
        open_catalogue(folder / "images", format="abo")
