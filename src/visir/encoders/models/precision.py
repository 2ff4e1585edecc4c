"""Full float32 where a card says float32: no TF32, no bfloat16 inside products, and the same kernels in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.devices import is_amd_avx512

if TYPE_CHECKING:
    import torch


_FULL = ("none", "ieee")
_lock = Lock()
_inside = 0
_restore: list[Callable[[], None]] = []


@contextmanager
def full_precision() -> Iterator[None]:
    """Products, convolutions and recurrences of float32 in full float32, with kernels that no run chooses anew."""
    # cuDNN computes float32 convolutions in TF32 (10 bits of mantissa) unless told otherwise, a user or another library
    # may have allowed the same for matrix products, and bfloat16 inside them on the CPU: "float32" on the card would
    # not be true. Both ways of PyTorch to allow it are understood (`allow_tf32`, and `fp32_precision` since 2.9), mixed
    # too. Autotuning is off because it may choose another kernel in another run.
    # The modes are those of the whole process. The first thread to enter changes them, the last to leave restores them.
    global _inside
    with _lock:
        if _inside == 0:
            _restore.extend(_change())
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            while _inside == 0 and _restore:
                _restore.pop()()


def _change() -> Iterator[Callable[[], None]]:
    """Change the modes one by one; each yields what restores it."""
    from torch import backends

    cudnn = backends.cudnn
    for name, value in (("enabled", True), ("benchmark", False), ("deterministic", True)):
        yield _set(cudnn, name, value)
    yield from _change_legacy()
    for place in (backends.cuda.matmul, cudnn):
        try:
            allowed = place.allow_tf32
        except RuntimeError:  # set by fp32_precision, in a way that the older setting cannot say
            continue
        if allowed:
            yield _set(place, "allow_tf32", False)
    parts: list[tuple[Any, Any]] = [(backends.cuda.matmul, backends)]
    parts += [(getattr(cudnn, name), cudnn) for name in ("conv", "rnn") if hasattr(cudnn, name)]
    mkldnn = backends.mkldnn
    parts += [(getattr(mkldnn, name), mkldnn) for name in ("matmul", "conv", "rnn") if hasattr(mkldnn, name)]
    for part, whole in parts:
        mode = getattr(part, "fp32_precision", "none")
        if mode not in _FULL:  # a mode that is that of the whole is inherited, as it was
            yield _set(part, "fp32_precision", "ieee", "none" if mode == whole.fp32_precision else mode)


def _change_legacy() -> Iterator[Callable[[], None]]:
    """Change what `torch.set_float32_matmul_precision` set, by itself: PyTorch remembers which way was taken."""
    import torch

    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # set by fp32_precision, in a way that the older setting cannot say
        return
    if before == "highest":
        return
    parts = [whole.matmul for whole in (torch.backends.cuda, torch.backends.mkldnn) if hasattr(whole, "matmul")]
    modes = [_mode(part) for part in parts]
    torch.set_float32_matmul_precision("highest")

    def restore() -> None:
        torch.set_float32_matmul_precision(before)
        for part, mode in zip(parts, modes, strict=True):
            if _mode(part) != mode:
                part.fp32_precision = mode

    yield restore


def _mode(part: Any) -> str:
    return str(getattr(part, "fp32_precision", "none"))


def _set(place: Any, name: str, value: object, before: object = None) -> Callable[[], None]:
    before = getattr(place, name) if before is None else before
    setattr(place, name, value)
    return lambda: setattr(place, name, before)


# The forward pass: NumPy in, NumPy out, float32 in full precision.


@contextmanager
def inference(device: str = "") -> Iterator[None]:
    """No gradients, float32 in full precision (`full_precision`), and on "cpu" the faster library for its products."""
    import torch

    products = _products() if device == "cpu" else None
    with torch.inference_mode(), full_precision(), nullcontext() if products is None else products():
        yield


@cache
def _products() -> Callable[[], AbstractContextManager[Any]] | None:
    """What has the linear layers of a thread computed by oneDNN; None where MKL is as fast."""
    # PyTorch asks MKL for products of float32, and MKL does not use the units of AVX-512 of processors that are not
    # Intel's: oneDNN, which computes PyTorch's convolutions, is twice as fast there. Both are float32 throughout and
    # differ in their last bits. Which one it is depends on the processor alone, so that vectors are the same every day.
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    if not (is_amd_avx512() and torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return None
    linear: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if linear is None:
        return None

    plain = {(torch.Tensor, torch.float32), (torch.nn.Parameter, torch.float32)}

    class _Products(TorchFunctionMode):  # of this thread only
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is functional.linear and not kwargs:
                values, weight, bias = (*args, None)[:3]
                kinds = {(type(each), each.dtype) for each in (values, weight, bias) if each is not None}
                if kinds <= plain and weight.is_contiguous() and weight.ndim == 2 and values.ndim > 1 and len(values):
                    return linear(values, weight, bias, "none", [], "")
            return function(*args, **(kwargs or {}))

    return _Products


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


_BLOCK = 8192


def in_blocks(
    vectors_of: Callable[[Callable[[NDArray[Any]], torch.Tensor]], torch.Tensor], count: int, width: int, device: str
) -> NDArray[np.float32]:
    """(count, width) vectors of kept ones, made block by block, so that memory stays bounded."""
    # `vectors_of` is given what takes the rows of a block out of an array, which may be mapped.
    import torch

    result = np.empty((count, width), np.float32)
    with inference():
        for start in range(0, count, _BLOCK):
            rows = slice(start, min(start + _BLOCK, count))
            result[rows] = to_vectors(
                vectors_of(lambda array, rows=rows: torch.from_numpy(np.array(array[rows], np.float32)).to(device))  # type: ignore[misc]
            )
    return result
