"""Precision: the share of the top k that is positive."""

from visir.evaluation.measures.base import Measure, Positives, Values


def _precision(positives: Positives, k: float) -> Values:
    return positives.sum(positives.rank <= k) / k


PRECISION = Measure(
    name="precision",
    title="Precision at k",
    formula="|positives in the top k| / k, also where fewer than k documents were answered",
    says="How many of the first k answers are right?",
    cutoff_says="how many answers are looked at",
    papers="Precision@K in category-to-image retrieval (thesis chapter 7)",
    source="trec_eval P_k, ir_measures P@k",
    compute=_precision,
    aliases=("P", "prec"),
    differs="dividing by the number of answers where there are fewer than k",
)
