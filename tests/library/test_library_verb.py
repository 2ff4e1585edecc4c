"""`visir library make PLACE`: what a person types, and what is answered."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verbs import Said
from visir.cli.main import app
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.errors import MissingPackageError, VisirError
from visir.library.layout import default_folder
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import watch


def run(*arguments: object) -> Said:
    found = CliRunner().invoke(app, ["library", *map(str, arguments)], env={"COLUMNS": "200", "NO_COLOR": "1"})
    if isinstance(found.exception, VisirError):
        return Said(2, found.output + str(found.exception))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Said(found.exit_code, found.output)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    reader = ImageReader(open_collection("scenes:5?size=64"))
    for number in range(4):
        reader.open(number).save(folder / f"{number}.png")
    return folder


def test_a_library_of_one_picture_whose_name_has_a_space(photos: Path, tmp_path: Path) -> None:
    for number in range(1, 4):
        (photos / f"{number}.png").unlink()
    library = tmp_path / "my photos.visir"
    said = run("make", photos, "--model", "pixels", "--out", library)
    assert said.status == 0 and f"{library}: 1 picture; files: 1 added" in said.text
    shutil.copy(photos / "0.png", photos / "copy.png")
    said = run("update", library)
    assert f"1 file with the content of another: visir library duplicates '{library}'" in said.text
    (path,) = (library / "dense").glob("part-*/vectors.npy")
    path.unlink()
    said = run("search", library, "red")
    assert f"move the part that is named out of {library} and run visir library update '{library}'" in said.text


def test_make_a_library_update_it_look_at_it(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("make", photos, "--model", "pixels")
    assert said.status == 0 and "photos.visir: 4 pictures; files: 4 added" in said.text
    shutil.copy(photos / "0.png", photos / "copy.png")
    (photos / "bad.jpg").write_bytes(b"<html>")
    for again in (("make", "photos"), ("update", "photos.visir"), ("make", "-m", "pixels", "photos")):
        said = run(*again)
        assert said.status == 0 and "set aside: image 'bad.jpg': not an image" in said.text
    assert "5 unchanged" in said.text and "1 file with the content of another" in said.text
    shown = run("info", "photos.visir").text
    assert "photos:" in shown and "exact, 4 × 2,397" in shown
    assert "everything is as it was written" in run("check", "photos.visir").text
    shown = run("duplicates", "photos.visir").text
    assert "exact: 1 group of" in shown and "  0.png\n  copy.png" in shown
    (path,) = (tmp_path / "photos.visir" / "dense").glob("part-*/vectors.npy")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    said = run("check", "photos.visir")
    assert said.status == 2 and ": 1 fault:" in said.text and "vectors.npy is not as it was written" in said.text


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, fault in (
        (("update", "nowhere"), "there is no library yet"),
        (("make", "nowhere", "-m", "pixels"), "no such file or folder"),
        (("make", "scenes:3", "--model", "pixels", "--kind", "inverted"), "holds sparse vectors, and this library has"),
        (("check", "nowhere"), "no such folder"),
        (("make", "scenes:3?size=64", "--model", "bow"), "encodes no images, only texts"),
    ):
        said = run(*arguments)
        assert said.status == 2 and fault in said.text, said.text
    assert not list(tmp_path.iterdir())  # nothing is left of them


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("scenes:200?size=64", "scenes-200.visir"),
        ("karpathy:data/dataset_flickr8k.json.xz", "dataset_flickr8k.visir"),
        ("/somewhere/My Photos", "My-Photos.visir"),
    ],
)
def test_where_a_library_goes_when_nobody_says(place: str, folder: str) -> None:
    assert default_folder(place) == Path(folder)


def test_watching_needs_its_package(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="'watchfiles', which is not installed") as caught:
        watch(tmp_path, lambda: None)
    assert "visir[watch]" in str(caught.value)


def test_a_watched_folder_is_kept_up_to_date(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    at, stop = tmp_path / "library", threading.Event()
    run("make", photos, "--model", "pixels", "--out", at)
    failed: list[BaseException] = []

    def changed() -> None:
        run("update", at)

    def watching() -> None:
        try:
            watch(at, changed, settle=0.1, stop=stop)
        except BaseException as fault:
            failed.append(fault)

    thread = threading.Thread(target=watching)
    thread.start()
    try:
        until = time.monotonic() + 60
        time.sleep(0.5)
        shutil.copy(photos / "0.png", photos / "later.png")
        (photos / ".hidden.png").write_bytes(b"")
        while _files(at) < 5 and not failed:
            assert time.monotonic() < until, "the change was not seen"
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join()
    assert not failed and _files(at) == 5


def _files(at: Path) -> int:
    with LibrarySnapshot.open(at) as library:
        return int(library.database.value("SELECT count(*) FROM files"))


def test_without_a_model_it_takes_the_recommended_one_and_says_which(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (photos / "notes.txt").write_text("no picture")
    said = run("make", photos, "--out", tmp_path / "out")
    assert said.status == 0, said.text
    assert "because the hub cannot be reached" in said.text and "left out: 1 .txt" in said.text


def test_a_search_imports_what_its_model_needs(tmp_path: Path) -> None:
    """PyTorch alone takes longer to import than the whole search."""
    assert run("make", "scenes:20?size=64", "--model", "colours", "--out", tmp_path / "scenes").status == 0
    script = (
        "import sys\nfrom visir.cli.main import run\n"
        f"sys.argv = ['visir', 'search', {str(tmp_path / 'scenes')!r}, 'a red circle']\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'duckdb', 'matplotlib', 'pandas'}\n"
        "heavy = (heavy | {'visir.collections.opening'}) & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "of 20 pictures" in ran.stdout
