"""IFM: InfoNCE made harder by a budget that perturbs every similarity against its label."""

from __future__ import annotations

from typing import Literal

from visir.training.objectives.siblings import Siblings
from visir.training.settings import Settings
from visir.training.sides import Positive


class IFMSettings(Settings):
    """InfoNCE averaged with its perturbed self; see `IFM`. As `InfoNCESettings`, and

    - `epsilon`: the perturbation, in cosines
    """

    name: Literal["ifm"] = "ifm"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    siblings: Siblings = "apart"
    epsilon: Positive = 0.1
