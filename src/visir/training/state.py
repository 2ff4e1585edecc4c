"""The state of an interrupted training: one file, replaced in one step after each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from visir.errors import ConfigurationError, raise_faults
from visir.files import atomic_path

STATE_FILE = "state.safetensors"


def save_state(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes (plain values) as one safetensors file; the notes are its metadata.

    One file, so that tensors and notes can never be of different epochs. A full disk leaves the last one whole.
    """
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(whole, str(temporary), metadata={"notes": orjson.dumps(notes).decode()})


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save_state` wrote: (tensors, notes)."""
    with safe_open(str(path), framework="pt") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
        notes: dict[str, Any] = orjson.loads(stored.metadata()["notes"])
    return tensors, notes


def refuse_another_run(path: Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` when the state at `path` is not of the run that wants to go on from it.

    `found` and `expected` are nested plain values; every difference is listed.
    """
    faults = [
        f"{name}: interrupted with {was!r}, now {now!r}"
        for name, was, now in _differences({name: found.get(name) for name in expected}, expected, "")
    ]
    raise_faults(
        ConfigurationError,
        f"{path}: this is the state of another training",
        faults,
        hint="put these back to resume, or train into another folder (--out)",
    )


def _differences(one: object, other: object, name: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            yield from _differences(one.get(key), other.get(key), f"{name}.{key}" if name else str(key))
    elif one != other:
        yield name, one, other


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's moments by the number of their parameter: "0.exp_avg", …"""
    state = optimiser.state_dict()["state"]
    return {f"{number}.{key}": value for number, moments in state.items() for key, value in moments.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimiser_tensors` took; learning rates are the schedule's, not the state's."""
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split(".", 1)
        moments.setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix` and a slash, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with `prefix` and a slash before their names."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}
