"""Captions as word ids, padded to a batch without a loop over captions."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.base import LENGTHS
from visir.encoders.towers.words import END, START, UNKNOWN
from visir.training.inputs.base import EpochRandom
from visir.training.inputs.positional_random import WORDS, uniform


class _Flat:
    """All captions one after another: caption i is `flat[offsets[i]:offsets[i + 1]]`."""

    # Two arrays hold 567,000 captions in 30 MB; as many small ones would take ten times as much, and a batch a loop.

    def __init__(self, flat: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(flat) or (np.diff(offsets) < 0).any():
            raise ValueError(f"offsets must rise from 0 to the number of ids, {len(flat)}")
        self._flat, self._offsets = flat, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def _padded(
        self, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(n, L) ids padded with 0, (n,) lengths, (n, L) positions in `flat`, and where there is a word."""
        starts = self._offsets[rows]
        lengths = self._offsets[rows + 1] - starts
        columns = np.arange(max(1, int(lengths.max(initial=0))))
        positions = starts[:, None] + columns
        words = columns < lengths[:, None]
        ids = np.zeros(words.shape, np.int64)
        ids[words] = self._flat[positions[words]]
        return ids, lengths, positions, words


class WordSource(_Flat):
    """Word ids for a `GRUBackbone`: {"ids": (n, L) int64, "lengths": (n,) int64}, the same as its `collate` gives."""

    # `dropout`: in training every word is replaced by the unknown word with this probability, drawn anew each epoch by
    # the word's place in the whole split: which batch a caption is in does not matter. The sentence keeps its length. A
    # caption without a word counts as one unknown word, because a recurrent network cannot read nothing.

    def __init__(self, flat: NDArray[np.int32], offsets: NDArray[np.int64], dropout: float = 0.0) -> None:
        super().__init__(flat, offsets)
        self._dropout = dropout

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> dict[str, Tensor]:
        """The captions `rows`, padded with 0 to the longest of them."""
        ids, lengths, positions, words = self._padded(rows)
        if draw is not None and self._dropout > 0:
            ids[words & (uniform(draw, WORDS, positions) < self._dropout)] = UNKNOWN
        empty = lengths == 0
        ids[empty, 0] = UNKNOWN
        return {"ids": torch.from_numpy(ids), LENGTHS: torch.from_numpy(np.where(empty, 1, lengths))}


class TokenSource(_Flat):
    """What an input decoder (ITD) is to say: (n, L) int64, start (2), the words, end (3), padded with 0."""

    # No word is dropped: the decoder learns the caption as it is, whatever the text tower saw of it.

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Tensor:
        """The captions `rows`; the longest has L - 2 words."""
        ids, lengths, _, _ = self._padded(rows)
        tokens = np.zeros((len(rows), ids.shape[1] + 2), np.int64)
        tokens[:, 0] = START
        tokens[:, 1:-1] = ids
        tokens[np.arange(len(rows)), lengths + 1] = END
        return torch.from_numpy(tokens[:, : int(lengths.max(initial=0)) + 2])
