"""Our value of each published label under a reading: a lowest and a highest one, where the lists end early."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from visir.evaluation.explaining.known_ranks import KnownRanks
from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.recalls import recall_values
from visir.evaluation.measures import MEASURES, measure
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published.judge import LABEL, measure_of, printed_value
from visir.records import Ranks

Interval = tuple[float, float]
"""(lowest, highest); equal where the value is known."""

_PLAIN_AXES = ("unit", "digits", "direction")
"""Axes that leave the ranks and what is measured from them as they are."""


def cutoff_of(k: int, reading: Reading) -> int:
    """Which cutoff a printed @k is."""
    value = reading.value("cutoffs")
    if not isinstance(value, tuple):
        return k
    if value[0] == "shift":
        return k + int(value[1])
    if value[0] == "label":
        return int(value[2]) if value[1] == k else k
    return int(value[1].get(k, k))


def value_of(label: str, ranks: KnownRanks, reading: Reading, recall: str, fixed: Mapping[str, float]) -> Interval:
    """Our value of a label, in the unit in which such measures are usually printed."""
    if label == "rsum":
        parts = [value_of(f"R@{k}", ranks, reading, recall, fixed) for k in RSUM_CUTOFFS]
        low, high = sum(part[0] for part in parts), sum(part[1] for part in parts)
        if reading["sum"] == "mean":
            return low / len(parts), high / len(parts)
        dcg = fixed.get("dcg_cm@10", 0.0) if reading["sum"] == "with DCG" else 0.0
        return low + dcg, high + dcg
    match = LABEL.fullmatch(label)
    name = measure_of(label)
    base, _, cutoff = name.partition("@")
    if match or (base in ("hit", "recall", "capped_recall") and cutoff.isdigit()):
        k = cutoff_of(int(match[1] if match else cutoff), reading)
        kind = (reading["recall"] or recall) if match else base
        return _mean_recall(ranks, kind, k)
    is_plain = reading.departures == reading.only(_PLAIN_AXES).departures
    if name in fixed and (is_plain or base not in MEASURES):
        value = printed_value(name, fixed[name], label)
        return value, value
    ends = sorted(printed_value(name, _measured(ranks, name, high), label) for high in (False, True))
    return ends[0], ends[1]


def _mean_recall(ranks: KnownRanks, kind: str, k: int) -> Interval:
    if k < 1:
        return 0.0, 0.0
    high = 100 * float(ranks.weights @ recall_values(ranks.lowest, ranks.offsets, kind, k))
    if (ranks.highest == ranks.lowest).all():
        return high, high
    return 100 * float(ranks.weights @ recall_values(ranks.highest, ranks.offsets, kind, k)), high


def _measured(ranks: KnownRanks, name: str, highest: bool) -> float:
    """The mean of a named measure, or its median for a median."""
    values = ranks.highest if highest else ranks.lowest
    whole = np.where(np.isinf(values), 0, np.floor(values)).astype(np.int64)
    n = len(ranks.weights)
    record = Ranks(
        pa.array(np.arange(n)).cast(pa.string()),
        ranks.offsets,
        whole,
        np.ones(len(whole), np.float32),
        None,
        max(ranks.sizes),
    )
    column = measure(record, [name], beyond_depth=True)[name].to_numpy()
    return float(np.median(column)) if name == "median_rank" else float(ranks.weights @ column)
