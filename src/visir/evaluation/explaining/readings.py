"""The readings of a published retrieval number: one table of axes and their choices, each with its function.

An axis is one question that a printed "R@5 = 58.1" leaves open. A choice is one answer, with the sentence that states
it, its cost, what is needed to compute it, and the function that computes it. The plain choice of an axis is not in the
table: the result itself states it. To add a reading, add a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, groupby
from typing import Any, Literal

import numpy as np

import visir.evaluation.explaining.ranks as ranks
import visir.evaluation.explaining.world as world
from visir.evaluation.explaining.ranks import Rule, share

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
    do: Any = None  # what the computation takes
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


def _captions(name: str, which: str, cost: int, first: int, end: int, more: str = "") -> Choice:
    keep = partial(world.captions_where, keep=lambda place, count: (place >= first) & (place < end))
    return Choice(name, f"the {which} of each image only{more}", cost, "captions", takes=keep)


def _links(name: str, words: str, cost: int, place: Callable[[Any, int], Any]) -> Choice:
    return Choice(name, words, cost, "captions", takes=partial(world.linked, place=place))


def _images(name: str, cost: int, count: float, last: bool = False) -> Choice:
    of = "of the images, their captions" if count < 1 else "images and their captions"
    cut = partial(world.some_images, count=count, last=last)
    return Choice(name, f"the {name} {of} only", cost, "captions", takes=cut)


def _folds(name: str, words: str, cost: int, cut: world.Change) -> Choice:
    return Choice(name, f"the mean over {words}", cost, "captions", cut)


def _equal_folds(count: int) -> Choice:
    cut = partial(world.in_folds, fold=lambda place, n: place * count // n, count=count, equal=True)
    return _folds(f"{count}", f"{count} folds", 1 if count == 5 else 2, cut)


def _batches(size: int) -> Choice:
    cut = partial(world.in_folds, fold=lambda place, n: place // size, count=size, sizes=True)
    return _folds(f"batches of {size}", f"batches of {size} images", 2, cut)


def _cutoffs(name: str, others: dict[int, int], words: str) -> Choice:
    return Choice(name, words, 2, do=lambda k: others.get(k, k))


COLUMNS = tuple((task, k) for task in ("i2t", "t2i") for k in (1, 5, 10))
"""The columns of the usual table, in their order."""


def _columns(name: str, words: str, places: tuple[int, ...]) -> Choice:
    """The columns in another order: `places` are those of the columns that stand at the first place, the second, …"""
    moved = {column: COLUMNS[place] for column, place in zip(COLUMNS, places, strict=True)}
    return Choice(name, words, 2, do=lambda task, k: (moved.get((task, k), (task, k)),))


OTHER = {"t2i": "i2t", "i2t": "t2i"}

AXES: tuple[Axis, ...] = (
    # Part → Part, in `takes`
    Axis("split", "which split was searched?", (
        *(Choice(name, f"the {name} split", 2 if name == "train" else 1, "collection",
                 takes=partial(world.split, name=name)) for name in _SPLITS),
        Choice("val+test", "the val and test splits as one", 2, "collection",
               takes=partial(world.split, name="val+test")),
        Choice("all", "the whole collection, all splits together", 2, "collection",
               takes=partial(world.split, name="all")),
    )),
    # Part → Part, in `takes`; of the place of the image of each caption, and the number of images
    Axis("links", "which caption belongs to which image?", (
        _links("modulo", "caption i taken for one of image i mod n (n images)", 1,
               lambda own, n: np.arange(len(own)) % n),
        _links("same number", "caption i taken for that of image i, the other captions left out", 1,
               lambda own, n: np.arange(len(own))[:n]),
        _links("next image", "the captions shifted by one image", 2, lambda own, n: (own + 1) % n),
        _links("previous image", "the captions shifted by one image the other way", 2, lambda own, n: (own - 1) % n),
        _links("next caption", "the captions shifted by one caption", 2, lambda own, n: np.roll(own, 1)),
        _links("previous caption", "the captions shifted by one caption the other way", 2,
               lambda own, n: np.roll(own, -1)),
        _links("reversed", "the images in reverse order, the captions not", 2, lambda own, n: n - 1 - own),
        Choice("images by id", "the images by id, the captions in the order of the source", 2, "captions",
               takes=world.images_by_id),
        *(Choice(f"captions of {name}", f"the captions of the {name} split beside these images, row by row", 1,
                 "collection", takes=partial(world.captions_of_split, name=name)) for name in _SPLITS),
    )),
    # Part → Part, in `takes`; of the place of each caption in its image, and the number of those
    Axis("captions", "which captions of each image took part?", (
        Choice("all", "all captions of each image", 1, "vectors", takes=world.all_captions),
        _captions("first", "first caption", 1, 0, 1),
        _captions("first 5", "first 5 captions", 1, 0, 5, " (no sixth captions)"),
        *(_captions(f"first {n}", f"first {n} captions", 2, 0, n) for n in (2, 3, 4)),
        *(_captions(nth, f"{nth} caption", 2, place, place + 1)
          for place, nth in enumerate(("second", "third", "fourth", "fifth"), 1)),
        Choice("last", "the last caption of each image only", 2, "captions",
               takes=partial(world.captions_where, keep=lambda place, count: place == count - 1)),
        Choice("random", "one random caption of each image (seed 0 of visir)", 2, "captions",
               takes=world.random_captions),
        *(Choice(name, f"{words} for each image: the {way} of its captions' {of}", 2, "vectors",
                 takes=partial(world.captions_where, keep=lambda place, count: place == 0))
          for name, words, way, of in (
              ("mean", "one vector", "mean", "vectors"),
              ("mean of scores", "one score", "mean", "scores"),
              ("best score", "one score", "best", "scores"),
          )),
    )),
    # Part → Part, once it is known who asks
    Axis("queries", "of which queries is the mean?", (
        Choice("first captions", "the first caption of each image as a query; all captions as candidates", 1,
               "captions", world.first_captions_ask),
        *(Choice(f"first {n:,}", f"only the first {n:,} queries, over all candidates", 2,
                 do=partial(world.first_queries, number=n)) for n in (1000, 500, 100)),
        Choice("any caption", "an image counts as one query, by the caption that ranks it best", 2, "captions",
               world.any_caption),
        Choice("one per image", "the mean over images of the mean over their captions", 2, "captions",
               world.each_image),
        Choice("one per text", "captions of one text merged: a query, or a candidate, with all their images", 2,
               "captions", world.merged_by_text),
        Choice("answered", "queries that find nothing at all left out", 1, do=world.answered_queries),
        Choice("answerable", "queries whose right ones are no candidates left out", 1, do=world.answerable_queries),
    )),
    # Part → Part, once it is known who asks; or a rule for equal scores
    Axis("positives", "which candidates are right?", (
        Choice("first caption", "only the first caption of an image is right; the others are wrong candidates", 1,
               "captions", world.first_captions_are_right),
        Choice("any alike", "candidates with exactly the score of a right one are right too", 2, "scores",
               Rule(lambda at: at.better + 1, early=True, closed=True, together=True)),
    )),
    # Part → Part: what takes part in `takes`, what else is ranked once it is known who asks
    Axis("gallery", "what were the candidates?", (
        Choice("judged", "candidates restricted to the images and captions that are judged", do=world.judged),
        _images("first 1,000", 1, 1000),
        _images("first half", 2, 0.5),
        _images("second half", 2, 0.5, last=True),
        *(_images(f"first {n:,}", 2, n) for n in (50, 100, 128, 200, 250, 256, 500, 2000, 5000)),
        *(_images(f"last {n:,}", 2, n, last=True) for n in (100, 500, 1000)),
        *(Choice(f"with {name}", f"candidates of the {name} split too", 1, "collection",
                 partial(world.candidates_of, name=name)) for name in _SPLITS),
        Choice("collection", "candidates of the whole collection", 1, "collection",
               partial(world.candidates_of, name="all")),
    )),
    # Part → Part; of the place of each image, and the number of images
    Axis("folds", "one gallery, or the mean over parts of it?", (
        Choice("1", "one gallery in place of folds", 1, "vectors", world.one_gallery),
        *map(_equal_folds, (5, 2, 3, 4, 8, 10, 20)),
        _folds("every 5th", "5 folds, every fifth image in each", 2,
               partial(world.in_folds, fold=lambda place, n: place % 5, count=5)),
        *map(_batches, (32, 50, 64, 100, 128, 250, 256, 500, 512)),
    )),
    # (queries, candidates, task) → scores, of dense vectors
    Axis("similarity", "how were vectors compared?", tuple(Choice(*row[:3], "vectors", row[3]) for row in (
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
        ("standardised", "each dimension of each side standardised first", 2, ranks.cosine_of(ranks.standardised)),
        ("first half", "only the first half of the dimensions", 2, ranks.first_dimensions(0.5)),
        ("first quarter", "only the first quarter of the dimensions", 2, ranks.first_dimensions(0.25)),
        *((f"first {n}", f"only the first {n} dimensions", 2, ranks.first_dimensions(n)) for n in (64, 128, 256, 512)),
        ("dual softmax", "scores times their softmax over all queries (dual softmax)", 2,
         partial(ranks.dual_softmax, scale=1.0)),
        ("dual softmax, 100", "scores times the softmax of 100 × scores over all queries (dual softmax)", 2,
         partial(ranks.dual_softmax, scale=100.0)),
        *((f"inverted softmax, {scale}", f"softmax of {scale} × scores over all queries (inverted softmax)", 2,
           partial(ranks.inverted_softmax, scale=float(scale))) for scale in (1, 20, 100)),
        ("csls", "scores less the mean of the 10 nearest on both sides (CSLS)", 2, ranks.csls),
    ))),
    # a rule for equal scores
    Axis("ties", "how were equal scores counted?", tuple(
        Choice(name, f"equal scores {words}", cost, "scores", rule) for name, words, cost, rule in (
            ("optimistic", "in favour of the system", 1, Rule(lambda at: at.best, early=True, closed=True)),
            ("pessimistic", "against the system", 1, Rule(lambda at: at.best + at.wrong)),
            ("average", "at their average rank", 1, Rule(lambda at: at.best + at.wrong / 2, early=True)),
            ("source order", "in the order of the source", 1, Rule(early=True, order=lambda places, by_id: places)),
            ("reverse order", "in the reverse order of the source", 2,
             Rule(early=True, order=lambda places, by_id: -places)),
            ("id", "by document id", 1, Rule(early=True, order=lambda places, by_id: by_id)),
            ("trec", "by falling document id, as trec_eval does", 2,
             Rule(early=True, order=lambda places, by_id: -by_id)),
            ("at most", "against the system, those of other right ones too", 2, Rule(lambda at: at.better + at.equal)),
            ("any order", "in any order, as numerical noise puts them", 2,
             Rule(lambda at: at.best, early=True, highest=lambda at: at.best + at.wrong)),
            ("average of all", "at their average rank, with other right ones", 2,
             Rule(lambda at: at.better + (at.equal + 1) / 2, early=True, together=True)),
            ("average down", "at their average rank, all right ones too, rounded down", 2,
             Rule(lambda at: np.maximum(np.floor(at.better + (at.equal + 1) / 2), 1), early=True, together=True)),
        )
    )),
    # Part → Part; of the place of a caption in its image, and the number of those: the copies before the right one
    Axis("copies", "was each image a candidate once?", tuple(
        Choice(name, f"an image is a candidate once for every caption, {words} right", cost, "captions",
               partial(world.copied, before=before))
        for name, words, cost, before in (
            ("any", "any copy is", 2, lambda place, count: 0 * place),
            ("own", "only the caption's own copy is", 1, lambda place, count: place),
            ("last", "the last copy is", 2, lambda place, count: count - 1),
        )
    )),
    # no function: the name is the depth
    Axis("depth", "how deep did the ranking go?", tuple(
        Choice(f"{k}", f"only the first {k} ranked: nothing is found behind them (k_test)", 1 if k in (2, 5) else 2)
        for k in range(1, 10)
    )),
    # (ranks, k) → the value of each query
    Axis("recall", "which recall is R@k?", tuple(
        Choice(name, f"R@k {words}", cost, do=do) for name, words, cost, do in (
            ("hit", "is hit@k: any right one in the first k", 1, lambda at, k: (at.best <= k).astype(np.float64)),
            ("recall", "is recall@k: the share of the right ones in the first k", 1,
             lambda at, k: share(at.hits(k), at.positives)),
            ("capped_recall", "is capped_recall@k: right ones in the first k / min(k, right ones)", 1,
             lambda at, k: share(at.hits(k), np.minimum(k, at.positives))),
            # The brittleness paper's own code for image-to-text takes five captions for granted, so that an image with
            # six can score 1.2. Where every image has five, it is capped_recall.
            ("five_capped_recall", "is right ones in the first k / min(k, 5), also of images with a sixth caption", 1,
             lambda at, k: np.where(at.positives > 1, at.hits(k) / min(k, 5), np.minimum(at.hits(k), 1))),
            ("all", "counts a query only if all its right ones are in the first k", 2,
             lambda at, k: ((at.hits(k) == at.positives) & (at.positives > 0)).astype(np.float64)),
            # Every pair weighs the same: a query weighs as its number of pairs.
            ("pairs", "is the share of all pairs that are found, whatever query they are of", 2,
             lambda at, k: at.hits(k) * len(at.positives) / max(float(at.positives.sum()), 1.0)),
            ("precision", "is precision@k: right ones in the first k / k", 2, lambda at, k: at.hits(k) / k),
            ("separate", "of each right one, with the other right ones of the query left out", 2,
             lambda at, k: share(at.total(at.ranks - at.nth <= k), at.positives)),
            ("mrr", "is MRR@k: 1 / the first right rank within k", 2,
             lambda at, k: np.where(at.best <= k, 1 / at.best, 0.0)),
            ("ndcg", "is nDCG@k", 2, ranks.ndcg),
            ("map", "is MAP@k", 2, ranks.average_precision),
        )
    )),
    # k as printed → k
    Axis("cutoffs", "how deep is @k?", (
        Choice("from 0", "ranks counted from 0, so that @k is @(k + 1)", do=lambda k: k + 1),
        Choice("below k", "ranks below k counted, so that @k is @(k − 1)", do=lambda k: k - 1),
        *(_cutoffs(f"@{k} is @{other}", {k: other}, f"what is printed as @{k} is @{other}")
          for k in (1, 5, 10)
          for other in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 50, 100) if other != k),
        _cutoffs("reversed", {1: 10, 10: 1}, "the columns of the cut-offs in reverse order"),
        _cutoffs("rotated", {1: 5, 5: 10, 10: 1}, "the columns of the cut-offs rotated: @5, @10, @1 for @1, @5, @10"),
        _cutoffs("rotated back", {1: 10, 5: 1, 10: 5},
                 "the columns of the cut-offs rotated: @10, @1, @5 for @1, @5, @10"),
        _cutoffs("first two exchanged", {1: 5, 5: 1}, "the columns of @1 and @5 exchanged"),
        _cutoffs("last two exchanged", {5: 10, 10: 5}, "the columns of @5 and @10 exchanged"),
        _cutoffs("1, 10, 50", {5: 10, 10: 50}, "what is printed as @1, @5, @10 is 1, 10, 50"),
        _cutoffs("1, 10, 100", {5: 10, 10: 100}, "what is printed as @1, @5, @10 is 1, 10, 100"),
        _cutoffs("5, 10, 20", {1: 5, 5: 10, 10: 20}, "what is printed as @1, @5, @10 is 5, 10, 20"),
    )),
    # (lowest, highest) of a share in percent → as printed
    Axis("unit", "in which unit is it printed?", (
        Choice("fraction", "printed as fractions of 1, not in percent", do=lambda low, high: (low / 100, high / 100)),
        Choice("missed", "what is missed is printed: 100 less the value", 2,
               do=lambda low, high: (100 - high, 100 - low)),
    )),
    # in which ways our values agree (`fits` of search.py) → whether all printed digits follow
    Axis("digits", "how were further digits dropped?", (
        Choice("cut", "further digits cut off, not rounded",
               do=lambda ways: "truncated" in ways and ways <= {"truncated", "summed", "bounded", "rounded down"}),
        Choice("mixed", "further digits cut off in some values and rounded in others", 2,
               do=lambda ways: "off" not in ways),
        Choice("up", "rounded up always", 2, do=lambda ways: ways <= {"rounded", "rounded down", "bounded"}),
    )),
    # (task, k as printed, or 0 of a measure without one) → the columns whose mean is printed there
    Axis("direction", "which direction is which?", (
        Choice("swapped", "image-to-text and text-to-image swapped", do=lambda task, k: ((OTHER[task], k),)),
        Choice("mean", "the mean of image-to-text and text-to-image", 2,
               do=lambda task, k: ((task, k), (OTHER[task], k))),
    )),
    # the same
    Axis("columns", "in which order are the columns of both directions?", (
        *(Choice(f"@{cutoff} swapped", f"image-to-text and text-to-image swapped in the columns of @{cutoff}", 2,
                 do=lambda task, k, cutoff=cutoff: ((OTHER[task] if k == cutoff else task, k),))
          for cutoff in (1, 5, 10)),
        _columns("by cutoff", "the columns in the order of cutoffs (both @1, both @5, both @10), image-to-text first",
                 (0, 3, 1, 4, 2, 5)),
        _columns("by cutoff, text-to-image first",
                 "the columns in the order of cutoffs (both @1, both @5, both @10), text-to-image first",
                 (3, 0, 4, 1, 5, 2)),
        _columns("by direction", "the columns in the order of directions, read as in the order of cutoffs",
                 (0, 2, 4, 1, 3, 5)),
        _columns("moved left", "all six columns rotated by one, to the left", (1, 2, 3, 4, 5, 0)),
        _columns("moved right", "all six columns rotated by one, to the right", (5, 0, 1, 2, 3, 4)),
    )),
    # (the sum of the recalls, our mean DCG) → rsum
    Axis("sum", "what does rsum add up?", (
        Choice("with DCG", "rsum is the sum of the recalls and the mean DCG", do=lambda total, dcg: total + dcg),
        Choice("mean", "rsum is the mean of the three recalls", do=lambda total, dcg: total / 3),
    )),
)  # fmt: skip
"""Every axis, from what is searched to how it is printed; beside each, what kind of function it takes."""

BY_NAME = {axis.name: axis for axis in AXES}
RULES: dict[str, Rule] = {
    "list": Rule(closed=True),
    "any alike": BY_NAME["positives"]["any alike"].do,
    **{choice.name: choice.do for choice in BY_NAME["ties"].choices},
}
"""By name of a rule for equal scores."""
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

    def columns(self, task: str, k: int = 0) -> tuple[tuple[str, int], ...]:
        """The columns (task, cutoff) whose mean is printed in a column; 0 is the cutoff of a measure without one."""
        ways = self.do("columns") or self.do("direction") or (lambda task, k: ((task, k),))
        columns: tuple[tuple[str, int], ...] = ways(task, k)
        return columns

    def only(self, axes: tuple[str, ...]) -> Reading:
        """The reading with its choices on these axes only."""
        return Reading(tuple(pair for pair in self.choices if pair[0] in axes))


# Which readings are tried, plainest first: none, one departure, pairs, a few named triples.

USUAL_TIES = ("optimistic", "pessimistic", "any order")
"""What scripts do that count the scores above, or at least, that of the right one, and what noise does: a few equal
scores show beside another departure only, so these go with every one."""
ALONE = frozenset({"cutoffs", "columns", "depth", "queries", "links", "copies", "unit"})
"""Axes whose rare choices are tried alone only: with a second departure they fit small values by accident."""
NEVER_TOGETHER = (
    frozenset({"positives", "recall"}),
    frozenset({"positives", "copies"}),
    frozenset({"copies", "folds"}),
    frozenset({"ties", "positives"}),
    frozenset({"depth", "cutoffs"}),
    frozenset({"direction", "columns"}),
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
                # The first images of a larger split are what a script takes that was written for a smaller one.
                usual |= first.name == "split" and second.name == "gallery" and other.name.startswith("first")
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
