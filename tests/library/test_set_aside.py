"""Photos that cannot be read: what may pass is tried again at each update, what is in their bytes is not."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from library_toys import draw
from PIL import Image

from visir.collections import images, picture_kinds
from visir.library.layout import LibraryCard
from visir.library.updating import update


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", range(3))
    return tmp_path / "photos"


def refuse(ending: str, why: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading such files fails, as it does for a user who may not (tests may run as root), or on a failing disk."""
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if str(path).endswith(ending):
            raise OSError(why, os.strerror(why), str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)


@pytest.mark.parametrize("why", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_new_photo_that_could_not_be_read_is_tried_again(
    photos: Path, tmp_path: Path, why: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "library"
    with monkeypatch.context() as patch:
        refuse("0.png", why, patch)
        assert list(update(photos, at, model="pixels").broken) == ["0.png"]
        before = LibraryCard.read(at).generation
        for _ in range(3):
            assert update(None, at).same
        assert LibraryCard.read(at).generation == before and not (at / "work").exists()
    report = update(None, at)
    assert (report.added, dict(report.broken)) == (1, {})


def test_a_known_photo_that_cannot_be_read_for_now_is_kept(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    os.utime(photos / "0.png")
    with monkeypatch.context() as patch:
        refuse("0.png", errno.EACCES, patch)
        for _ in range(2):
            report = update(None, at)
            assert (report.items, report.encoded, dict(report.broken)) == (3, 0, {})
            assert "Permission denied" in report.unavailable["0.png"]
            assert "check its permissions" in report.unavailable["0.png"]
    report = update(None, at)
    assert (report.items, report.encoded, dict(report.unavailable)) == (3, 0, {})


def test_memory_that_was_short_ends_no_update(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = tmp_path / "library"
    with monkeypatch.context() as patch:

        def to_rgb(image: Image.Image, **options: object) -> Image.Image:
            raise MemoryError

        update(photos, at, model="pixels")
        draw(photos, range(4))
        patch.setattr(images, "to_rgb", to_rgb)
        assert [*update(None, at).broken] == ["odd/3.png"]
    assert update(None, at).added == 1


def test_a_limit_that_was_raised(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says which number is enough, and with it the photo is taken."""
    at = tmp_path / "library"
    Image.new("RGB", (300, 200)).save(photos / "large.png")
    monkeypatch.setenv("VISIR_MAX_PIXELS", "50000")
    report = update(photos, at, model="pixels")
    assert report.items == 3 and "VISIR_MAX_PIXELS=60000" in report.broken["large.png"]
    assert update(None, at).broken == report.broken
    monkeypatch.setenv("VISIR_MAX_PIXELS", "60000")
    assert update(None, at).items == 4


def test_a_package_that_was_installed(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a phone's picture under another name: with pillow-heif they are tried again."""
    at = tmp_path / "library"
    (photos / "phone.jpg").write_bytes(b"\0\0\0\x18ftypheic" + bytes(64))
    monkeypatch.setattr(picture_kinds, "_has_heif", lambda moment: False)
    report = update(photos, at, model="pixels")
    assert "pip install 'visir[heif]'" in report.broken["phone.jpg"]
    monkeypatch.setattr(images, "decoders", lambda: "newer")
    monkeypatch.setattr("visir.library.plan.decoders", lambda: "newer")
    reads: list[str] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (reads.append(path.name), real(path))[1])
    update(None, at)
    assert "phone.jpg" in reads


def test_what_is_in_the_bytes_is_not_read_again(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = tmp_path / "library"
    (photos / "bad.png").write_bytes((photos / "0.png").read_bytes()[:300])
    assert [*update(photos, at, model="pixels").broken] == ["bad.png"]
    refuse("bad.png", errno.EIO, monkeypatch)
    assert "truncated" in update(None, at).broken["bad.png"]


def test_a_picture_of_a_product_is_tried_again(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at, table = tmp_path / "library", tmp_path / "shop.csv"
    table.write_text("id,title,price,image\na,a kite,5,photos/0.png\nb,a boat,7,photos/odd/1.png\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        refuse("0.png", errno.EIO, patch)
        report = update(table, at, model="colours")
        assert report.items == 2 and [*report.broken] == ["a: 0.png"]
        before = LibraryCard.read(at).generation
        assert [*update(None, at).broken] == ["a: 0.png"]
        assert LibraryCard.read(at).generation == before
    report = update(None, at)
    assert dict(report.broken) == {} and report.encoded == 1
    assert update(None, at).same


def test_another_photo_of_the_same_size_and_time_is_noticed(photos: Path, tmp_path: Path) -> None:
    """Its entry in the file system has a time of change that no program sets."""
    at, path = tmp_path / "library", photos / "0.bmp"
    Image.new("RGB", (8, 8), "red").save(path)
    update(photos, at, model="pixels")
    status = path.stat()
    Image.new("RGB", (8, 8), "blue").save(tmp_path / "other.bmp")
    shutil.copy(tmp_path / "other.bmp", path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert update(None, at).changed == 1


def test_marks_of_an_earlier_version_are_not_read_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visir.encoders import store

    at = tmp_path / "library"
    real = store._stat
    with monkeypatch.context() as patch:
        patch.setattr(store, "_stat", lambda path: store.without_change(real(path)))
        update(photos, at, model="pixels")
    with monkeypatch.context() as patch:
        refuse(".png", errno.EIO, patch)
        report = update(None, at)
    assert report.items == 3 and report.encoded == 0 and not report.unavailable
    assert update(None, at).same
