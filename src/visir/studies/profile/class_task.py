"""Tasks of a profile in which pictures are classified: by prompts, or by a probe on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from visir.encoders.base import Encoder
from visir.errors import ConfigurationError
from visir.evaluation.classification.classify import classify
from visir.evaluation.classification.result import Classification
from visir.studies.profile.skill import Floor, Measured, Skill
from visir.studies.profile.task import ProfileTask, unread

ZERO_SHOT, PROBE = "zero-shot", "linear-probe"
"""The tasks that skills of classification name."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTask(ProfileTask):
    """Pictures with classes, in `visir.classify`. The `task` of its skills is "zero-shot" or "linear-probe"."""

    truth: str | None = None  # where the classes stand; None finds out
    templates: tuple[str, ...] | None = None  # the prompts; None takes CLIP's
    split: str | None = None  # the split that is measured; "all" is everything
    train: str = "train"  # the split that a probe learns from
    shots: int | str = 16  # how many pictures of each class a probe learns from; "all" for all

    def missing(self, data: Any, skill: Skill, encoder: Encoder) -> str:
        """A probe needs images, prompts need texts too."""
        return unread(["image"] if skill.task == PROBE else ["text", "image"], encoder)

    def measure(self, data: Any, skills: Sequence[Skill], encoder: Encoder, **encoding: Any) -> dict[str, Measured]:
        """Classify with all methods that are wanted."""
        measured = {}
        for skill in skills:
            probe = skill.task == PROBE
            result = classify(
                data,
                encoder,
                truth=self.truth,
                templates=list(self.templates) if self.templates else None,
                methods=skill.task,
                shots=self.shots if probe else 0,
                draws=1,
                split=self.split,
                train=self.train,
                **encoding,
            )
            if not isinstance(result, Classification):
                raise ConfigurationError(f"{self.source}: no picture has a class.", hint="name the column of classes")
            hits = result.predictions[result.key(skill.task)].ranks == 1
            measured[skill.name] = Measured(
                hits.mean(axis=0),
                None,
                result.chance,
                f"{len(result.classes):,}",
                tuple(result.protocol),
                result.notes,
                Floor(result.majority, "the most frequent class"),
            )
        return measured
