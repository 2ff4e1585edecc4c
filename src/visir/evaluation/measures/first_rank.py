"""Median and mean rank of the first positive."""

import numpy as np

from visir.evaluation.measures.base import Measure, Positives, Values


def _first_rank(positives: Positives, _: float) -> Values:
    # Not retrieved: one rank below the last retrieved one. In a cut run the rank is not known, and `Result.beyond`
    # counts such queries; the median is exact as long as it lies within the run. (The other reading leaves such
    # queries out; then a system would look better the less it finds.)
    return np.where(np.isinf(positives.first), float(positives.source.last + 1), positives.first)


_NOTE = "A query whose positives were not retrieved counts as (depth + 1); the result says how many there are."
MEDIAN_RANK = Measure(
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
)
MEAN_RANK = Measure(
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
)
