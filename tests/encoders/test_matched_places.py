"""What each word of a query matched in a picture, with models whose prompts and pooling differ between the two."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import tiny_multi_vector as tiny_multi
import tiny_transformers as tiny
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

import visir
from visir.collections.images import to_rgb
from visir.library import Library
from visir.records import EncoderCard
from visir.reports.examples import words_of_pieces

TEXT = "a dog runs in the green grass and the red car stands by a blue house under two old trees"


def library_of(folder: Path, model: Any) -> Library:
    (folder / "photos").mkdir()
    for number, photo in enumerate(tiny.photos()[:2]):
        to_rgb(photo).save(folder / "photos" / f"p{number}.png")
    return visir.index(folder / "photos", model, out=folder / "photos.visir")


@pytest.mark.parametrize("document", ["", "look at this: "])
def test_prompts_of_queries_do_not_move_the_places(document: str, tmp_path: Path) -> None:
    """Against MaxSim by hand: the best vector of each word, and the cell of the grid that it stands for."""
    folder = tiny_multi.save_pictures(tmp_path / "model", document=document)
    library, encoder = library_of(tmp_path, str(folder)), visir.load(str(folder), device="cpu")
    photo = to_rgb(tiny.photos()[0])
    text, picture = encoder.encode_texts([TEXT], "query")[0], encoder.encode_images([photo], "document")[0]
    pieces, places = encoder.text_pieces([TEXT], "query")[0], encoder.image_regions(photo)
    assert len(places) == len(picture) != len(encoder.encode_images([photo], "query")[0])
    best = (text @ picture.T).argmax(1)
    regions = library.explain("p0.png", TEXT).regions
    assert regions is not None and [word.word for word in regions.words] == TEXT.split()
    owners = words_of_pieces(TEXT, pieces)
    for number, word in enumerate(regions.words):
        rows = [best[row] for row, owner in enumerate(owners) if owner == number]
        expected = {tuple(places[row]) for row in rows if np.isfinite(places[row]).all()}
        assert set(word.boxes) == expected
    assert any(word.boxes for word in regions.words) and regions.missing == ""


def pooled(folder: Path, task: str) -> str:
    return str(tiny_multi.save_pictures(folder / "model", HierarchicalTokenPooling(2, tasks=task)))


def test_a_model_that_joins_vectors_of_pictures_says_so(tmp_path: Path) -> None:
    library = library_of(tmp_path, pooled(tmp_path, "document"))
    explained = library.explain("p0.png", "a dog")
    assert explained.regions is not None and [word.word for word in explained.regions.words] == ["a", "dog"]
    assert all(word.boxes == () for word in explained.regions.words)
    assert "Which part of the picture" in explained.regions.missing
    assert explained.regions.missing in (explained._repr_html_() or "")


def test_a_model_that_joins_vectors_of_queries_says_so_with_the_picture_and_without(tmp_path: Path) -> None:
    library = library_of(tmp_path, pooled(tmp_path, "query"))
    score = library.search("a dog", k=1)[0].score
    for there in (True, False):
        best = library.search("a dog", k=1)[0]
        explained = library.explain(best, "a dog")
        assert explained.regions is not None and explained.regions.words == ()
        assert "Which vectors of the search" in explained.regions.missing
        assert explained.regions.score == pytest.approx(score, abs=1e-3)
        assert explained.regions.missing in (explained._repr_html_() or "") or not there
        (tmp_path / "photos" / best.name).unlink(missing_ok=True)


class Rows(visir.Encoder):
    """A vector for each of four rows of a picture, and one for each word; it has places for `count` vectors."""

    form = "multi-vector"
    modalities = frozenset({"image", "text"})
    card = EncoderCard("rows", "test", revision="1")
    count = 4
    nowhere: Set[int] = frozenset()

    def embed_images(self, batch: Sequence[Any]) -> Any:
        return [np.asarray(image.resize((4, 4)), np.float32)[:, 0] + 1 for image in batch]

    def embed_texts(self, texts: Sequence[str]) -> Any:
        return [np.ones((len(text.split()), 3), np.float32) for text in texts]

    def text_pieces(self, texts: Sequence[str], role: Any) -> list[list[str]]:
        return [text.split() for text in texts]

    def image_regions(self, image: Any) -> Any:
        rows = [[0, row / self.count, 1, (row + 1) / self.count] for row in range(self.count)]
        return [[np.nan] * 4 if row in self.nowhere else box for row, box in enumerate(rows)]


def test_every_reason_is_told(tmp_path: Path) -> None:
    library = library_of(tmp_path, encoder := Rows())
    regions = library.explain("p0.png", "a dog").regions
    assert regions is not None and regions.missing == "" and regions.words[0].boxes
    best = int(regions.words[0].boxes[0][1] * 4)
    encoder.nowhere = {0, 1, 2, 3}
    regions = library.explain("p0.png", "a dog").regions
    assert regions is not None and "Which part of the picture" in regions.missing
    encoder.nowhere = {best}
    regions = library.explain("p0.png", "a dog").regions
    assert regions is not None and "match tokens of the model's own" in regions.missing
    encoder.nowhere = set()
    encoder.count = 3
    regions = library.explain("p0.png", "a dog").regions
    assert regions is not None and "kept with 4 vectors, and the model has 3 places" in regions.missing
    (tmp_path / "photos" / "p0.png").unlink()
    regions = library.explain("p0.png", "a dog").regions
    assert regions is not None and "cannot be read now" in regions.missing and len(regions.words) == 2
