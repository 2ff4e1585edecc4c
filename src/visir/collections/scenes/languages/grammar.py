"""What a language can say of a scene."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, Scene
from visir.collections.scenes.language import KINDS, TELLS, Caption, sentence
from visir.collections.scenes.palette import Draws

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

    def agreeing(self, forms: tuple[str, str]) -> str:
        """Of the masculine and the feminine form of an adjective that of this noun."""
        return forms[self.gender == "f"]


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
    """A language that is a table of sentences, and the words of a scene that are put into them."""

    # A sentence may begin with a small letter, and has no full stop; `finish` adds both.

    ways: ClassVar[dict[str, tuple[str, ...]]]
    """The ways to say each kind of sentence: each of `KINDS`, and every other method of `Grammar` by its name."""
    sides: ClassVar[dict[Side, str]]
    """"to the left", "to the right"."""

    @abstractmethod
    def words(self, scene: Scene) -> dict[str, str]:
        """What the names in the sentences stand for, where it follows from the scene alone."""
        # All languages have "thing" and "other", the subject and the companion, and "of_thing" and "of_other", which
        # stand behind a side.

    def say(self, kind: str, scene: Scene, draws: Draws, **words: str) -> str:
        """One of the ways of a kind, with the words of the scene and these."""
        return self.finish(draws.one_of(self.ways[kind]).format(**self.words(scene), **words))

    def finish(self, text: str) -> str:
        """A sentence with its capital and its full stop."""
        return sentence(text)

    def caption(self, scene: Scene, number: int) -> Caption:
        return Caption(self.say(KINDS[number], scene, Draws(scene, _CAPTIONS + number)), TELLS[number])

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        words = self.words(scene)
        named, second = ("thing", "other") if first == "subject" else ("other", "thing")
        return self.say(
            "beside", scene, draws, first=words[named], of_second=words[f"of_{second}"], side=self.sides[side]
        )

    def beside_at(self, scene: Scene) -> str:
        return self.say("beside_at", scene, Draws(scene, 0))
