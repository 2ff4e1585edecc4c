"""The small convolutional backbone: what goes in, and that neighbours in a batch do not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from refusals import refused
from visir.encoders.towers.resnet import SmallCNNBackbone
from visir.errors import EncoderError


def test_pixels_by_hand() -> None:
    backbone = SmallCNNBackbone(size=16, width=8)
    # 20 × 16: the shorter side is 16 already, and two columns are cut off on either side.
    rows = np.random.default_rng(0).integers(0, 256, (16, 20, 3), dtype=np.uint8)
    prepared = backbone.prepare(Image.fromarray(rows))
    assert prepared.dtype == np.uint8
    np.testing.assert_array_equal(prepared, rows[:, 2:18].transpose(2, 0, 1))
    seen: list[torch.Tensor] = []
    backbone.layers.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    backbone(backbone.collate([prepared]))
    # Red of the corner: (r/255 - 0.485) / 0.229.
    assert seen[0][0, 0, 0, 0].item() == pytest.approx((rows[0, 2, 0] / 255 - 0.485) / 0.229, abs=1e-6)
    assert seen[0][0, 2, 5, 7].item() == pytest.approx((rows[5, 9, 2] / 255 - 0.406) / 0.225, abs=1e-6)


@pytest.mark.parametrize(("size", "width"), [(64, 32), (64, 8), (48, 16), (16, 8), (100, 8)])
def test_features_of_any_size(size: int, width: int) -> None:
    backbone = SmallCNNBackbone(size=size, width=width)
    found = backbone(torch.zeros(2, 3, size, size, dtype=torch.uint8))
    assert found.shape == (2, 68 * width) == (2, backbone.outputs)


def test_a_picture_alone_and_among_others_in_training_too() -> None:
    torch.manual_seed(0)
    backbone = SmallCNNBackbone(width=8).train()
    pixels = torch.randint(0, 256, (5, 3, 64, 64), dtype=torch.uint8)
    together = backbone(pixels)
    for row in range(5):
        torch.testing.assert_close(backbone(pixels[row : row + 1])[0], together[row], atol=1e-5, rtol=1e-5)


def test_left_and_right_are_told_apart() -> None:
    backbone = SmallCNNBackbone(width=8)
    pixels = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    pixels[..., 20:40, 4:24] = 255
    one, mirrored = backbone(pixels)[0], backbone(pixels.flip(-1))[0]
    assert (one - mirrored).norm() > 0.1 * one.norm()


def test_a_width_that_groups_do_not_divide_is_refused() -> None:
    with refused(EncoderError, "12", "8", code="width-no-multiple"):
        SmallCNNBackbone(width=12)
