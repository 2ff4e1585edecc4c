"""An online test read out at any time: which variant does better, and whether the test itself can be trusted."""

from __future__ import annotations

import hashlib
import json
import math
import time as clock
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.display import Displayed
from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.files import iter_lines
from visir.stats import RunningSums, sample_ratio, sequential
from visir.stats.looks import ERROR, PLANNED

# The log of decisions of an online test: who saw which variant, what was decided, what came of it.

KEYS = ("session", "visitor", "variant", "decision", "time", "outcome")


@dataclass(slots=True)
class Decision:
    """One session of an online test."""

    session: str  # its name
    variant: str  # what it saw
    visitor: str  # the unit that was assigned; the session where the log names none
    decision: str  # what was decided, as a text; "" where nothing is told
    time: int  # microseconds since 1970 (UTC), or the number of its first line where the log has no times
    outcome: float | None  # what came of it; None where nothing is told
    line: int  # its first line
    timed: bool  # whether the log has a time for it


def assign(unit: str, variants: Sequence[str], *, test: str = "") -> str:
    """The variant of a unit: the same in every process and at every visit, as good as at random over units.

    Args:
        unit: The visitor (or session).
        variants: The names of the variants, of equal shares.
        test: The name of the test, so that two tests assign independently.

    Raises:
        ConfigurationError: There are fewer than two variants.

    Example:
        >>> [assign(f"v{k}", ["rules", "model"], test="spring") for k in range(4)]
        ['rules', 'model', 'model', 'model']
    """
    if len(set(variants)) < 2:
        raise ConfigurationError(f"{list(variants)}: a test needs two variants.", hint='["control", "model"]')
    digest = hashlib.sha256(f"{test}\n{unit}".encode()).digest()
    return variants[int.from_bytes(digest[:8], "big") * len(variants) >> 64]


class DecisionLog:
    """Writes a log of decisions: every call adds a line at the end of the file.

    Args:
        path: The file; it is begun where there is none, and never shortened.

    Example:
        >>> log = DecisionLog("decisions.jsonl")
        >>> log.decide("s1", "model", visitor="v1", decision="show")
        >>> log.outcome("s1", 1)
        >>> read_decisions("decisions.jsonl")[0].outcome
        1.0
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def decide(
        self,
        session: str,
        variant: str,
        *,
        visitor: str | None = None,
        decision: str | bool | None = None,
        time: int | None = None,
    ) -> None:
        """Add a decision.

        Args:
            session: The session.
            variant: What it sees.
            visitor: The unit that was assigned.
            decision: What the system decided.
            time: Microseconds since 1970 (UTC); by default now.
        """
        now = clock.time_ns() // 1000 if time is None else time
        row = {"session": session, "visitor": visitor, "variant": variant, "decision": decision, "time": now}
        self._add({key: value for key, value in row.items() if value is not None})

    def outcome(self, session: str, value: float) -> None:
        """Add what came of a session: 1 for a purchase and 0 for none, or an amount."""
        self._add({"session": session, "outcome": value})

    def _add(self, row: dict[str, Any]) -> None:
        with self._path.open("ab") as file:  # one write each, so that lines of several processes do not mix
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def read_decisions(path: str | Path) -> list[Decision]:
    """The sessions of a log of decisions, in the order of time."""
    faults: list[str] = []
    sessions: dict[str, Decision] = {}
    for number, line in enumerate(iter_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            faults += [f"{path}, line {number}: {fault}" for fault in _add_line(sessions, line, number)]
    timeless = [each.line for each in sessions.values() if not each.timed]
    if 0 < len(timeless) < len(sessions):
        faults += [f"{path}, line {line}: no time, though other sessions have one" for line in timeless]
    hint = f"a line is a JSON object with {', '.join(KEYS)}"
    raise_faults(VisirError, f"{path}: a log of decisions", faults, hint=hint)
    if not sessions:
        raise VisirError(
            f"{path}: no decision in it.",
            hint='{"session": "s1", "variant": "model", "outcome": 1}',
            code="no-decision",
        )
    return sorted(sessions.values(), key=lambda each: (each.time, each.line))


def _add_line(sessions: dict[str, Decision], line: bytes, number: int) -> list[str]:
    """Add a line to its session; returns what is wrong with it, or contradicts."""
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError) as fault:
        return [f"not JSON ({fault})"]
    if not isinstance(row, dict):
        return ["JSON, but no object"]
    faults = [f"unknown key {key!r}; {nearest(key, KEYS)}" for key in row if key not in KEYS]
    fields: list[Any] = [row.get(key) for key in KEYS]
    name, visitor, variant, decision, at, outcome = fields
    faults += [
        f"{key} is {json.dumps(value)}, not a text"
        for key, value in (("session", name), ("visitor", visitor), ("variant", variant))
        if value is not None and not (isinstance(value, str) and value)
    ]
    if name is None:
        faults.append("no session")
    if outcome is not None and not (isinstance(outcome, bool | int | float) and math.isfinite(outcome)):
        faults.append(f"outcome is {json.dumps(outcome)}, not a number")
    time = None if at is None else _microseconds(at)
    if at is not None and time is None:
        faults.append(f"time is {json.dumps(at)}: neither ISO 8601 with an offset nor microseconds since 1970")
    if faults:
        return faults
    value = None if outcome is None else float(outcome)
    known = sessions.get(name)
    if known is None:
        if variant is None:
            return [f"session {name!r} has no variant yet: its decision must come first"]
        decided, when = "" if decision is None else str(decision).lower(), number if time is None else time
        sessions[name] = Decision(name, variant, visitor or name, decided, when, value, number, time is not None)
        return []
    if variant is not None and variant != known.variant:
        faults.append(f"session {name!r} saw {known.variant!r} at line {known.line}, and now {variant!r}")
    if visitor is not None and visitor != known.visitor:
        faults.append(f"session {name!r} is of {known.visitor!r} at line {known.line}, and now of {visitor!r}")
    known.outcome = known.outcome if value is None else value
    return faults


def _microseconds(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return round(moment.timestamp() * 1e6) if moment.tzinfo is not None else None


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
class AbTest(Displayed):
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
    first. Intervals and p-values are valid at any time; several variants share `error` (Bonferroni).

    Args:
        log: A file of `DecisionLog`, or any JSON lines of that form.
        control: The variant that others are compared with. Default: the first by name.
        shares: The planned share of units of each variant, adding up to 1; by default equal.
        error: How often the test may be wrong, whenever it is looked at.
        planned: Visitors at which intervals are narrowest; fix it before the test.
        most: Larger amounts of a visitor count as this; fix it before the test. About five mean orders: so a few very
            large orders do not decide.

    Raises:
        VisirError: The log cannot be read; all faults are listed with their lines.
        ConfigurationError: There are fewer than two variants, no such control, or shares that do not fit.

    Example:
        >>> from visir.sessions.online.ab_test import DecisionLog, assign
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
    sums, several, values = _running(decisions, names, np.inf if most is None else most)
    each = error / (len(names) - 1)
    effects = []
    for name in names[1:]:
        path = sequential(sums[name], sums[control], error=each, planned=planned)
        rejected = np.flatnonzero(path.p < each)
        count = (sums[name].units + sums[control].units).astype(int).tolist()
        looks = [(n, *map(_finite, ends)) for n, *ends in zip(count, path.difference, path.low, path.high, strict=True)]
        decided, (_, _, low, high) = count[rejected[0]] if len(rejected) else None, looks[-1]
        now = float(path.difference[-1]), low, high, float(path.p[-1])
        effects.append(VariantEffect(name, *now, each, decided, tuple(looks)))
    ratio = sample_ratio(np.stack([sums[name].units for name in names], axis=1), [plan[name] for name in names])
    results = []
    for name in names:
        own = [decision for decision in decisions if decision.variant == name]
        decided_as = Counter(decision.decision for decision in own if decision.decision)
        without = sum(decision.outcome is None for decision in own)
        units, positive = int(sums[name].units[-1]), int(sums[name].other[-1])
        mean = float(sums[name].mean[-1]) if units else 0.0
        counts = dict(sorted(decided_as.items()))
        results.append(VariantResult(name, len(own) - without, units, mean, positive, counts, without))
    has_visitors = any(decision.visitor != decision.session for decision in decisions)
    return AbTest(
        name=Path(log).name,
        control=control,
        variants=tuple(results),
        effects=tuple(effects),
        planned_shares={name: plan[name] for name in names},
        ratio_p=float(ratio[-1]),
        several=several,
        error=error,
        planned=planned,
        unit="visitors" if has_visitors else "sessions",
        timed=decisions[0].timed,
        most=most,
        cut=0 if most is None else sum(abs(value) > most for value in values),
        amounts=any(value not in (0.0, 1.0) for value in values),
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
) -> tuple[dict[str, RunningSums], int, Collection[float]]:
    """Sums of every variant at every look, how many units saw several variants, and the outcome of each unit."""
    first, lasted = decisions[0].time, decisions[-1].time - decisions[0].time + 1
    step = max(HOUR if decisions[0].timed else 1, -(-lasted // MOST_LOOKS))
    numbers = {name: [0.0, 0.0, 0.0, 0.0] for name in names}
    recorded: dict[str, list[list[float]]] = {name: [] for name in names}
    unit_variant: dict[str, str] = {}
    unit_value: dict[str, float] = {}
    several: set[str] = set()
    looks = 0
    for decision in decisions:
        while decision.time >= first + (looks + 1) * step:
            looks += 1
            for name in names:
                recorded[name].append(list(numbers[name]))
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
    arrays = {name: RunningSums(*np.array([*recorded[name], numbers[name]], np.float64).T) for name in names}
    return arrays, len(several), unit_value.values()


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
