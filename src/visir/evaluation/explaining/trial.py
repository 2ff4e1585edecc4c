"""Compare one reading of one task with its printed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.evaluation.explaining.bench import RANK_AXES, Bench
from visir.evaluation.explaining.ranks import KnownRanks, is_near
from visir.evaluation.explaining.readings import NotComputable, Reading
from visir.evaluation.measures import MEASURES, measure
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published.judge import (
    LABEL,
    Digits,
    Judgement,
    decimals_of,
    judge_one,
    measure_of,
    printed_value,
    sums_of_rounded,
)
from visir.records import Ranks

# The meanings of R@k, each a function of the ranks of the right candidates.

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ranked:
    """The ranks of the right candidates, query by query."""

    ranks: Numbers  # (p,) ascending within a query; inf for one that is not found
    offsets: NDArray[np.int64]  # (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`

    @property
    def positives(self) -> Numbers:
        """(n,) the number of right candidates."""
        return np.diff(self.offsets).astype(np.float64)

    @property
    def nth(self) -> Numbers:
        """(p,) which right candidate of its query each is, from 0."""
        starts = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        nth: Numbers = np.arange(len(self.ranks), dtype=np.float64) - starts
        return nth

    def total(self, values: Numbers | NDArray[np.bool_]) -> Numbers:
        """(n,) the sum of a value of each right candidate over its query."""
        sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        total: Numbers = sums[self.offsets[1:]] - sums[self.offsets[:-1]]
        return total

    def hits(self, k: int) -> Numbers:
        """(n,) the number of right candidates in the first k."""
        return self.total(self.ranks <= k)

    @property
    def best(self) -> Numbers:
        """(n,) the best rank; inf for a query that finds nothing."""
        padded = np.append(self.ranks, np.inf)
        has_any = np.diff(self.offsets) > 0
        best: Numbers = np.where(has_any, padded[self.offsets[:-1]], np.inf)
        return best


Recall = Callable[[Ranked, int], Numbers]


def _share(numerator: Numbers, denominator: Numbers | float) -> Numbers:
    denominator = np.broadcast_to(np.asarray(denominator, np.float64), numerator.shape)
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def _five_capped(ranked: Ranked, k: int) -> Numbers:
    """The brittleness paper's own code for image-to-text takes five captions for granted, so that an image with six can
    score 1.2. Where every image has five, it is capped_recall."""
    hits = ranked.hits(k)
    return np.where(ranked.positives > 1, hits / min(k, 5), np.minimum(hits, 1))


def _ndcg(ranked: Ranked, k: int) -> Numbers:
    inside = ranked.ranks <= k
    gains = np.where(inside, 1 / np.log2(np.where(inside, ranked.ranks, 1) + 1), 0)
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(1, k + 1) + 1))])
    return _share(ranked.total(gains), ideal[np.minimum(ranked.positives, k).astype(int)])


def _map(ranked: Ranked, k: int) -> Numbers:
    inside = ranked.ranks <= k
    precision = np.where(inside, (ranked.nth + 1) / np.where(inside, ranked.ranks, 1), 0)
    return _share(ranked.total(precision), ranked.positives)


RECALLS: Mapping[str, Recall] = {
    "hit": lambda ranked, k: (ranked.best <= k).astype(np.float64),
    "recall": lambda ranked, k: _share(ranked.hits(k), ranked.positives),
    "capped_recall": lambda ranked, k: _share(ranked.hits(k), np.minimum(k, ranked.positives)),
    "five_capped_recall": _five_capped,
    "all": lambda ranked, k: ((ranked.hits(k) == ranked.positives) & (ranked.positives > 0)).astype(np.float64),
    # Every pair weighs the same: a query weighs as its number of pairs.
    "pairs": lambda ranked, k: ranked.hits(k) * len(ranked.positives) / max(float(ranked.positives.sum()), 1.0),
    "precision": lambda ranked, k: ranked.hits(k) / k,
    "separate": lambda ranked, k: _share(ranked.total(ranked.ranks - ranked.nth <= k), ranked.positives),
    "mrr": lambda ranked, k: np.where(ranked.best <= k, 1 / ranked.best, 0.0),
    "ndcg": _ndcg,
    "map": _map,
}
"""By name of a choice of the axis "recall": (ranks, k) → (n,) the value of each query."""


def recall_values(ranks: Numbers, offsets: NDArray[np.int64], recall: str, k: int) -> Numbers:
    """The values of R@k under one meaning."""
    # ranks: (p,) the ranks of the right candidates from 1, ascending within a query; inf for one that is not found.
    # Returns: (n,) one value per query.
    with np.errstate(divide="ignore", invalid="ignore"):
        return RECALLS[recall](Ranked(ranks, offsets), k)


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


# How a value is printed: its unit, and whether further digits are rounded or cut.

WIDEST = 1.0
"""In percentage points: a value that is known less well than this says nothing."""
_SLACK = 1e-9


def printed(label: str, value: Interval, reading: Reading) -> Interval:
    """A value in the unit of the reading."""
    unit = reading["unit"]
    if unit is None or not _is_share(label):
        return value
    if unit == "fraction":
        return value[0] / 100, value[1] / 100
    return (value[0], value[1]) if label == "rsum" else (100 - value[1], 100 - value[0])


def _is_share(label: str) -> bool:
    base = measure_of(label).partition("@")[0]
    return label == "rsum" or (label != "R-P" and base in MEASURES and MEASURES.get(base).unit == "fraction")


def judged(
    task: str, label: str, value: Interval, published: float, decimals: int, reading: Reading, recall: str
) -> Judgement:
    """Compare a value with a printed one."""
    low, high = value
    name = measure_of(label, reading["recall"] or recall)
    judgement = judge_one(task, label, name, (low + high) / 2, published, decimals)
    if high - low > _SLACK:
        half = 10.0 ** -decimals_of(label, decimals) / 2
        inside = low - half - _SLACK <= published <= high + half + _SLACK
        narrow = high - low <= WIDEST * (0.01 if reading["unit"] == "fraction" else 1.0)
        return replace(judgement, digits="bounded" if inside and narrow else "off")
    unit = 10.0 ** -decimals_of(label, decimals)
    if reading["digits"] == "cut" and abs(low - unit - published) < _SLACK:
        # In binary, 0.57 × 100 is 56.99…: a program that cuts digits prints 56.9 for it.
        return replace(judgement, digits="truncated")
    if reading["digits"] == "up":
        is_up = -_SLACK <= published - low < unit - _SLACK
        return replace(judgement, digits="rounded" if is_up else "off")
    return judgement


def fits(judgements: tuple[Judgement, ...], reading: Reading) -> bool:
    """Whether all printed digits follow from the values under the reading's way of dropping digits."""
    # A half may be rounded either way. "mixed" accepts values that only cutting gives beside rounded ones.
    ways = [value.digits for value in judgements]
    accepted: dict[str | None, set[Digits]] = {
        None: {"rounded", "summed", "bounded"},
        "up": {"rounded", "bounded"},
        "mixed": {"rounded", "summed", "bounded", "truncated"},
    }
    if reading["digits"] == "cut":
        cut = all(_is_cut(value) for value in judgements)
        return cut and "truncated" in ways
    return all(way in accepted[reading["digits"]] for way in ways)


def _is_cut(value: Judgement) -> bool:
    """Whether cutting gives the printed value: ours is not below it, and not a unit of its last digit above."""
    return value.digits in ("truncated", "summed", "bounded") or (
        value.digits == "rounded" and value.ours >= value.published - _SLACK
    )


OTHER = {"t2i": "i2t", "i2t": "t2i"}


@dataclass(frozen=True)
class ReadingTrial:
    """One reading of one task, compared with the printed values."""

    values: tuple[Judgement, ...]  # our values and the printed ones
    fits: bool  # whether all printed digits follow
    near: bool  # whether every value is as near as another sample of queries would give
    sums: Interval  # our rsum, for the sum over both tasks
    sizes: tuple[int, ...]  # the number of candidates of each fold
    is_wide: bool  # whether a value is known too badly to say anything, because the lists end early
    slack: float = 1.0  # how many times as many values the bounds of ours let in

    @property
    def numbers(self) -> tuple[float, ...]:
        """Our values, to tell readings apart that give the same."""
        return tuple(round(value.ours, 9) for value in self.values)


class Trials:
    """Readings of the tasks of one published row."""

    def __init__(
        self, bench: Bench, labels: Mapping[str, Mapping[str, float]], decimals: int, sums: bool = False
    ) -> None:
        self.bench = bench
        self.labels = labels
        self.decimals = decimals
        self.sums = sums
        protocol = bench.material.protocol
        self.recall: str = "hit" if protocol is None else protocol.recall
        self.done: dict[tuple[str, Reading], ReadingTrial] = {}
        self.impossible: dict[tuple[str, Reading], str] = {}

    def of(self, task: str, reading: Reading) -> ReadingTrial | None:
        """The trial of a reading; None if it cannot be computed (`impossible` has the reason)."""
        key = (task, reading)
        if key not in self.done and key not in self.impossible:
            try:
                self.done[key] = self._try(task, reading)
            except NotComputable as reason:
                self.impossible[key] = str(reason)
        return self.done.get(key)

    def _try(self, task: str, reading: Reading) -> ReadingTrial:
        subject = OTHER[task] if reading["direction"] == "swapped" else task
        if subject not in self.bench.tasks:
            raise NotComputable(f"the result has no {subject}")
        if reading["recall"] == self.recall:
            raise NotComputable("it is the recall of the result")
        fixed = self.bench.material.fixed.get(subject, {})
        if reading["sum"] and "rsum" not in self.labels[task]:
            raise NotComputable("no rsum is printed")
        if reading["sum"] == "with DCG" and "dcg_cm@10" not in fixed:
            raise NotComputable("the result has no DCG (dcg_cm@10)")
        trial = self._judge(task, subject, reading, self.bench.ranks(subject, reading), fixed)
        if trial.is_wide:
            raise NotComputable(self._too_wide(subject, reading))
        return trial

    def _judge(
        self, task: str, subject: str, reading: Reading, ranks: KnownRanks, fixed: Mapping[str, float]
    ) -> ReadingTrial:
        values, wide = [], False
        scale = 1.0 if reading["unit"] == "fraction" else 100.0
        near = is_other = True
        slack = 1.0
        rank_axes = reading.only(RANK_AXES).departures
        # An image that is there once for every caption is a query as often, and only one caption is right each time.
        recall = "recall" if reading["copies"] in ("own", "last") else self.recall
        for label, published in self.labels[task].items():
            if rank_axes and measure_of(label).startswith("dcg_cm"):
                # It is known of the result as it is only; where it agrees, the ranking is that of the result.
                known = judge_one(task, label, label, fixed[measure_of(label)], published, self.decimals)
                is_other = is_other and known.digits == "off"
                continue
            raw = value_of(label, ranks, reading, recall, fixed)
            wide = wide or raw[1] - raw[0] > WIDEST
            value = judged(
                task, label, printed(label, raw, reading), published, self.decimals, reading, self.recall
            )  # fmt: skip
            values.append(value)
            slack *= 1 + (raw[1] - raw[0]) / 10.0**-self.decimals * scale / 100
            if label.startswith("R@"):
                near = near and is_near(
                    value.ours, published, max(len(ranks.weights), 1), 10.0**-self.decimals, scale
                )  # fmt: skip
        judgements = sums_of_rounded(values, self.decimals)
        return ReadingTrial(
            judgements,
            bool(values) and is_other and fits(judgements, reading),
            near and bool(values),
            value_of("rsum", ranks, reading, recall, fixed) if self.sums else (0.0, 0.0),
            ranks.sizes,
            wide,
            slack,
        )

    def _too_wide(self, task: str, reading: Reading) -> str:
        if self.bench.knows_all(task):
            return "so many scores are equal that the values are known only within wide bounds"
        run = self.bench.material.runs[task]
        remaining = min(self.bench.part(task, reading).sizes)
        return (
            f"the run goes {run.depth} deep; of the remaining {remaining:,} candidates too few are left for many "
            "queries (search deeper, or give the collection and the model)"
        )
