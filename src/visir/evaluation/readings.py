"""The ways in which a published retrieval number can be read, as data.

"R@5 = 58.06" leaves open which recall, over which candidates, with how many captions per image, in how many folds, how
ties were broken and how deep the ranking went. Each of these is an `Axis` here; a `Reading` is one choice on each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from visir.records import Ranks

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class RecallReading:
    """What R@k may be: its name, its `formula`, and `value(hits, positives, k)` per query.

    `hits`: (n,) positives in the top k, `positives`: (n,) positives in all.
    """

    name: str
    formula: str
    value: Callable[[Counts, Counts, int], Counts]


def _share(numerator: Counts, denominator: Counts) -> Counts:
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


RECALLS: dict[str, RecallReading] = {
    reading.name: reading
    for reading in (
        RecallReading("hit", "any positive in the top k", lambda hits, _, __: (hits > 0).astype(np.float64)),
        RecallReading(
            "capped_recall",
            "hits / min(k, positives)",
            lambda hits, positives, k: _share(hits, np.minimum(k, positives)),
        ),
        RecallReading("recall", "hits / positives", lambda hits, positives, _: _share(hits, positives)),
        RecallReading(
            # What the brittleness paper's own code does for image-to-text: five captions per image are taken for
            # granted, so an image with six can score 1.2. Where every image has five, it is capped_recall.
            "five_capped_recall",
            "hits / min(k, 5), whatever captions an image has; hit where there is one positive",
            lambda hits, positives, k: np.where(positives > 1, hits / min(k, 5), hits > 0),
        ),
    )
}


@dataclass(frozen=True)
class Axis:
    """One thing left open: `options` maps each choice to its words, the usual (or unchanged) one first."""

    name: str
    asks: str
    options: Mapping[str, str]


AXES: tuple[Axis, ...] = (
    Axis(
        "recall",
        "which recall is R@k?",
        {recall.name: f"{recall.name} ({recall.formula})" for recall in RECALLS.values()},
    ),
    Axis(
        "captions",
        "which captions of each image took part?",
        {
            "as run": "",
            "first": "first caption of each image only",
            "random(seed=0)": "one random caption of each image (seed 0)",
        },
    ),
    Axis(
        "gallery",
        "what were the candidates?",
        {"as run": "", "split": "candidates restricted to the images and captions that are judged"},
    ),
    Axis(
        "folds",
        "one gallery, or the mean over folds?",
        {"as run": "", "1": "one gallery instead of folds", "5": "mean over 5 disjoint folds"},
    ),
    Axis(
        "ties",
        "how were ties broken?",
        {"id": "", "pessimistic": "ties against the system", "optimistic": "ties in favour of the system"},
    ),
    Axis(
        "depth",
        "how deep did the ranking go?",
        {"as run": "", "5": "only the first 5 ranked", "2": "only the first 2 ranked"},
    ),
)
"""All axes that a run can be re-scored along."""

NEVER: tuple[tuple[str, str], ...] = (
    ("query template, truncation, preprocessing", "they change the vectors: encode again and evaluate the result"),
    ("other positives (CxC, ECCV Caption, …)", "they are judgements, not readings: evaluate with relevance=…"),
)
"""What no run can be re-scored for, and why."""


@dataclass(frozen=True)
class Reading:
    """One choice on each axis; the defaults are the usual reading of an image–text retrieval paper."""

    recall: str = "hit"
    captions: str = "as run"
    gallery: str = "as run"
    folds: str = "as run"
    ties: str = "id"
    depth: str = "as run"

    @property
    def departures(self) -> int:
        """On how many axes it departs from the usual reading: of two that fit equally well, the plainer is named."""
        return sum(getattr(self, field.name) != field.default for field in fields(self))

    @property
    def search(self) -> Reading:
        """The same reading but for the recall: what has to be searched, or cut out of the run, once."""
        return Reading("hit", self.captions, self.gallery, self.folds, self.ties, self.depth)

    def is_part_of(self, other: Reading) -> bool:
        """Whether every departure of this reading is one of the other's too."""
        return all(getattr(self, field.name) in (field.default, getattr(other, field.name)) for field in fields(self))

    def __str__(self) -> str:
        return "; ".join(words for axis in AXES if (words := axis.options[str(getattr(self, axis.name))]))


def all_readings(folds: int = 1) -> list[Reading]:
    """The readings that are tried: every choice of captions × gallery × folds, plus ties and depth one at a time.

    `folds`: within how many the run was made. One of folds may be read as one gallery, and one of one gallery as folds.

    Ties and depth are varied on the run as it is only: they matter little, and their products with the rest would hide
    the answer in a long list.
    """
    options = {axis.name: tuple(axis.options) for axis in AXES}
    searches = [
        Reading("hit", captions, gallery, cut)
        for captions in options["captions"]
        for gallery in options["gallery"]
        for cut in ("as run", "5" if folds == 1 else "1")
    ]
    searches += [Reading(ties=tie) for tie in options["ties"][1:]]
    searches += [Reading(depth=depth) for depth in options["depth"][1:]]
    return [
        Reading(recall, search.captions, search.gallery, search.folds, search.ties, search.depth)
        for search in searches
        for recall in options["recall"]
    ]


def recall_values(ranks: Ranks, recall: str, k: int) -> Counts:
    """(n,) the values of R@k under one reading of recall."""
    query = np.repeat(np.arange(len(ranks)), ranks.positives)
    retrieved = (ranks.ranks > 0) & (ranks.ranks <= k)
    hits = np.bincount(query, retrieved, len(ranks)).astype(np.float64)
    return RECALLS[recall].value(hits, ranks.positives.astype(np.float64), k)
