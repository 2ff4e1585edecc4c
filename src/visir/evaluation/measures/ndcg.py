"""Normalised discounted cumulative gain, with linear and with exponential gain."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.measures.base import Measure, Positives, Values


def _ndcg(gain: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Callable[[Positives, float], Values]:
    def compute(positives: Positives, k: float) -> Values:
        rank, best = positives.rank, positives.ordinal
        got = positives.sum(np.where(rank <= k, gain(positives.grade) / np.log2(rank + 1), 0.0))
        ideal = positives.sum(np.where(best <= k, gain(positives.ideal) / np.log2(best + 1), 0.0))
        return positives.share(got, ideal)

    return compute


NDCG = Measure(
    name="ndcg",
    title="Normalised discounted cumulative gain, linear gain",
    formula="DCG/ideal DCG, DCG = sum over ranks r <= k of grade / log2(r + 1)",
    says="How early do the right answers come, better-graded ones weighing more, relative to the best possible order?",
    cutoff="optional",
    cutoff_says="how many answers are looked at, in the ranking and in the ideal one",
    papers="nDCG@k",
    source="Järvelin and Kekäläinen 2002; trec_eval ndcg_cut_k, ir_measures nDCG@k",
    compute=_ndcg(lambda grade: grade),
    aliases=("ndcg_cut", "nDCG_lin"),
    differs="ndcg_exp, with gain 2^grade - 1; the same where all grades are 1",
)
NDCG_EXP = Measure(
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
)
