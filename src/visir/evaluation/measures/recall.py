"""Recall: the share of the positives that is in the top k."""

from visir.evaluation.measures.base import Measure, Positives, Values


def _recall(positives: Positives, k: float) -> Values:
    return positives.share(positives.sum(positives.rank <= k), positives.count)


RECALL = Measure(
    name="recall",
    title="Recall at k",
    formula="|positives in the top k| / R, with R the number of positives",
    says="How many of the right answers are among the first k? With 5 captions per image, recall@1 is at most 0.2.",
    cutoff_says="how many answers are looked at",
    papers="recall in information retrieval; rarely what ICR papers mean by R@k (that is hit@k)",
    source="trec_eval recall_k, ir_measures R@k",
    compute=_recall,
    aliases=("set_recall",),
    differs="hit@k, which papers on image–text retrieval call R@k or Recall@k; capped_recall@k",
)
