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
    """One source of data, opened and measured once for all of its skills.

    Attributes:
        source: The name of the data: "scenes", "flickr8k".
        skills: The rows that it gives.
        open: Opens the data. It is called once, when the task is measured.
    """

    source: str
    skills: tuple[Skill, ...]
    open: Callable[[], Any]

    def prepare(self) -> Any:
        """The data with all that the skills share: made once, for every model."""
        return self.open()

    @abstractmethod
    def missing(self, data: Any, skill: Skill, encoder: Encoder) -> str:
        """What a model cannot take that the skill needs: "reads no texts"; "" for nothing.

        Args:
            data: What `prepare` gave.
            skill: One of `skills`.
            encoder: The model.
        """

    @abstractmethod
    def measure(self, data: Any, skills: Sequence[Skill], encoder: Encoder, **encoding: Any) -> dict[str, Measured]:
        """Measure a model.

        Args:
            data: What `prepare` gave.
            skills: Those of `skills` that are wanted and that the model can take.
            encoder: The model.
            **encoding: Options of `visir.encode`.

        Returns:
            By the name of the skill.
        """

    def floors(
        self, data: Any, skills: Sequence[Skill], language_model: Callable[[str], LanguageModel]
    ) -> Mapping[str, Floor]:
        """What is reached without a look at the queries, by the name of the skill, as far as that makes sense.

        Args:
            data: What `prepare` gave.
            skills: Those that are wanted.
            language_model: Gives a language model by its name.
        """
        return {}


def unread(needed: Sequence[str], encoder: Encoder) -> str:
    """What a model does not read of what is needed, in words.

    Args:
        needed: "text", "image".
        encoder: The model.

    Example:
        >>> import visir
        >>> unread(["text", "image"], visir.load("bow")), unread(["text"], visir.load("bow"))
        ('bow:4096 reads no images', '')
    """
    lacking = [f"{name}s" for name in ("text", "image") if name in needed and name not in encoder.modalities]
    return f"{encoder.card.name} reads no {' and no '.join(lacking)}" if lacking else ""


def reason_of(fault: VisirError) -> str:
    """Why something was not measured, in a line."""
    return f"{fault.message.rstrip('.')}{f'; {fault.hint}' if fault.hint else ''}"
