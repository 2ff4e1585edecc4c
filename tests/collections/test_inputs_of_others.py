"""Files as exports, crawlers and other tools leave them: names, folders, archives and files of another kind."""

from __future__ import annotations

import io
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import pytest
from toys import jpeg

import visir
from refusals import refused
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.collections.readers.locate import close_names, file_key
from visir.collections.streams import InputFiles, PassedOver
from visir.errors import CollectionError

RED, BLUE, LIME = (jpeg(colour, form="PNG") for colour in ("red", "blue", "lime"))
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


def colours(collection) -> list[tuple[int, int, int]]:
    reader = ImageReader(collection)
    return [reader.open(row).getpixel((0, 0)) for row in range(len(reader))]


def captions(collection) -> list[tuple[str, str]]:
    return list(zip(collection.captions["image_id"].to_pylist(), collection.captions["text"].to_pylist(), strict=True))


def test_one_key_for_every_spelling() -> None:
    for name in (
        "Up/Café 1.JPG",
        "./up//cafe\u0301 1.jpeg ",
        "up\\CAFÉ 1.jpg",
        "up/caf%C3%A9%201.jpg",
        "up/café 1.jfif",
    ):
        assert file_key(name) == "up/café 1.jpg", name
    assert file_key("https://a.b/c/d.png?v=12&x=y") == "https:/a.b/c/d.png"
    assert file_key("/data/local-files/?d=photos/d.png") == "photos/d.png"
    assert file_key("100%.png") == "100%.png" and file_key("a.tiff") == "a.tif"


@pytest.mark.parametrize(
    ("written", "file"),
    [
        ("my%20photo.png", "my photo.png"),
        ("my photo.png", "my%20photo.png"),
        ("https://shop.example/cdn/red.png?v=171", "red.png"),
        ("/data/local-files/?d=up/RED.PNG", "red.png"),
        ("s3://bucket/up/Red.png", "red.png"),
        ("red", "red.png"),  # an id, and the picture of that id
        ("red.jpg", "red.png"),  # a copy in another format
        (" red.png ", "red.png"),
    ],
)
def test_names_of_exports_are_found_and_told(write, tmp_path, written: str, file: str) -> None:
    path = write("t.csv", f'image,caption\n"{written}",a picture\nblue.png,another\n')
    write(f"up/{file}", RED)
    write("up/blue.png", BLUE)
    found = open_collection(path, images=tmp_path / "up")
    assert colours(found) == [(255, 0, 0), (0, 0, 255)]
    assert f"1 of the names are spelled otherwise here: {written} is {file}" in found.source


def test_an_address_of_a_file_is_that_file(write, tmp_path) -> None:
    elsewhere = write("else where/red.png", RED)
    path = write("t/t.csv", f"image,caption\n{elsewhere.as_uri()},a picture\n")
    assert "%20" in elsewhere.as_uri()
    found = open_collection(path)
    assert colours(found) == [(255, 0, 0)] and "by absolute paths" in found.source


def test_folders_whose_case_differs_tell_pictures_apart(write) -> None:
    path = write("t.csv", "image,caption\ntrain/a.png,a\nval/a.png,b\n")
    write("Train/a.png", RED)
    write("Val/a.png", BLUE)
    assert colours(open_collection(path)) == [(255, 0, 0), (0, 0, 255)]


def test_another_ending_is_taken_only_where_one_picture_has_it(write, tmp_path) -> None:
    path = write("t.csv", "image,caption\na.gif,a\nb.gif,b\nc.gif,c\n")
    for name in ("a.png", "a.webp", "b.png", "c.txt", "c"):
        write(f"up/{name}", RED)
    found = open_collection(path, images=tmp_path / "up")
    assert found.images["path"].to_pylist() == [None, "up/b.png", None]


def test_the_nearest_names_stand_in_the_error(write, tmp_path) -> None:
    path = write("t.csv", "image,caption\ndog_001.png,a\n")
    write("up/dog_0001.png", RED)
    write("up/unlike.png", RED)
    with refused(CollectionError, "1", "up", code="none-images", hint="the nearest there: 'dog_0001.png'; images="):
        open_collection(path, images=tmp_path / "up")
    with refused(CollectionError, code="no-pictures-there", hint="in that folder there is 'up'"):
        open_collection(path, images=tmp_path / "UP")
    with refused(CollectionError, code="no-such-file-folder", hint="in that folder there is 't.csv'"):
        open_collection(tmp_path / "T.csv")
    names = [f"{number:06d}.png" for number in range(5_000)]
    assert close_names("x/002500_.png", names, count=1) == ["'002500.png'"]


def test_a_source_whose_accents_are_written_otherwise(write, tmp_path) -> None:
    write(unicodedata.normalize("NFD", "Bücher/Täbelle.csv"), "image,caption\na.png,a\n")
    write(unicodedata.normalize("NFD", "Bücher/Fotos ü/a.png"), RED)
    found = open_collection(tmp_path / "Bücher" / "Täbelle.csv", images=tmp_path / "Bücher" / "Fotos ü")
    assert colours(found) == [(255, 0, 0)]


def test_the_folder_of_metadata_takes_images(write, tmp_path) -> None:
    write("m/metadata.csv", "file_name,text\n1.png,one\ntrain\\2.PNG,two\n3.png,three\n")
    write("m/Train/2.png", BLUE)
    write("up/1.png", RED)
    alone = open_collection(tmp_path / "m")
    assert alone.images["path"].to_pylist() == [None, "Train/2.png", None]
    assert "1 of the names are spelled otherwise here: train\\2.PNG is Train/2.png" in alone.source
    assert "images: 1 of 3 found" in alone.source
    found = open_collection(tmp_path / "m", images=tmp_path / "up")
    assert found.images["path"].to_pylist() == ["../up/1.png", "Train/2.png", None]
    assert "images: 2 of 3 found in up/" in found.source


def test_metadata_whose_pictures_are_all_there_and_names_that_two_files_fit(write, tmp_path) -> None:
    write("m/metadata.csv", "file_name,text\n1.png,one\n")
    write("m/1.png", RED)
    assert "images: 1 of 1 found" in open_collection(tmp_path / "m", images=tmp_path).source
    write("n/metadata.csv", "file_name,text\nX.PNG,one\n")
    write("n/x.png", RED)
    write("n/X.png", BLUE)
    assert open_collection(tmp_path / "n").images["path"].to_pylist() == [None]


def test_of_two_places_the_earlier_counts(write, tmp_path) -> None:
    path = write("t.csv", "image,caption\nred.png,a\n")
    for place in ("one", "two"):
        write(f"{place}/RED.png", RED)
    found = open_collection(path, images=[tmp_path / "two", tmp_path / "one"])
    assert found.images["path"].to_pylist() == ["two/RED.png"]


def test_a_zip_with_metadata_in_it(write) -> None:
    path = write("train.zip", {"train/1.png": RED, "train/metadata.csv": b"file_name,text\n1.png,one\n2.png,two\n"})
    found = open_collection(path)
    assert captions(found) == [("train/1.png", "one"), ("train/2.png", "two")]
    assert (
        found.images["archive"].to_pylist() == ["train.zip", None] and found.images["split"].to_pylist()[0] == "train"
    )
    reader = ImageReader(found)
    assert reader.open(0).getpixel((0, 0)) == (255, 0, 0)


def test_metadata_whose_name_leads_out_of_its_zip(write, tmp_path) -> None:
    inside = write("here/evil.zip", {"a.png": RED, "../../metadata.csv": b"file_name,text\na.png,one\n"})
    open_collection(inside)
    assert not list(tmp_path.parent.glob("metadata.csv")) and not (tmp_path / "metadata.csv").exists()


TABLE = {"images/1.png": RED, "images/2.png": BLUE, "captions.csv": b"image,caption\n1.png,one\n2.png,two\n"}
TASK = {
    "t/corpus.jsonl": b'{"_id": "d", "image": "1.png"}\n',
    "t/queries.jsonl": b'{"_id": "q", "text": "red"}\n',
    "t/qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq\td\t1\n",
    "t/images/1.png": RED,
}


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "table:a.zip"])
def test_a_table_in_an_archive_beside_its_pictures(write, tmp_path, monkeypatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_tar(Path("a.tar"), TABLE) if name == "a.tar" else write("a.zip", TABLE)
    Path("1.png").write_bytes(LIME)  # the archive's own pictures come first
    found = open_collection(name)
    assert captions(found) == [("1.png", "one"), ("2.png", "two")]
    assert colours(found) == [(255, 0, 0), (0, 0, 255)] and found.images["archive"].to_pylist() == [path.name] * 2
    assert found.source == f"table captions.csv in {path.name}; images: 2 of 2 found in {path.name}"


def test_a_task_in_an_archive_and_tables_that_are_none(write) -> None:
    task = visir.open(write("task.zip", TASK))
    assert task.tasks == ("t2i",) and task.documents.places["archive"].to_pylist() == ["task.zip"]
    readme = write(
        "plain.zip", {"1.png": RED, "prices.csv": b"a,b\n1,2\n", "../evil.csv": b"image,caption\n1.png,one\n"}
    )
    assert open_collection(readme).captions.num_rows == 0
    with refused(CollectionError, "captions.csv", 2):
        open_collection(write("bad.zip", TABLE | {"captions.csv": b"image,caption\n1.png\n"}))


def test_names_of_a_zip_with_backslashes(write, tmp_path) -> None:
    path = tmp_path / "back.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {"up\\": b"", **TABLE, "up/3.png": LIME}.items():
            member = zipfile.ZipInfo()
            member.filename = name if name.startswith("up") else name.replace("/", "\\")
            archive.writestr(member, data)
    found = open_collection(path, images=path)
    assert captions(found) == [("1.png", "one"), ("2.png", "two")]
    photos = open_collection(f"photos:{path}")
    assert photos.images["id"].to_pylist() == ["images/1.png", "images/2.png", "up/3.png"]
    assert colours(photos) == [(255, 0, 0), (0, 0, 255), (0, 255, 0)]
    streamed = InputFiles(path)
    assert [picture.id for picture in streamed.pictures(streamed.files[0])] == photos.images["id"].to_pylist()


def test_texts_in_a_folder_of_their_own(write, tmp_path) -> None:
    for name in ("1", "2"):
        write(f"d/images/train/{name}.png", RED)
        write(f"d/captions/train/{name}.txt", f"caption {name}\n")
    found = open_collection(tmp_path / "d")
    assert [text for _, text in captions(found)] == ["caption 1", "caption 2"]
    assert "e.g. captions/train/1.txt" in found.source and "left out" not in found.source


@pytest.mark.parametrize("ending", ["caption", "TXT", "cap", "text"])
def test_texts_of_other_endings(write, tmp_path, ending: str) -> None:
    write("d/1.PNG", RED)
    write(f"d/1.{ending}", "one\ntwo")
    assert captions(open_collection(tmp_path / "d")) == [("1.PNG", "one"), ("1.PNG", "two")]


def test_texts_that_are_left_out_are_told(write, tmp_path) -> None:
    for name in "abcd":
        write(f"d/{name}.png", RED)
    write("d/a.txt", "one")
    assert "texts beside 1 picture left out: captions are read where half" in open_collection(tmp_path / "d").source
    write("d/b.txt", "two")
    write("d/e.png", RED)
    assert "texts beside 2 pictures left out" in open_collection(tmp_path / "d").source
    (tmp_path / "d/e.png").unlink()
    write("d/c.txt", "caf\u00e9".encode("cp1252"))
    found = open_collection(tmp_path / "d")
    assert len(found.captions) == 2 and "texts left out that are not UTF-8: 1, e.g. c.txt" in found.source


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return path


DOTTED = {
    "train.v1/1.png": RED, "train.v1/1.txt": b"one",
    "22.05.png": RED, "22.05.txt": b"five", "22.06.png": BLUE, "22.06.txt": b"six",
    "photo.v2.png": LIME, "photo.v2.txt": b"version",
    "rest.left.png": RED, "rest.right.png": BLUE, "rest.txt": b"both",
    "alone.seg.png": LIME,
    "shot.1.png": RED, "shot.2.png": BLUE, "shot.3.png": LIME,
}  # fmt: skip
DOTTED_IDS = ["train.v1/1", "22.05", "22.06", "photo.v2", "rest", "alone", "shot.1", "shot.2", "shot.3"]


def test_dots_in_the_names_of_a_tar(tmp_path: Path) -> None:
    found = open_collection(write_tar(tmp_path / "a.tar", DOTTED))
    assert found.images["id"].to_pylist() == DOTTED_IDS
    assert dict(captions(found)) == {
        "train.v1/1": "one", "22.05": "five", "22.06": "six", "photo.v2": "version", "rest": "both",
    }  # fmt: skip
    assert "1 picture passed over whose sample has another before, e.g. rest.right.png" in found.source


def test_a_stream_has_the_ids_of_the_collection(tmp_path: Path) -> None:
    many = {f"IMG.{number:03d}.png": RED for number in range(150)}
    for name, members in {"a.tar": DOTTED, "b.tar": many}.items():
        path = write_tar(tmp_path / name, members)
        files = InputFiles(str(path))
        passed = PassedOver()
        streamed = list(files.pictures(files.files[0], passed))
        assert [picture.id for picture in streamed] == open_collection(path).images["id"].to_pylist()
        assert (passed.count, passed.first) == ((1, "rest.right.png") if name == "a.tar" else (0, ""))
        wanted = [members[picture.where.rpartition(": ")[2]] for picture in streamed]
        assert [picture.data for picture in streamed] == wanted


def test_keys_of_other_packers_of_tars(tmp_path: Path) -> None:
    found = open_collection(write_tar(tmp_path / "a.tar", {"1.img": RED, "1.cap": b"one"}))
    assert captions(found) == [("1", "one")] and colours(found) == [(255, 0, 0)]
    with refused(CollectionError, "no images in it", hint="1 .mp4"):
        open_collection(write_tar(tmp_path / "b.tar", {"1.mp4": b"x", "1.json": b"{}"}))


def test_a_tar_among_photos(write, tmp_path) -> None:
    for name in ("a.png", "b.png"):
        write(f"d/{name}", RED)
    write_tar(tmp_path / "d/backup.tar", {"x.dat": b"x"})
    assert "left out: 1 .tar" in open_collection(tmp_path / "d").source
    write_tar(tmp_path / "e/0.tar", {"1.png": RED})  # one preview beside shards
    write("e/preview.png", BLUE)
    assert open_collection(tmp_path / "e").images["id"].to_pylist() == ["1"]


def test_one_picture_is_a_collection(write) -> None:
    path = write("deep/One.PNG", RED)
    found = visir.open(path)
    assert found.images["id"].to_pylist() == ["One.PNG"] and colours(found) == [(255, 0, 0)]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl", "t.zip", "t.tar", "t.json"])
def test_a_pointer_of_git_lfs_is_called_one(write, name: str) -> None:
    with refused(CollectionError, "Git LFS pointer", hint="git lfs pull"):
        open_collection(write(name, LFS))


def test_files_of_another_kind_are_called_what_they_are(write, tmp_path) -> None:
    for name, content, words in (
        ("t.csv", "<!DOCTYPE html><html>", "an HTML page"),
        ("feed.xml", "<?xml version='1.0'?><rss/>", "XML"),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "office"),
    ):
        with refused(CollectionError, words, code="of-another-kind"):
            open_collection(write(name, content))
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as book:
        book.writestr("[Content_Types].xml", "<x/>")
        book.writestr("xl/workbook.xml", "<x/>")
    with refused(CollectionError, "office", code="of-another-kind", hint="read_excel"):
        open_collection(tmp_path / "t.xlsx")


def test_telling_a_folder_of_pictures_looks_at_no_file_twice_a_format(
    write, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures and what stands beside them are no sources of their own: none is opened to see whether it is one."""
    import visir.collections.sources as sources

    for number in range(40):
        for ending, data in (("png", RED), ("txt", b"one"), ("json", b"{}")):
            write(f"d/{number:03d}.{ending}", data)
    asked: list[Path] = []
    first = sources._first_format
    monkeypatch.setattr(sources, "_first_format", lambda path, *more: (asked.append(path), first(path, *more))[1])
    assert len(open_collection(tmp_path / "d").captions) == 40
    assert asked == [tmp_path / "d"]
    write("d/captions.txt", "image,caption\n000.png,two\n")
    assert open_collection(tmp_path / "d").captions["text"].to_pylist() == ["two"]
