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
    phrases = _Phrases(scene, number)
    return Caption(sentence(phrases.one_of(_WAYS[KINDS[number]], 0).format_map(phrases)), TELLS[number])


_WAYS: dict[str, tuple[str, ...]] = {
    "looks": (
        "{whole} {verb} {place}",
        "{place}, there is {listed}",
        "a picture of {whole} {place}",
        "{thing}, {size} and {pattern}, {verb} {place}",
        "{thing} {place}; it is {size} and {pattern}",
        "{place}, you can see {whole}",
    ),
    "company": (
        "{thing} {place} with {other} {relation} it",
        "{other} is {relation} {thing} {place}",
        "{place}, there is {other} {relation} {thing}",
        "{thing} {verb} {place}, and {other} is {relation} it",
        "there is {other} {relation} {thing} {place}",
    ),
    "above": (
        "{above} {flies} above {thing} {place}",
        "{thing} {verb} {place} under {above}",
        "{place}, {above} {flies} over {thing}",
        "{thing} {place}, with {above} {flying} overhead",
        "{above} {are} {flying} in the sky above {thing} {place}",
    ),
    "weather": (
        "on {a_moment}, {thing} {verb} {place}",
        "{thing} {verb} {place} on {a_moment}",
        "{thing} {place} {at_time} in {weather} weather",
        "it is {a_moment}, and {thing} {verb} {place}",
        "{place}, {thing} {verb} under {a_sky} {at_time}",
    ),
    "layout": (
        "{position} of the picture, {thing} {verb} {place}, with {a_landmark} in the distance",
        "{thing} {verb} {position} of the picture, {place}; far behind it is {a_landmark}",
        "{thing} {verb} {position} of the view {place}, and far away there is {a_landmark}",
        "{a_landmark} is far away, and {thing} {verb} {position} of the scene {place}",
        "{thing} {place}, {position} of the scene, and {a_landmark} on the horizon",
    ),
}
_MOMENTS = {"day": ("day", "in the daytime"), "sunset": ("evening", "at sunset"), "night": ("night", "at night")}


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

    def __getitem__(self, name: str) -> str:
        """What a name in a sentence stands for; made when a sentence has it."""
        scene, several = self.scene, self.scene.flyers > 1
        match name:
            case "thing":
                return article(f"{scene.colour} {scene.subject}")
            case "whole":
                return article(f"{self.value('size')} {self.value('pattern')} {scene.colour} {scene.subject}")
            case "listed":
                return article(f"{self.value('size')}, {self.value('pattern')} {scene.colour} {scene.subject}")
            case "other":
                return article(f"{scene.companion_colour} {scene.companion}")
            case "verb":
                return self.one_of(FIGURES[scene.subject].verbs, 1)
            case "above":
                return f"{self.value('flyers')} {plural(scene.flyer) if several else scene.flyer}"
            case "flies" | "flying":
                fly = self.one_of(_FLIGHT[scene.flyer], 2)
                if name == "flying":
                    return f"{fly.removesuffix('e')}ing"
                return fly if several else _third_person(fly)
            case "are":
                return "are" if several else "is"
            case "a_moment":
                return article(f"{self.value('weather')} {_MOMENTS[scene.time][0]}")
            case "at_time":
                return _MOMENTS[scene.time][1]
            case "a_sky":
                return article(f"{self.value('weather')} sky")
            case "a_landmark":
                return article(scene.landmark)
        return self.value(name)


def article(noun: str) -> str:
    """The noun phrase with its indefinite article: "an orange car", "a unicorn"."""
    silent = noun.lower().startswith(("uni", "one", "eu", "use"))
    return f"{'an' if noun[0].lower() in 'aeiou' and not silent else 'a'} {noun}"


def _third_person(verb: str) -> str:
    if verb.endswith("y"):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith("z") else f"{verb}s"


def sentence(text: str) -> str:
    """The text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
