"""The readings of a published retrieval number: one table of axes and their choices, each with its function.

An axis is one question that a printed "R@5 = 58.1" leaves open. A choice is one answer, with the sentence that states
it, its cost, what is needed to compute it, and the function that computes it. The plain choice of an axis is not in the
table: the result itself states it. To add a reading, add a line here; which kind of function an axis takes is said
beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations, groupby
from typing import Any, Literal

import numpy as np

from visir.evaluation.explaining import ranks, world
from visir.evaluation.explaining.ranks import RECALLS, RULES
from visir.evaluation.explaining.world import captions_where, folds, linked, some_images

Need = Literal["ranks", "scores", "captions", "vectors", "collection"]

NEEDS: dict[Need, str] = {
    "ranks": "the run",
    "scores": "the run with its scores",
    "captions": "the run, and which captions belong to which image",
    "vectors": "the vectors of the split",
    "collection": "the collection, and the vectors of its other splits",
}
"""What a choice is computed from, in words."""


@dataclass(frozen=True)
class Choice:
    """One answer to the question of an axis."""

    name: str  # its name within the axis
    words: str  # the sentence part that states it
    # How far it is from plain: 0 plain, 1 a usual difference between papers or a usual slip, 2 a rare one.
    cost: int = 1
    needs: Need = "ranks"  # what it is computed from
    do: Callable[..., Any] | ranks.Rule | None = None  # what the computation takes
    takes: world.Change | None = None  # part → part: which images and captions take part


@dataclass(frozen=True)
class Axis:
    """One open question about a published number."""

    name: str  # its name
    asks: str  # the question
    choices: tuple[Choice, ...]  # the answers; the plain one is not among them, because the result states it

    def __getitem__(self, name: str) -> Choice:
        return next(choice for choice in self.choices if choice.name == name)


_SPLITS = ("val", "test", "train")


def _some(count: float, cost: int, last: bool = False) -> Choice:
    name = {0.5: "half"}.get(count, f"{count:,}")
    which = "second" if last and count == 0.5 else "last" if last else "first"
    words = (
        f"the {which} {name} {'of the images, their captions' if count == 0.5 else 'images and their captions'} only"
    )
    return Choice(f"{which} {name}", words, cost, "captions", takes=some_images(count, last))


def _from_to(name: str, first: int, end: int, words: str, cost: int = 2) -> Choice:
    keep = captions_where(lambda place, count: (place >= first) & (place < end))
    return Choice(name, words, cost, "captions", takes=keep)


def _links(name: str, cost: int, place: Callable[[Any, int], Any], words: str) -> Choice:
    return Choice(name, words, cost, "captions", takes=linked(place))


# Part → Part, in `takes`
SPLIT = Axis(
    "split",
    "which split was searched?",
    (
        *(
            Choice(name, f"the {name} split", 2 if name == "train" else 1, "collection", takes=world.split(name))
            for name in _SPLITS
        ),
        Choice("all", "the whole collection, all splits together", 2, "collection", takes=world.split("all")),
    ),
)
# Part → Part, in `takes`; `linked` takes (the place of the image of each caption, the number of images) → other places
LINKS = Axis(
    "links",
    "which caption belongs to which image?",
    (
        _links("modulo", 1, lambda own, n: np.arange(len(own)) % n,
               "caption i taken for one of image i mod n (n images)"),
        _links("same number", 1, lambda own, n: np.arange(len(own))[:n],
               "caption i taken for that of image i, the other captions left out"),
        _links("next image", 2, lambda own, n: (own + 1) % n, "the captions shifted by one image"),
        _links("previous image", 2, lambda own, n: (own - 1) % n, "the captions shifted by one image the other way"),
        _links("next caption", 2, lambda own, n: np.roll(own, 1), "the captions shifted by one caption"),
        _links("previous caption", 2, lambda own, n: np.roll(own, -1),
               "the captions shifted by one caption the other way"),
        _links("reversed", 2, lambda own, n: n - 1 - own, "the images in reverse order, the captions not"),
        Choice("images by id", "the images by id, the captions in the order of the source", 2, "captions",
               takes=world.images_by_id),
        *(
            Choice(f"captions of {name}", f"the captions of the {name} split beside these images, row by row", 1,
                   "collection", takes=world.captions_of_split(name))
            for name in _SPLITS
        ),
    ),
)  # fmt: skip
# Part → Part, in `takes`
CAPTIONS = Axis(
    "captions",
    "which captions of each image took part?",
    (
        Choice("all", "all captions of each image", 1, "vectors", takes=world.all_captions),
        _from_to("first", 0, 1, "the first caption of each image only", 1),
        _from_to("first 5", 0, 5, "the first 5 captions of each image only (no sixth captions)", 1),
        *(_from_to(f"first {n}", 0, n, f"the first {n} captions of each image only") for n in (2, 3, 4)),
        *(
            _from_to(word, place, place + 1, f"the {word} caption of each image only")
            for place, word in enumerate(("second", "third", "fourth", "fifth"), 1)
        ),
        Choice("last", "the last caption of each image only", 2, "captions",
               takes=captions_where(lambda place, count: place == count - 1)),
        Choice("random", "one random caption of each image (seed 0 of visir)", 2, "captions",
               takes=world.random_captions),
        Choice("mean", "one vector for each image: the mean of its captions' vectors", 2, "vectors",
               takes=captions_where(lambda place, count: place == 0)),
    ),
)  # fmt: skip
# Part → Part, once it is known who asks
QUERIES = Axis(
    "queries",
    "of which queries is the mean?",
    (
        Choice("first captions", "the first caption of each image as a query; all captions as candidates", 1,
               "captions", world.first_captions_ask),
        *(
            Choice(f"first {n:,}", f"only the first {n:,} queries, over all candidates", 2, do=world.first_queries(n))
            for n in (1000, 500, 100)
        ),
        Choice("any caption", "an image counts as one query, by the caption that ranks it best", 2, "captions",
               world.any_caption),
        Choice("one per image", "the mean over images of the mean over their captions", 2, "captions",
               world.each_image),
    ),
)  # fmt: skip
# Part → Part, or a rule for equal scores
POSITIVES = Axis(
    "positives",
    "which candidates are right?",
    (
        Choice("first caption", "only the first caption of an image is right; the others are wrong candidates", 1,
               "captions", world.first_captions_are_right),
        Choice("any alike", "candidates with exactly the score of a right one are right too", 2, "scores",
               RULES["any alike"]),
    ),
)  # fmt: skip
# Part → Part: what takes part in `takes`, what is ranked once it is known who asks
GALLERY = Axis(
    "gallery",
    "what were the candidates?",
    (
        Choice("judged", "candidates restricted to the images and captions that are judged", do=world.judged),
        _some(1000, 1),
        _some(0.5, 2),
        _some(0.5, 2, last=True),
        *(_some(n, 2) for n in (50, 100, 128, 200, 250, 256, 500, 5000)),
        *(_some(n, 2, last=True) for n in (100, 500, 1000)),
        *(
            Choice(f"with {name}", f"candidates of the {name} split too", 1, "collection", world.candidates_of(name))
            for name in _SPLITS
        ),
        Choice("collection", "candidates of the whole collection", 1, "collection", world.candidates_of("all")),
    ),
)


def _folds(count: int, cost: int) -> Choice:
    cut = folds(lambda place, n: place * count // n, count, equal=True)
    return Choice(f"{count}", f"the mean over {count} folds", cost, "captions", cut)


def _batches(size: int) -> Choice:
    cut = folds(lambda place, n: place // size, size, sizes=True)
    return Choice(f"batches of {size}", f"the mean over batches of {size} images", 2, "captions", cut)


# Part → Part; `folds` takes (the place of each image, the number of images) → its fold
FOLDS = Axis(
    "folds",
    "one gallery, or the mean over parts of it?",
    (
        Choice("1", "one gallery in place of folds", 1, "vectors", world.one_gallery),
        _folds(5, 1),
        *(_folds(n, 2) for n in (2, 3, 4, 8, 10, 20)),
        Choice("every 5th", "the mean over 5 folds, every fifth image in each", 2, "captions",
               folds(lambda place, n: place % 5, 5)),
        *map(_batches, (32, 50, 64, 100, 128, 250, 256, 500, 512)),
    ),
)  # fmt: skip
# (queries, candidates, task) → scores, of vectors
SIMILARITY = Axis(
    "similarity",
    "how were vectors compared?",
    tuple(
        Choice(name, words, cost, "vectors", do)
        for name, words, cost, do in (
            ("cosine", "cosine of the vectors", 1, ranks.cosine_of()),
            ("dot", "dot product of the vectors as they are, not normalised", 1, ranks.dot),
            ("euclidean", "Euclidean distance of the vectors as they are, not normalised", 1,
             lambda queries, documents, task: ranks.products(2 * queries, documents, (documents**2).sum(axis=1))),
            ("images normalised", "only the images' vectors normalised", 2, ranks.one_side_normalised("image")),
            ("texts normalised", "only the texts' vectors normalised", 2, ranks.one_side_normalised("text")),
            ("signs", "only the signs of the vectors compared", 2, ranks.signs),
            ("int8", "the vectors cut to whole numbers of 8 bits", 2, ranks.cosine_of(ranks.eight_bits)),
            ("centred", "the mean vector of each side subtracted first", 2,
             ranks.cosine_of(lambda vectors: vectors - vectors.mean(axis=0))),
            ("standardised", "each dimension of each side standardised first", 2,
             ranks.cosine_of(ranks.standardised)),
            ("first half", "only the first half of the dimensions", 2, ranks.first_dimensions(0.5)),
            ("first quarter", "only the first quarter of the dimensions", 2, ranks.first_dimensions(0.25)),
            *(
                (f"first {n}", f"only the first {n} dimensions", 2, ranks.first_dimensions(n))
                for n in (64, 128, 256, 512)
            ),
            ("dual softmax", "scores times their softmax over all queries (dual softmax)", 2, ranks.dual_softmax(1.0)),
            ("dual softmax, 100", "scores times the softmax of 100 × scores over all queries (dual softmax)", 2,
             ranks.dual_softmax(100.0)),
            ("csls", "scores less the mean of the 10 nearest on both sides (CSLS)", 2, ranks.csls),
        )
    ),
)  # fmt: skip
# a rule for equal scores
TIES = Axis(
    "ties",
    "how were equal scores counted?",
    tuple(
        Choice(name, f"equal scores {words}", cost, "scores", RULES[name])
        for name, words, cost in (
            ("optimistic", "in favour of the system", 1),
            ("pessimistic", "against the system", 1),
            ("average", "at their average rank", 1),
            ("source order", "in the order of the source", 1),
            ("reverse order", "in the reverse order of the source", 2),
            ("id", "by document id", 1),
            ("trec", "by falling document id, as trec_eval does", 2),
            ("at most", "against the system, those of other right ones too", 2),
            ("any order", "in any order, as numerical noise puts them", 2),
            ("average of all", "at their average rank, with other right ones", 2),
            ("average down", "at their average rank, all right ones too, rounded down", 2),
        )
    ),
)
# Part → Part; `copies` takes (place of a caption in its image, number of those) → the copies before the right one
COPIES = Axis(
    "copies",
    "was each image a candidate once?",
    tuple(
        Choice(name, f"an image is a candidate once for every caption, {words} right", cost, "captions",
               world.copies(before))
        for name, words, cost, before in (
            ("any", "any copy is", 2, lambda place, count: 0 * place),
            ("own", "only the caption's own copy is", 1, lambda place, count: place),
            ("last", "the last copy is", 2, lambda place, count: count - 1),
        )
    ),
)  # fmt: skip
DEPTH = Axis(  # its name is the depth
    "depth",
    "how deep did the ranking go?",
    tuple(
        Choice(f"{k}", f"only the first {k} ranked: nothing is found behind them (k_test)", 1 if k in (2, 5) else 2)
        for k in range(1, 10)
    ),
)
# (ranks, k) → the value of each query
RECALL = Axis(
    "recall",
    "which recall is R@k?",
    tuple(
        Choice(name, f"R@k {words}", cost, do=RECALLS[name])
        for name, words, cost in (
            ("hit", "is hit@k: any right one in the first k", 1),
            ("recall", "is recall@k: the share of the right ones in the first k", 1),
            ("capped_recall", "is capped_recall@k: right ones in the first k / min(k, right ones)", 1),
            ("five_capped_recall", "is right ones in the first k / min(k, 5), also of images with a sixth caption", 1),
            ("all", "counts a query only if all its right ones are in the first k", 2),
            ("pairs", "is the share of all pairs that are found, whatever query they are of", 2),
            ("precision", "is precision@k: right ones in the first k / k", 2),
            ("separate", "of each right one, with the other right ones of the query left out", 2),
            ("mrr", "is MRR@k: 1 / the first right rank within k", 2),
            ("ndcg", "is nDCG@k", 2),
            ("map", "is MAP@k", 2),
        )
    ),
)


def _cutoffs(name: str, others: dict[int, int], words: str) -> Choice:
    return Choice(name, words, 2, do=lambda k: others.get(k, k))


# k as printed → k
CUTOFFS = Axis(
    "cutoffs",
    "how deep is @k?",
    (
        Choice("from 0", "ranks counted from 0, so that @k is @(k + 1)", do=lambda k: k + 1),
        Choice("below k", "ranks below k counted, so that @k is @(k − 1)", do=lambda k: k - 1),
        *(
            _cutoffs(f"@{k} is @{other}", {k: other}, f"what is printed as @{k} is @{other}")
            for k in (1, 5, 10)
            for other in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 50, 100)
            if other != k
        ),
        _cutoffs("reversed", {1: 10, 10: 1}, "the columns of the cut-offs in reverse order"),
        _cutoffs("1, 10, 50", {5: 10, 10: 50}, "what is printed as @1, @5, @10 is 1, 10, 50"),
        _cutoffs("1, 10, 100", {5: 10, 10: 100}, "what is printed as @1, @5, @10 is 1, 10, 100"),
        _cutoffs("5, 10, 20", {1: 5, 5: 10, 10: 20}, "what is printed as @1, @5, @10 is 5, 10, 20"),
    ),
)
# (lowest, highest) of a share in percent → as printed
UNIT = Axis(
    "unit",
    "in which unit is it printed?",
    (
        Choice("fraction", "printed as fractions of 1, not in percent", do=lambda low, high: (low / 100, high / 100)),
        Choice("missed", "what is missed is printed: 100 less the value", 2,
               do=lambda low, high: (100 - high, 100 - low)),
    ),
)  # fmt: skip
# how our values agree, each in the way that `judged` of search.py finds → whether all digits follow
DIGITS = Axis(
    "digits",
    "how were further digits dropped?",
    (
        Choice("cut", "further digits cut off, not rounded",
               do=lambda ways: "truncated" in ways and ways <= {"truncated", "summed", "bounded", "rounded down"}),
        Choice("mixed", "further digits cut off in some values and rounded in others", 2,
               do=lambda ways: "off" not in ways),
        Choice("up", "rounded up always", 2, do=lambda ways: ways <= {"rounded", "rounded down", "bounded"}),
    ),
)  # fmt: skip
DIRECTION = Axis(
    "direction",
    "which direction is which?",
    (Choice("swapped", "image-to-text and text-to-image swapped"),),
)
# (the sum of the recalls, our mean DCG) → rsum
SUM = Axis(
    "sum",
    "what does rsum add up?",
    (
        Choice("with DCG", "rsum is the sum of the recalls and the mean DCG", do=lambda total, dcg: total + dcg),
        Choice("mean", "rsum is the mean of the three recalls", do=lambda total, dcg: total / 3),
    ),
)

AXES: tuple[Axis, ...] = (
    SPLIT, LINKS, CAPTIONS, QUERIES, POSITIVES, GALLERY, FOLDS, SIMILARITY, TIES, COPIES, DEPTH, RECALL, CUTOFFS, UNIT,
    DIGITS, DIRECTION, SUM,
)  # fmt: skip
"""Every axis, from what is searched to how it is printed."""

BY_NAME = {axis.name: axis for axis in AXES}
PART_AXES = ("split", "links", "captions", "queries", "positives", "gallery", "folds", "copies")
RANK_AXES = (*PART_AXES, "similarity", "ties", "depth")
"""Axes that change ranks; the others change what is measured from them."""

NEVER: tuple[tuple[str, str], ...] = (
    (
        "preprocessing of images (size, crop, mean), truncation and case of texts, query templates",
        "they change the vectors: encode again with the other setting, evaluate, and explain that result",
    ),
    ("another model, checkpoint or precision", "it changes the vectors: evaluate that model, and explain its result"),
    ("other right answers (CxC, ECCV Caption, …)", "they are judgements: evaluate with relevance=… and compare"),
    ("a second stage that re-ranks", "its scores are of another model: evaluate with --rerank MODEL --k-test K"),
)
"""What no run and no vectors can show, with the next action."""


# One reading: a choice on some axes, the plain one on all others.

PLAIN = "the protocol of the result"
PAIR_COST = 2
"""What a second choice costs beyond its own cost, so that every single choice is plainer than every pair."""
_CHOICES = {(axis.name, choice.name): choice for axis in AXES for choice in axis.choices}
_ORDER = {axis.name: number for number, axis in enumerate(AXES)}


@dataclass(frozen=True)
class Reading:
    """A reading of a published number."""

    # (axis, name of the choice) of the axes on which it differs from the result, in the order of `AXES`.
    choices: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, **choices: str) -> Reading:
        """Make a reading of names of choices by axis."""
        return cls(tuple(sorted(choices.items(), key=lambda pair: _ORDER[pair[0]])))

    def __getitem__(self, axis: str) -> str | None:
        """The name of the choice on an axis; None where it is the plain one."""
        return next((name for own, name in self.choices if own == axis), None)

    def __str__(self) -> str:
        return "; ".join(choice.words for choice in self.parts) or PLAIN

    @property
    def parts(self) -> tuple[Choice, ...]:
        """The choices themselves."""
        return tuple(_CHOICES[pair] for pair in self.choices)

    @property
    def departures(self) -> int:
        """On how many axes it differs from the result."""
        return len(self.choices)

    @property
    def cost(self) -> int:
        """How far it is from plain: the sum of the costs, and `PAIR_COST` for each choice after the first."""
        return sum(choice.cost for choice in self.parts) + PAIR_COST * max(len(self.choices) - 1, 0)

    @property
    def needs_vectors(self) -> bool:
        """Whether the result folder does not suffice."""
        return any(choice.needs in ("vectors", "collection") for choice in self.parts)

    @property
    def searched(self) -> Reading:
        """Its choices that need scores of their own; its queries and candidates are among those of these."""
        # Folds are cut out of one gallery, which vectors are needed for only where the result has none.
        return Reading(
            tuple(pair for pair in self.choices if pair[0] != "folds" and Reading((pair,)).needs_vectors)
        )  # fmt: skip

    def do(self, axis: str) -> Any:
        """What the computation takes on an axis; None where it is plain."""
        return next((_CHOICES[pair].do for pair in self.choices if pair[0] == axis), None)

    def only(self, axes: tuple[str, ...]) -> Reading:
        """The reading with its choices on these axes only."""
        return Reading(tuple(pair for pair in self.choices if pair[0] in axes))


# Which readings are tried, plainest first: none, one departure, pairs, a few named triples.

USUAL_TIES = ("optimistic", "pessimistic", "any order")
"""What scripts do that count the scores above, or at least, that of the right one, and what noise does: a few equal
scores show beside another departure only, so these go with every one."""
ALONE = frozenset({"cutoffs", "depth", "queries", "links", "copies", "unit"})
"""Axes whose rare choices are tried alone only: with a second departure they fit small values by accident."""
NEVER_TOGETHER = (
    frozenset({"positives", "recall"}),
    frozenset({"positives", "copies"}),
    frozenset({"copies", "folds"}),
    frozenset({"ties", "positives"}),
    frozenset({"depth", "cutoffs"}),
)
"""Pairs of axes that mean nothing together, or the same as a choice of one of them."""
BESIDE_LINKS = frozenset({"recall", "unit", "digits", "similarity"})
"""The axes that a mix-up of captions goes with: with more freedom it fits noise."""
TRIPLES: tuple[tuple[tuple[str, str], ...], ...] = tuple(
    (*pair, third)
    for pair in (
        (("split", "val"), ("captions", "first")),
        (("split", "test"), ("captions", "first")),
        (("captions", "first"), ("similarity", "dot")),
        (("captions", "first"), ("folds", "5")),
        (("folds", "5"), ("similarity", "dot")),
        (("split", "val"), ("folds", "5")),
        (("split", "val"), ("similarity", "dot")),
        (("captions", "first 5"), ("folds", "5")),
    )
    for third in (
        ("folds", "5"), ("similarity", "dot"), ("recall", "recall"), ("recall", "capped_recall"), ("digits", "cut"),
        ("unit", "fraction"),
    )
    if third[0] not in {axis for axis, _ in pair}
)  # fmt: skip
"""The triples that are tried."""


@cache
def singles() -> tuple[Reading, ...]:
    """Every reading with one departure, the plainest first."""
    return tuple(sorted((Reading((pair,)) for pair in _CHOICES), key=lambda reading: reading.cost))


@cache
def pairs() -> tuple[Reading, ...]:
    """Every reading of two departures that go together, one of them a usual one, the plainest first."""
    every = []
    for first, second in combinations(AXES, 2):
        axes = {first.name, second.name}
        if axes in NEVER_TOGETHER or ("links" in axes and not axes & BESIDE_LINKS):
            continue
        for choice in first.choices:
            for other in second.choices:
                usual = choice.cost + other.cost <= 3 and not (
                    (choice.cost > 1 and first.name in ALONE) or (other.cost > 1 and second.name in ALONE)
                )
                # Candidates of other splits are in no fold, and a rare similarity beside them is not worth its time:
                # it scores them all anew.
                if first.name == "gallery" and choice.needs == "collection":
                    usual &= second.name != "folds" and (second.name != "similarity" or other.cost == 1)
                both = ((first.name, choice.name), (second.name, other.name))
                if usual or any(axis == "ties" and name in USUAL_TIES for axis, name in both):
                    every.append(Reading(both))
    return tuple(sorted(every, key=lambda reading: reading.cost))


@cache
def triples() -> tuple[Reading, ...]:
    """The named triples."""
    return tuple(dict.fromkeys(Reading.of(**dict(triple)) for triple in TRIPLES))


@cache
def tiers() -> tuple[tuple[int, tuple[Reading, ...]], ...]:
    """(cost, readings) by rising cost: the plain one, single departures, pairs, and the triples as one tier."""
    tiers: list[tuple[int, tuple[Reading, ...]]] = []
    for readings in ((Reading(),), singles(), pairs()):
        tiers += [(cost, tuple(group)) for cost, group in groupby(readings, key=lambda reading: reading.cost)]
    return (*tiers, (min(reading.cost for reading in triples()), triples()))


@dataclass(frozen=True)
class Combined:
    """A reading of each task; the usual case is one reading for both."""

    by_task: tuple[tuple[str, Reading], ...]  # (task, reading)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The different readings."""
        return tuple(dict.fromkeys(reading for _, reading in self.by_task))

    @property
    def reading(self) -> Reading:
        """The reading with the most departures: the one reading, where there is one."""
        return max(self.readings, key=lambda reading: (reading.departures, reading.cost))

    @property
    def cost(self) -> int:
        """How far it is from plain: one choice of each direction costs as much as a pair, and of one only 1 more."""
        if len(self.readings) == 1:
            return self.readings[0].cost
        choices = [choice for reading in self.readings for choice in reading.parts]
        return sum(choice.cost for choice in choices) + PAIR_COST * (len(choices) - 1) + ONE_DIRECTION

    @property
    def departures(self) -> int:
        """On how many axes it departs, both tasks together."""
        return len({choice for reading in self.readings for choice in reading.choices})

    def __getitem__(self, axis: str) -> str | None:
        """The choice on an axis, of the task that departs there; None where both are plain."""
        return next((reading[axis] for reading in self.readings if reading[axis] is not None), None)

    def __str__(self) -> str:
        if len(self.readings) == 1:
            return str(self.readings[0])
        return "; ".join(f"{task}: {reading}" for task, reading in self.by_task if reading.departures)


ONE_DIRECTION = 1
"""What a reading of one direction only costs more."""
