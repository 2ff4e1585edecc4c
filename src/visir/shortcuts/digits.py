"""Handwritten digits: MNIST where it is on disk, scikit-learn's bundled ones otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.collections.readers.idx_files import read_idx
from visir.display import Displayed
from visir.errors import VisirError, nearest, require
from visir.files import data_directory

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
