"""What a profile holds: a score for each task, what was left out, and the protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, counted, view_function
from visir.encoders.base import Encoder
from visir.encoders.composed import ComposedEncoder, CompositionRule
from visir.errors import VisirError, nearest
from visir.evaluation.assembly import assemble
from visir.evaluation.chance import mean_chance
from visir.evaluation.evaluate import evaluate
from visir.evaluation.folds import clusters_of
from visir.evaluation.language import LanguageModel
from visir.evaluation.results import Evaluation, plain
from visir.evaluation.systems import EncoderSystem
from visir.evaluation.systems.blind import BlindSystem
from visir.evaluation.text_weight import any_of_both
from visir.records import Task

# What a row of a profile is called, and what a task measures for it.

ABILITIES: Mapping[str, str] = {
    "retrieval": "Find the right one among many.",
    "composition": "Tell apart what has the same words or the same things: who is where, which colour, how many.",
    "language": "Read other languages, and long texts.",
    "classification": "Name what is in a picture.",
    "robustness": "Find the right one although the caption or the picture is damaged.",
}
"""The abilities in the order of the page, with what each is."""


@dataclass(frozen=True)
class Skill:
    """One row of a profile."""

    name: str  # in short, for `--tasks` and JSON: "text-to-image"
    title: str  # for people: "a caption finds its picture"
    ability: str  # a key of `ABILITIES`
    task: str = ""  # the task of the source: "t2i"
    measure: str = "hit@1"  # the measure: a share from 0 to 1 whose chance is known


@dataclass(frozen=True)
class Floor:
    """What is reached without a look at the query, or why that is not known."""

    value: float | None  # the share; None where it is not known
    by: str = ""  # what reaches it: "the most frequent class", or a language model by name
    reason: str = ""  # why it is not known


@dataclass(frozen=True, eq=False)
class Measured:
    """What a task gives for one skill of one model."""

    values: NDArray[np.float64]  # (n,) one value per query or picture, from 0 to 1
    clusters: NDArray[Any] | None  # (n,) the image or item of each query; None where queries are independent
    chance: float  # what random scores reach
    candidates: str  # how many candidates a query has: "200", "2 to 4"
    protocol: tuple[tuple[str, str], ...]  # (label, value) rows: everything on which the number depends
    notes: tuple[str, ...] = ()  # what a reader must know
    floor: Floor | None = None  # what is reached without a look at the query; None where that makes no sense


# What a task of a profile is: a source of data, and the skills that are measured on it.


@dataclass(frozen=True, eq=False, kw_only=True)
class ProfileTask(ABC):
    """One source of data, opened and measured once for all of its skills."""

    source: str  # the name of the data: "scenes", "flickr8k"
    skills: tuple[Skill, ...]  # the rows that it gives
    open: Callable[[], Any]  # opens the data. It is called once, when the task is measured.

    def prepare(self) -> Any:
        """The data with all that the skills share: made once, for every model."""
        return self.open()

    @abstractmethod
    def missing(self, data: Any, skill: Skill, encoder: Encoder) -> str:
        """What a model cannot take that the skill needs: "reads no texts"; "" for nothing."""

    @abstractmethod
    def measure(self, data: Any, skills: Sequence[Skill], encoder: Encoder, **encoding: Any) -> dict[str, Measured]:
        """Measure a model."""

    def floors(
        self, data: Any, skills: Sequence[Skill], language_model: Callable[[str], LanguageModel]
    ) -> Mapping[str, Floor]:
        """What is reached without a look at the queries, by the name of the skill, as far as that makes sense."""
        return {}


def unread(needed: Sequence[str], encoder: Encoder) -> str:
    """What a model does not read of what is needed, in words."""
    lacking = [f"{name}s" for name in ("text", "image") if name in needed and name not in encoder.modalities]
    return f"{encoder.card.name} reads no {' and no '.join(lacking)}" if lacking else ""


def reason_of(fault: VisirError) -> str:
    """Why something was not measured, in a line."""
    return f"{fault.message.rstrip('.')}{f'; {fault.hint}' if fault.hint else ''}"


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
    ability: str  # a key of `visir.studies.profile.result.ABILITIES`
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
class ModelProfile(Tabular, Plotted):
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
            "scores": [_plain(row) for row in self.scores],
            "left_out": [{"name": row.name, **vars(row)} for row in self.left_out],
            "protocols": {key: dict(rows) for key, rows in self.protocols.items()},
            "notes": list(self.notes),
        }

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the profile as a page: one HTML file."""
        written: Path = view_function(self, "page")(self, path, replace)
        return written


def in_order(scores: Sequence[SkillScore]) -> tuple[SkillScore, ...]:
    """Scores by ability, and within it by falling strength."""
    order = list(ABILITIES)
    return tuple(sorted(scores, key=lambda row: (order.index(row.ability), *by_strength(row))))


def by_strength(row: SkillScore) -> tuple[bool, float, str]:
    """A key that sorts by falling strength; scores of which there is none come last, equal ones by name."""
    return isnan(row.strength), -row.strength if not isnan(row.strength) else 0.0, row.name


def _plain(row: SkillScore) -> dict[str, Any]:
    values = {"name": row.name, **vars(row), "strength": row.strength, "notes": list(row.notes)}
    values["difference"] = None if row.difference is None else vars(row.difference)
    made: dict[str, Any] = plain(values)
    return made


# Tasks of a profile in which queries search documents: retrieval, choices, composed queries.

GROUP_SCORE = "group_score"
"""The measure that needs all tasks of an item."""
COMPOSE = "sum(0.5)"
"""How a model that reads texts and images apart answers a query of both."""


_NO_TEXTS = "a model of texts alone cannot choose among pictures"
_NO_MODEL = "no language model is at hand: blind=NAME (--blind NAME), gpt2 or a file of captions"


@dataclass(frozen=True, eq=False)
class SearchData:
    """A source that was opened, and the tasks of it that are measured."""

    source: Any
    tasks: Mapping[str, Task]


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchTask(ProfileTask):
    """Queries search documents, in `visir.evaluate`."""

    split: str | None = None  # the split that is measured; None is everything
    relevance: str | None = None  # the set of judgements; None is the usual one
    # A language model that chooses without a look at the query, as "blind:NAME" of `visir.evaluate`; "" for none.
    blind_model: str = ""

    def prepare(self) -> SearchData:
        """Open the source, and assemble the tasks that the skills need; a group score needs all of them."""
        source = self.open()
        grouped = any(skill.measure == GROUP_SCORE for skill in self.skills)
        tasks = assemble(
            source,
            split=self.split,
            relevance=self.relevance,
            tasks=None if grouped else [skill.task for skill in self.skills],
        ).tasks
        return SearchData(source, tasks)

    def missing(self, data: SearchData, skill: Skill, encoder: Encoder) -> str:
        """What of the queries and the documents the model does not read."""
        tasks = data.tasks.values() if skill.measure == GROUP_SCORE else [data.tasks[skill.task]]
        kinds = {kind for task in tasks for side in (task.queries, task.documents) for kind in side.kinds}
        return unread(
            [part for kind in kinds - ({"text+image"} & encoder.modalities) for part in kind.split("+")], encoder
        )

    def measure(
        self, data: SearchData, skills: Sequence[Skill], encoder: Encoder, **encoding: Any
    ) -> dict[str, Measured]:
        """Search once for all skills, and take their measures."""
        grouped = any(skill.measure == GROUP_SCORE for skill in skills)
        wanted = {skill.task for skill in skills}
        tasks = {name: task for name, task in data.tasks.items() if grouped or name in wanted}
        system = EncoderSystem(_composed(encoder, tasks), zero_queries="unanswered", **encoding)
        evaluation = self._evaluate(data, system, skills, list(tasks))
        card = tuple(evaluation.protocol.card())
        measured = {}
        for skill in skills:
            task = tasks[skill.task]
            measured[skill.name] = Measured(
                evaluation.values(skill.task, skill.measure),
                clusters_of(evaluation.result, skill.task),
                mean_chance(tasks, skill.task, skill.measure),
                str(task.pools).partition(" ")[0] if task.pools is not None else f"{task.gallery.size:,}",
                card,
                evaluation.notes,
            )
        return measured

    def floors(
        self, data: SearchData, skills: Sequence[Skill], language_model: Callable[[str], LanguageModel]
    ) -> Mapping[str, Floor]:
        """What a language model reaches that takes the likelier text, where a query has candidates of its own."""
        floors: dict[str, Floor] = {}
        of_texts: list[Skill] = []
        for skill in skills:
            task = data.tasks[skill.task]
            if task.pools is None:
                continue
            grouped = list(data.tasks.values()) if skill.measure == GROUP_SCORE else [task]
            if any(part.documents.modality != "text" for part in grouped):
                floors[skill.name] = Floor(None, reason=_NO_TEXTS)
            elif not self.blind_model:
                floors[skill.name] = Floor(None, reason=_NO_MODEL)
            else:
                of_texts.append(skill)
        if not of_texts:
            return floors
        try:
            blind = BlindSystem(language_model(self.blind_model))
            evaluation = self._evaluate(data, blind, of_texts, list(dict.fromkeys(skill.task for skill in of_texts)))
        except VisirError as fault:
            return floors | {skill.name: Floor(None, reason=reason_of(fault)) for skill in of_texts}
        values = {skill.name: evaluation.values(skill.task, skill.measure) for skill in of_texts}
        return floors | {name: Floor(float(np.mean(value)), blind.model.name) for name, value in values.items()}

    def _evaluate(self, data: SearchData, system: Any, skills: Sequence[Skill], tasks: list[str]) -> Evaluation:
        measures = list(dict.fromkeys(skill.measure for skill in skills))
        return evaluate(data.source, system, tasks, split=self.split, relevance=self.relevance, measures=measures)


def _composed(encoder: Encoder, tasks: Mapping[str, Task]) -> Encoder:
    """The encoder, which can also answer queries of a text and an image, where there are some."""
    if not any_of_both(tasks) or "text+image" in encoder.modalities:
        return encoder
    return ComposedEncoder(encoder, CompositionRule.parse(COMPOSE))
