"""Hard negatives as a recipe asks for them: found by a model, or made of captions whose words changed places."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from visir.errors import VisirError
from visir.robustness.perturbations import PERTURBATIONS, find
from visir.training.settings import Settings
from visir.training.sides import Count

OTHER_MEANING = frozenset({"word order", "meaning"})
"""The families of perturbations after which a caption is wrong for its picture; others leave it right."""


def _changes_meaning(kind: str) -> str:
    try:
        families = {find(step).family for step in kind.split("+")}
    except VisirError as fault:
        raise ValueError(f"{fault.message} {fault.hint}") from fault
    if not families <= OTHER_MEANING:
        names = ", ".join(name for name, known in PERTURBATIONS.items() if known.family in OTHER_MEANING)
        raise ValueError(f"{kind!r} leaves a caption right for its picture; those that do not: {names}")
    return kind


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class MinedNegatives(Settings):
    """Captions that a model takes for a picture's own, and pictures that it takes for a caption's.

    Never a picture's own captions, a caption of the same text, or a pair that a judgement of the collection calls
    relevant.

    Attributes:
        count: How many for each pair.
        of: "captions" for the pictures, "images" for the captions, or "both".
        nearest: They are drawn anew each epoch from so many nearest ones.
        skip: So many of the very nearest are left out: in data with few captions they are often right.
        model: The model that searches, as `visir.load` takes it; empty, the one that is trained, as it is then.
        every: The trained model searches again before every such epoch.
    """

    count: Count = 1
    of: Literal["captions", "images", "both"] = "both"
    nearest: Count = 30
    skip: Annotated[int, Field(ge=0)] = 0
    model: str = ""
    every: Count = 1


class SwappedNegatives(Settings):
    """Captions whose words changed places (NegCLIP: Yuksekgonul et al. 2023), one of each kind for each pair.

    A caption that a kind cannot change has no such negative.

    Attributes:
        kinds: Perturbations of the family "word order"; "shuffle_nouns_and_adj" makes "a red hat on a blue dog" of
            "a blue hat on a red dog".
        variants: Different changes of each caption; epoch e takes the (e mod variants)-th.
        seed: Of the changes.
    """

    kinds: Annotated[
        tuple[Annotated[str, AfterValidator(_changes_meaning)], ...], Field(min_length=1), BeforeValidator(_listed)
    ] = ("shuffle_nouns_and_adj",)
    variants: Count = 1
    seed: Annotated[int, Field(ge=0)] = 0


class Negatives(Settings):
    """Hard negatives of a batch, beside its own pairs: candidates for every query in it."""

    mined: MinedNegatives | None = None
    swapped: SwappedNegatives | None = None
