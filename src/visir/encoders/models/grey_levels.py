"""Pictures as grey levels: bytes until they are where the model computes, then what its preprocessing makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


class GreyLevels:
    """The numbers that a preprocessing makes of each grey level of each channel, once a picture has its size."""

    # Rescaling and normalising look at one value at a time, so a table says all that they do. Looking up gives the same
    # bits as computing, on the CPU and on a GPU alike, and costs a fraction of it; and a picture of bytes is a quarter
    # of one of float32, where it waits, is stacked and is copied to a GPU.

    def __init__(self, table: NDArray[np.float32]) -> None:
        self._table = table

    @classmethod
    def of(
        cls, sized: Callable[[Image], NDArray[Any]], answer: NDArray[Any], whole: Callable[[Image], NDArray[np.float32]]
    ) -> GreyLevels | None:
        """The levels of a preprocessing; None when it does more to values than a table can say."""
        # sized: Its first half: from an upright RGB image to bytes (3, H, W) in the model's size.
        from PIL import Image

        trial = Image.fromarray(np.random.default_rng(0).integers(0, 256, (41, 67, 3), dtype=np.uint8))
        levels = sized(trial)
        if answer.shape != (3, 16, 16) or levels.dtype != np.uint8:
            return None
        made = cls(answer.reshape(3, 256).astype(np.float32))
        return made if np.array_equal(made.pixels(levels), whole(trial)) else None

    def pixels(self, levels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(3, H, W) float32 of one picture's levels."""
        result = np.empty(levels.shape, np.float32)
        for channel, table in enumerate(self._table):
            np.take(table, levels[channel], out=result[channel], mode="clip")
        return result

    def on_device(self, levels: Tensor) -> Tensor:
        """(n, 3, H, W) float32 of a batch of levels, on their device: the bits that `pixels` gives."""
        import torch

        table = torch.from_numpy(self._table).to(levels.device, non_blocking=True)
        first = torch.arange(0, 768, 256, dtype=torch.int32, device=levels.device).view(3, 1, 1)
        return table.flatten()[levels.int() + first]


def ramp() -> Image:
    """16 × 16 pixels with every grey level once."""
    from PIL import Image

    return Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2))
