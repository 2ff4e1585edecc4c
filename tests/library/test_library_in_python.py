"""`visir.index` and `visir.Library`, as a person uses them from Python."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import visir
from refusals import refused
from visir.display import LINES
from visir.library import LibraryError, UnknownItemError
from visir.library.facets import UnknownCategoryError
from visir.library.query import QueryError

pytest.importorskip("torch", reason="torch is not installed")

COLOURS = {"red": (200, 20, 20), "blue": (20, 20, 200), "green": (20, 160, 20)}


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three photos, one of them in a folder, with a text and a video beside them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "sea").mkdir(parents=True)
    for name, colour in COLOURS.items():
        place = "sea/" if name == "blue" else ""
        Image.new("RGB", (64, 48), colour).save(tmp_path / "photos" / f"{place}{name}.png")
    (tmp_path / "photos" / "notes.txt").write_text("no picture")
    (tmp_path / "photos" / "clip.MP4").write_bytes(b"no picture")
    return tmp_path / "photos"


@pytest.fixture
def library(photos: Path) -> Iterator[visir.Library]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = visir.index("photos", "pixels")
    yield opened
    opened.close()


def test_hits_have_what_a_person_needs(library: visir.Library, photos: Path) -> None:
    results = library.search(image=photos / "red.png", k=2, where="width < 100")
    first = results[0]
    assert (len(results), results.total, first.rank, first.name) == (2, 3, 1, "red.png")
    assert first.path == photos / "red.png" and first.path.is_absolute()
    assert first.score == pytest.approx(1) and first.caption is None
    assert first.thumbnail is not None and first.thumbnail.size == (64, 48)
    assert [hit.id for hit in results] == [hit.id for hit in results.hits] == results.to_pandas()["id"].tolist()
    assert results.to_dict()["hits"][0]["path"] == str(photos / "red.png")
    assert len(repr(results).splitlines()) <= LINES and "/photos/red.png" in repr(results)
    assert "data:image/webp" in (results._repr_html_() or "")


def test_like_is_an_id_a_path_a_name_or_a_hit(library: visir.Library, photos: Path) -> None:
    red = library["red.png"]
    ways = (red.id, red.id[:8], "red.png", "photos/red.png", photos / "red.png", red, red.item)
    answers = [[hit.name for hit in library.search(like=way)] for way in ways]
    assert len(answers[0]) == 2 and "red.png" not in answers[0] and all(names == answers[0] for names in answers)
    with refused(UnknownItemError, "nobody.png", code="no-picture"):
        library.search(like="nobody.png")
    shutil.copy(photos / "red.png", photos / "sea" / "red.png")
    (photos / "lake").mkdir()
    Image.new("RGB", (64, 48), "white").save(photos / "lake" / "blue.png")
    library.update()
    assert library["lake/blue.png"].category == "lake"
    with refused(UnknownItemError, "2", "blue.png", code="pictures-called", hint="lake/blue.png"):
        library.search(like="blue.png")
    assert library.duplicates().exact == ((photos / "red.png", photos / "sea" / "red.png"),)


def test_a_misspelt_category_is_told_with_the_nearest(library: visir.Library, photos: Path) -> None:
    red = photos / "red.png"
    for spelling in ("sea", "sea/"):
        assert [hit.name for hit in library.search(image=red, category=spelling)] == ["blue.png"]
    for spelling in ("see", "Sea"):
        with refused(UnknownCategoryError, spelling, meant="sea"):
            library.search(image=red, category=spelling)
    assert not library.search(image=red, category="sea", where="width > 5000"), "there is such a category"


def test_a_library_is_a_container(library: visir.Library) -> None:
    assert len(library) == 3 and [picture.name for picture in library] == ["green.png", "red.png", "blue.png"]
    assert "red.png" in library and "nobody" not in library and 3 not in library
    with pytest.raises(KeyError):
        library["nobody"]
    assert library.to_pandas()["name"].tolist() == ["green.png", "red.png", "blue.png"]
    assert len(repr(library).splitlines()) <= LINES and "model pixels" in repr(library)
    assert "3 pictures" in (library._repr_html_() or "") and library.check() == []


def test_a_report_counts_what_is_left_out(library: visir.Library, photos: Path) -> None:
    assert library.report is not None
    assert library.report.left_out == "left out: 1 .mp4, 1 .txt" and library.report.left_out in repr(library.report)
    assert not library.takes_texts
    with refused(QueryError, code="model-encodes-pictures-alone"):
        library.search("a red car")


def test_a_model_without_texts_is_warned_of_before_anything_is_encoded(photos: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="words find names"):
            visir.index("photos", "pixels")
    assert not Path("photos.visir").exists()


def test_without_a_model_it_says_which_and_why(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.warns(UserWarning, match="takes pictures, no texts"), visir.index("photos") as library:
        assert library.model == "pixels"
    assert "because the hub cannot be reached" in capsys.readouterr().err
    with visir.index("photos") as library:
        assert library.report is not None and library.report.unchanged == 3
    assert capsys.readouterr().err == ""


def test_nothing_of_the_users_is_touched(photos: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken.visir"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    with refused(LibraryError, code="holds-files-visir-not"):
        visir.index("photos", "pixels", out=taken)
    assert [path.name for path in taken.iterdir()] == ["mine.txt"] and (taken / "mine.txt").read_text() == "mine"


def test_an_encoder_of_ones_own(photos: Path) -> None:

    encoder = visir.load("pixels")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with visir.index("photos", encoder) as library:
            assert library.search(like="red.png", k=1)[0].rank == 1
    with visir.Library.open("photos.visir", model=encoder) as library:
        assert len(library) == 3
    assert isinstance(visir.open("photos.visir"), visir.Library)


def test_a_watcher_sees_what_changes_and_outlives_what_fails(library: visir.Library, photos: Path) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    failures = ["disk trouble"]

    def update() -> object:
        if failures:
            raise SystemExit(failures.pop())  # ends a thread that nobody looks after
        return library.update()

    from visir.library.watch import Watcher

    messages: list[str] = []
    with Watcher(library.folder, update, settle=0.1, callback=messages.append) as watcher:
        Image.new("RGB", (64, 48), "white").save(photos / "white.png")
        until = time.monotonic() + 60
        while "white.png" not in library and time.monotonic() < until:
            time.sleep(0.2)
        assert "white.png" in library and watcher.is_alive
    assert not watcher.is_alive and "disk trouble" in messages[0]


def test_it_is_served_beside_other_work(library: visir.Library, capfd: pytest.CaptureFixture[str]) -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    with library.serve(port=0, background=True) as service:
        about = httpx.get(f"{service.url}v1/libraries").json()[0]
        assert (about["name"], about["texts"], about["folders"]) == ("photos", False, True)
        first = httpx.post(f"{service.url}v1/libraries/photos/search", json={"like": "red.png"}).json()["hits"][0]
        item = httpx.get(f"{service.url}v1/libraries/photos/items/{first['id']}").json()
        assert item["files"][0]["place"] == str(library[first["id"]].path)
        with pytest.raises(visir.errors.ConfigurationError, match="in use by another visir that serves photos"):
            library.serve(port=int(service.url.rsplit(":", 1)[1].strip("/")), background=True)
        assert service.url in service._repr_html_()
    assert not service.is_alive and "stopped" in repr(service)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}v1/health")
    assert capfd.readouterr().err == "", "requests write no lines into a notebook"
