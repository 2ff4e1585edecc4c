"""Collections that people make themselves: tables, image folders, shards, Hugging Face datasets, plain photos."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from toys import jpeg

from refusals import refused
from visir.collections import archives, open_collection
from visir.collections.batches import Batch
from visir.collections.images import ImageReader
from visir.collections.readers.webdataset import expand
from visir.errors import CollectionError, ImageError, VisirError

RED, BLUE = jpeg("red", form="PNG"), jpeg("blue", form="PNG")


def captions(collection) -> list[tuple[str, str, str]]:
    return [(row["id"], row["text"], row["image_id"]) for row in collection.captions.to_pylist()]


def colours(collection) -> list[str]:
    reader = ImageReader(collection)
    names = {(255, 0, 0): "red", (0, 0, 255): "blue"}
    return [names[reader.open(row).getpixel((0, 0))] for row in range(len(reader))]


# Tables


def test_of_rows_that_are_left_out_the_lists_are_left_out_too() -> None:
    batch = Batch(str, [{"said": [{"txt": "a"}, {"txt": "b"}]}, {"said": [{"txt": "c"}]}, {"said": None}])
    assert list(batch.values("said[].txt")) == [["a", "b"], ["c"], None] and batch["said"][1] == [{"txt": "c"}]
    batch.keep([False, True, True])
    assert list(batch.values("said[].txt")) == [["c"], None] and batch["said"] == [[{"txt": "c"}], None]
    assert [batch.place(number) for number in (0, 1)] == ["1", "2"]


def test_csv_one_row_per_image_with_facts(write) -> None:
    write("a.png", RED)
    found = open_collection(write("shop.csv", 'image,description,price\na.png,"red, ""one""\nshirt",5\nb.png,blue,\n'))
    assert captions(found) == [("a.png#0", 'red, "one"\nshirt', "a.png"), ("b.png#0", "blue", "b.png")]
    assert found.images["path"].to_pylist() == ["a.png", None]
    assert found.facts.to_pydict() == {"image_id": ["a.png", "b.png"], "price": ["5", ""]}


def test_tsv_one_row_per_caption(write) -> None:
    text = "image_path\tcaption\tcaption_id\tsplit\nx/a.png\tone\t7\tdev\nx/a.png\ttwo\t8\tdev\nb.png\tthree\t9\ttest\n"
    found = open_collection(write("t.tsv", text))
    assert captions(found) == [("7", "one", "x/a.png"), ("8", "two", "x/a.png"), ("9", "three", "b.png")]
    assert found.describe()["splits"] == {"test": 1, "val": 1}
    assert found.facts is None


def test_jsonl_with_lists_and_null_pictures(write) -> None:
    lines = (
        '{"image_id": 5, "file": "a.png", "captions": ["one", "two"], "caption_ids": [1, 2], "tags": ["x"]}\n\n'
        '{"image_id": 6, "file": null, "captions": [], "caption_ids": []}\n'
    )
    found = open_collection(write("x.jsonl", lines))
    assert captions(found) == [("1", "one", "5"), ("2", "two", "5")]
    assert found.images["id"].to_pylist() == ["5", "6"]
    assert found.facts["tags"].to_pylist() == [["x"], None]


def test_facts_of_mixed_kinds_become_text(write) -> None:
    found = open_collection(write("x.jsonl", '{"image":"a","text":"t","k":1}\n{"image":"b","text":"t","k":"one"}\n'))
    assert found.facts["k"].to_pylist() == ["1", "one"]


def test_parquet_table(write, tmp_path) -> None:
    pq.write_table(pa.table({"image": ["a.png", "b.png"], "title": ["one", "two"]}), tmp_path / "t.parquet")
    assert captions(open_collection(tmp_path / "t.parquet")) == [
        ("a.png#0", "one", "a.png"),
        ("b.png#0", "two", "b.png"),
    ]


def test_columns_are_never_guessed_between_two(write) -> None:
    path = write("t.csv", "image,title,description,id\na.png,short,long,17\n")
    with refused(CollectionError, "caption", "description", "title", code="several-columns"):
        open_collection(path)
    found = open_collection(path, caption="title,description", id="id")
    assert captions(found) == [("17#0", "short", "17"), ("17#1", "long", "17")]
    with refused(CollectionError, "tilte", code="no-such-column", hint=("image", "title")):
        open_collection(path, caption="tilte")


def test_table_faults_have_lines(write) -> None:
    with refused(CollectionError, "t.csv", "line 3", "1 values for 2 columns"):
        open_collection(write("t.csv", "image,text\na.png,x\nb.png\n"))
    with refused(CollectionError, code="column-named-twice", hint="caption_1"):
        open_collection(write("t.csv", "image,text,text\n"), format="table")
    with pytest.raises(CollectionError, match=r"t\.jsonl, line 2: not valid JSON"):
        open_collection(write("t.jsonl", '{"image":"a","text":"x"}\n{oops\n'))
    with refused(CollectionError, "t.jsonl", "line 2", "expected an object"):
        open_collection(write("t.jsonl", '{"image":"a","text":"x"}\n[1]\n'))
    with pytest.raises(CollectionError) as caught:
        lines = '{"image":"","text":"x"}\n{"image":true,"text":"x"}\n{"image":"a","text":4}\n'
        open_collection(write("t.jsonl", lines))
    assert "line 1: no image (image is empty)" in str(caught.value)
    assert "line 2: image: an id must be a number or text, found True" in str(caught.value)
    assert "line 3: a caption must be text, found 4" in str(caught.value)
    with refused(VisirError, "t.csv", "2", code="table-not-utf-8"):
        open_collection(write("t.csv", b"image,text\na.png,caf\xe9\n"), format="table")


# Image folders


@pytest.mark.parametrize("name", ["metadata.jsonl", "metadata.csv"])
def test_imagefolder(write, tmp_path, name: str) -> None:
    for split, data in (("train", RED), ("validation", BLUE)):
        write(f"d/{split}/1.png", data)
        text = "file_name,text\n1.png,a dog\n" if name.endswith("csv") else '{"file_name": "1.png", "text": "a dog"}\n'
        write(f"d/{split}/{name}", text)
    write("d/train/2.png", RED)
    found = open_collection(tmp_path / "d")
    assert captions(found) == [
        ("train/1.png#0", "a dog", "train/1.png"),
        ("validation/1.png#0", "a dog", "validation/1.png"),
    ]
    assert found.images["split"].to_pylist() == ["train", "val"]
    assert colours(found) == ["red", "blue"]
    assert "1 picture without metadata left out; images: 2 of 2 found" in found.source


def test_imagefolder_one_metadata_above_the_splits(write, tmp_path) -> None:
    write("d/test/1.png", RED)
    write(
        "d/metadata.jsonl",
        '{"file_name": "test/1.png", "caption": ["a", "b"]}\n{"file_name": "2.png", "caption": []}\n',
    )
    found = open_collection(tmp_path / "d")
    assert found.images.select(["id", "path", "split"]).to_pylist() == [
        {"id": "test/1.png", "path": "test/1.png", "split": "test"},
        {"id": "2.png", "path": None, "split": ""},
    ]


def test_imagefolder_as_datasets_writes_and_reads_it(write, tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    for n, data in enumerate((RED, BLUE)):
        write(f"d/train/{n}.png", data)
    write("d/train/metadata.csv", "file_name,text\n0.png,red\n1.png,blue\n")
    theirs = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "d"), cache_dir=str(tmp_path / "c"))["train"]
    ours = open_collection(tmp_path / "d")
    assert ours.captions["text"].to_pylist() == theirs["text"]
    assert colours(ours) == theirs["text"]


# Shards


def shard(n: int, colour: bytes, text: str) -> dict[str, bytes]:
    return {f"{n:03d}.png": colour, f"{n:03d}.txt": text.encode()}


def test_webdataset_pattern(write, tmp_path) -> None:
    write("s-00.tar", shard(0, RED, "one\ntwo\n"))
    write("s-01.tar", shard(1, BLUE, "three"))
    found = open_collection(str(tmp_path / "s-{00..01}.tar"))
    assert captions(found) == [("000#0", "one", "000"), ("000#1", "two", "000"), ("001#0", "three", "001")]
    assert colours(found) == ["red", "blue"]
    whole = open_collection(str(tmp_path / "s-{00..01}.tar"), newline="belongs")
    assert whole.captions["text"].to_pylist() == ["one\ntwo", "three"]
    with refused(CollectionError, "1", "3", "s-02.tar", code="shards-missing"):
        open_collection(str(tmp_path / "s-{00..02}.tar"))


def test_webdataset_folders_are_splits_and_json_has_captions(write, tmp_path) -> None:
    write("w/train/0.tar", {"a/x.jpg": RED, "a/x.json": b'{"caption": ["one", "two"], "key": 1}', "a/x.cls": b"3"})
    write("w/test/0.tar", {"b.seg.png": b"", "c.jpeg": BLUE, "c.json": b'{"caption": "three"}'})
    found = open_collection(tmp_path / "w", format="webdataset")
    assert captions(found) == [("c#0", "three", "c"), ("a/x#0", "one", "a/x"), ("a/x#1", "two", "a/x")]
    assert dict(zip(found.images["id"].to_pylist(), found.images["split"].to_pylist(), strict=True)) == {
        "b": "test",
        "c": "test",
        "a/x": "train",
    }


def test_webdataset_samples_with_several_pictures_have_the_first_and_a_note_of_the_others(write, tmp_path) -> None:
    members = {"a.jpg": RED, "a.png": BLUE, "a.txt": b"x", "b.png": BLUE, "b.mask.png": RED, "b.txt": b"y"}
    write("several/0.tar", members)
    found = open_collection(tmp_path / "several")
    assert colours(found) == ["red", "blue"]
    assert "; 2 pictures passed over whose sample has another before, e.g. a.png" in found.source
    write("single/0.tar", shard(0, RED, "x"))
    assert "passed over" not in open_collection(tmp_path / "single").source


@pytest.mark.parametrize("kept_from", [1, 1000])
def test_links_and_what_is_behind_the_end_of_shards_are_noted(write, tmp_path, monkeypatch, kept_from: int) -> None:
    """Read from the tar, and from its index that is kept."""
    monkeypatch.setattr(archives, "KEEP_INDEX_FROM", kept_from)
    path = write("linked/0.tar", {"a.jpg": RED, "a.txt": b"x"})
    with tarfile.open(path, "a") as tar:
        for name, kind in (("b.jpg", tarfile.LNKTYPE), ("c.jpg", tarfile.SYMTYPE)):
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "a.jpg"
            tar.addfile(about)
    path.write_bytes(path.read_bytes() + write("second/0.tar", {"d.jpg": BLUE, "d.txt": b"y"}).read_bytes())
    for _ in range(2):
        source = open_collection(tmp_path / "linked", format="webdataset").source
        assert "; 2 links in tars passed over, e.g. 0.tar: b.jpg (pack the files themselves: tar --deref" in source
        assert "; 1 tar with more behind the mark of the end, not read, e.g. 0.tar (as of tars joined by cat" in source
    assert "tars" not in open_collection(tmp_path / "second", format="webdataset").source


def test_webdataset_as_the_library_writes_it(tmp_path) -> None:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "x-0.tar")) as sink:
        for key, data, text in (("k0", RED, "ein Hund 🐕"), ("k1", BLUE, "שלום")):
            sink.write({"__key__": key, "png": data, "txt": text})
    found = open_collection(tmp_path)
    assert captions(found) == [("k0#0", "ein Hund 🐕", "k0"), ("k1#0", "שלום", "k1")]
    assert colours(found) == ["red", "blue"]


def test_webdataset_faults(write, tmp_path) -> None:
    write("s.tar", {"a.txt": b"no picture", "b.jpg": RED, "b.txt": b"caf\xe9", "c.jpg": RED, "c.json": b"{"})
    with pytest.raises(CollectionError) as caught:
        open_collection(tmp_path / "s.tar")
    assert "s.tar: a: captions, but no picture" in str(caught.value)
    assert "s.tar: b: its text is not UTF-8" in str(caught.value)
    assert "s.tar: c: its JSON is not valid" in str(caught.value)
    write("two/0.tar", shard(0, RED, "x"))
    write("two/1.tar", shard(0, RED, "x"))
    with refused(CollectionError, "duplicate image id", "000"):
        open_collection(tmp_path / "two")
    with refused(CollectionError, code="compressed-tar"):
        open_collection(write("z.tar.gz", b"\x1f\x8b\x08"))


def test_brace_patterns() -> None:
    assert expand("a-{08..11}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert expand("{x,y}{0..1}") == ["x0", "x1", "y0", "y1"]
    assert expand("plain") == ["plain"]
    with refused(CollectionError, "3..1", code="expected-found", hint=False):
        expand("{3..1}")


# Hugging Face


def dataset(**columns: object):
    datasets = pytest.importorskip("datasets")
    pictures = [Image.open(io.BytesIO(one)) for one in (RED, BLUE)]
    made = datasets.Dataset.from_dict({"image": pictures, **columns})
    return made.cast_column("image", datasets.Image())


def test_huggingface_saved_to_disk(tmp_path) -> None:
    dataset(text=["one", "two"]).save_to_disk(str(tmp_path / "d"))
    found = open_collection(tmp_path / "d")
    assert captions(found) == [("0#0", "one", "0"), ("1#0", "two", "1")]
    assert colours(found) == ["red", "blue"]


def test_huggingface_dictionary_of_splits(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    parts = {
        "train": dataset(captions=[["one", "two"], []], key=["x", "y"]),
        "validation": dataset(captions=[["three"], ["four"]], key=["z", "w"]),
    }
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "d"))
    found = open_collection(tmp_path / "d", id="key")
    assert captions(found) == [("x#0", "one", "x"), ("x#1", "two", "x"), ("z#0", "three", "z"), ("w#0", "four", "w")]
    assert found.images["split"].to_pylist() == ["train", "train", "val", "val"]
    assert open_collection(tmp_path / "d").images["id"].to_pylist() == ["train/0", "train/1", "val/0", "val/1"]


def test_huggingface_parquet_from_the_hub(tmp_path) -> None:
    (tmp_path / "d" / "data").mkdir(parents=True)
    dataset(caption=["one", "two"]).to_parquet(str(tmp_path / "d" / "data" / "test-00000-of-00001.parquet"))
    found = open_collection(tmp_path / "d")
    assert captions(found) == [("test/0#0", "one", "test/0"), ("test/1#0", "two", "test/1")]
    assert colours(found) == ["red", "blue"]


def test_huggingface_file_names_are_ids(tmp_path) -> None:
    (tmp_path / "d").mkdir()
    table = pa.table({"img": [{"bytes": RED, "path": "x/a.jpg"}, {"bytes": BLUE, "path": "b.jpg"}], "text": ["1", "2"]})
    pq.write_table(table, tmp_path / "d" / "train-00000-of-00001.parquet")
    found = open_collection(tmp_path / "d")
    assert captions(found) == [("a.jpg#0", "1", "a.jpg"), ("b.jpg#0", "2", "b.jpg")]
    assert colours(found) == ["red", "blue"]


def test_huggingface_object_filtered_and_shuffled() -> None:
    made = dataset(text=["one", "two"]).select([1, 0]).filter(lambda row: True)
    found = open_collection(made)
    assert found.captions["text"].to_pylist() == ["two", "one"]
    assert colours(found) == ["blue", "red"]
    assert open_collection(made).fingerprint == found.fingerprint


def test_huggingface_rows_of_one_picture_have_one_class(tmp_path) -> None:
    made = dataset(text=["one", "two"], key=["a", "a"], label=["x", "x "])
    assert open_collection(made, id="key").facts.to_pydict() == {"image_id": ["a"], "label": ["x"]}
    made = dataset(text=["one", "two"], key=["a", "a"], label=["x", "y"])
    opened = open_collection(made, id="key")  # beside captions a label may be of each caption
    assert opened.facts is None and "column 'label' is left out: it differs between the rows" in opened.source


def test_huggingface_languages_of_captions() -> None:
    made = dataset(text=["a dog", "ein Hund"], key=["a", "a"], language=["en", "de"])
    opened = open_collection(made, id="key")
    assert opened.captions["language"].to_pylist() == ["en", "de"]
    made = dataset(text=["a dog", "a cat"], language=["en", None])
    assert open_collection(made).captions["language"].to_pylist() == ["en", None]
    assert open_collection(dataset(text=["a dog", "a cat"], language=[1, 2])).languages == ()


def test_huggingface_faults(tmp_path) -> None:
    pytest.importorskip("datasets").Dataset.from_dict({"text": ["x"]}).save_to_disk(str(tmp_path / "d"))
    with pytest.raises(CollectionError, match=r"no column of images\.\n  → image= says which; there are text"):
        open_collection(tmp_path / "d")
    dataset(text=["one", "two"], title=["a", "b"]).save_to_disk(str(tmp_path / "e"))
    with refused(CollectionError, "caption", "text", "title", code="several-columns"):
        open_collection(tmp_path / "e")
    (tmp_path / "e" / "data-00000-of-00001.arrow").unlink()
    with refused(CollectionError, "data-00000-of-00001.arrow", code="saved-dataset-missing"):
        open_collection(tmp_path / "e", format="huggingface")
    with refused(CollectionError, "0", "1", code="expected-image-image-caption"):
        open_collection([1, 2])


# Photos


def test_photos(write, tmp_path: Path) -> None:
    for name in ("p/b.JPG", "p/holiday/a.png", "p/test/c.webp", "p/.hidden/d.jpg", "p/notes.txt"):
        write(name, RED)
    found = open_collection(tmp_path / "p")
    assert found.images["id"].to_pylist() == ["b.JPG", "holiday/a.png", "test/c.webp"]
    assert found.images["split"].to_pylist() == ["", "", "test"]
    assert found.captions.num_rows == 0
    assert colours(found) == ["red"] * 3
    with refused(CollectionError, code="no-pictures-read"):
        open_collection(write("empty/notes.txt", "x").parent, format="photos")


@pytest.mark.parametrize("tarred", [False, True])
def test_a_name_that_is_no_unicode(write, tmp_path: Path, tarred: bool) -> None:
    """Latin-1 names of old disks: on a disk such a photo cannot be had until it is renamed; in a tar it can."""
    place = write("old/red.png", RED).parent
    try:
        for name in (b"caf\xe9.png", b"\xff/b.png", b"caf\\udce9.png"):  # the last one says what the first is shown as
            path = place / os.fsdecode(name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(BLUE)
    except (OSError, UnicodeError):
        pytest.skip("this file system refuses such names")
    if tarred:
        with tarfile.open(tmp_path / "old.tar", "w") as made:
            made.add(place, "")
        collection = open_collection(tmp_path / "old.tar", format="photos")
    else:
        collection = open_collection(place)
    ids = collection.images["id"].to_pylist()
    twin = "caf\\udce9?.png" if tarred else "caf\\udce9.png?"
    assert sorted(ids) == sorted(["\\udcff/b.png", "caf\\udce9.png", twin, "red.png"])
    reader = ImageReader(collection)
    assert reader.open(ids.index("red.png")).getpixel((0, 0)) == (255, 0, 0)
    assert reader.open(ids.index("caf\\udce9.png")).getpixel((0, 0)) == (0, 0, 255)
    for one in (twin, "\\udcff/b.png"):
        if tarred:
            assert reader.open(ids.index(one)).getpixel((0, 0)) == (0, 0, 255)
            continue
        with pytest.raises(ImageError, match="not valid Unicode") as caught:
            reader.open(ids.index(one))
        assert caught.value.hint == "rename it"


def test_photos_in_an_archive(write) -> None:
    path = write("p.zip", {"b.jpg": BLUE, "a.jpg": RED, "__MACOSX/._a.jpg": b"x", "readme": b""})
    found = open_collection(path)
    assert found.images["id"].to_pylist() == ["a.jpg", "b.jpg"]
    assert colours(found) == ["red", "blue"]
