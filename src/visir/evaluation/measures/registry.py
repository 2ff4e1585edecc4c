"""All measures by name. A new one is one new file and one line here; other packages add theirs by entry points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from visir.errors import ConfigurationError, nearest, raise_faults
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
from visir.plugins import MEASURES as GROUP
from visir.registry import Registry

MEASURES: Registry[Measure] = Registry("measure", group=GROUP, of=Measure)
for _measure in (
    *(HIT, RECALL, CAPPED_RECALL, PRECISION, MRR, MAP, CAPPED_MAP, MAP_AT_R, RPRECISION),
    *(NDCG, NDCG_EXP, MEDIAN_RANK, MEAN_RANK),
):
    MEASURES.add(_measure.name, _measure)

DEFAULT_MEASURES: tuple[str, ...] = (
    *(f"{recall}@{k}" for recall in ("hit", "recall", "capped_recall") for k in (1, 5, 10)),
    *("mrr", "map@r", "rprecision", "ndcg@10", "median_rank", "mean_rank"),
)
"""The default measures: the three recalls that papers call R@k, and one of each other kind."""


@dataclass(frozen=True)
class Named:
    """A measure with its cutoff, as named by a user.

    Attributes:
        name: The name as written.
        measure: The measure.
        k: The cutoff; None for the whole ranking.
    """

    name: str
    measure: Measure
    k: int | None


def parse(names: Sequence[str]) -> list[Named]:
    """Look up measures by name.

    Args:
        names: "hit@5", "map@r", "mrr", …

    Returns:
        The measures with their cutoffs.

    Raises:
        ConfigurationError: A measure is unknown; a cutoff is missing, needless or impossible; or a name is repeated.
            All faults are listed.
    """
    parsed, faults = [], []
    for name in names:
        base, _, cutoff = (name, "", "") if name in MEASURES else name.partition("@")
        if base not in MEASURES:
            patterns = [measure.pattern for _, measure in MEASURES.items()]
            hint = nearest(name, [*patterns, *MEASURES]) if not cutoff else nearest(f"{base}@k", patterns)
            faults.append(f"unknown measure {name!r} ({hint})")
            continue
        measure = MEASURES.get(base)
        if measure.cutoff == "none" and cutoff:
            faults.append(f"{name!r}: {base} takes no cutoff; write {base!r}")
        elif measure.cutoff == "required" and not cutoff:
            faults.append(f"{name!r} needs a cutoff, for example {base}@10")
        elif "@" in name.removeprefix(base) and not (cutoff.isascii() and cutoff.isdigit() and int(cutoff) > 0):
            faults.append(f"{name!r}: the cutoff must be a whole number from 1, not {cutoff!r}")
        else:
            parsed.append(Named(name, measure, int(cutoff) if cutoff else None))
    faults += [f"{name!r} is named twice" for name in dict.fromkeys(names) if list(names).count(name) > 1]
    if not names:
        faults.append("no measure is named")
    raise_faults(ConfigurationError, "measures", faults, hint="docs/reference/measures.md explains every one of them")
    return parsed
