"""CUB-200-2011 with the captions of Reed et al., in a small folder of the official layout."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from toys import jpeg

from cut_tars import ADDS_THE_MARK, CUTS, ENDED, NO_END, cut_tar, linked_tar, tar_of
from refusals import refused
from visir.collections import open_collection
from visir.collections.check import check
from visir.errors import CollectionError
from visir.evaluation.assembly import choose

IMAGES = {
    "1": "001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.jpg",
    "2": "001.Black_footed_Albatross/Black_Footed_Albatross_0002_55.jpg",
    "3": "002.Laysan_Albatross/Laysan_Albatross_0001_545.jpg",
    "4": "002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg",  # no captions
    "5": "009.Brewer_Blackbird/Brewer_Blackbird_0001_2616.jpg",  # spelt otherwise in the captions
}
CLASSES = {"1": "001.Black_footed_Albatross", "2": "002.Laysan_Albatross", "9": "009.Brewer_Blackbird"}
CUB = {
    "images.txt": "".join(f"{number} {name}\n" for number, name in IMAGES.items()),
    "image_class_labels.txt": "1 1\n2 1\n3 2\n4 2\n5 9\n",
    "classes.txt": "".join(f"{number} {name}\n" for number, name in CLASSES.items()),
    "train_test_split.txt": "1 0\n2 1\n3 0\n4 1\n5 1\n",
    "bounding_boxes.txt": "".join(f"{number} 60.0 27.0 325.0 {number}.5\n" for number in IMAGES),
}


def ten(word: str) -> str:
    """Ten lines as Reed's files have them: spaces around stops, some at the end, one letter outside ASCII."""
    lines = [f"this bird is {word} , with a caf\u00e9 bill number {n} ." + (" " if n % 2 else "") for n in range(10)]
    return "\n".join(lines) + "\n"


REED = {
    "text_c10/001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.txt": ten("black"),
    "text_c10/001.Black_footed_Albatross/Black_Footed_Albatross_0002_55.txt": ten("brown"),
    "text_c10/002.Laysan_Albatross/Laysan_Albatross_0001_545.txt": ten("white").removesuffix("\n"),
    "text_c10/009.Brewers_Blackbird/Brewers_Blackbird_0001_2616.txt": ten("dark"),
    "text_c10/001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.h5": "binary, of no use here",
    "trainclasses.txt": "001.Black_footed_Albatross\n",
    "valclasses.txt": "009.Brewer_Blackbird",
    "testclasses.txt": "002.Laysan_Albatross\n",
    "trainvalclasses.txt": "001.Black_footed_Albatross\n009.Brewer_Blackbird\n",
    "manifest.txt": "001.Black_footed_Albatross.t7\n",
}


@pytest.fixture
def folder(write, tmp_path) -> Path:
    """`CUB_200_2011/` with pictures and `cvpr2016_cub/` beside it; image 4 has a picture, but no captions."""
    for name, text in CUB.items():
        write(f"CUB_200_2011/{name}", text)
    for name in IMAGES.values():
        write(f"CUB_200_2011/images/{name}", jpeg())
    for name, text in REED.items():
        write(f"cvpr2016_cub/{name}", text)
    return tmp_path


def test_the_official_layout_by_class(folder) -> None:
    found = open_collection(folder)
    assert found.describe()["splits"] == {"test": 2, "train": 2, "val": 1}
    assert found.images["id"].to_pylist() == ["1", "2", "3", "4", "5"]
    assert found.images["path"].null_count == 0
    assert found.captions.num_rows == 40
    first, second = found.captions.slice(0, 2).to_pylist()
    assert first == {"id": "1#0", "text": "this bird is black , with a caf\u00e9 bill number 0 .", "image_id": "1"}
    assert second["text"].endswith(" . ")  # kept as it is
    assert found.captions["text"].to_pylist()[-1] == "this bird is dark , with a caf\u00e9 bill number 9 . "
    assert "1 image has no file of captions" in found.source
    assert "5 images (published: 11,788), 3 classes (published: 200), 40 captions (published: 117,880)" in found.source


def test_facts(folder) -> None:
    rows = open_collection(folder).facts.to_pylist()
    assert rows[4] == {
        "image_id": "5",
        "file": IMAGES["5"],
        "class_id": 9,
        "class": "009.Brewer_Blackbird",
        "x": 60.0,
        "y": 27.0,
        "width": 325.0,
        "height": 5.5,
        "official_split": "train",
    }
    for file in ("bounding_boxes.txt", "train_test_split.txt"):
        (folder / "CUB_200_2011" / file).unlink()
    without = open_collection(folder).facts
    assert without.column_names == ["image_id", "file", "class_id", "class"]


def test_the_folder_itself_opens_too_and_captions_may_lie_inside(folder) -> None:
    outside = open_collection(folder)
    assert open_collection(folder / "CUB_200_2011").fingerprint == outside.fingerprint
    (folder / "cvpr2016_cub").rename(folder / "CUB_200_2011" / "cub_icml")
    assert open_collection(folder / "CUB_200_2011").fingerprint == outside.fingerprint


def test_other_splits(folder) -> None:
    assert open_collection(folder, splits="images").describe()["splits"] == {"test": 2, "train": 3}
    assert open_collection(folder, splits="none").splits == ("",)
    (folder / "cvpr2016_cub" / "valclasses.txt").unlink()
    assert open_collection(folder).describe()["splits"] == {"test": 2, "train": 2, "unlisted": 1}


@pytest.mark.parametrize("name", ["cvpr2016_cub.zip", "cvpr2016_cub.tar", "cvpr2016_cub.tar.gz"])
def test_captions_from_the_unopened_archive(folder, write, name: str) -> None:
    plain = open_collection(folder)
    (folder / "cvpr2016_cub").rename(folder / "elsewhere")
    (folder / "elsewhere" / "text_c10").rename(folder / "elsewhere" / "hidden")
    members = {f"cvpr2016_cub/{key}": text.encode() for key, text in REED.items()}
    if name.endswith(".gz"):
        write(name, gzip.compress(write("whole.tar", members).read_bytes()))
    else:
        write(name, members)
    found = open_collection(folder)
    assert found.fingerprint == plain.fingerprint
    assert f"captions from {name}" in found.source


PACKED = {f"cvpr2016_cub/{key}": text.encode() for key, text in reversed(REED.items())}  # a file of captions ends it


@pytest.mark.parametrize("name", CUTS)
def test_captions_in_an_archive_that_was_cut_are_refused(folder, write, name: str) -> None:
    path = write(f"x/{name}", cut_tar(name, PACKED))
    with pytest.raises(CollectionError, match=rf"{re.escape(name)}: not a readable tar \({CUTS[name]}") as caught:
        open_collection(folder, captions=path)
    remedy = ADDS_THE_MARK if CUTS[name] == NO_END else "is the download complete?"
    assert re.search(remedy, caught.value.hint)


def test_captions_found_in_an_archive_that_was_cut_are_refused(folder, write) -> None:
    (folder / "cvpr2016_cub").rename(folder / "elsewhere")
    (folder / "elsewhere" / "text_c10").rename(folder / "elsewhere" / "hidden")
    write("cvpr2016_cub.tar.gz", cut_tar("cut-checksum.tar.gz", PACKED))
    with pytest.raises(CollectionError, match=rf"cvpr2016_cub\.tar\.gz: not a readable tar \({ENDED}"):
        open_collection(folder)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_links_in_an_archive_are_told_and_what_goes_on_behind_its_end_is_refused(folder, write, pack) -> None:
    """The captions of picture 4 are a link to those of another, which is no text of theirs."""
    lost = "cvpr2016_cub/text_c10/002.Laysan_Albatross/Laysan_Albatross_0002_1027.txt"
    path = write("x/captions.tar", pack(linked_tar(PACKED, lost, "cvpr2016_cub/README")))
    found = open_collection(folder, captions=path)
    assert found.captions.num_rows == 40
    note = f"1 link in tars passed over, e.g. captions.tar: {lost} (pack the files themselves: tar --dereference"
    assert note in found.source and "1 image has no file of captions" in found.source
    path = write("x/two.tar", pack(tar_of(PACKED) + tar_of({"text_c10/009.x/more.txt": b"lost"})))
    with refused(CollectionError, "two.tar", code="goes-behind-mark-end") as c:
        open_collection(folder, captions=path)
    assert c.value.hint == "as of tars joined by cat: unpack it with tar --ignore-zeros, and pack it again"


def test_missing_parts_name_what_to_get(folder, tmp_path) -> None:
    (folder / "cvpr2016_cub" / "text_c10").rename(folder / "texts")
    with refused(CollectionError, code="captions-of-reed-missing"):
        open_collection(folder)
    found = open_collection(folder, captions=folder / "texts", classes=folder / "cvpr2016_cub")
    assert found.splits == ("test", "train", "val")
    with refused(CollectionError, code="no-lists-classes-trainclasses"):
        open_collection(folder, captions=folder / "texts")
    with refused(CollectionError, code="no-trainclasses-txt-valclasses", hint=False):
        open_collection(folder, captions=folder / "texts", classes=folder / "texts")
    with refused(CollectionError, "nowhere", code="collection-not-exist"):
        open_collection(folder, captions=tmp_path / "nowhere")
    (folder / "CUB_200_2011" / "train_test_split.txt").unlink()
    with refused(CollectionError, code="no-train-test-split"):
        open_collection(folder, captions=folder / "texts", splits="images")
    (folder / "CUB_200_2011" / "classes.txt").unlink()
    with refused(CollectionError, "classes.txt", code="not-cub-no"):
        open_collection(f"cub:{folder}")


def test_every_fault_is_named_at_once(folder, write) -> None:
    write("CUB_200_2011/images.txt", CUB["images.txt"] + "6\n1 again.jpg\n7 lost.jpg\n")
    write("CUB_200_2011/bounding_boxes.txt", "1 60.0 27.0 325.0\n")
    write("CUB_200_2011/train_test_split.txt", "1 yes\n")
    write("cvpr2016_cub/testclasses.txt", "002.Laysan_Albatross\n001.Black_footed_Albatross\n300.Dodo\n")
    with pytest.raises(CollectionError) as caught:
        open_collection(folder)
    for text in (
        "images.txt, line 6: expected an id and a value, found '6'",
        "images.txt, line 7: id 1 is there a second time",
        "image 7 (lost.jpg): image_class_labels.txt and classes.txt give no class",
        "bounding_boxes.txt, image 1: expected x y width height, found '60.0 27.0 325.0'",
        "train_test_split.txt, image 1: expected 0 or 1, found 'yes'",
        "class '001.Black_footed_Albatross' is in the lists of train and of test",
        "testclasses.txt: unknown class '300.Dodo'",
    ):
        assert text in str(caught.value)


def test_captions_that_are_not_utf8_name_the_file_and_line(folder, write) -> None:
    name = next(iter(REED))
    write(f"cvpr2016_cub/{name}", b"fine\nna\xefve\n")
    with refused(CollectionError, "Black_Footed_Albatross_0001_796111.txt", "2", code="not-utf-8"):
        open_collection(folder)


def test_empty_lines_keep_the_others_places_and_strange_files_are_told(folder, write) -> None:
    write(f"cvpr2016_cub/{next(iter(REED))}", "one\n\nthree\r\n\n")
    write("cvpr2016_cub/text_c10/002.Laysan_Albatross/Laysan_Albatross_0099_7.txt", "nobody's\n")
    found = open_collection(folder)
    own = [(row["id"], row["text"]) for row in found.captions.to_pylist() if row["image_id"] == "1"]
    assert own == [("1#0", "one"), ("1#2", "three")]
    assert "1 files of captions fit no image (the first: class 002_0099_7)" in found.source


def test_check_tells_a_listed_picture_that_is_absent(folder) -> None:
    (folder / "CUB_200_2011" / "images" / IMAGES["2"]).unlink()
    report = check(str(folder), decode=False)
    assert [(one.kind, one.examples) for one in report.findings if one.level == "error"] == [
        ("images without a picture", ("'2'",))
    ]


def test_one_random_caption_per_image_as_the_thesis_takes(folder) -> None:
    test = open_collection(folder, split="train+val")
    chosen = choose(test, "random(seed=0)")
    assert chosen.captions["image_id"].to_pylist() == ["1", "2", "5"]
    assert set(chosen.captions["text"].to_pylist()) <= set(test.captions["text"].to_pylist())
    assert choose(test, "random(seed=1)").fingerprint != chosen.fingerprint
    assert choose(test, "all").captions.num_rows == 30
