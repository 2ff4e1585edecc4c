"""Amazon Berkeley Objects in a small folder of the official layout."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from toys import jpeg

from refusals import refused
from visir.collections import open_collection
from visir.collections.shop_layouts import _share
from visir.errors import CollectionError
from visir.evaluation.assembly import choose


def said(**texts: str) -> list[dict[str, str]]:
    return [{"language_tag": tag, "value": text} for tag, text in texts.items()]


def listing(item: str, image: str | None, name: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    row = {"item_id": item, "domain_name": "amazon.com", "item_name": name, "product_type": [{"value": "SHOES"}]}
    return row | ({} if image is None else {"main_image_id": image, "other_image_id": ["71other0"]}) | more


FIRST = [
    listing("B01", "51a-1+L", said(de_DE="Schuh", en_GB="Boot", en_US="Shoe")),
    listing("B01", "51a-1+L", said(en_IN="Shoe, red"), domain_name="amazon.in"),  # the same product in another shop
    listing("B02", "81b", said(de_DE="Nur deutsch")),
    listing("B03", None, said(en_US="No picture")),
]
LAST = [
    listing("B04", "91c", said(en_AU="Sof\u00e1  bed "), product_type=[{"value": "SOFA"}]),
    listing("B05", "99d", [], bullet_point=[*said(en_US="Soft"), *said(en_US="Warm"), *said(fr_FR="Doux")]),
    listing("B06", "51a-1+L", said(en_US="Shoe"), product_description=said(en_US="A shoe.\nFor feet.")),
]
CSV = "image_id,height,width,path\n51a-1+L,2560,1920,0e/0e12.jpg\n81b,5,6,1f/1f34.jpg\n91c,106,107,a0/a0c9.jpg\n"


def pack(rows: list[dict[str, Any]]) -> bytes:
    return gzip.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows))


@pytest.fixture
def folder(write, tmp_path) -> Path:
    write("listings/metadata/listings_0.json.gz", pack(FIRST))
    write("listings/metadata/listings_f.json.gz", pack(LAST))
    write("listings/README.md", "# Listings\n")
    write("images/metadata/images.csv.gz", gzip.compress(CSV.encode()))
    write("images/small/0e/0e12.jpg", jpeg())
    write("images/original/0e/0e12.jpg", jpeg(size=(40, 50)))
    return tmp_path


def texts(collection) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in collection.captions.to_pylist():
        found.setdefault(row["image_id"], []).append(row["text"])
    return found


def test_the_official_layout(folder) -> None:
    found = open_collection(folder)
    assert texts(found) == {"51a-1+L": ["Shoe", "Shoe, red"], "91c": ["Sof\u00e1  bed "]}
    assert found.images["path"].to_pylist() == ["images/small/0e/0e12.jpg", None]  # listed, but absent
    assert "1 listings without a main image left out" in found.source
    assert "2 listings without such a text left out" in found.source
    assert "7 listings (published: 147,702), 3 images in images.csv (published: 398,212)" in found.source
    for inner in ("listings", "listings/metadata"):
        assert open_collection(folder / inner).fingerprint == found.fingerprint


def test_facts(folder) -> None:
    found = open_collection(folder)
    assert found.facts.to_pylist() == [
        {
            "image_id": "51a-1+L",
            "item_id": "B01",
            "product_type": "SHOES",
            "domain_name": "amazon.com",
            "listings": 3,
            "original_height": 2560,
            "original_width": 1920,
        },
        {
            "image_id": "91c",
            "item_id": "B04",
            "product_type": "SOFA",
            "domain_name": "amazon.com",
            "listings": 1,
            "original_height": 106,
            "original_width": 107,
        },
    ]
    assert found.caption_facts.to_pylist()[1] == {
        "caption_id": "51a-1+L#1",
        "item_id": "B01",
        "domain_name": "amazon.in",
        "field": "item_name",
        "language": "en_IN",
    }


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en_GB,de", {"51a-1+L": ["Boot"], "81b": ["Nur deutsch"]}),
        ("de,en_US", {"51a-1+L": ["Schuh", "Shoe"], "81b": ["Nur deutsch"]}),
        ("any", {"51a-1+L": ["Schuh", "Shoe, red", "Shoe"], "81b": ["Nur deutsch"], "91c": ["Sof\u00e1  bed "]}),
    ],
)
def test_languages_by_preference(folder, language: str, expected: dict[str, list[str]]) -> None:
    assert texts(open_collection(folder, language=language)) == expected


def test_other_texts(folder) -> None:
    found = open_collection(f"{folder}?text=bullet_point,product_description")
    assert texts(found) == {"99d": ["Soft", "Warm"], "51a-1+L": ["A shoe.\nFor feet."]}
    assert "1 main images are not in images.csv" in found.source
    with refused(CollectionError, "item_nam", code="unknown-text", meant="item_name"):
        open_collection(folder, text="item_nam")


def test_the_seeded_split_is_by_item_and_near_eighty_ten_ten() -> None:
    items = [f"B{number:09d}" for number in range(20_000)]
    counts = Counter(_share(item, 0) for item in items)
    # Standard deviation of a tenth of 20,000: sqrt(20,000 × 0.1 × 0.9) = 42; five of them are 212.
    assert abs(counts["val"] - 2_000) < 212
    assert abs(counts["test"] - 2_000) < 212
    assert sum(_share(item, 0) != _share(item, 1) for item in items) > 5_000  # 1 − 0.64 − 0.01 − 0.01 = 34 % change


def test_a_part_splits_as_the_whole_does(folder, write) -> None:
    rows = [listing(f"B{n}", f"i{n}", said(en_US=f"Thing {n}")) for n in range(60)]
    write("listings/metadata/listings_0.json.gz", pack(rows))
    whole = open_collection(folder)
    split_of = dict(zip(whole.images["id"].to_pylist(), whole.images["split"].to_pylist(), strict=True))
    assert set(split_of.values()) == {"train", "val", "test"}
    write("listings/metadata/listings_0.json.gz", pack(rows[::-3]))
    part = open_collection(folder).images.select(["id", "split"]).to_pylist()
    assert all(split_of[row["id"]] == row["split"] for row in part)
    assert "split by visir with seed 0" in whole.source
    assert open_collection(folder, splits="none").splits == ("",)


def test_the_benchmarks_split(folder, write) -> None:
    with refused(CollectionError, code="no-benchmarks-abo-mvr-csv"):
        open_collection(folder, splits="mvr")
    text = "class_id,image_type,path,split_set\nB01,catalog,0e/0e12.jpg,test-target\nB01,render,x/y.jpg,test-query\n"
    path = write("benchmarks/abo-mvr.csv.xz", lzma.compress(text.encode()))
    assert open_collection(folder, splits="mvr").images["split"].to_pylist() == ["test", "unlisted"]
    path.write_bytes(lzma.compress(b"path,split\na,train\n"))
    with refused(CollectionError, "path", "split", code="expected-columns-path-split", hint=False):
        open_collection(folder, splits="mvr")


def test_pictures_from_the_unopened_tar(folder, write) -> None:
    (folder / "images" / "small").rename(folder / "images" / "other")
    (folder / "images" / "other" / "0e" / "0e12.jpg").unlink()
    (folder / "images" / "original" / "0e" / "0e12.jpg").unlink()
    write("abo-images-small.tar", {"images/small/0e/0e12.jpg": jpeg(), "images/metadata/images.csv.gz": b""})
    row = open_collection(folder).images.to_pylist()[0]
    assert (row["archive"], row["path"]) == ("abo-images-small.tar", "images/small/0e/0e12.jpg")


def test_every_fault_is_named_at_once(folder, write) -> None:
    lines = [
        b"{",
        b'["x"]',
        b'{"main_image_id": "1"}',
        b"",
        b'{"item_id": "B", "main_image_id": "1", "item_name": "x"}',
    ]
    write("listings/metadata/listings_a.json.gz", gzip.compress(b"\n".join(lines)))
    with pytest.raises(CollectionError) as caught:
        open_collection(folder)
    for text in (
        "listings_a.json.gz, line 1: not valid JSON",
        "listings_a.json.gz, line 2: expected an object {…}",
        "listings_a.json.gz, line 3: no item_id",
        "listings_a.json.gz, line 5: item_name must be a list of {language_tag, value}, found x",
    ):
        assert text in str(caught.value)


def test_missing_parts_name_what_to_get(folder, write) -> None:
    csv = folder / "images" / "metadata" / "images.csv.gz"
    csv.write_bytes(gzip.compress(b"image_id,path\na,b\n"))
    with refused(CollectionError, "image_id", "path", code="expected-columns-image-id", hint=False):
        open_collection(folder)
    csv.write_bytes(gzip.compress(b"image_id,height,width,path\na,?,1,b\n"))
    with refused(CollectionError, "line 2", code="height-width-whole-numbers", hint=False):
        open_collection(folder)
    csv.unlink()
    with refused(CollectionError, code="no-images-metadata-images"):
        open_collection(folder)
    (folder / "listings").rename(folder / "elsewhere")
    with refused(
        CollectionError, code="no-listings-metadata-listings", hint=("unpack https://", "/archives/abo-listings.tar")
    ):
        open_collection(f"abo:{folder}")
    write("abo-listings.tar", {})
    with refused(CollectionError, hint=("unpack it", "tar -xf", "abo-listings.tar")):
        open_collection(f"abo:{folder}")


def test_one_random_caption_per_image_as_the_thesis_takes(folder) -> None:
    found = open_collection(folder, splits="none")
    chosen = choose(found, "random(seed=0)")
    assert chosen.captions["image_id"].to_pylist() == ["51a-1+L", "91c"]
    assert chosen.caption_facts["caption_id"].to_pylist() == chosen.captions["id"].to_pylist()
    assert choose(found, "all").fingerprint == found.fingerprint
