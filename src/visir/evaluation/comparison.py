"""The record of a comparison: the differences of systems, and how they were tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from visir.display import Displayed, Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.evaluation.measures import is_called


@dataclass(frozen=True)
class Difference(Displayed):
    """One measure of one task: `system` against `baseline`.

    Attributes:
        task: The task.
        measure: The measure, with its cutoff.
        system: The system that is compared.
        baseline: The first system, with which all others are compared.
        value: The aggregate of the system: a fraction; rsum in points.
        baseline_value: The aggregate of the baseline.
        difference: `value` − `baseline_value`.
        low: The lower end of the 95 % interval of the mean difference; NaN where there is none.
        high: The upper end.
        p: The p-value of this test alone, in [0, 1].
        p_corrected: The p-value corrected for all comparisons made together.
        better: Whether the difference is an improvement (lower ranks are better).
        untested: Why the difference cannot be tested, or ""; if so, p and the interval are NaN.
    """

    task: str
    measure: str
    system: str
    baseline: str
    value: float
    baseline_value: float
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    better: bool
    untested: str = ""

    def __repr__(self) -> str:
        p = f"not tested: {self.untested}" if self.untested else f"p = {self.p_corrected:.2g} (corrected)"
        return brief(
            self,
            f"{self.task} {self.measure}: {self.system} {self.value:.4g}, {self.baseline} {self.baseline_value:.4g}, "
            f"{self.difference:+.4g}",
            f"{'no interval' if isnan(self.low) else f'95 % interval {self.low:+.4g} to {self.high:+.4g}'}, {p}",
        )


@dataclass(frozen=True)
class Comparison(Tabular, Plotted, view="visir.reports.views.comparison"):
    """All differences of one comparison, and how they were tested.

    Attributes:
        systems: The names of the systems, the baseline first.
        differences: One for each further system, task and measure.
        how: The test in words.
        correction: The name of the correction.
        family: The number of comparisons that the correction counts (those that were tested).
        allowed: The protocol fields that differ and were allowed: {field: values in the order of the systems}.
        system_differences: The fields in which systems may always differ (preprocessing), in the same form.
        notes: Warnings for the reader.

    Example:
        >>> import visir
        >>> judged = {query: {"a": 1} for query in ("q1", "q2", "q3", "q4")}
        >>> good = {query: {"a": 0.9, "b": 0.1} for query in judged}
        >>> bad = {query: {"a": 0.1, "b": 0.9} for query in judged}
        >>> comparison = visir.compare({"bad": bad, "good": good}, qrels=judged, measures=["MRR"])
        >>> comparison.systems, len(comparison.differences), comparison.differences[0].difference
        (('bad', 'good'), 1, 0.5)
    """

    systems: tuple[str, ...]
    differences: tuple[Difference, ...]
    how: str
    correction: str
    family: int
    allowed: Mapping[str, tuple[Any, ...]]
    system_differences: Mapping[str, tuple[Any, ...]]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: tuple[str, ...]) -> Difference:
        """The difference of a system in a measure: `comparison["b", "t2i R@1"]`, `comparison["b", "nDCG@10"]`."""
        system, measure = name
        tasks = list(dict.fromkeys(difference.task for difference in self.differences))
        named = [task for task in tasks if measure.startswith(f"{task} ")]
        task = (named or tasks)[0] if named or len(tasks) == 1 else ""
        typed = measure.removeprefix(f"{task} ")
        for difference in self.differences:
            if (difference.system, difference.task) == (system, task) and is_called(difference.measure, typed):
                return difference
        known = [f"[{entry.system!r}, {f'{entry.task} {entry.measure}'!r}]" for entry in self.differences[:12]]
        raise VisirError(
            f"there is no difference [{system!r}, {measure!r}].",
            hint=f"there are {', '.join(known)}",
            code="no-difference",
        )

    def __repr__(self) -> str:
        lines = [f"{system}: {self.verdict(system)}" for system in self.systems[1:]]
        return brief(self, f"against {self.systems[0]}", *lines[:3], f"{self.how}, correction: {self.correction}")

    def verdict(self, system: str, *, level: float = 0.05) -> str:
        """Say in words how one system differs from the baseline.

        Args:
            system: The name of the system.
            level: The level of significance, of the corrected p-values.

        Raises:
            VisirError: The comparison has no such system.
        """
        if system not in self.systems[1:]:
            raise VisirError(f"the comparison has no system {system!r}", hint=nearest(system, self.systems[1:]))
        tested = [entry for entry in self.differences if entry.system == system and not entry.untested]
        if not tested:
            return "no measure could be tested"
        significant = [entry.better for entry in tested if entry.p_corrected < level]
        parts = [f"better in {sum(significant)}"] if any(significant) else []
        parts += [f"worse in {len(significant) - sum(significant)}"] if not all(significant) else []
        measures = f"{counted(len(tested), 'measures')} (corrected p < {level:g})"
        if not parts:
            return f"no difference is significant, of {measures}"
        return f"significantly {' and '.join(parts)} of {measures}"


def untested_notes(differences: Sequence[Difference]) -> tuple[str, ...]:
    """Notes on the differences that could not be tested."""
    by_reason: dict[str, list[str]] = {}
    for difference in differences:
        if difference.untested:
            by_reason.setdefault(difference.untested, []).append(
                f"{difference.task} {difference.measure} of {difference.system}"
            )
    return tuple(f"not testable, because {reason}: {', '.join(names)}" for reason, names in by_reason.items())
