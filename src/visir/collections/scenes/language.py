"""Five captions per scene, each telling the shared facts and its own, in English that varies.

| caption | tells besides subject, colour and place |
|---|---|
| 0 "looks" | size, pattern |
| 1 "company" | companion, companion_colour, relation |
| 2 "above" | flyer, flyers (how many) |
| 3 "weather" | weather, time |
| 4 "layout" | position, landmark |

The wording comes from the scene's `variation`, so a scene and its near-duplicate are worded alike: their captions
differ only in the words for the changed fact, and a caption that does not tell it is true of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, FACTS, Scene, fact_names
from visir.collections.scenes.render import FIGURES

WORDS: dict[str, dict[str | int, tuple[str, ...]]] = {
    "place": {
        "beach": ("on the beach", "at the beach", "on a sandy beach"),
        "meadow": ("in a meadow", "in a grassy meadow", "out in a meadow"),
        "desert": ("in the desert", "in a sandy desert", "out in the desert"),
        "street": ("on a city street", "in the street", "on a street in the city"),
        "mountains": ("in the mountains", "up in the mountains", "at the foot of the mountains"),
        "forest": ("in the forest", "on a forest path", "in a forest of pines"),
        "lake": ("by a lake", "beside a lake", "at the edge of a lake"),
        "farm": ("on a farm", "on the farm", "by the fence of a farm"),
    },
    "size": {"small": ("small", "little"), "medium": ("medium-sized", "mid-sized"), "large": ("large", "big")},
    "pattern": {
        "plain": ("plain", "unpatterned"),
        "striped": ("striped", "stripy"),
        "spotted": ("spotted", "dotted"),
        "checked": ("checked", "chequered"),
    },
    "relation": {
        "left of": ("to the left of", "on the left of"),
        "right of": ("to the right of", "on the right of"),
        "in front of": ("in front of", "just in front of"),
        "on": ("on top of", "sitting on top of"),
    },
    "flyers": {1: ("one", "a single"), 2: ("two",), 3: ("three",), 4: ("four",), 5: ("five",)},
    "weather": {
        "clear": ("clear", "cloudless"),
        "cloudy": ("cloudy", "overcast"),
        "rainy": ("rainy", "showery"),
        "snowy": ("snowy", "wintry"),
        "foggy": ("foggy", "misty"),
        "stormy": ("stormy", "thundery"),
    },
    "time": {"day": ("day", "daytime"), "sunset": ("evening", "sunset"), "night": ("night",)},
    "position": {
        "left": ("on the left", "on the left side"),
        "middle": ("in the middle", "in the centre"),
        "right": ("on the right", "on the right side"),
    },
}
"""How a value is said, for the facts whose value is not itself the word."""

_PLURALS = {"butterfly": "butterflies", "paper plane": "paper planes"}
_FLIGHT = {
    "bird": ("fly", "circle"), "butterfly": ("flutter", "fly"), "balloon": ("float", "drift"),
    "kite": ("fly", "dance"), "paper plane": ("glide", "fly"), "bee": ("buzz", "fly"),
}  # fmt: skip


@dataclass(frozen=True)
class Caption:
    """A sentence and the names of the facts that it tells."""

    text: str
    tells: frozenset[str]


KINDS = ("looks", "company", "above", "weather", "layout")
"""What caption 0–4 is about."""

TELLS: tuple[frozenset[str], ...] = tuple(frozenset(fact_names(caption=k)) for k in range(CAPTIONS_PER_SCENE))
"""The facts that caption 0–4 tells, the same for every scene."""


_NUMBER = {fact.name: number for number, fact in enumerate(FACTS)}


def ways_to_say(fact: str, value: str | int) -> tuple[str, ...]:
    """The words, one of which stands in every caption that tells this value of this fact."""
    if fact in WORDS:
        return WORDS[fact][value]
    if fact == "flyer":
        return (str(value), _PLURALS.get(str(value), f"{value}s"))
    return (str(value),)


def describe(scene: Scene) -> tuple[Caption, ...]:
    """The five captions of a scene, in the order of the table at the top of this module."""
    return tuple(Caption(_sentence(write(_Say(scene, k))), TELLS[k]) for k, write in enumerate(_WRITERS))


class _Say:
    """The words for one caption of one scene: each choice comes from the scene's variation and the caption's number."""

    def __init__(self, scene: Scene, caption: int) -> None:
        self.scene = scene
        self._salt = 100 * (caption + 1)

    def one_of(self, ways: tuple[str, ...], salt: int) -> str:
        return ways[int(self.scene.chance(self._salt + salt) * len(ways))]

    def value(self, fact: str) -> str:
        """One way to say the scene's value of a fact."""
        return self.one_of(ways_to_say(fact, getattr(self.scene, fact)), 10 + _NUMBER[fact])

    @property
    def subject(self) -> str:
        """The subject with its colour: "red dog"."""
        return f"{self.scene.colour} {self.scene.subject}"

    @property
    def verb(self) -> str:
        return self.one_of(FIGURES[self.scene.subject].verbs, 1)

    @property
    def place(self) -> str:
        return self.value("place")


def article(noun: str) -> str:
    """The noun phrase with its indefinite article: "an orange car", "a unicorn"."""
    silent = noun.lower().startswith(("uni", "one", "eu", "use"))
    return f"{'an' if noun[0].lower() in 'aeiou' and not silent else 'a'} {noun}"


def _looks(say: _Say) -> str:
    size, pattern = say.value("size"), say.value("pattern")
    thing = article(say.subject)
    whole = article(f"{size} {pattern} {say.subject}")
    return say.one_of(
        (
            f"{whole} {say.verb} {say.place}",
            f"{say.place}, there is {article(f'{size}, {pattern} {say.subject}')}",
            f"a picture of {whole} {say.place}",
            f"{thing}, {size} and {pattern}, {say.verb} {say.place}",
            f"{thing} {say.place}; it is {size} and {pattern}",
            f"{say.place}, you can see {whole}",
        ),
        0,
    )


def _company(say: _Say) -> str:
    other = article(f"{say.scene.companion_colour} {say.scene.companion}")
    relation, thing = say.value("relation"), article(say.subject)
    return say.one_of(
        (
            f"{thing} {say.place} with {other} {relation} it",
            f"{other} is {relation} {thing} {say.place}",
            f"{say.place}, there is {other} {relation} {thing}",
            f"{thing} {say.verb} {say.place}, and {other} is {relation} it",
            f"there is {other} {relation} {thing} {say.place}",
        ),
        0,
    )


def _above(say: _Say) -> str:
    scene, several = say.scene, say.scene.flyers > 1
    kind = _PLURALS.get(scene.flyer, f"{scene.flyer}s") if several else scene.flyer
    flyers, thing = f"{say.value('flyers')} {kind}", article(say.subject)
    fly = say.one_of(_FLIGHT[scene.flyer], 2)
    flies = fly if several else _third_person(fly)
    flying = f"{fly.removesuffix('e')}ing"
    return say.one_of(
        (
            f"{flyers} {flies} above {thing} {say.place}",
            f"{thing} {say.verb} {say.place} under {flyers}",
            f"{say.place}, {flyers} {flies} over {thing}",
            f"{thing} {say.place}, with {flyers} {flying} overhead",
            f"{flyers} {'are' if several else 'is'} {flying} in the sky above {thing} {say.place}",
        ),
        0,
    )


def _weather(say: _Say) -> str:
    weather, time, thing = say.value("weather"), say.scene.time, article(say.subject)
    moment = {"day": "day", "sunset": "evening", "night": "night"}[time]
    at = {"day": "in the daytime", "sunset": "at sunset", "night": "at night"}[time]
    return say.one_of(
        (
            f"on {article(f'{weather} {moment}')}, {thing} {say.verb} {say.place}",
            f"{thing} {say.verb} {say.place} on {article(f'{weather} {moment}')}",
            f"{thing} {say.place} {at} in {weather} weather",
            f"it is {article(f'{weather} {moment}')}, and {thing} {say.verb} {say.place}",
            f"{say.place}, {thing} {say.verb} under {article(f'{weather} sky')} {at}",
        ),
        0,
    )


def _layout(say: _Say) -> str:
    position, thing, landmark = say.value("position"), article(say.subject), article(say.scene.landmark)
    return say.one_of(
        (
            f"{position} of the picture, {thing} {say.verb} {say.place}, with {landmark} in the distance",
            f"{thing} {say.verb} {position} of the picture, {say.place}; far behind it is {landmark}",
            f"{thing} {say.verb} {position} of the view {say.place}, and far away there is {landmark}",
            f"{landmark} is far away, and {thing} {say.verb} {position} of the scene {say.place}",
            f"{thing} {say.place}, {position} of the scene, and {landmark} on the horizon",
        ),
        0,
    )


_WRITERS: tuple[Callable[[_Say], str], ...] = (_looks, _company, _above, _weather, _layout)


def _third_person(verb: str) -> str:
    if verb.endswith("y"):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith("z") else f"{verb}s"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
