"""sentence-transformers models that take pictures, against `encode_query` and `encode_document` of the library."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_multi_vector
import tiny_sentence
import tiny_transformers as tiny
from PIL import Image
from sentence_transformers import SentenceTransformer

from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders import devices, encode_items
from visir.encoders.loading import load
from visir.encoders.models.joined import JoinedTexts
from visir.errors import EncoderError, ImageError
from visir.records import Items, Role, strings
from visir.records.items import PLACES

SAVED: dict[str, Callable[[Path], Path]] = {
    "clip": tiny_sentence.save_clip,
    "old-clip": tiny_sentence.save_old_clip,
    "vit": tiny_sentence.save_vit,
    "qwen": tiny_sentence.save_qwen,
}
ROLES: tuple[Role, ...] = ("query", "document")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: save(folder / kind) for kind, save in SAVED.items()}


def photos() -> list[Image.Image]:
    """Twenty-four odd ones; Qwen's processor takes none that is 200 times as long as wide."""
    return [to_rgb(photo) for photo in (*tiny.photos(), *tiny.photos(1)[:11])]


def reference(folder: Path, role: Role) -> Callable[..., np.ndarray]:
    model = SentenceTransformer(str(folder), device="cpu")
    return model.encode_query if role == "query" else model.encode_document


@pytest.mark.parametrize("kind", SAVED)
def test_equals_the_library(saved: dict[str, Path], kind: str) -> None:
    encoder = load(saved[kind], device="cpu")
    images = photos()
    for role in ROLES:
        found, expected = encoder.encode_images(images, role), reference(saved[kind], role)(images)
        assert found.dtype == np.float32 and np.abs(found - expected).max() <= 1e-5
        assert expected.std(axis=0).mean() > 0.01
        if "text" in encoder.modalities:
            texts = [*tiny.CAPTIONS, "https://example.org/a.jpg", "cats.png"]
            wrapped = [{"text": text} for text in texts]
            assert np.abs(encoder.encode_texts(texts, role) - reference(saved[kind], role)(wrapped)).max() <= 1e-5
    alone = np.concatenate([encoder.encode_images([image]) for image in images[:5]])
    assert np.abs(alone - encoder.encode_images(images[:5])).max() <= 1e-5
    assert encoder.embed_images([]).shape == (0, encoder.dimension)


def test_texts_with_pictures(saved: dict[str, Path]) -> None:
    encoder = load(saved["qwen"], device="cpu")
    images = photos()[: len(tiny.CAPTIONS)]
    mixed = [{"text": text, "image": image} for text, image in zip(tiny.CAPTIONS, images, strict=True)]
    for role in ROLES:
        alike = encoder.for_role(role)
        found = alike.embed_texts_with_images(tiny.CAPTIONS, [alike.preprocess(image) for image in images])
        assert np.abs(found - reference(saved["qwen"], role)(mixed)).max() <= 1e-5
    assert np.abs(found - encoder.encode_images(images)).max() > 0.01
    assert np.abs(found - encoder.encode_texts(tiny.CAPTIONS)).max() > 0.01


def test_through_threads_and_the_store(saved: dict[str, Path], tmp_path: Path) -> None:
    files = {}
    for number, image in enumerate(photos()[:9]):
        image.save(tmp_path / f"{number}.png")
        files[str(number)] = tmp_path / f"{number}.png"
    pictures = Items.of_images(files)
    for kind in ("clip", "qwen"):
        encoder = load(saved[kind], device="cpu")
        vectors = encode_items(encoder, pictures, "query", store=tmp_path / "store", batch_size=4).vectors
        assert np.abs(vectors - encoder.encode_images(photos()[:9], "query")).max() <= 1e-5
    both = Items(pictures.ids, strings(tiny.CAPTIONS[:9]), pictures.places.select(PLACES.names))
    vectors = encode_items(encoder, both, store=tmp_path / "store", batch_size=4).vectors
    mixed = [{"text": text, "image": image} for text, image in zip(tiny.CAPTIONS[:9], photos()[:9], strict=True)]
    assert np.abs(vectors - reference(saved["qwen"], "document")(mixed)).max() <= 1e-5


def test_what_a_model_takes_is_found_out(saved: dict[str, Path]) -> None:
    takes = {kind: load(saved[kind], device="cpu").modalities for kind in SAVED}
    assert takes["clip"] == takes["old-clip"] == {"image", "text"}
    assert takes["vit"] == {"image"} and takes["qwen"] == {"image", "text", "text+image"}
    vit, clip = load(saved["vit"], device="cpu"), load(saved["clip"], device="cpu")
    with refused(EncoderError, "texts", code="encodes-no"):
        vit.encode_texts(["a dog"])
    with refused(EncoderError, "texts with images", code="encodes-no"):
        clip.embed_texts_with_images(["a dog"], [clip.preprocess(photos()[0])])
    with refused(EncoderError, "texts with images", code="encodes-no"):
        encode_items(clip, Items(strings(["1"]), strings(["a dog"]), Items.of_images({"1": "a.jpg"}).places))


def test_the_cards(saved: dict[str, Path]) -> None:
    clip, qwen = load(saved["clip"], device="cpu"), load(saved["qwen"], device="cpu")
    assert clip.card.image_preprocessing["class"] == "CLIPImageProcessor" and not clip.distinguishes_roles
    assert "prompt" not in clip.card.image_preprocessing and clip.card.text_preprocessing["prompt"] == ""
    # Where a prompt is a message of the chat, it stands before pictures too.
    assert qwen.card.image_preprocessing["prompt"] == tiny_sentence.QWEN_PROMPTS and qwen.distinguishes_roles
    assert qwen.card.image_preprocessing["chat_template"] == qwen.card.text_preprocessing["chat_template"]
    assert qwen.batch_size == 8 and clip.batch_size == 64
    assert load(saved["vit"], device="cpu").card.text_preprocessing == {}


def test_a_tokenizer_without_a_limit(tmp_path: Path) -> None:
    encoder = load(tiny_multi_vector.save_qwen3(tmp_path / "model"), device="cpu")  # transformers writes 10**30
    assert encoder.card.text_preprocessing["max_length"] is None
    vectors = encode_items(encoder, Items.of_texts({"a": "a dog"}), store=tmp_path / "store").vectors
    assert np.abs(vectors - encoder.encode_texts(["a dog"])).max() <= 1e-5


def test_a_picture_that_is_too_narrow_is_named(saved: dict[str, Path], tmp_path: Path) -> None:
    Image.new("RGB", (3, 900)).save(tmp_path / "thin.png")
    with refused(ImageError, "thin.png", "900", "200"):
        encode_items(load(saved["qwen"], device="cpu"), Items.of_images({"a": tmp_path / "thin.png"}))


def test_prompts_by_name(saved: dict[str, Path]) -> None:
    folder = saved["qwen"]
    model = SentenceTransformer(str(folder), device="cpu")
    images, texts = photos()[:3], tiny.CAPTIONS[:3]
    both = load(f"st:{folder}?prompt=query", device="cpu")
    assert not both.distinguishes_roles
    assert both.card.text_preprocessing["prompt"] == tiny_sentence.QWEN_PROMPTS["query"]
    assert np.abs(both.encode_texts(texts) - model.encode(texts, prompt_name="query")).max() <= 1e-5
    assert np.abs(both.encode_images(images) - model.encode(images, prompt_name="query")).max() <= 1e-5
    one = load(f"st:{folder}?document_prompt=none", device="cpu")
    assert np.abs(one.encode_images(images) - model.encode(images, prompt="")).max() <= 1e-5
    assert np.abs(one.encode_texts(texts, "query") - model.encode_query(texts)).max() <= 1e-5
    with pytest.raises(EncoderError) as caught:
        load(f"st:{folder}?query_prompt=querry", device="cpu")
    assert caught.value.message == (
        f"st:{folder}?query_prompt=querry: this model has no prompt 'querry'. It has: query ('Find the picture. '), "
        "document ('Say what is there. ')."
    )
    assert "did you mean 'query'" in caught.value.hint
    with pytest.raises(EncoderError, match=r"no prompt 'query'\. It has: none at all"):
        load(f"st:{saved['clip']}?prompt=query", device="cpu")


def test_code_that_comes_with_a_model_runs_only_when_the_name_says_so(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(saved["clip"], tmp_path / "copy"))
    parts = json.loads((copy / "modules.json").read_text())
    parts[0]["type"] = "own.Towers"
    (copy / "modules.json").write_text(json.dumps(parts))
    (copy / "own.py").write_text(
        "from sentence_transformers.sentence_transformer.modules import Transformer\n"
        "class Towers(Transformer):\n    pass\n"
    )
    with refused(EncoderError, code="model-needs-python-code") as caught:
        load(copy, device="cpu")
    assert f"{copy}?code=trusted" in caught.value.hint
    encoder = load(f"st:{copy}?code=trusted", device="cpu")
    assert (
        np.abs(encoder.encode_texts(["a dog"]) - load(saved["clip"], device="cpu").encode_texts(["a dog"])).max() == 0
    )
    joined = JoinedTexts([load("bow:16"), encoder])
    (copy.parent / "joined").mkdir()
    joined.save(copy.parent / "joined")
    monkeypatch.setattr(devices, "_named", set())  # as in a new process, where nobody has named the model
    with refused(EncoderError, code="names-model-runs-code") as caught:
        load(copy.parent / "joined", device="cpu")
    assert f"{copy.parent / 'joined'}?code=trusted" in caught.value.hint
    again = load(f"{copy.parent / 'joined'}?code=trusted", device="cpu")
    np.testing.assert_array_equal(again.encode_texts(["a dog"]), joined.encode_texts(["a dog"]))
    (copy / "parts").mkdir()
    (copy / "parts" / "helper.py").write_text("FACTOR = 2\n")  # what the code imports is a part of the model too
    assert load(f"st:{copy}?code=trusted", device="cpu").card.weights != encoder.card.weights
    with refused(EncoderError, "yes", code="code-not-known"):
        load(f"st:{copy}?code=yes", device="cpu")


def test_a_tower_of_such_a_model_is_not_tuned(saved: dict[str, Path]) -> None:
    with refused(EncoderError, code="sentence-transformers-model-takes-pictures"):
        load(saved["clip"], device="cpu").pretrained_tower("text")


def test_a_model_without_a_limit_reads_all_of_a_text(saved: dict[str, Path], tmp_path: Path) -> None:
    """transformers writes 10³⁰ where a tokenizer has no limit."""
    folder = tmp_path / "unlimited"
    shutil.copytree(saved["qwen"], folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 10**30}))
    path = folder / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_seq_length": None}))
    encoder = load(folder, device="cpu")
    assert SentenceTransformer(str(folder), device="cpu").max_seq_length == 10**30 and encoder.text_limit() is None
    assert encode_items(encoder, Items.of_texts({"a": "a dog"}, title="texts"), "query").vectors.shape[0] == 1


def test_a_plain_clip_by_the_library(tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "clip")
    encoder, plain = load(f"st:{tmp_path / 'clip'}", device="cpu"), load(tmp_path / "clip", device="cpu")
    model = SentenceTransformer(str(tmp_path / "clip"), device="cpu")
    texts, photos = ["a dog", "two dogs on a hill", ""], tiny.photos()
    assert encoder.card.family == "sentence-transformers" and encoder.modalities == {"image", "text"}
    assert np.abs(encoder.encode_texts(texts) - model.encode(texts)).max() <= 1e-5
    assert np.abs(encoder.encode_images(photos) - model.encode(photos)).max() <= 1e-5
    assert np.abs(encoder.encode_texts(texts) - plain.encode_texts(texts)).max() <= 1e-5
    ours, theirs = (model.encode_images(photos) for model in (plain, encoder))
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > 0.9999  # by torchvision, and by PIL


def test_a_plain_siglip_is_not_read_by_the_library(tmp_path: Path) -> None:
    """It pads texts to the longest of a batch, and SigLIP was trained on texts padded to 64."""
    tiny.save("siglip", tmp_path / "siglip")
    with refused(EncoderError, "SiglipModel", code="st-not-needed") as caught:
        load(f"st:{tmp_path / 'siglip'}", device="cpu")
    assert f"leave st: out: {tmp_path / 'siglip'}" in caught.value.hint
