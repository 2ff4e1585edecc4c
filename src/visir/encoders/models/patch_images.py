"""Pictures that keep their proportions: as many patches as fit (NaFlex, SigLIP 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from visir.encoders.models.processor_values import processor_values

if TYPE_CHECKING:
    from PIL.Image import Image


class NaFlexProcessor:
    """A picture to a grid of patches: float32 (rows, columns, values of a patch)."""

    # The picture is scaled to the largest grid of its own proportions that has at most so many patches (Dehghani et al.
    # 2023). The library pads every picture to the most; here a batch is padded to its largest, and the rest is masked
    # either way.

    def __init__(self, processor: Any, backend: str, patches: int | None = None) -> None:
        self._processor, self.backend = processor, backend
        self.patches = patches or int(processor.max_num_patches)

    def pixels(self, image: Image) -> NDArray[np.float32]:
        """One RGB image as the model wants it."""
        made = self._processor(images=image, max_num_patches=self.patches, return_tensors="np")
        rows, columns = (int(number) for number in made["spatial_shapes"][0])
        patches = np.asarray(made["pixel_values"][0][: rows * columns], np.float32)
        return patches.reshape(rows, columns, -1)

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card."""
        return {**processor_values(self._processor, self.backend), "max_num_patches": self.patches}


def collate_patches(grids: Sequence[NDArray[np.float32]]) -> dict[str, torch.Tensor]:
    """The inputs of a NaFlex model: patches (n, most, values), their mask, and the shapes of the grids (n, 2)."""
    shapes = np.array([grid.shape[:2] for grid in grids], np.int64)
    counts = shapes.prod(axis=1)
    values = np.zeros((len(grids), counts.max(), grids[0].shape[2]), np.float32)
    mask = np.zeros(values.shape[:2], np.int64)
    for row, (grid, count) in enumerate(zip(grids, counts.tolist(), strict=True)):
        values[row, :count], mask[row, :count] = grid.reshape(count, -1), 1
    return {
        "pixel_values": torch.from_numpy(values),
        "pixel_attention_mask": torch.from_numpy(mask),
        "spatial_shapes": torch.from_numpy(shapes),
    }
