"""Weights: hashes over them, which make kept vectors belong to exactly one model; and files of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import EncoderError
from visir.storage import new_file
from visir.storage.disk import system_error

if TYPE_CHECKING:
    from torch import Tensor


def hash_state(state: Mapping[str, Tensor]) -> str:
    """32 hexadecimal digits over a torch `state_dict`: names, types, shapes and values, in the order of names."""
    # The hash is of the values as loaded. A model loaded in bfloat16 therefore has another hash than in float32.
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_weights(tensors: Mapping[str, Tensor], path: Path, *, metadata: dict[str, str] | None = None) -> None:
    """Write tensors of any device as a file `path`, which takes the place of one that is there."""
    # The library writes into a temporary file of its own naming first; that is kept out of the folder of `path`.
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with new_file(path, replace=True) as temporary:
            save_file(plain, str(temporary), metadata=metadata)
    except Exception as fault:
        cause = system_error(fault)
        if cause is None:
            raise
        raise cause from fault


def read_weights(path: Path, whole: str = "checkpoint", missing: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and what else it says; errors tell to copy the `whole` again, or what is `missing`."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise EncoderError(f"{path}: missing.", hint=missing or f"was the whole {whole} copied?")
    try:
        with safe_open(str(path), framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
            return tensors, stored.metadata() or {}
    except SafetensorError as fault:
        raise EncoderError(
            f"{path}: cannot be read: {fault}", hint=f"copy the whole {whole} again", code="cannot-read"
        ) from fault
