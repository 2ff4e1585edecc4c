"""The world of the generated scenes: its facts, their values, and who tells them.

A scene is one value for each of the `FACTS`. The *role* of a fact is fixed for every scene there is, so that "does the
trained image vector still hold the pattern?" is a well-defined question for a probe:

- `shared`: all five captions tell it;
- `specific`: exactly one caption tells it, always the same one (`Fact.caption`, 0–4);
- `irrelevant`: it is visible in the picture, and no caption tells it.

This is the setting of thesis chapter 4 (section 4.2 and assumption 1 of its appendix): what the captions share (S),
what only one of them tells (C), and what is not task-relevant (¬R), here with known truth. Facts are drawn
independently and uniformly, so no fact can be guessed from another.

Randomness: fact j of scene i under seed s is word j of NumPy's `SeedSequence((s, i))`, whose output is fixed across
platforms and NumPy versions. So a scene does not depend on how many others are made, in which order, or where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np

from visir.errors import VisirError, nearest

Role = Literal["shared", "specific", "irrelevant"]
CAPTIONS_PER_SCENE = 5
T = TypeVar("T")

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")


@dataclass(frozen=True)
class Fact:
    """One thing that is so or otherwise in a scene: its name, its possible values, and who tells it.

    `caption` is the caption (0–4) that tells a specific fact, and None for the other roles.
    """

    name: str
    values: tuple[str | int, ...]
    role: Role
    about: str
    caption: int | None = None

    @property
    def tellers(self) -> frozenset[int]:
        """The captions (0–4) that tell this fact."""
        if self.role == "shared":
            return frozenset(range(CAPTIONS_PER_SCENE))
        return frozenset() if self.caption is None else frozenset({self.caption})


ANIMALS = ("dog", "cat", "rabbit", "pig", "elephant", "sheep", "duck", "turtle", "snail", "giraffe")
VEHICLES = ("car", "bus", "truck", "tractor", "train", "boat", "rocket")
SUBJECTS = (*ANIMALS, *VEHICLES, "tent", "armchair", "teapot", "robot", "umbrella")
PLACES = ("beach", "meadow", "desert", "street", "mountains", "forest", "lake", "farm")
COMPANIONS = ("ball", "bucket", "present", "flowerpot", "mug", "lantern", "hat", "drum", "mushroom", "suitcase")
LANDMARKS = ("house", "church", "castle", "windmill", "lighthouse", "Ferris wheel", "circus tent", "water tower")
FLYERS = ("bird", "butterfly", "balloon", "kite", "paper plane", "bee")

FACTS: tuple[Fact, ...] = (
    Fact("subject", SUBJECTS, "shared", "what the picture is about"),
    Fact("colour", COLOURS, "shared", "the subject's colour"),
    Fact("place", PLACES, "shared", "where it is"),
    Fact("size", ("small", "medium", "large"), "specific", "the subject's size", 0),
    Fact("pattern", ("plain", "striped", "spotted", "checked"), "specific", "the subject's texture", 0),
    Fact("companion", COMPANIONS, "specific", "the second thing", 1),
    Fact("companion_colour", COLOURS, "specific", "the second thing's colour", 1),
    Fact(
        "relation", ("left of", "right of", "in front of", "on"), "specific", "from the second thing to the subject", 1
    ),
    Fact("flyer", FLYERS, "specific", "what flies above the subject", 2),
    Fact("flyers", (1, 2, 3, 4, 5), "specific", "how many of them", 2),
    Fact("weather", ("clear", "cloudy", "rainy", "snowy", "foggy", "stormy"), "specific", "the weather", 3),
    Fact("time", ("day", "sunset", "night"), "specific", "the time of day, which sets the light", 3),
    Fact("position", ("left", "middle", "right"), "specific", "where in the picture the subject stands", 4),
    Fact("landmark", LANDMARKS, "specific", "what stands in the distance", 4),
    Fact("facing", ("left", "right"), "irrelevant", "which way the subject faces"),
    Fact("sun_side", ("left", "right"), "irrelevant", "on which side the sun or the moon stands"),
    Fact("horizon", ("low", "high"), "irrelevant", "how high the horizon lies"),
    Fact("ground", ("flowers", "stones", "tufts", "shells"), "irrelevant", "what is scattered on the ground"),
)
BY_NAME = {fact.name: fact for fact in FACTS}


@dataclass(frozen=True)
class Scene:
    """One scene: a value for every fact, and `variation`, the only thing that is no fact.

    `variation` (0 to 2**32 - 1) shifts flyers and scattered things a little, picks their colours, and picks the wording
    of the captions.
    """

    subject: str
    colour: str
    place: str
    size: str
    pattern: str
    companion: str
    companion_colour: str
    relation: str
    flyer: str
    flyers: int
    weather: str
    time: str
    position: str
    landmark: str
    facing: str
    sun_side: str
    horizon: str
    ground: str
    variation: int = 0

    def __post_init__(self) -> None:
        values = self.__dict__
        for fact in FACTS:
            if (value := values[fact.name]) not in fact.values:
                raise VisirError(
                    f"scene: {fact.name} cannot be {value!r}",
                    hint=nearest(str(value), [str(v) for v in fact.values]),
                    code="fact-without-value",
                )

    def with_fact(self, name: str, value: str | int) -> Scene:
        """The same scene with one fact changed (and the same `variation`, so that nothing else moves)."""
        return self.with_facts({name: value})

    def with_facts(self, changes: Mapping[str, str | int]) -> Scene:
        """The same scene with several facts changed."""
        for name in changes:
            if name not in BY_NAME:
                raise VisirError(f"scene: there is no fact {name!r}", hint=nearest(name, BY_NAME))
        return replace(self, **changes)  # type: ignore[arg-type]

    def differences(self, other: Scene) -> tuple[str, ...]:
        """The names of the facts in which two scenes differ."""
        return tuple(fact.name for fact in FACTS if getattr(self, fact.name) != getattr(other, fact.name))

    def chance(self, salt: int) -> float:
        """A number in [0, 1) made from `variation` and `salt`, the same everywhere (the splitmix64 finaliser)."""
        return _mixed((self.variation * _GOLDEN + (salt + 1) * _SALT) & _64_BITS)


_64_BITS = 0xFFFFFFFFFFFFFFFF
_GOLDEN, _SALT = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


def _mixed(z: int) -> float:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def _words(seed: int, index: int, count: int) -> list[int]:
    if seed < 0 or index < 0:
        raise VisirError(f"scenes: seed and index must not be negative, not {seed} and {index}.")
    words: list[int] = np.random.SeedSequence((seed, index)).generate_state(count, np.uint32).tolist()
    return words


def sample_scene(seed: int, index: int) -> Scene:
    """Scene `index` of seed `seed`: every fact drawn independently and uniformly.

    The remainder of a 32-bit word favours the first values by less than one part in 10**8.
    """
    *words, variation = _words(seed, index, len(FACTS) + 1)
    values: list[Any] = [fact.values[word % len(fact.values)] for fact, word in zip(FACTS, words, strict=True)]
    return Scene(*values, variation)  # type: ignore[call-arg]  # a value for every fact


def change_one(scene: Scene, seed: int, index: int) -> tuple[Scene, str]:
    """A hard negative of `scene`: exactly one *told* fact changed, and that fact's name.

    Only told facts, because no caption could separate two pictures that differ in an irrelevant one. Which fact, and
    its new value, come from `(seed, index)`.
    """
    told_facts = [fact for fact in FACTS if fact.role != "irrelevant"]
    which, value = _words(seed, index, len(FACTS) + 3)[-2:]
    fact = told_facts[which % len(told_facts)]
    others = [v for v in fact.values if v != getattr(scene, fact.name)]
    return scene.with_fact(fact.name, others[value % len(others)]), fact.name


def fact_names(role: Role | None = None, *, caption: int | None = None) -> tuple[str, ...]:
    """The facts of one role (all without), or those that caption `caption` tells, in the order of `FACTS`."""
    return tuple(
        fact.name
        for fact in FACTS
        if (role is None or fact.role == role) and (caption is None or caption in fact.tellers)
    )


# Choices for one scene that are no facts: the same on every machine, in any order.

_FIRST = 10_000
"""Pictures and captions use smaller salts of `Scene.chance`."""


class Draws:
    """A stream of choices that the `variation` of a scene and a number name."""

    def __init__(self, scene: Scene, purpose: int) -> None:
        self._state = (scene.variation * _GOLDEN + (_FIRST * (purpose + 1) + 1) * _SALT) & _64_BITS

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        self._state = state = (self._state + _SALT) & _64_BITS
        return int(_mixed(state) * n)

    def one_of(self, values: Sequence[T]) -> T:
        """One of the values."""
        self._state = state = (self._state + _SALT) & _64_BITS
        return values[int(_mixed(state) * len(values))]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """All values in another order."""
        rest = list(values)
        return [rest.pop(self.below(len(rest))) for _ in range(len(rest))]


assert tuple(f.name for f in FACTS) == tuple(f.name for f in fields(Scene))[:-1]


# What is true of a scene, and which wrong statements about it are clearly wrong.

Value = str | int


@dataclass(frozen=True)
class Claim:
    """A statement about a scene: a fact has this value, or (`negated`) has not.

    Example:
        >>> from visir.collections.scenes import sample_scene
        >>> claims = [Claim("colour", "white"), Claim("flyer", "bee", negated=True)]
        >>> [str(claim) for claim in claims], all(claim.holds(sample_scene(0, 0)) for claim in claims)
        (['colour=white', 'flyer!=bee'], True)
    """

    fact: str
    value: Value
    negated: bool = False

    def holds(self, scene: Scene) -> bool:
        """Whether it is true of a scene."""
        return (getattr(scene, self.fact) == self.value) is not self.negated

    def __str__(self) -> str:
        return f"{self.fact}{'!=' if self.negated else '='}{self.value}"


def claims_of(scene: Scene, facts: Iterable[str]) -> tuple[Claim, ...]:
    """The claims that these facts have the values of a scene, in the order of the names."""
    return tuple(Claim(fact, getattr(scene, fact)) for fact in sorted(facts))


def holds(claims: Iterable[Claim], scene: Scene) -> bool:
    """Whether all of these are true of a scene."""
    return all(claim.holds(scene) for claim in claims)


def clearly_differ(scene: Scene, other: Scene) -> bool:
    """Whether two scenes differ, and every fact in which they differ does so beyond doubt."""
    names = scene.differences(other)
    return bool(names) and all(_clear(name, scene, other) for name in names)


_ALIKE: dict[str, tuple[tuple[Value, ...], ...]] = {
    "colour": (
        ("red", "orange"), ("orange", "yellow"), ("red", "pink"), ("pink", "purple"), ("purple", "blue"),
        ("white", "yellow"), ("white", "pink"),
    ),
    "place": (("beach", "lake"), ("meadow", "farm"), ("meadow", "mountains"), ("meadow", "forest"), ("farm", "lake"),
              ("mountains", "lake"), ("mountains", "forest"), ("meadow", "lake"), ("farm", "mountains"),
              ("beach", "desert")),
    "size": (("small", "medium"), ("medium", "large")),
    "weather": (
        ("clear", "cloudy"), ("cloudy", "rainy"), ("cloudy", "snowy"), ("cloudy", "foggy"), ("cloudy", "stormy"),
        ("rainy", "stormy"), ("snowy", "stormy"), ("rainy", "foggy"),
    ),
    "time": (("day", "sunset"),),
    "position": (("left", "middle"), ("middle", "right")),
    "landmark": (("house", "church"), ("house", "castle"), ("house", "windmill"), ("lighthouse", "water tower")),
    "companion": (("bucket", "flowerpot"), ("bucket", "mug")),
    "subject": (("car", "truck"), ("car", "bus"), ("truck", "bus"), ("truck", "tractor"), ("train", "tractor"),
                ("car", "tractor")),
}  # fmt: skip
"""Values that a person might take for one another, or call by either name."""

_PARTS: dict[str, tuple[str, ...]] = {
    "turtle": ("green",), "rocket": ("red",), "lantern": ("yellow", "white"), "flowerpot": ("white", "green", "yellow"),
    "mushroom": ("white",), "drum": ("yellow", "white"), "present": ("yellow",), "bucket": ("white",),
    "hat": (), "mug": ("white",),
}  # fmt: skip
"""Colours that parts of a thing have whatever its own colour is."""

_ALSO: tuple[tuple[tuple[str, Value], tuple[str, Value]], ...] = (
    (("subject", "tent"), ("landmark", "circus tent")),
    (("subject", "duck"), ("flyer", "bird")),
    (("companion", "lantern"), ("place", "street")),
    (("companion", "flowerpot"), ("ground", "flowers")),
)
"""Two values of which one picture shows things that go by one name: neither is exchanged where the other is."""


def _clear(name: str, scene: Scene, other: Scene) -> bool:
    pair = {getattr(scene, name), getattr(other, name)}
    kind = "colour" if name == "companion_colour" else name
    if any(pair == set(alike) for alike in _ALIKE.get(kind, ())):
        return False
    if kind == "colour":
        thing = "subject" if name == "colour" else "companion"
        if pair & {*_PARTS.get(getattr(scene, thing), ()), *_PARTS.get(getattr(other, thing), ())}:
            return False
        if name == "colour" and "white" in pair and (scene.pattern, other.pattern) != ("plain", "plain"):
            return False  # stripes, spots and checks are cream
    for pairing in _ALSO:
        for (changed, value), (fixed, hidden) in (pairing, pairing[::-1]):
            if name == changed and value in pair and hidden in (getattr(scene, fixed), getattr(other, fixed)):
                return False
    return True
