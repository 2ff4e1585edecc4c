"""One update of the weights: over one batch or several, at once or in chunks, in one process or several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from visir.encoders.towers.base import to_device
from visir.errors import VisirError
from visir.training.batches import Share
from visir.training.gradient_cache import Vectors, backward
from visir.training.inputs.base import Examples, TrainingBatch
from visir.training.learner import Learner
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.optimiser import parameters_of, set_rates
from visir.training.precision import Precision
from visir.training.processes import Processes
from visir.training.seeds import seed_step

_NAMED = 8
_SMALLEST_SCALE = 1.0


class TrainingError(VisirError):
    """Training cannot go on; `ids` are the captions of the batch at which it stopped."""

    def __init__(self, message: str, *, hint: str = "", ids: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.ids = tuple(ids)


@dataclass(frozen=True)
class StepPosition:
    """Where in a training an update stands: epoch and step within it, from 0, and the factor of the peak rate."""

    epoch: int
    step: int
    factor: float


@dataclass(frozen=True)
class StepResult:
    """What an update saw: means over its captions of "loss" and its parts, and the objective's facts before it."""

    losses: dict[str, float]
    facts: dict[str, float]
    captions: int


@dataclass(frozen=True, eq=False)
class Loop:
    """What an update needs; `clip` as in the recipe's `Optimiser`, `train` for the owners and ids of whole batches."""

    learner: Learner[Any]
    optimiser: torch.optim.Optimizer
    processes: Processes
    precision: Precision
    train: Examples
    seed: int
    clip: float | None

    def update(self, shares: Sequence[Share], coming: Iterator[TrainingBatch], place: StepPosition) -> StepResult:
        """Move the weights once, by the gradient of the captions' mean loss over the batches `shares`.

        Each batch contrasts within itself only. `coming` gives the inputs of their chunks in order. Raises
        `TrainingError`, before the weights are touched, when a loss or the gradient is NaN or infinite.
        """
        self.learner.at_step(place.epoch, place.step)
        set_rates(self.optimiser, place.factor)
        self.optimiser.zero_grad()
        captions = sum(len(share.rows) for share in shares)
        losses = [self._backward(share, coming, place, number, captions) for number, share in enumerate(shares)]
        norm = self._gradient_norm()
        # The one point at which the CPU waits for the device: everything that is logged or decided on, in one piece.
        found, length = self._read(losses, norm)
        for share, one in zip(shares, found, strict=True):
            if not math.isfinite(one["loss"]):
                raise self._stopped(f"the loss is {one['loss']}", [share], place)
        facts = self.learner.facts()
        parts = [len(share.rows) / captions for share in shares]
        mean = {name: sum(part * one[name] for part, one in zip(parts, found, strict=True)) for name in found[0]}
        self._move(length, norm, mean, shares, place)
        return StepResult(mean, facts, captions)

    def _backward(
        self, share: Share, coming: Iterator[TrainingBatch], place: StepPosition, number: int, captions: int
    ) -> Losses:
        # The inputs are kept on the CPU for the second pass; chunks bound the device's memory.
        batches = [next(coming) for _ in share.chunks]
        device, processes = self.processes.device, self.processes

        def vectors_of(chunk: int) -> Vectors:
            seed_step(self.seed, place.epoch, place.step, number, processes.rank, chunk, device=device)
            batch = batches[chunk]
            return (
                self.learner.vectors("image", to_device(batch.images, device)),
                self.learner.vectors("text", to_device(batch.texts, device)),
            )

        def losses_of(images: Tensor, texts: Tensor) -> Losses:
            own = VectorPairs(
                images,
                texts,
                torch.cat([one.owners.to(device, non_blocking=True) for one in batches]),
                _together([one.targets for one in batches], device),
                _together([one.tokens for one in batches], device),
                None if batches[0].classes is None else torch.cat([one.classes.to(device) for one in batches]),
                None if batches[0].rows is None else torch.cat([one.rows.to(device) for one in batches]),
            )
            if processes.count == 1:
                return self.learner.losses(own)
            both = torch.cat([images, texts], dim=1)[: share.own]
            images, texts = processes.gather(both, share.sizes).split(images.shape[1], dim=1)
            owners, classes = self.train.labels(share.rows)
            classes = None if classes is None else classes.to(device, non_blocking=True)
            everyone = VectorPairs(images, texts, owners.to(device, non_blocking=True), classes=classes)
            return self.learner.losses(own, everyone, share.own * processes.count / len(share.rows))

        weight = len(share.rows) / captions
        return backward(vectors_of, len(batches), losses_of, lambda total: self.precision.scale(weight * total))

    def _gradient_norm(self) -> Tensor:
        """The length of the gradient, averaged over the processes and in its own scale."""
        gradients = [one.grad for one in parameters_of(self.optimiser) if one.grad is not None]
        self.processes.average(gradients)
        self.precision.unscale(self.optimiser)
        return get_total_norm(gradients)

    def _read(self, losses: Sequence[Losses], norm: Tensor) -> tuple[list[dict[str, float]], float]:
        """The losses of each batch over all processes, and the norm."""
        names = list(losses[0].parts)
        values = torch.stack(
            [one.double() for loss in losses for one in (loss.total, *(loss.parts[name] for name in names))]
        )
        values = self.processes.sum(values) / self.processes.count
        *flat, length = torch.cat([values, norm.reshape(1).to(values)]).tolist()
        width = 1 + len(names)
        rows = [flat[start : start + width] for start in range(0, len(flat), width)]
        return [dict(zip(["loss", *names], row, strict=True)) for row in rows], length

    def _move(
        self, length: float, norm: Tensor, mean: Mapping[str, float], shares: Sequence[Share], place: StepPosition
    ) -> None:
        if math.isfinite(length):
            if self.clip is not None and length > self.clip:
                clip_grads_with_norm_(parameters_of(self.optimiser), self.clip, norm)
        elif not self.precision.is_scaled:
            raise self._stopped(f"the loss is finite, but the length of its gradient is {length}", shares, place)
        elif self.precision.factor < _SMALLEST_SCALE:
            raise self._stopped("the gradient overflows float16 at every scale", shares, place)
        if math.isfinite(length):  # otherwise the scaled gradient overflowed, and nothing moves
            self.learner.after_step({name: value for name, value in mean.items() if name != "loss"})
        self.precision.step(self.optimiser)

    def _stopped(self, what: str, shares: Sequence[Share], place: StepPosition) -> TrainingError:
        ids = [str(self.train.captions[row]) for share in shares for row in share.rows]
        more = f", … ({len(ids)} in all)" if len(ids) > _NAMED else ""
        rate = max(group["lr"] for group in self.optimiser.param_groups)
        return TrainingError(
            f"{what} in epoch {place.epoch + 1}, step {place.step + 1} (learning rate {rate:.2g}); captions of the "
            f"batch: {', '.join(map(repr, ids[:_NAMED]))}{more}.",
            hint=f"look at these captions and their images; if they are sound, {self.learner.advice}"
            + self.precision.advice,
            ids=ids,
        )


def _together(parts: Sequence[Tensor | None], device: torch.device) -> Tensor | None:
    """The chunks' rows under each other, the narrower ones filled up with 0 on the right (padding)."""
    present = [one.to(device, non_blocking=True) for one in parts if one is not None]
    if not present:
        return None
    width = max(one.shape[1] for one in present)
    return torch.cat([functional.pad(one, (0, width - one.shape[1])) for one in present])
