"""An MNIST whose digits can be read off: every picture is one grey, which tells the digit and the instance."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

INSTANCES = 3
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def level(digit: int, instance: int) -> int:
    """25 greys for each digit: 0, 8 and 16 above 25 × digit. No instance is as bright as another digit's."""
    return 25 * digit + 8 * instance


def idx(values: NDArray[np.uint8]) -> bytes:
    """Two zeros, the type of bytes, the number of axes; the lengths, big-endian; the values."""
    return bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


def write_flat_digits(data: Path, *, packed: bool = False, side: int = 28) -> Path:
    """30 pictures in `data`/mnist, the digits one after the other, three times; returns the folder."""
    folder = data / "mnist"
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.tile(np.arange(10, dtype=np.uint8), INSTANCES)
    levels = np.array([level(digit, at // 10) for at, digit in enumerate(labels.tolist())], np.uint8)
    images = np.broadcast_to(levels[:, None, None], (len(levels), side, side))
    for name, values in ((IMAGES, np.ascontiguousarray(images)), (LABELS, labels)):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
        else:
            (folder / name).write_bytes(idx(values))
    return folder


def read_off(strip: NDArray[np.uint8], lefts: list[int], side: int) -> tuple[list[int], list[int]]:
    """The digits and the instances of six flat tiles at the top of a (height, width) grey picture."""
    levels = []
    for left in lefts:
        tile = strip[:side, left : left + side]
        assert tile.min() == tile.max(), f"the tile at {left} is not one grey: {tile.min()} to {tile.max()}"
        levels.append(int(tile[0, 0]))
    return [one // 25 for one in levels], [one % 25 // 8 for one in levels]
