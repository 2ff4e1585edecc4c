"""What backbones over pixels share: resize and crop on the way in, normalisation on the device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.models.image_input import NORMALISATIONS, ImageInput
from visir.encoders.models.image_processors import check_sliver
from visir.encoders.towers.base import Backbone, Inputs
from visir.errors import EncoderError

if TYPE_CHECKING:
    from PIL.Image import Image


class PixelBackbone(Backbone):
    """A backbone whose input is a square of `size` × `size` pixels, as bytes until it is on the device."""

    # A quarter of the memory traffic of floats, and the threads that prepare do no arithmetic.

    modality = "image"
    _scale: Tensor
    _shift: Tensor

    def __init__(self, size: int, shorter: int) -> None:
        super().__init__()
        self.size = size
        self._input = ImageInput((size, size), "imagenet", "crop", shorter, "bilinear")
        mean, deviation = (torch.tensor(values, dtype=torch.float64) for values in NORMALISATIONS["imagenet"])
        # (p/255 - m)/s = p·1/(255 s) - m/s; constants, so they are no part of a checkpoint.
        self.register_buffer("_scale", (1 / (255 * deviation)).float().view(3, 1, 1), persistent=False)
        self.register_buffer("_shift", (mean / deviation).float().view(3, 1, 1), persistent=False)

    def prepare(self, item: Image) -> NDArray[np.uint8]:
        """One upright RGB image to (3, size, size) bytes; raises `ImageError` for a sliver that would blow up."""
        check_sliver(item, self._input.shorter)
        return np.ascontiguousarray(self._input.prepare(item).transpose(2, 0, 1))

    def prepare_sized(self, item: Image) -> NDArray[np.uint8]:
        """One RGB image of `size` × `size` pixels to bytes, as it is."""
        return np.ascontiguousarray(np.asarray(item).transpose(2, 0, 1))

    def collate(self, prepared: Sequence[Any]) -> Tensor:
        """(n, 3, size, size) uint8."""
        return torch.from_numpy(np.stack(prepared))

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) features of (n, 3, size, size) bytes."""
        if not isinstance(inputs, Tensor):
            raise EncoderError(f"{self.kind} takes one tensor of pixels, not {sorted(inputs)}.")
        # Channels last is the layout in which convolutions on CPU and tensor cores are fastest.
        pixels = inputs.to(self._scale.dtype).contiguous(memory_format=torch.channels_last)
        return self.features(pixels * self._scale - self._shift)

    @abstractmethod
    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs) features of (n, 3, size, size) normalised pixels."""

    def preprocessing(self) -> dict[str, Any]:
        """Size, resize rule, interpolation and normalisation."""
        return self._input.to_dict()
