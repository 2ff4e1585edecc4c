"""What visir trained, tuned further: the same vectors, the head's weights among them, and a checkpoint of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from refusals import refused
from visir.encoders.loading import load
from visir.encoders.models.towers import TowersEncoder, write_towers
from visir.encoders.towers.base import Backbone, Head, HeadSpec, Tower, own_backbone
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, own_temperature
from visir.encoders.towers.resnet import ResNetBackbone, SmallCNNBackbone
from visir.errors import EncoderError
from visir.records import Modality

TEXTS = ["a red dog", "", "a zebra by the sea", "the dog's red, red ball"]
IMAGES = [
    Image.new("RGB", size, colour) for size, colour in [((90, 70), "red"), ((40, 40), "blue"), ((50, 99), "grey")]
]


def encoder_of(image: Backbone | None, **head: Any) -> TowersEncoder:
    text = GRUBackbone(WordVocabulary.fit(TEXTS), words=5, hidden=4)
    pixels = None if image is not None else load("pixels")
    width = image.outputs if image is not None else load("pixels").dimension
    towers = {
        "image": Tower(image, Head(HeadSpec(width, 6, **head))),
        "text": Tower(text, Head(HeadSpec(8, 6, hidden=(7,), dropout=0.3))),
    }
    return TowersEncoder(towers, {"image": pixels}, device="cpu")  # type: ignore[arg-type]


def written(folder: Path, encoder: TowersEncoder, **objective: float) -> Path:
    folder.mkdir()
    write_towers(folder, encoder, facts={"objective": objective})
    return folder


def tuned(encoder: Any, *, outputs: int | None = None) -> TowersEncoder:
    """Both towers as backbones of new towers, with the identity or a linear head."""
    towers = {}
    sides: tuple[Modality, ...] = ("image", "text")
    for side in sides:
        backbone = PretrainedBackbone.of(encoder, side)
        identity = outputs is None
        towers[side] = Tower(backbone, Head(HeadSpec(backbone.outputs, outputs or backbone.outputs, identity=identity)))
    return TowersEncoder(towers, {}, device="cpu")  # type: ignore[arg-type]


def vectors(encoder: Any) -> list[np.ndarray]:
    return [encoder.encode_images(IMAGES), encoder.encode_texts(TEXTS)]


def shift(encoder: TowersEncoder) -> None:
    with torch.no_grad():
        for tower in encoder.towers.values():
            for weight in tower.parameters():
                weight.add_(0.01 * torch.randn_like(weight))


@pytest.mark.parametrize(
    "make", [lambda: SmallCNNBackbone(width=8), lambda: ResNetBackbone(depth=18, weights="random", size=32)]
)
def test_tuned_and_tuned_again_each_checkpoint_stands_by_itself(make: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder, encoder = tmp_path / "0", encoder_of(make(), batch_norm=True)
    written(folder, encoder)
    for generation, outputs in enumerate((None, None, 3, None), 1):
        before = vectors(load(folder, device="cpu"))
        encoder = tuned(load(folder, device="cpu"), outputs=outputs)
        if outputs is None:
            assert all(np.array_equal(one, other) for one, other in zip(vectors(encoder), before, strict=True))
        # Everything is tuned, the old head with it; the embedding of the padding never gets a gradient.
        tower = encoder.towers["text"].train()
        backbone = own_backbone(tower.backbone)
        tower(backbone.collate([backbone.prepare(text) for text in TEXTS])).square().sum().backward()
        assert all(weight.grad is not None and weight.grad.any() for weight in tower.parameters())
        tower.eval()
        shift(encoder)
        shutil.rmtree(folder)
        folder = written(tmp_path / str(generation), encoder)
        after = vectors(load(folder, device="cpu"))
        assert all(np.array_equal(one, other) for one, other in zip(vectors(encoder), after, strict=True))
        assert outputs is not None or not np.allclose(after[0], before[0], atol=1e-3)
        card = load(folder, device="cpu").card
        assert card.image_preprocessing == encoder.card.image_preprocessing == make().preprocessing()
    # PretrainedTowers without a head of their own are not wrapped again: two layers for four generations, as for two.
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("vocabulary.txt")) == [
        "text_backbone/vocabulary.txt"
    ]
    spec = own_backbone(encoder.towers["text"].backbone).spec()
    assert spec["family"] == "towers" and spec["backbone"]["family"] == "towers"
    assert spec["backbone"]["backbone"]["kind"] == "gru"


def test_a_copy_has_weights_of_its_own_and_the_encoder_keeps_its(tmp_path: Path) -> None:
    encoder = encoder_of(SmallCNNBackbone(width=8))
    before = vectors(encoder)
    shift(tuned(encoder))
    assert all(np.array_equal(one, other) for one, other in zip(vectors(encoder), before, strict=True))


def test_a_cropped_picture_is_taken_as_it_is() -> None:
    encoder = encoder_of(ResNetBackbone(depth=18, weights="random", size=32))
    backbone, own = PretrainedBackbone.of(encoder, "image"), own_backbone(encoder.towers["image"].backbone)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8))
    assert np.array_equal(backbone.prepare_sized(picture), np.asarray(picture).transpose(2, 0, 1))
    assert np.array_equal(backbone.prepare(picture), own.prepare(picture))
    assert not np.array_equal(backbone.prepare(picture), backbone.prepare_sized(picture))  # scaled to 37, then cut
    assert PretrainedBackbone.of(tuned(encoder), "image").prepare_sized(picture).dtype == np.uint8


def test_the_temperature_is_the_one_of_the_chosen_epoch(tmp_path: Path) -> None:
    encoder = encoder_of(SmallCNNBackbone(width=8))
    assert own_temperature(load(written(tmp_path / "infonce", encoder, temperature=0.031))) == 0.031
    assert own_temperature(load(written(tmp_path / "triplet", encoder))) is None


def test_random_numbers_are_left_alone(tmp_path: Path) -> None:
    backbone = PretrainedBackbone.of(encoder_of(SmallCNNBackbone(width=8)), "text")
    (tmp_path / "backbone").mkdir()
    backbone.save(tmp_path / "backbone")
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    PretrainedBackbone.load(tmp_path / "backbone", backbone.spec())
    assert torch.equal(torch.rand(1), expected)


def test_a_head_over_a_frozen_encoder_has_nothing_to_tune() -> None:
    encoder = encoder_of(None)
    assert PretrainedBackbone.of(encoder, "text").outputs == 6  # the other side has
    with refused(EncoderError, "image", "pixels", code="side-head-over-frozen") as caught:
        PretrainedBackbone.of(encoder, "image")
    assert 'tower = "frozen" trains another head over pixels' in caught.value.hint


def test_activations_that_cannot_be_computed_again() -> None:
    with refused(EncoderError, "tower of kind", "gru", code="no-switch-computing-activations"):
        PretrainedBackbone.of(encoder_of(SmallCNNBackbone(width=8)), "text", checkpointing=True)
