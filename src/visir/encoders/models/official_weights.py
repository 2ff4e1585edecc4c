"""Checkpoints as a paper's own code saves them: read without running anything in them, checked name by name."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from visir.errors import EncoderError, raise_faults

State = Mapping[str, Tensor]


def read_checkpoint(name: str, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights in a file of `torch.save`, and the plain values of the configuration that lies beside them."""
    # A training run saves `{"model": weights, "config": …, "optimizer": …}`, a published file sometimes the weights
    # alone; both are read. The file is mapped, not read: optimiser states cost no memory.
    # Nothing in the file is executed (`weights_only`); a file that cannot be read in this way is an `EncoderError` that
    # names the class in it and how to save the weights alone.
    if not path.is_file():
        raise EncoderError(f"{name}: there is no file {path}.", hint="name the checkpoint file itself", code="no-file")
    try:
        # Files of PyTorch before 1.6 are no archives, and cannot be mapped.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except UnpicklingError as fault:
        raise EncoderError(
            f"{name}: {path} holds more than weights and plain values ({_refused(fault)}); reading it would run code.",
            hint="where you trust it, save the weights alone: "
            "torch.save({'model': torch.load(OLD, weights_only=False)['model']}, NEW)",
            code="holds-more-weights-plain",
        ) from fault
    except (OSError, RuntimeError, EOFError, ValueError, LookupError) as fault:
        raise EncoderError(
            f"{name}: {path} cannot be read as a checkpoint: {str(fault).splitlines()[0] if str(fault) else fault!r}",
            hint="the file is damaged, cut short, or of another kind; fetch it again and compare its size",
        ) from fault
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise EncoderError(
            f"{name}: {path} holds no weights by name.",
            hint="expected {'model': state_dict, …}, or a state_dict alone",
            code="holds-no-weights-name",
        )
    config = content.get("config")
    return dict(state), dict(config) if isinstance(config, Mapping) else {}


def check_weights(name: str, state: State, expected: Mapping[str, Sequence[int]], ignored: Sequence[str]) -> None:
    """Raise one `EncoderError` that lists every weight that is of another shape, missing, or not known."""
    missing = [f"missing: {key} {tuple(shape)}" for key, shape in expected.items() if key not in state]
    shapes = [
        f"wrong shape: {key} is {tuple(state[key].shape)}, expected {tuple(shape)}"
        for key, shape in expected.items()
        if key in state and tuple(state[key].shape) != tuple(shape)
    ]
    unknown = [
        f"unexpected: {key} {tuple(value.shape)}"
        for key, value in state.items()
        if key not in expected and not any(fnmatchcase(key, pattern) for pattern in ignored)
    ]
    counts = f"{len(shapes)} of another shape, {len(missing)} missing, {len(unknown)} unexpected"
    raise_faults(
        EncoderError,
        f"{name}: the weights are not those of this model; {counts}",
        shapes + missing + unknown,
        hint="is it a checkpoint of this architecture, for retrieval? another size is declared with ?config=FILE",
    )


def _refused(fault: UnpicklingError) -> str:
    """The class that `weights_only` refused, from torch's long message."""
    text = str(fault)
    _, separator, rest = text.partition("GLOBAL ")
    return rest.split()[0] if separator and rest.split() else text.splitlines()[0]
