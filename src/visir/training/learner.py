"""What is trained: a model with the losses it learns from, and how it is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs, PromptInputs, Tower, to_device
from visir.training.inputs import (
    EpochRandom,
    InputSource,
    Mined,
    Rows,
    Side,
    TrainingData,
    TrainingExamples,
    made_ahead,
)
from visir.training.losses import Losses
from visir.training.objective import Objective
from visir.training.optimiser import Precision
from visir.training.similarities import VectorPairs, best_matches

E = TypeVar("E", bound=TrainingData)


class Learner(nn.Module, ABC, Generic[E]):
    """A model in training. `visir.training.loop` trains any of them.

    A step has two halves, so that a large batch can go through the model in chunks and be shared by processes:
    `vectors` brings each side of a chunk into a space, `losses` compares the vectors of the whole batch.

    Attributes:
        precision: Of the forward pass; known from `prepare` on.
        advice: What to lower or raise when numbers run out of range, for the hint of an error.
    """

    precision: Precision
    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup"

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The weights that validation judges and the checkpoint keeps.

        What else this module holds (an objective with weights of its own) is trained and saved in the state, and is no
        part of the result.
        """

    def prepare(self, precision: Precision) -> None:
        """Take note of how the training computes; called once, with the weights on their device.

        Raises:
            ConfigurationError: This model cannot be trained so.
        """
        self.precision = precision

    @abstractmethod
    def parts(self) -> Mapping[str, nn.Module]:
        """What is trained, by the name under which a recipe gives it a learning rate of its own (`Regime.rates`).

        A weight that is in several parts belongs to the first.
        """

    @property
    def local_loss(self) -> bool:
        """Whether each of several processes computes the losses of its own pairs only, among everyone's vectors."""
        return False

    @property
    def pretrained(self) -> Sequence[nn.Module]:
        """The modules that came trained, and which `schedule.frozen_epochs` holds fixed for a while."""
        return ()

    def at_step(self, epoch: int, step: int) -> None:
        """Take note of the place of the step that comes: epoch and step within it, both from 0."""

    def mine(self, train: Any, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the model finds in the training data as it is now; see `mining.search`."""
        raise NotImplementedError

    @abstractmethod
    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """(n, d) vectors of one side's inputs, which are on the device."""

    @abstractmethod
    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """The losses of a batch.

        Args:
            pairs: Those of this process.
            everyone: Those of all processes; None when there is one.
            weight: This process's share of the pairs, times the number of processes.
        """

    def after_step(self, parts: Mapping[str, float]) -> None:
        """Move what the optimiser does not: `parts` are those of the losses, averaged over the update."""

    @abstractmethod
    def facts(self) -> Mapping[str, float | Tensor]:
        """What moves besides the weights, for the log and the curve: numbers, or tensors of one number each that are
        still on the device; they are read together with the losses."""

    @abstractmethod
    def validate(self, examples: E) -> dict[str, float]:
        """The figures of a split; `selection.keep` names the one that chooses the epoch."""


# The learner of dual encoders: two towers under a contrastive objective.

K = TypeVar("K", bound=str)


class DualEncoder(Learner[TrainingExamples]):
    """Two towers whose vectors an objective compares. The towers are the model that is kept; the objective is not.

    Args:
        towers: The tower of the anchors and that of the positives, in this order, by the names under which the recipe
            gives them learning rates: "image" and "text", say. They are changed in place.
        objective: Of the training.
        tasks: What validation calls the two directions, see `visir.training.learner.validate`.
    """

    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup or objective.temperature"

    def __init__(
        self, towers: Mapping[K, Tower], objective: Objective, tasks: tuple[str, str] = ("i2t", "t2i")
    ) -> None:
        super().__init__()
        self.towers: dict[str, Tower] = {str(name): tower for name, tower in towers.items()}
        self._model = nn.ModuleDict(self.towers)
        anchor, positive = self.towers
        self._names: dict[Side, str] = {"anchor": anchor, "positive": positive}
        self.objective, self.tasks = objective, tasks

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the towers."""
        return self._model

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: the towers by their names, and "objective"."""
        return {**self.towers, "objective": self.objective}

    @property
    def local_loss(self) -> bool:
        """See `Learner.local_loss`."""
        return self.objective.local_loss

    @property
    def pretrained(self) -> list[nn.Module]:
        """See `Learner.pretrained`."""
        return [module for tower in self.towers.values() for module in tower.pretrained_modules()]

    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: unit vectors, the norm taken in float32 (or wider) under every precision. Of texts in
        several prompts, the mean, which is a unit vector again."""
        if isinstance(inputs, PromptInputs):
            mean = torch.stack([self.vectors(side, of_prompt) for of_prompt in inputs.values()]).mean(0)
            return functional.normalize(mean, dim=-1)
        with self.precision.autocast():
            vectors = self._model[self._names[side]](inputs)
        return functional.normalize(self.precision.widen(vectors), dim=-1)

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`."""
        losses: Losses = self.objective(pairs, everyone, weight)
        return losses

    def after_step(self, parts: Mapping[str, float]) -> None:
        """See `Learner.after_step`."""
        self.objective.ascend(parts)

    def facts(self) -> Mapping[str, float | Tensor]:
        """See `Learner.facts`."""
        return self.objective.facts()

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """See `visir.training.learner.validate`."""
        anchors = encode_source(examples.anchors, partial(self._vectors_of, "anchor"))
        positives = encode_source(examples.positives, partial(self._vectors_of, "positive"))
        return validate(anchors, positives, examples.anchor_rows, self.tasks)

    def mine(self, train: TrainingExamples, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the towers find in the training data as they are; see `mining.search`."""
        state = self._model.training
        self._model.eval()
        sides: dict[Side, Any] = {}
        of_sides: tuple[tuple[Side, InputSource, Any], ...] = (
            ("anchor", train.anchors, mined.first_pairs),
            ("positive", train.positives, np.arange(len(train))),
        )
        for side, source, keys in of_sides:
            of, seen = partial(self._vectors_of, side), keys if mined.as_trained else None
            sides[side] = encode_source(source, of, draw, seen)
        self._model.train(state)
        return search(mined, sides["anchor"], sides["positive"])

    def _vectors_of(self, side: Side, inputs: Inputs) -> Tensor:
        return self.vectors(side, to_device(inputs, self.precision.device))


# The learner of late interaction: two towers that give several vectors for each item.


class LateInteraction(DualEncoder):
    """Two `SetTower`s under an objective that compares sets of vectors."""

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """Hits in both directions, by MaxSim over the query's vectors; see `visir.training.learner.validate`."""
        anchors = torch.from_numpy(encode_source(examples.anchors, partial(self._vectors_of, "anchor")))
        positives = torch.from_numpy(encode_source(examples.positives, partial(self._vectors_of, "positive")))
        rows = examples.anchor_rows
        to_positives = np.empty((len(anchors), len(positives)), np.float32)
        ranks = np.empty(len(positives), np.int64)
        block = max(1, SCORES // (len(anchors) * anchors.shape[1]))
        device = self.precision.device
        anchors = anchors.to(device)
        with torch.inference_mode():
            for start in range(0, len(positives), block):
                part = slice(start, start + block)
                matches = best_matches(anchors, positives[part].to(device))
                to_positives[:, part] = matches.of_anchors.cpu().numpy()
                own = rows[part, None] == np.arange(len(anchors))
                ranks[part] = ranks_of(matches.of_positives.cpu().numpy(), own)
        queries = np.unique(rows)
        to_texts, to_images = self.tasks
        return figures_of({to_texts: ranks_of(to_positives[queries], queries[:, None] == rows), to_images: ranks})


# The search for hard negatives in the training split, by the trained model as it is, or by a given one.

Vectors = NDArray[np.float32]
CUTOFFS = (1, 5, 10)
_ENCODED = 128
SCORES = 1 << 24
"""Scores held at a time: 64 MiB, whatever the size of the split."""


def nearest_wrong(
    queries: Vectors, candidates: Vectors, right: Sequence[Sequence[int]], count: int, skip: int = 0
) -> Rows:
    """(n, count) rows of the candidates nearest to each query that are not right for it, the nearest first; -1 is
    none."""
    # queries: (n, d) unit vectors.
    # candidates: (m, d) unit vectors.
    chosen = np.full((len(queries), count), -1, np.int64)
    wanted = min(count + skip, len(candidates))
    block = max(1, SCORES // max(1, len(candidates)))
    for start in range(0, len(queries), block):
        scores = queries[start : start + block] @ candidates.T
        for row, answers in enumerate(right[start : start + block]):
            scores[row, list(answers)] = -np.inf
        nearest = np.argpartition(-scores, wanted - 1, axis=1)[:, :wanted]
        values = np.take_along_axis(scores, nearest, axis=1)
        order = np.lexsort((nearest, -values), axis=1)[:, skip:]  # of equally near ones, the first row
        nearest, values = np.take_along_axis(nearest, order, axis=1), np.take_along_axis(values, order, axis=1)
        chosen[start : start + block, : nearest.shape[1]] = np.where(np.isneginf(values), -1, nearest)
    return chosen


def search(mined: Mined, anchors: Vectors, positives: Vectors) -> tuple[Rows | None, Rows | None]:
    """The captions that are near each image and wrong, and the images that are near each caption and wrong."""
    # anchors: (n, d) unit vectors of all images of the split.
    # positives: (m, d) unit vectors of all captions.
    settings, (of_anchors, of_positives) = mined.settings, mined.right
    depth = settings.nearest, settings.skip
    captions = None if settings.of == "images" else nearest_wrong(anchors, positives, of_anchors, *depth)
    images = None if settings.of == "captions" else nearest_wrong(positives, anchors, of_positives, *depth)
    return captions, images


# Hits and their sum on a split.


def encode_source(
    source: InputSource,
    vectors_of: Callable[[Inputs], Tensor],
    draw: EpochRandom | None = None,
    keys: Rows | None = None,
) -> Vectors:
    """(n, …) vectors of a whole source, in blocks; the next one is read meanwhile."""
    # As in use, where nothing is drawn; or as the training of an epoch sees it, `keys` (n,) being the pair beside which
    # each item stands.

    def read(rows: Rows) -> Inputs:
        return source.batch(rows) if keys is None else source.batch(rows, draw, np.maximum(keys[rows], 0))

    blocks = []
    cuts = np.array_split(np.arange(len(source)), -(-len(source) // _ENCODED))
    with torch.inference_mode(), closing(made_ahead(read, cuts, 1, 2)) as coming:
        for inputs in coming:
            blocks.append(vectors_of(inputs).float().cpu().numpy())  # noqa: PERF401 (one block at a time)
    return np.concatenate(blocks)


def validate(
    anchors: NDArray[np.float32],
    positives: NDArray[np.float32],
    anchor_rows: Rows,
    tasks: tuple[str, str] = ("i2t", "t2i"),
) -> dict[str, float]:
    """Count hits in both directions. An anchor without a positive is a candidate but no query."""
    # anchors: (n, d) unit vectors.
    # positives: (m, d) unit vectors.
    # anchor_rows: (m,) the row of each positive's anchor.
    rows = np.arange(len(anchors))
    queries = np.unique(anchor_rows)
    to_positives, to_anchors = tasks
    ranks = {
        to_positives: _first_ranks(anchors[queries], queries, positives, anchor_rows),
        to_anchors: _first_ranks(positives, anchor_rows, anchors, rows),
    }
    return figures_of(ranks)


def figures_of(ranks: Mapping[str, Rows]) -> dict[str, float]:
    """hit@1, @5, @10 of each direction in percent, and "rsum", their sum."""
    values = {f"{task} hit@{k}": 100.0 * float((first <= k).mean()) for task, first in ranks.items() for k in CUTOFFS}
    return {**values, "rsum": sum(values.values())}


def _first_ranks(
    queries: NDArray[np.float32],
    query_anchors: Rows,
    candidates: NDArray[np.float32],
    candidate_anchors: Rows,
) -> Rows:
    """The rank, from 1, of each query's best positive: the candidates of the same anchor are its positives."""
    ranks = np.empty(len(queries), np.int64)
    block = max(1, SCORES // len(candidates))
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        scores = queries[part] @ candidates.T
        positive = query_anchors[part, None] == candidate_anchors[None, :]
        ranks[part] = ranks_of(scores, positive)
    return ranks


def ranks_of(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> Rows:
    """(n,) the rank, from 1, of each query's best positive; `positive` (n, m) says which candidates are."""
    # Ties, and NaN, count against the query (`~(a < b)` rather than `a >= b`), so that a space that collapsed to one
    # point scores nothing.
    best = np.where(positive, scores, -np.inf).max(axis=1, keepdims=True)
    ranks: Rows = 1 + (~(scores < best) & ~positive).sum(axis=1)
    return ranks
