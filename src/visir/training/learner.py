"""What a training needs: a recipe, a precision, and a model with the losses it learns from and how it is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from visir.encoders.towers.base import Inputs
from visir.errors import ConfigurationError
from visir.training.inputs.base import EpochRandom, Mined, Side, TrainingData
from visir.training.objectives.base import Losses, VectorPairs

E = TypeVar("E", bound=TrainingData)

# Mixed precision: the towers' forward pass in half the bits, everything else in float32.

Name = Literal["float32", "bfloat16", "float16"]


class Precision:
    """How the towers compute."""

    # "float32": as the weights are. "bfloat16", "float16": matrix products in it (`torch.autocast`), the weights, their
    # moments, the vectors' norms and the objective in float32. float16 has a narrow range, so its losses are scaled up
    # before the backward pass (Micikevicius et al. 2018, section 3.2); steps whose gradient overflows are passed over
    # and the scale is halved, which happens at the beginning of a training. float16 needs CUDA.

    def __init__(self, name: Name, device: torch.device) -> None:
        if name == "float16" and device.type != "cuda":
            raise ConfigurationError(
                f'precision: "float16" needs CUDA, and this trains on {device.type!r}.',
                hint='precision = "bfloat16" computes here too',
                code="float16-needs-cuda-trains",
            )
        self.name, self.device = name, device
        self.is_scaled = name == "float16"
        self._scaler = torch.amp.GradScaler(device.type, enabled=self.is_scaled)

    def autocast(self) -> AbstractContextManager[Any]:
        """The context of the towers' forward pass."""
        if self.name == "float32":
            return torch.autocast(self.device.type, enabled=False)
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def widen(self, vectors: Tensor) -> Tensor:
        """Half-precision numbers in float32; others as they are."""
        return vectors.float() if vectors.dtype.itemsize < 4 else vectors

    def scale(self, loss: Tensor) -> Tensor:
        """The loss as it enters the backward pass."""
        return self._scaler.scale(loss)

    def unscale(self, optimiser: torch.optim.Optimizer) -> None:
        """Bring the gradients back to their own scale."""
        if self.is_scaled:
            self._scaler.unscale_(optimiser)

    def step(self, optimiser: torch.optim.Optimizer) -> None:
        """Move the weights, unless a scaled gradient overflowed; adapt the scale."""
        self._scaler.step(optimiser)
        self._scaler.update()

    @property
    def factor(self) -> float:
        """What losses are multiplied by."""
        return self._scaler.get_scale()

    @property
    def advice(self) -> str:
        """The end of a hint after numbers ran out of range."""
        return '; or precision = "bfloat16", whose range is that of float32' if self.is_scaled else ""

    def state(self) -> dict[str, Any]:
        """What must be kept so that a training goes on exactly: plain values, empty unless losses are scaled."""
        return self._scaler.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        if self.is_scaled:
            self._scaler.load_state_dict(state)


class Learner(nn.Module, ABC, Generic[E]):
    """A model in training. `visir.training.fit` trains any of them.

    A step has two halves, so that a large batch can go through the model in chunks and be shared by processes:
    `vectors` brings each side of a chunk into a space, `losses` compares the vectors of the whole batch.

    Attributes:
        precision: Of the forward pass; known from `prepare` on.
        advice: What to lower or raise when numbers run out of range, for the hint of an error.
    """

    precision: Precision
    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup"

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The weights that validation judges and the checkpoint keeps.

        What else this module holds (an objective with weights of its own) is trained and saved in the state, and is no
        part of the result.
        """

    def prepare(self, precision: Precision) -> None:
        """Take note of how the training computes; called once, with the weights on their device.

        Raises:
            ConfigurationError: This model cannot be trained so.
        """
        self.precision = precision

    @abstractmethod
    def parts(self) -> Mapping[str, nn.Module]:
        """What is trained, by the name under which a recipe gives it a learning rate of its own (`Regime.rates`).

        A weight that is in several parts belongs to the first.
        """

    @property
    def local_loss(self) -> bool:
        """Whether each of several processes computes the losses of its own pairs only, among everyone's vectors."""
        return False

    @property
    def pretrained(self) -> Sequence[nn.Module]:
        """The modules that came trained, and which `schedule.frozen_epochs` holds fixed for a while."""
        return ()

    def at_step(self, epoch: int, step: int) -> None:
        """Take note of the place of the step that comes: epoch and step within it, both from 0."""

    def mine(self, train: Any, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the model finds in the training data as it is now; see `mining.search`."""
        raise NotImplementedError

    @abstractmethod
    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """(n, d) vectors of one side's inputs, which are on the device."""

    @abstractmethod
    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """The losses of a batch.

        Args:
            pairs: Those of this process.
            everyone: Those of all processes; None when there is one.
            weight: This process's share of the pairs, times the number of processes.
        """

    def after_step(self, parts: Mapping[str, float]) -> None:
        """Move what the optimiser does not: `parts` are those of the losses, averaged over the update."""

    @abstractmethod
    def facts(self) -> Mapping[str, float | Tensor]:
        """What moves besides the weights, for the log and the curve: numbers, or tensors of one number each that are
        still on the device; they are read together with the losses."""

    @abstractmethod
    def validate(self, examples: E) -> dict[str, float]:
        """The figures of a split; `selection.keep` names the one that chooses the epoch."""
