"""Texts that a backbone has prepared once, before the first epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visir.encoders.towers.base import Backbone, Inputs
from visir.progress import Progress
from visir.training.inputs.base import EpochRandom


class PreparedTexts:
    """The texts of a split under a backbone's own tokeniser; tokenised here, only collated per batch."""

    def __init__(self, backbone: Backbone, texts: Sequence[str]) -> None:
        self._collate = backbone.collate
        self._prepared = []
        with Progress("tokenising", len(texts), "captions") as advance:
            for text in texts:
                self._prepared.append(backbone.prepare(text))
                advance(1)

    def __len__(self) -> int:
        return len(self._prepared)

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Inputs:
        """The texts `rows` as `backbone.collate` lays them out; the same with and without a draw."""
        return self._collate([self._prepared[row] for row in rows])
