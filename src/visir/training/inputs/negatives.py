"""Hard negatives of a batch: changed captions, and captions and pictures that a model found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.training.hard_negatives import MinedNegatives
from visir.training.inputs.base import NEGATIVES, EpochRandom, InputSource, uniform

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Swapped:
    """Changed captions, one of each kind for each pair."""

    sources: Sequence[Sequence[InputSource]]  # by kind, then by variant: a changed caption for each row
    # By kind, then by variant: (m,) -1, or the caption's own anchor where it is as it was.
    anchor_rows: Sequence[Sequence[Rows]]

    @property
    def count(self) -> int:
        """How many for each pair."""
        return len(self.sources)

    def batch(self, rows: Rows, draw: EpochRandom) -> tuple[list[Inputs], Rows]:
        """Inputs by kind, and the (n, kinds) anchors to which they belong."""
        variant = draw.epoch % len(self.sources[0])
        inputs = [sources[variant].batch(rows, draw, rows) for sources in self.sources]
        return inputs, np.stack([of_kind[variant][rows] for of_kind in self.anchor_rows], axis=1)


@dataclass(eq=False)
class Mined:
    """What a search found; filled by `visir.training.mining`, again and again while training runs."""

    settings: MinedNegatives  # of the recipe
    first_pairs: Rows  # (anchors,) a pair of each anchor; -1 of one without positives
    # The rows of positives that are right for each anchor, and of anchors that are right for each positive.
    right: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
    # The search sees anchors and positives as the epoch's training does: their shortcuts change.
    as_trained: bool = False
    # (anchors, nearest) rows of positives that are near each anchor and wrong, or None; -1 is none.
    captions: Rows | None = None
    images: Rows | None = None  # (m, nearest) rows of anchors that are near each positive and wrong, or None
    epoch: int = -1  # for which it was searched last; -1 before

    def is_due(self, epoch: int) -> bool:
        """Whether the trained model has to search before an epoch, counted from 0."""
        return not self.settings.model and epoch % self.settings.every == 0 and self.epoch != epoch

    def tensors(self) -> dict[str, Tensor]:
        """What was found, for the state of a training."""
        rows = {"captions": self.captions, "images": self.images}
        return {name: torch.from_numpy(near) for name, near in rows.items() if near is not None}

    def restore(self, tensors: Mapping[str, Tensor], epoch: int) -> None:
        """Put back what `tensors` gave."""
        near = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.captions, self.images, self.epoch = near.get("captions"), near.get("images"), epoch

    def drawn(self, near: Rows, rows: Rows, draw: EpochRandom, stream: int) -> Rows:
        """(n, count) of (n, nearest), drawn without repetition by the place of the pair; -1 is none."""
        places = rows[:, None] * near.shape[1] + np.arange(near.shape[1])
        order = np.where(near < 0, 2.0, uniform(draw, stream, places)).argsort(axis=1, kind="stable")
        chosen: Rows = np.take_along_axis(near, order, axis=1)[:, : self.settings.count]
        return chosen


@dataclass(frozen=True, eq=False)
class HardNegatives:
    """The hard negatives of a training."""

    swapped: Swapped | None = None  # changed captions, or None
    mined: Mined | None = None  # found captions and pictures, or None

    def positives(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[tuple[Inputs, ...], Tensor] | None:
        """Hard captions of the pairs `rows`, h batches of n, and the (n, h) anchors to which they belong."""
        inputs: list[Inputs] = []
        belong: list[Rows] = []
        if self.swapped is not None:
            inputs, of = self.swapped.batch(rows, draw)
            belong.append(of)
        if self.mined is not None and self.mined.captions is not None:
            near = self.mined.captions[anchor_rows[rows]]
            chosen = self.mined.drawn(near, rows, draw, NEGATIVES)
            # Where fewer were found the pair's own caption stands in, which counts for nothing.
            chosen = np.where(chosen < 0, rows[:, None], chosen)
            inputs += [source.batch(column, draw, column) for column in chosen.T]
            belong.append(anchor_rows[chosen])
        return (tuple(inputs), torch.from_numpy(np.concatenate(belong, axis=1))) if inputs else None

    def anchors(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[tuple[Inputs, ...], Tensor] | None:
        """Hard pictures of the pairs `rows`, h batches of n, and the (n, h) anchors that they are."""
        if self.mined is None or self.mined.images is None:
            return None
        chosen = self.mined.drawn(self.mined.images[rows], rows, draw, NEGATIVES + 1)
        chosen = np.where(chosen < 0, anchor_rows[rows][:, None], chosen)
        inputs = [source.batch(column, draw, self.mined.first_pairs[column]) for column in chosen.T]
        return tuple(inputs), torch.from_numpy(chosen)
