"""Late-interaction models of sentence-transformers: the vectors of its own encode_query and encode_document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import tiny_late
import tiny_multi_vector as tiny_multi
import tiny_transformers as tiny
from PIL import Image
from sentence_transformers import MultiVectorEncoder

import visir
from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders import encode_detailed, encode_items
from visir.encoders.models.transformers_models import MULTI_VECTOR, sentence_class
from visir.errors import EncoderError, ImageError
from visir.records import Items

PHOTOS = [to_rgb(image) for image in tiny.photos()]
SAVED: dict[str, Callable[[Path], Path]] = {
    "library": tiny_multi.save_text,
    "pylate": tiny_multi.save_pylate,
    "stanford": tiny_multi.save_stanford,
    "pictures": tiny_multi.save_pictures,
}


@pytest.fixture(scope="module", params=SAVED)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, SAVED[request.param](tmp_path_factory.mktemp("saved") / request.param)


@pytest.fixture(scope="module")
def encoder(saved: tuple[str, Path]) -> Any:
    return visir.load(f"st:{saved[1]}", device="cpu")


@pytest.fixture(scope="module")
def library(saved: tuple[str, Path]) -> MultiVectorEncoder:
    return MultiVectorEncoder(str(saved[1]), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_multi.save_text(tmp_path_factory.mktemp("text") / "model")


def same(found: Any, expected: Any) -> None:
    assert [len(rows) for rows in found] == [len(rows) for rows in expected]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("role", ["query", "document"])
def test_the_vectors_are_those_of_the_library(role: Any, encoder: Any, library: Any) -> None:
    encode = library.encode_query if role == "query" else library.encode_document
    same(encoder.encode_texts(tiny.CAPTIONS, role), encode(tiny.CAPTIONS, convert_to_numpy=True))
    if "image" in encoder.modalities:
        same(encoder.encode_images(PHOTOS, role), encode(PHOTOS, convert_to_numpy=True))
        both = [{"text": text, "image": image} for text, image in zip(tiny.CAPTIONS, PHOTOS, strict=False)]
        found = encoder.for_role(role).embed_texts_with_images(tiny.CAPTIONS, PHOTOS[: len(both)])
        same(found, encode(both, convert_to_numpy=True))


def test_scores_are_those_of_the_library(encoder: Any, library: Any) -> None:
    queries, documents = encoder.encode_texts(tiny.CAPTIONS, "query"), encoder.encode_texts(tiny.CAPTIONS, "document")
    found = [[(query @ document.T).max(1).sum() for document in documents] for query in queries]
    expected = library.similarity(library.encode_query(tiny.CAPTIONS), library.encode_document(tiny.CAPTIONS))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("role", ["query", "document"])
def test_there_is_a_piece_for_each_vector(role: Any, encoder: Any, saved: tuple[str, Path]) -> None:
    pieces = encoder.text_pieces(tiny.CAPTIONS, role)
    assert [len(row) for row in pieces] == encoder.encode_texts(tiny.CAPTIONS, role).counts.tolist()
    if saved[0] == "pictures":
        assert pieces[0][-3:] == [".", "<|im_end|>", "\n"]
    elif role == "query":
        assert pieces[3] == ["[CLS]", "[unused0]", "[SEP]", *["[MASK]"] * 9]
    else:
        assert pieces[3] == ["[CLS]", "[unused1]", "[SEP]"] and "," not in pieces[1] and "!" not in pieces[1]


def test_there_is_a_place_for_each_vector_of_a_picture(encoder: Any) -> None:
    if "image" not in encoder.modalities:
        with refused(EncoderError, "images", "texts", code="encodes-no"):
            encoder.image_regions(PHOTOS[0])
        return
    for role in ("query", "document"):
        asked = encoder.for_role(role)
        for photo, count in zip(PHOTOS, encoder.encode_images(PHOTOS, role).counts, strict=True):
            places = asked.image_regions(photo)
            cells = places[np.isfinite(places).all(1)]
            assert len(places) == count and np.prod(cells[:, 2:] - cells[:, :2], 1).sum() == pytest.approx(1)


def test_the_card_says_how_texts_are_read(encoder: Any, saved: tuple[str, Path]) -> None:
    card = encoder.card
    assert card.family == "sentence-transformers-multi-vector" and card.is_versioned
    if saved[0] == "pictures":
        assert card.text_preprocessing["prompt"] == {"query": "find: ", "document": ""}
        assert card.image_preprocessing["class"].startswith("Qwen2VLImageProcessor")
        assert encoder.modalities == {"text", "image", "text+image"}
        return
    assert card.text_preprocessing["prompt"] == {"query": "[unused0] ", "document": "[unused1] "}
    assert card.text_preprocessing["max_length"] == {"query": 12, "document": 40}
    assert card.text_preprocessing["query_expansion"]["strategy"] == "fixed"
    assert "!" in card.text_preprocessing["left_out"] and card.text_preprocessing["left_out_of"] == ["document"]
    assert encoder.modalities == {"text"} and encoder.distinguishes_roles and card.image_preprocessing == {}


def test_a_folder_is_recognised_by_its_files_whatever_it_is_called(saved: tuple[str, Path]) -> None:
    assert sentence_class(saved[1]) == MULTI_VECTOR
    assert visir.load(saved[1], device="cpu").form == "multi-vector"


def test_lengths_can_be_chosen(text_folder: Path) -> None:
    encoder: Any = visir.load(f"st:{text_folder}?query_length=6&document_length=9&template=a {{}}", device="cpu")
    assert encoder.card.text_preprocessing["max_length"] == {"query": 6, "document": 9}
    assert encoder.encode_texts(tiny.CAPTIONS, "query").counts.tolist() == [6] * len(tiny.CAPTIONS)
    assert encoder.encode_texts(tiny.CAPTIONS, "document").counts.max() == 9
    assert encoder.text_pieces(["dog"], "document") == [["[CLS]", "[unused1]", "a", "dog", "[SEP]"]]
    assert encoder.truncate(["the dog the dog the dog", "the"], "3") == ["the dog the dog", "the"]
    with refused(EncoderError, "document_length", "900", "40", code="length-cannot", hint=False):
        visir.load(f"st:{text_folder}?document_length=900", device="cpu")
    with refused(EncoderError, "max_length"):
        visir.load(f"st:{text_folder}?max_length=9", device="cpu")


def test_lengths_and_marks_of_pictures_in_a_chat_are_refused(saved: tuple[str, Path], encoder: Any) -> None:
    if saved[0] == "pictures":
        with refused(EncoderError, "picture", code="text-stands-model"):
            encoder.encode_texts(["a <|image_pad|> dog"])
        with refused(EncoderError, "query_length", "8", code="length-in-chat"):
            visir.load(f"st:{saved[1]}?query_length=8", device="cpu")


def _save_colqwen2(folder: Path) -> Path:
    tiny_late.save("colqwen2", folder.with_name("colqwen2"))
    MultiVectorEncoder(str(folder.with_name("colqwen2")), device="cpu").save(str(folder))
    return folder


@pytest.mark.parametrize("save", [tiny_multi.save_pictures, _save_colqwen2])
def test_one_narrow_photo_does_not_end_the_job(save: Callable[[Path], Path], tmp_path: Path) -> None:
    encoder = visir.load(f"st:{save(tmp_path / 'model')}", device="cpu")
    PHOTOS[0].save(tmp_path / "photo.png")
    Image.new("RGB", (2, 900)).save(tmp_path / "thin.png")
    items = Items.of_images({"a": tmp_path / "thin.png", "b": tmp_path / "photo.png"})
    with refused(ImageError, "thin.png", "900", "200"):
        encode_items(encoder, items, store=tmp_path / "store")
    done = encode_detailed(encoder, items, store=tmp_path / "store", skip_broken=True)
    assert done.embeddings.ids.to_pylist() == ["b"] and list(done.broken) == ["a"]
    assert len(encoder.encode_images([Image.new("RGB", (4, 800))])) == 1  # 200 times as long is not too long


@pytest.mark.parametrize("file", ["modules.json", "config.json"])
def test_code_that_comes_with_a_model_runs_only_when_it_is_trusted(
    file: str, text_folder: Path, tmp_path: Path
) -> None:
    for path in text_folder.rglob("*.json"):
        target = tmp_path / path.relative_to(text_folder)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    content = json.loads((tmp_path / file).read_text())
    if file == "modules.json":
        content[1]["type"] = "their_code.Dense"
    else:
        content["auto_map"] = {"AutoModel": "their_code.Model"}
    (tmp_path / file).write_text(json.dumps(content))
    with refused(EncoderError, code="model-needs-python-code") as error:
        visir.load(f"st:{tmp_path}", device="cpu")
    assert f"st:{tmp_path}?code=trusted" in str(error.value)


def test_other_models_of_the_library_are_no_such_models(tmp_path: Path) -> None:
    import tiny_sentence

    assert sentence_class(tiny_sentence.save(tmp_path / "sentence")) != MULTI_VECTOR
    tiny_late.save("colpali", tmp_path / "colpali")
    assert sentence_class(tmp_path / "colpali") != MULTI_VECTOR and sentence_class(tmp_path) != MULTI_VECTOR


@pytest.mark.parametrize("kind", ["colpali", "colqwen2"])  # sentence-transformers 6.2 reads no photos with the others
def test_models_of_transformers_get_the_vectors_that_the_library_gives_them(kind: str, tmp_path: Path) -> None:
    tiny_late.save(kind, tmp_path)
    library, encoder = MultiVectorEncoder(str(tmp_path), device="cpu"), visir.load(tmp_path, device="cpu")
    same(encoder.encode_texts(tiny.CAPTIONS, "query"), library.encode_query(tiny.CAPTIONS, convert_to_numpy=True))
    if kind == "colpali":  # of ColQwen2's photos the library loses the rows (see test_colpali_engine.py)
        same(encoder.encode_images(PHOTOS), library.encode_document(PHOTOS, convert_to_numpy=True))
