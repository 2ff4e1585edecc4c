"""The forward pass: NumPy in, NumPy out, float32 in full precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.models.precision import full_precision

if TYPE_CHECKING:
    import torch


@contextmanager
def inference() -> Iterator[None]:
    """No gradients, and float32 in full precision (`full_precision`)."""
    import torch

    with torch.inference_mode(), full_precision():
        yield


def to_tensor(batch: Sequence[NDArray[Any]], device: str, dtype: torch.dtype) -> torch.Tensor:
    """Preprocessed images, stacked: (n, 3, H, W) on `device`."""
    import torch

    return torch.from_numpy(np.stack(batch)).to(device=device, dtype=dtype)


def stacked(batch: Sequence[NDArray[np.uint8]], *, pin: bool) -> torch.Tensor:
    """Pictures as bytes, (n, 3, H, W); pinned, a GPU copies them out of this memory while the program goes on."""
    import torch

    pictures = torch.empty((len(batch), *batch[0].shape), dtype=torch.uint8, pin_memory=pin)
    np.stack(batch, out=pictures.numpy())
    return pictures


def begin_vectors(features: torch.Tensor) -> Callable[[], NDArray[np.float32]]:
    """`to_vectors` for features that a GPU is still computing: the function that is returned waits for them."""
    import torch

    coming = features.float().to("cpu", non_blocking=True)
    there = torch.cuda.Event()
    there.record(torch.cuda.current_stream(features.device))

    def wait() -> NDArray[np.float32]:
        there.synchronize()
        return np.array(coming.numpy())  # a copy: page-locked memory goes back to torch

    return wait


def to_vectors(features: torch.Tensor) -> NDArray[np.float32]:
    """(n, d) float32 in NumPy, whatever the device and precision of `features`."""
    vectors: NDArray[np.float32] = features.float().cpu().numpy()
    return vectors


def no_vectors(dimension: int) -> NDArray[np.float32]:
    """The answer to an empty batch: (0, d)."""
    return np.empty((0, dimension), np.float32)
