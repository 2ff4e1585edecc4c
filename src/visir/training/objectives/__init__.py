"""Objectives: what training makes small. They take pairs of unit vectors and give one number.

A new contrastive objective is a class in `infonce.py` and one name in `Contrastive`; a new auxiliary one is a class in
`ltd.py` and one key of `Auxiliary`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from visir.training.objectives.infonce import (
    CosineSettings,
    FILIPSettings,
    IFMSettings,
    InfoNCESettings,
    MultiPositiveSettings,
    SigmoidSettings,
    TripletSettings,
)
from visir.training.objectives.ltd import ITDSettings, LTDSettings
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
