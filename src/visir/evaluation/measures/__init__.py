"""Measures: what a ranking is worth, from the ranks of its positives alone; their names, and values query by query.

A new measure is a function and a line of `_OWN`; other packages add theirs by entry points.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

import visir.stats as stats
from visir.display import Tabular
from visir.errors import ConfigurationError, ProtocolError, VisirError, raise_faults
from visir.plugins import MEASURES as GROUP
from visir.records import Ranks, Recall
from visir.registry import Registry

__all__ = [
    "DEFAULT_MEASURES",
    "MEASURES",
    "Measure",
    "Named",
    "Positives",
    "aggregate",
    "base_of",
    "is_called",
    "measure",
    "parse",
    "read_measure",
    "rsum",
]

Values = NDArray[np.float64]
"""(n,) one value per query."""


class Positives:
    """`Ranks` laid out for arithmetic over all queries at once.

    Attributes:
        source: The ranks.
        n: The number of queries.
        count: (n,) the number of positives of each query.
        query: (m,) the query of each positive.
        rank: (m,) its rank; infinite if it was not retrieved, so every comparison `rank <= k` is right without a
            special case.
        ordinal: (m,) its position among the positives of its query, from 1.
        grade: (m,) its grade.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.source = ranks
        self.n = len(ranks)
        self.count = ranks.positives.astype(np.float64)
        self.query = np.repeat(np.arange(self.n), ranks.positives)
        self.rank = np.where(ranks.ranks > 0, ranks.ranks, np.inf).astype(np.float64)
        self.ordinal = (np.arange(len(self.query)) - np.repeat(ranks.offsets[:-1], ranks.positives) + 1).astype(
            np.float64
        )
        self.grade = ranks.grades.astype(np.float64)

    def sum(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Values:
        """(n,) the sum of the positives' values, query by query, in the order of rank."""
        return np.bincount(self.query, values, self.n).astype(np.float64)

    def share(self, numerator: Values, denominator: Values) -> Values:
        """(n,) the quotient; 0 for a query without any positive, as trec_eval counts it."""
        return np.divide(numerator, denominator, out=np.zeros(self.n), where=denominator > 0)

    @cached_property
    def first(self) -> Values:
        """(n,) the rank of the first positive; infinite where none was retrieved."""
        first = np.full(self.n, np.inf)
        has_positives = self.source.positives > 0
        first[has_positives] = self.rank[self.source.offsets[:-1][has_positives]]
        return first

    @cached_property
    def ideal(self) -> NDArray[np.float64]:
        """(m,) the grades of each query in descending order: the best possible ranking."""
        if len(self.grade) == 0 or (self.grade == self.grade[0]).all():
            return self.grade
        return self.grade[np.lexsort((-self.grade, self.query))]


Compute = Callable[[Positives, float], Values]
"""(positives, cutoff) -> one value per query; the cutoff is infinite for the whole ranking."""


@dataclass(frozen=True)
class Measure:
    """A measure with its description: the list of the command line and the tables of the docs are printed from it.

    Attributes:
        name: The name without cutoff ("hit").
        title: The name in words.
        formula: The formula in plain text.
        says: One sentence for the reader.
        papers: What papers on image–caption retrieval call it.
        source: Where the definition is from.
        compute: The function.
        cutoff: "required" (hit@5), "optional" (mrr, mrr@10) or "none" (median_rank).
        cutoff_says: What the number after "@" means.
        aliases: Other names that people type, without cutoff; case, "-", "_" and spaces do not matter.
        differs: The other reading of this name, and where it is used.
        best: Whether "high" or "low" is better.
        unit: "fraction" in [0, 1], "rank" from 1, or "gain".
        aggregate: How the values of the queries become one number.
        joined: Of measures of items: whether all queries of an item in the same "task", or in "all" tasks, must be
            right. `compute` gives the value of a single query (`visir.evaluation.folds`).
    """

    name: str
    title: str
    formula: str
    says: str
    papers: str
    source: str
    compute: Compute
    cutoff: Literal["required", "optional", "none"] = "required"
    cutoff_says: str = ""
    aliases: tuple[str, ...] = ()
    differs: str = ""
    best: Literal["high", "low"] = "high"
    unit: Literal["fraction", "rank", "gain"] = "fraction"
    aggregate: Literal["mean", "median"] = "mean"
    joined: Literal["", "task", "all"] = ""

    @property
    def pattern(self) -> str:
        """The form of the name: "hit@k", "mrr[@k]", "median_rank"."""
        return self.name + {"required": "@k", "optional": "[@k]", "none": ""}[self.cutoff]


# Measures as people type them: "R@1", "nDCG@10", "AP(rel=2)@10", "P_5"; from what is typed to one form of the name.


_FORM = re.compile(r"(?P<base>[^@(]*)(?:\((?P<parameters>[^)]*)\))?(?P<at>@(?P<cutoff>.*))?")
_TREC = re.compile(r"(?P<base>[A-Za-z][A-Za-z_]*?)_(?P<cutoff>[1-9]\d*)")
"""The names of trec_eval: P_5, ndcg_cut_10, recall_100."""
_GAINS = {"log2": "ndcg", "exp-log2": "ndcg_exp"}
"""ir_measures' parameter `dcg` of nDCG."""
_GRADED = ("ndcg", "ndcg_exp")
"""Measures that weigh every grade: `rel` means nothing to them."""


@dataclass(frozen=True)
class Named:
    """A measure with its parameters, as a user names it.

    Attributes:
        name: The one form of the name: "hit@5", "map(rel=2)@10". Columns of results have it.
        measure: The measure.
        k: The cutoff; None for the whole ranking.
        rel: The lowest grade that counts as right; None for every grade above 0.
    """

    name: str
    measure: Measure
    k: int | None
    rel: float | None = None


class Names:
    """The names of measures, and what else people call them."""

    def __init__(self, measures: Iterable[tuple[str, Measure]]) -> None:
        self.measures = dict(measures)
        self._known: dict[str, str] = {}
        for name, measure in self.measures.items():
            for alias in measure.aliases:
                self._known.setdefault(_plain(alias), name)
        self._known |= {_plain(name): name for name in self.measures}  # a measure's own name is nobody's alias

    def read(self, typed: str, recall: Recall = "hit") -> Named | str:
        """Read one name."""
        text = typed.strip()
        if text not in self.measures and (old := _TREC.fullmatch(text)):
            text = f"{old['base']}@{old['cutoff']}"
        if _plain(text) in self._known:  # also "map@r", which has no cutoff
            return self._checked(typed, self._known[_plain(text)], None, "", {})
        form = _FORM.fullmatch(text)
        base = form["base"] if form else ""
        whole = _plain(f"{base}{form['at'] or ''}") if form else ""
        name = recall if _plain(base) == "r" else self._known.get(_plain(base), "")
        if form is None or not name:
            return self._unknown(typed, base)
        parameters = _parameters(form["parameters"] or "")
        if isinstance(parameters, str):
            return f"{typed!r}: {parameters}"
        if whole in self._known:  # "map(rel=2)@r"
            return self._checked(typed, self._known[whole], None, "", parameters)
        return self._checked(typed, name, form["at"], form["cutoff"] or "", parameters)

    def _checked(
        self, typed: str, name: str, at: str | None, cutoff: str, parameters: Mapping[str, str]
    ) -> Named | str:
        faults = [f"{key}={value}" for key, value in parameters.items() if not _is_possible(key, value, name)]
        if faults:
            return (
                f"{typed!r}: {', '.join(faults)} is not possible (known: rel=GRADE, the lowest grade that counts, of "
                "measures without gains; dcg='log2' or 'exp-log2', of ndcg)"
            )
        if name in _GRADED and "dcg" in parameters:
            name = _GAINS[parameters["dcg"]]
        measure = self.measures[name]
        if measure.cutoff == "none" and at:
            return f"{typed!r}: {name} takes no cutoff; write {name!r}"
        if measure.cutoff == "required" and not cutoff:
            return f"{typed!r} needs a cutoff, for example {name}@10"
        if at and not (cutoff.isascii() and cutoff.isdigit() and int(cutoff) > 0):
            return f"{typed!r}: the cutoff must be a whole number from 1, not {cutoff!r}"
        rel = float(parameters["rel"]) if "rel" in parameters else None
        base, at, end = name.partition("@")  # of "map@r" the end is no cutoff
        written = f"{base}{'' if rel is None else f'(rel={rel:g})'}{at}{end}{f'@{int(cutoff)}' if cutoff else ''}"
        return Named(written, measure, int(cutoff) if cutoff else None, rel)

    def _unknown(self, typed: str, base: str) -> str:
        patterns = {name: measure.pattern for name, measure in self.measures.items()}
        close = difflib.get_close_matches(_plain(base or typed), self._known, n=1, cutoff=0.5)
        meant = f"did you mean {patterns[self._known[close[0]]]!r}? " if close else ""
        return f"unknown measure {typed!r} ({meant}known: {', '.join(sorted(patterns.values()))})"


def base_of(name: str) -> str:
    """The measure of a column of a result: its name without cutoff and parameters.

    Args:
        name: The name of the column.

    Returns:
        The name of the measure, as far as it is one.

    Example:
        >>> base_of("map(rel=2)@10"), base_of("map@r"), base_of("median_rank")
        ('map', 'map@r', 'median_rank')
    """
    bare = re.sub(r"\([^)]*\)", "", name)
    return bare if bare == "map@r" else bare.partition("@")[0]


def _plain(name: str) -> str:
    """The name without what does not matter: case, "-", "_", spaces."""
    return re.sub(r"[\s_\-]", "", name).casefold()


def _parameters(text: str) -> dict[str, str] | str:
    """The parameters by name, as ir_measures writes them; or a line that says what is wrong."""
    parameters: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            return f"parameters are written (rel=2), not ({text})"
        key, value = key.strip(), value.strip().strip("'\"")
        if key == "judged_only" and value == "False":
            continue  # what is done in any case
        parameters[key] = value
    return parameters


def _is_possible(key: str, value: str, name: str) -> bool:
    if key == "rel":
        return bool(re.fullmatch(r"\d+(\.\d+)?", value)) and float(value) > 0 and name not in _GRADED
    return key == "dcg" and value in _GAINS and name in _GRADED


# The measures: what has more than a line to compute, then one entry each.


def _precision_sum(positives: Positives, k: float) -> Values:
    """(n,) the sum of the precisions at the ranks of the positives down to k: the i-th positive at rank r gives i/r."""
    return positives.sum(np.where(positives.rank <= k, positives.ordinal / positives.rank, 0.0))


def _map_at_r(positives: Positives, _: float) -> Values:
    within = positives.rank <= positives.count[positives.query]
    total = positives.sum(np.where(within, positives.ordinal / positives.rank, 0.0))
    return positives.share(total, positives.count)


def _all_first(positives: Positives, _: float) -> Values:
    behind = positives.rank > positives.count[positives.query]
    right: Values = ((positives.count > 0) & (positives.sum(behind) == 0)).astype(np.float64)
    return right


def _ndcg(gain: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Callable[[Positives, float], Values]:
    def compute(positives: Positives, k: float) -> Values:
        rank, best = positives.rank, positives.ordinal
        got = positives.sum(np.where(rank <= k, gain(positives.grade) / np.log2(rank + 1), 0.0))
        ideal = positives.sum(np.where(best <= k, gain(positives.ideal) / np.log2(best + 1), 0.0))
        return positives.share(got, ideal)

    return compute


def _first_rank(positives: Positives, _: float) -> Values:
    # Not retrieved: one rank below the last retrieved one. In a cut run the rank is not known, and `Result.beyond`
    # counts such queries; the median is exact as long as it lies within the run. (The other reading leaves such
    # queries out; then a system would look better the less it finds.)
    return np.where(np.isinf(positives.first), float(positives.source.last + 1), positives.first)


def _rprecision(positives: Positives, _: float) -> Values:
    hits = positives.sum(positives.rank <= positives.count[positives.query])
    return positives.share(hits, positives.count)


_NOTE = "A query whose positives were not retrieved counts as (depth + 1); the result says how many there are."
_OWN = (
    Measure(
        name="hit",
        title="Hit at k",
        formula="1 if min rank of the positives <= k, else 0",
        says="Is any right answer among the first k?",
        cutoff_says="how many answers are looked at",
        papers='R@k, "Recall@k" (VSE++, CLIP, thesis chapters 2 and 4): only the best-ranked of the five captions '
        "counts",
        source="thesis section 4.B (ICR evaluation); trec_eval success_k, ir_measures Success@k",
        compute=lambda positives, k: (positives.first <= k).astype(float),
        aliases=("success", "hit_rate", "accuracy"),
        differs="recall@k, the share of the positives; the `hits@k` of ranx counts them",
    ),
    Measure(
        name="recall",
        title="Recall at k",
        formula="|positives in the top k| / R, with R the number of positives",
        says="How many of the right answers are among the first k? With 5 captions per image, recall@1 is at most 0.2.",
        cutoff_says="how many answers are looked at",
        papers="recall in information retrieval; rarely what ICR papers mean by R@k (that is hit@k)",
        source="trec_eval recall_k, ir_measures R@k",
        compute=lambda positives, k: positives.share(positives.sum(positives.rank <= k), positives.count),
        aliases=("set_recall",),
        differs="hit@k, which papers on image–text retrieval call R@k or Recall@k; capped_recall@k",
    ),
    Measure(
        name="capped_recall",
        title="Capped recall at k",
        formula="|positives in the top k| / min(k, R)",
        says="How many of the right answers that could be among the first k are there? Can fall as k grows up to R.",
        cutoff_says="how many answers are looked at",
        papers="R@k of the brittleness paper for image-to-text (hence its R@5 < R@1); with one positive the same as "
        "hit@k",
        source="brittleness paper, Table 3 (recomputed from its runs); BEIR calls it R_cap@k",
        compute=lambda positives, k: positives.share(
            positives.sum(positives.rank <= k), np.minimum(k, positives.count)
        ),
        aliases=("R_cap", "recall_cap"),
        differs="recall@k, which divides by R also where k < R",
    ),
    Measure(
        name="precision",
        title="Precision at k",
        formula="|positives in the top k| / k, also where fewer than k documents were answered",
        says="How many of the first k answers are right?",
        cutoff_says="how many answers are looked at",
        papers="Precision@K in category-to-image retrieval (thesis chapter 7)",
        source="trec_eval P_k, ir_measures P@k",
        compute=lambda positives, k: positives.sum(positives.rank <= k) / k,
        aliases=("P", "prec"),
        differs="dividing by the number of answers where there are fewer than k",
    ),
    Measure(
        name="mrr",
        title="Mean reciprocal rank",
        formula="1 / (rank of the first positive), 0 if that is beyond k",
        says="How far up is the first right answer? 1 at rank 1, 1/2 at rank 2, 1/3 at rank 3.",
        cutoff="optional",
        cutoff_says="beyond this rank nothing counts; without it the whole ranking counts",
        papers="MRR, MRR@10 (MS MARCO)",
        source="trec_eval recip_rank, ir_measures RR and RR@k",
        # A positive that was not retrieved has an infinite rank, and 1 / infinity is 0: also without a cutoff.
        compute=lambda positives, k: np.where(positives.first <= k, 1.0 / positives.first, 0.0),
        aliases=("RR", "recip_rank", "reciprocal_rank", "mean_reciprocal_rank"),
        differs="leaving out queries whose positives were not found; here they count 0",
    ),
    Measure(
        name="map",
        title="Mean average precision (over all R positives)",
        formula="(1/R) * sum over positives at rank r <= k of precision@r",
        says="How early do the right answers come, all of them? The divisor is R also where k < R (then below 1 at "
        "best).",
        cutoff="optional",
        cutoff_says="positives beyond this rank count 0; without it the whole ranking counts",
        papers="mAP, mAP@k",
        source="trec_eval map and map_cut_k, ir_measures AP and AP@k",
        compute=lambda positives, k: positives.share(_precision_sum(positives, k), positives.count),
        aliases=("AP", "average_precision", "mean_average_precision", "map_cut"),
        differs="capped_map@k, which divides by min(R, k)",
    ),
    Measure(
        name="capped_map",
        title="Mean average precision (over min(R, k))",
        formula="(1/min(R, k)) * sum over positives at rank r <= k of precision@r",
        says="As map@k, over as many positives as could be in the top k, so that 1 can be reached.",
        cutoff_says="how many answers are looked at",
        papers="mAP@k in recommender and Kaggle scripts; equal to map@k when no query has more than k positives",
        source="the usual apk() of recommender evaluation",
        compute=lambda positives, k: positives.share(_precision_sum(positives, k), np.minimum(k, positives.count)),
        aliases=("APK", "MAPK"),
        differs="map@k, which divides by R",
    ),
    Measure(
        name="map@r",
        title="Mean average precision at R",
        formula="(1/R) * sum over positives at rank r <= R of precision@r, R the query's own number of positives",
        says="How many of the first R answers are right, and how early?",
        cutoff="none",
        papers="mAP@R of ECCV Caption",
        source="Musgrave et al. 2020, A Metric Learning Reality Check, section 2; Chun et al. 2022, ECCV Caption",
        compute=_map_at_r,
        aliases=("AP@R",),
        differs="map, over the whole ranking",
    ),
    Measure(
        name="rprecision",
        title="R-precision",
        formula="|positives in the top R| / R, R the query's own number of positives",
        says="If as many answers are taken as there are right ones, how many of them are right?",
        cutoff="none",
        papers="R-P (latent target decoding, section 4, on COCO with CxC), R-Precision (ECCV Caption, thesis chapter "
        "7)",
        source="trec_eval Rprec, ir_measures Rprec",
        compute=_rprecision,
        aliases=("Rprec", "R-P", "RP", "r_prec"),
        differs="precision@R with one R for all queries",
    ),
    Measure(
        name="ndcg",
        title="Normalised discounted cumulative gain, linear gain",
        formula="DCG/ideal DCG, DCG = sum over ranks r <= k of grade / log2(r + 1)",
        says="How early do the right answers come, better-graded ones weighing more, relative to the best possible "
        "order?",
        cutoff="optional",
        cutoff_says="how many answers are looked at, in the ranking and in the ideal one",
        papers="nDCG@k",
        source="Järvelin and Kekäläinen 2002; trec_eval ndcg_cut_k, ir_measures nDCG@k",
        compute=_ndcg(lambda grade: grade),
        aliases=("ndcg_cut", "nDCG_lin"),
        differs="ndcg_exp, with gain 2^grade - 1; the same where all grades are 1",
    ),
    Measure(
        name="ndcg_exp",
        title="Normalised discounted cumulative gain, exponential gain",
        formula="as ndcg, with gain 2^grade - 1 in place of grade",
        says="As ndcg, with high grades weighing much more. Equal to ndcg when all grades are 1.",
        cutoff="optional",
        cutoff_says="how many answers are looked at, in the ranking and in the ideal one",
        papers="nDCG@k of learning-to-rank papers",
        source="Burges et al. 2005, Learning to Rank using Gradient Descent, section 7",
        compute=_ndcg(lambda grade: np.exp2(grade) - 1),
        aliases=("ndcg_burges",),
        differs="ndcg, with the grade as gain",
    ),
    Measure(
        name="median_rank",
        title="Median rank",
        formula="median over queries of the rank of the first positive, from 1",
        says=f"At which rank does the typical query find its first right answer? {_NOTE}",
        cutoff="none",
        papers="Med r (VSE++, DeViSE)",
        source="Frome et al. 2013; Faghri et al. 2018, VSE++, section 4",
        compute=_first_rank,
        aliases=("MedR", "med_rank"),
        differs="the median over queries that found something only",
        best="low",
        unit="rank",
        aggregate="median",
    ),
    Measure(
        name="mean_rank",
        title="Mean rank",
        formula="mean over queries of the rank of the first positive, from 1",
        says=f"At which rank is the first right answer on average? {_NOTE}",
        cutoff="none",
        papers="Mean r (VSE++)",
        source="Faghri et al. 2018, VSE++, section 4",
        compute=_first_rank,
        aliases=("MeanR", "MnR"),
        differs="the mean over queries that found something only",
        best="low",
        unit="rank",
    ),
    Measure(
        name="all_first",
        title="All positives first",
        formula="1 if every positive has a better rank than every other candidate, else 0",
        says="Does the system choose right?",
        cutoff="none",
        papers="accuracy of a choice: SugarCrepe, ARO, VALSE (pairwise), SugarCrepe++ (both captions above the wrong "
        "one)",
        source="Yuksekgonul et al. 2023, ARO; Dumpala et al. 2024, SugarCrepe++",
        compute=_all_first,
        aliases=("choice_accuracy", "pairwise_accuracy"),
        differs="hit@1, for which one of several positives is enough",
    ),
    Measure(
        name="item_score",
        title="Item score",
        formula="1 if all_first is 1 for every query of the item in this task, else 0",
        says="Does the system choose right for all queries of an item (those with one label `group`)?",
        cutoff="none",
        papers="text score (of i2t) and image score (of t2i) of Winoground and EqBen; accuracy of COLA (t2i); "
        "text-only accuracy of SugarCrepe++ (t2t)",
        source="Thrush et al. 2022, Winoground",
        compute=_all_first,
        aliases=("text_score", "image_score"),
        differs="all_first, which counts every query by itself and is higher",
        joined="task",
    ),
    Measure(
        name="group_score",
        title="Group score",
        formula="1 if all_first is 1 for every query of the item in all tasks, else 0",
        says="Does the system choose right for all queries of an item, in every direction?",
        cutoff="none",
        papers="group score of Winoground and EqBen. Chance is 1/6, not 1/16: the four choices share four scores",
        source="Thrush et al. 2022, Winoground",
        compute=_all_first,
        joined="all",
    ),
)

MEASURES: Registry[Measure] = Registry("measure", group=GROUP, of=Measure)
for _measure in _OWN:
    MEASURES.add(_measure.name, _measure)

DEFAULT_MEASURES: tuple[str, ...] = (
    *(f"{recall}@{k}" for recall in ("hit", "recall", "capped_recall") for k in (1, 5, 10)),
    *("mrr", "map@r", "rprecision", "ndcg@10", "median_rank", "mean_rank"),
)
"""The default measures: the three recalls that papers call R@k, and one of each other kind."""


def read_measure(typed: str, recall: Recall = "hit") -> Named | str:
    """Read the name of a measure as people type it.

    Args:
        typed: "R@1", "hit@5", "nDCG@10", "AP(rel=2)@10", "MRR", …; `visir.measures()` lists all.
        recall: The recall that "R@k" means.

    Returns:
        The measure; or, if there is none of this name, a line that says why.

    Example:
        >>> read_measure("nDCG@10").name, read_measure("R@1").name, read_measure("R@1", "capped_recall").name
        ('ndcg@10', 'hit@1', 'capped_recall@1')
    """
    own = Names((measure.name, measure) for measure in _OWN).read(typed, recall)
    return own if isinstance(own, Named) else Names(MEASURES.items()).read(typed, recall)  # looks for other packages


def parse(names: Sequence[str], recall: Recall = "hit") -> list[Named]:
    """Look up measures by name.

    Args:
        names: "hit@5", "map@r", "mrr", …, or as people type them: "R@5", "nDCG@10", "AP(rel=2)@10". Two names of one
            measure are one. Measures of `ir_measures` are read by what they print.
        recall: The recall that "R@k" means.

    Returns:
        The measures with their cutoffs.

    Raises:
        ConfigurationError: A measure is unknown; a cutoff is missing, needless or impossible; or a name is repeated.
            All faults are listed.

    Example:
        >>> [named.name for named in parse(["R@5", "Success@5", "AP", "P_10"])]
        ['hit@5', 'map', 'precision@10']
    """
    typed = [str(name) for name in names]
    read = [read_measure(name, recall) for name in typed]
    faults = [fault for fault in read if isinstance(fault, str)]
    faults += [f"{name!r} is named twice" for name in dict.fromkeys(typed) if typed.count(name) > 1]
    if not typed:
        faults.append("no measure is named")
    raise_faults(ConfigurationError, "measures", faults, hint="visir.measures() lists them")
    return list({named.name: named for named in read if isinstance(named, Named)}.values())


def is_called(name: str, typed: str) -> bool:
    """Whether a column of a result is what a person types; "R@5" is any of the three recalls.

    Args:
        name: The column.
        typed: The name as typed.

    Example:
        >>> is_called("hit@5", "R@5"), is_called("ndcg@10", "nDCG@10"), is_called("mrr", "MAP")
        (True, True, False)
    """
    if name == typed or name == "rsum" == typed.casefold():
        return True
    read = [read_measure(typed, recall) for recall in get_args(Recall)]
    return any(isinstance(named, Named) and named.name == name for named in read)


# From ranks to values of each query, and from those to one number for each measure.

RSUM_CUTOFFS = (1, 5, 10)


def measure(
    ranks: Ranks,
    names: Sequence[str] = DEFAULT_MEASURES,
    *,
    beyond_depth: bool = False,
    recall: Recall = "hit",
) -> pa.Table:
    """Measure each query.

    A query without any positive scores 0 (its rank is that of a positive that was not found), as in trec_eval.

    Args:
        ranks: The ranks of the positives.
        names: Measures with their cutoffs, as people type them.
        beyond_depth: A cutoff deeper than the run is refused by default: hit@10 of a run with five documents per query
            is hit@5 under a wrong name (so a published R@5 came to equal its R@10). True counts documents outside the
            run as not found, as other tools do silently. Measures without a cutoff (mrr, map, rprecision, …) always do.
        recall: The recall that "R@k" means.

    Returns:
        Column `query_id`, then one float64 column per measure, in the order of `names`, under the one
        form of its name ("R@5" is "hit@5"). Fractions are in [0, 1]; ranks
        count from 1.

    Raises:
        ConfigurationError: A name is unknown or faulty.
        ProtocolError: A cutoff is deeper than the run.

    Example:
        >>> ranks = Ranks(pa.array(["q"]), np.array([0, 1]), np.array([2]), np.ones(1, np.float32), None, 4)
        >>> table = measure(ranks, ["hit@1", "hit@5", "mrr"])
        >>> [table[name][0].as_py() for name in ("hit@1", "hit@5", "mrr")]
        [0.0, 1.0, 0.5]
    """
    requests = parse(names, recall)
    if ranks.depth is not None and not beyond_depth:
        raise_faults(
            ProtocolError,
            f"rankings are {ranks.depth} deep",
            [f"{request.name} looks deeper" for request in requests if (request.k or 0) > ranks.depth],
            hint="search deeper, name a smaller cutoff, or take what is missing as not found (beyond_depth=True)",
            code="rankings-deep",
        )
    by_grade: dict[float | None, Positives] = {}
    columns = {}
    for request in requests:
        if request.rel not in by_grade:
            by_grade[request.rel] = Positives(ranks if request.rel is None else ranks.of_grade(request.rel))
        cutoff = np.inf if request.k is None else float(request.k)
        columns[request.name] = request.measure.compute(by_grade[request.rel], cutoff)
    return pa.table({"query_id": ranks.queries, **columns})


def aggregate(per_query: pa.Table) -> dict[str, float]:
    """Aggregate the per-query values of a table made by `measure`.

    Args:
        per_query: Column `query_id`, then one column per measure. Columns that are not a registered measure
            (`dcg_cm@10`, imported values) are averaged.

    Returns:
        One number per measure: the mean over queries, the median for `median_rank`.
    """
    values = {name: per_query[name].to_numpy() for name in per_query.column_names if name != "query_id"}
    medians = {name for name, measure in MEASURES.items() if measure.aggregate == "median"}
    return {
        name: float(np.median(column) if base_of(name) in medians else np.mean(column))
        for name, column in values.items()
    }


def bounds_of(measure: str) -> tuple[float, float]:
    """Between which values a measure lies for every query of a task: fractions from 0 to 1, ranks from 1."""
    if measure == "rsum":
        return 0.0, 100.0 * len(RSUM_CUTOFFS)
    base = base_of(measure)
    unit = MEASURES.get(base).unit if base in MEASURES else ""
    return {"fraction": (0.0, 1.0), "rank": (1.0, np.inf)}.get(unit, (-np.inf, np.inf))


def measure_estimate(measure: str, values: ArrayLike, clusters: ArrayLike | None = None) -> stats.Estimate:
    """What is printed of a measure, with its 95 % interval: of its median where that is printed, else of its mean."""
    base = base_of(measure)
    is_median = base in MEASURES and MEASURES.get(base).aggregate == "median"
    return stats.estimate(values, clusters, kind="median" if is_median else "auto", bounds=bounds_of(measure))


def beyond_rank(per_query: pa.Table, last: int) -> dict[str, int]:
    """How many queries have a rank beyond the last that was looked at, for each measure that is a rank."""
    names = [name for name in per_query.column_names if base_of(name) in MEASURES]
    ranks = [name for name in names if MEASURES.get(base_of(name)).unit == "rank"]
    counts = {name: int((per_query[name].to_numpy() > last).sum()) for name in ranks}
    return {name: count for name, count in counts.items() if count}


def everyday_name(measure: str, recall: str) -> str:
    """What people call a measure under a protocol whose R@k is `recall`: "hit@1" is R@1."""
    name, sign, cutoff = measure.partition("@")
    return f"R@{cutoff}" if sign and name == recall else measure


def recalls_of(recall: Recall) -> list[str]:
    """The three measures that rsum adds."""
    return [f"{recall}@{k}" for k in RSUM_CUTOFFS]


def rsum(aggregates: Mapping[str, Mapping[str, float]], recall: Recall = "hit") -> dict[str, float]:
    """Sum the recall at 1, 5 and 10.

    The summed recall must be named, because papers sum different ones: thesis section 2.5 and chapter 4 sum hit@k, the
    brittleness paper's Table 3 sums capped_recall@k.

    Args:
        aggregates: {task: {measure: mean as a fraction}}, with `recall` at 1, 5 and 10.
        recall: "hit", "recall" or "capped_recall".

    Returns:
        In percentage points: by task (0–300) and, if there are "i2t" and "t2i", under "both" (0–600).

    Raises:
        ConfigurationError: A recall is missing.

    Example:
        >>> rsum({"t2i": {"hit@1": 0.25, "hit@5": 0.5, "hit@10": 1.0}})
        {'t2i': 175.0}
    """
    names = recalls_of(recall)
    missing = [f"{task}: {name}" for task, have in aggregates.items() for name in names if name not in have]
    raise_faults(
        ConfigurationError,
        f"rsum of {recall} needs {', '.join(names)}",
        missing,
        hint="measure these too",
        code="rsum-needs",
    )
    sums = {task: 100.0 * sum(have[name] for name in names) for task, have in aggregates.items()}
    if {"i2t", "t2i"} <= sums.keys():
        sums["both"] = sums["i2t"] + sums["t2i"]
    return sums


# All measures in a list, as people type them.


@dataclass(frozen=True, repr=False)
class MeasureList(Tabular):
    """The measures, with their formulas and the names that people type."""

    measures: dict[str, Measure]  # the measures by name

    def __len__(self) -> int:
        return len(self.measures)

    def __iter__(self) -> Iterator[Measure]:
        return iter(self.measures.values())

    def __getitem__(self, typed: str) -> Measure:
        """The measure that a name means: "nDCG@10", "AP"."""
        named = read_measure(typed)
        if not isinstance(named, Named):  # without the cutoff that it needs
            named = read_measure(f"{typed}@10")
        if not isinstance(named, Named):
            raise VisirError(str(read_measure(typed)), hint="visir.measures() lists them")
        return named.measure

    def __repr__(self) -> str:
        names = ", ".join(measure.pattern for measure in self.measures.values())
        return f"MeasureList({names})"


def measures() -> MeasureList:
    """List the measures: what each is called, what it computes, and what else its name is used for.

    Wherever measures are named, `visir.evaluate(…, measures=["R@1", "nDCG@10"])`, `evaluation["t2i R@1"]`,
    `visir.compare(…, measures=…)`, `visir evaluate --measure`, names are read as people type them:

    - **R@k** is the recall that the protocol declares: `hit@k` in image–text retrieval ("is one of the positives among
      the first k"), `recall@k` for judgements alone. Every other name has one meaning; `recall@k` is the share of the
      positives.
    - Upper and lower case, "-", "_" and spaces do not matter: `nDCG@10`, `ndcg@10`; `hit_rate@5`, `HitRate@5`.
    - Names of ir_measures, ranx and trec_eval are known: `Success@5`, `RR`, `AP`, `P@5`, `P_5`, `ndcg_cut_10`,
      `recip_rank`, and measures of `ir_measures` themselves.
    - `rel=` is the lowest grade that counts as right: `AP(rel=2)@10`.
    - `rsum` is R@1 + R@5 + R@10 in percentage points.

    Returns:
        The list, which prints itself as a table; `measures()["nDCG"]` is one of them.

    Example:
        >>> import visir
        >>> visir.measures()["Success@5"].name, visir.measures()["AP"].aliases[0]
        ('hit', 'AP')
        >>> print(visir.measures()["R@5"].differs)
        recall@k, the share of the positives; the `hits@k` of ranx counts them

    A measure of your own is a function of the ranks of the positives; `R@k` and the others are written in the same way:

        from visir.evaluation.measures import MEASURES, Measure

        def late(positives, k):
            return positives.sum(positives.rank > k)

        MEASURES.add("late", Measure("late", "Late positives", "|positives behind rank k|", "How many come late?",
                                     "", "own", late, best="low", unit="gain"))
        visir.evaluate(collection, model, measures=["late@10"])
    """
    return MeasureList(dict(MEASURES.items()))
