"""Find the plainest readings that give all printed digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from visir.display import Displayed, brief
from visir.evaluation.explaining.bench import USUAL_TIES, searched_by, singles, tiers
from visir.evaluation.explaining.ranks import MOST_ACCIDENTS, chance_of_fit, interval_of_chance
from visir.evaluation.explaining.readings import LINKS, PAIR_COST, Reading
from visir.evaluation.explaining.trial import OTHER, ReadingTrial, Trials
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published.judge import LABEL, Digits, Judgement, judge_one
from visir.progress import Progress

_LIKE = 2
"""How many times as large as ours a value may be that is read as a fraction: recalls of one model and another setting
are this near, and those of chance are not."""
ONE_DIRECTION = 1
"""What a reading of one direction only costs more."""


@dataclass(frozen=True)
class Combined:
    """A reading of each task; the usual case is one reading for both."""

    by_task: tuple[tuple[str, Reading], ...]  # (task, reading)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The different readings."""
        return tuple(dict.fromkeys(reading for _, reading in self.by_task))

    @property
    def reading(self) -> Reading:
        """The reading with the most departures: the one reading, where there is one."""
        return max(self.readings, key=lambda reading: (reading.departures, reading.cost))

    @property
    def cost(self) -> int:
        """How far it is from plain."""
        if len(self.readings) == 1:
            return self.readings[0].cost
        departing = [reading for reading in self.readings if reading.departures]
        between = PAIR_COST * (sum(reading.departures for reading in departing) - 1)
        inner = sum(PAIR_COST * (reading.departures - 1) for reading in departing)
        return sum(reading.cost for reading in departing) + ONE_DIRECTION + between - inner

    @property
    def departures(self) -> int:
        """On how many axes it departs, both tasks together."""
        return len({choice for reading in self.readings for choice in reading.choices})

    def __getitem__(self, axis: str) -> str | None:
        """The choice on an axis, of the task that departs there; None where both are plain."""
        return next((reading[axis] for reading in self.readings if reading[axis] is not None), None)

    def __str__(self) -> str:
        if len(self.readings) == 1:
            return str(self.readings[0])
        return "; ".join(f"{task}: {reading}" for task, reading in self.by_task if reading.departures)


@dataclass(frozen=True)
class Outcome:
    """What a search gives."""

    # The readings that give all digits at the first cost at which one does, the rarer axes last.
    fitting: tuple[Combined, ...]
    accidents: float  # the expected number of readings that fit by accident up to that cost
    tried: int  # how many readings were compared
    at_chance: tuple[str, ...] = ()  # the tasks whose printed values are at chance
    below_chance: bool = False  # whether nearly nothing is found, less than at random
    # What nobody wrote down: "fraction", the values are taken as fractions of 1, because in percent they would be at
    # chance or below it; "open", they may be percentages at chance or fractions of 1.
    unit: Literal["", "fraction", "open"] = ""

    @property
    def is_certain(self) -> bool:
        """Whether accidental fits are unlikely."""
        return self.accidents <= MOST_ACCIDENTS


class Search:
    """A search over readings, plainest first."""

    def __init__(self, trials: Trials, both: float | None = None, *, in_percent: bool = False) -> None:
        self.trials = trials
        self.tasks = list(trials.labels)
        self.both = both
        self.in_percent = in_percent
        self.near: dict[str, set[tuple[float, ...]]] = {task: set() for task in self.tasks}
        self.compared: set[tuple[str, Reading]] = set()
        self._inert: dict[tuple[str, str], bool] = {}
        self._fitting_by_task: dict[str, list[Reading]] = {}

    def run(self) -> Outcome:
        """Search."""
        plain = self._shared(Reading())
        if self._fits_all(plain):
            return Outcome((plain,), self._accidents(plain, alone=True), 1)
        chance, below = self._at_chance(), all(self._position(task) == "below" for task in self.tasks)
        unit: Literal["", "fraction", "open"] = ""
        if (chance or below) and self._may_be_fractions():
            fractions = self._plainest("fraction")
            if fractions:
                return Outcome(tuple(fractions), self._accidents(fractions[0]), len(self.compared))
            unit = "fraction" if below or self._are_like_fractions() else "open"
        if chance and unit == "fraction":
            return Outcome((), 0.0, len(self.compared), unit=unit)
        if chance:
            return replace(self._mix_ups(chance), unit=unit)
        fitting = self._plainest()
        accidents = self._accidents(fitting[0]) if fitting else 0.0
        return Outcome(tuple(fitting), accidents, len(self.compared), (), below and not unit, "" if fitting else unit)

    def _plainest(self, with_unit: str | None = None) -> list[Combined]:
        """The fits of the least cost at which there is one."""
        self._fitting_by_task = {task: [] for task in self.tasks}
        with Progress("explaining", sum(len(tier) for _, tier in tiers()), "readings") as advance:
            return self._first_cost(with_unit, advance)

    def _first_cost(self, with_unit: str | None, advance: Callable[[int], None]) -> list[Combined]:
        fitting: list[Combined] = []
        levels = tiers()
        for number, (cost, tier) in enumerate(levels):
            readings = [reading for reading in tier if with_unit is None or reading["unit"] == with_unit]
            for wanted in (False, True):  # what needs no vectors comes first, because it is fast
                fitting += self._tier([reading for reading in readings if reading.needs_vectors == wanted], advance)
                least = min((combined.cost for combined in fitting), default=None)
                is_last = wanted and (number + 1 == len(levels) or (least or 0) < levels[number + 1][0])
                if least is not None and (is_last or self._is_settled(fitting, cost)):
                    fitting = [combined for combined in fitting if combined.cost == least]
                    return sorted(fitting, key=lambda combined: len(combined.readings))
        return []

    def _is_settled(self, fitting: Sequence[Combined], cost: int) -> bool:
        """Whether a fit as plain as any that is to come is no accident."""
        # One that needs vectors is not settled before the others that need them: they may be the same computation.
        best = [combined for combined in fitting if combined.cost <= cost]
        if not best or any(reading.needs_vectors for reading in best[0].readings):
            return False
        return self._accidents(best[0]) <= MOST_ACCIDENTS

    def trial(self, task: str, reading: Reading) -> ReadingTrial | None:
        """The trial of one task, counted."""
        trial = self.trials.of(task, reading)
        if trial is not None:
            self.compared.add((task, reading))
            if trial.near:
                self.near[task].add(trial.numbers)
        return trial

    def _shared(self, reading: Reading) -> Combined:
        return Combined(tuple((task, reading) for task in self.tasks))

    def _tier(self, readings: Sequence[Reading], advance: Callable[[int], None]) -> list[Combined]:
        """The fits of one tier: one reading for both tasks, for one task only, or one of each."""
        plain_fits = {task: self._fits(task, Reading()) for task in self.tasks}
        fitting: list[Combined] = []
        by_task = self._fitting_by_task
        before = {task: list(known) for task, known in by_task.items()}
        places = {reading: place for place, reading in enumerate(readings)}
        for reading in sorted(readings, key=lambda reading: searched_by(reading).choices):  # so that one search serves
            advance(1)
            if reading.departures > 1 and any(self._changes_nothing(axis, name) for axis, name in reading.choices):
                continue
            results: dict[str, bool] = {}
            for task in self.tasks:
                # Of a rare reading or a pair, this task is hopeless where the other one fits neither by it nor plain.
                hopeless = any(not fits and not plain_fits[other] for other, fits in results.items())
                if hopeless and reading.cost > 1:
                    results[task] = False
                    continue
                results[task] = self._fits(task, reading)
                if results[task] and reading.departures:
                    by_task[task].append(reading)
            shared = self._shared(reading)
            if all(results.values()) and self._sum_fits(shared):
                fitting.append(shared)
        fitting.sort(key=lambda combined: places[combined.reading])
        if len(self.tasks) == 2 and self.both is None:
            first, second = self.tasks
            new = {
                task: sorted(known[len(before[task]) :], key=lambda reading: places[reading])
                for task, known in by_task.items()
            }
            combined = [
                *((Reading(), reading) for reading in new[second] if plain_fits[first]),
                *((reading, Reading()) for reading in new[first] if plain_fits[second]),
                *product(new[first], by_task[second]),
                *product(before[first], new[second]),
            ]
            for single, other in combined:
                if single != other and single.departures + other.departures <= 2:
                    fitting.append(Combined(((first, single), (second, other))))
        return fitting

    def _changes_nothing(self, axis: str, name: str) -> bool:
        if axis in ("digits", "unit") or (axis == "ties" and name in USUAL_TIES):
            return False
        if (axis, name) not in self._inert:
            single = Reading.of(**{axis: name})
            trials = [(self.trials.of(task, single), self.trials.of(task, Reading())) for task in self.tasks]
            self._inert[axis, name] = all(
                trial is None or (plain is not None and trial.numbers == plain.numbers) for trial, plain in trials
            )
        return self._inert[axis, name]

    def _fits(self, task: str, reading: Reading) -> bool:
        trial = self.trial(task, reading)
        return trial is not None and trial.fits

    def _fits_all(self, combined: Combined) -> bool:
        return all(self._fits(task, reading) for task, reading in combined.by_task) and self._sum_fits(combined)

    def _sum_fits(self, combined: Combined) -> bool:
        if self.both is None or len(self.tasks) < 2:
            return True
        trials = [self.trial(task, reading) for task, reading in combined.by_task]
        slack = 10.0**-self.trials.decimals * (1.5 if combined.reading["digits"] else 3)  # sums of rounded values too
        low, high = (sum(trial.sums[end] for trial in trials if trial is not None) for end in (0, 1))
        scale = 0.01 if combined.reading["unit"] == "fraction" else 1.0
        return low * scale - slack <= self.both <= high * scale + slack

    # accidents and chance

    def _accidents(self, best: Combined, alone: bool = False) -> float:
        """The expected number of accidental fits among the readings that came near."""
        scale = 1.0 if best.reading["unit"] == "fraction" else 100.0
        chance, near = 1.0, 0
        for task, reading in best.by_task:
            trial = self.trials.of(task, reading)
            queries = len(self.trials.bench.ranks(task, Reading()).weights)
            task_chance = chance_of_fit(self.trials.labels[task], queries, self.trials.decimals, scale)
            if trial is not None:
                task_chance *= trial.slack
            if reading["digits"] == "mixed":
                task_chance *= 2 ** len(self.trials.labels[task])
            if reading.departures or len(best.readings) == 1:
                chance *= min(task_chance, 1.0)
                near = max(near, len(self.near[task]))
        return chance if alone else (near + 1) * chance

    def _at_chance(self) -> tuple[str, ...]:
        """The tasks whose printed recalls are all as random rankings give them, while ours are not."""
        tasks = tuple(task for task in self.tasks if self._position(task) == "at")
        return tasks if len(tasks) == len(self.tasks) else ()

    def _recalls(self, task: str) -> dict[int, float]:
        """The printed recalls by cutoff."""
        labels = self.trials.labels[task].items()
        return {int(match[1]): value for label, value in labels if (match := LABEL.fullmatch(label))}

    def _position(self, task: str) -> str:
        """Whether the printed recalls, in percent, are "at" chance, "below" it, or "above"."""
        plain = self.trials.of(task, Reading())
        recalls = self._recalls(task)
        if plain is None or not recalls:
            return "above"
        ranks = self.trials.bench.ranks(task, Reading())
        samples = min(len(ranks.weights), max(ranks.sizes) if task == "t2i" else len(ranks.weights))
        half = 10.0**-self.trials.decimals / 2
        bounds = {k: interval_of_chance(ranks, k, samples) for k in recalls}
        if any(high > 20 for _, high in bounds.values()):
            return "above"  # so few candidates that chance says nothing
        ours = {value.label: value.ours for value in plain.values}
        if all(bounds[k][0] - half <= value <= bounds[k][1] + half for k, value in recalls.items()):
            own_at_chance = all(ours.get(f"R@{k}", 100.0) <= bounds[k][1] for k in recalls)
            return "above" if own_at_chance else "at"
        deepest = max(recalls)
        return "below" if recalls[deepest] + half < bounds[deepest][0] else "above"

    def _may_be_fractions(self) -> bool:
        """Whether the printed recalls, and sums of three, may be fractions of 1, by their size and as they are
        written."""
        # Nobody prints a fraction with one digit.
        if self.in_percent or self.trials.decimals < 2:
            return False
        sums = [part["rsum"] for part in self.trials.labels.values() if "rsum" in part]
        recalls = [value for task in self.tasks for value in self._recalls(task).values()]
        return all(value <= 1 for value in recalls) and all(value <= len(RSUM_CUTOFFS) for value in sums)

    def _are_like_fractions(self) -> bool:
        """Whether values that may be fractions are most likely ones: three digits, or near the values of the result."""
        if self.trials.decimals > 2:
            return True
        for task in self.tasks:
            plain = self.trials.of(task, Reading())
            ours = {value.label: value.ours for value in plain.values} if plain is not None else {}
            pairs = [(ours.get(f"R@{k}", 0.0), 100 * value) for k, value in self._recalls(task).items()]
            if not all(own / _LIKE <= value <= own * _LIKE for own, value in pairs):
                return False
        return True

    def _mix_ups(self, tasks: tuple[str, ...]) -> Outcome:
        """Values at chance are noise; only a mix-up of captions and images with certain digits is named."""
        mix_ups = [reading for reading in singles() if reading["links"]]
        mix_ups += [Reading.of(links=choice.name, recall="recall") for choice in LINKS.choices]
        fitting = [self._shared(reading) for reading in mix_ups if self._fits_all(self._shared(reading))]
        if not fitting:
            return Outcome((), 0.0, len(self.compared), tasks)
        least = min(combined.cost for combined in fitting)
        fitting = [combined for combined in fitting if combined.cost == least]
        return Outcome(tuple(fitting), self._accidents(fitting[0]), len(self.compared), tasks)


# One reading with its values, as it is shown.


_SAME = 1e-9


@dataclass(frozen=True)
class Fit(Displayed):
    """One reading, compared with the published values.

    Attributes:
        reading: The reading, of each task.
        values: Our values and the published ones.
        distance: The mean of |ours − published| / published, over all values but the cross-modal DCG, which does not
            depend on the reading of recall.
        candidates: For each task the number of candidates of each fold (one number: no folds).
        fits: Whether all printed digits follow.
        same: Other readings that give exactly the same values here.
    """

    reading: Combined
    values: tuple[Judgement, ...]
    distance: float
    candidates: Mapping[str, tuple[int, ...]]
    fits: bool
    same: tuple[Combined, ...] = ()

    def __repr__(self) -> str:
        equal = f"{self.reproduced} of {len(self.values)} values equal as printed"
        return brief(self, f"{self.reading}: {100 * self.distance:.2f} % off, {equal}")

    @property
    def reproduced(self) -> int:
        """The number of values that agree with the printed digits, in any way."""
        return sum(value.digits != "off" for value in self.values)

    def count(self, digits: Digits) -> int:
        """Count the values that agree in one way.

        Args:
            digits: The way ("truncated": only if further digits are cut off).

        Returns:
            The number of values.
        """
        return sum(value.digits == digits for value in self.values)

    def is_same(self, other: Fit) -> bool:
        """Whether another reading gives exactly the same values."""
        own, others = ([value.ours for value in fit.values] for fit in (self, other))
        return len(own) == len(others) and bool(np.allclose(own, others, rtol=0, atol=_SAME))


_OF_NOUGHT = 1.0
"""How far another value is from a printed 0."""


def fit_of(combined: Combined, trials: Trials, both: float | None, fits: bool) -> Fit | None:
    """Show a reading; None if it cannot be computed for every task."""
    values: list[Judgement] = []
    candidates: dict[str, tuple[int, ...]] = {}
    low = high = 0.0
    for task, reading in combined.by_task:
        trial = trials.of(task, reading)
        if trial is None:
            return None
        values += trial.values
        low, high = low + trial.sums[0], high + trial.sums[1]
        subject = OTHER[task] if reading["direction"] == "swapped" else task
        candidates[subject] = _sizes(trials, subject, trial.sizes)
    if both is not None and len(combined.by_task) == 2:
        values.append(judge_one("both", "rsum", "rsum", (low + high) / 2, both, trials.decimals))
    relative = [abs(value.relative) for value in values if not value.measure.startswith("dcg_cm")]
    gaps = [gap if np.isfinite(gap) else _OF_NOUGHT for gap in relative]
    distance = float(np.mean(gaps)) if gaps else 0.0
    return Fit(combined, tuple(values), distance, candidates, fits)


def _sizes(trials: Trials, task: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The candidates of each fold; of the result's own, as stated, where a gallery is known by its size only."""
    gallery = trials.bench.material.runs[task].gallery
    is_stated = gallery.ids is None and gallery.size > 0
    return (gallery.size,) if is_stated and sizes == trials.bench.part(task, Reading()).sizes else sizes
