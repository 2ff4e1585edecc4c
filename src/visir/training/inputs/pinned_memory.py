"""Batches in page-locked memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from visir.encoders.towers.base import Inputs, PromptInputs
from visir.training.inputs.base import TrainingBatch


def pin_batch(batch: TrainingBatch) -> TrainingBatch:
    """Copy a batch into page-locked memory, from which CUDA copies while the program goes on."""
    # torch keeps such memory and gives it out again when the copies out of it are done.
    return TrainingBatch(
        anchors=_inputs(batch.anchors),
        positives=_inputs(batch.positives),
        anchor_rows=_pinned(batch.anchor_rows),
        targets=_pinned(batch.targets),
        tokens=_pinned(batch.tokens),
        classes=_pinned(batch.classes),
        rows=_pinned(batch.rows),
        negatives=[_inputs(inputs) for inputs in batch.negatives],
        negative_rows=_pinned(batch.negative_rows),
        anchor_negatives=[_inputs(inputs) for inputs in batch.anchor_negatives],
        anchor_negative_rows=_pinned(batch.anchor_negative_rows),
    )


def _inputs(inputs: Inputs) -> Inputs:
    if isinstance(inputs, Tensor):
        pinned: Tensor = _pinned(inputs)
        return pinned
    if isinstance(inputs, PromptInputs):
        return PromptInputs({prompt: _inputs(of_prompt) for prompt, of_prompt in inputs.items()})
    return {name: _pinned(tensor) for name, tensor in inputs.items()}


def _pinned(tensor: Any) -> Any:
    """What is on a device already, or is not there, stays as it is."""
    return tensor.pin_memory() if isinstance(tensor, Tensor) and tensor.device.type == "cpu" else tensor
