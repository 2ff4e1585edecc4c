"""Capped recall: the positives in the top k, divided by the largest possible number."""

import numpy as np

from visir.evaluation.measures.base import Measure, Positives, Values


def _capped_recall(positives: Positives, k: float) -> Values:
    return positives.share(positives.sum(positives.rank <= k), np.minimum(k, positives.count))


CAPPED_RECALL = Measure(
    name="capped_recall",
    title="Capped recall at k",
    formula="|positives in the top k| / min(k, R)",
    says="How many of the right answers that could be among the first k are there? Can fall as k grows up to R.",
    cutoff_says="how many answers are looked at",
    papers="R@k of the brittleness paper for image-to-text (hence its R@5 < R@1); with one positive the same as hit@k",
    source="brittleness paper, Table 3 (recomputed from its runs); BEIR calls it R_cap@k",
    compute=_capped_recall,
    aliases=("R_cap", "recall_cap"),
    differs="recall@k, which divides by R also where k < R",
)
