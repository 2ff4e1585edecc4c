"""Compare one reading of one task with its printed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from visir.evaluation.explaining.accidents import is_near
from visir.evaluation.explaining.bench import RANK_AXES, Bench
from visir.evaluation.explaining.known_ranks import KnownRanks
from visir.evaluation.explaining.material import NotComputable
from visir.evaluation.explaining.printed import WIDEST, fits, judged, printed, summed
from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.values import Interval, value_of
from visir.evaluation.published.judge import Judgement, judge_one, measure_of

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
        judgements = summed(values, self.decimals)
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
