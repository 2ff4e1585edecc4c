"""A small convolutional network, trained from scratch: for small pictures and machines without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from visir.encoders.towers.pixel_body import PixelBody

_GRID = 4


class SmallCNNBody(PixelBody):
    """Four convolutions, each halving the picture, pooled to a grid of 4 × 4 places.

    - `size`: pixels of the square that enters; `width`: channels of the first convolution (doubled twice)
    """

    kind = "small-cnn"

    def __init__(self, *, size: int = 64, width: int = 32) -> None:
        super().__init__(size, size)
        self.width = width
        channels = [3, width, 2 * width, 4 * width, 4 * width]
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(8, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(_GRID), nn.Flatten())
        self.outputs = 4 * width * _GRID**2

    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs)."""
        found: Tensor = self.layers(pixels)
        return found

    def spec(self) -> dict[str, Any]:
        """Size and width."""
        return {"size": self.size, "width": self.width}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """From `spec` alone."""
        return cls(**spec)
