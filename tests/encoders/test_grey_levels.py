"""Pictures as bytes: what becomes of them on the device is what the preprocessing makes of them, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_openclip
import tiny_transformers as tiny
import torch
from PIL import Image

from visir.collections import open_collection
from visir.collections.images import to_rgb
from visir.encoders import load
from visir.encoders.models.image_processors import GreyLevels, ramp
from visir.encoders.towers.base import Head, HeadSpec, Tower, own_backbone
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, TrainedTower
from visir.training.build import build_model
from visir.training.recipe import Recipe


@pytest.fixture(params=["clip", "siglip", "blip", "align", "tiny-ViT"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "tiny-ViT":
        folder = tiny_openclip.save_zoo(tmp_path)
        return load(f"openclip:tiny-ViT/{folder / 'tiny-ViT'}.safetensors", device="cpu")
    tiny.save(request.param, tmp_path)
    return load(tmp_path, device="cpu")


def test_bytes_become_the_very_same_numbers_and_vectors(model: Any) -> None:
    tower = model.pretrained_tower("image")
    pictures = [to_rgb(picture) for picture in tiny.photos() if min(picture.size) > 30]
    expected, levels = tower.prepare_all(pictures), tower.reader.prepare_levels(pictures)
    assert {one.dtype for one in levels} == {np.dtype(np.uint8)} and levels[0].nbytes * 4 == expected[0].nbytes
    batch = tower.reader.levels.on_device(torch.from_numpy(np.stack(levels)))
    assert batch.dtype == torch.float32 and np.array_equal(batch.numpy(), np.stack(expected))
    assert np.array_equal(model.embed_images(levels), model.embed_images(expected))
    # The CPU's way is the old one, where threads do the arithmetic.
    assert model.preprocess(pictures[0]).dtype == np.float32 and not model.computes_ahead


def test_a_tuned_tower_takes_bytes_to_the_same_bits(model: Any) -> None:
    backbone = PretrainedBackbone.of(model, "image").eval()
    picture = to_rgb(tiny.photos()[0])
    plain = backbone.collate([backbone.prepare(picture), backbone.prepare_sized(picture)])
    backbone.as_bytes = True
    levels = backbone.collate([backbone.prepare(picture), backbone.prepare_sized(picture)])
    assert (plain.dtype, levels.dtype) == (torch.float32, torch.uint8)  # type: ignore[union-attr]
    with torch.no_grad():
        assert torch.equal(backbone(plain), backbone(levels))


def test_so_does_a_tower_that_was_trained_and_is_tuned_again(model: Any) -> None:
    backbone = PretrainedBackbone.of(model, "image")
    tower = Tower(backbone, Head(HeadSpec(backbone.outputs, 8))).eval()
    picture = to_rgb(tiny.photos()[0])
    for each in (tower, TrainedTower(tower).eval()):
        plain = each.collate([each.prepare(picture)])
        each.as_bytes = True
        levels = each.collate([each.prepare(picture)])
        assert (plain.dtype, levels.dtype) == (torch.float32, torch.uint8)  # type: ignore[union-attr]
        with torch.no_grad():
            assert torch.equal(each(plain), each(levels))


def test_a_training_on_a_gpu_prepares_bytes(tmp_path: Path) -> None:
    tiny.save("clip", tmp_path)
    side = {"tower": "pretrained", "encoder": str(tmp_path)}
    values = {"name": "tuned", "dimension": "own", "data": {"collection": "scenes:2"}, "image": side, "text": side}
    recipe, train = Recipe.model_validate(values), open_collection("scenes:5?size=64")
    for device, dtype in (("cpu", np.float32), ("cuda:0", np.uint8)):
        backbone = own_backbone(build_model(recipe, train, device).towers["image"].backbone)
        assert backbone.prepare(Image.new("RGB", (70, 60))).dtype == dtype


def test_torchvision_processors_go_the_old_way(tmp_path: Path) -> None:
    tiny.save("clip", tmp_path)
    encoder: Any = load(f"{tmp_path}?processor=torchvision", device="cpu")
    assert encoder.pretrained_tower("image").reader.levels is None


def test_a_preprocessing_that_looks_at_more_than_the_value_has_no_levels() -> None:
    def sized(image: Image.Image) -> Any:
        return np.asarray(image.resize((16, 16))).transpose(2, 0, 1)

    def plain(image: Image.Image) -> Any:
        return sized(image).astype(np.float32) / 255

    def centred(image: Image.Image) -> Any:
        return plain(image) - plain(image).mean()

    levels = GreyLevels.of(sized, plain(ramp()), plain)
    assert levels is not None and levels.pixels(np.full((3, 1, 1), 51, np.uint8)).ravel() == pytest.approx([0.2] * 3)
    assert GreyLevels.of(sized, centred(ramp()), centred) is None
    assert GreyLevels.of(lambda image: plain(image), plain(ramp()), plain) is None  # no bytes
