"""Objectives: what training makes small. One file each; they take pairs of unit vectors and give one number.

A new contrastive objective is one file and one name in `Contrastive`; a new auxiliary one is one file and one key of
`Auxiliary`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from visir.training.objectives.cosine import CosineSettings
from visir.training.objectives.filip import FILIPSettings
from visir.training.objectives.ifm import IFMSettings
from visir.training.objectives.infonce import InfoNCESettings
from visir.training.objectives.itd import ITDSettings
from visir.training.objectives.ltd import LTDSettings
from visir.training.objectives.multi_positive import MultiPositiveSettings
from visir.training.objectives.sigmoid import SigmoidSettings
from visir.training.objectives.triplet import TripletSettings
from visir.training.settings import Settings

Contrastive = Annotated[
    InfoNCESettings
    | TripletSettings
    | IFMSettings
    | SigmoidSettings
    | MultiPositiveSettings
    | CosineSettings
    | FILIPSettings,
    Field(discriminator="name"),
]
"""The contrastive losses; each builds its module from its settings."""

WITH_NEGATIVES = ("infonce", "triplet", "sigmoid", "multi-positive")
"""Those that take hard negatives."""


class Auxiliary(Settings):
    """Auxiliary losses beside the contrastive one: none, one or both."""

    ltd: LTDSettings | None = None
    itd: ITDSettings | None = None
