"""Devices: which one to compute on, and one message when it is not there."""

from __future__ import annotations

from visir.errors import EncoderError


def pick_device(device: str | None) -> str:
    """The device asked for, checked; None takes CUDA, then Apple's MPS, then the CPU.

    Raises `EncoderError` when the device asked for is not there: falling back silently would change speed and, with
    other kernels, the last digits.
    """
    import torch

    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as fault:
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        there += ["mps"] if torch.backends.mps.is_available() else []
        raise EncoderError(
            f"the device {device!r} cannot be used: {str(fault).splitlines()[0]}", hint=f"there is: {', '.join(there)}"
        ) from fault
    return device
