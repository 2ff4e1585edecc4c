"""The scores of a second stage are remembered for the next page of the same question, and for nothing else."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from PIL import Image

from visir.library.layout import LibraryError
from visir.library.results import RankedItem
from visir.library.search import Reranker


class Scoring:
    """The matching score of a picture is its brightness times the length of the text."""

    def __init__(self) -> None:
        self.calls = 0

    def preprocess(self, picture: Image.Image) -> int:
        return int(picture.getpixel((0, 0))[0])  # type: ignore[index]

    def score_pixels(self, pixels: list[int], texts: list[str]) -> list[float]:
        self.calls += 1
        return [float(value * len(text)) for value, text in zip(pixels, texts, strict=True)]


def library(generation: int = 1, **pictures: int) -> Any:
    """Pictures of one grey each; one that is not there cannot be opened."""

    def open_image(item: str) -> tuple[bytes, str]:
        if item not in pictures:
            raise LibraryError(f"{item}: its disk is away")
        stream = io.BytesIO()
        Image.new("RGB", (4, 4), (pictures[item],) * 3).save(stream, "PNG")
        return stream.getvalue(), "image/png"

    return SimpleNamespace(open_image=open_image, folder="photos.visir", generation=generation)


def hits(*ids: str) -> list[RankedItem]:
    return [RankedItem(id, rank, 1.0 / rank, {}) for rank, id in enumerate(ids, 1)]


def scores(ranked: list[RankedItem]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in ranked]


def test_another_text_has_its_own_scores() -> None:
    reranker, model, photos = Reranker(), Scoring(), library(a=10, b=20)
    assert scores(reranker.reranked(model, photos, "cat", hits("a", "b"), 2)) == [("b", 60.0), ("a", 30.0)]  # type: ignore[arg-type]
    assert scores(reranker.reranked(model, photos, "a dog", hits("a", "b"), 2)) == [("b", 100.0), ("a", 50.0)]  # type: ignore[arg-type]
    assert model.calls == 2
    assert scores(reranker.reranked(model, photos, "cat", hits("b", "a"), 2)) == [("b", 60.0), ("a", 30.0)]  # type: ignore[arg-type]
    assert model.calls == 2, "the same question is remembered, whatever order its hits came in"


def test_other_pictures_have_their_own_scores() -> None:
    reranker, model, photos = Reranker(), Scoring(), library(a=10, b=20, c=30)
    reranker.reranked(model, photos, "cat", hits("a", "b"), 2)  # type: ignore[arg-type]
    assert scores(reranker.reranked(model, photos, "cat", hits("a", "c"), 2)) == [("c", 90.0), ("a", 30.0)]  # type: ignore[arg-type]


def test_pictures_of_an_update_have_scores_of_their_own() -> None:
    reranker, model = Reranker(), Scoring()
    assert scores(reranker.reranked(model, library(a=10, b=20), "cat", hits("a", "b"), 2)) == [("b", 60.0), ("a", 30.0)]  # type: ignore[arg-type]
    changed = library(generation=2, a=40, b=20)
    assert scores(reranker.reranked(model, changed, "cat", hits("a", "b"), 2)) == [("a", 120.0), ("b", 60.0)]  # type: ignore[arg-type]


def test_a_picture_that_was_away_has_its_score_when_it_is_back() -> None:
    reranker, model = Reranker(), Scoring()
    away = reranker.reranked(model, library(b=20), "cat", hits("a", "b"), 2)  # type: ignore[arg-type]
    assert [(hit.id, "matching" in hit.parts) for hit in away] == [("b", True), ("a", False)]
    back = reranker.reranked(model, library(a=40, b=20), "cat", hits("a", "b"), 2)  # type: ignore[arg-type]
    assert scores(back) == [("a", 120.0), ("b", 60.0)]


def test_the_rest_begins_a_unit_below_the_last_that_was_scored() -> None:
    reranker, photos = Reranker(), library(a=0, b=20)
    ranked = reranker.reranked(Scoring(), photos, "cat", hits("a", "b", "c", "d"), 2)  # type: ignore[arg-type]
    assert [hit.id for hit in ranked] == ["b", "a", "c", "d"] and [hit.rank for hit in ranked] == [1, 2, 3, 4]
    assert [hit.score for hit in ranked] == [60.0, 0.0, -1.0, -1.0 - 1 / 3 + 1 / 4]
