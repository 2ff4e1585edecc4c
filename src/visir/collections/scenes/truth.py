"""What is true of a scene, and which wrong statements about it are clearly wrong.

A caption is a list of `Claim`s. Whether a claim holds is read off the facts. That is not enough for a wrong caption: by
the facts "cloudy" is false of a rainy day, and a person may call it true. So wrong captions come from scenes that are
*clearly* different: `clearly_differ` leaves out values that look or mean nearly the same, and things that stand in the
picture for another reason (a green turtle's shell may be pink). It is symmetric, so that a pair of scenes gives two
items, and no value is more often right than wrong: a model that sees no picture cannot do better than chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from visir.collections.scenes.facts import Scene

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
