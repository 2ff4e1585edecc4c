"""Reciprocal rank of the first positive."""

import numpy as np

from visir.evaluation.measures.base import Measure, Positives, Values


def _mrr(positives: Positives, k: float) -> Values:
    # A positive that was not retrieved has an infinite rank, and 1 / infinity is 0: also without a cutoff.
    return np.where(positives.first <= k, 1.0 / positives.first, 0.0)


MRR = Measure(
    name="mrr",
    title="Mean reciprocal rank",
    formula="1 / (rank of the first positive), 0 if that is beyond k",
    says="How far up is the first right answer? 1 at rank 1, 1/2 at rank 2, 1/3 at rank 3.",
    cutoff="optional",
    cutoff_says="beyond this rank nothing counts; without it the whole ranking counts",
    papers="MRR, MRR@10 (MS MARCO)",
    source="trec_eval recip_rank, ir_measures RR and RR@k",
    compute=_mrr,
    aliases=("RR", "recip_rank", "reciprocal_rank", "mean_reciprocal_rank"),
    differs="leaving out queries whose positives were not found; here they count 0",
)
