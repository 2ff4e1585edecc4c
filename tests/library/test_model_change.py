"""A library goes over to another model: old answers until all is done, whatever is killed; and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_toys import draw, head_over
from test_library_verb import run

import visir
from manifests import rewrite
from refusals import refused
from visir.encoders import load
from visir.library import LibraryError, update
from visir.library.check import check
from visir.library.layout import LibraryCard
from visir.library.searcher import Searcher
from visir.library.snapshot import LibrarySnapshot

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", range(6))
    update(tmp_path / "photos", tmp_path / "library", model="pixels")
    return tmp_path / "library"


def stop_at(library: Path, stage: str, **options: Any) -> None:
    """An update that ends when it comes to this stage."""

    def tell(now: str, done: int, total: int) -> None:
        if now == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(None, library, callback=tell, **options)


def assert_is_of(library: Path, model: str) -> None:
    """Every vector is that of this model, and nothing else lies there."""
    encoder = load(model)
    with LibrarySnapshot.open(library) as opened:
        assert opened.model == model
        for item in opened.items(opened.ids()):
            expected = encoder.encode_images([opened_image(opened, item.id)])
            assert np.allclose(opened.indexes["dense"].select([item.id]).vectors, expected, atol=1e-6)
        card = opened.card
    assert check(library) == [] and not card.next and not card.left
    folders = {path.name for path in library.iterdir() if path.is_dir()}
    assert folders == {"thumbnails", card.words["place"], *(card.place(name) for name in card.indexes)}


def vectors_of(path: Path) -> str:
    """A model that knows the six photos of this page."""
    ids = [f"{number}.png" if number % 2 == 0 else f"odd/{number}.png" for number in range(6)]
    vectors = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    np.savez(path, image=vectors, image_ids=np.array(ids))
    return f"npz:{path}"


def opened_image(library: LibrarySnapshot, item: str) -> Any:
    from visir.collections.images import decode

    return decode(library.open_image(item)[0], item)


def test_another_model_encodes_everything_anew(library: Path) -> None:
    report = update(None, library, model="colours")
    assert (report.encoded, report.items, report.unchanged) == (6, 6, 6)
    assert_is_of(library, "colours")
    with Searcher.open(library) as searcher:
        assert searcher.find(text="red", k=2).hits
    assert update(None, library).same
    assert update(None, library, model="colours").same
    update(None, library, model="pixels")
    assert_is_of(library, "pixels")


@pytest.mark.parametrize("stage", ["encoding", "writing"])
def test_the_old_model_answers_until_all_is_done_and_any_update_goes_on(library: Path, stage: str) -> None:
    with Searcher.open(library) as searcher:
        before = searcher.find(like=searcher.library.ids()[0], k=5).hits
        stop_at(library, stage, model="colours")
        searcher.reload()
        assert searcher.library.model == "pixels" and searcher.find(like=searcher.library.ids()[0], k=5).hits == before
        report = update(None, library)
        assert report.encoded == (0 if stage == "writing" else 6)
        assert searcher.reload() and searcher.library.model == "colours" and searcher.find(text="red").hits
    assert_is_of(library, "colours")


def test_what_was_begun_is_given_up_for_the_old_model_or_a_third(library: Path, tmp_path: Path) -> None:
    stop_at(library, "writing", model="colours")
    assert update(None, library, model="pixels").encoded == 0
    assert_is_of(library, "pixels")
    stop_at(library, "writing", model="colours")
    third = vectors_of(tmp_path / "third.npz")
    assert update(None, library, model=third).encoded == 6
    with LibrarySnapshot.open(library) as opened:
        assert opened.model == third and opened.indexes["dense"].info().dimension == 8
    assert sorted(path.name for path in library.iterdir() if path.is_dir()) == ["dense-3", "thumbnails", "words-1"]
    assert check(library) == []


def test_photos_that_come_meanwhile_are_in_both(library: Path, tmp_path: Path) -> None:
    stop_at(library, "writing", model="colours")
    draw(tmp_path / "photos", [6, 7])
    (tmp_path / "photos" / "0.png").unlink()
    assert update(None, library).items == 7
    assert_is_of(library, "colours")


def test_the_same_model_under_another_name_encodes_nothing(tmp_path: Path) -> None:
    draw(tmp_path / "photos", range(6))
    update(tmp_path / "photos", tmp_path / "library", model=vectors_of(tmp_path / "one.npz"))
    assert update(None, tmp_path / "library", model=vectors_of(tmp_path / "two.npz")).encoded == 0
    assert LibraryCard.read(tmp_path / "library").model.endswith("two.npz")


def test_a_first_sparse_head_leaves_the_dense_vectors(tmp_path: Path) -> None:
    from library_toys import vectors_of_scenes

    model = vectors_of_scenes(tmp_path)
    library = visir.index("scenes:12?size=64", model, out=tmp_path / "made.visir")
    places = {path.name for path in library.folder.iterdir() if path.is_dir()}
    assert "dense" in places
    update(None, library.folder, head=str(head_over(model, tmp_path)))
    with LibrarySnapshot.open(library.folder) as opened:
        assert {*opened.indexes} == {"dense", "sparse"} and (library.folder / "dense").is_dir()
    assert check(library.folder) == []


def test_a_model_that_is_gone_names_the_way_back(library: Path, tmp_path: Path) -> None:
    rewrite(library, {**LibraryCard.read(library).to_content(), "next": {
        "model": str(tmp_path / "gone"), "head": None, "kinds": {"dense": "exact"}, "settings": {},
        "places": {"dense": "dense-2"}}})  # fmt: skip
    with refused(LibraryError, "gone", code="change-not-finished") as caught:
        update(None, library)
    assert "or stay with the model that it has: visir library update" in str(caught.value)
    update(None, library, model="pixels")
    assert_is_of(library, "pixels")


@pytest.mark.parametrize(
    "content",
    [
        {"places": {"dense": "../photos"}},
        {"places": {"dense": "sparse-2"}},
        {"left": ["thumbnails"]},
        {"left": ["../photos"]},
        {"next": {"model": "x", "head": None, "kinds": {}, "settings": {}, "places": {"dense": "/tmp/x"}}},
    ],
)
def test_places_of_strangers_are_refused(library: Path, content: dict[str, Any]) -> None:
    rewrite(library, {**LibraryCard.read(library).to_content(), **content})
    with refused(LibraryError, code="visir-json-not-describe"):
        update(None, library)


def test_a_folder_of_somebody_else_is_left_alone(library: Path) -> None:
    (library / "dense-2").mkdir()
    (library / "dense-2" / "mine.txt").write_text("mine")
    update(None, library, model="colours")
    assert (library / "dense-2" / "mine.txt").read_text() == "mine"
    assert LibraryCard.read(library).place("dense") == "dense-3"


def test_no_model_is_refused_where_vectors_would_be_lost(library: Path) -> None:
    with refused(LibraryError, "pixels", code="model-none"):
        update(None, library, model="none")


def test_the_command_line_says_it_before_the_work(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library.parent)
    said = run("make", "photos", "--out", library, "--model", "colours")
    assert said.status == 0 and "from model pixels to colours: unless it is the same one" in said.text
    assert_is_of(library, "colours")


def test_without_the_hub_it_says_before_the_work_that_words_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    draw(tmp_path / "photos", range(2))
    said = run("make", tmp_path / "photos", "--out", tmp_path / "made")
    first = said.text.splitlines()[0]
    for part in ("model pixels: this library will not take words, because", "colours", "visir library update LIBRARY"):
        assert part in first
    assert run("update", tmp_path / "made", "--model", "colours").status == 0
    assert run("search", tmp_path / "made", "red").status == 0
