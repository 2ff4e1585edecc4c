"""The readings of a published retrieval number, as data: one table of axes and their choices.

An axis is one question that a printed "R@5 = 58.1" leaves open. A choice is one answer, with the sentence that states
it, its cost, and what is needed to compute it. The first choice of an axis is the plain one: what the result itself
says. To add a reading, add a line here; a choice with a new kind of `value` needs code in the module that computes its
axis, which is named beside each table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from visir.display import Displayed
from visir.evaluation.results import Evaluation
from visir.records import Collection, Protocol, Qrels, Run, Vectors

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
class AxisChoice:
    """One answer to the question of an axis."""

    name: str  # its name within the axis
    words: str  # the sentence part that states it
    # How far it is from plain: 0 plain, 1 a usual difference between papers or a usual slip, 2 a rare one.
    cost: int = 1
    needs: Need = "ranks"  # what it is computed from
    value: Any = None  # what the computation takes: a number, a name, or a pair of them


@dataclass(frozen=True)
class Axis:
    """One open question about a published number."""

    name: str  # its name
    asks: str  # the question
    choices: tuple[AxisChoice, ...]  # the answers; the plain one is not among them, because the result states it

    def __getitem__(self, name: str) -> AxisChoice:
        return next(choice for choice in self.choices if choice.name == name)


_SPLITS = ("val", "test", "train")
_ORDINALS = {1: "second", 2: "third", 3: "fourth", 4: "fifth"}
_CUTOFFS = (1, 5, 10)
_OTHER_CUTOFFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 50, 100)

# computed by world.py
SPLIT = Axis(
    "split",
    "which split was searched?",
    (
        *(AxisChoice(name, f"the {name} split", 2 if name == "train" else 1, "collection", name) for name in _SPLITS),
        AxisChoice("all", "the whole collection, all splits together", 2, "collection", "all"),
    ),
)
LINKS = Axis(
    "links",
    "which caption belongs to which image?",
    (
        AxisChoice("modulo", "caption i taken for one of image i mod n (n images)", 1, "captions"),
        AxisChoice("same number", "caption i taken for that of image i, the other captions left out", 1, "captions"),
        AxisChoice("next image", "the captions shifted by one image", 2, "captions", 1),
        AxisChoice("previous image", "the captions shifted by one image the other way", 2, "captions", -1),
        AxisChoice("next caption", "the captions shifted by one caption", 2, "captions", 1),
        AxisChoice("previous caption", "the captions shifted by one caption the other way", 2, "captions", -1),
        AxisChoice("reversed", "the images in reverse order, the captions not", 2, "captions"),
        AxisChoice("images by id", "the images by id, the captions in the order of the source", 2, "captions"),
        *(
            AxisChoice(f"captions of {name}", f"the captions of the {name} split beside these images, row by row", 1,
                   "collection", name)
            for name in _SPLITS
        ),
    ),
)  # fmt: skip
CAPTIONS = Axis(
    "captions",
    "which captions of each image took part?",
    (
        AxisChoice("all", "all captions of each image", 1, "vectors"),
        AxisChoice("first", "the first caption of each image only", 1, "captions", (0, 1)),
        AxisChoice("first 5", "the first 5 captions of each image only (no sixth captions)", 1, "captions", (0, 5)),
        *(
            AxisChoice(f"first {n}", f"the first {n} captions of each image only", 2, "captions", (0, n))
            for n in (2, 3, 4)
        ),
        *(
            AxisChoice(word, f"the {word} caption of each image only", 2, "captions", (place, place + 1))
            for place, word in _ORDINALS.items()
        ),
        AxisChoice("last", "the last caption of each image only", 2, "captions", "last"),
        AxisChoice("random", "one random caption of each image (seed 0 of visir)", 2, "captions", "random"),
        AxisChoice("mean", "one vector for each image: the mean of its captions' vectors", 2, "vectors", "mean"),
    ),
)
QUERIES = Axis(
    "queries",
    "of which queries is the mean?",
    (
        AxisChoice("first captions", "the first caption of each image as a query; all captions as candidates", 1,
               "captions", "first"),
        AxisChoice("first 1,000", "only the first 1,000 queries, over all candidates", 2, "ranks", 1000),
        AxisChoice("first 500", "only the first 500 queries, over all candidates", 2, "ranks", 500),
        AxisChoice("first 100", "only the first 100 queries, over all candidates", 2, "ranks", 100),
        AxisChoice("any caption", "an image counts as one query, by the caption that ranks it best", 2, "captions",
                   "any"),
        AxisChoice("one per image", "the mean over images of the mean over their captions", 2, "captions", "per image"),
    ),
)  # fmt: skip
POSITIVES = Axis(
    "positives",
    "which candidates are right?",
    (
        AxisChoice("first caption", "only the first caption of an image is right; the others are wrong candidates", 1,
               "captions", "first"),
        AxisChoice("any alike", "candidates with exactly the score of a right one are right too", 2, "scores", "alike"),
    ),
)  # fmt: skip
GALLERY = Axis(
    "gallery",
    "what were the candidates?",
    (
        AxisChoice("judged", "candidates restricted to the images and captions that are judged", 1, "ranks", "judged"),
        AxisChoice("first 1,000", "the first 1,000 images and their captions only", 1, "captions", ("first", 1000)),
        AxisChoice("first half", "the first half of the images, their captions only", 2, "captions", ("first", 0.5)),
        AxisChoice("second half", "the second half of the images, their captions only", 2, "captions", ("last", 0.5)),
        *(
            AxisChoice(f"first {n:,}", f"the first {n:,} images and their captions only", 2, "captions", ("first", n))
            for n in (50, 100, 128, 200, 250, 256, 500, 5000)
        ),
        *(
            AxisChoice(f"last {n:,}", f"the last {n:,} images and their captions only", 2, "captions", ("last", n))
            for n in (100, 500, 1000)
        ),
        *(
            AxisChoice(f"with {name}", f"candidates of the {name} split too", 1, "collection", ("with", name))
            for name in _SPLITS
        ),
        AxisChoice("collection", "candidates of the whole collection", 1, "collection", ("with", "all")),
    ),
)
FOLDS = Axis(
    "folds",
    "one gallery, or the mean over parts of it?",
    (
        AxisChoice("1", "one gallery in place of folds", 1, "vectors", 1),
        AxisChoice("5", "the mean over 5 folds", 1, "captions", ("folds", 5)),
        *(AxisChoice(f"{n}", f"the mean over {n} folds", 2, "captions", ("folds", n)) for n in (2, 3, 4, 8, 10, 20)),
        AxisChoice("every 5th", "the mean over 5 folds, every fifth image in each", 2, "captions", ("every", 5)),
        *(
            AxisChoice(f"batches of {n}", f"the mean over batches of {n} images", 2, "captions", ("batches", n))
            for n in (32, 50, 64, 100, 128, 250, 256, 500, 512)
        ),
    ),
)

# computed by bench.py
SIMILARITY = Axis(
    "similarity",
    "how were vectors compared?",
    (
        AxisChoice("cosine", "cosine of the vectors", 1, "vectors"),
        AxisChoice("dot", "dot product of the vectors as they are, not normalised", 1, "vectors"),
        AxisChoice("euclidean", "Euclidean distance of the vectors as they are, not normalised", 1, "vectors"),
        AxisChoice("images normalised", "only the images' vectors normalised", 2, "vectors"),
        AxisChoice("texts normalised", "only the texts' vectors normalised", 2, "vectors"),
        AxisChoice("signs", "only the signs of the vectors compared", 2, "vectors"),
        AxisChoice("int8", "the vectors cut to whole numbers of 8 bits", 2, "vectors"),
        AxisChoice("centred", "the mean vector of each side subtracted first", 2, "vectors"),
        AxisChoice("standardised", "each dimension of each side standardised first", 2, "vectors"),
        AxisChoice("first half", "only the first half of the dimensions", 2, "vectors", 0.5),
        AxisChoice("first quarter", "only the first quarter of the dimensions", 2, "vectors", 0.25),
        *(AxisChoice(f"first {n}", f"only the first {n} dimensions", 2, "vectors", n) for n in (64, 128, 256, 512)),
        AxisChoice("dual softmax", "scores times their softmax over all queries (dual softmax)", 2, "vectors", 1.0),
        AxisChoice("dual softmax, 100", "scores times the softmax of 100 × scores over all queries (dual softmax)", 2,
                   "vectors", 100.0),
        AxisChoice("csls", "scores less the mean of the 10 nearest on both sides (CSLS)", 2, "vectors"),
    ),
)  # fmt: skip

# computed by ranks.py
TIES = Axis(
    "ties",
    "how were equal scores counted?",
    (
        AxisChoice("optimistic", "equal scores in favour of the system", 1, "scores"),
        AxisChoice("pessimistic", "equal scores against the system", 1, "scores"),
        AxisChoice("average", "equal scores at their average rank", 1, "scores"),
        AxisChoice("source order", "equal scores in the order of the source", 1, "scores"),
        AxisChoice("reverse order", "equal scores in the reverse order of the source", 2, "scores"),
        AxisChoice("id", "equal scores by document id", 1, "scores"),
        AxisChoice("trec", "equal scores by falling document id, as trec_eval does", 2, "scores"),
        AxisChoice("at most", "equal scores against the system, those of other right ones too", 2, "scores"),
        AxisChoice("any order", "equal scores in any order, as numerical noise puts them", 2, "scores"),
        AxisChoice("average of all", "equal scores at their average rank, with other right ones", 2, "scores"),
        AxisChoice("average down", "equal scores at their average rank, all right ones too, rounded down", 2, "scores"),
    ),
)  # fmt: skip
COPIES = Axis(
    "copies",
    "was each image a candidate once?",
    (
        AxisChoice("any", "an image is a candidate once for every caption, any copy is right", 2, "captions", "any"),
        AxisChoice("own", "an image is a candidate once for every caption, only the caption's own copy is right", 1,
               "captions", "own"),
        AxisChoice("last", "an image is a candidate once for every caption, the last copy is right", 2, "captions",
               "last"),
    ),
)  # fmt: skip
DEPTH = Axis(
    "depth",
    "how deep did the ranking go?",
    tuple(
        AxisChoice(str(k), f"only the first {k} ranked: nothing is found behind them (k_test)", 1 if k in (2, 5) else 2,
               "ranks", k)
        for k in (1, 2, 3, 4, 5, 6, 7, 8, 9)
    ),
)  # fmt: skip

# computed by trial.py
RECALL = Axis(
    "recall",
    "which recall is R@k?",
    (
        AxisChoice("hit", "R@k is hit@k: any right one in the first k", 1),
        AxisChoice("recall", "R@k is recall@k: the share of the right ones in the first k", 1),
        AxisChoice("capped_recall", "R@k is capped_recall@k: right ones in the first k / min(k, right ones)", 1),
        AxisChoice(
            "five_capped_recall", "R@k is right ones in the first k / min(k, 5), also of images with a sixth caption", 1
        ),
        AxisChoice("all", "R@k counts a query only if all its right ones are in the first k", 2),
        AxisChoice("pairs", "R@k is the share of all pairs that are found, whatever query they are of", 2),
        AxisChoice("precision", "R@k is precision@k: right ones in the first k / k", 2),
        AxisChoice("separate", "R@k of each right one, with the other right ones of the query left out", 2),
        AxisChoice("mrr", "R@k is MRR@k: 1 / the first right rank within k", 2),
        AxisChoice("ndcg", "R@k is nDCG@k", 2),
        AxisChoice("map", "R@k is MAP@k", 2),
    ),
)
CUTOFFS = Axis(
    "cutoffs",
    "how deep is @k?",
    (
        AxisChoice("from 0", "ranks counted from 0, so that @k is @(k + 1)", 1, "ranks", ("shift", 1)),
        AxisChoice("below k", "ranks below k counted, so that @k is @(k − 1)", 1, "ranks", ("shift", -1)),
        *(
            AxisChoice(f"@{k} is @{other}", f"what is printed as @{k} is @{other}", 2, "ranks", ("label", k, other))
            for k in _CUTOFFS
            for other in _OTHER_CUTOFFS
            if other != k
        ),
        AxisChoice("reversed", "the columns of the cut-offs in reverse order", 2, "ranks", ("map", {1: 10, 10: 1})),
        AxisChoice("1, 10, 50", "what is printed as @1, @5, @10 is 1, 10, 50", 2, "ranks", ("map", {5: 10, 10: 50})),
        AxisChoice("1, 10, 100", "what is printed as @1, @5, @10 is 1, 10, 100", 2, "ranks", ("map", {5: 10, 10: 100})),
        AxisChoice("5, 10, 20", "what is printed as @1, @5, @10 is 5, 10, 20", 2, "ranks",
               ("map", {1: 5, 5: 10, 10: 20})),
    ),
)  # fmt: skip

# computed by trial.py
UNIT = Axis(
    "unit",
    "in which unit is it printed?",
    (
        AxisChoice("fraction", "printed as fractions of 1, not in percent", 1, "ranks", "fraction"),
        AxisChoice("missed", "what is missed is printed: 100 less the value", 2, "ranks", "missed"),
    ),
)
DIGITS = Axis(
    "digits",
    "how were further digits dropped?",
    (
        AxisChoice("cut", "further digits cut off, not rounded", 1, "ranks", "cut"),
        AxisChoice("mixed", "further digits cut off in some values and rounded in others", 2, "ranks", "mixed"),
        AxisChoice("up", "rounded up always", 2, "ranks", "up"),
    ),
)
DIRECTION = Axis(
    "direction",
    "which direction is which?",
    (AxisChoice("swapped", "image-to-text and text-to-image swapped", 1),),
)
SUM = Axis(
    "sum",
    "what does rsum add up?",
    (
        AxisChoice("with DCG", "rsum is the sum of the recalls and the mean DCG", 1, "ranks", "dcg"),
        AxisChoice("mean", "rsum is the mean of the three recalls", 1, "ranks", "mean"),
    ),
)

AXES: tuple[Axis, ...] = (
    SPLIT, LINKS, CAPTIONS, QUERIES, POSITIVES, GALLERY, FOLDS, SIMILARITY, TIES, COPIES, DEPTH, RECALL, CUTOFFS, UNIT,
    DIGITS, DIRECTION, SUM,
)  # fmt: skip
"""Every axis, from what is searched to how it is printed."""

BY_NAME = {axis.name: axis for axis in AXES}

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
        return dict(self.choices).get(axis)

    def __str__(self) -> str:
        return "; ".join(choice.words for choice in self.parts) or PLAIN

    @property
    def parts(self) -> tuple[AxisChoice, ...]:
        """The choices themselves."""
        return tuple(BY_NAME[axis][name] for axis, name in self.choices)

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

    def value(self, axis: str) -> object:
        """What the computation takes on an axis: the value of the choice, or its name; None where it is plain."""
        name = self[axis]
        if name is None:
            return None
        choice = BY_NAME[axis][name]
        return name if choice.value is None else choice.value

    def only(self, axes: tuple[str, ...]) -> Reading:
        """The reading with its choices on these axes only."""
        return Reading(tuple(pair for pair in self.choices if pair[0] in axes))

    def joined(self, other: Reading) -> Reading:
        """Both readings at once."""
        return Reading.of(**dict(self.choices), **dict(other.choices))


GIVE = "its vectors are not at hand (give the collection and the model)"
"""Why a reading of other items, or of other scores, cannot be computed from a result folder."""


class NotComputable(Exception):
    """What is at hand does not allow a reading; the text is the reason."""


@dataclass(frozen=True, eq=False, repr=False)
class Material(Displayed):
    """The data that readings are computed from.

    Attributes:
        runs: By task.
        qrels: By task: the judgements.
        captions: Columns id, image_id of the split in the source's order; without it, captions cannot be chosen and
            folds cannot be cut.
        vectors: (images, texts), dense or sparse, of the split or of the whole collection. With them every reading is
            searched again; without them it is cut out of the run.
        fixed: By task and measure: values of the run as it is (an imported `dcg_cm@10`, an exact `mrr`).
        protocol: The protocol of the runs, if it is known.
        source: The collection of the runs, with all its splits.
    """

    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels]
    captions: pa.Table | None = None
    vectors: tuple[Vectors, Vectors] | None = None
    fixed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    protocol: Protocol | None = None
    source: Collection | None = None

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        vectors: tuple[Vectors, Vectors] | None = None,
        source: Collection | None = None,
    ) -> Material:
        """Collect the data of an evaluation.

        Args:
            evaluation: The evaluation.
            vectors: (images, texts), if at hand.
            source: The collection, if at hand.

        Returns:
            The material.
        """
        result = evaluation.result
        fixed = {
            task: {name: value for name, value in result.aggregates[task].items() if not result.last_rank(task, name)}
            for task in evaluation.runs
        }  # a rank beyond the answers is not known
        return cls(
            evaluation.runs, evaluation.qrels, evaluation.captions, vectors, fixed, result.protocol, source
        )  # fmt: skip
