"""An online test read out at any time: which variant does better, and whether the test itself can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.display import Displayed
from visir.errors import ConfigurationError, nearest
from visir.sessions.online.decisions import Decision, read_decisions
from visir.sessions.online.sequential import (
    ERROR,
    PLANNED,
    Sums,
    difference_over_time,
    sample_ratio_p,
)

HOUR = 3_600_000_000
MOST_LOOKS = 500
"""Looks of a read-out: every hour, or as many as these evenly spread where there are more hours, or no times."""

TRUSTED = 0.01
"""Below this p-value of the sample ratio, the assignment is not as planned."""

Verdict = Literal["better", "worse", "open"]


@dataclass(frozen=True)
class VariantResult:
    """One variant."""

    name: str  # as the log has it
    sessions: int  # its sessions with an outcome
    units: int  # its visitors (sessions where the log names no visitor)
    mean: float  # the mean outcome of a unit: the sum over its sessions
    positive: int  # units whose outcome is not 0
    decisions: dict[str, int]  # decision → sessions
    without: int  # sessions without an outcome, which are left out


@dataclass(frozen=True)
class VariantEffect:
    """A variant against the control, look by look; the last look is now."""

    variant: str  # the variant
    difference: float  # its mean minus that of the control, now
    low: float | None  # lower end of the always-valid interval now; None where nothing can be concluded yet
    high: float | None  # upper end
    p: float  # the always-valid p-value
    error: float  # what the interval may fail with, after the correction for several variants
    decided: int | None  # the look (units so far) at which the interval first left 0 out; None for never
    # (units so far, difference, low, high) of every look.
    looks: tuple[tuple[int, float | None, float | None, float | None], ...]

    @property
    def verdict(self) -> Verdict:
        """Whether the variant is better or worse than the control, or the test goes on."""
        if self.decided is None:
            return "open"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, repr=False)
class AbTest(Displayed, view="visir.sessions.reports.ab_test"):
    """The read-out of an online test.

    Args:
        name: Of the log.
        control: The variant that the others are compared with.
        variants: The control first.
        effects: Of the other variants.
        planned_shares: The planned share of units of each variant.
        ratio_p: The p-value of these shares, valid at any time.
        several: Units that saw several variants; they count for the first.
        error: Of all intervals of the test together.
        planned: Units at which the intervals are narrowest.
        unit: "visitors" or "sessions".
        timed: Whether the log has times, so that looks are hours.
        most: The largest amount that counts for a unit; None where amounts count as they are.
        cut: Units with a larger amount.
        amounts: Whether an outcome is neither 0 nor 1.
    """

    name: str
    control: str
    variants: tuple[VariantResult, ...]
    effects: tuple[VariantEffect, ...]
    planned_shares: dict[str, float]
    ratio_p: float
    several: int
    error: float
    planned: int
    unit: str
    timed: bool
    most: float | None = None
    cut: int = 0
    amounts: bool = False

    @property
    def is_trusted(self) -> bool:
        """Whether the units are spread over the variants as planned, as far as can be told."""
        return self.ratio_p >= TRUSTED

    def __repr__(self) -> str:
        effects = ", ".join(f"{effect.variant} {effect.verdict}" for effect in self.effects)
        return f"AbTest({self.name}: {effects}, against {self.control}; p of the sample ratio {self.ratio_p:.3g})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        effects = [{**asdict(effect), "verdict": effect.verdict} for effect in self.effects]
        return {**asdict(self), "effects": effects, "trusted": self.is_trusted}


def ab_test(
    log: str | Path,
    *,
    control: str | None = None,
    shares: Mapping[str, float] | None = None,
    error: float = ERROR,
    planned: int = PLANNED,
    most: float | None = None,
) -> AbTest:
    """Read out an online test from its log of decisions.

    The unit is the visitor: the sum of the outcomes of all its sessions so far counts for the variant that it saw
    first. Intervals and p-values are valid at any time (`sequential`); several variants share `error` (Bonferroni).

    Args:
        log: A file of `DecisionLog`, or any JSON lines of that form.
        control: The variant that the others are compared with; by default the first of the alphabet.
        shares: The planned share of units of each variant, adding up to 1; by default equal.
        error: How often the test may be wrong, whenever it is looked at.
        planned: Units at which the interval is narrowest. Fix it before the test.
        most: The largest amount that counts for a unit; larger ones count as this. Fix it before the test, at about
            five mean orders: so a few very large orders do not decide.

    Raises:
        VisirError: The log cannot be read; all faults are listed with their lines.
        ConfigurationError: There are fewer than two variants, no such control, or shares that do not fit.

    Example:
        >>> from visir.sessions.online.decisions import DecisionLog, assign
        >>> writer = DecisionLog("test.jsonl")
        >>> for k in range(400):
        ...     variant = assign(f"v{k}", ["control", "model"])
        ...     writer.decide(f"s{k}", variant, visitor=f"v{k}", time=k * 60_000_000)
        ...     writer.outcome(f"s{k}", k % (5 if variant == "control" else 2) == 0)
        >>> test = ab_test("test.jsonl", planned=400)
        >>> test.effects[0].verdict, test.is_trusted
        ('better', True)
    """
    decisions = read_decisions(log)
    names = sorted({decision.variant for decision in decisions})
    control = names[0] if control is None else control
    plan = _plan(names, control, shares, error, planned)
    if most is not None and not most > 0:
        raise ConfigurationError(
            f"the largest amount that counts is {most}.",
            hint="an amount above 0, such as 500",
            code="largest-amount-counts",
        )
    names = [control, *(name for name in plan if name != control)]
    units = {decision.visitor for decision in decisions if decision.visitor != decision.session}
    timed = decisions[0].timed
    sums, several, values = _running(decisions, names, np.inf if most is None else most)
    each = error / (len(names) - 1)
    effects = []
    for name in names[1:]:
        path = difference_over_time(sums[name], sums[control], error=each, planned=planned)
        rejected = np.flatnonzero(path.p < each)
        count = (sums[name].units + sums[control].units).astype(int)
        points = zip(count, path.difference, path.low, path.high, strict=True)
        effects.append(
            VariantEffect(
                name,
                float(path.difference[-1]),
                _finite(path.low[-1]),
                _finite(path.high[-1]),
                float(path.p[-1]),
                each,
                int(count[rejected[0]]) if len(rejected) else None,
                tuple((int(n), _finite(d), _finite(low), _finite(high)) for n, d, low, high in points),
            )
        )
    counts = np.stack([sums[name].units for name in names], axis=1)
    ratio = sample_ratio_p(counts, [plan[name] for name in names])
    results = tuple(_result(name, decisions, sums[name]) for name in names)
    return AbTest(
        Path(log).name,
        control,
        results,
        tuple(effects),
        {name: plan[name] for name in names},
        float(ratio[-1]),
        several,
        error,
        planned,
        "visitors" if units else "sessions",
        timed,
        most,
        sum(abs(value) > most for value in values) if most is not None else 0,
        any(value not in (0.0, 1.0) for value in values),
    )


def _plan(
    names: list[str], control: str, shares: Mapping[str, float] | None, error: float, planned: int
) -> dict[str, float]:
    """The planned share of every variant, also of those that nobody saw."""
    plan = dict(shares) if shares is not None else dict.fromkeys(names, 1 / len(names))
    hint = f"the log's variants: {', '.join(names)}"
    if len(plan) < 2:
        raise ConfigurationError(
            f"{', '.join(names)}: a test compares two variants or more.", hint=hint, code="test-compares-two-variants"
        )
    if control not in plan:
        raise ConfigurationError(
            f"no variant {control!r}; {nearest(control, list(plan))}", hint=hint, code="no-variant"
        )
    if unknown := [name for name in names if name not in plan]:
        raise ConfigurationError(f"no share for {', '.join(unknown)}.", hint=hint, code="no-share")
    if min(plan.values()) <= 0 or abs(sum(plan.values()) - 1) > 1e-6:
        raise ConfigurationError(
            f"shares {plan} are not above 0 with a sum of 1.", hint="0.5 and 0.5", code="shares-not-above-sum"
        )
    if not 0 < error < 1 or planned < 1:
        raise ConfigurationError(f"an error of {error} and {planned} planned units.", hint="0.05 and 10000")
    return plan


def _running(
    decisions: list[Decision], names: list[str], most: float
) -> tuple[dict[str, Sums], int, Collection[float]]:
    """Sums of every variant at every look, how many units saw several variants, and the outcome of each unit."""
    first = decisions[0].time
    last = decisions[-1].time
    step = max(HOUR if decisions[0].timed else 1, -(-(last - first + 1) // MOST_LOOKS))
    numbers = {name: [0.0, 0.0, 0.0, 0.0] for name in names}
    recorded: dict[str, list[list[float]]] = {name: [] for name in names}
    unit_variant: dict[str, str] = {}
    unit_value: dict[str, float] = {}
    several: set[str] = set()

    def look() -> None:
        for name in names:
            recorded[name].append(list(numbers[name]))

    moment = first + step
    for decision in decisions:
        while decision.time >= moment:
            look()
            moment += step
        if decision.outcome is None:
            continue
        variant = unit_variant.setdefault(decision.visitor, decision.variant)
        if variant != decision.variant:
            several.add(decision.visitor)
        sums = numbers[variant]
        before = unit_value.get(decision.visitor)
        after = (before or 0.0) + decision.outcome
        unit_value[decision.visitor] = after
        old, new = (max(-most, min(most, value)) for value in (before or 0.0, after))
        sums[0] += before is None
        sums[1] += new - old
        sums[2] += new**2 - old**2
        sums[3] += (new != 0) - (old != 0)
    look()
    arrays = {name: Sums(*np.array(recorded[name], np.float64).T) for name in names}
    return arrays, len(several), unit_value.values()


def _result(name: str, decisions: list[Decision], sums: Sums) -> VariantResult:
    own = [decision for decision in decisions if decision.variant == name]
    decided = Counter(decision.decision for decision in own if decision.decision)
    without = sum(decision.outcome is None for decision in own)
    units, positive = int(sums.units[-1]), int(sums.other[-1])
    mean = float(sums.mean[-1]) if units else 0.0
    return VariantResult(name, len(own) - without, units, mean, positive, dict(sorted(decided.items())), without)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
