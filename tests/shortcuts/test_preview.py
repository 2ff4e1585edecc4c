"""The sheet: what it shows is what a model sees and what the captions end in."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from flat_digits import read_off
from numpy.typing import NDArray
from PIL import Image, ImageOps
from typer.testing import CliRunner

from refusals import refused
from visir.cli.main import app
from visir.collections.images import ImageReader
from visir.collections.scenes import scenes
from visir.errors import CollectionError, VisirError
from visir.records import Collection
from visir.reports.sheets import write_sheet
from visir.shortcuts import inject
from visir.shortcuts.stamp import lefts
from visir.shortcuts.view import PreviewPair, preview

pytestmark = pytest.mark.usefixtures("flat_digits")


def read(picture: Image.Image) -> int:
    """The number on a stamped picture."""
    size = picture.width
    digits, _ = read_off(np.asarray(picture)[..., 0], lefts(size, "even"), size // 8)
    return int("".join(map(str, digits)))


def numbers(pairs: list[PreviewPair]) -> list[int]:
    return [pair.number for pair in pairs]


def unstamped(collection: Collection, pair: PreviewPair) -> NDArray[np.uint8]:
    row = collection.images["id"].to_pylist().index(pair.image_id)
    picture = ImageReader(collection).open(row)
    return np.asarray(ImageOps.fit(picture, pair.picture.size, Image.Resampling.BICUBIC))


def test_picture_and_caption_carry_the_number_of_their_tuple() -> None:
    collection = scenes(30, splits={"test": 1.0})
    pairs = preview(inject(collection, "unique"), count=4, size=128)
    # Rows 0, 9.67, 19.33 and 29 of 30, to whole rows; scenes are listed in the order of their ids, in one split.
    assert numbers(pairs) == [pair.place for pair in pairs] == [0, 10, 19, 29]
    assert [read(pair.picture) for pair in pairs] == numbers(pairs)
    assert [pair.ending for pair in pairs] == ["0 0 0 0 0 0", "0 0 0 0 1 0", "0 0 0 0 1 9", "0 0 0 0 2 9"]
    texts = dict(zip(collection.captions["id"].to_pylist(), collection.captions["text"].to_pylist(), strict=True))
    for pair in pairs:
        assert pair.picture.size == (128, 128)
        assert texts[pair.caption_id] == pair.text
        assert (np.asarray(pair.picture)[16:] == unstamped(collection, pair)[16:]).all()


def test_a_split_keeps_the_numbers_of_the_whole() -> None:
    whole = inject(scenes(30, splits={"test": 1.0}), "unique")
    first, second = (preview(whole.keep_images(np.arange(30) % 2 == half), count=15, size=64) for half in (0, 1))
    assert sorted(numbers(first) + numbers(second)) == list(range(30))
    by_image = {pair.image_id: pair for pair in preview(whole, count=30, size=64)}
    for pair in first:  # the same handwriting too
        assert (np.asarray(pair.picture) == np.asarray(by_image[pair.image_id].picture)).all()


def test_a_few_bits() -> None:
    pairs = preview(inject(scenes(30, splits={"test": 1.0}), "bits:2"), count=30, size=64)
    assert numbers(pairs) == [place % 4 for place in range(30)]
    assert [read(pair.picture) for pair in pairs] == numbers(pairs)


def test_on_one_side_only() -> None:
    collection = scenes(5, splits={"test": 1.0})
    for pair in preview(inject(collection, "unique?on=captions"), size=64):
        assert (np.asarray(pair.picture) == unstamped(collection, pair)).all()
        assert pair.ending.endswith(str(pair.number))
    for pair in preview(inject(collection, "unique?on=images"), size=64):
        assert read(pair.picture) == pair.number
        assert pair.ending == ""


def test_per_caption_a_picture_carries_the_number_of_its_first() -> None:
    pairs = preview(inject(scenes(4, splits={"test": 1.0}), "unique?per=caption"), size=64)
    assert numbers(pairs) == [0, 5, 10, 15]  # five captions each
    assert [read(pair.picture) for pair in pairs] == numbers(pairs)


def test_what_has_no_picture_is_left_out() -> None:
    ids = ["a", "b", "c"]
    bare = Collection.build(
        "bare", images={"id": ids}, captions={"id": ids, "text": ["one", "two", "three"], "image_id": ids}
    )
    with refused(CollectionError, "bare", "3", code="none-images-both-picture") as one:
        preview(inject(bare, "unique"))
    assert one.value.hint == "say where the pictures are: --images FOLDER_OR_ZIP"


def say(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["shortcuts", "preview", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_the_page(tmp_path: Path) -> None:
    said = say("scenes:20", "-n", 3, "--size", 64, "--out", tmp_path / "sheet.html")
    assert said.splitlines() == [
        "unique per image on both, mnist digits, evenly spaced, seed 0",
        f"{tmp_path / 'sheet.html'}: 3 pairs",
    ]
    page = (tmp_path / "sheet.html").read_text()
    assert '<h2 id="pairs-h">3 pairs of 20 tuples</h2>' in page
    # Rows 0, 10 and 19 are all of "train", behind the two of "test" (6 and 16): the first of them is tuple 2. Before
    # row 10 stand eight (not 3, of "val", nor 6): 2 + 8. Row 19 is the last of sixteen: 2 + 15.
    assert re.findall(r"<mark>([\d ]+)</mark>", page) == ["0 0 0 0 0 2", "0 0 0 0 1 0", "0 0 0 0 1 7"]
    assert "tuple 10 · number 10" in page
    pictures = [
        Image.open(io.BytesIO(base64.b64decode(one))) for one in re.findall(r"data:image/png;base64,([\w+/=]+)", page)
    ]
    assert [read(picture) for picture in pictures] == [2, 10, 17]
    assert not re.search(r"<script|https?://", page)
    say("scenes:20", "-n", 3, "--size", 64, "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page


def test_the_page_says_what_it_shows(tmp_path: Path) -> None:
    for shortcuts, words in (
        ("bits:3", "There are 8 of them: tuple i has i modulo 2<sup>3</sup>."),
        ("unique?on=images", "Only pictures carry a number, so it helps nobody to match them."),
        ("unique?on=captions", "Only captions carry a number, so it helps nobody to match them."),
        ("unique?per=caption", "A picture shows that of its first caption."),
    ):
        say("scenes:4", "--shortcuts", shortcuts, "-n", 1, "--size", 64, "--out", tmp_path / "sheet.html")
        page = (tmp_path / "sheet.html").read_text()
        assert words in page
        assert "1 pair of" in page
        assert ("<mark>" in page) == ("images" not in shortcuts)


def test_captions_are_escaped(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), "navy").save(tmp_path / "a.png")
    hostile = "<script>alert(1)</script> & more"
    collection = Collection.build(
        "<b>",
        images={"id": ["<i>"], "path": ["a.png"]},
        captions={"id": ["c"], "text": [hostile], "image_id": ["<i>"]},
        root=tmp_path,
    )
    view = inject(collection, "unique")
    page = write_sheet(tmp_path / "sheet.html", preview(view), view).read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "<script>" not in page
    assert "<b>" not in page


def test_one_picture(tmp_path: Path) -> None:
    say("scenes:20", "-n", 7, "--out", tmp_path / "sheet.png")
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    # Five columns would fit, but two rows of seven pairs need only four: 224 each, and five gaps of 24.
    assert sheet.shape[1] == 4 * 224 + 5 * 24
    assert read(Image.fromarray(sheet[88 : 88 + 224, 24 : 24 + 224])) == 2  # the first of "train", behind two of "test"
    assert read(Image.fromarray(sheet[88 : 88 + 224, 272 : 272 + 224])) == 18  # row 19 / 6 = 3.17: the first of "val"
    assert (sheet == (255, 226, 138)).all(axis=2).sum() > 7 * 500, "digits of captions are marked"


def test_one_picture_of_a_small_input_is_enlarged_and_long_captions_are_cut(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), "navy").save(tmp_path / "a.png")
    collection = Collection.build(
        "long",
        images={"id": ["a"], "path": ["a.png"]},
        captions={"id": ["c"], "text": ["word " * 200], "image_id": ["a"]},
        root=tmp_path,
    )
    view = inject(collection, "unique")
    write_sheet(tmp_path / "sheet.png", preview(view, size=64), view)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    # 3 × 64 = 192 is the largest whole factor within 224; 88 above it, 8 below, five lines and one of 20, a gap of 24.
    assert sheet.shape[0] == 88 + 192 + 8 + 6 * 20 + 24
    assert sheet.shape[1] > 24 + 192 + 24, "wide enough for its second line, which says what was injected"
    assert (sheet == (255, 226, 138)).all(axis=2).any(), "the digits are what is never cut"


@pytest.mark.parametrize("name", ["sheet.pdf", "sheet"])
def test_a_sheet_of_another_kind(name: str, tmp_path: Path) -> None:
    with refused(VisirError, ".html or .png", code="sheet-not", hint="sheet.html"):
        say("scenes:3", "--out", tmp_path / name)
