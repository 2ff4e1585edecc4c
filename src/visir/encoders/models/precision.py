"""Full float32 where a card says float32: no TF32, no bfloat16 inside products, and the same kernels in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

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
