"""Texts under fixed prompts: one prompt drawn for each, or all of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.encoders.towers.base import Inputs, PromptInputs
from visir.training.inputs.base import EpochRandom, InputSource
from visir.training.inputs.positional_random import PROMPTS, uniform

Prompting = Literal["drawn", "averaged"]
Rows = NDArray[np.int64]


class PromptedTexts:
    """The texts of a split, each under several prompts."""

    # In training, with "drawn", every text of an epoch stands in one of the prompts, drawn by its row; with "averaged",
    # and in use, it stands in all of them, and its vector is the mean of their unit vectors.

    def __init__(self, source: InputSource, prompts: int, prompting: Prompting) -> None:
        self._source, self._prompts, self._prompting = source, prompts, prompting
        self._texts = len(source) // prompts

    def __len__(self) -> int:
        return self._texts

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
        """The texts `rows`."""
        if draw is not None and self._prompting == "drawn":
            drawn = (uniform(draw, PROMPTS, rows) * self._prompts).astype(np.int64)
            return self._at(drawn, rows, draw)
        return PromptInputs({str(prompt): self._at(prompt, rows, draw) for prompt in range(self._prompts)})

    def _at(self, prompt: int | Rows, rows: Rows, draw: EpochRandom | None) -> Inputs:
        places = prompt * self._texts + rows
        return self._source.batch(places, draw, places)
