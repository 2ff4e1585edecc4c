"""Libraries of models that make several vectors for each picture and text."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import visir
from colour_patches import ColourPatches, draw_patches
from refusals import refused
from visir.errors import VisirError
from visir.library import Library
from visir.library.layout import LibraryCard, LibraryError
from visir.library.query import Query
from visir.library.snapshot import LibrarySnapshot


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return draw_patches(tmp_path / "photos")


def _names(library: Library, *words: str, **fields: object) -> list[str]:
    return [hit.name for hit in library.search(*words, **fields)]


def test_a_library_is_made_searched_updated_and_read_again(photos: Path, tmp_path: Path) -> None:
    model = ColourPatches()
    library = visir.index(photos, model, out=tmp_path / "patches.visir")
    card = LibraryCard.read(tmp_path / "patches.visir")
    assert card.kinds["dense"] == "maxsim"
    with LibrarySnapshot.open(tmp_path / "patches.visir") as opened:
        assert opened.label("dense") == "late interaction" and opened.label("sparse") == "sparse"
    results = library.search("green", k=1, by="vectors")
    assert (results.system, results.label, results.to_dict()["label"]) == ("dense", *["late interaction"] * 2)
    assert "late interaction" in repr(results) and "dense" not in repr(results)
    assert "late interaction" in (results._repr_html_() or "")
    explained = library.explain(results[0], Query(text="green", by="vectors"))
    assert "late interaction: rank 1" in repr(explained) and "late interaction: " in (explained._repr_html_() or "")
    assert set(_names(library, "red blue")[:2]) == {"red-blue.png", "blue-red.png"}
    assert _names(library, "green")[0] == "green-green.png"
    [best, *_] = library.search("yellow black", by="vectors")
    assert best.name == "yellow-black.png"
    assert best.score == pytest.approx(2.0, abs=0.02)  # of the two words; the mark is like no patch

    (photos / "green-green.png").unlink()
    Image.new("RGB", (60, 60), (40, 160, 60)).save(photos / "meadow.png")
    again = visir.index(photos, model, out=tmp_path / "patches.visir")
    assert (again.report.added, again.report.deleted, again.report.encoded) == (1, 1, 1)
    assert _names(again, "green")[0] == "meadow.png"
    assert "green-green.png" not in _names(again, "green")


def test_pictures_and_mixtures_search_too(photos: Path, tmp_path: Path) -> None:
    library = visir.index(photos, ColourPatches(), out=tmp_path / "patches.visir")
    picture = Image.open(photos / "green-green.png")
    assert _names(library, image=picture)[0] == "green-green.png"
    mixed = library.search("yellow", image=picture, text_weight=0.9)
    assert mixed[0].name == "yellow-black.png"
    assert library.search("yellow", image=picture, text_weight=0.1)[0].name == "green-green.png"
    assert _names(library, like="red-blue.png", k=1) == ["blue-red.png"]


def test_the_score_of_a_mixture_is_the_weighted_mean_of_both_scores(photos: Path, tmp_path: Path) -> None:
    library = visir.index(photos, ColourPatches(), out=tmp_path / "patches.visir")
    picture = Image.open(photos / "red-blue.png")
    text = {
        hit.name: hit.score / 2 for hit in library.search("blue", by="vectors")
    }  # of two vectors: the mark, and the word
    image = {hit.name: hit.score / 16 for hit in library.search(image=picture)}
    for hit in library.search("blue", image=picture, text_weight=0.25):
        assert hit.score == pytest.approx(0.25 * text[hit.name] + 0.75 * image[hit.name], abs=1e-3)


def test_an_answer_shows_what_each_word_matched(photos: Path, tmp_path: Path) -> None:
    library = visir.index(photos, ColourPatches(), out=tmp_path / "patches.visir")
    item = next(hit.id for hit in library.search("red") if hit.name == "red-blue.png")
    explanation = library.explain(item, "a red and blue thing")
    assert explanation.regions is not None
    words = {word.word: word for word in explanation.regions.words}
    assert list(words) == ["a", "red", "and", "blue", "thing"]
    assert words["red"].boxes == ((0.0, 0.0, 0.25, 0.25),)
    assert words["blue"].boxes == ((0.75, 0.75, 1.0, 1.0),)
    assert words["red"].score == pytest.approx(1.0, abs=0.01)
    score = next(hit.score for hit in library.search("a red and blue thing", by="vectors") if hit.id == item)
    assert explanation.regions.score == pytest.approx(score, abs=1e-4)

    (photos / "red-blue.png").unlink()  # words stay, regions need the picture
    lost = library.explain(item, "red")
    assert lost.regions is not None
    assert lost.regions.words[0].boxes == ()
    assert library.explain(item, Query(like=item)).regions is None


def test_a_notebook_shows_the_picture_once_for_each_word(photos: Path, tmp_path: Path) -> None:
    library = visir.index(photos, ColourPatches(), out=tmp_path / "patches.visir")
    explained = library.explain("red-blue.png", "red blue")
    shown = explained._repr_html_() or ""
    assert shown.count("<use ") == 2
    assert "“red” matches top left; “blue” matches bottom right" in shown
    assert "red 1.00, blue 1.00" in repr(explained)


def test_kinds_of_the_other_form_are_refused_before_anything_is_read(photos: Path, tmp_path: Path) -> None:
    with refused(LibraryError, "hnsw", "dense", "multi-vector", code="holds-vectors-model-makes") as error:
        visir.index(photos, ColourPatches(), out=tmp_path / "patches.visir", kind="hnsw")
    assert "maxsim" in error.value.hint
    assert not (tmp_path / "patches.visir").exists()
    with refused(LibraryError, "maxsim", "multi-vector", "dense", code="holds-vectors-model-makes"):
        visir.index(photos, "pixels", out=tmp_path / "pixels.visir", kind="maxsim")
    visir.index(photos, "pixels", out=tmp_path / "pixels.visir")
    with refused(LibraryError, "maxsim", code="holds-vectors-model-makes"):
        visir.index(photos, out=tmp_path / "pixels.visir", kind="maxsim")
    visir.index(photos, ColourPatches(), out=tmp_path / "exact.visir", kind="exact")
    assert LibraryCard.read(tmp_path / "exact.visir").kinds["dense"] == "maxsim"


def test_search_needs_the_model_and_another_form_of_vectors_takes_its_place(photos: Path, tmp_path: Path) -> None:
    visir.index(photos, ColourPatches(), out=tmp_path / "patches.visir")
    with refused(VisirError, "colour-patches"):  # nobody can load it by name
        visir.Library.open(tmp_path / "patches.visir").search("red")
    library = visir.index(photos, "pixels", out=tmp_path / "patches.visir")
    assert LibraryCard.read(tmp_path / "patches.visir").kinds["dense"] == "exact"
    assert library.model == "pixels" and library.check() == [] and library.search(like=library.ids[0], k=1).hits
