"""The compiled towers of one encoder: each is compiled when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from visir.encoders.models.compiled import Compilable, CompiledTower, compiled_tower
from visir.encoders.towers.base import Inputs
from visir.records import EncoderCard, Modality


class CompiledTowers:
    """Towers that OpenVINO compiles for the CPU; thread-safe."""

    def __init__(self, tower: Callable[[Modality], Compilable]) -> None:
        self._tower = tower
        self._compiled: dict[Modality, CompiledTower] = {}
        self._lock = threading.Lock()

    def vectors(self, modality: Modality, card: EncoderCard, inputs: Inputs) -> NDArray[np.float32]:
        """(n, d) vectors of a batch, as the tower of `modality` collates it."""
        with self._lock:
            if modality not in self._compiled:
                dtype = card.dtype.partition(" ")[0]
                self._compiled[modality] = compiled_tower(self._tower(modality), card, dtype)
            compiled = self._compiled[modality]
        return compiled(inputs)
