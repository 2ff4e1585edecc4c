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


# ---- what is no row, and what says nothing ----


@pytest.mark.parametrize("further", [0, 20_000], ids=["rows", "columns"])
def test_a_header_again_is_a_fault_in_tables_of_any_size(tmp_path: Path, further: int) -> None:
    text = "image,caption\na.jpg,x\n" + "".join(f"p{n}.jpg,y\n" for n in range(further)) + "image, caption\nb.jpg,z\n"
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CollectionError, match=f"line {further + 3}: the header again.*bad_rows=skip"):
        visir.open(tmp_path / "t.csv", images="none")
    found = visir.open(tmp_path / "t.csv", images="none", bad_rows="skip")
    assert found.images.num_rows == further + 2
    assert f"rows that are the header again (left out): 1 (line {further + 3})" in found.source


def test_two_columns_of_one_name_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image,caption,caption\na.jpg,x,y\n")
    with refused(CollectionError, "line 1", "caption", code="column-named-twice", hint="caption_1"):
        visir.open(tmp_path / "t.csv", images="none")


@pytest.mark.parametrize("bad_rows", ["refuse", "skip"])
def test_rows_without_anything_are_left_out_and_counted(tmp_path: Path, bad_rows: str) -> None:
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,x\n,\n , \nb.jpg,y\n")
    frame = pd.DataFrame({"image": ["a.jpg", None, " ", "b.jpg"], "caption": ["x", None, " ", "y"]})
    for source, places in ((tmp_path / "t.csv", "line 3, line 4"), (frame, "row 2, row 3")):
        found = visir.open(source, images="none", bad_rows=bad_rows)
        assert list(found) == EXPECTED
        assert f"rows without anything (left out): 2 ({places})" in found.source
    products = "Handle,Title,Variant Price,Image Src\nA,Tee,5,a.jpg\n,,,\nA,,,b.jpg\n"
    (tmp_path / "shop.csv").write_text(products)
    shown = visir.open(tmp_path / "shop.csv", images="none", bad_rows=bad_rows)
    assert shown.images["id"].to_pylist() == ["A", "A#2"]
    assert "rows without anything (left out): 1 (line 3)" in shown.source


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "frame"])
def test_an_empty_list_of_captions_is_counted(tmp_path: Path, form: str) -> None:
    cells: list[Any] = [["x"], [], ["y", "z"]]
    table = {"image": ["a.jpg", "b.jpg", "c.jpg"], "caption": cells}
    source: Any = tmp_path / f"t.{form}"
    if form == "csv":
        pd.DataFrame(table | {"caption": [*map(json.dumps, cells)]}).to_csv(source, index=False)
    elif form == "jsonl":
        pd.DataFrame(table).to_json(source, orient="records", lines=True)
    elif form == "parquet":
        pq.write_table(pa.table(table), source)
    else:
        source = pd.DataFrame(table)
    found = visir.open(source, images="none")
    assert found.captions["text"].to_pylist() == ["x", "y", "z"]
    assert "captions that say nothing are left out: 1 (" in found.source


@pytest.mark.parametrize("text", ["", "\n\n  \n"])
def test_an_empty_file_is_called_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with refused(CollectionError, "t.csv", code="empty-file", hint="whole"):
        visir.open(tmp_path / "t.csv")


def test_days_of_sales_are_no_prices(tmp_path: Path) -> None:
    text = (
        "id,title,price,sale_price,sale_price_effective_date,item_group_id\n"
        "1,Red,20 USD,15 USD,2015-03-01T13:00-0800/2015-03-11T15:30-0800,A\n2,Blue,20 USD,,,A\n"
    )
    (row,) = shop(tmp_path, text)
    assert row["price"] == 20.0
    said = visir.open(tmp_path / "shop.csv", images="none").source
    assert "no price" not in said
    assert "prices of sales of days that are not now (the next price counts): 1 (line 2: 15)" in said


def test_several_tables_in_an_archive_are_refused_as_in_a_folder(tmp_path: Path) -> None:
    for kind in ("folder", "archive"):
        place = tmp_path / ("t" if kind == "folder" else "t.zip")
        if kind == "folder":
            place.mkdir()
            for name in ("one.csv", "two.csv"):
                FRAME.to_csv(place / name, index=False)
        else:
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("a.jpg", jpeg("red"))
                for name in ("one.csv", "two.csv"):
                    archive.writestr(name, FRAME.to_csv(index=False))
        with refused(CollectionError, place.name, code=f"several-{kind}", hint=("one.csv", "two.csv")):
            visir.open(place)
    with zipfile.ZipFile(tmp_path / "t.zip") as archive:
        assert list(visir.open(f"photos:{tmp_path / 't.zip'}").images["id"].to_pylist()) == archive.namelist()[:1]


@pytest.mark.parametrize("form", ["rows.json", "rows.jsonl", "t.csv", "columns", "list"])
def test_a_list_of_json_and_a_dictionary_of_columns_are_tables_too(tmp_path: Path, form: str) -> None:
    frame = pd.DataFrame({"image": ["a.jpg", "b.jpg"], "caption_1": ["x", "y"], "caption_2": ["", "z"],
                          "split": ["train", "test"], "camera": ["K", "L"]})  # fmt: skip
    source: Any = tmp_path / form
    if form == "columns":
        source = frame.to_dict("list")
    elif form == "list":
        source = frame.to_dict("records")
    elif form == "t.csv":
        frame.to_csv(source, index=False)
    else:
        frame.to_json(source, orient="records", lines=form.endswith("l"))
    found = visir.open(source, images="none")
    assert list(found) == [("a.jpg", ["x"]), ("b.jpg", ["y", "z"])]
    assert found.images["split"].to_pylist() == ["train", "test"]
    assert found.facts is not None and found.facts["camera"].to_pylist() == ["K", "L"]


def test_columns_of_a_dictionary_can_be_named() -> None:
    found = visir.open({"nr": ["a.jpg", "b.jpg"], "said": ["x", "y"]}, image="nr", caption="said", images="none")
    assert list(found) == EXPECTED


def test_a_table_of_products_without_categories_is_no_catalogue_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("id,title,price,shelf\n1,A,5,X > Y\n")
    with refused(CollectionError, "shop.csv", code="columns-not-named", hint=("category_column=", "shelf")):
        open_catalogue(tmp_path / "shop.csv")
    named = open_catalogue(f"products:{tmp_path / 'shop.csv'}?category_column=shelf")
    assert named.products["category_id"].to_pylist() == ["X > Y"]


def test_choices_without_anything_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image,caption,foil\na.jpg,x,y\n,,\n")
    found = visir.open(tmp_path / "t.csv", images="none", missing="drop")
    assert "rows without anything (left out): 1 (line 3)" in found.source
