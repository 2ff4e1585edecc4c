"""Every class of transformers with image and text features against its own processor and its own features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_dual
import tiny_transformers as tiny
import torch
import transformers
from PIL import Image

from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.loading import load
from visir.encoders.models import transformers_models
from visir.errors import EncoderError

# How each model's documentation calls its processor. Where it does not cut, the cut of its training is named.
CALLS: dict[str, dict[str, Any]] = {
    "aimv2": {"padding": True, "truncation": True},
    "chinese_clip": {"padding": True, "truncation": True, "max_length": 52},
    "clipseg": {"padding": True, "truncation": True},
    "flava": {"padding": "max_length", "truncation": True, "max_length": 77},
    "metaclip_2": {"padding": True, "truncation": True, "max_length": 77},
    "owlvit": {"truncation": True},
    "owlv2": {"truncation": True},
    "siglip2": {},
    "tipsv2": {},
    "vision-text-dual-encoder": {"padding": True, "truncation": True},
}


@pytest.fixture(scope="module", params=tuple(CALLS))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Any]:
    kind = str(request.param)
    folder = tmp_path_factory.mktemp("saved") / kind
    model = tiny_dual.save(kind, folder)
    inner = {"clipseg": "clip", "flava": "flava", "owlvit": "owlvit", "owlv2": "owlv2"}.get(kind)
    return kind, folder, model if inner is None else getattr(model, inner)


def reference(kind: str, folder: Path, model: Any, backend: str) -> tuple[np.ndarray, np.ndarray]:
    processor = transformers.AutoProcessor.from_pretrained(folder)
    if backend == "pil":
        pil = f"{type(processor.image_processor).__name__}Pil"
        settings = json.loads((folder / "processor_config.json").read_text())["image_processor"]
        processor.image_processor = getattr(transformers, pil)(**settings)
    images = [to_rgb(image) for image in tiny_dual.photos()]
    pixels = processor(
        images=images, return_tensors="pt", **({"max_num_patches": 30, "patch_size": 8} if kind == "siglip2" else {})
    )
    texts = processor(text=tiny_dual.TEXTS, return_tensors="pt", **CALLS[kind])
    with torch.no_grad():
        image_features = model.get_image_features(**pixels).pooler_output
        text_features = model.get_text_features(**texts).pooler_output
    if kind == "flava":  # all tokens are projected; the first is the one that is compared
        image_features, text_features = image_features[:, 0], text_features[:, 0]
    return image_features.numpy(), text_features.numpy()


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_equals_the_reference(saved: tuple[str, Path, Any], backend: str) -> None:
    kind, folder, model = saved
    if kind == "tipsv2" and backend == "pil":
        with refused(EncoderError, "pil", code="cannot-run"):
            load(f"{folder}?processor=pil", device="cpu")
        return
    expected_images, expected_texts = reference(kind, folder, model, backend)
    encoder = load(f"{folder}?processor={backend}", device="cpu")
    images, texts = encoder.encode_images(tiny_dual.photos()), encoder.encode_texts(tiny_dual.TEXTS)
    assert images.shape == (20, encoder.dimension) and texts.shape == (16, encoder.dimension)
    differences = np.abs(images - expected_images).max(), np.abs(texts - expected_texts).max()
    print(kind, backend, *(f"{value:.1e}" for value in differences))
    assert max(differences) <= 1e-5
    whole = np.linalg.norm(texts, axis=1) > 0
    assert unit(images).std(axis=0).mean() > 0.005 and unit(texts[whole]).std(axis=0).mean() > 0.005


def test_a_vector_does_not_depend_on_its_batch(saved: tuple[str, Path, Any]) -> None:
    _, folder, _ = saved
    encoder = load(folder, device="cpu")
    photos, texts = tiny_dual.photos()[::4], tiny_dual.TEXTS[::3]
    alone = np.concatenate([encoder.encode_images([photo]) for photo in photos])
    assert np.abs(encoder.encode_images(photos) - alone).max() <= 1e-5
    alone = np.concatenate([encoder.encode_texts([text]) for text in texts])
    assert np.abs(encoder.encode_texts(texts) - alone).max() <= 1e-5
    assert encoder.embed_images([]).shape == encoder.embed_texts([]).shape == (0, encoder.dimension)


def test_the_towers_are_tuned_where_pictures_have_one_size(saved: tuple[str, Path, Any], tmp_path: Path) -> None:
    """A tower's files and weights are enough to build it again; NaFlex says why it is not tuned."""
    from visir.encoders.towers.pretrained_backbone import PretrainedBackbone

    kind, folder, _ = saved
    encoder = load(folder, device="cpu")
    for modality, items in (
        ("image", [to_rgb(photo) for photo in tiny_dual.photos()[:3]]),
        ("text", ["a dog", "grass"]),
    ):
        if kind == "siglip2" and modality == "image":
            with refused(EncoderError, code="tower-whose-pictures-shape") as caught:
                PretrainedBackbone.of(encoder, modality)
            assert "frozen" in caught.value.hint
            continue
        tower = PretrainedBackbone.of(encoder, modality)
        place = tmp_path / modality
        place.mkdir()
        tower.save(place)
        again = PretrainedBackbone.load(place, tower.spec())
        again.load_state_dict(tower.state_dict())
        inputs = tower.collate([tower.prepare(item) for item in items])
        vectors = tower(inputs)
        assert torch.equal(vectors, again.eval()(again.collate([again.prepare(item) for item in items])))
        vectors.square().sum().backward()
        idle = [name for name, weight in tower.named_parameters() if weight.grad is None]
        assert not idle, idle


def test_a_class_that_nobody_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new class with image and text features loads by itself, and its card says how it was read."""
    model = tiny.save("clip", tmp_path)
    expected = load(tmp_path, device="cpu")
    left = {name: family for name, family in transformers_models.ROWS.items() if name != "CLIPModel"}
    monkeypatch.setattr(transformers_models, "ROWS", left)
    encoder = load(tmp_path, device="cpu")
    assert np.array_equal(encoder.encode_texts(["a dog"]), expected.encode_texts(["a dog"]))
    assert np.array_equal(encoder.encode_images(tiny.photos()[:2]), expected.encode_images(tiny.photos()[:2]))
    assert encoder.dimension == 24 == model.config.projection_dim
    assert encoder.card.text_preprocessing["read_by"] == "get_image_features and get_text_features, as they are"
    assert "read_by" not in expected.card.text_preprocessing


def test_naflex_pictures_keep_their_proportions(tmp_path: Path) -> None:
    tiny_dual.save("siglip2", tmp_path / "model")
    encoder = load(tmp_path / "model", device="cpu")
    # 30 patches of 8 x 8 at most: a square of 5 x 5, a panorama of 1 x 30.
    assert encoder.preprocess(Image.new("RGB", (100, 100))).shape == (5, 5, 192)
    assert encoder.preprocess(Image.new("RGB", (3000, 100))).shape == (1, 30, 192)
    more = load(f"{tmp_path / 'model'}?patches=120", device="cpu")
    assert more.preprocess(Image.new("RGB", (100, 100))).shape == (10, 10, 192)
    assert more.card.image_preprocessing["max_num_patches"] == 120
    assert more.card.fingerprint != encoder.card.fingerprint
    tiny.save("clip", tmp_path / "clip")
    with refused(EncoderError, "9", code="one-size-of-pictures"):
        load(f"{tmp_path / 'clip'}?patches=9", device="cpu")
    with pytest.raises(EncoderError, match="pooling says nothing to a CLIPModel"):
        load(f"{tmp_path / 'clip'}?pooling=mean", device="cpu")
