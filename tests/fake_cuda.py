"""A GPU that is not there: tensors on it know their shape, type and device, and hold no values.

torch computes on them as on real ones, but for the numbers (`FakeTensorMode`); what is read from them is 1. So what
breaks on a GPU alone breaks here too: a tensor that stayed on the CPU, two types in one product, a value that is asked
of the device within a step. What cannot be seen here: numbers, kernels, streams, memory. The backward pass of a CUDA
tensor asks the driver, which is not there; tests compute it on the device "meta".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from visir.encoders import devices

DEVICE = "cuda:0"
_to_real = nn.Module.to
_aten = torch.ops.aten
_OF_ONE_TYPE = ("mm", "addmm", "bmm", "baddbmm", "convolution", "native_layer_norm")
"""Kernels that refuse inputs of several types; without values torch does not look at them."""


class FakeCuda(FakeTensorMode):
    """The mode: what is on the GPU is fake, what is on the CPU stays as it is.

    Attributes:
        reads: How often the program waited for a value on the GPU.
        operations: How many there were on the GPU.
    """

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.reads = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "pin_memory"}
        tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, torch.Tensor)]
        given = [*args, *kwargs.values()]
        to = _first(given, torch.device)
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors) and (to is None or to.type != "cuda"):
            return args[0] if func is _aten._pin_memory.default else func(*args, **kwargs)
        if func is _aten._local_scalar_dense.default:
            return self.read(args[0]).item()
        if func.overloadpacket in (_aten._to_copy, _aten.to) and to is not None and to.type == "cpu":
            return self.read(args[0], _first(given, torch.dtype))
        if func is _aten.nonzero.default:  # as if nothing were 0
            self.reads += 1
            places, (device, dtype) = [args[0].numel(), args[0].ndim], (torch.device(DEVICE), torch.int64)
            func, args, kwargs = _aten.empty.memory_format, (places,), {"device": device, "dtype": dtype}
        if func.overloadpacket is _aten.to and not isinstance(args[0], FakeTensor):
            func, args, kwargs = _aten._to_copy.default, args[:1], {"device": to, "dtype": _first(given, torch.dtype)}
        if func.overloadpacket.__name__ in _OF_ONE_TYPE:
            dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
            if len(dtypes) > 1:
                raise RuntimeError(f"{func}: inputs of one dtype are expected, not of {sorted(map(str, dtypes))}")
        self.operations += 1
        return super().__torch_dispatch__(func, types, args, kwargs)

    def read(self, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A copy on the CPU, which is all ones; the program waits for it."""
        self.reads += 1
        return torch.ones(tuple(tensor.shape), dtype=dtype or tensor.dtype)


class Answers(TorchDispatchMode):
    """What is asked of a tensor on the device "meta" is answered with yes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_question = func is _aten._local_scalar_dense.default and args[0].device.type == "meta"
        return True if is_question else func(*args, **(kwargs or {}))


def _first(values: list[Any], kind: type) -> Any:
    return next((value for value in values if isinstance(value, kind)), None)


class Event:
    """A mark on the GPU's stream, which is reached at once."""

    def record(self, stream: Any) -> None:
        """Nothing to do."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


@contextmanager
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """A machine with one GPU: a model that is moved to "cuda" becomes a fake one, and what it computes is fake too."""
    mode, stack = FakeCuda(), ExitStack()
    entered: list[bool] = []

    def to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        fakes = any(isinstance(tensor, FakeTensor) for tensor in self.parameters())
        if not fakes and (device is None or device.type != "cuda"):
            return _to_real(self, *args, **kwargs)
        replace(self, mode, device, dtype)
        if not entered:
            stack.enter_context(mode)
            entered.append(True)
        return self

    def numpy(self: FakeTensor) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy; copy it to host memory first")

    def pick(device: str | None) -> str:
        return DEVICE if device == "cuda" else device or "cpu"

    genuine = devices.pick_device
    for module in list(sys.modules.values()):
        if vars(module).get("pick_device") is genuine:
            monkeypatch.setattr(module, "pick_device", pick)
    monkeypatch.setattr(nn.Module, "to", to)
    monkeypatch.setattr(nn.Module, "float", lambda self: to(self, dtype=torch.float32))
    monkeypatch.setattr(FakeTensor, "numpy", numpy, raising=False)
    monkeypatch.setattr(FakeTensor, "tolist", lambda self: self.cpu().tolist(), raising=False)
    monkeypatch.setattr(fake_tensor, "init_gpu_context", lambda device: None)
    # Autocast is switched off where there is no driver; the fake GPU has bfloat16 as any since 2020.
    monkeypatch.setattr(torch.amp.autocast_mode, "amp_definitely_not_available", lambda: False, raising=False)
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**34, 2**35))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    with stack:
        yield mode


def replace(module: nn.Module, mode: FakeCuda, device: Any, dtype: torch.dtype | None) -> None:
    """Every weight and buffer becomes a fake of its shape and layout; what is shared stays shared."""
    made: dict[int, torch.Tensor] = {}
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
                    with mode:
                        fake = torch.empty_strided(
                            tensor.shape, tensor.stride(), dtype=wanted, device=device or tensor.device
                        )
                    is_weight = isinstance(tensor, nn.Parameter)
                    made[id(tensor)] = nn.Parameter(fake, tensor.requires_grad) if is_weight else fake
                table[name] = made[id(tensor)]
