"""Distraction True is True: a statement that is always true is added."""

from __future__ import annotations

from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.distractions import distraction, released

DISTRACTION_TRUE = Perturbation(
    name="distraction_true",
    title="Distraction True is True",
    family="distractions",
    level="sentence",
    change=distraction("true is true"),
    about='"and true is true" is added before the caption\'s last full stop.',
    paper=released("true it true"),
    paper_about='"and true it true." (so written); a full stop is added where there was none',
)
