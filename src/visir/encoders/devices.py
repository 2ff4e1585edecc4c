"""Devices: which one to compute on, and one message when it is not there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from visir.errors import EncoderError, nearest
from visir.files import is_there
from visir.options import split_mark
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


def is_amd_avx512(description: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor is AMD's and has AVX-512; False where it cannot be told."""
    try:
        text = description.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return "AuthenticAMD" in text and "avx512f" in text


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


# Where a model lies whose name is a path.


def absolute_name(name: str) -> str:
    """A name with the path in it made absolute: "runs/towers", "runs/sparse?expansion=none", "onnx:FILE#tensor"."""
    for prefix, rest in (("", name), name.partition(":")[::2]):
        place = split_mark(rest)[0].partition("#")[0]
        if place and is_there(place):
            return f"{prefix}{':' if prefix else ''}{Path(place).absolute()}{rest[len(place) :]}"
    return name


def is_gone(name: str) -> bool:
    """Whether the name of a model is an absolute path, and nothing is there any more."""
    paths = [Path(split_mark(part)[0].partition("#")[0]) for part in (name, name.partition(":")[2])]
    return any(path.is_absolute() and not is_there(path) for path in paths)


# Whether a model that a file names may run code of its own: whoever wrote the file does not decide that.

TRUSTED = "code=trusted"
"""The option that lets the code of a model run."""
_ELSEWHERE = "://"
"""In a name that is asked for at an address: reading it tells that address of this machine, and may use its keys."""
NAMES = "VISIR_TRUSTED_CODE"
"""The environment variable with the names of models whose code may run, one in each line."""
_named: set[str] = set()
_IN_TRUSTED_FOLDER: ContextVar[bool] = ContextVar("in a folder whose models may run code", default=False)


class CodeNotTrustedError(EncoderError):
    """A file names a model that runs code of its own, and the user has not named it."""


def name_model(name: str) -> None:
    """Record that the user has named this model in this process."""
    if TRUSTED in name or _ELSEWHERE in name:
        _named.add(absolute_name(name))


@contextmanager
def trusting_folder() -> Iterator[None]:
    """Inside, every name counts: the user has written `FOLDER?code=trusted`."""
    token = _IN_TRUSTED_FOLDER.set(True)
    try:
        yield
    finally:
        _IN_TRUSTED_FOLDER.reset(token)


def check_code(name: str, place: object, allow: str = "") -> None:
    """Check that a name that was read from a file lets no code run, and asks no address, that the user has not
    named."""
    # The option is looked for anywhere in the name: a name can hold another one (`ADAPTER?base=NAME?code=trusted`).
    if (TRUSTED not in name and _ELSEWHERE not in name) or _IN_TRUSTED_FOLDER.get():
        return
    if absolute_name(name) in _named | set(map(absolute_name, os.environ.get(NAMES, "").splitlines())):
        return
    if _ELSEWHERE in name:
        raise CodeNotTrustedError(
            f"{place}: it names the model {name}, an address, and nobody has said here that it may be asked.",
            hint=f"if you know that address, and trust who made {place}: {allow or f'name that model: {name}'}",
            code="names-model-address-nobody",
        )
    export = f"export {NAMES}={shlex.quote(absolute_name(name))}"
    raise CodeNotTrustedError(
        f"{place}: it names the model {name}, which runs code of its own, and nobody has said here that it may.",
        hint=f"read that code; if you trust it, and who made {place}: {' or '.join(filter(None, (allow, export)))}",
        code="names-model-runs-code",
    )
