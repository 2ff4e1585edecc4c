"""Several vectors of a frozen network: the places of a feature map, and the tokens of a text before they are pooled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_sentence
from PIL import Image
from test_onnx import graph, pictures

from refusals import refused
from visir.encoders import encode, load
from visir.encoders.models.image_processors import ImageInput
from visir.encoders.models.joined import ImageViews
from visir.encoders.models.onnx_image import Grid
from visir.errors import EncoderError
from visir.records import TokenVectors

SQUASHED = ImageInput.declared({"size": 24, "normalise": "half", "resize": "squash"}, "here")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph(tmp_path / "m.onnx", ["n", 3, 24, 24])


def test_the_mean_over_all_places_is_the_pooled_vector(file: Path) -> None:
    images = pictures(5)
    places = load(f"onnx:{file}?normalise=imagenet&vectors=grid#active", device="cpu")
    assert (places.form, places.dimension) == ("multi-vector", 5)
    sets = places.encode_images(images)
    assert isinstance(sets, TokenVectors)
    assert sets.counts.tolist() == [24 * 24] * 5
    pooled = load(f"onnx:{file}?normalise=imagenet#features", device="cpu").encode_images(images)
    assert np.abs(np.stack([each.mean(0) for each in sets]) - pooled).max() < 1e-5
    coarser = load(f"onnx:{file}?normalise=imagenet&vectors=2x2#active", device="cpu")
    assert coarser.card.fingerprint != places.card.fingerprint


def test_cells_are_the_means_of_their_places() -> None:
    maps = np.arange(49, dtype=np.float32).reshape(1, 1, 7, 7)
    cells = Grid.named("4x4", "here").vectors(maps)
    assert cells.shape == (1, 16, 1)
    assert cells[0, 0, 0] == maps[0, 0, :2, :2].mean()
    assert cells[0, 5, 0] == maps[0, 0, 1:4, 1:4].mean()
    assert cells[0, 15, 0] == maps[0, 0, 5:, 5:].mean()
    assert Grid.named("grid", "here").vectors(maps)[0, :, 0].tolist() == list(range(49))
    mirrored = Grid.named("4x4", "here").vectors(maps[..., ::-1])
    assert mirrored.reshape(4, 4).tolist() == cells.reshape(4, 4)[:, ::-1].tolist()


def test_where_places_lie_in_the_picture() -> None:
    grid = Grid.named("grid", "here")
    assert grid.regions((2, 2), SQUASHED.shown((40, 30))).tolist() == [
        [0.0, 0.0, 0.5, 0.5],
        [0.5, 0.0, 1.0, 0.5],
        [0.0, 0.5, 0.5, 1.0],
        [0.5, 0.5, 1.0, 1.0],
    ]
    cropped = ImageInput.declared({"size": 30, "normalise": "half", "resize": "crop"}, "here").shown((40, 30))
    assert cropped == pytest.approx((0.125, 0.0, 0.875, 1.0))
    padded = ImageInput.declared({"size": 40, "normalise": "half", "resize": "pad"}, "here").shown((40, 30))
    assert padded == pytest.approx((0.0, -1 / 6, 1.0, 7 / 6))
    assert grid.regions((1, 2), padded).tolist() == [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]


def test_an_image_has_the_vectors_of_all_views(file: Path) -> None:
    encoder = load(f"onnx:{file}?normalise=imagenet&resize=squash&vectors=2x2#active", device="cpu")
    views = ImageViews(encoder, ["whole", "mirrored", "centre"])
    image = Image.new("RGB", (48, 24))
    sets = views.encode_images([image, *pictures(1)])
    assert isinstance(sets, TokenVectors)
    assert sets.counts.tolist() == [12, 12]
    regions = views.image_regions(image)
    assert regions[0].tolist() == [0.0, 0.0, 0.5, 0.5]
    assert regions[4].tolist() == [0.5, 0.0, 1.0, 0.5], "what is left in the mirror is right in the picture"
    assert regions[8].tolist() == pytest.approx([4 / 48, 2 / 24, 0.5, 0.5])


def test_what_is_no_grid(file: Path) -> None:
    with refused(EncoderError, "25x25", "24", "24", code="vectors-feature-map-places") as fault:
        load(f"onnx:{file}?normalise=imagenet&vectors=25x25#active")
    assert "vectors=24x24" in fault.value.hint
    with refused(EncoderError, "places", code="vectors-none-vectors"):
        load(f"onnx:{file}?normalise=imagenet&vectors=places#active")
    with refused(EncoderError, code="vectors-tensor-feature-map"):
        load(f"onnx:{file}?normalise=imagenet&vectors=grid#features")
    with pytest.raises(EncoderError) as fault:
        load(f"onnx:{file}?normalise=imagenet#active")
    assert "?vectors=grid" in fault.value.hint


def test_tokens_are_what_the_model_pools(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "m")
    texts = ["a dog", "two dogs run on the grass"]
    sentences, tokens = load(str(folder), device="cpu"), load(f"{folder}?vectors=tokens", device="cpu")
    sets = tokens.encode_texts(texts)
    assert isinstance(sets, TokenVectors)
    assert tokens.form == "multi-vector" and tokens.card.fingerprint != sentences.card.fingerprint
    assert np.abs(np.stack([each.mean(0) for each in sets]) - sentences.encode_texts(texts)).max() < 1e-6
    pieces = tokens.text_pieces(texts, "query")  # type: ignore[attr-defined]
    assert [len(each) for each in pieces] == sets.counts.tolist()
    assert pieces[0][0] == "[CLS]" and pieces[0][-1] == "[SEP]"
    for alone in (tokens.encode_texts(texts[:1]), tokens.embed_texts_alike(texts[:1])):
        assert np.abs(alone[0] - sets[0]).max() < 1e-5
    assert len(encode(tokens, {"a": "a dog"})) == 1


def test_words_beside_the_tokens(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "m")
    encoder = load(f"{folder}?vectors=tokens+words", device="cpu")
    [first] = encoder.encode_texts(["dog dog"])
    assert first.shape[1] == 2 * tiny_sentence.WIDTH
    parts = np.split(first, 2, axis=1)
    assert np.allclose([np.linalg.norm(part, axis=1) for part in parts], 1.0, atol=1e-5)
    assert np.array_equal(parts[1][1], parts[1][2]), "the embedding of a word does not depend on its place"
    assert not np.allclose(parts[0][1], parts[0][2])
    with refused(EncoderError, "token", code="vectors-none-vectors"):
        load(f"{folder}?vectors=token")
