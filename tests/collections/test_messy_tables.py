"""Tables as people save them: other delimiters, encodings and names of columns, no header, pictures in cells."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import jpeg

import visir
from refusals import refused
from visir.collections import open_collection
from visir.errors import CollectionError

EXPECTED = [("a.jpg", ["ein Hund, müde"]), ("b.jpg", ["zwei Boote"])]


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("excel.csv", "image;caption\r\na.jpg;ein Hund, müde\r\nb.jpg;zwei Boote\r\n", {}),
        ("tabs.csv", "image\tcaption\na.jpg\tein Hund, müde\nb.jpg\tzwei Boote\n", {}),
        ("semicolons.tsv", "image;caption\na.jpg;ein Hund, müde\nb.jpg;zwei Boote\n", {}),
        ("kaggle.csv", "Image_Name| comment_number| Comment\na.jpg| 0| ein Hund, müde\nb.jpg| 0| zwei Boote\n", {}),
        ("captions.txt", 'image,caption\na.jpg,"ein Hund, müde"\nb.jpg,zwei Boote\n', {}),
        ("upper.csv", 'FILE_NAME,Text\na.jpg,"ein Hund, müde"\nb.jpg,zwei Boote\n', {}),
        ("bare.csv", 'a.jpg,"ein Hund, müde"\nb.jpg,zwei Boote\n', {}),
        ("turned.tsv", "ein Hund, müde\ta.jpg\nzwei Boote\tb.jpg\n", {}),
        ("places.csv", "7,a.jpg,\"ein Hund, müde\"\n8,b.jpg,zwei Boote\n", {"image": "2", "caption": "3"}),
        ("numbers.csv", "7,a.jpg,\"ein Hund, müde\"\n8,b.jpg,zwei Boote\n", {"image": 2, "caption": 3}),
        ("german.csv", "bild;satz;jahr\na.jpg;ein Hund, müde;1\nb.jpg;zwei Boote;2\n",
         {"image": "bild", "caption": "satz"}),
        ("third.csv", "bild;satz;jahr\na.jpg;ein Hund, müde;1\nb.jpg;zwei Boote;2\n", {"image": "1", "caption": "2"}),
        ("lines.jsonl", '{"bild": "a.jpg", "satz": "ein Hund, müde"}\n{"bild": "b.jpg", "satz": "zwei Boote"}\n',
         {"image": "bild", "caption": "satz"}),
    ],
)  # fmt: skip
def test_what_people_save(tmp_path: Path, name: str, text: str, options: dict[str, object]) -> None:
    (tmp_path / name).write_text(text, newline="")
    assert list(visir.open(tmp_path / name, **options)) == EXPECTED
    in_a_command = "&".join(f"{option}={value}" for option, value in options.items())
    assert list(visir.open(f"{tmp_path / name}?{in_a_command}" if options else tmp_path / name)) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = "image;caption\r\na.jpg;ein Hund, müde\r\nb.jpg;zwei Boote\r\n"
    (tmp_path / "t.csv").write_text(text, encoding=encoding, newline="")
    options = {"encoding": encoding} if encoding == "latin-1" else {}
    assert list(visir.open(tmp_path / "t.csv", **options)) == EXPECTED


def test_latin_1_is_not_guessed_but_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image;caption\na.jpg;ein Hund, müde\n", encoding="latin-1")
    with refused(CollectionError, "2", code="table-not-utf-8") as fault:
        visir.open(tmp_path / "t.csv")
    assert '"t.csv?encoding=latin-1"' in fault.value.hint
    with refused(CollectionError, "latin1x", code="no-encoding"):
        visir.open(tmp_path / "t.csv", encoding="latin1x")


def test_columns_that_nothing_tells_apart_are_listed_with_a_line_that_works(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("nr;bild;satz\n7;a.jpg;ein Hund\n8;b.jpg;zwei Boote\n")
    with refused(CollectionError, "t.csv", code="columns-not-named") as fault:
        visir.open(tmp_path / "t.csv")
    assert fault.value.hint == (
        'it has the columns nr, bild, satz; name them: visir.open("t.csv", image="bild", caption="satz"), '
        'or "t.csv?image=bild&caption=satz" in a command'
    )
    (tmp_path / "bare.csv").write_text("7,a.jpg,ein Hund\n8,b.jpg,zwei Boote\n")
    with refused(CollectionError, code="first-line-no-names") as fault:
        visir.open(tmp_path / "bare.csv")
    assert fault.value.hint.startswith("it has the columns 3 without names, from '7' on; name them: ")
    assert 'visir.open("bare.csv", image="2", caption="3")' in fault.value.hint
    with refused(CollectionError, "bidl", code="no-such-column") as fault:
        visir.open(tmp_path / "t.csv", image="bidl", caption="satz")
    assert fault.value.hint == "there are: nr, bild, satz"


def test_a_parquet_file_as_datasets_writes_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    (tmp_path / "a.jpg").write_bytes(jpeg())
    rows = {"image": [str(tmp_path / "a.jpg")] * 2, "caption": [["one", "two"], ["three"]]}
    made = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    made.to_parquet(str(tmp_path / "mine.parquet"))
    collection = visir.open(tmp_path / "mine.parquet")
    assert [captions for _, captions in collection] == [["one", "two"], ["three"]]
    assert collection.image(collection.images["id"][0].as_py()).size == (12, 8)
    (tmp_path / "both").mkdir()
    for split in ("train", "validation"):
        made.to_parquet(str(tmp_path / f"both/{split}.parquet"))
    assert visir.open(tmp_path / "both").describe()["splits"] == {"train": 2, "val": 2}


def test_a_repeated_row_changes_no_fact(tmp_path: Path) -> None:
    lines = [f"{number}.jpg,{('cat', 'dog')[number % 2]}" for number in range(12)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["image,label", *lines, lines[0]]) + "\n")
    found = open_collection(table)
    assert found.images.num_rows == 12
    assert found.facts.to_pydict() == {
        "image_id": [f"{number}.jpg" for number in range(12)],
        "label": ["cat", "dog"] * 6,
    }


def test_what_an_image_has_one_of_is_a_fault_where_rows_differ(tmp_path: Path) -> None:
    """All at once, with both lines; an empty cell says nothing, and the order of rows does not matter."""
    table = tmp_path / "t.csv"
    table.write_text(
        "image,caption,label,split\na.jpg,one,cat,train\na.jpg,two,dog,test\n"
        "b.jpg,three,,\nb.jpg,four,cow ,val\nb.jpg,five,cow,val\n"
    )
    with refused(CollectionError, "1", "fault", "a.jpg", "split", "train", "line 2", "but", "test", "line 3", "image"):
        open_collection(table)  # beside captions a label may be of each caption
    table.write_text("image,label,split\na.jpg,cat,train\na.jpg,dog,test\nb.jpg,,\nb.jpg,cow ,val\nb.jpg,cow,val\n")
    with pytest.raises(CollectionError) as fault:
        open_collection(table)
    assert "a.jpg: split 'train' in line 2, but 'test' in line 3; an image has one" in str(fault.value)
    assert "a.jpg: label 'cat' in line 2, but 'dog' in line 3; an image has one" in str(fault.value)
    assert "(2 faults)" in str(fault.value)
    table.write_text("image,caption,label,split\nb.jpg,three,,\nb.jpg,four,cow ,val\nb.jpg,five,cow,val\n")
    found = open_collection(table)
    assert found.images["split"].to_pylist() == ["val"] and found.facts["label"].to_pylist() == ["cow"]


def test_columns_that_differ_between_captions_are_left_out_with_a_note(tmp_path: Path) -> None:
    table = tmp_path / "t.jsonl"
    rows = (
        {"image": "a.jpg", "text": text, "by": by, "camera": "X", "tags": ["x"]} for text, by in (("1", 1), ("2", 2))
    )
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = open_collection(table)
    assert found.facts.to_pydict() == {"image_id": ["a.jpg"], "camera": ["X"], "tags": [["x"]]}
    assert "column 'by' is left out: it differs between the rows of an image (a.jpg, line 1 and line 2)" in found.source


def test_the_language_of_captions_in_a_table(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("image,caption,language\na.jpg,a dog,en\na.jpg,ein Hund, de\nb.jpg,a cat,en\nb.jpg,?,\n")
    found = open_collection(table)
    assert found.captions["language"].to_pylist() == ["en", "de", "en", None]
    assert found.languages == ("de", "en") and found.facts is None
    assert "left out" not in found.source
    assert open_collection(table, language="de").captions["text"].to_pylist() == ["ein Hund"]
    (tmp_path / "o.csv").write_text("image,caption,lang\na.jpg,a dog,en\n")
    assert open_collection(tmp_path / "o.csv").languages == ()
    assert open_collection(tmp_path / "o.csv", language_column="lang").languages == ("en",)
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"image": "a.jpg", "captions": ["a dog", "ein Hund"], "language": ["en", "de"]}\n')
    assert open_collection(lines).captions["language"].to_pylist() == ["en", "de"]
    lines.write_text('{"image": "a.jpg", "captions": ["a dog", "ein Hund"], "language": ["en"]}\n')
    with refused(CollectionError, "line 1", "2 captions", "but 1 languages"):
        open_collection(lines)
    frame = {"image": [str(tmp_path / "a.jpg")] * 2, "caption": ["a", "b"], "language": ["en", "fr"]}
    assert open_collection(frame).languages == ("en", "fr")


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ('["a dog", "a dog, wet"]', ["a dog", "a dog, wet"]),  # JSON
        ("['a dog', \"a dog's ear\"]", ["a dog", "a dog's ear"]),  # Python, as DataFrame.to_csv writes lists
        ("['a dog' 'a wet dog'\n 'a pet']", ["a dog", "a wet dog", "a pet"]),  # NumPy
        ("[]", []),
        ("[sic] a dog", ["[sic] a dog"]),
        ('["a dog", null]', ["a dog"]),
        ("[1]", ["[1]"]),
        ("a dog [wet]", ["a dog [wet]"]),
        ("[a dog]", ["[a dog]"]),
    ],
)
def test_a_list_of_captions_in_a_cell_is_several_captions(tmp_path: Path, cell: str, texts: list[str]) -> None:
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["image", "captions"], ["a.jpg", cell], ["b.jpg", "two boats"]])
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"image": name, "captions": text}) + "\n" for name, text in
                (("a.jpg", cell), ("b.jpg", "two boats")))
    )  # fmt: skip
    pq.write_table(pa.table({"image": ["a.jpg", "b.jpg"], "captions": [cell, "two boats"]}), tmp_path / "t.parquet")
    frame = pd.DataFrame({"image": ["a.jpg", "b.jpg"], "captions": [cell, "two boats"]})
    for source in (tmp_path / "t.csv", tmp_path / "t.jsonl", tmp_path / "t.parquet", frame):
        assert list(visir.open(source, images="none")) == [("a.jpg", texts), ("b.jpg", ["two boats"])]


def test_ids_of_captions_in_a_list_belong_to_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('raw,sentids,filename\n"[""a dog"", ""a pet""]","[7, 8]",a.jpg\n')
    assert visir.open(tmp_path / "t.csv").captions["id"].to_pylist() == ["7", "8"]


def test_captions_that_are_null_are_counted_and_take_their_ids_along(tmp_path: Path) -> None:
    """The first row of JSON lines need not have every column."""
    rows = (
        {"image": "a.jpg", "caption": None},
        {"image": "b.jpg", "caption": ["x", None, "y"], "caption_id": [1, 2, 3], "language": ["en", "fr", "de"]},
    )
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = visir.open(tmp_path / "t.jsonl", images="none")
    assert found.captions["id"].to_pylist() == ["1", "3"] and found.captions["text"].to_pylist() == ["x", "y"]
    assert found.captions["language"].to_pylist() == ["en", "de"]
    assert "captions that say nothing are left out: 2 (line 1: null, line 2: null)" in found.source


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (['"hello', "a boat", 'she said"', "last"], ['"hello', "a boat", 'she said"', "last"]),
        (['"big" dog', "a boat"], ['"big" dog', "a boat"]),
        (['a 5" disk', '"never closed'], ['a 5" disk', '"never closed']),
        (['"quoted ""dog"""', "a boat"], ['quoted "dog"', "a boat"]),
        (['"two\nlines"', "a boat"], ["two\nlines", "a boat"]),
        (['"a\ttab"', "a boat"], ["a\ttab", "a boat"]),
    ],
)
def test_quotes_in_a_table_with_tabs(tmp_path: Path, lines: list[str], texts: list[str]) -> None:
    rows = "".join(f"{number}.jpg\t{line}\n" for number, line in enumerate(lines))
    (tmp_path / "t.tsv").write_text(f"image\tcaption\n{rows}")
    assert visir.open(tmp_path / "t.tsv").captions["text"].to_pylist() == texts


def test_a_row_with_tabs_of_another_length_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('image\tcaption\na.jpg\t"two\nlines"\nb.jpg\tx\ty\n')
    with refused(CollectionError, "line 4", "3 values for 2 columns"):
        visir.open(tmp_path / "t.tsv")
    found = visir.open(tmp_path / "t.tsv", bad_rows="skip")
    assert list(found) == [("a.jpg", ["two\nlines"])]
    assert "rows with too few or too many values (left out): 1 (line 4: 3 values for 2 columns)" in found.source


def test_cells_of_data_frames() -> None:
    frame = pd.DataFrame({"image": [Path("a.jpg"), Path("b.jpg")], "captions": [np.array(["a", "b"]), np.array(["c"])]})
    assert list(visir.open(frame, images="none")) == [("a.jpg", ["a", "b"]), ("b.jpg", ["c"])]
    missing = pd.DataFrame({"image": ["a.jpg", "b.jpg"], "caption": pd.array(["a", pd.NA], dtype="string")})
    assert list(visir.open(missing, images="none")) == [("a.jpg", ["a"]), ("b.jpg", [])]
