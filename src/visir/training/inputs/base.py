"""Where a tower's batches come from, and the randomness that goes into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visir.encoders.towers.base import Inputs


@dataclass(frozen=True)
class EpochRandom:
    """The randomness of one epoch: a function of seed and epoch, never of the order in which rows are asked for.

    So an epoch can be run again after an interruption, from its middle, or split over several processes, and every row
    is augmented in the same way.
    """

    seed: int
    epoch: int

    def of_row(self, stream: int, row: int) -> np.random.Generator:
        """The generator of one row; `stream` parts what must not share numbers (views, crops, words)."""
        return np.random.default_rng([self.seed, self.epoch, stream, row])

    def of_epoch(self, stream: int) -> np.random.Generator:
        """One generator for what is drawn for all rows at once."""
        return np.random.default_rng([self.seed, self.epoch, stream])


class Examples(Protocol):
    """What a training learns from, as the loop sees it: rows that become batches."""

    def __len__(self) -> int: ...

    @property
    def captions(self) -> Sequence[str]:
        """(m,) ids, for messages."""
        ...

    @property
    def origin(self) -> dict[str, Any]:
        """Fingerprints of what the examples are made of, as plain values."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether a batch takes long enough to make that threads should make it ahead."""
        ...

    def batch(self, rows: NDArray[np.int64], draw: EpochRandom | None = None) -> TrainingBatch:
        """The rows as one batch."""
        ...

    def labels(self, rows: NDArray[np.int64]) -> tuple[Any, Any]:
        """(n,) owners and classes (or None) of rows, of which other processes read the inputs."""
        ...


class InputSource(Protocol):
    """The items of one modality of a split, by row.

    `batch(rows, draw, keys)`: the rows as one batch on the CPU. With `draw` None as in use: no augmentation, all views
    averaged. In training `keys` (one per row, the *caption's* row) says which draw each item gets: the same photo
    beside two captions is augmented twice.
    """

    def __len__(self) -> int: ...

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Inputs:
        """The rows as one batch."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """One step's (or one process's share of a step's) examples, on the CPU.

    - `images`, `texts`: inputs of the two towers, row i of one matching row i of the other
    - `owners`: (n,) int64, the row of each pair's image; equal for captions of one image
    - `targets`: (n, t) float32 latent targets of the captions (LTD), or None
    - `tokens`: (n, L) int64 token ids of the captions for an input decoder (ITD), 0 is padding, or None
    - `classes`: (n,) int64 classes of the captions, or None
    - `rows`: (n,) int64, which captions they are, or None
    """

    images: Inputs
    texts: Inputs
    owners: Any
    targets: Any = None
    tokens: Any = None
    classes: Any = None
    rows: Any = None


@dataclass(frozen=True, eq=False)
class TrainingExamples:
    """A split as training sees it: one example per caption.

    - `images`, `texts`: sources; `owners`: (m,) int64, the image row of each caption
    - `captions`: (m,) caption ids, for messages
    - `targets`: a source of (n, t) latent targets, or None; `tokens`: one of padded token ids, or None
    - `classes`: (m,) int64, what each caption is beyond the image it belongs to, for objectives that ask; or None
    - `origin`: fingerprints of what the examples are made of (split, backbones, targets): plain values
    """

    images: InputSource
    texts: InputSource
    owners: NDArray[np.int64]
    captions: Sequence[str]
    origin: dict[str, Any]
    targets: InputSource | None = None
    tokens: InputSource | None = None
    classes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.owners)

    def batch(self, rows: NDArray[np.int64], draw: EpochRandom | None = None) -> TrainingBatch:
        """The captions `rows` with their images."""
        import torch

        owners = self.owners[rows]
        return TrainingBatch(
            images=self.images.batch(owners, draw, rows),
            texts=self.texts.batch(rows, draw, rows),
            owners=torch.from_numpy(owners),
            targets=None if self.targets is None else self.targets.batch(rows, draw),
            tokens=None if self.tokens is None else self.tokens.batch(rows),
            classes=None if self.classes is None else torch.from_numpy(self.classes[rows]),
        )

    @property
    def is_slow(self) -> bool:
        """See `Examples.is_slow`: where pictures are read. Looking up 128 vectors and captions takes 0.3 ms."""
        return getattr(self.images, "is_slow", False)

    def labels(self, rows: NDArray[np.int64]) -> tuple[Any, Any]:
        """See `Examples.labels`."""
        import torch

        classes = None if self.classes is None else torch.from_numpy(self.classes[rows])
        return torch.from_numpy(self.owners[rows]), classes
