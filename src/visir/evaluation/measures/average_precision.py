"""Average precision with its two divisors, and up to rank R."""

import numpy as np

from visir.evaluation.measures.base import Measure, Positives, Values


def _precision_sum(positives: Positives, k: float) -> Values:
    """(n,) the sum of the precisions at the ranks of the positives down to k: the i-th positive at rank r gives i/r."""
    return positives.sum(np.where(positives.rank <= k, positives.ordinal / positives.rank, 0.0))


def _map(positives: Positives, k: float) -> Values:
    return positives.share(_precision_sum(positives, k), positives.count)


def _capped_map(positives: Positives, k: float) -> Values:
    return positives.share(_precision_sum(positives, k), np.minimum(k, positives.count))


def _map_at_r(positives: Positives, _: float) -> Values:
    within = positives.rank <= positives.count[positives.query]
    total = positives.sum(np.where(within, positives.ordinal / positives.rank, 0.0))
    return positives.share(total, positives.count)


MAP = Measure(
    name="map",
    title="Mean average precision (over all R positives)",
    formula="(1/R) * sum over positives at rank r <= k of precision@r",
    says="How early do the right answers come, all of them? The divisor is R also where k < R (then below 1 at best).",
    cutoff="optional",
    cutoff_says="positives beyond this rank count 0; without it the whole ranking counts",
    papers="mAP, mAP@k",
    source="trec_eval map and map_cut_k, ir_measures AP and AP@k",
    compute=_map,
    aliases=("AP", "average_precision", "mean_average_precision", "map_cut"),
    differs="capped_map@k, which divides by min(R, k)",
)
CAPPED_MAP = Measure(
    name="capped_map",
    title="Mean average precision (over min(R, k))",
    formula="(1/min(R, k)) * sum over positives at rank r <= k of precision@r",
    says="As map@k, over as many positives as could be in the top k, so that 1 can be reached.",
    cutoff_says="how many answers are looked at",
    papers="mAP@k in recommender and Kaggle scripts; equal to map@k when no query has more than k positives",
    source="the usual apk() of recommender evaluation",
    compute=_capped_map,
    aliases=("APK", "MAPK"),
    differs="map@k, which divides by R",
)
MAP_AT_R = Measure(
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
)
