"""The learner of sparse heads: one head for both sides, which learns to rank as the dense vectors do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from visir.encoders.towers.base import Inputs
from visir.errors import ConfigurationError
from visir.sparse.active import score_active
from visir.sparse.examples import SparseExamples
from visir.sparse.expansion import Expansion, ExpansionSample
from visir.sparse.head import SparseHead
from visir.sparse.loss import BatchScores, SparseLoss, eta_at
from visir.sparse.recipe import SparseRecipe
from visir.sparse.scoring import score
from visir.sparse.validation import validate
from visir.training.batches import steps_per_epoch
from visir.training.inputs.base import Side
from visir.training.learner import Learner
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.precision import Precision

Score = Callable[[SparseHead, Tensor, Tensor, Tensor, ExpansionSample], BatchScores]


class SparseLearner(Learner[SparseExamples]):
    """A sparse head, the loss of thesis eq. 3.7 and the expansion control of Algorithm 1."""

    # Both sides go through the head together, so `vectors` passes the dense ones on, and `losses` is where the head is.

    advice: ClassVar[str] = "lower optimiser.rate and optimiser.words_rate"

    def __init__(self, recipe: SparseRecipe, head: SparseHead, train: SparseExamples) -> None:
        super().__init__()
        self.recipe, self.head, self.frequencies = recipe, head, train.frequencies
        self.expansion = Expansion(
            recipe.expansion.variant, recipe.optimiser.epochs, recipe.expansion.sampled_per, recipe.seed
        )
        self.loss = SparseLoss(recipe.loss.temperature, recipe.loss.balance)
        self.steps = steps_per_epoch(len(train), recipe.optimiser.batch, recipe.optimiser.accumulate)
        self.epoch = self.step = 0
        self._score: Score = score

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the head."""
        return self.head

    def prepare(self, precision: Precision) -> None:
        """See `Learner.prepare`. On a CPU only active terms are computed, in float32."""
        super().prepare(precision)
        if precision.device.type != "cpu":
            self._score = torch.compile(score) if self.recipe.compile else score
            return
        faults = [f"compile = {self.recipe.compile}"] if self.recipe.compile else []
        faults += [f'precision = "{self.recipe.precision}"'] if self.recipe.precision != "float32" else []
        if faults:
            raise ConfigurationError(
                f"{' and '.join(faults)}: not on a CPU, where only active terms are computed.",
                hint='leave it out, or device = "cuda"',
                code="not-cpu-where-active",
            )
        self._score = score_active

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: "project" (W1), "norm", and "words" (W2 and its bias)."""
        return {"project": self.head.project, "norm": self.head.norm, "words": self.head}

    def at_step(self, epoch: int, step: int) -> None:
        """See `Learner.at_step`."""
        self.epoch, self.step = epoch, step

    @property
    def eta(self) -> float:
        """η at this step."""
        settings = self.recipe.loss
        steps = self.recipe.optimiser.epochs * self.steps
        return eta_at(settings.eta, self.epoch * self.steps + self.step, steps, settings.warmup)

    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: dense vectors as they come."""
        assert isinstance(inputs, Tensor), "dense vectors"
        return inputs

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`: "i2t" and "t2i" in nats, "l1" before η, and the mean numbers of active terms."""
        assert everyone is None and pairs.rows is not None and pairs.tokens is not None, "one process, sparse examples"
        sample = self.expansion.draw(self.epoch, self.step, pairs.rows, self.frequencies)
        with self.precision.autocast():
            scores = self._score(self.head, pairs.anchors, pairs.positives, pairs.tokens, sample)
        total, parts = self.loss(scores, pairs.anchors, pairs.positives, self.eta)
        return Losses(total, {**parts, "image terms": scores.image_terms, "text terms": scores.text_terms})

    def facts(self) -> dict[str, float]:
        """See `Learner.facts`: η and p_c."""
        return {"eta": self.eta, "p_c": self.expansion.caption_probability(self.epoch)}

    def validate(self, examples: SparseExamples) -> dict[str, float]:
        """See `visir.sparse.validation.validate`."""
        return validate(self.head, examples, self.recipe.expansion.variant)
