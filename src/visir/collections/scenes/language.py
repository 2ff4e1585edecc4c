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
        return (str(value), plural(str(value)))
    return (str(value),)


def plural(noun: str) -> str:
    """The plural of what flies: "butterflies"."""
    return _PLURALS.get(noun, f"{noun}s")


def describe(scene: Scene) -> tuple[Caption, ...]:
    """The five captions of a scene, in the order of the table at the top of this module."""
    return tuple(caption_of(scene, k) for k in range(CAPTIONS_PER_SCENE))


def caption_of(scene: Scene, number: int) -> Caption:
    """Caption 0–4 of a scene."""
    return Caption(sentence(_WRITERS[number](_Phrases(scene, number))), TELLS[number])


class _Phrases:
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


def _looks(phrases: _Phrases) -> str:
    size, pattern = phrases.value("size"), phrases.value("pattern")
    thing = article(phrases.subject)
    full_name = article(f"{size} {pattern} {phrases.subject}")
    return phrases.one_of(
        (
            f"{full_name} {phrases.verb} {phrases.place}",
            f"{phrases.place}, there is {article(f'{size}, {pattern} {phrases.subject}')}",
            f"a picture of {full_name} {phrases.place}",
            f"{thing}, {size} and {pattern}, {phrases.verb} {phrases.place}",
            f"{thing} {phrases.place}; it is {size} and {pattern}",
            f"{phrases.place}, you can see {full_name}",
        ),
        0,
    )


def _company(phrases: _Phrases) -> str:
    other = article(f"{phrases.scene.companion_colour} {phrases.scene.companion}")
    relation, thing = phrases.value("relation"), article(phrases.subject)
    return phrases.one_of(
        (
            f"{thing} {phrases.place} with {other} {relation} it",
            f"{other} is {relation} {thing} {phrases.place}",
            f"{phrases.place}, there is {other} {relation} {thing}",
            f"{thing} {phrases.verb} {phrases.place}, and {other} is {relation} it",
            f"there is {other} {relation} {thing} {phrases.place}",
        ),
        0,
    )


def _above(phrases: _Phrases) -> str:
    scene, several = phrases.scene, phrases.scene.flyers > 1
    kind = plural(scene.flyer) if several else scene.flyer
    flyers, thing = f"{phrases.value('flyers')} {kind}", article(phrases.subject)
    fly = phrases.one_of(_FLIGHT[scene.flyer], 2)
    flies = fly if several else _third_person(fly)
    flying = f"{fly.removesuffix('e')}ing"
    return phrases.one_of(
        (
            f"{flyers} {flies} above {thing} {phrases.place}",
            f"{thing} {phrases.verb} {phrases.place} under {flyers}",
            f"{phrases.place}, {flyers} {flies} over {thing}",
            f"{thing} {phrases.place}, with {flyers} {flying} overhead",
            f"{flyers} {'are' if several else 'is'} {flying} in the sky above {thing} {phrases.place}",
        ),
        0,
    )


def _weather(phrases: _Phrases) -> str:
    weather, time, thing = phrases.value("weather"), phrases.scene.time, article(phrases.subject)
    moment = {"day": "day", "sunset": "evening", "night": "night"}[time]
    at_time = {"day": "in the daytime", "sunset": "at sunset", "night": "at night"}[time]
    return phrases.one_of(
        (
            f"on {article(f'{weather} {moment}')}, {thing} {phrases.verb} {phrases.place}",
            f"{thing} {phrases.verb} {phrases.place} on {article(f'{weather} {moment}')}",
            f"{thing} {phrases.place} {at_time} in {weather} weather",
            f"it is {article(f'{weather} {moment}')}, and {thing} {phrases.verb} {phrases.place}",
            f"{phrases.place}, {thing} {phrases.verb} under {article(f'{weather} sky')} {at_time}",
        ),
        0,
    )


def _layout(phrases: _Phrases) -> str:
    position, thing, landmark = phrases.value("position"), article(phrases.subject), article(phrases.scene.landmark)
    return phrases.one_of(
        (
            f"{position} of the picture, {thing} {phrases.verb} {phrases.place}, with {landmark} in the distance",
            f"{thing} {phrases.verb} {position} of the picture, {phrases.place}; far behind it is {landmark}",
            f"{thing} {phrases.verb} {position} of the view {phrases.place}, and far away there is {landmark}",
            f"{landmark} is far away, and {thing} {phrases.verb} {position} of the scene {phrases.place}",
            f"{thing} {phrases.place}, {position} of the scene, and {landmark} on the horizon",
        ),
        0,
    )


_WRITERS: tuple[Callable[[_Phrases], str], ...] = (_looks, _company, _above, _weather, _layout)


def _third_person(verb: str) -> str:
    if verb.endswith("y"):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith("z") else f"{verb}s"


def sentence(text: str) -> str:
    """The text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
