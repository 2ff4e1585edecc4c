"""Two towers as one encoder: every combination saved and loaded, bit for bit; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_toys import Means, photos
from PIL import Image

from manifests import content_of, rewrite, seal
from refusals import refused
from visir.encoders import encode, load
from visir.encoders.base import Encoder
from visir.encoders.models.small import BagOfWords
from visir.encoders.models.towers import TowersEncoder, load_checkpoint, write_towers
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.resnet import ResNetBackbone, SmallCNNBackbone
from visir.errors import EncoderError, VisirError

TEXTS = ["a red dog", "", "a zebra by the sea", "the dog's red, red ball"]
IMAGES = [
    Image.new("RGB", size, colour) for size, colour in [((90, 70), "red"), ((40, 40), "blue"), ((50, 99), "grey")]
]
Side = tuple[Tower, Encoder | None]


def over_backbone(backbone: SmallCNNBackbone | ResNetBackbone | GRUBackbone) -> Side:
    return Tower(backbone, Head(HeadSpec(backbone.outputs, 6))), None


def over_frozen(encoder: Encoder, **head: object) -> Side:
    return Tower(None, Head(HeadSpec(encoder.dimension, 6, **head))), encoder  # type: ignore[arg-type]


def gru() -> GRUBackbone:
    return GRUBackbone(WordVocabulary.fit(TEXTS), words=5, hidden=4)


IMAGE_SIDES: dict[str, Callable[[], Side]] = {
    "frozen": lambda: over_frozen(load("pixels"), hidden=(7,)),
    "small-cnn": lambda: over_backbone(SmallCNNBackbone(width=8)),
    "resnet": lambda: over_backbone(ResNetBackbone(depth=18, weights="random", size=32)),
}
TEXT_SIDES: dict[str, Callable[[], Side]] = {
    "frozen": lambda: over_frozen(load("bow:50")),
    "fitted": lambda: over_frozen(BagOfWords.fit(TEXTS), scaling="standard"),
    "gru": lambda: over_backbone(gru()),
}


def build(image: str = "small-cnn", text: str = "gru", **options: str) -> TowersEncoder:
    torch.manual_seed(0)
    sides = {"image": IMAGE_SIDES[image](), "text": TEXT_SIDES[text]()}
    towers = {side: tower for side, (tower, _) in sides.items()}
    base_encoders = {side: base_encoder for side, (_, base_encoder) in sides.items()}
    return TowersEncoder(towers, base_encoders, **{"device": "cpu", **options})  # type: ignore[arg-type]


def written(folder: Path, encoder: TowersEncoder) -> Path:
    folder.mkdir()
    write_towers(folder, encoder, facts={"epochs": 3})
    return folder


@pytest.mark.parametrize("image", IMAGE_SIDES)
@pytest.mark.parametrize("text", TEXT_SIDES)
def test_loaded_is_saved_bit_for_bit(image: str, text: str, tmp_path: Path) -> None:
    encoder = build(image, text)
    folder = written(tmp_path / "out", encoder)
    again = load(folder, device="cpu")
    assert isinstance(again, TowersEncoder) and again.dimension == 6 and again.modalities == {"image", "text"}
    images, texts = encoder.encode_images(IMAGES), encoder.encode_texts(TEXTS)
    assert images.shape == (3, 6) and texts.shape == (4, 6) and images.dtype == np.float32
    assert np.array_equal(again.encode_images(IMAGES), images)
    assert np.array_equal(again.encode_texts(TEXTS), texts)
    assert again.card.image_preprocessing == encoder.card.image_preprocessing != {}
    assert again.card.text_preprocessing == encoder.card.text_preprocessing != {}
    assert content_of(folder)["facts"] == {"epochs": 3}
    assert (again.base_encoder("image") is None, again.base_encoder("text") is None) == (
        image != "frozen",
        text == "gru",
    )
    assert again.embed_images([]).shape == again.embed_texts([]).shape == (0, 6)


def test_the_folder_holds_nothing_superfluous(tmp_path: Path) -> None:
    folder = written(tmp_path / "out", build())
    found = sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*"))
    assert found == ["text_backbone", "text_backbone/vocabulary.txt", "towers.safetensors", "visir.json"]


def test_the_card_knows_weights_shapes_and_words(tmp_path: Path) -> None:
    encoder = build()
    folder = written(tmp_path / "out", encoder)
    card = load(folder, device="cpu").card
    assert card.family == "towers" and card.name == str(folder) and card.dtype == "float32"
    assert encoder.card.weights is None  # never written: nothing to hash

    def changed() -> str | None:
        return load_checkpoint(folder, "cpu", "float32").card.weights

    description = content_of(folder)
    rewrite(folder, {**description, "facts": {"note": "other facts"}})
    assert changed() == card.weights
    description["text"]["backbone"]["pooling"] = "max"
    rewrite(folder, description)
    pooled = changed()
    words = (folder / "text_backbone/vocabulary.txt").read_text().splitlines()
    (folder / "text_backbone/vocabulary.txt").write_text("\n".join(reversed(words)) + "\n")
    renamed = changed()
    assert len({card.weights, pooled, renamed}) == 3


def test_other_arithmetic_is_on_the_card_and_near(tmp_path: Path) -> None:
    folder = written(tmp_path / "out", build())
    full, pretrained_tower = (load(folder, device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert pretrained_tower.card.dtype == "bfloat16" and pretrained_tower.card.fingerprint != full.card.fingerprint
    for side in ("encode_images", "encode_texts"):
        inputs = IMAGES if side == "encode_images" else TEXTS
        one, other = getattr(full, side)(inputs), getattr(pretrained_tower, side)(inputs)
        assert other.dtype == np.float32 and not np.array_equal(one, other)
        np.testing.assert_allclose(one, other, atol=0.05)


def test_the_store_keeps_the_vectors_of_what_is_frozen(tmp_path: Path) -> None:
    toy = Means()
    towers = {"image": over_frozen(toy)[0], "text": over_backbone(gru())[0]}
    collection = photos(tmp_path / "photos", 6)
    for _ in range(2):  # another head over the same encoder
        towers["image"] = over_frozen(toy)[0]
        encoder = TowersEncoder(towers, {"image": toy, "text": None}, device="cpu", weights="w")  # type: ignore[arg-type]
        found = encode(encoder, collection, "image").vectors
        with torch.no_grad():
            expected = towers["image"](torch.from_numpy(encode(toy, collection, "image").vectors.copy()))
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
    assert sum(toy.seen) == 6
    texts = encode(encoder, collection, "text").vectors
    np.testing.assert_allclose(texts, encoder.encode_texts(collection.captions["text"].to_pylist()), atol=1e-6)
    with refused(EncoderError, code="no-base-encoder", hint=False):
        encoder.project("text", texts)


def test_towers_that_do_not_fit_are_refused() -> None:
    image, text = IMAGE_SIDES["small-cnn"]()[0], TEXT_SIDES["gru"]()[0]

    def made(images: Tower, texts: Tower, **base_encoders: Encoder) -> None:
        TowersEncoder({"image": images, "text": texts}, base_encoders, device="cpu")  # type: ignore[arg-type]

    with refused(EncoderError, code="tower-needs-either-backbone", hint=False):
        made(Tower(None, image.head), text)
    with refused(EncoderError, code="tower-needs-either-backbone", hint=False):
        made(image, text, text=load("bow:8"))
    with refused(EncoderError, "images", code="backbone-kind-reads-no", hint=False):
        made(text, text)
    with refused(EncoderError, "text", "8", "7", code="backbone-gives-dimensions", hint=False):
        made(image, Tower(gru(), Head(HeadSpec(7, 6))))
    with refused(EncoderError, "texts", code="encoder-encodes-no", hint=False):
        made(image, over_frozen(load("pixels"))[0], text=load("pixels"))
    with refused(EncoderError, "8", "text", "50", code="gives-dimensions", hint=False):
        made(image, TEXT_SIDES["frozen"]()[0], text=load("bow:8"))
    with refused(EncoderError, "6", "5", code="towers-end-different-dimensions", hint=False):
        made(image, Tower(gru(), Head(HeadSpec(8, 5))))


def test_missing_and_damaged_files_say_so(tmp_path: Path) -> None:
    folder = written(tmp_path / "out", build())
    weights, vocabulary = folder / "towers.safetensors", folder / "text_backbone/vocabulary.txt"
    whole, words = weights.read_bytes(), vocabulary.read_bytes()
    weights.write_bytes(whole[:-100])
    with refused(EncoderError, "- towers.safetensors", code="checkpoint-damaged") as caught:
        load(folder)
    assert "copy the whole checkpoint again" in str(caught.value)
    weights.write_bytes(whole[:-100] + bytes(100))  # as long, and it would be read
    with refused(EncoderError, "towers.safetensors"):
        load(folder)
    weights.unlink()
    with refused(EncoderError, "towers.safetensors is missing"):
        load(folder)
    (tmp_path / "elsewhere").write_bytes(whole)
    weights.symlink_to(tmp_path / "elsewhere")  # as the cache of the hub lays it out
    load(folder)
    weights.unlink()
    weights.write_bytes(whole[:-100])
    seal(folder)
    with refused(EncoderError, "towers.safetensors", code="cannot-read"):
        load(folder)
    weights.write_bytes(whole)
    vocabulary.write_bytes(words + b"more\n")
    seal(folder)
    with refused(EncoderError, "towers.safetensors", "visir.json", code="not-fit"):
        load(folder)
    vocabulary.unlink()
    with refused(VisirError, "vocabulary.txt is missing"):
        load(folder)
    vocabulary.write_bytes(words)
    seal(folder)
    description = content_of(folder)
    description["text"]["backbone"]["kind"] = "grue"
    rewrite(folder, description)
    with refused(VisirError, "kind", "backbone", "grue", code="unknown-name") as unknown:
        load(folder)
    assert "did you mean 'gru'?" in str(unknown.value)
    del description["text"]
    rewrite(folder, description)
    with refused(EncoderError, "visir.json", "text", code="entry-not-describe-tower"):
        load(folder)


def test_another_frozen_encoder_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "out", build("small-cnn", "fitted"))
    other = BagOfWords.fit([*TEXTS, "a zebra, a sea"])
    other.save(folder / "text_base_encoder")
    seal(folder)
    with refused(EncoderError, "text", code="base-encoder-not-one") as caught:
        load(folder)
    assert "weights: trained with" in str(caught.value)
