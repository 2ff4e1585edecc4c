"""Six handwritten digits along the top edge of a model's input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError
from visir.records import Shortcuts
from visir.records.shortcuts import DIGITS, LARGEST, Placement
from visir.shortcuts.digits import load_digits
from visir.splitmix import seed_of, splitmix64

# What a model's input looks like, found out by showing it black and white pictures.

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


_STREAM = 3
"""Of the seed's streams: which handwriting (`visir.shortcuts.numbers` has the others)."""
_LEAST = 4
"""Pixels; a digit of 3 × 3 cannot be told from another."""
_POWERS = 10 ** np.arange(DIGITS - 1, -1, -1)


def lefts(width: int, placement: Placement) -> list[int]:
    """Where each of the six tiles of `width // 8` pixels begins, from the left."""
    # width: Of the model's input, in pixels.
    # placement: "even": tile k in the middle of the k-th sixth of the width, to whole pixels; 224: 5, 42, 79, 117, 154,
    # 191. The thesis wants them "evenly spaced across the entire width", so that every part of the feature map sees
    # some (appendix 4.D.4). "packed": side by side from the left edge, as the authors' released code does it; 224: 0,
    # 28, …, 140.
    side = width // 8
    if placement == "packed":
        return [k * side for k in range(DIGITS)]
    return [((2 * k + 1) * width - DIGITS * side + DIGITS) // (2 * DIGITS) for k in range(DIGITS)]


class Stamp:
    """Puts numbers on the prepared pictures of one model, after its augmentation and resizing.

    Inputs are (…, 3, height, width) or (…, height, width, 3), whichever `prepare` makes, bytes or floats, NumPy arrays
    or torch tensors; `…` are several views of one picture, all of them stamped. The released code stamps before
    normalising, which gives the same values: the tiles are opaque.

    Args:
        shortcuts: Placement, handwriting and seed.
        prepare: From an upright RGB picture to the model's input: an encoder's `preprocess`, a backbone's `prepare`. It
            is called for a black and a white picture, which shows what black and white become under any normalisation
            of each channel. So the digits are black and white to every model.

    Raises:
        EncoderError: For a model whose input is not a picture, or too small a one.
    """

    def __init__(self, shortcuts: Shortcuts, prepare: Callable[[Any], Any]) -> None:
        seen = learn(prepare)
        self.side = side = seen.width // 8
        if side < _LEAST or seen.height < side:
            raise EncoderError(
                f"this model's pictures of {seen.width} × {seen.height} pixels have no room for six digits.",
                hint=f"take one whose input is at least {8 * _LEAST} pixels wide, or leave pictures as they are: "
                "on=captions",
            )
        self._shape = seen.shape
        # A tile gets an axis for the channels, behind its pixels or before them.
        self._axis = -1 if seen.channels_last else -3
        across = (slice(None),) if seen.channels_last else ()
        self._places = [
            (..., slice(0, side), slice(left, left + side), *across) for left in lefts(seen.width, shortcuts.placement)
        ]
        self._black = seen.black
        self._span = (seen.white - seen.black) / np.float32(255)
        self._bytes = bool((seen.black == 0).all() and (seen.white == 255).all())
        digits = load_digits(shortcuts.digits)
        self._tiles = digits.tiles(side)
        self._rows = np.concatenate(digits.rows_of)
        self._counts = np.array([len(rows) for rows in digits.rows_of])
        self._starts = np.cumsum(self._counts) - self._counts
        self._seed = seed_of(shortcuts.seed, _STREAM)

    def __call__(self, prepared: Any, number: int, key: int) -> Any:
        """A copy of one prepared picture that carries `number`; see `batch`."""
        stamped = prepared.copy() if isinstance(prepared, np.ndarray) else prepared.clone()
        self.batch(stamped[None], np.zeros(1, np.int64), np.array([number]), np.array([key]))
        return stamped

    def batch(
        self, pictures: Any, rows: NDArray[np.int64], numbers: NDArray[np.int64], keys: NDArray[np.int64]
    ) -> None:
        """Stamp, in place, the pictures `rows` of a batch (n, …) with their `numbers`.

        `numbers` (n,) and `keys` (n,) are those of the whole batch; a number is from 0 to 999,999, and gets zeros in
        front to six digits. What stands at other rows is not looked at.

        Which of the many handwritten instances of a digit is taken is a function of the seed, the key ≥ 0, the place
        and the digit: the same key always gives the same picture, whatever the batch, thread or order, and another key
        another handwriting. "We always sample a random image […] also during evaluation" (appendix 4.D.4): random,
        but repeatable.
        """
        if tuple(pictures.shape[-3:]) != self._shape:
            raise EncoderError(
                f"a prepared picture is {tuple(pictures.shape[-3:])}, where the model makes {self._shape} of others.",
                hint="shortcuts on pictures need a model with one input size; or put them on captions alone",
                code="prepared-picture-where-model",
            )
        tiles = self._painted(self._choose(numbers[rows], keys[rows]))  # (m, 6, 3, side, side), or channels last
        several = pictures.ndim - 4  # views of one picture
        tiles = tiles.reshape(*tiles.shape[:2], *(1,) * several, *tiles.shape[2:])
        values: Any
        if isinstance(pictures, np.ndarray):
            values = tiles.astype(pictures.dtype, copy=False)
        else:
            import torch

            values = torch.from_numpy(tiles).to(pictures)
        target = slice(None) if len(rows) == len(pictures) else rows  # a slice is several times as fast
        for k, place in enumerate(self._places):
            pictures[(target, *place)] = values[:, k]

    def _choose(self, numbers: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.uint8]:
        """(m, 6, side, side): the handwriting of m numbers."""
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < LARGEST:
            raise ValueError(f"numbers from {numbers.min()} to {numbers.max()} are not all of {DIGITS} digits")
        digits = numbers[:, None] // _POWERS % 10
        drawn = splitmix64(self._seed, keys[:, None] * DIGITS + np.arange(DIGITS))
        among = (drawn % self._counts[digits].astype(np.uint64)).astype(np.int64)
        chosen: NDArray[np.uint8] = self._tiles[self._rows[self._starts[digits] + among]]
        return chosen

    def _painted(self, tiles: NDArray[np.uint8]) -> NDArray[Any]:
        """Grey levels as the model's input has them, with an axis of 3 channels, or of 1 where they are all alike."""
        grey = np.expand_dims(tiles, self._axis)
        if self._bytes:
            return grey
        values: NDArray[np.float32] = grey * self._span
        values += self._black
        return values
