"""IFM: InfoNCE made harder by a budget that perturbs every similarity against its label."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.false_negatives import FalseNegatives
from visir.training.objectives.similarity import OwnScale, Temperature, cosines, symmetric_cross_entropy
from visir.training.settings import Settings
from visir.training.sides import Positive


class IFMSettings(Settings):
    """InfoNCE averaged with its perturbed self; see `IFM`. As `InfoNCESettings`, and

    Attributes:
        epsilon: The perturbation, in cosines.
    """

    name: Literal["ifm"] = "ifm"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    false_negatives: FalseNegatives = "masked"
    epsilon: Positive = 0.1

    def build(self, own: OwnScale) -> IFM:
        """The loss."""
        start = own.temperature_of(self.temperature)
        return IFM(start, self.epsilon, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class IFM(nn.Module):
    """Implicit feature modification (Robinson et al. 2021; thesis, appendix 4.E.3), averaged with InfoNCE.

    With s the cosines, before dividing by τ the positive loses ε and every negative gains it:

        S'_ii = (s_ii − ε) / τ        S'_ij = (s_ij + ε) / τ   (j ≠ i)
        L = ½ · InfoNCE(S') + ½ · InfoNCE(S)

    both of them symmetric, with the same τ (a learnt one gets the gradient of both) and the same `false_negatives`. S'
    is the worst that moving every candidate of a query by a vector of length ε can do. The order among negatives stays;
    what changes is how much weight a query gets that is already answered: every negative's odds are multiplied by
    exp(2 ε / τ), 55 times at τ 0.05 and ε 0.1, and 5·10⁸ times at τ 0.05 and ε 0.5, where S' no longer tells answered
    queries from unanswered ones. The thesis tries ε ∈ {0.05, 0.1, 0.2, 0.5, 1} at learnt temperatures.

    The appendix prints the image-to-text sum with the indices of the text-to-image one; the columns and rows are meant,
    as in its InfoNCE. Robinson et al. perturb positives and negatives by budgets of their own; the thesis by one.
    """

    def __init__(
        self,
        temperature: float = 0.05,
        epsilon: float = 0.1,
        *,
        learnt: bool = False,
        false_negatives: FalseNegatives = "masked",
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        plain = cosines(pairs)
        against = torch.full_like(plain, self.epsilon).fill_diagonal_(-self.epsilon)
        losses = [
            symmetric_cross_entropy(self.temperature(scores), pairs.anchor_rows, self.false_negatives)
            for scores in (plain, plain + against)
        ]
        return (losses[0] + losses[1]) / 2
