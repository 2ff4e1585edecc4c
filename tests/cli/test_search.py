"""`visir search`: text to images and captions, picture to captions and images."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from verbs import say
from visir.library.cli.search import search

CORNERS = {"red": (0, 0), "green": (20, 0), "blue": (0, 20), "pink": (20, 20)}


def lit(corner: tuple[int, int]) -> Image.Image:
    """A dark square with one bright corner."""
    picture = Image.new("RGB", (40, 40), (10, 10, 10))
    picture.paste((250, 200, 150), (*corner, corner[0] + 20, corner[1] + 20))
    return picture


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, corner in CORNERS.items():
        lit(corner).save(folder / f"{name}.png")
    return folder


def test_a_picture_finds_pictures(photos: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.png"
    lit((2, 1)).resize((90, 90)).save(asked)
    said = say(search, photos, "--model", "pixels", "--image", asked, "-k", "2")
    assert said.status == 0, said.text
    lines = [line.split() for line in said.text.splitlines() if line.strip()[:1].isdigit()]
    assert [line[0] for line in lines] == ["1", "2"]
    assert "red" in lines[0][2]
    assert float(lines[0][1]) > float(lines[1][1])
    assert str(photos / "red.png") in said.text
    assert "captions for" not in said.text


def test_broken_pictures_are_set_aside_and_named(photos: Path) -> None:
    (photos / "a page.png").write_bytes(b"<html>")
    (photos / "cut.jpg").write_bytes(b"\xff\xd8 no picture")
    said = say(search, photos, "--model", "pixels", "--image", photos / "red.png", "-k", "9")
    assert said.status == 0, said.text
    lines = [line.split() for line in said.text.splitlines() if line.strip()[:1].isdigit()]
    assert [line[0] for line in lines if line[0].isdigit()][:4] == ["1", "2", "3", "4"]
    assert "set aside: image 'a page.png': not an image" in said.text and "'cut.jpg'" in said.text
    assert "2 broken in all; they were not searched" in said.text


def test_a_text_finds_captions() -> None:
    said = say(search, "scenes:40?size=64", "a red kite in the sky", "--model", "bow", "--to", "captions", "-k", "3")
    assert said.status == 0, said.text
    assert "captions for “a red kite in the sky”" in said.text
    assert "#" in said.text


def test_faults_are_named_at_once(photos: Path) -> None:
    said = say(search, photos, "--to", "image")
    assert said.status == 2
    for part in ("no model is named", "ask with a text or with --image FILE", "did you mean 'images'"):
        assert part in said.text
    broken = say(search, "scenes:40?size=64", "caf\udce9", "--model", "bow", "--to", "captions")
    assert broken.status == 2
    assert r"can't encode character '\udce9' in position 3" in broken.text and "in UTF-8" in broken.text
    filtered = say(search, photos, "red", "--model", "pixels", "--where", "width > 3", "--search-by", "words")
    assert filtered.status == 2 and "visir library make" in filtered.text
    assert "--where: for libraries" in filtered.text and "--search-by: for libraries" in filtered.text
    missing = say(search, photos, "--model", "pixels", "--image", photos / "rde.png")
    assert "in that folder there is 'red.png'" in missing.text
