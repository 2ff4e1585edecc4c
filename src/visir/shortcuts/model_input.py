"""What a model's input looks like, found out by showing it black and white pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError

_SQUARE = 256
"""Pixels of the first picture that is shown, whose shape as an input gives the model's size."""
_SAME = 1e-3
"""Of the contrast: interpolation in floats leaves differences in the last digits between equal pixels."""


@dataclass(frozen=True, eq=False)
class ModelInput:
    """A prepared picture, one view of it."""

    shape: tuple[int, int, int]  # (3, height, width), or (height, width, 3) when `channels_last`
    channels_last: bool  # whether the channels come last
    black: NDArray[np.float32]  # float32, what black becomes in each channel, shaped to broadcast over such a picture
    white: NDArray[np.float32]  # float32, the same for white

    @property
    def height(self) -> int:
        """In pixels."""
        return self.shape[0 if self.channels_last else 1]

    @property
    def width(self) -> int:
        """In pixels."""
        return self.shape[1 if self.channels_last else 2]


def learn(prepare: Callable[[Any], Any]) -> ModelInput:
    """Find out what a model's input looks like, by preparing pictures of one colour."""
    from PIL import Image

    prepared = prepare(Image.new("RGB", (_SQUARE, _SQUARE)))
    axes = tuple(int(length) for length in getattr(prepared, "shape", ()))[-3:]
    if len(axes) < 3 or 3 not in (axes[0], axes[2]):
        problem = f"has the shape {axes}" if hasattr(prepared, "shape") else f"is a {type(prepared).__name__}"
        raise _no_picture(problem)
    shape = (axes[0], axes[1], axes[2])
    last = shape[0] != 3
    size = (shape[1], shape[0]) if last else (shape[2], shape[1])
    ends = []
    for colour in ("black", "white"):
        # Of the input's own proportions, so that nothing is padded with another colour.
        values = np.asarray(prepare(Image.new("RGB", size, colour)), np.float32)
        if values.shape[-3:] != shape:
            raise _no_picture(f"has the shape {shape} for one picture and {values.shape[-3:]} for another")
        pixels = values.reshape(-1, *shape)
        over = (0, 1, 2) if last else (0, 2, 3)
        ends.append((pixels.min(over), pixels.max(over)))
    (black, black_too), (white, white_too) = ends
    uneven = np.maximum(black_too - black, white_too - white)
    if (uneven > _SAME * np.abs(white - black)).any() or (white == black).any():
        raise _no_picture("does not show a black picture black and a white one white")
    channels = (1, 1, 3) if last else (3, 1, 1)
    return ModelInput(shape, last, black.reshape(channels), white.reshape(channels))


def _no_picture(problem: str) -> EncoderError:
    return EncoderError(
        f"this model's input {problem}; digits can be stamped on (3, height, width) or (height, width, 3), red, green "
        "and blue.",
        hint="take another image encoder, or leave pictures as they are: on=captions",
    )
