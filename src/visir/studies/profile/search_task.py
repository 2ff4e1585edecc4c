"""Tasks of a profile in which queries search documents: retrieval, choices, composed queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.encoders.base import Encoder
from visir.encoders.composed.encoder import ComposedEncoder
from visir.encoders.composed.rule import CompositionRule
from visir.errors import VisirError
from visir.evaluation.assembly import assemble
from visir.evaluation.chance import mean_chance
from visir.evaluation.clusters import clusters_of
from visir.evaluation.composed_system import any_of_both
from visir.evaluation.evaluate import evaluate
from visir.evaluation.language import LanguageModel
from visir.evaluation.results import Evaluation
from visir.evaluation.systems import EncoderSystem
from visir.evaluation.systems.blind import BlindSystem
from visir.records import Task
from visir.studies.profile.skill import Floor, Measured, Skill
from visir.studies.profile.task import ProfileTask, reason_of, unread

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
            captions="all",
            gallery="split",
            tasks=None if grouped else [skill.task for skill in self.skills],
            folds=1,
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
