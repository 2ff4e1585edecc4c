"""What a training moves: a model, the losses it learns from, and how an epoch is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from visir.encoders.towers.base import Inputs
from visir.training.inputs.base import EpochRandom, Side, TrainingData
from visir.training.inputs.negatives import Mined
from visir.training.objectives.base import Losses, VectorPairs

if TYPE_CHECKING:
    from visir.training.loop import Precision

E = TypeVar("E", bound=TrainingData)


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
