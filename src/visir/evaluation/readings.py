"""The possible readings of a published retrieval number, as data.

"R@5 = 58.06" does not tell which recall was used, over which candidates, with how many captions per image, in how many
folds, how ties were broken and how deep the ranking was. Each of these questions is an `Axis` here; a `Reading` is one
choice on each.
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
    """One meaning of R@k.

    Attributes:
        name: Its name.
        formula: Its formula in words.
        value: (hits, positives, k) → (n,) the value of each query, where `hits` (n,) counts the positives in the top k
            and `positives` (n,) all positives.
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
            # The brittleness paper's own code for image-to-text assumes five captions per image, so an image with six
            # can score 1.2. Where every image has five, it is capped_recall.
            "five_capped_recall",
            "hits / min(k, 5), whatever captions an image has; hit where there is one positive",
            lambda hits, positives, k: np.where(positives > 1, hits / min(k, 5), hits > 0),
        ),
    )
}


@dataclass(frozen=True)
class Axis:
    """One open question about a published number.

    Attributes:
        name: Its name.
        asks: The question.
        options: Each choice with its words; the usual (or unchanged) one is first.
    """

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
"""All axes along which a run can be re-scored."""

NEVER: tuple[tuple[str, str], ...] = (
    ("query template, truncation, preprocessing", "they change the vectors: encode again and evaluate the result"),
    ("other positives (CxC, ECCV Caption, …)", "they are judgements, not readings: evaluate with relevance=…"),
)
"""The axes along which no run can be re-scored, with the reason."""


@dataclass(frozen=True)
class Reading:
    """One choice on each axis; the defaults are the usual reading of an image–text retrieval paper.

    Attributes:
        recall: "hit", "capped_recall", "recall" or "five_capped_recall".
        captions: "as run", "first" or "random(seed=0)".
        gallery: "as run" or "split".
        folds: "as run", "1" or "5".
        ties: "id", "pessimistic" or "optimistic".
        depth: "as run", "5" or "2".
    """

    recall: str = "hit"
    captions: str = "as run"
    gallery: str = "as run"
    folds: str = "as run"
    ties: str = "id"
    depth: str = "as run"

    @property
    def departures(self) -> int:
        """The number of axes on which it departs from the usual reading; fewer wins between equally near ones."""
        return sum(getattr(self, field.name) != field.default for field in fields(self))

    @property
    def search(self) -> Reading:
        """The same reading without the choice of recall: it determines the search, which is done once."""
        return Reading("hit", self.captions, self.gallery, self.folds, self.ties, self.depth)

    def is_part_of(self, other: Reading) -> bool:
        """Whether the other reading includes every departure of this one.

        Args:
            other: The other reading.

        Returns:
            True if it does.
        """
        return all(getattr(self, field.name) in (field.default, getattr(other, field.name)) for field in fields(self))

    def __str__(self) -> str:
        return "; ".join(words for axis in AXES if (words := axis.options[str(getattr(self, axis.name))]))


def all_readings(folds: int = 1) -> list[Reading]:
    """The readings that are tried: every choice of captions × gallery × folds, plus ties and depth one at a time.

    Ties and depth are varied on the run as it is only: they matter little, and their products with the rest would hide
    the answer in a long list.

    Args:
        folds: The number of folds of the run. A run with folds may also be read as one gallery, and the reverse.

    Returns:
        The readings.
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
    """The values of R@k under one reading of recall.

    Args:
        ranks: The ranks of the positives.
        recall: The name of the reading, in `RECALLS`.
        k: The cutoff, from 1.

    Returns:
        (n,) one value per query.
    """
    query = np.repeat(np.arange(len(ranks)), ranks.positives)
    retrieved = (ranks.ranks > 0) & (ranks.ranks <= k)
    hits = np.bincount(query, retrieved, len(ranks)).astype(np.float64)
    return RECALLS[recall].value(hits, ranks.positives.astype(np.float64), k)
