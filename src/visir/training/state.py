"""The state of an interrupted training: one file, replaced in one step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from visir.errors import NO_ROOM, ConfigurationError, VisirError, raise_faults
from visir.storage.disk import system_error
from visir.training.folder import TrainingFolder


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
