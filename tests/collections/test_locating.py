"""Finding the pictures that a source names: beside it or where one says, in folders, zips and tars."""

from __future__ import annotations

import pytest
from toys import jpeg, karpathy

from refusals import refused
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.errors import CollectionError


def colours(collection) -> list[tuple[int, int, int]]:
    reader = ImageReader(collection)
    return [reader.open(row).getpixel((0, 0)) for row in range(len(reader))]


RED, BLUE = (255, 0, 0), (0, 0, 255)
PICTURES = {"a.jpg": jpeg("red", form="PNG"), "b.jpg": jpeg("blue", form="PNG")}


@pytest.mark.parametrize("where", ["", "Images/", "deep/er/still/"])
def test_a_folder_beside_the_source(write, where: str) -> None:
    path = write("dataset.json", karpathy())
    for name, data in PICTURES.items():
        write(where + name, data)
    found = open_collection(path)
    assert colours(found) == [RED, BLUE]
    assert "images: 2 of 2 found" in found.source


@pytest.mark.parametrize("name", ["pictures.zip", "pictures.tar"])
def test_an_archive_beside_the_source(write, name: str) -> None:
    path = write("dataset.json", karpathy())
    write(name, {f"val2014/{key}": data for key, data in PICTURES.items()})
    found = open_collection(path)
    assert colours(found) == [RED, BLUE]
    assert f"images: 2 of 2 found in {name}" in found.source


def test_the_official_annotations_folder_looks_next_door(write) -> None:
    path = write("coco/annotations/dataset.json", karpathy())
    for name, data in PICTURES.items():
        write(f"coco/images/{name}", data)
    assert colours(open_collection(path)) == [RED, BLUE]


def test_several_given_places_and_what_stays_missing(write, tmp_path) -> None:
    path = write("x/dataset.json", karpathy())
    one = write("one.zip", {"a.jpg": PICTURES["a.jpg"]})
    (tmp_path / "two").mkdir()
    found = open_collection(path, images=[one, tmp_path / "two"])
    assert found.images["path"].to_pylist() == ["a.jpg", None]
    assert found.images["archive"].to_pylist() == ["../one.zip", None]
    assert "images: 1 of 2 found in one.zip" in found.source
    write("two/b.jpg", PICTURES["b.jpg"])
    assert colours(open_collection(path, images=[one, tmp_path / "two"])) == [RED, BLUE]


def test_nothing_found_is_an_error_only_where_a_place_was_given(write, tmp_path) -> None:
    path = write("dataset.json", karpathy())
    (tmp_path / "elsewhere").mkdir()
    assert open_collection(path).images["path"].null_count == 2
    with refused(CollectionError, "2", "elsewhere", code="none-images", hint="a.jpg"):
        open_collection(path, images=tmp_path / "elsewhere")
    with refused(CollectionError, "nowhere", code="no-pictures-there"):
        open_collection(path, images=tmp_path / "nowhere")


def test_none_does_not_look(write) -> None:
    path = write("dataset.json", karpathy())
    write("a.jpg", PICTURES["a.jpg"])
    found = open_collection(path, images="none")
    assert found.images["path"].null_count == 2
    assert "images not looked for" in found.source


def test_the_longest_shared_path_wins(write) -> None:
    path = write("dataset.json", karpathy(filepath="val2014"))
    for name in PICTURES:
        write(f"train2014/{name}", jpeg("lime", form="PNG"))
        write(f"val2014/{name}", PICTURES[name])
    assert colours(open_collection(path)) == [RED, BLUE]


def test_an_ambiguous_name_is_a_fault(write) -> None:
    path = write("dataset.json", karpathy())
    for folder in ("one", "two"):
        write(f"{folder}/a.jpg", PICTURES["a.jpg"])
    with refused(CollectionError, "image", "a.jpg", "could be", "one/a.jpg", "two/a.jpg", "say which"):
        open_collection(path)


def test_coco_2014_names_match_2017_files(write) -> None:
    content = [{"image": "val2014/COCO_val2014_000000000042.jpg", "caption": "a dog"}]
    path = write("coco_test.json", content)
    write("val2017/000000000042.jpg", PICTURES["a.jpg"])
    found = open_collection(path)
    assert found.images["id"].to_pylist() == ["42"]
    assert colours(found) == [RED]


def test_a_broken_archive_beside_is_told_and_a_given_one_is_an_error(write) -> None:
    path = write("dataset.json", karpathy())
    broken = write("broken.zip", b"no zip")
    assert "broken.zip left aside" in open_collection(path).source
    with refused(CollectionError, code="not-readable-zip"):
        open_collection(path, images=broken)


def test_links_in_a_circle_end(write, tmp_path) -> None:
    path = write("dataset.json", karpathy())
    write("deep/a.jpg", PICTURES["a.jpg"])
    (tmp_path / "deep" / "loop").symlink_to(tmp_path / "deep")
    assert open_collection(path).images["path"].to_pylist() == ["deep/a.jpg", None]


@pytest.mark.parametrize(
    ("written", "file"),
    [
        ("M\u00fcller.png", "Mu\u0308ller.png"),  # as macOS and its zips write names
        ("Mu\u0308ller.png", "M\u00fcller.png"),
        ("up\\\\red.png", "red.png"),  # of Windows
        ("UP/RED.PNG", "red.png"),
        ("red.jpeg", "red.jpg"),
    ],
)
@pytest.mark.parametrize("given", [True, False])
def test_names_that_are_spelled_otherwise(write, tmp_path, written: str, file: str, given: bool) -> None:
    path = write("t.csv", f"image,caption\n{written},a picture\nblue.png,another\n".replace("\\\\", "\\"))
    write(f"up/{file}", PICTURES["a.jpg"])
    write("up/blue.png", PICTURES["b.jpg"])
    found = open_collection(path, images=str(tmp_path / "up") if given else None)
    assert colours(found) == [RED, BLUE]
    assert "1 of the names are spelled otherwise here" in found.source


def test_a_name_as_it_is_written_comes_first(write) -> None:
    path = write("t.csv", "image,caption\nA.png,a\na.png,b\n")
    write("A.png", PICTURES["a.jpg"])
    write("a.png", PICTURES["b.jpg"])
    found = open_collection(path)
    assert colours(found) == [RED, BLUE]
    assert "spelled" not in found.source


def test_texts_beside_pictures_are_captions(write, tmp_path) -> None:
    for number in range(2):
        write(f"{number:09d}.png", PICTURES["a.jpg"])
        write(f"{number:09d}.txt", f"a dog {number}\na pet {number}\n")
        write(f"{number:09d}.json", "{}")
    write("boxes.png", PICTURES["b.jpg"])
    write("boxes.txt", "0 0.5 0.5 1e-1\n")
    found = open_collection(tmp_path)
    assert list(found) == [
        ("000000000.png", ["a dog 0", "a pet 0"]), ("000000001.png", ["a dog 1", "a pet 1"]), ("boxes.png", [])
    ]  # fmt: skip
    assert "captions of 2 pictures from texts beside them" in found.source


@pytest.mark.parametrize(
    "text",
    [
        bytes(range(256)), "café".encode("latin-1"), b"word " * 10_000, b"a line\n" * 21, b"Page\x001",
        b"Car 0.00 0 -1.57 614.24 181.78 727.31 284.77\nDontCare -1 -1 503.89 169.71\n",
    ],
)  # fmt: skip
def test_what_is_no_caption_is_left_out_and_counted(write, tmp_path, text: bytes) -> None:
    write("a.png", PICTURES["a.jpg"])
    write("a.txt", text)
    found = open_collection(tmp_path)
    assert list(found) == [("a.png", [])] and "1 .txt" in found.source


def test_texts_of_few_pictures_are_no_captions(write, tmp_path) -> None:
    for number in range(4):
        write(f"{number}.png", PICTURES["a.jpg"])
    write("0.txt", "pin: 1234")
    assert open_collection(tmp_path).captions.num_rows == 0
    write("1.txt", "ein Hund \U0001f469\u200d\U0001f4bb".encode("utf-16"))
    captions = open_collection(tmp_path).captions["text"].to_pylist()
    assert captions == ["pin: 1234", "ein Hund \U0001f469\u200d\U0001f4bb"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_a_table_in_two_or_four_bytes_a_letter(write, encoding: str) -> None:
    path = write("t.csv", "image,caption\na.jpg,a red square\n".encode(encoding))
    assert open_collection(path).captions["text"].to_pylist() == ["a red square"]


def test_a_file_is_the_picture_of_one_name(write) -> None:
    """`a/1.jpg` is not at hand, and `b/1.jpg` is another picture."""
    path = write("c.csv", b"image,caption\na/1.jpg,red\nb/1.jpg,blue\n./b/1.jpg,the same\n")
    write("b/1.jpg", PICTURES["b.jpg"])
    found = open_collection(path)
    assert found.images["path"].to_pylist() == [None, "b/1.jpg", "b/1.jpg"]
    assert "1 name without a picture" in found.source and "a/1.jpg is not b/1.jpg" in found.source
    path = write("c.csv", b"image,caption\na/1.jpg,red\nc/1.jpg,blue\n")
    found = open_collection(path)
    assert found.images["path"].to_pylist() == [None, None], "nothing says which of the two it is"
    assert "2 names without a picture" in found.source and "images: 0 of 2 found" in found.source


def test_an_address_that_fits_several_files_is_none_of_them(write) -> None:
    path = write("c.csv", b"url,caption\nhttp://x.org/1.jpg,red\nhttp://x.org/b.jpg,blue\n")
    for name in ("one/1.jpg", "two/1.jpg", "b.jpg"):
        write(name, PICTURES["b.jpg"])
    assert open_collection(path).images["path"].to_pylist() == [None, "b.jpg"]


def test_tables_among_photos_are_named_with_the_call_that_reads_them(write, tmp_path) -> None:
    write("f30k/images/a.jpg", PICTURES["a.jpg"])
    write("f30k/images/results.csv", b"image_name| comment_number| comment\na.jpg| 0| a red square\n")
    write("f30k/annotations/val.json", karpathy())
    write("f30k/list.json", b'[{"id": 1, "picture": "a.jpg", "turns": "none"}]')
    write("f30k/images/a.jpg.json", b'{"image": "a.jpg", "caption": "of a photo, as Google writes them"}')
    found = open_collection(tmp_path / "f30k")
    assert found.captions.num_rows == 0
    assert "images/results.csv is not read (table of pictures and captions): visir.open(" in found.source
    assert "annotations/val.json is not read" in found.source
    assert "list.json is not read, its columns have to be named" in found.source
    assert "a.jpg.json is" not in found.source
    assert open_collection(tmp_path / "f30k/images/results.csv").captions["text"].to_pylist() == ["a red square"]


def test_a_folder_of_img2dataset_is_its_pictures_and_texts(write, tmp_path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write("out/00000/000000000.jpg", PICTURES["a.jpg"])
    write("out/00000/000000000.txt", b"a red square")
    write("out/00000/000000000.json", b'{"url": "http://x.org/a.jpg", "key": "000000000"}')
    listed = pa.table({"url": ["http://x.org/a.jpg"], "caption": ["a red square"], "key": ["000000000"]})
    pq.write_table(listed, tmp_path / "out" / "00000.parquet")
    found = open_collection(tmp_path / "out")
    assert found.captions["text"].to_pylist() == ["a red square"]
    assert found.images["path"].to_pylist() == ["00000/000000000.jpg"]
