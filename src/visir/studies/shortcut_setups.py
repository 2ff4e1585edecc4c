"""The four setups of thesis section 4.3, each as one training with its evaluations."""

from __future__ import annotations

from typing import Any

from visir.errors import ConfigurationError, nearest
from visir.studies.dual_encoder_trial import DualEncoderTrial
from visir.training.recipe import Recipe
from visir.training.shortcuts import ShortcutSettings

WITHOUT, WITH = "without", "with"
"""Labels of evaluations: of the split as it is, and of the split with the shortcuts of the training."""
BASELINE, UNIQUE, ALONE = "baseline", "unique", ("images", "captions")


def setup_trial(recipe: Recipe, setup: str, seed: int) -> DualEncoderTrial:
    """`recipe` in one setup, evaluated without shortcuts and, where it was trained with some, also with them."""
    # - "baseline": I, no shortcuts
    # - "unique": II
    # - "images", "captions": III, unique shortcuts on one modality alone. The thesis evaluates it without any; with
    #   them says whether a model has learnt less, or merely misses the stamp.
    # - "bits3": IV, 3 bits
    # Other settings of the recipe's `[shortcuts]` are taken over. Every setup of a recipe has a folder of its own name,
    # so that the audit and the figure share their trainings.
    usual = recipe.shortcuts or ShortcutSettings()
    changes: dict[str, dict[str, Any]] = {
        UNIQUE: {"kind": "unique", "bits": 0, "on": "both"},
        **{modality: {"kind": "unique", "bits": 0, "on": modality} for modality in ALONE},
    }
    number = setup.removeprefix("bits")
    if number != setup and number.isdecimal():
        changes[setup] = {"kind": "bits", "bits": int(number)}
    if setup != BASELINE and setup not in changes:
        raise ConfigurationError(
            f"there is no setup {setup!r}.", hint=nearest(setup, [BASELINE, *changes, "bits3"]), code="no-setup"
        )
    settings = None if setup == BASELINE else usual.model_copy(update=changes[setup])
    evaluations: dict[str, str | None] = {WITHOUT: None}
    if settings is not None:
        evaluations[WITH] = str(settings.record())
    return DualEncoderTrial(
        f"{setup}/seed{seed}", recipe.model_copy(update={"seed": seed, "shortcuts": settings}), evaluations
    )
