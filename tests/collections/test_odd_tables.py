"""Tables as programs and shops export them: what each row means, and what is refused with the option that reads it."""

from __future__ import annotations

import bz2
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import jpeg

import visir
from refusals import refused
from visir.collections.tables import pick, read_table
from visir.errors import CollectionError
from visir.products import open_catalogue

FRAME = pd.DataFrame({"image": ["a.jpg", "b.jpg"], "caption": ["x", "y"]})
EXPECTED = [("a.jpg", ["x"]), ("b.jpg", ["y"])]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("numbered.csv", "image,caption_0,caption_1\na.jpg,x,\nb.jpg,,y\n"),
        ("laion.csv", "SAMPLE_ID,URL,TEXT\n12,a.jpg,x\n13,b.jpg,y\n"),
        ("ids.csv", "image_id,caption\na.jpg,x\nb.jpg,y\n"),
        ("written.csv", "Image Name,Caption Text,caption\na.jpg,0,x\nb.jpg,1,y\n"),
        ("excel.csv", "sep=;\nimage;caption\na.jpg;x\nb.jpg;y\n"),
        ("mac.csv", "image,caption\ra.jpg,x\rb.jpg,y\r"),
        ("python.jsonl", '{"image": "a.jpg", "caption": "x", "weight": NaN}\n{"image": "b.jpg", "caption": "y"}\n'),
        ("lines.json", '{"image": "a.jpg", "caption": "x"}\n{"image": "b.jpg", "caption": "y"}\n'),
        ("columns.json", FRAME.to_json()),
        ("split.json", FRAME.to_json(orient="split")),
        ("inside.json", json.dumps({"data": FRAME.to_dict("records")}, indent=1)),
    ],
)
def test_what_programs_write(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert list(visir.open(tmp_path / name, images="none")) == EXPECTED


def test_compressed_tables(tmp_path: Path) -> None:
    data = FRAME.to_csv(index=False).encode()
    (tmp_path / "t.csv.bz2").write_bytes(bz2.compress(data))
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.zst"), "zstd") as stream:
        stream.write(data)
    FRAME.to_csv(tmp_path / "t.csv.zip", index=False)
    for name in ("t.csv.bz2", "t.csv.zst", "t.csv.zip"):
        assert list(visir.open(tmp_path / name, images="none")) == EXPECTED, name
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "a") as archive:
        archive.writestr("other.csv", data)
    with refused(visir.VisirError, "t.csv.zip", "2"):
        read_table(tmp_path / "t.csv.zip")


def test_tables_in_memory() -> None:
    polars = pytest.importorskip("polars")
    datasets = pytest.importorskip("datasets")
    columns = FRAME.to_dict("list")
    for table in (FRAME, pa.table(columns), polars.DataFrame(columns), datasets.Dataset.from_dict(columns),
                  columns, FRAME.to_dict("records"), FRAME.set_index("image")):  # fmt: skip
        assert list(visir.open(table, images="none")) == EXPECTED, type(table)
        assert [row for _, row in read_table(table).rows()] == FRAME.to_dict("records")
    with refused(CollectionError, "int", code="no-table"):
        read_table(7)


def test_captions_by_their_languages() -> None:
    found = visir.open([{"image": "a.jpg", "caption": {"en": "a dog", "de": "ein Hund", "fr": None}}], images="none")
    assert found.captions["text"].to_pylist() == ["a dog", "ein Hund"]
    assert found.captions["language"].to_pylist() == ["en", "de"]


def test_a_dialect_is_refused_with_the_line_and_the_option_that_reads_it(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('image,caption\na.jpg,"x\nb.jpg,y\n')
    with pytest.raises(CollectionError, match=r"t\.csv, lines 2 to 3: .*quotes=none.*bad_rows=skip"):
        visir.open(table, images="none")
    assert list(visir.open(table, images="none", quotes="none")) == [("a.jpg", ['"x']), ("b.jpg", ["y"])]
    table.write_text("image,caption\na.jpg,x, z\n,w\nb.jpg,y\n")
    with pytest.raises(CollectionError, match=r"line 2: 3 values for 2 columns.*bad_rows=skip(?s:.)*line 3: no image"):
        visir.open(table, images="none")
    found = visir.open(table, images="none", bad_rows="skip")
    assert list(found) == EXPECTED[1:]
    assert "rows with too few or too many values (left out): 1 (line 2: 3 values for 2 columns)" in found.source
    assert "rows without an image (left out): 1 (line 3)" in found.source


def test_choices_that_lack_something_can_be_left_out(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("image,caption,foil\na.jpg,x,y\nb.jpg,NA,y\n")
    with pytest.raises(CollectionError, match=r"line 3: 'caption' must be a text; there is none.*bad_rows=skip"):
        visir.open(table, images="none")
    found = visir.open(table, images="none", bad_rows="skip")
    assert found.queries.ids.to_pylist() == ["0"] and "rows that lack something (left out): 1" in found.source


def test_rows_of_a_task_can_be_left_out(tmp_path: Path) -> None:
    for name, lines in {
        "queries.jsonl": ['{"_id": "q", "text": "x"}', "{oops"],
        "corpus.jsonl": ['{"_id": 7, "text": "y"}'],
        "qrels.tsv": ["query-id\tcorpus-id\tscore", "q\t7\t1", "q\t7"],
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(CollectionError, match=r"(?s)queries.jsonl, line 2: not valid JSON.*qrels.tsv, line 3"):
        visir.open(tmp_path)
    task = visir.open(tmp_path, bad_rows="skip")
    assert "lines that are not valid JSON (left out): 1" in task.source
    assert "rows with too few or too many values (left out): 1 (line 3: 2 values for 3 columns)" in task.source


def test_pick_says_what_else_was_near() -> None:
    table = read_table({"Image Name": ["a.jpg"], "photo": ["b.jpg"], "alt": ["x"]})
    usual = {"image": (("image_name",), ("photo",)), "caption": ("text", "alt")}
    picked = pick(table, **usual)  # type: ignore[arg-type]
    assert (picked["image"], picked["caption"]) == ("Image Name", "alt")
    assert picked.notes == ["image: column 'Image Name' (not 'photo', image= names another)"]
    assert pick(table, {"image": 2}, **usual)["image"] == "photo"  # type: ignore[arg-type]
    with refused(CollectionError, "phto", code="no-such-column"):
        pick(table, {"image": "phto"}, **usual)  # type: ignore[arg-type]


def test_keys_of_img2dataset_are_ids(tmp_path: Path) -> None:
    rows = {"jpg": [jpeg(), jpeg()], "key": ["000000007", "000000008"], "url": ["x", "y"], "status": ["success"] * 2}
    pq.write_table(pa.table(rows | {"caption": ["x", "y"]}), tmp_path / "00000.parquet")
    assert visir.open(tmp_path / "00000.parquet", image="jpg").images["id"].to_pylist() == rows["key"]


# Exports of shops.


def shop(tmp_path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    (tmp_path / "shop.csv").write_text(text)
    found = visir.open(tmp_path / "shop.csv", images="none", format="products", **options)
    assert found.facts is not None
    return [row for row in found.facts.to_pylist() if row.get("pictures") or row.get("price")]


WOO = (
    "ID,Type,SKU,Name,Parent,Regular price,Categories,Images\n1,variable,TEE,Tee,,,Clothing > Tees,tee.jpg\n"
    "2,variation,R,Tee red,TEE,19,,red.jpg\n3,variation,B,Tee blue,id:1,21,,blue.jpg\n4,variation,X,Orphan,NO,5,,\n"
)
GOOGLE = (
    "id,title,price,item_group_id,image_link,product_type,google_product_category\n"
    "1,Red S,20.00 USD,A,http://x/1.jpg,Home > Shirts,212\n2,Red M,21.00 USD,A,http://x/2.jpg,Home > Shirts,212\n"
    "3,Hat,5.00 USD,,http://x/3.jpg,Home > Hats,Apparel\n"
)


def test_variants_are_one_product(tmp_path: Path) -> None:
    tee, orphan = shop(tmp_path, WOO)
    assert (tee["product"], tee["price"], tee["category"]) == ("1", 19.0, ["Clothing/Tees"])
    assert tee["pictures"] == ["tee.jpg", "red.jpg", "blue.jpg"] and orphan["product"] == "4"
    said = visir.open(tmp_path / "shop.csv", images="none").source
    assert (
        "variants of a product that is not in the table (each is a product of its own): 1 (line 5: '4' of 'NO')" in said
    )
    assert open_catalogue(tmp_path / "shop.csv", images="none").products["id"].to_pylist() == ["1"]
    assert len(shop(tmp_path, WOO, variant_column="none")) == 4
    shirt, hat = shop(tmp_path, GOOGLE)
    assert (shirt["product"], shirt["price"], shirt["pictures"]) == ("A", 20.0, ["1.jpg", "2.jpg"])
    assert shirt["category"] == ["Home/Shirts"] and hat["category"] == ["Home/Hats"]  # not 212


def test_headers_that_say_how_cells_are_written(tmp_path: Path) -> None:
    text = (
        'Product ID,Name,"Categories (x,y,z...)",Price,"Image URLs (x,y,z...)"\n1,iPod,"Home,Apple",12,"a.jpg,b.jpg"\n'
    )
    (row,) = shop(tmp_path, text)
    assert row["category"] == ["Home", "Apple"] and row["pictures"] == ["a.jpg", "b.jpg"]


def test_columns_of_published_samples(tmp_path: Path) -> None:
    (row,) = shop(
        tmp_path, "article_id,product_code,prod_name,product_type_name,price\n0108775015,0108775,Top,Vest,1\n"
    )
    assert (row["product"], row["category"]) == ("0108775015", ["Vest"])
    product = {"parent_asin": "B1", "title": "Pen", "price": "$12.99", "images": [{"thumb": "http://x/t.jpg",
               "large": "http://x/l.jpg"}], "store": "Bic", "categories": ["Office", "Pens"]}  # fmt: skip
    facts = visir.open([product], images="none").facts
    assert facts is not None and facts.to_pylist()[0] | {"image_id": ""} == {
        "image_id": "", "product": "B1", "price": 12.99, "currency": "USD", "brand": "Bic",
        "category": ["Office/Pens"], "pictures": ["l.jpg"],
    }  # fmt: skip


def test_the_remedy_is_said_once_for_each_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,one,two\n,nowhere\nb.jpg\n")
    with pytest.raises(CollectionError) as raised:
        visir.open(tmp_path / "t.csv", images="none")
    assert raised.value.message.count("bad_rows=skip") == 1
    assert [f"line {line}" in raised.value.message for line in (2, 3, 4)] == [True] * 3


@pytest.mark.parametrize("indent", [None, 1])
def test_captions_by_picture_in_json(tmp_path: Path, indent: int | None) -> None:
    written = {"a.jpg": ["a dog", "a pet"], "dir/b.PNG": "a cat"}
    (tmp_path / "captions.json").write_text(json.dumps(written, indent=indent))
    found = visir.open(tmp_path / "captions.json", images="none")
    assert list(found) == [("a.jpg", ["a dog", "a pet"]), ("dir/b.PNG", ["a cat"])]
    (tmp_path / "ids.json").write_text(json.dumps({"000001": ["a dog"]}, indent=indent))
    for source in (tmp_path / "ids.json", f"table:{tmp_path / 'ids.json'}"):
        with pytest.raises(CollectionError) as raised:
            visir.open(source, images="none")
        assert "'000001' is no name of a picture" in str(raised.value)
