"""Tasks of a profile in which queries search documents: retrieval, choices, composed queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.encoders.base import Encoder
from visir.encoders.composed.encoder import ComposedEncoder
from visir.encoders.composed.rule import CompositionRule
from visir.evaluation.assembly import assemble
from visir.evaluation.chance import mean_chance
from visir.evaluation.clusters import clusters_of
from visir.evaluation.composed_system import any_of_both
from visir.evaluation.evaluate import evaluate
from visir.evaluation.systems import EncoderSystem
from visir.evaluation.systems.blind import BlindSystem
from visir.records import Task
from visir.studies.profile.skill import Measured, Skill
from visir.studies.profile.task import ProfileTask, unread

COMPOSE = "sum(0.5)"
"""How a model that reads texts and images apart answers a query of both."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchTask(ProfileTask):
    """Queries search documents, in `visir.evaluate`.

    Attributes:
        split: The split that is measured; None is everything.
        relevance: The set of judgements; None is the usual one.
        blind_model: A language model that chooses without a look at the query, as "blind:NAME" of `visir.evaluate`; ""
            for none.
    """

    split: str | None = None
    relevance: str | None = None
    blind_model: str = ""

    def missing(self, source: Any, skill: Skill, encoder: Encoder) -> str:
        """What of the queries and the documents the model does not read."""
        task = self._tasks(source, [skill])[skill.task]
        kinds = {*task.queries.kinds, *task.documents.kinds} - ({"text+image"} & encoder.modalities)
        return unread([part for kind in kinds for part in kind.split("+")], encoder)

    def measure(self, source: Any, skills: Sequence[Skill], encoder: Encoder, **encoding: Any) -> dict[str, Measured]:
        """Search once for all skills, and take their measures."""
        tasks = self._tasks(source, skills)
        measures = list(dict.fromkeys(skill.measure for skill in skills))
        system = EncoderSystem(_composed(encoder, tasks), zero_queries="unanswered", **encoding)
        evaluation = evaluate(
            source, system, list(tasks), split=self.split, relevance=self.relevance, measures=measures
        )
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

    def blind(self, source: Any, skills: Sequence[Skill]) -> Mapping[str, float]:
        """The blind baseline of choices among texts."""
        tasks = self._tasks(source, skills)
        chosen = [
            skill
            for skill in skills
            if skill.measure != "group_score"
            and tasks[skill.task].pools is not None
            and tasks[skill.task].documents.modality == "text"
        ]
        if not self.blind_model or not chosen:
            return {}
        names = list(dict.fromkeys(skill.task for skill in chosen))
        measures = list(dict.fromkeys(skill.measure for skill in chosen))
        evaluation = evaluate(
            source,
            BlindSystem(self.blind_model),
            names,
            split=self.split,
            relevance=self.relevance,
            measures=measures,
        )
        return {skill.name: float(np.mean(evaluation.values(skill.task, skill.measure))) for skill in chosen}

    def _tasks(self, source: Any, skills: Sequence[Skill]) -> Mapping[str, Task]:
        """The tasks that the skills need; a group score needs all of them."""
        names = None if any(skill.measure == "group_score" for skill in skills) else [skill.task for skill in skills]
        return assemble(
            source,
            split=self.split,
            relevance=self.relevance,
            captions="all",
            gallery="split",
            tasks=names,
            folds=1,
        ).tasks


def _composed(encoder: Encoder, tasks: Mapping[str, Task]) -> Encoder:
    """The encoder, which can also answer queries of a text and an image, where there are some."""
    if not any_of_both(tasks) or "text+image" in encoder.modalities:
        return encoder
    return ComposedEncoder(encoder, CompositionRule.parse(COMPOSE))
