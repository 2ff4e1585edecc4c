"""What a language can say of a scene."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, Scene
from visir.collections.scenes.language import TELLS, Caption

Thing = Literal["subject", "companion"]
Side = Literal["left", "right"]
SIDES: dict[str, Side] = {"left of": "left", "right of": "right"}
RELATIONS: dict[Side, str] = {"left": "left of", "right": "right of"}

_CAPTIONS = 60
"""Draws of captions have this purpose and the next four."""


class GenderedNoun(NamedTuple):
    """A noun of a language with two genders."""

    word: str
    gender: Literal["m", "f"]
    plural: str = ""


class Grammar(ABC):
    """One language: the captions of a scene, and the sentences that choice tasks need.

    Choices of wording come from the scene's `variation` through `draws`, never from its facts. So two scenes that
    differ in one fact are worded alike.
    """

    code: ClassVar[str]
    title: ClassVar[str]

    def describe(self, scene: Scene) -> tuple[Caption, ...]:
        """The five captions of a scene. Which facts each tells is the same in all languages."""
        return tuple(self.caption(scene, number) for number in range(CAPTIONS_PER_SCENE))

    @abstractmethod
    def caption(self, scene: Scene, number: int) -> Caption:
        """Caption 0–4 of a scene."""

    @abstractmethod
    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        """That one of the two things is on one side of the other: "A blue ball is to the left of a red dog …"."""

    @abstractmethod
    def beside_at(self, scene: Scene) -> str:
        """Where the subject is, and on which side the companion: "A red dog on the left of the picture, with …"."""

    @abstractmethod
    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        """That the subject has one colour and not another: "The dog on the beach is red, not blue"."""

    @abstractmethod
    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        """That no such thing flies above the subject: "There are no kites above the red dog on the beach"."""

    @abstractmethod
    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        """That no such thing is there: "There is a red dog on the beach, but no drum"."""


class SentenceGrammar(Grammar):
    """A language whose captions are one sentence each.

    A method may begin with a small letter, and writes no full stop; `finish` adds both.
    """

    def caption(self, scene: Scene, number: int) -> Caption:
        write = (self.looks, self.company, self.above, self.weather, self.layout)[number]
        return Caption(self.finish(write(scene, Draws(scene, _CAPTIONS + number))), TELLS[number])

    def finish(self, text: str) -> str:
        """A sentence with its capital and its full stop."""
        return f"{text[0].upper()}{text[1:]}."

    @abstractmethod
    def looks(self, scene: Scene, draws: Draws) -> str:
        """Caption 0: the subject with its colour, size and pattern, and the place."""

    @abstractmethod
    def company(self, scene: Scene, draws: Draws) -> str:
        """Caption 1: where the second thing is, seen from the subject."""

    @abstractmethod
    def above(self, scene: Scene, draws: Draws) -> str:
        """Caption 2: what flies above the subject, and how many."""

    @abstractmethod
    def weather(self, scene: Scene, draws: Draws) -> str:
        """Caption 3: the weather and the time of day."""

    @abstractmethod
    def layout(self, scene: Scene, draws: Draws) -> str:
        """Caption 4: where in the picture the subject is, and what is in the distance."""
