"""Memory: what a process took at most, and what a forward pass keeps for the backward pass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import torch
from torch import Tensor


def peak_memory() -> dict[str, int]:
    """Bytes that this process has held at most so far: "process" (where the system tells), "cuda" (where there is
    one)."""
    # A child's count begins with what its parent held when it was forked.
    peaks: dict[str, int] = {}
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peaks["process"] = peak if sys.platform == "darwin" else 1024 * peak  # bytes there, kilobytes elsewhere
    if torch.cuda.is_initialized():
        peaks["cuda"] = torch.cuda.max_memory_allocated()
    return peaks


def kept_bytes(forward: Callable[[], object], weights: Iterable[Tensor]) -> int:
    """Bytes of the tensors that `forward` leaves for its backward pass, `weights` (which are there anyway) not
    counted."""
    # Counted through `torch.autograd.graph.saved_tensors_hooks`, so whatever the modules are. A tensor that is kept by
    # several operations counts once.
    weight_storages = {weight.untyped_storage().data_ptr() for weight in weights}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weight_storages:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = forward()  # held until all is counted: freed memory would be used again under the same address
    del alive
    return sum(sizes.values())
