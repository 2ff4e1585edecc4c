"""Devices: which one to compute on, and one message when it is not there."""

from __future__ import annotations

import os
from pathlib import Path

from visir.errors import EncoderError, nearest
from visir.threads import launched_here

COMPILED = "openvino"
"""The device name of towers that OpenVINO compiles for the CPU."""
INT8 = "int8"
"""The arithmetic that only compiled towers have."""


DEFAULT = "VISIR_DEVICE"
"""The environment variable with the device of models for which none is named."""


class NotCompiledError(EncoderError):
    """A model that OpenVINO cannot compile."""


def default_device() -> str | None:
    """The user's, where no device is named; None for the fastest there is."""
    return os.environ.get(DEFAULT) or None


def pick_device(device: str | None) -> str:
    """The device asked for, checked; None takes CUDA, then Apple's MPS, then the CPU."""
    # Of several processes that a launcher started on this machine each takes a GPU of its own: None and "cuda" mean the
    # one with the number of the process (`LOCAL_RANK`).
    import torch

    if device == COMPILED:
        raise NotCompiledError(
            "this model cannot be compiled by OpenVINO: image and text towers of transformers, of open_clip and of "
            "sentence-transformers (one vector for each input) can, and towers that visir trained.",
            hint="leave --device out, or --device cpu",
            code="openvino-takes-not",
        )
    if device in (None, "cuda") and torch.cuda.is_available():
        return own_gpu(*launched_here(), torch.cuda.device_count())
    if device is None:
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as fault:
        devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        devices += ["mps"] if torch.backends.mps.is_available() else []
        source = f" (of {DEFAULT})" if device == default_device() else ""
        reason = str(fault).splitlines()[0]
        if "device string" in reason:  # a list of twenty kinds that PyTorch might have been built for
            reason = "there is no such kind of device"
        raise EncoderError(
            f"the device {device!r}{source} cannot be used: {reason}",
            hint=nearest(device.lower(), [*devices, COMPILED]).replace("known:", "there is:"),
            code="device-cannot-used",
        ) from fault
    return device


def has_bfloat16_units(description: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has units for products in bfloat16 (AMX); False where it cannot be told."""
    try:
        return "amx_bf16" in description.read_text()
    except (OSError, UnicodeDecodeError):
        return False


def own_gpu(number: int, processes: int, gpus: int) -> str:
    """The GPU of process `number` (from 0) of so many on a machine; one process alone takes "cuda", torch's current."""
    if processes == 1:
        return "cuda"
    if number >= gpus:
        raise EncoderError(
            f"process {number + 1} of {processes} on this machine has no GPU of its own: there are {gpus}.",
            hint=f"start {gpus} on each machine (torchrun --nproc-per-node {gpus}), or compute with --device cpu",
            code="there-are",
        )
    return f"cuda:{number}"


def of_torch(device: str | None, dtype: str) -> tuple[str | None, str]:
    """The device and the dtype that PyTorch loads the towers with, which OpenVINO compiles from the CPU in float32."""
    return ("cpu", "float32") if device == COMPILED else (device, dtype)


def dtype_on_card(device: str | None, dtype: str) -> str:
    """The arithmetic as the card has it: compiled networks round in another way."""
    return f"{dtype} (openvino)" if device == COMPILED else dtype
