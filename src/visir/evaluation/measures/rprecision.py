"""R-precision: the share of the first R answers that is positive."""

from visir.evaluation.measures.base import Measure, Positives, Values


def _rprecision(positives: Positives, _: float) -> Values:
    hits = positives.sum(positives.rank <= positives.count[positives.query])
    return positives.share(hits, positives.count)


RPRECISION = Measure(
    name="rprecision",
    title="R-precision",
    formula="|positives in the top R| / R, R the query's own number of positives",
    says="If as many answers are taken as there are right ones, how many of them are right?",
    cutoff="none",
    papers="R-P (latent target decoding, section 4, on COCO with CxC), R-Precision (ECCV Caption, thesis chapter 7)",
    source="trec_eval Rprec, ir_measures Rprec",
    compute=_rprecision,
    aliases=("Rprec", "R-P", "RP", "r_prec"),
    differs="precision@R with one R for all queries",
)
