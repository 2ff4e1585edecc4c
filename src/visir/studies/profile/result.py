"""What a profile holds: a score for each task, what was left out, and the protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.plugins import load_target
from visir.studies.profile.skill import ABILITIES


@dataclass(frozen=True)
class ScoreDifference:
    """The score of the model minus that of the reference, over the same queries, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class SkillScore:
    """One row of a profile. Scores are shares from 0 to 1."""

    source: str  # the data: "scenes"
    skill: str  # the task in short: "typos"
    title: str  # the same for people
    ability: str  # a key of `visir.studies.profile.skill.ABILITIES`
    measure: str  # the measure: "hit@1"
    queries: int  # how many queries or pictures were measured
    candidates: str  # how many candidates each has
    score: float  # what the model reaches
    low: float  # the lower end of its 95 % interval; NaN where there is none
    high: float  # the upper end
    chance: float  # what random scores reach
    # What is reached without a look at the query: by a language model, or by naming the most frequent class. None where
    # that makes no sense.
    blind: float | None
    # What the reference reaches; None where it cannot take the task, or failed (`reference_missing`).
    reference: float | None
    difference: ScoreDifference | None  # the model minus the reference; None where there is no reference
    protocol: str  # the key of the protocol in `ModelProfile.protocols`
    notes: tuple[str, ...] = ()  # what a reader must know
    blind_by: str = ""  # what reaches `blind`: "the most frequent class", or a language model by name
    blind_missing: str = ""  # why there is no `blind`, where there should be one; "" where it makes no sense
    reference_missing: str = ""  # why there is no `reference`; "" where nobody asked for one

    @property
    def name(self) -> str:
        """The source and the task: "scenes/typos"."""
        return f"{self.source}/{self.skill}"

    @property
    def strength(self) -> float:
        """Where the score stands between chance (0) and perfect (1); below 0 it is worse than chance."""
        return self.between(self.score)

    def between(self, score: float) -> float:
        """Where any score of this task stands between chance (0) and perfect (1); NaN where chance is perfect."""
        return (score - self.chance) / (1 - self.chance) if self.chance < 1 else nan


@dataclass(frozen=True)
class LeftOutTask:
    """A task that was not measured, and the reason."""

    source: str
    skill: str
    title: str
    ability: str
    reason: str

    @property
    def name(self) -> str:
        """The source and the task: "scenes/typos"."""
        return f"{self.source}/{self.skill}"


@dataclass(frozen=True, eq=False)
class ModelProfile(Tabular, Plotted, view="visir.reports.views.profile"):
    """What a model can do: its scores by ability, the strongest first."""

    model: str  # the name of the model
    reference: str  # the name of the reference; "" for none
    scores: tuple[SkillScore, ...]  # the scores, ability by ability, by falling strength
    left_out: tuple[LeftOutTask, ...] = ()  # what was not measured
    # By key: everything on which a number depends, as (label, value) rows.
    protocols: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a reader must know of the whole

    def __repr__(self) -> str:
        best = self.by_strength
        shown = [
            f"{title}: {row.name} {100 * row.score:.1f} % (strength {100 * row.strength:.0f} %)"
            for title, row in (("strongest", best[0]), ("weakest", best[-1]))
        ]
        beside = f", beside {self.reference}" if self.reference else ""
        counts = f"{counted(len(self.scores), 'tasks')} of {counted(len(self.abilities), 'abilities')}"
        return brief(
            self,
            f"{self.model}: {counts}{beside}",
            *shown,
            self.summary,
            f"left out: {len(self.left_out)}" if self.left_out else "",
        )

    @property
    def abilities(self) -> tuple[str, ...]:
        """The abilities of which something was measured, in the order of the page."""
        return tuple(ability for ability in ABILITIES if any(row.ability == ability for row in self.scores))

    @property
    def by_strength(self) -> tuple[SkillScore, ...]:
        """All scores by falling strength, whatever the ability."""
        return tuple(sorted(self.scores, key=by_strength))

    @property
    def summary(self) -> str:
        """How many scores are above chance and above the reference, beyond their intervals."""
        total = len(self.scores)
        above = sum(not isnan(row.low) and row.low > row.chance for row in self.scores)
        text = f"above chance: {above} of {total}"
        compared = [row.difference for row in self.scores if row.difference is not None]
        if not compared:
            return text
        better, worse = sum(item.low > 0 for item in compared), sum(item.high < 0 for item in compared)
        return f"{text}; better than {self.reference}: {better} of {len(compared)}, worse: {worse}"

    def __getitem__(self, name: str) -> SkillScore:
        """The row of a task: `profile["scenes/typos"]`, or "typos" where one source has it."""
        rows = [row for row in self.scores if name in (row.name, row.skill)]
        if len(rows) != 1:
            problem = f"there is no task {name!r}" if not rows else f"{name!r}: of which source?"
            raise VisirError(problem, hint=nearest(name, [row.name for row in self.scores]))
        return rows[0]

    def of(self, ability: str) -> tuple[SkillScore, ...]:
        """The scores of an ability, by falling strength."""
        return tuple(row for row in self.scores if row.ability == ability)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; undefined values are None."""
        return {
            "model": self.model,
            "reference": self.reference or None,
            "scores": [_plain_score(row) for row in self.scores],
            "left_out": [{"name": row.name, **vars(row)} for row in self.left_out],
            "protocols": {key: dict(rows) for key, rows in self.protocols.items()},
            "notes": list(self.notes),
        }

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the profile as a page: one HTML file."""
        written: Path = load_target("visir.reports.profile:write_profile")(path, self, replace=replace)
        return written


def in_order(scores: Sequence[SkillScore]) -> tuple[SkillScore, ...]:
    """Scores by ability, and within it by falling strength."""
    order = list(ABILITIES)
    return tuple(sorted(scores, key=lambda row: (order.index(row.ability), *by_strength(row))))


def by_strength(row: SkillScore) -> tuple[bool, float, str]:
    """A key that sorts by falling strength; scores of which there is none come last, equal ones by name."""
    return isnan(row.strength), -row.strength if not isnan(row.strength) else 0.0, row.name


def _plain_score(row: SkillScore) -> dict[str, Any]:
    values = {"name": row.name, **vars(row), "strength": row.strength, "notes": list(row.notes)}
    values["difference"] = None if row.difference is None else _plain(vars(row.difference))
    return _plain(values)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in values.items()}
