"""Distraction False is False: a statement that is always true is added."""

from __future__ import annotations

from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.distractions import distraction, released

DISTRACTION_FALSE = Perturbation(
    name="distraction_false",
    title="Distraction False is False",
    family="distractions",
    level="sentence",
    change=distraction("false is false"),
    about='"and false is false" is added before the caption\'s last full stop.',
    paper=released("false is false"),
    paper_about="a full stop is added where there was none",
)
