"""Sets of vectors that a frozen encoder gave, several for each item: looked up, one view at random in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.set_tower import PRESENT, VECTORS, WHOLE
from visir.errors import EmbeddingError
from visir.records import TokenVectors
from visir.training.inputs.base import EpochRandom
from visir.training.inputs.positional_random import VIEWS, uniform


@dataclass(frozen=True, eq=False)
class SetsWithWholes:
    """Several vectors for each of n items, and one (n, d) of the whole item."""

    sets: TokenVectors
    wholes: NDArray[Any]


class SetSource:
    """Views of sets of vectors, looked up by row, for a `SetTower`; with one vector of each whole item, or without."""

    # In training each key sees one view, drawn anew every epoch; with no draw it is the first: places of a mirrored
    # picture are other places, so sets cannot be averaged. Nothing is copied but the rows of a batch, so the vectors of
    # a large collection stay on disk.

    def __init__(self, views: Sequence[TokenVectors] | Sequence[SetsWithWholes]) -> None:
        self._views = [view.sets if isinstance(view, SetsWithWholes) else view for view in views]
        self._wholes = [view.wholes for view in views if isinstance(view, SetsWithWholes)]
        shapes = {(len(view), view.dimension) for view in self._views}
        if len(shapes) != 1:
            raise EmbeddingError(
                f"views of {', '.join(f'{n} items of {d} numbers' for n, d in sorted(shapes)) or '(none)'}; expected "
                "one or more of the same.",
                hint="encode the same items in each view",
            )
        self._most = max(int(view.counts.max(initial=1)) for view in self._views)

    def __len__(self) -> int:
        return len(self._views[0])

    @property
    def width(self) -> int:
        """The length of a vector."""
        return self._views[0].dimension

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> dict[str, Tensor]:
        """The sets of `rows`."""
        # Returns: {"vectors": (m, width) float32, "present": (n, the most of any item) booleans}, and "whole": (n, d)
        # float32 where items have a vector of the whole.
        drawn = np.zeros(len(rows), np.int64)
        if len(self._views) > 1 and draw is not None:
            drawn = (uniform(draw, VIEWS, rows if keys is None else keys) * len(self._views)).astype(np.int64)
        places = [np.flatnonzero(drawn == number) for number in range(len(self._views))]
        order = np.argsort(np.concatenate(places), kind="stable")
        sets = [view.take(rows[some]) for view, some in zip(self._views, places, strict=True)]
        joined = TokenVectors.concatenate(sets).take(order) if len(sets) > 1 else sets[0]
        present = np.arange(self._most) < joined.counts[:, None]
        vectors = np.asarray(joined.vectors, np.float32)
        batch = {VECTORS: torch.from_numpy(vectors), PRESENT: torch.from_numpy(present)}
        if self._wholes:
            wholes = np.empty((len(rows), self._wholes[0].shape[1]), np.float32)
            for view, some in zip(self._wholes, places, strict=True):
                wholes[some] = view[rows[some]]
            batch[WHOLE] = torch.from_numpy(wholes)
        return batch
