"""What the settings of a few-shot classifier are chosen on: never on the pictures that are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest
from visir.evaluation.classification.shots import folds_of_shots

Tuning = Literal["auto", "validation", "cross-validation", "fixed", "clip"]
FOLDS = 4
"""Of a cross-validation on the shots; with fewer shots, as many as there are."""
VALIDATION_SHOTS = 4
"""Validation pictures of each class are at most as many as the shots, and at most so many (as CoOp has it)."""

Matrix = NDArray[np.float32]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shots:
    """The training pictures of one draw, and what settings are chosen on."""

    vectors: Matrix  # (n, d) of the shots
    codes: Codes  # (n,) their classes
    classes: int  # how many classes there are
    validation: Matrix | None = None  # (m, d) of validation pictures; None to cross-validate on the shots
    validation_codes: Codes | None = None  # (m,) their classes
    tuned: bool = True  # whether settings are chosen; otherwise they are fixed

    def parts(self) -> Iterator[tuple[Matrix, Codes, Matrix, Codes]]:
        """(fitted, classes, judged, classes) of each part on which settings are tried; none where they are fixed."""
        if not self.tuned:
            return
        if self.validation is not None and self.validation_codes is not None:
            yield self.vectors, self.codes, self.validation, self.validation_codes
            return
        most = int(np.bincount(self.codes).max(initial=0))
        folds = folds_of_shots(self.codes, min(FOLDS, most)) if most > 1 else np.zeros(0, np.int64)
        for fold in range(min(FOLDS, most) if most > 1 else 0):
            out = folds == fold
            # A class of which nothing is left cannot be predicted under any setting.
            judged = out & np.isin(self.codes, self.codes[~out])
            if judged.any():
                yield self.vectors[~out], self.codes[~out], self.vectors[judged], self.codes[judged]


def check_tuning(tuning: str) -> None:
    """Raise `ConfigurationError` for an unknown way of tuning."""
    if tuning not in get_args(Tuning):
        raise ConfigurationError(
            f"unknown tuning {tuning!r}", hint=nearest(tuning, get_args(Tuning)), code="unknown-tuning"
        )
