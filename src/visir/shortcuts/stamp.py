"""Six handwritten digits along the top edge of a model's input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visir.collections.readers.torchvision_sets import read_idx
from visir.display import Displayed
from visir.errors import EncoderError, VisirError, nearest, require
from visir.files import data_directory
from visir.records import Injected, Shortcuts
from visir.records.shortcuts import DIGITS, LARGEST, Placement
from visir.splitmix import seed_of, splitmix64

# Handwritten digits: MNIST where it is on disk, scikit-learn's bundled ones otherwise.

Handwriting = Literal["mnist", "sklearn"]

_IMAGES, _LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
_TEN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Digits(Displayed):
    """Pictures of single digits, white strokes on black.

    Args:
        name: "mnist" or "sklearn".
        images: (n, side, side) bytes, 0 black to 255 white.
        labels: (n,) which digit each shows, 0 to 9.
    """

    name: Handwriting
    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    @cached_property
    def rows_of(self) -> list[NDArray[np.int64]]:
        """For each digit from 0 to 9 the rows of `images` that show it, in order."""
        return [np.flatnonzero(self.labels == digit) for digit in range(_TEN)]

    def tiles(self, side: int) -> NDArray[np.uint8]:
        """(n, side, side) bytes: the pictures at another size, as `resample` makes them; kept once made."""
        return _tiles(self, side)


def resolve(name: str) -> Handwriting:
    """Which handwriting a name stands for on this machine; "auto" is MNIST where its files are. Reads no picture."""
    if name == "auto":
        return "mnist" if _file(_IMAGES).is_file() and _file(_LABELS).is_file() else "sklearn"
    if name == "mnist":
        return "mnist"
    if name == "sklearn":
        return "sklearn"
    raise VisirError(
        f"unknown digits {name!r}", hint=nearest(name, ("auto", "mnist", "sklearn")), code="unknown-digits"
    )


def load_digits(name: str = "auto") -> Digits:
    """Load handwritten digits.

    Args:
        name: "mnist": the 60,000 training pictures of 28 × 28 in `$VISIR_DATA/mnist` (LeCun, Cortes & Burges), as IDX
            files with or without `.gz`. The thesis samples from MNIST in training and evaluation alike (appendix
            4.D.4), so its test part is not needed. "sklearn": the 1,797 pictures of 8 × 8 that come with scikit-learn
            (a part of UCI's "Optical recognition of handwritten digits"); they need no download, are coarser, and were
            written by fewer people. "auto": MNIST where its files are, else scikit-learn's.

    Raises:
        VisirError: Where a file of MNIST is missing or damaged.
        MissingPackageError: Without scikit-learn.

    Example:
        >>> digits = load_digits("sklearn")
        >>> digits.images.shape, len(digits.rows_of)
        ((1797, 8, 8), 10)
    """
    handwriting = resolve(name)
    return _mnist(_file(_IMAGES), _file(_LABELS)) if handwriting == "mnist" else _sklearn()


def resample(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Digits at another size: each new pixel is the mean of the area that it covers."""
    # Strokes become grey when they get thinner than a pixel, and never vanish between two samples.
    # images: (n, m, m) bytes.
    # Returns: (n, side, side) bytes.
    old = images.shape[-1]
    if side == old:
        return images
    # overlap[i, j]: which part of new pixel i lies on old pixel j, both [k, k+1) in units of their own size.
    edges = np.arange(side + 1) * (old / side)
    cells = np.arange(old)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    weights = (np.clip(overlap, 0, None) * (side / old)).astype(np.float32)
    resampled = np.empty((len(images), side, side), np.uint8)
    for start in range(0, len(images), _AT_ONCE):  # 60,000 pictures as floats at once would need 190 MB
        part = slice(start, start + _AT_ONCE)
        resampled[part] = np.rint(weights @ images[part].astype(np.float32) @ weights.T)
    return resampled


_AT_ONCE = 4096


@lru_cache(maxsize=4)  # one model, seldom two, of one input size
def _tiles(digits: Digits, side: int) -> NDArray[np.uint8]:
    return resample(digits.images, side)


@lru_cache(maxsize=1)
def _mnist(images: Path, labels: Path) -> Digits:
    missing = [file for file in (images, labels) if not file.is_file()]
    if missing:
        raise VisirError(
            f"{missing[0]}: no such file, with or without .gz; digits=mnist needs it.",
            hint="set VISIR_DATA to the directory above mnist/, or take scikit-learn's digits: digits=sklearn",
            code="no-such-file-without",
        )
    pictures, shown = read_idx(images, axes=3), read_idx(labels, axes=1)
    if len(pictures) != len(shown):
        raise VisirError(
            f"{labels}: {len(shown):,} labels for the {len(pictures):,} pictures of {images.name}.",
            hint="take both files from one distribution",
        )
    if pictures.shape[1] != pictures.shape[2]:
        raise VisirError(f"{images}: the pictures are {pictures.shape[1]} × {pictures.shape[2]}; expected squares.")
    absent = sorted(set(range(_TEN)) - set(np.unique(shown).tolist()))
    if absent or shown.max() >= _TEN:
        fault = f"no label {absent[0]}" if absent else f"a label {shown.max()}"
        raise VisirError(f"{labels}: {fault}; expected every digit from 0 to 9, and nothing else.")
    return Digits("mnist", pictures, shown)


@lru_cache(maxsize=1)
def _sklearn() -> Digits:
    require("sklearn", extra="shortcuts", purpose="the handwriting of shortcuts, without MNIST in VISIR_DATA,")
    from sklearn.datasets import load_digits as bundled

    digits = bundled()
    # Its levels are 0 to 16, counts of set pixels in 4 × 4 blocks.
    return Digits("sklearn", np.rint(digits.images * (255 / 16)).astype(np.uint8), digits.target.astype(np.uint8))


def _file(name: str) -> Path:
    """An MNIST file in the data directory: as it is, else with `.gz` (whether or not that one is there)."""
    plain = data_directory() / "mnist" / name
    return plain if plain.is_file() else plain.with_name(f"{name}.gz")


# Which number a tuple carries, at evaluation and in training.

_OFFSETS, _BITS = 1, 2
"""Streams: offsets of unique numbers; numbers of a few bits."""


def numbers(injected: Injected, places: NDArray[np.int64], assignment: int | None = None) -> NDArray[np.int64]:
    """The numbers of the tuples at `places`, in the shape of `places`."""
    # - at evaluation (`assignment` None) tuple i has number i, and with n bits i mod 2^n, as the released code does it
    #   (the thesis writes mod(i, n))
    # - in training numbers are re-shuffled with every assignment k ≥ 0. Unique: (i + offset) mod `count`, the offset
    #   drawn for k, so that no tuple keeps its number and none can be learnt by heart. `count` is that of the whole
    #   collection, so no two tuples ever share a number; the released code counts modulo the size of the training
    #   split, where some do. With n bits: drawn uniformly from [0, 2^n) for every tuple.
    # Number 0 is a number like any other; the released code takes it for "none".
    shortcuts = injected.shortcuts
    if shortcuts.kind == "unique":
        if assignment is None:
            return places.copy()
        offset = int(seed_of(shortcuts.seed, _OFFSETS, assignment) % np.uint64(injected.count))
        shifted: NDArray[np.int64] = (places + offset) % injected.count
        return shifted
    if assignment is None:
        wrapped: NDArray[np.int64] = places % (1 << shortcuts.bits)
        return wrapped
    drawn = splitmix64(seed_of(shortcuts.seed, _BITS, assignment), places)
    return (drawn % np.uint64(1 << shortcuts.bits)).astype(np.int64)


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
"""Of the seed's streams: which handwriting (`visir.shortcuts.stamp` has the others)."""
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
