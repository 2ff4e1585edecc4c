"""What a perturbation is: a function of a caption, a stream of random numbers and a severity, that describes itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from visir.registry import Registry
from visir.robustness.draw import Draw
from visir.robustness.language.words import Sentence

Family = Literal["typos", "synonyms", "distractions", "word order"]
Profile = Literal["sound", "paper"]

Change = Callable[[Sentence, Draw, int], str]
"""(caption, draw, severity) → the perturbed text; the text itself, unchanged, when it cannot be perturbed."""


@dataclass(frozen=True)
class Perturbation:
    """One way to break a caption.

    - `name`: as in the authors' logs ("nearby_char"); `title`: as Table 4 prints it ("Nearby Character")
    - `family`; `level`: "word" or "sentence", as in section 4.1
    - `change`: the sound version. Pure: equal arguments give equal texts
    - `paper`: what the released code does where that is known and differs; None where it is the same
    - `severity`: what the severity counts ("characters", "words"); "" where there is nothing to count
    - `needs_words`: whether it looks at tokens and tags (then `Sentence` has them), or at the text alone
    - `about`: one sentence; `paper_about`: how the paper's profile differs, "" where it does not
    """

    name: str
    title: str
    family: Family
    level: Literal["word", "sentence"]
    change: Change
    about: str
    paper: Change | None = None
    paper_about: str = ""
    severity: str = ""
    needs_words: bool = False


PERTURBATIONS: Registry[Perturbation] = Registry("perturbation")
"""All perturbations, in the order of Table 4."""
