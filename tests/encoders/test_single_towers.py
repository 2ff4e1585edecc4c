"""Vision towers alone (image to image search) and text towers alone against transformers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_dual
import tiny_towers
import tiny_transformers as tiny
import torch
import transformers

import visir
from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.loading import load
from visir.errors import EncoderError

# What the documentation of each model takes as the vector of an image; the rest is `pooler_output`.
READ = {
    "clip projected": lambda output: output.image_embeds,
    "metaclip_2": lambda output: output.image_embeds,
    "vit": lambda output: output.last_hidden_state[:, 0],
    "resnet": lambda output: output.pooler_output.flatten(1),
}


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Each tower once."""
    root, made = tmp_path_factory.mktemp("towers"), {}
    for kind in tiny_towers.BUILDERS:
        folder = root / kind.replace(" ", "-")
        made[kind] = folder, tiny_towers.save(kind, folder)
    return made


def pixels_of(kind: str, folder: Path) -> dict[str, torch.Tensor]:
    processor = transformers.AutoImageProcessor.from_pretrained(folder)  # as documented: torchvision
    images = [to_rgb(image) for image in tiny_dual.photos()]
    return dict(processor(images=images, return_tensors="pt"))


@pytest.mark.parametrize("kind", tiny_towers.IMAGES)
def test_an_image_tower_equals_the_reference(towers: dict[str, tuple[Path, Any]], kind: str) -> None:
    folder, model = towers[kind]
    model = model.vit if kind == "vit" else model
    with torch.no_grad():
        expected = READ.get(kind, lambda output: output.pooler_output)(model(**pixels_of(kind, folder))).numpy()
    encoder = load(f"{folder}?processor={'pil' if kind == 'timm' else 'torchvision'}", device="cpu")
    vectors = encoder.encode_images(tiny_dual.photos())
    difference = np.abs(vectors - expected).max()
    print(kind, f"{difference:.1e}")
    assert difference <= 1e-5 and vectors.shape == (20, encoder.dimension)
    assert encoder.modalities == {"image"}
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit.std(axis=0).mean() > 0.005
    assert encoder.card.image_preprocessing["pooling"] == ("cls" if kind == "vit" else "pooler")
    with refused(EncoderError, "texts", "images", code="encodes-no"):
        encoder.encode_texts(["a dog"])


@pytest.mark.parametrize("kind", tiny_towers.TEXTS)
def test_a_text_tower_equals_the_reference(towers: dict[str, tuple[Path, Any]], kind: str) -> None:
    folder, model = towers[kind]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(tiny_dual.TEXTS, padding="max_length", truncation=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**({"input_ids": inputs["input_ids"]} if kind == "siglip text" else inputs))
    expected = (output.text_embeds if kind == "clip text projected" else output.pooler_output).numpy()
    encoder = load(folder, device="cpu")
    assert encoder.modalities == {"text"} and encoder.dimension == expected.shape[1]
    assert np.abs(encoder.encode_texts(tiny_dual.TEXTS) - expected).max() <= 1e-5
    with refused(EncoderError, "images", "texts", code="encodes-no"):
        encoder.encode_images(tiny.photos()[:1])


@pytest.mark.parametrize(("kind", "prefix"), [("dinov2", 1), ("dinov2 registers", 4), ("dinov3", 4), ("siglip", 0)])
def test_another_reading(towers: dict[str, tuple[Path, Any]], kind: str, prefix: int) -> None:
    """The mean of the tokens of patches leaves out the first token and the registers."""
    folder, model = towers[kind]
    with torch.no_grad():
        states = model(**pixels_of(kind, folder)).last_hidden_state
    mean = load(f"{folder}?pooling=mean&processor=torchvision", device="cpu")
    assert np.abs(mean.encode_images(tiny_dual.photos()) - states[:, prefix:].mean(dim=1).numpy()).max() <= 1e-5
    assert mean.card.image_preprocessing["pooling"] == "mean"
    assert mean.card.fingerprint != load(f"{folder}?processor=torchvision", device="cpu").card.fingerprint
    if prefix:
        first = load(f"{folder}?pooling=cls&processor=torchvision", device="cpu")
        assert np.abs(first.encode_images(tiny_dual.photos()) - states[:, 0].numpy()).max() <= 1e-5
    else:
        with refused(EncoderError, code="pooling-cls"):
            load(f"{folder}?pooling=cls", device="cpu")


def test_a_pooler_that_was_never_trained(towers: dict[str, tuple[Path, Any]]) -> None:
    """A classifier's checkpoint has no pooler: it loads by its first token, and the pooler is refused."""
    with refused(EncoderError, "2", "ViTModel", "pooler", code="weights-not-checkpoint"):
        load(f"{towers['vit'][0]}?pooling=pooler", device="cpu")


def test_a_vision_tower_searches_images(towers: dict[str, tuple[Path, Any]]) -> None:
    model = visir.load(towers["dinov2"][0], device="cpu")
    vectors = visir.encode(model, "scenes:4?size=64")
    assert vectors.vectors.shape == (4, 32)
    with refused(EncoderError, "max_length", "Dinov2Model", code="says-nothing-makes-vectors"):
        load(f"{towers['dinov2'][0]}?max_length=9", device="cpu")


def test_a_vision_tower_is_tuned(towers: dict[str, tuple[Path, Any]], tmp_path: Path) -> None:
    from visir.encoders.towers.pretrained_backbone import PretrainedBackbone

    for kind in ("dinov2", "vit", "clip projected"):
        tower = PretrainedBackbone.of(load(towers[kind][0], device="cpu"), "image")
        place = tmp_path / kind
        place.mkdir()
        tower.save(place)
        again = PretrainedBackbone.load(place, tower.spec())
        again.load_state_dict(tower.state_dict())
        inputs = tower.collate([tower.prepare(to_rgb(photo)) for photo in tiny.photos()[:2]])
        vectors = tower(inputs)
        assert torch.equal(vectors, again.eval()(inputs))
        vectors.square().sum().backward()
        assert not [name for name, weight in tower.named_parameters() if weight.grad is None]
