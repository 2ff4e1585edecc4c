"""Vectors that a frozen encoder gave: looked up, one view at random in training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.errors import EmbeddingError
from visir.training.inputs.base import EpochRandom
from visir.training.inputs.positional_random import VIEWS, uniform


class VectorSource:
    """Views of vectors, looked up by row."""

    # In training each key sees one view, drawn anew every epoch; with no draw the views are averaged, as in use.
    # Nothing is copied but the rows of a batch, so the vectors of a large collection stay on disk.

    def __init__(self, vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]]) -> None:
        self._views = list(vectors)
        shapes = {view.shape for view in self._views}
        if len(shapes) != 1 or len(self._views[0].shape) != 2:
            raise EmbeddingError(
                f"views of shape {', '.join(map(str, sorted(shapes))) or '(none)'}; expected one or more (n, d) "
                "matrices of the same shape.",
                hint="stack them to (views, n, d)",
                code="views-shape-expected-one",
            )

    def __len__(self) -> int:
        return len(self._views[0])

    @property
    def width(self) -> int:
        """d, the length of a vector."""
        return int(self._views[0].shape[1])

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Tensor:
        """(len(rows), d) float32."""
        if len(self._views) == 1:
            return torch.from_numpy(_taken(self._views[0], rows))
        if draw is None:
            total = _taken(self._views[0], rows)
            for view in self._views[1:]:
                total += view[rows]
            return torch.from_numpy(total / np.float32(len(self._views)))
        drawn = (uniform(draw, VIEWS, rows if keys is None else keys) * len(self._views)).astype(np.int64)
        chosen = np.empty((len(rows), self.width), np.float32)
        for number, view in enumerate(self._views):
            places = np.flatnonzero(drawn == number)
            chosen[places] = view[rows[places]]
        return torch.from_numpy(chosen)


def _taken(view: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The rows as a plain array of their own: fancy indexing copies, `asarray` sheds the memory map's class."""
    return np.asarray(view[rows], np.float32)
