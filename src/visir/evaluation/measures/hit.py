"""Hit: whether any positive is in the top k."""

from visir.evaluation.measures.base import Measure, Positives, Values


def _hit(positives: Positives, k: float) -> Values:
    return (positives.first <= k).astype(float)


HIT = Measure(
    name="hit",
    title="Hit at k",
    formula="1 if min rank of the positives <= k, else 0",
    says="Is any right answer among the first k?",
    cutoff_says="how many answers are looked at",
    papers='R@k, "Recall@k" (VSE++, CLIP, thesis chapters 2 and 4): only the best-ranked of the five captions counts',
    source="thesis section 4.B (ICR evaluation); trec_eval success_k, ir_measures Success@k",
    compute=_hit,
    aliases=("success", "hit_rate", "accuracy"),
    differs="recall@k, the share of the positives; the `hits@k` of ranx counts them",
)
