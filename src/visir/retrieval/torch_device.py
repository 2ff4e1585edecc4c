"""A device of torch on which products are made whose error is bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.models.precision import full_precision
from visir.errors import EncoderError, require
from visir.retrieval.vectors import IN_MEMORY


class TorchDevice:
    """A device for products in full float32, whatever precision the process has chosen for its models."""

    def __init__(self, device: str) -> None:
        require("torch", extra="torch", purpose=f"a search on the device {device!r}")
        import torch

        self.torch: Any = torch
        try:
            self.device = torch.device(pick_device(device))
        except EncoderError as fault:  # its hint is about models, and an index may bring its device with it
            raise EncoderError(
                f"{COMPILED} compiles models; it cannot search." if device == COMPILED else fault.message,
                hint="search on the cores, to the same answers: without a device; an index that was built with one is "
                'searched with --set device= (device="" in Python)',
            ) from fault

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The context of all products: the bound on their error holds for full precision only."""
        with full_precision(), self.torch.inference_mode(), self.torch.autocast(self.device.type, enabled=False):
            yield

    def moved(self, array: NDArray[Any]) -> Any:
        """Return a copy of an array as a tensor on the device."""
        # A copy on the CPU too: torch warns about arrays that cannot be written to.
        return self.torch.from_numpy(np.array(array)).to(self.device)

    @property
    def room(self) -> int:
        """How many bytes of vectors may stay on the device between searches: half of what is free of a GPU."""
        if self.device.type == "cuda":
            return int(self.torch.cuda.mem_get_info(self.device)[0]) // 2
        return IN_MEMORY
