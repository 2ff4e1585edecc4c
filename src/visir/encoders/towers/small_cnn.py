"""A small convolutional network, trained from scratch: for small pictures and machines without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from visir.encoders.towers.pixel_backbone import PixelBackbone
from visir.errors import EncoderError

_GROUPS = 8
_GRID = 4


class SmallCNNBackbone(PixelBackbone):
    """Four convolutions of 3 × 3, the first three halving the picture, read out both in places and as a whole.

    The last maps are averaged over a grid of 4 × 4 places, which keeps what is left of what; beside them stands every
    channel's maximum over the whole picture, which says what is there wherever it is. 68 · `width` features in all.

    Normalisation is over groups of channels of one picture (Wu & He 2018). Batch normalisation would make a vector
    depend on its neighbours, and a batch in chunks, or over several processes, would not be the same batch.

    Args:
        size: Pixels of the square that enters.
        width: Channels of the first convolution, doubled twice. A multiple of 8, because of the groups below.
    """

    kind = "small-cnn"

    def __init__(self, *, size: int = 64, width: int = 32) -> None:
        if width % _GROUPS:
            raise EncoderError(
                f"the width {width} is no multiple of {_GROUPS}.",
                hint="e.g. image.width = 32",
                code="width-no-multiple",
            )
        super().__init__(size, size)
        self.width = width
        channels = [3, width, 2 * width, 4 * width, 4 * width]
        layers: list[nn.Module] = []
        for (before, after), stride in zip(pairwise(channels), (2, 2, 2, 1), strict=True):
            layers += [
                nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
                nn.GroupNorm(_GROUPS, after),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        self.places = nn.AdaptiveAvgPool2d(_GRID)
        self.outputs = 4 * width * (_GRID**2 + 1)

    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs): the means of 4 × 4 places, then the maxima."""
        maps = self.layers(pixels)
        return torch.cat([self.places(maps).flatten(1), maps.amax((2, 3))], dim=1)

    def spec(self) -> dict[str, Any]:
        """Size and width."""
        return {"size": self.size, "width": self.width}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """From `spec` alone."""
        return cls(**spec)
