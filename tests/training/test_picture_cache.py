"""Decoded pictures on disk: whole or absent, whoever is killed, whatever runs beside."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refusals import refused
from visir.errors import ImageError, VisirError
from visir.files import cache_directory
from visir.records import Collection
from visir.training.inputs import PictureCache, scaled


def pictures(folder: Path, sizes: list[tuple[int, int]]) -> Collection:
    """Noise of the given (width, height), as PNG files."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number, (width, height) in enumerate(sizes):
        Image.fromarray(rng.integers(256, size=(height, width, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    ids = [str(number) for number in range(len(sizes))]
    return Collection.build("noise", images={"id": ids, "path": [f"{one}.png" for one in ids]}, root=folder)


def made() -> list[Path]:
    """The finished ones."""
    return sorted(path.parent for path in (cache_directory() / "pictures").rglob("visir.json"))


def begun() -> list[Path]:
    """The files of all, finished or not."""
    return [path for path in (cache_directory() / "pictures").rglob("*") if path.is_file()]


def test_pictures_come_back_scaled_and_never_enlarged(tmp_path: Path) -> None:
    collection = pictures(tmp_path / "in", [(90, 60), (40, 100), (20, 15), (30, 30)])
    cache = PictureCache(collection, 30)
    assert len(cache) == 4
    # 90 × 60 at a shorter side of 30 is 45 × 30; 40 × 100 is 30 × 75; the others are small enough as they are.
    assert [cache.open(row).size for row in range(4)] == [(45, 30), (30, 75), (20, 15), (30, 30)]
    for row in range(4):
        original = Image.open(tmp_path / "in" / f"{row}.png")
        assert (np.asarray(cache.open(row)) == np.asarray(scaled(original, 30))).all()
    assert (np.asarray(cache.open(2)) == np.asarray(Image.open(tmp_path / "in" / "2.png"))).all()


def test_it_is_made_once_and_again_when_a_picture_or_the_size_changes(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    collection = pictures(folder, [(20, 20), (30, 20)])
    PictureCache(collection, 16)
    stamp = (made()[0] / "pixels.u8").stat().st_mtime_ns
    PictureCache(collection, 16)
    assert len(made()) == 1 and (made()[0] / "pixels.u8").stat().st_mtime_ns == stamp
    PictureCache(collection, 12)
    assert len(made()) == 2
    Image.new("RGB", (40, 20), "red").save(folder / "1.png")
    assert PictureCache(collection, 16).open(1).getpixel((3, 3)) == (255, 0, 0)
    assert len(made()) == 3


def test_another_order_is_not_mistaken_for_this_one(tmp_path: Path) -> None:
    collection = pictures(tmp_path / "in", [(20, 20), (30, 20)])
    turned = Collection.build("noise", images={"id": ["1", "0"], "path": ["1.png", "0.png"]}, root=tmp_path / "in")
    one, other = PictureCache(collection, 16), PictureCache(turned, 16)
    assert (np.asarray(one.open(0)) == np.asarray(other.open(1))).all()


def test_a_broken_picture_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    collection = pictures(tmp_path / "in", [(20, 20), (30, 20)])
    (tmp_path / "in" / "1.png").write_bytes(b"")
    with refused(ImageError, "image", "1", "1.png", code="file-empty-bytes"):
        PictureCache(collection, 16)
    assert begun() == []


def test_a_truncated_cache_is_put_aside_and_made_again(tmp_path: Path) -> None:
    collection = pictures(tmp_path / "in", [(20, 20)])
    PictureCache(collection, 16)
    pixels = made()[0] / "pixels.u8"
    os.truncate(pixels, 100)
    with pytest.warns(UserWarning, match=r"damaged \(pixels.u8 has 100 bytes, 768 were written\); it is made again"):
        assert PictureCache(collection, 16).open(0).size == (16, 16)
    assert PictureCache(collection, 16).open(0).size == (16, 16)


def test_no_pictures(tmp_path: Path) -> None:
    assert len(PictureCache(pictures(tmp_path / "in", []), 16)) == 0


def test_too_little_room_is_found_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 100 pictures of 16 × 16: 100 · 768 = 76,800 bytes, of which 64 · 768 = 49,152 are written when it looks; 27,648
    # are still to come.
    collection = pictures(tmp_path / "in", [(16, 16)] * 100)
    free = 27_647
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - free, free))
    with refused(
        VisirError, "too little room", "100", "about 76,800 bytes", code="cannot-written-decoded-pictures"
    ) as e:
        PictureCache(collection, 16)
    assert "image.cache=0" in e.value.hint and begun() == []
    free = 27_648
    assert len(PictureCache(collection, 16)) == 100


def test_a_full_disk_says_what_is_needed(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    collection = pictures(tmp_path / "in", [(200, 200)] * 4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))  # the second picture does not fit
    try:
        with pytest.raises(VisirError, match=r"File too large\); 4 decoded pictures need about 480,000 bytes") as fault:
            PictureCache(collection, 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "image.cache=0" in fault.value.hint and begun() == []


def _make(folder: Path, answers: multiprocessing.Queue[object]) -> None:
    cache = PictureCache(pictures_there(folder), 48)
    answers.put([np.asarray(cache.open(row)).sum().item() for row in range(len(cache))])


def pictures_there(folder: Path) -> Collection:
    ids = [str(number) for number in range(len(list(folder.glob("*.png"))))]
    return Collection.build("noise", images={"id": ids, "path": [f"{one}.png" for one in ids]}, root=folder)


def test_two_processes_that_want_the_same_both_get_it(tmp_path: Path) -> None:
    pictures(tmp_path / "in", [(100, 100)] * 60)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    both = [context.Process(target=_make, args=(tmp_path / "in", answers)) for _ in range(2)]
    for one in both:
        one.start()
    found = [answers.get(timeout=60) for _ in both]
    for one in both:
        one.join(60)
    assert found[0] == found[1] and len(made()) == 1


def test_after_a_kill_it_is_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    collection = pictures(folder, [(300, 300)] * 200)
    script = (
        "import sys; from pathlib import Path; sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)];"
        "import test_picture_cache as t;"
        "t.PictureCache(t.pictures_there(Path(sys.argv[2])), 200)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(Path(__file__).parent), str(folder)])
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in begun() if path.name == "pixels.u8"):
        assert process.poll() is None and time.monotonic() < deadline, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert made() == []
    cache = PictureCache(collection, 200)
    last = np.asarray(scaled(Image.open(folder / "199.png"), 200))
    assert (np.asarray(cache.open(199)) == last).all()
    assert sorted(path.name for path in begun()) == sorted(["pixels.u8", "shapes.npy", "visir.json"])
