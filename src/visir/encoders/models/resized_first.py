"""Pictures scaled before an image processor of `transformers` sees them: the same bits, large ones in half the time.

The processors that run on PIL copy a picture into an array, move its axes, make a PIL image of the array again, and
scale that. Scaled first, all the copies are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

_TRIALS = ((67, 41), (41, 67), (640, 427), (7, 5))
"""Widths and heights of the pictures that are compared."""


class ResizedFirst:
    """The first step of a processor, taken by PIL alone."""

    def __init__(self, size: int | tuple[int, int], resample: Any) -> None:
        self._size, self._resample = size, resample

    @classmethod
    def of(cls, processor: Any, levels: Callable[..., NDArray[Any]]) -> ResizedFirst | None:
        """That of a processor; None where it scales in another way, or where trial pictures come out otherwise."""
        # levels: From an upright RGB image, and settings of the processor, to bytes (3, H, W) in the model's size.
        from PIL import Image

        settings = processor.to_dict()
        size, resample = dict(settings.get("size") or {}), settings.get("resample")
        if not settings.get("do_resize") or resample is None:
            return None
        if set(size) == {"height", "width"}:
            made = cls((size["height"], size["width"]), resample)
        elif set(size) == {"shortest_edge"}:
            made = cls(size["shortest_edge"], resample)
        else:
            return None
        random = np.random.default_rng(0)
        for width, height in _TRIALS:
            trial = Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8))
            if not np.array_equal(levels(made.resize(trial), do_resize=False), levels(trial)):
                return None
        return made

    def resize(self, image: Image) -> Image:
        """One RGB image in the size that the processor would scale it to."""
        if isinstance(self._size, tuple):
            height, width = self._size
            return image.resize((width, height), self._resample)
        short, long = sorted(image.size)
        scaled = self._size, int(self._size * long / short)  # the longer side is truncated, as the processors do it
        return image.resize(scaled if image.width <= image.height else scaled[::-1], self._resample)
