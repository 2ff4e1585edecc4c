"""Batches in page-locked memory."""

from __future__ import annotations

from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.training.inputs.base import TrainingBatch


def pin_batch(batch: TrainingBatch) -> TrainingBatch:
    """`batch` copied into page-locked memory, from which CUDA copies without holding up whoever asks for it.

    torch keeps such memory and gives it out again when the copies out of it are done. Raises `RuntimeError` without
    CUDA.
    """
    return TrainingBatch(
        images=_inputs(batch.images),
        texts=_inputs(batch.texts),
        owners=batch.owners.pin_memory(),
        targets=None if batch.targets is None else batch.targets.pin_memory(),
        tokens=None if batch.tokens is None else batch.tokens.pin_memory(),
        classes=None if batch.classes is None else batch.classes.pin_memory(),
    )


def _inputs(inputs: Inputs) -> Inputs:
    if isinstance(inputs, Tensor):
        return inputs.pin_memory()
    return {name: one.pin_memory() for name, one in inputs.items()}
