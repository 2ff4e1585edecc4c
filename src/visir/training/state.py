"""The state of an interrupted training: one file, replaced in one step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from visir.errors import NO_ROOM, ConfigurationError, VisirError, raise_faults, require
from visir.storage.disk import system_error
from visir.training.trained import STATE_FILE, STEPS_FILE, Epoch, Step, TrainingFolder

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def save_state(folder: TrainingFolder, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes (plain values) as one safetensors file; the notes are its metadata."""
    # One file, so that tensors and notes can never be of different steps. A full disk leaves the last one whole and
    # raises `VisirError`.
    try:
        with folder.saving() as path:
            apart, text = _apart(tensors), orjson.dumps(notes).decode()
            save_file(apart, str(path), metadata={"notes": text, "hash": _hash(apart, text)})
    except (OSError, SafetensorError) as fault:
        size = 1 + sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        remains = "the one written before is whole" if folder.state.is_file() else "there is none yet"
        raise VisirError(
            f"{folder.state}: the state of the training could not be written ({fault}); {remains}.",
            hint=f"it takes {-(-size // 2**20):,} MiB beside the last one: make room, then go on with --resume"
            if is_full(fault)
            else "mend that, then go on with --resume",
        ) from fault


def is_full(fault: Exception) -> bool:
    """Whether room was short."""
    cause = system_error(fault)
    return cause is not None and cause.errno in NO_ROOM


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, none sharing memory with another (tied weights), as the format wants them."""
    storages: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        if (memory := plain.untyped_storage().data_ptr()) in storages:
            plain = plain.clone()
        storages.add(memory)
        result[name] = plain
    return result


def _hash(tensors: Mapping[str, Tensor], notes: str) -> str:
    """Over what a state holds: no manifest names the file, which is gone when the training is done."""
    digest = hashlib.blake2b(notes.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_state` wrote."""
    try:
        with safe_open(str(path), framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
            metadata = stored.metadata()
            if metadata.get("hash", expected := _hash(tensors, metadata["notes"])) != expected:
                raise ValueError("its hash does not fit")
            notes: dict[str, Any] = orjson.loads(metadata["notes"])
    except (SafetensorError, ValueError, TypeError, KeyError) as fault:
        raise VisirError(
            f"{path}: the state of the training is damaged ({fault}).",
            hint="it was altered after it was written: bring back a copy, or remove it and train anew",
            code="state-training-damaged",
        ) from fault
    return tensors, notes


def check_same_training(path: Path, stored: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse the state of another training."""
    faults = [
        f"{name}: interrupted with {was!r}, now {now!r}"
        for name, was, now in _differences({name: stored.get(name) for name in expected}, expected, "")
    ]
    raise_faults(
        ConfigurationError,
        f"{path}: this is the state of another training",
        faults,
        hint="put these back to resume, or train into another folder (--out)",
    )


def _differences(first: object, second: object, name: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from _differences(first.get(key), second.get(key), f"{name}.{key}" if name else str(key))
    elif first != second:
        yield name, first, second


def strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix` and a slash, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with `prefix` and a slash before their names."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


# TensorBoard: the log of steps and the curve as event files.

FOLDER = "tensorboard"
EVENTS = "events.out.tfevents.*"
"""What its files are called."""


class TensorBoard:
    """Scalars of every step and of every epoch, both over the number of steps: `with TensorBoard(out) as board`."""

    # `board` is called after each epoch, with its point of the curve. Event files are a copy of `steps.jsonl` and of
    # the curve: a training that goes on writes them anew from its beginning into a new file, and tells readers to pass
    # over what the files before it say. So no point is shown twice and none is missing, wherever it was interrupted.

    def __init__(self, out: Path) -> None:
        require("tensorboard", extra="train", purpose="--tensorboard")
        self._out = out
        self._writer: SummaryWriter | None = None
        self._read = 0
        self._last: dict[int, int] = {}

    def __call__(self, epoch: Epoch) -> None:
        """Write what came since the last call."""
        epochs = [epoch]
        if self._writer is None:
            epochs = [*self._behind(epoch), epoch]
            self._writer = self._begin()
        with (self._out / STEPS_FILE).open("rb") as log:
            log.seek(self._read)
            steps = [Step(**orjson.loads(line)) for line in log]
            self._read = log.tell()
        for step in steps:
            self._last[step.epoch] = step.step
            self._write("step", {**step.losses, **step.facts, "learning rate": step.learning_rate}, step.step)
        for point in epochs:
            at = self._last[point.epoch]
            self._write("epoch", {**point.losses, **point.facts, "captions per second": point.rate}, at)
            self._write("validation", point.validation, at)
        self._writer.flush()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def _begin(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        # Readers pass over what an earlier process wrote: every point is written anew.
        return SummaryWriter(str(self._out / FOLDER), purge_step=0)

    def _behind(self, epoch: Epoch) -> list[Epoch]:
        """The epochs before the first one that this process trained: those of the state from which it went on."""
        if epoch.epoch == 1:
            return []
        curve = load_state(self._out / STATE_FILE)[1]["curve"]
        return [Epoch(**values) for values in curve if values["epoch"] < epoch.epoch]

    def _write(self, group: str, values: Mapping[str, float], step: int) -> None:
        assert self._writer is not None
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
