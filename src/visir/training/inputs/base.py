"""What a training learns from: pairs of an anchor and a positive, by row, and the randomness that goes into them.

An anchor may have several positives: an image and its captions, a category and its products. Training has one example
for each positive, beside its anchor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.errors import EmbeddingError
from visir.splitmix import seed_of, splitmix64
from visir.training.sides import MinedNegatives

Side = Literal["anchor", "positive"]
"""The two sides of a pair."""


@dataclass(frozen=True)
class EpochRandom:
    """The randomness of one epoch: a function of seed and epoch, never of the order in which rows are read."""

    # So an epoch can run again after an interruption, from its middle, or split over several processes, and every row
    # is augmented in the same way.

    seed: int  # of the training
    epoch: int  # from 0

    def of_row(self, stream: int, row: int) -> np.random.Generator:
        """The generator of one row."""
        # stream: Separates what must not share numbers (views, crops, words).
        return np.random.default_rng([self.seed, self.epoch, stream, row])


class TrainingData(Protocol):
    """What a training learns from, as the loop sees it: rows that become batches."""

    def __len__(self) -> int: ...

    @property
    def unit(self) -> str:
        """What the positives are called, in the plural."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """(m,) ids of the positives, for messages."""
        ...

    @property
    def origin(self) -> dict[str, Any]:
        """Fingerprints of what the examples are made of, as plain values."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether making a batch takes so long that threads should make it ahead."""
        ...

    def batch(self, rows: NDArray[np.int64], draw: EpochRandom | None = None) -> TrainingBatch:
        """The rows as one batch."""
        ...

    def labels(self, rows: NDArray[np.int64]) -> tuple[Any, Any]:
        """(n,) anchor rows and classes (or None) of pairs whose inputs another process reads."""
        ...


class InputSource(Protocol):
    """The inputs of one side, by row."""

    def __len__(self) -> int: ...

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Inputs:
        """The rows as one batch on the CPU."""
        # rows: (n,) which items.
        # keys: (n,) in training, the rows of the pairs, by which each item gets a draw of its own: one photo beside two
        # captions is augmented twice.
        ...


class NegativeSource(Protocol):
    """Hard negatives of pairs, by row; see `visir.training.inputs.base.HardNegatives`."""

    def positives(
        self, source: InputSource, anchor_rows: NDArray[np.int64], rows: NDArray[np.int64], draw: EpochRandom
    ) -> tuple[Sequence[Inputs], Any] | None:
        """For the anchors: h batches of n inputs of the positives' tower, and the (n, h) anchors they belong to."""
        ...

    def anchors(
        self, source: InputSource, anchor_rows: NDArray[np.int64], rows: NDArray[np.int64], draw: EpochRandom
    ) -> tuple[Sequence[Inputs], Any] | None:
        """For the positives: h batches of n inputs of the anchors' tower, and the (n, h) anchors they are."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """The pairs of one step, or one process's share of them, on the CPU."""

    anchors: Inputs  # inputs of the anchors' tower
    positives: Inputs  # inputs of the positives' tower; row i belongs to row i of the anchors
    anchor_rows: Any  # (n,) int64, which anchors they are; equal for positives of one anchor
    targets: Any = None  # (n, t) float32 latent targets of the positives (LTD), or None
    tokens: Any = None  # (n, L) int64 token ids of the positives for an input decoder (ITD), 0 is padding, or None
    classes: Any = None  # (n,) int64 classes of the positives, or None
    rows: Any = None  # (n,) int64, which pairs they are, or None
    # h batches of n inputs of the positives' tower, a hard negative of each pair in each.
    negatives: Sequence[Inputs] = ()
    negative_rows: Any = None  # (n, h) int64, the anchors to which they belong, -1 is none; or None
    anchor_negatives: Sequence[Inputs] = ()  # the same of the anchors' tower
    anchor_negative_rows: Any = None  # (n, h) int64, which anchors they are, or None


@dataclass(frozen=True, eq=False)
class TrainingExamples:
    """A split as training sees it: one example for each positive."""

    anchors: InputSource  # a source
    positives: InputSource  # a source
    anchor_rows: NDArray[np.int64]  # (m,) int64, the row of each positive's anchor
    ids: Sequence[str]  # (m,) ids of the positives, for messages
    origin: dict[str, Any]  # fingerprints of what the examples are made of (split, backbones, targets), as plain values
    targets: InputSource | None = None  # a source of (n, t) latent targets, or None
    tokens: InputSource | None = None  # a source of padded token ids, or None
    # (m,) int64, what each positive is beyond the anchor it belongs to, for objectives that need it.
    classes: NDArray[np.int64] | None = None
    unit: str = "captions"  # what the positives are called, in the plural
    negatives: NegativeSource | None = None  # hard negatives beside the pairs of a batch, or None

    def __len__(self) -> int:
        return len(self.anchor_rows)

    @property
    def is_slow(self) -> bool:
        """See `TrainingData.is_slow`: where pictures are read. Looking up 128 vectors and captions takes 0.3 ms."""
        return getattr(self.anchors, "is_slow", False)

    def batch(self, rows: NDArray[np.int64], draw: EpochRandom | None = None) -> TrainingBatch:
        """The positives `rows` with their anchors."""
        anchor_rows = self.anchor_rows[rows]
        hard: dict[str, Any] = {}
        if self.negatives is not None and draw is not None:
            for side, entries in (
                ("", self.negatives.positives(self.positives, self.anchor_rows, rows, draw)),
                ("anchor_", self.negatives.anchors(self.anchors, self.anchor_rows, rows, draw)),
            ):
                if entries is not None:
                    hard[f"{side}negatives"], hard[f"{side}negative_rows"] = entries
        return TrainingBatch(
            anchors=self.anchors.batch(anchor_rows, draw, rows),
            positives=self.positives.batch(rows, draw, rows),
            anchor_rows=torch.from_numpy(anchor_rows),
            targets=None if self.targets is None else self.targets.batch(rows, draw),
            tokens=None if self.tokens is None else self.tokens.batch(rows),
            classes=None if self.classes is None else torch.from_numpy(self.classes[rows]),
            **hard,
        )

    def labels(self, rows: NDArray[np.int64]) -> tuple[Any, Any]:
        """See `TrainingData.labels`."""
        classes = None if self.classes is None else torch.from_numpy(self.classes[rows])
        return torch.from_numpy(self.anchor_rows[rows]), classes


Input = TypeVar("Input")
Output = TypeVar("Output")


def made_ahead(
    make: Callable[[Input], Output], inputs: Iterable[Input], workers: int, ahead: int
) -> Generator[Output, None, None]:
    """What `make` makes of the inputs in threads, in order, so many at most ahead of what was asked for."""
    # An error is raised where what it spoils would have come. The threads end with the generator: close it where you
    # stop before its end; an error's traceback would otherwise keep it alive.
    executor = ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
    waiting: deque[Future[Output]] = deque()
    coming = iter(inputs)
    try:
        while True:
            for value in islice(coming, ahead - len(waiting)):
                waiting.append(executor.submit(make, value))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


# Random numbers by place: the number at any position of an epoch, without those before it.

VIEWS, PICTURES, WORDS, PROMPTS, NEGATIVES = 1, 2, 3, 4, 5
"""Streams of a `EpochRandom`: which view of an image, how a picture is changed, which words are dropped,
which prompt stands around a text, which hard negatives stand beside a pair (6 too, of pictures)."""


def uniform(draw: EpochRandom, stream: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) at `positions` ≥ 0 of one epoch's stream, in the shape of `positions`."""
    # NumPy's generators would draw the whole epoch for that (and keep it, under a lock, for every thread that works
    # ahead), or be seeded anew for each row.
    drawn = splitmix64(seed_of(draw.seed, draw.epoch, stream), positions)
    numbers: NDArray[np.float64] = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


# Vectors that a frozen encoder gave: looked up, one view at random in training.


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


# Hard negatives of a batch: changed captions, and captions and pictures that a model found.

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
    """What a search found; filled by `visir.training.validation`, again and again while training runs."""

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
