"""The learner of dual encoders: two towers under a contrastive objective."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs, PromptInputs, Tower, to_device
from visir.training.inputs.base import EpochRandom, InputSource, Side, TrainingExamples
from visir.training.inputs.negatives import Mined
from visir.training.learner import Learner
from visir.training.mining import search, vectors_as_trained
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.objectives.objective import Objective
from visir.training.validation import encode_source, validate

K = TypeVar("K", bound=str)


class DualEncoder(Learner[TrainingExamples]):
    """Two towers whose vectors an objective compares. The towers are the model that is kept; the objective is not.

    Args:
        towers: The tower of the anchors and that of the positives, in this order, by the names under which the recipe
            gives them learning rates: "image" and "text", say. They are changed in place.
        objective: Of the training.
        tasks: What validation calls the two directions, see `visir.training.validation.validate`.
    """

    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup or objective.temperature"

    def __init__(
        self, towers: Mapping[K, Tower], objective: Objective, tasks: tuple[str, str] = ("i2t", "t2i")
    ) -> None:
        super().__init__()
        self.towers: dict[str, Tower] = {str(name): tower for name, tower in towers.items()}
        self._model = nn.ModuleDict(self.towers)
        anchor, positive = self.towers
        self._names: dict[Side, str] = {"anchor": anchor, "positive": positive}
        self.objective, self.tasks = objective, tasks

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the towers."""
        return self._model

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: the towers by their names, and "objective"."""
        return {**self.towers, "objective": self.objective}

    @property
    def local_loss(self) -> bool:
        """See `Learner.local_loss`."""
        return self.objective.local_loss

    @property
    def pretrained(self) -> list[nn.Module]:
        """See `Learner.pretrained`."""
        return [
            module
            for tower in self.towers.values()
            if tower.backbone is not None
            for module in tower.backbone.pretrained_modules()
        ]

    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: unit vectors, the norm taken in float32 (or wider) under every precision. Of texts in
        several prompts, the mean, which is a unit vector again."""
        if isinstance(inputs, PromptInputs):
            mean = torch.stack([self.vectors(side, of_prompt) for of_prompt in inputs.values()]).mean(0)
            return functional.normalize(mean, dim=-1)
        with self.precision.autocast():
            vectors = self._model[self._names[side]](inputs)
        return functional.normalize(self.precision.widen(vectors), dim=-1)

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`."""
        losses: Losses = self.objective(pairs, everyone, weight)
        return losses

    def after_step(self, parts: Mapping[str, float]) -> None:
        """See `Learner.after_step`."""
        self.objective.ascend(parts)

    def facts(self) -> Mapping[str, float | Tensor]:
        """See `Learner.facts`."""
        return self.objective.facts()

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """See `visir.training.validation.validate`."""
        anchors = encode_source(examples.anchors, partial(self._vectors_of, "anchor"))
        positives = encode_source(examples.positives, partial(self._vectors_of, "positive"))
        return validate(anchors, positives, examples.anchor_rows, self.tasks)

    def mine(self, train: TrainingExamples, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the towers find in the training data as they are; see `mining.search`."""
        state = self._model.training
        self._model.eval()
        sides: dict[Side, Any] = {}
        of_sides: tuple[tuple[Side, InputSource, Any], ...] = (
            ("anchor", train.anchors, mined.first_pairs),
            ("positive", train.positives, np.arange(len(train))),
        )
        for side, source, keys in of_sides:
            of = partial(self._vectors_of, side)
            sides[side] = vectors_as_trained(source, keys, draw, of) if mined.as_trained else encode_source(source, of)
        self._model.train(state)
        return search(mined, sides["anchor"], sides["positive"])

    def _vectors_of(self, side: Side, inputs: Inputs) -> Tensor:
        return self.vectors(side, to_device(inputs, self.precision.device))
