"""A measure: whether all right answers are among the first k."""

from visir.evaluation.measures import Measure, Positives, Values


def _complete(positives: Positives, k: float) -> Values:
    return ((positives.count > 0) & (positives.sum(positives.rank <= k) == positives.count)).astype(float)


COMPLETE = Measure(
    name="complete",
    title="Complete at k",
    formula="1 if max rank of the positives <= k, else 0",
    says="Are all right answers among the first k?",
    cutoff_says="how many answers are looked at",
    papers="",
    source="docs/how-to/extend-visir.md",
    compute=_complete,
)
