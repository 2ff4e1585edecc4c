"""All first: whether every positive is before every other candidate; and the same for all queries of an item."""

import numpy as np

from visir.evaluation.measures.base import Measure, Positives, Values


def _all_first(positives: Positives, _: float) -> Values:
    behind = positives.rank > positives.count[positives.query]
    right: Values = ((positives.count > 0) & (positives.sum(behind) == 0)).astype(np.float64)
    return right


ALL_FIRST = Measure(
    name="all_first",
    title="All positives first",
    formula="1 if every positive has a better rank than every other candidate, else 0",
    says="Does the system choose right?",
    cutoff="none",
    papers="accuracy of a choice: SugarCrepe, ARO, VALSE (pairwise), SugarCrepe++ (both captions above the wrong one)",
    source="Yuksekgonul et al. 2023, ARO; Dumpala et al. 2024, SugarCrepe++",
    compute=_all_first,
    aliases=("choice_accuracy", "pairwise_accuracy"),
    differs="hit@1, for which one of several positives is enough",
)
ITEM_SCORE = Measure(
    name="item_score",
    title="Item score",
    formula="1 if all_first is 1 for every query of the item in this task, else 0",
    says="Does the system choose right for all queries of an item (those with one label `group`)?",
    cutoff="none",
    papers="text score (of i2t) and image score (of t2i) of Winoground and EqBen; accuracy of COLA (t2i); text-only "
    "accuracy of SugarCrepe++ (t2t)",
    source="Thrush et al. 2022, Winoground",
    compute=_all_first,
    aliases=("text_score", "image_score"),
    differs="all_first, which counts every query by itself and is higher",
    joined="task",
)
GROUP_SCORE = Measure(
    name="group_score",
    title="Group score",
    formula="1 if all_first is 1 for every query of the item in all tasks, else 0",
    says="Does the system choose right for all queries of an item, in every direction?",
    cutoff="none",
    papers="group score of Winoground and EqBen. Chance is 1/6, not 1/16: the four choices share four scores",
    source="Thrush et al. 2022, Winoground",
    compute=_all_first,
    joined="all",
)
