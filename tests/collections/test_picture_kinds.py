"""Which files in a folder are pictures, what is said of the others, and how large a picture may be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from toys import jpeg

import visir
from refusals import refused
from visir.collections import picture_kinds
from visir.collections.images import ImageReader, decode
from visir.errors import CollectionError, ConfigurationError, ImageError


def heic(colour: str = "red") -> bytes:
    import pillow_heif

    pillow_heif.register_heif_opener()
    stream = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(stream, "HEIF", quality=90)
    return stream.getvalue()


def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_kinds, "has_heif", lambda: False)


def test_pictures_of_phones_are_read() -> None:
    pytest.importorskip("pillow_heif", reason="pip install 'visir[heif]'")
    Path("photos").mkdir()
    Path("photos/IMG_1.HEIC").write_bytes(heic())
    Path("photos/b.jpg").write_bytes(jpeg())
    photos = visir.open("photos")
    assert photos.images["id"].to_pylist() == ["IMG_1.HEIC", "b.jpg"]
    red = ImageReader(photos).open(0).getpixel((9, 9))
    assert isinstance(red, tuple)
    assert red[0] > 240
    assert red[1] < 15


def test_what_was_left_out_is_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    without_heif(monkeypatch)
    Path("photos").mkdir()
    for name in ("a.heic", "b.HEIC", "c.heif", "clip.mov", "raw.CR2", "notes.txt", ".hidden", "README"):
        Path("photos", name).write_bytes(b"nothing")
    with refused(CollectionError, "photos", code="no-pictures-read") as fault:
        visir.open("photos")
    expected = (
        "left out: 2 .heic (pip install 'visir[heif]'), 1 .heif (pip install 'visir[heif]'), "
        "1 .cr2 (camera RAW: save them as JPEG first), 1 .mov, 1 .txt, 1 without ending"
    )
    assert fault.value.hint == expected
    Path("photos/one.JPG").write_bytes(jpeg())
    photos = visir.open("photos")
    assert photos.images["id"].to_pylist() == ["one.JPG"]
    assert photos.source == f"photos in photos; {expected}"


def test_a_folder_of_other_things_says_what_is_in_it() -> None:
    Path("other").mkdir()
    for name in ("a.pdf", "b.pdf", "c.mov"):
        Path("other", name).write_bytes(b"x")
    with refused(CollectionError, "collections", "its files", "1 .mov", "2 .pdf", code="no-known-format"):
        visir.open("other")
    Path("empty").mkdir()
    with pytest.raises(CollectionError, match=r"no known format of collections \(no files in it\)"):
        visir.open("empty")


def test_a_picture_whose_name_has_no_ending() -> None:
    Path("photos/2023.05").mkdir(parents=True)
    Path("photos/3f2a").write_bytes(jpeg())
    Path("photos/2023.05/holiday.1").write_bytes(jpeg(form="PNG"))
    Path("photos/notes").write_text("no picture")
    photos = visir.open("photos")
    assert photos.images["id"].to_pylist() == ["2023.05/holiday.1", "3f2a"]
    assert "left out: 1 without ending" in photos.source


def test_pictures_far_down_in_a_folder() -> None:
    Path("photos/2023/05/12/camera").mkdir(parents=True)
    Path("photos/2023/05/12/camera/a.jpg").write_bytes(jpeg())
    assert visir.open("photos").images["id"].to_pylist() == ["2023/05/12/camera/a.jpg"]


def test_a_picture_of_a_phone_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_heif(monkeypatch)
    with refused(ImageError, "image", "x", "HEIC picture", "as phones make them", code="not-image") as fault:
        decode(b"\0\0\0\x18ftypheic" + bytes(40), "image 'x'")
    assert fault.value.hint == "pip install 'visir[heif]'"


def test_the_limit_of_pixels_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    Image.new("1", (16_320, 12_240)).save(stream, "PNG")  # 200 megapixels, as phones of today take them
    with pytest.raises(ImageError) as fault:
        decode(stream.getvalue(), "image 'p.jpg'")
    assert fault.value.message == (
        "image 'p.jpg': 16320 × 12240 = 199,756,800 pixels, "
        "over the limit of 89,478,485 pixels (a decompression bomb?)."
    )
    assert "VISIR_MAX_PIXELS=199756800 before the command" in fault.value.hint
    monkeypatch.setenv("VISIR_MAX_PIXELS", "1000")
    with refused(ImageError, "1,000", code="over-limit-pixels-decompression"):
        decode(jpeg(size=(40, 30)), "x")
    monkeypatch.setenv("VISIR_MAX_PIXELS", "1.2e3")
    assert decode(jpeg(size=(40, 30)), "x").size == (40, 30)
    monkeypatch.setenv("VISIR_MAX_PIXELS", "none")
    assert decode(jpeg(size=(40, 30)), "x").size == (40, 30)
    monkeypatch.setenv("VISIR_MAX_PIXELS", "many")
    with refused(ConfigurationError, "many", code="visir-max-pixels-no"):
        decode(jpeg(), "x")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
