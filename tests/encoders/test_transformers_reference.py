"""Every dual encoder of transformers against transformers itself, from image files' pixels and raw captions on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_transformers as tiny
import torch
import transformers

from visir.collections.images import to_rgb
from visir.encoders.loading import load

KINDS = ("clip", "altclip", "align", "groupvit", "siglip")
TOKENIZERS = {
    "clip": "CLIPTokenizer",
    "groupvit": "CLIPTokenizer",
    "altclip": "XLMRobertaTokenizer",
    "align": "BertTokenizer",
    "siglip": "SiglipTokenizer",
}
# How each model's documentation calls its tokenizer; `max_length` where the saved tokenizer does not know the limit.
CALLS: dict[str, dict[str, Any]] = {
    "clip": {"padding": "max_length"},
    "groupvit": {"padding": True},
    "altclip": {"padding": True, "max_length": 128},
    "align": {"padding": "max_length", "max_length": 64},
    "siglip": {"padding": "max_length"},
}


@pytest.fixture(scope="module", params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Any]:
    kind = str(request.param)
    folder = tmp_path_factory.mktemp(kind)
    return kind, folder, tiny.save(kind, folder)


def reference_texts(kind: str, folder: Path, texts: list[str]) -> dict[str, torch.Tensor]:
    tokenizer = getattr(transformers, TOKENIZERS[kind]).from_pretrained(folder)
    encoded = tokenizer(texts, truncation=True, return_tensors="pt", **CALLS[kind])
    return {name: encoded[name] for name in ("input_ids", "attention_mask") if name in encoded}


def reference(kind: str, folder: Path, model: Any, backend: str) -> dict[str, np.ndarray]:
    images = [to_rgb(image) for image in tiny.photos()]
    inputs = reference_texts(kind, folder, tiny.CAPTIONS)
    pixels = tiny.reference_pixels(folder, backend, images)
    with torch.no_grad():
        image_features = model.get_image_features(pixel_values=pixels)
        text_features = model.get_text_features(**inputs)
        output = model(pixel_values=pixels, **inputs)
    return {
        "image": getattr(image_features, "pooler_output", image_features).numpy(),
        "text": getattr(text_features, "pooler_output", text_features).numpy(),
        "image unit": output.image_embeds.numpy(),
        "text unit": output.text_embeds.numpy(),
    }


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_equals_the_reference(saved: tuple[str, Path, Any], backend: str) -> None:
    kind, folder, model = saved
    expected = reference(kind, folder, model, backend)
    encoder = load(f"{folder}?processor={backend}", device="cpu")
    images, texts = encoder.encode_images(tiny.photos()), encoder.encode_texts(tiny.CAPTIONS)
    assert images.dtype == texts.dtype == np.float32
    assert images.shape == (13, encoder.dimension) and texts.shape == (10, encoder.dimension)
    differences = {
        "image": np.abs(images - expected["image"]).max(),
        "text": np.abs(texts - expected["text"]).max(),
        "image unit": np.abs(unit(images) - expected["image unit"]).max(),
        "text unit": np.abs(unit(texts) - expected["text unit"]).max(),
    }
    print(kind, backend, {name: f"{value:.1e}" for name, value in differences.items()})
    assert max(differences.values()) <= 1e-5, differences
    # The comparison would be empty if all inputs gave one vector.
    assert unit(images).std(axis=0).mean() > 0.005 and unit(texts).std(axis=0).mean() > 0.005


def test_a_vector_does_not_depend_on_its_batch(saved: tuple[str, Path, Any]) -> None:
    _, folder, _ = saved
    encoder = load(folder, device="cpu")
    photos = tiny.photos()
    one_by_one = np.concatenate([encoder.encode_images([photo]) for photo in photos])
    assert np.abs(encoder.encode_images(photos) - one_by_one).max() <= 1e-5
    one_by_one = np.concatenate([encoder.encode_texts([text]) for text in tiny.CAPTIONS])
    assert np.abs(encoder.encode_texts(tiny.CAPTIONS) - one_by_one).max() <= 1e-5


def test_the_same_call_gives_the_same_bits(saved: tuple[str, Path, Any]) -> None:
    _, folder, _ = saved
    first, second = load(folder, device="cpu"), load(folder, device="cpu")
    assert first.card == second.card
    assert np.array_equal(first.encode_images(tiny.photos()), second.encode_images(tiny.photos()))
    assert np.array_equal(first.encode_texts(tiny.CAPTIONS), second.encode_texts(tiny.CAPTIONS))


def test_bfloat16_runs_and_is_near(saved: tuple[str, Path, Any]) -> None:
    _, folder, _ = saved
    exact, rough = load(folder, device="cpu"), load(folder, device="cpu", dtype="bfloat16")
    assert rough.card.dtype == "bfloat16" and rough.card.fingerprint != exact.card.fingerprint
    assert rough.card.weights == exact.card.weights
    for make in (lambda e: e.encode_images(tiny.photos()), lambda e: e.encode_texts(tiny.CAPTIONS)):
        near, far = unit(make(rough)), unit(make(exact))
        assert make(rough).dtype == np.float32
        cosines = (near * far).sum(axis=1)
        assert np.median(cosines) > 0.98  # 8 bits of mantissa through a few layers
        assert cosines.min() > 0.8  # GroupViT assigns patches to groups by arg max, where rounding can tip one over
        assert not np.array_equal(near, far)


def test_nothing_in_nothing_out(saved: tuple[str, Path, Any]) -> None:
    encoder = load(saved[1], device="cpu")
    assert encoder.embed_images([]).shape == encoder.embed_texts([]).shape == (0, encoder.dimension)


def test_siglip_is_given_no_mask_and_full_padding(tmp_path: Path) -> None:
    """Padding takes part in a SigLIP vector; a tokenizer saved with its defaults returns a mask, not to be used."""
    model = tiny.save("siglip", tmp_path)
    expected = load(tmp_path, device="cpu").encode_texts(["a dog"])
    config = tmp_path / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"model_input_names": ["input_ids"]', '"do_lower_case": true'))
    with_mask = reference_texts("siglip", tmp_path, ["a dog"])
    assert "attention_mask" in with_mask
    with torch.no_grad():
        masked = model.get_text_features(**with_mask)
    masked = getattr(masked, "pooler_output", masked).numpy()
    assert np.abs(masked - expected).max() > 1e-3
    assert np.array_equal(load(tmp_path, device="cpu").encode_texts(["a dog"]), expected)
