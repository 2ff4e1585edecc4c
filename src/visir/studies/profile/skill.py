"""What a row of a profile is called, and what a task measures for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABILITIES: Mapping[str, str] = {
    "retrieval": "Find the right one among many.",
    "composition": "Tell apart what has the same words or the same things: who is where, which colour, how many.",
    "language": "Read other languages, and long texts.",
    "classification": "Name what is in a picture.",
    "robustness": "Find the right one although the caption or the picture is damaged.",
}
"""The abilities in the order of the page, with what each is."""


@dataclass(frozen=True)
class Skill:
    """One row of a profile."""

    name: str  # in short, for `--tasks` and JSON: "text-to-image"
    title: str  # for people: "a caption finds its picture"
    ability: str  # a key of `ABILITIES`
    task: str = ""  # the task of the source: "t2i"
    measure: str = "hit@1"  # the measure: a share from 0 to 1 whose chance is known


@dataclass(frozen=True)
class Floor:
    """What is reached without a look at the query, or why that is not known."""

    value: float | None  # the share; None where it is not known
    by: str = ""  # what reaches it: "the most frequent class", or a language model by name
    reason: str = ""  # why it is not known


@dataclass(frozen=True, eq=False)
class Measured:
    """What a task gives for one skill of one model."""

    values: NDArray[np.float64]  # (n,) one value per query or picture, from 0 to 1
    clusters: NDArray[Any] | None  # (n,) the image or item of each query; None where queries are independent
    chance: float  # what random scores reach
    candidates: str  # how many candidates a query has: "200", "2 to 4"
    protocol: tuple[tuple[str, str], ...]  # (label, value) rows: everything on which the number depends
    notes: tuple[str, ...] = ()  # what a reader must know
    floor: Floor | None = None  # what is reached without a look at the query; None where that makes no sense
