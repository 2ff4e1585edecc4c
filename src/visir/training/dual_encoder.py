"""The learner of dual encoders: two towers under a contrastive objective."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs, Tower, to_device
from visir.records import Modality
from visir.training.inputs.base import TrainingExamples
from visir.training.learner import Learner
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.objectives.objective import Objective
from visir.training.validation import encode_source, validate


class DualEncoder(Learner[TrainingExamples]):
    """Two towers whose vectors an objective compares. The towers are the model that is kept; the objective is not.

    Attributes:
        towers: By side; they are changed in place.
        objective: Of the training.
    """

    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup or objective.temperature"

    def __init__(self, towers: Mapping[Modality, Tower], objective: Objective) -> None:
        super().__init__()
        self.towers = dict(towers)
        self._model = nn.ModuleDict({str(side): tower for side, tower in towers.items()})
        self.objective = objective

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the towers."""
        return self._model

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: "image", "text", "objective"."""
        return {str(side): tower for side, tower in self.towers.items()} | {"objective": self.objective}

    @property
    def pretrained(self) -> list[nn.Module]:
        """See `Learner.pretrained`."""
        return [
            module
            for tower in self.towers.values()
            if tower.backbone is not None
            for module in tower.backbone.pretrained_modules()
        ]

    def vectors(self, side: str, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: unit vectors, the norm taken in float32 (or wider) under every precision."""
        with self.precision.autocast():
            vectors = self._model[side](inputs)
        return functional.normalize(self.precision.widen(vectors), dim=-1)

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`."""
        losses: Losses = self.objective(pairs, everyone, weight)
        return losses

    def after_step(self, parts: Mapping[str, float]) -> None:
        """See `Learner.after_step`."""
        self.objective.ascend(parts)

    def facts(self) -> dict[str, float]:
        """See `Learner.facts`."""
        return self.objective.facts()

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """See `visir.training.validation.validate`."""
        images = encode_source(examples.images, partial(self._placed, "image"))
        texts = encode_source(examples.texts, partial(self._placed, "text"))
        return validate(images, texts, examples.owners)

    def _placed(self, side: str, inputs: Inputs) -> Tensor:
        return self.vectors(side, to_device(inputs, self.precision.device))
