"""All measures by name. A new one is one new file and one line here; other packages add theirs by entry points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from visir.errors import ConfigurationError, raise_faults
from visir.evaluation.measures.all_first import ALL_FIRST, GROUP_SCORE, ITEM_SCORE
from visir.evaluation.measures.average_precision import CAPPED_MAP, MAP, MAP_AT_R
from visir.evaluation.measures.base import Measure
from visir.evaluation.measures.capped_recall import CAPPED_RECALL
from visir.evaluation.measures.first_rank import MEAN_RANK, MEDIAN_RANK
from visir.evaluation.measures.hit import HIT
from visir.evaluation.measures.mrr import MRR
from visir.evaluation.measures.ndcg import NDCG, NDCG_EXP
from visir.evaluation.measures.precision import PRECISION
from visir.evaluation.measures.recall import RECALL
from visir.evaluation.measures.rprecision import RPRECISION
from visir.evaluation.measures.typed import Named, Names
from visir.plugins import MEASURES as GROUP
from visir.records import Recall
from visir.registry import Registry

MEASURES: Registry[Measure] = Registry("measure", group=GROUP, of=Measure)
_OWN = (
    *(HIT, RECALL, CAPPED_RECALL, PRECISION, MRR, MAP, CAPPED_MAP, MAP_AT_R, RPRECISION),
    *(NDCG, NDCG_EXP, MEDIAN_RANK, MEAN_RANK, ALL_FIRST, ITEM_SCORE, GROUP_SCORE),
)
for _measure in _OWN:
    MEASURES.add(_measure.name, _measure)

DEFAULT_MEASURES: tuple[str, ...] = (
    *(f"{recall}@{k}" for recall in ("hit", "recall", "capped_recall") for k in (1, 5, 10)),
    *("mrr", "map@r", "rprecision", "ndcg@10", "median_rank", "mean_rank"),
)
"""The default measures: the three recalls that papers call R@k, and one of each other kind."""


def read_measure(typed: str, recall: Recall = "hit") -> Named | str:
    """Read the name of a measure as people type it.

    Args:
        typed: "R@1", "hit@5", "nDCG@10", "AP(rel=2)@10", "MRR", …; `visir.measures()` lists all.
        recall: The recall that "R@k" means.

    Returns:
        The measure; or, if there is none of this name, a line that says why.

    Example:
        >>> read_measure("nDCG@10").name, read_measure("R@1").name, read_measure("R@1", "capped_recall").name
        ('ndcg@10', 'hit@1', 'capped_recall@1')
    """
    own = Names((measure.name, measure) for measure in _OWN).read(typed, recall)
    return own if isinstance(own, Named) else Names(MEASURES.items()).read(typed, recall)  # looks for other packages


def parse(names: Sequence[str], recall: Recall = "hit") -> list[Named]:
    """Look up measures by name.

    Args:
        names: "hit@5", "map@r", "mrr", …, or as people type them: "R@5", "nDCG@10", "AP(rel=2)@10". Two names of one
            measure are one. Measures of `ir_measures` are read by what they print.
        recall: The recall that "R@k" means.

    Returns:
        The measures with their cutoffs.

    Raises:
        ConfigurationError: A measure is unknown; a cutoff is missing, needless or impossible; or a name is repeated.
            All faults are listed.

    Example:
        >>> [named.name for named in parse(["R@5", "Success@5", "AP", "P_10"])]
        ['hit@5', 'map', 'precision@10']
    """
    typed = [str(name) for name in names]
    read = [read_measure(name, recall) for name in typed]
    faults = [fault for fault in read if isinstance(fault, str)]
    faults += [f"{name!r} is named twice" for name in dict.fromkeys(typed) if typed.count(name) > 1]
    if not typed:
        faults.append("no measure is named")
    raise_faults(ConfigurationError, "measures", faults, hint="visir.measures() lists them")
    return list({named.name: named for named in read if isinstance(named, Named)}.values())


def is_called(name: str, typed: str) -> bool:
    """Whether a column of a result is what a person types; "R@5" is any of the three recalls.

    Args:
        name: The column.
        typed: The name as typed.

    Example:
        >>> is_called("hit@5", "R@5"), is_called("ndcg@10", "nDCG@10"), is_called("mrr", "MAP")
        (True, True, False)
    """
    if name == typed or name == "rsum" == typed.casefold():
        return True
    read = [read_measure(typed, recall) for recall in get_args(Recall)]
    return any(isinstance(named, Named) and named.name == name for named in read)
