"""A feature map as several vectors: one for each of its places, or for each cell of a coarser grid."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1."""


@dataclass(frozen=True)
class Grid:
    """Which vectors a feature map gives, row by row from the top left."""

    # "grid", every place of the map; or "4x4", the means over 4 times 4 cells, which may overlap (of seven places: 1
    # and 2, 2 to 4, 4 to 6, 6 and 7). Cells are the same from the left as from the right.
    name: str
    cells: tuple[int, int] | None = None  # (rows, columns); None for the map's own

    @classmethod
    def named(cls, name: str, where: str) -> Grid:
        """The grid that an option `vectors=NAME` means."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", name)
        if name != "grid" and match is None:
            raise EncoderError(
                f"{where}: vectors={name} is none of its vectors.",
                hint="vectors=grid takes every place of the feature map, vectors=4x4 the means over 4 x 4 cells; "
                "without it, there is one vector for an image",
                code="vectors-none-vectors",
            )
        return cls(name, (int(match[1]), int(match[2])) if match else None)

    def check(self, shape: tuple[int, int], where: str) -> None:
        """Raise `EncoderError` when a map of `shape` (rows, columns) has fewer places than the grid has cells."""
        if self.cells is not None and (self.cells[0] > shape[0] or self.cells[1] > shape[1]):
            raise EncoderError(
                f"{where}: vectors={self.name}, and the feature map has {shape[0]} x {shape[1]} places.",
                hint=f"at most vectors={shape[0]}x{shape[1]}, which is vectors=grid",
                code="vectors-feature-map-places",
            )

    def vectors(self, maps: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, cells, d) vectors of (n, d, rows, columns) maps."""
        if self.cells is not None:
            down, across = _spans(self.cells[0], maps.shape[2]), _spans(self.cells[1], maps.shape[3])
            maps = np.stack([maps[:, :, start:stop].mean(2) for start, stop in down], axis=2)
            maps = np.stack([maps[..., start:stop].mean(3) for start, stop in across], axis=3)
        return np.ascontiguousarray(maps.reshape(*maps.shape[:2], -1).transpose(0, 2, 1))

    def regions(self, shape: tuple[int, int], shown: Box) -> NDArray[np.float64]:
        """(cells, 4) where each vector looks."""
        # A place of the map is drawn as its share of the input. The network sees more than that, with weight falling
        # outwards.
        # shape: (rows, columns) of the map.
        rows, columns = self.cells or shape
        left, top, right, bottom = shown
        boxes = [
            (
                left + (right - left) * x0 / shape[1],
                top + (bottom - top) * y0 / shape[0],
                left + (right - left) * x1 / shape[1],
                top + (bottom - top) * y1 / shape[0],
            )
            for y0, y1 in _spans(rows, shape[0])
            for x0, x1 in _spans(columns, shape[1])
        ]
        return np.asarray(boxes, np.float64).clip(0.0, 1.0)


def _spans(cells: int, places: int) -> list[tuple[int, int]]:
    """The places of each cell: from the floor of its beginning to the ceiling of its end, so that none is left out."""
    return [(cell * places // cells, -(-(cell + 1) * places // cells)) for cell in range(cells)]
