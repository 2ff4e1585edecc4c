"""A library that is put where the user's files are: nothing of theirs is removed, whatever it is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

NAMES = ("work", "captions", "dense", "sparse", "thumbnails", "photos")


def photos(folder: Path, count: int = 4) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        Image.new("RGB", (48, 32), (60 * number, 90, 255 - 60 * number)).save(folder / f"{number}.png")


def content(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def visir(*arguments: str, at: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "visir", *arguments], cwd=at, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("out", "at"), [("P", "."), (".", "P"), ("P/.", "."), ("link", ".")])
def test_a_place_is_no_place_for_its_library(out: str, at: str, tmp_path: Path) -> None:
    for name in NAMES:
        photos(tmp_path / "P" / name)
    (tmp_path / "P" / "work" / "thesis.tex").write_text("chapter one")
    (tmp_path / "P" / ".gitconfig.old").write_text("[user]")
    (tmp_path / "link").symlink_to("P")
    before = content(tmp_path / "P")
    place = "." if at == "P" else "P"
    process = visir("library", "make", place, "-m", "pixels", "--out", out, at=tmp_path / at)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "a place and its library cannot be one folder" in printed and "P.visir" in printed
    assert content(tmp_path / "P") == before


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_with_files_is_no_place_for_a_library(name: str, tmp_path: Path) -> None:
    photos(tmp_path / "P")
    photos(tmp_path / "Q" / name)
    (tmp_path / "Q" / ".gitconfig.old").write_text("[user]")
    before = content(tmp_path)
    process = visir("library", "make", "P", "-m", "pixels", "--out", "Q", at=tmp_path)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 2 and "holds files that visir did not write" in printed
    assert content(tmp_path) == before


def test_of_three_first_writers_one_makes_the_library(tmp_path: Path) -> None:
    photos(tmp_path / "P", 12)
    processes = [visir("library", "make", "P", "-m", "pixels", "--out", "L", at=tmp_path) for _ in range(3)]
    printed = [process.communicate(timeout=300) for process in processes]
    states = sorted(process.returncode for process in processes)
    assert states[0] == 0 and set(states) <= {0, 2}, printed
    for process, (_, errors) in zip(processes, printed, strict=True):
        if process.returncode:
            assert "another process is updating this library" in errors
    check = visir("library", "check", "L", at=tmp_path)
    assert "everything is as it was written" in check.communicate(timeout=120)[0]
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("cache")) == ["L", "P"]
