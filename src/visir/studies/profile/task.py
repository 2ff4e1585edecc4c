"""What a task of a profile is: a source of data, and the skills that are measured on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from visir.encoders.base import Encoder
from visir.errors import VisirError
from visir.evaluation.language import LanguageModel
from visir.studies.profile.skill import Floor, Measured, Skill


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
