"""Languages of captions: English, and grammars that share a table of nouns and say a scene with tables of sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from string import Formatter
from typing import Any, ClassVar, Literal, NamedTuple

from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, FACTS, Scene, fact_names
from visir.collections.scenes.palette import Draws
from visir.collections.scenes.render import FIGURES

__all__ = ["GRAMMARS", "KINDS", "TELLS", "WORDS", "Caption", "Grammar", "article", "describe", "plural", "sentence",
           "ways_to_say"]  # fmt: skip

# English captions, each telling the shared facts and its own, in words that vary.
#
# | caption | tells besides subject, colour and place |
# |---|---|
# | 0 "looks" | size, pattern |
# | 1 "company" | companion, companion_colour, relation |
# | 2 "above" | flyer, flyers (how many) |
# | 3 "weather" | weather, time |
# | 4 "layout" | position, landmark |
#
# The wording comes from the scene's `variation`, so a scene and its near-duplicate are worded alike: their captions
# differ only in the words for the changed fact, and a caption that does not tell it is true of both.

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


# Grammars.

Thing = Literal["subject", "companion"]
Side = Literal["left", "right"]
SIDES: dict[str, Side] = {"left of": "left", "right of": "right"}
RELATIONS: dict[Side, str] = {"left": "left of", "right": "right of"}

_CAPTIONS = 60
"""Draws of captions have this purpose and the next four."""


class Noun(NamedTuple):
    """A noun of a language."""

    word: str
    kind: str = ""  # its gender: m, f, n; in Chinese the measure word between a number and it
    plural: str = ""  # of what flies, where the language has plurals
    oblique: str = ""  # German: its form in the accusative and dative, where that is another one


_NOUNS: dict[str, tuple[str, str, str, str]] = {
    # German, French, Spanish, Chinese, each as the fields of `Noun`
    "dog": ("Hund/m", "chien/m", "perro/m", "狗/只"),
    "cat": ("Katze/f", "chat/m", "gato/m", "猫/只"),
    "rabbit": ("Kaninchen/n", "lapin/m", "conejo/m", "兔子/只"),
    "pig": ("Schwein/n", "cochon/m", "cerdo/m", "猪/头"),
    "elephant": ("Elefant/m//Elefanten", "éléphant/m", "elefante/m", "大象/头"),
    "sheep": ("Schaf/n", "mouton/m", "oveja/f", "绵羊/只"),
    "duck": ("Ente/f", "canard/m", "pato/m", "鸭子/只"),
    "turtle": ("Schildkröte/f", "tortue/f", "tortuga/f", "乌龟/只"),
    "snail": ("Schnecke/f", "escargot/m", "caracol/m", "蜗牛/只"),
    "giraffe": ("Giraffe/f", "girafe/f", "jirafa/f", "长颈鹿/只"),
    "car": ("Auto/n", "voiture/f", "coche/m", "汽车/辆"),
    "bus": ("Bus/m", "bus/m", "autobús/m", "公共汽车/辆"),
    "truck": ("Lastwagen/m", "camion/m", "camión/m", "卡车/辆"),
    "tractor": ("Traktor/m", "tracteur/m", "tractor/m", "拖拉机/辆"),
    "train": ("Zug/m", "train/m", "tren/m", "火车/列"),
    "boat": ("Boot/n", "bateau/m", "barco/m", "船/艘"),
    "rocket": ("Rakete/f", "fusée/f", "cohete/m", "火箭/枚"),
    "tent": ("Zelt/n", "tente/f", "tienda de campaña/f", "帐篷/顶"),
    "armchair": ("Sessel/m", "fauteuil/m", "sillón/m", "扶手椅/把"),
    "teapot": ("Teekanne/f", "théière/f", "tetera/f", "茶壶/把"),
    "robot": ("Roboter/m", "robot/m", "robot/m", "机器人/个"),
    "umbrella": ("Schirm/m", "parapluie/m", "paraguas/m", "伞/把"),
    "ball": ("Ball/m", "balle/f", "pelota/f", "球/个"),
    "bucket": ("Eimer/m", "seau/m", "cubo/m", "水桶/个"),
    "present": ("Geschenk/n", "cadeau/m", "regalo/m", "礼物/份"),
    "flowerpot": ("Blumentopf/m", "pot de fleurs/m", "maceta/f", "花盆/个"),
    "mug": ("Tasse/f", "tasse/f", "taza/f", "杯子/个"),
    "lantern": ("Laterne/f", "lanterne/f", "farol/m", "灯笼/盏"),
    "hat": ("Hut/m", "chapeau/m", "sombrero/m", "帽子/顶"),
    "drum": ("Trommel/f", "tambour/m", "tambor/m", "鼓/面"),
    "mushroom": ("Pilz/m", "champignon/m", "seta/f", "蘑菇/朵"),
    "suitcase": ("Koffer/m", "valise/f", "maleta/f", "手提箱/个"),
    "house": ("Haus/n", "maison/f", "casa/f", "房子/座"),
    "church": ("Kirche/f", "église/f", "iglesia/f", "教堂/座"),
    "castle": ("Burg/f", "château fort/m", "castillo/m", "城堡/座"),
    "windmill": ("Windmühle/f", "moulin à vent/m", "molino de viento/m", "风车/座"),
    "lighthouse": ("Leuchtturm/m", "phare/m", "faro/m", "灯塔/座"),
    "Ferris wheel": ("Riesenrad/n", "grande roue/f", "noria/f", "摩天轮/座"),
    "circus tent": ("Zirkuszelt/n", "chapiteau de cirque/m", "carpa de circo/f", "马戏团帐篷/顶"),
    "water tower": ("Wasserturm/m", "château d'eau/m", "torre de agua/f", "水塔/座"),
    "bird": ("Vogel/m/Vögel", "oiseau/m/oiseaux", "pájaro/m/pájaros", "鸟/只"),
    "butterfly": ("Schmetterling/m/Schmetterlinge", "papillon/m/papillons", "mariposa/f/mariposas", "蝴蝶/只"),
    "balloon": ("Luftballon/m/Luftballons", "ballon/m/ballons", "globo/m/globos", "气球/个"),
    "kite": ("Drachen/m/Drachen", "cerf-volant/m/cerfs-volants", "cometa/f/cometas", "风筝/只"),
    "paper plane": (
        "Papierflieger/m/Papierflieger",
        "avion en papier/m/avions en papier",
        "avión de papel/m/aviones de papel",
        "纸飞机/架",
    ),
    "day": ("Tag/m", "journée/f", "día/m", "白天"),
    "sunset": ("Abend/m", "soir/m", "atardecer/m", "傍晚"),
    "night": ("Nacht/f", "nuit/f", "noche/f", "夜晚"),
    "bee": ("Biene/f/Bienen", "abeille/f/abeilles", "abeja/f/abejas", "蜜蜂/只"),
}


Words = Mapping[str, Callable[[Any, Scene], str]]
"""What makes each word of a sentence from the grammar and the scene; it is asked for those that a sentence has."""
_USUAL: Words = {
    "thing": lambda grammar, scene: grammar.phrase(scene.subject, scene.colour),
    "of_thing": lambda grammar, scene: grammar.of(scene.subject, scene.colour),
    "other": lambda grammar, scene: grammar.phrase(scene.companion, scene.companion_colour),
    "of_other": lambda grammar, scene: grammar.of(scene.companion, scene.companion_colour),
    "place": lambda grammar, scene: grammar.places[scene.place],
    "where": lambda grammar, scene: grammar.positions[scene.position],
    "landmark": lambda grammar, scene: grammar.phrase(scene.landmark),
}


@cache
def _names_in(way: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(way) if name)


class Grammar(ABC):
    """One language: a table of sentences, and the words of a scene that are put into them."""

    # Choices of wording come from the scene's `variation` through `draws`, never from its facts. So two scenes that
    # differ in one fact are worded alike. A sentence may begin with a small letter, and has no full stop; `finish` adds
    # both.

    code: ClassVar[str]
    title: ClassVar[str]
    column: ClassVar[int]  # of the language in the table of nouns, which English does not need
    # The ways to say each kind of sentence: each of `KINDS`, and what choice tasks need, by the names of the methods.
    ways: ClassVar[dict[str, tuple[str, ...]]]
    words: ClassVar[Words]
    sides: ClassVar[dict[Side, str]]  # "to the left", "to the right"
    places: ClassVar[dict[str, str]]
    positions: ClassVar[dict[str, str]]

    @cached_property
    def nouns(self) -> dict[str, Noun]:
        """The nouns of the language, by their names in English."""
        return {name: Noun(*row[self.column].split("/")) for name, row in _NOUNS.items()}

    @abstractmethod
    def phrase(self, noun: str, *adjectives: str) -> str:
        """A noun, by its name in English, with what stands before it and its adjectives: "a red dog"."""

    @abstractmethod
    def of(self, noun: str, *adjectives: str) -> str:
        """The same behind a side: "to the left of a red dog"."""

    @abstractmethod
    def quality(self, colour: str, noun: str) -> str:
        """A colour as it is said of a noun: "it is red"."""

    @abstractmethod
    def absent(self, noun: str, kind: str) -> str:
        """What is not there, in sentences of a kind."""

    def say(self, kind: str, scene: Scene, draws: Draws, **given: str) -> str:
        """One of the ways of a kind, with the words of the scene and these."""
        way = draws.one_of(self.ways[kind])
        words = {name: self.words[name](self, scene) for name in _names_in(way) if name not in given}
        return self.finish(way.format(**words, **given))

    def finish(self, text: str) -> str:
        """A sentence with its capital and its full stop."""
        return sentence(text)

    def describe(self, scene: Scene) -> tuple[Caption, ...]:
        """The five captions of a scene. Which facts each tells is the same in all languages."""
        return tuple(self.caption(scene, number) for number in range(CAPTIONS_PER_SCENE))

    def caption(self, scene: Scene, number: int) -> Caption:
        """Caption 0–4 of a scene."""
        return Caption(self.say(KINDS[number], scene, Draws(scene, _CAPTIONS + number)), TELLS[number])

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        """That one of the two things is on one side of the other: "A blue ball is to the left of a red dog …"."""
        first_place, other = ("thing", "of_other") if first == "subject" else ("other", "of_thing")
        named = {"first": self.words[first_place](self, scene), "of_second": self.words[other](self, scene)}
        return self.say("beside", scene, draws, side=self.sides[side], **named)

    def beside_at(self, scene: Scene) -> str:
        """Where the subject is, and on which side the companion: "A red dog on the left of the picture, with …"."""
        return self.say("beside_at", scene, Draws(scene, 0))

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        """That the subject has one colour and not another: "The dog on the beach is red, not blue"."""
        so, not_so = (self.quality(name, scene.subject) for name in (colour, other))
        return self.say("contrast", scene, draws, so=so, not_so=not_so)

    def without(self, kind: str, scene: Scene, noun: str, draws: Draws) -> str:
        """That something is not there: of the kind "without_flyer" above the subject, "without_companion" beside it."""
        return self.say(kind, scene, draws, noun=noun, absent=self.absent(noun, kind))


class English(Grammar):
    """English. Its captions are made by `caption_of`, which has more ways to say each fact."""

    code = "en"
    title = "English"
    sides: ClassVar = {"left": "left", "right": "right"}
    ways: ClassVar = {
        "beside": (
            "{first} is {how} the {side} of {of_second} {place}",
            "{place}, there is {first} {how} the {side} of {of_second}",
            "there is {first} {how} the {side} of {of_second} {place}",
        ),
        "beside_at": (
            "{thing} {verb} {there} on the {position} side of the picture, with {other} to the {side} of the {subject}",
        ),
        "contrast": (
            "the {subject} {place} is {so}, not {not_so}",
            "{so_thing}, not {not_so_one}, is {place}",
            "the {subject} that you can see {place} is not {not_so}, but {so}",
        ),
        "without_flyer": (
            "there are no {absent} above the {colour} {subject} {place}",
            "{thing} {place}, without any {absent} in the sky",
            "{place} there is {thing}, and no {noun} is in the sky",
        ),
        "without_companion": (
            "there is {thing} {place}, but no {noun}",
            "{thing} {place}, without {absent}",
            "{place} you can see {thing}, but not {absent}",
        ),
    }
    words: ClassVar = {
        **_USUAL,
        "verb": lambda grammar, scene: FIGURES[scene.subject].verbs[0],
        "there": lambda grammar, scene: ways_to_say("place", scene.place)[0],
        "position": lambda grammar, scene: scene.position,
        "side": lambda grammar, scene: SIDES[scene.relation],
        "subject": lambda grammar, scene: scene.subject,
        "colour": lambda grammar, scene: scene.colour,
    }

    def caption(self, scene: Scene, number: int) -> Caption:
        return caption_of(scene, number)

    def say(self, kind: str, scene: Scene, draws: Draws, **given: str) -> str:
        given["place"] = draws.one_of(ways_to_say("place", scene.place))
        if kind == "beside":
            given["how"] = draws.one_of(("to", "on"))
        return super().say(kind, scene, draws, **given)

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        things = {"so_thing": article(f"{colour} {scene.subject}"), "not_so_one": article(f"{other} one")}
        return self.say("contrast", scene, draws, so=colour, not_so=other, **things)

    def phrase(self, noun: str, *adjectives: str) -> str:
        return article(" ".join([*adjectives, noun]))

    of = phrase

    def quality(self, colour: str, noun: str) -> str:
        return colour

    def absent(self, noun: str, kind: str) -> str:
        return plural(noun) if kind == "without_flyer" else article(noun)


Case = Literal["nominative", "accusative", "dative"]
_GERMAN = {
    "red": "rot", "orange": "orangefarben", "yellow": "gelb", "green": "grün", "blue": "blau", "purple": "violett",
    "pink": "rosafarben", "white": "weiß",
    "small": "klein", "medium": "mittelgroß", "large": "groß",
    "plain": "einfarbig", "striped": "gestreift", "spotted": "gepunktet", "checked": "kariert",
    "clear": "klar", "cloudy": "bewölkt", "rainy": "regnerisch", "snowy": "verschneit", "foggy": "neblig",
    "stormy": "gewittrig",
}  # fmt: skip
_EIN = {"nominative": ("ein", "eine", "ein"), "accusative": ("einen", "eine", "ein"),
        "dative": ("einem", "einer", "einem")}  # fmt: skip
_DER = {"nominative": ("der", "die", "das"), "accusative": ("den", "die", "das"), "dative": ("dem", "der", "dem")}
_BEHIND_EIN = {"nominative": ("er", "e", "es"), "accusative": ("en", "e", "es"), "dative": ("en", "en", "en")}
_BEHIND_DER = {"nominative": ("e", "e", "e"), "accusative": ("en", "e", "e"), "dative": ("en", "en", "en")}


class German(Grammar):
    """German: three genders, four cases, and adjectives that end as their article does not."""

    code = "de"
    title = "German"
    column = 0
    places: ClassVar = {
        "beach": "am Strand", "meadow": "auf einer Wiese", "desert": "in der Wüste",
        "street": "auf einer Straße der Stadt", "mountains": "in den Bergen", "forest": "im Wald",
        "lake": "an einem See", "farm": "auf einem Bauernhof",
    }  # fmt: skip
    positions: ClassVar = {"left": "links im Bild", "middle": "in der Mitte des Bildes", "right": "rechts im Bild"}
    sides: ClassVar = {"left": "links", "right": "rechts"}
    verbs: ClassVar = {"cat": "sitzt", "rabbit": "sitzt", "turtle": "sitzt", "snail": "sitzt", "boat": "liegt"}
    relations: ClassVar = {"left of": "links von", "right of": "rechts von", "in front of": "vor", "on": "auf"}
    flight: ClassVar = {
        "bird": ("fliegt", "fliegen"), "butterfly": ("flattert", "flattern"), "balloon": ("schwebt", "schweben"),
        "kite": ("fliegt", "fliegen"), "paper plane": ("gleitet", "gleiten"), "bee": ("fliegt", "fliegen"),
    }  # fmt: skip
    numbers: ClassVar = {2: "zwei", 3: "drei", 4: "vier", 5: "fünf"}
    times: ClassVar = {"day": "tagsüber", "sunset": "am Abend", "night": "nachts"}
    ways: ClassVar = {
        "looks": ("{whole} {stands} {place}", "{place} {stands} {whole}", "auf dem Bild ist {whole} {place} zu sehen"),
        "company": (
            "{relation} {to_thing} {place} ist {other} zu sehen",
            "{other} befindet sich {relation} {to_thing} {place}",
            "{place} {stands} {thing}, und {relation} {pronoun} ist {other}",
        ),
        "above": (
            "{flyers} {fly} über {to_thing} {place}",
            "{place} {stands} {thing} unter {to_flyers}",
            "über {to_thing} {place} {are} {flyers} am Himmel zu sehen",
        ),
        "weather": (
            "{when} {stands} {thing} {place}",
            "{thing} {stands} {when} {place}",
            "{thing} {place}, {time} bei {weather}em Wetter",
        ),
        "layout": (
            "{where} {stands} {thing} {place}, und in der Ferne ist {landmark} zu sehen",
            "{thing} {stands} {where} {place}; weit dahinter ist {landmark}",
            "in der Ferne ist {landmark}, und {where} {stands} {thing} {place}",
        ),
        "beside": (
            "{place} ist {first} {side} {of_second}",
            "{place} befindet sich {side} {of_second} {first}",
        ),
        "beside_at": ("{where} {stands} {thing} {place}, und {relation} {pronoun} ist {other}",),
        "contrast": (
            "{the_thing} {place} ist {so}, nicht {not_so}",
            "{the_thing} {place} ist nicht {not_so}, sondern {so}",
        ),
        "without_flyer": (
            "über {to_thing} {place} sind keine {absent} zu sehen",
            "{place} {stands} {thing}, und am Himmel sind keine {absent}",
        ),
        "without_companion": (
            "{place} {stands} {thing}, aber {absent}",
            "{thing} {stands} {place}, und es ist {absent} zu sehen",
        ),
    }

    def phrase(
        self,
        noun: str,
        *adjectives: str,
        case: Case = "nominative",
        definite: bool = False,
        negated: bool = False,
    ) -> str:
        """A noun with its article and adjectives in a case."""
        word = self.nouns[noun]
        column = "mfn".index(word.kind)
        article = ("k" if negated else "") + (_DER if definite else _EIN)[case][column]
        ending = (_BEHIND_DER if definite else _BEHIND_EIN)[case][column]
        form = word.word if case == "nominative" else word.oblique or word.word
        return " ".join([article, *(f"{_GERMAN.get(name, name)}{ending}" for name in adjectives), form])

    def of(self, noun: str, *adjectives: str) -> str:
        return f"von {self.phrase(noun, *adjectives, case='dative')}"

    def counted(self, scene: Scene, case: Case) -> str:
        """What flies, with its number: "ein einzelner Vogel", "unter drei Vögeln"."""
        if scene.flyers == 1:
            return self.phrase(scene.flyer, "einzeln", case=case)
        plural = self.nouns[scene.flyer].plural
        many = case == "dative" and not plural.endswith(("n", "s"))
        return f"{self.numbers[scene.flyers]} {plural}{'n' if many else ''}"

    words: ClassVar = {
        **_USUAL,
        "to_thing": lambda grammar, scene: grammar.phrase(scene.subject, scene.colour, case="dative"),
        "the_thing": lambda grammar, scene: grammar.phrase(scene.subject, definite=True),
        "whole": lambda grammar, scene: grammar.phrase(scene.subject, scene.size, scene.pattern, scene.colour),
        "pronoun": lambda grammar, scene: "ihr" if grammar.nouns[scene.subject].kind == "f" else "ihm",
        "stands": lambda grammar, scene: grammar.verbs.get(scene.subject, "steht"),
        "relation": lambda grammar, scene: grammar.relations[scene.relation],
        "flyers": lambda grammar, scene: grammar.counted(scene, "nominative"),
        "to_flyers": lambda grammar, scene: grammar.counted(scene, "dative"),
        "fly": lambda grammar, scene: grammar.flight[scene.flyer][scene.flyers > 1],
        "are": lambda grammar, scene: "ist" if scene.flyers == 1 else "sind",
        "when": lambda grammar, scene: (
            f"{'in' if scene.time == 'night' else 'an'} {grammar.phrase(scene.time, scene.weather, case='dative')}"
        ),
        "time": lambda grammar, scene: grammar.times[scene.time],
        "weather": lambda grammar, scene: _GERMAN[scene.weather],
    }

    def quality(self, colour: str, noun: str) -> str:
        return _GERMAN[colour]

    def absent(self, noun: str, kind: str) -> str:
        return self.nouns[noun].plural if kind == "without_flyer" else self.phrase(noun, negated=True)


class Romance(Grammar):
    """What French and Spanish share: two genders, and adjectives that agree."""

    adjectives: ClassVar[dict[str, tuple[str, str]]]  # masculine and feminine
    relations: ClassVar[dict[str, str]]
    times: ClassVar[dict[str, str]]
    flight: ClassVar[dict[str, tuple[str, str]]]  # what flies otherwise than birds do; "" for birds
    numbers: ClassVar[dict[int, str]]
    single: ClassVar[tuple[str, str]]  # "a single", masculine and feminine

    @abstractmethod
    def phrase(self, noun: str, *adjectives: str, definite: bool = False) -> str: ...

    @staticmethod
    @abstractmethod
    def of_text(text: str) -> str:
        """ "de" before a noun phrase or a plural."""

    def agreeing(self, noun: str, *adjectives: str) -> list[str]:
        """Adjectives in the gender of a noun."""
        return [self.adjectives[name][self.nouns[noun].kind == "f"] for name in adjectives]

    def of(self, noun: str, *adjectives: str) -> str:
        return self.of_text(self.phrase(noun, *adjectives))

    def beside_text(self, relation: str, thing: str) -> str:
        """Where something is beside a thing: "à gauche d'un chien", "devant un chien"."""
        relation = self.relations[relation]
        return (
            f"{relation.removesuffix(' de')} {self.of_text(thing)}"
            if relation.endswith(" de")
            else f"{relation} {thing}"
        )

    words: ClassVar = {
        **_USUAL,
        "the_thing": lambda grammar, scene: grammar.phrase(scene.subject, definite=True),
        "near": lambda grammar, scene: grammar.beside_text(scene.relation, grammar.phrase(scene.subject, scene.colour)),
        "near_it": lambda grammar, scene: grammar.beside_text(
            scene.relation, grammar.phrase(scene.subject, definite=True)
        ),
        "flyers": lambda grammar, scene: grammar.counted(grammar.nouns[scene.flyer], scene.flyers),
        "fly": lambda grammar, scene: grammar.flight.get(scene.flyer, grammar.flight[""])[scene.flyers > 1],
        "moment": lambda grammar, scene: grammar.phrase(scene.time, scene.weather),
        "time": lambda grammar, scene: grammar.times[scene.time],
    }

    def counted(self, noun: Noun, number: int) -> str:
        """What flies, with its number."""
        return (
            f"{self.single[noun.kind == 'f']} {noun.word}" if number == 1 else f"{self.numbers[number]} {noun.plural}"
        )

    def quality(self, colour: str, noun: str) -> str:
        return self.agreeing(noun, colour)[0]


class French(Romance):
    """French: words lose a vowel before another one."""

    code = "fr"
    title = "French"
    column = 1
    adjectives: ClassVar = {
        "red": ("rouge", "rouge"), "orange": ("orange", "orange"), "yellow": ("jaune", "jaune"),
        "green": ("vert", "verte"), "blue": ("bleu", "bleue"), "purple": ("violet", "violette"),
        "pink": ("rose", "rose"), "white": ("blanc", "blanche"), "small": ("petit", "petite"),
        "medium": ("de taille moyenne", "de taille moyenne"), "large": ("grand", "grande"), "plain": ("uni", "unie"),
        "striped": ("rayé", "rayée"), "spotted": ("à pois", "à pois"), "checked": ("à carreaux", "à carreaux"),
        "clear": ("clair", "claire"), "cloudy": ("nuageux", "nuageuse"), "rainy": ("pluvieux", "pluvieuse"),
        "snowy": ("neigeux", "neigeuse"), "foggy": ("brumeux", "brumeuse"), "stormy": ("orageux", "orageuse"),
    }  # fmt: skip
    places: ClassVar = {
        "beach": "sur la plage", "meadow": "dans un pré", "desert": "dans le désert",
        "street": "dans une rue de la ville", "mountains": "à la montagne", "forest": "dans la forêt",
        "lake": "au bord d'un lac", "farm": "à la ferme",
    }  # fmt: skip
    relations: ClassVar = {"left of": "à gauche de", "right of": "à droite de", "in front of": "devant", "on": "sur"}
    sides: ClassVar = {"left": "à gauche", "right": "à droite"}
    flight: ClassVar = {"": ("vole", "volent"), "balloon": ("flotte", "flottent"), "paper plane": ("plane", "planent")}
    numbers: ClassVar = {2: "deux", 3: "trois", 4: "quatre", 5: "cinq"}
    single = ("un seul", "une seule")
    times: ClassVar = {"day": "en plein jour", "sunset": "au coucher du soleil", "night": "la nuit"}
    positions: ClassVar = {
        "left": "à gauche de l'image", "middle": "au milieu de l'image", "right": "à droite de l'image",
    }  # fmt: skip
    ways: ClassVar = {
        "looks": ("{whole} se trouve {place}", "{place}, il y a {whole}", "l'image montre {whole} {place}"),
        "company": (
            "{other} se trouve {near} {place}",
            "{place}, il y a {other} {near}",
            "on voit {other} {near} {place}",
        ),
        "above": (
            "{flyers} {fly} au-dessus {of_thing} {place}",
            "{thing} se trouve {place}, sous {flyers}",
            "{place}, {flyers} {fly} dans le ciel au-dessus {of_thing}",
        ),
        "weather": (
            "par {moment}, {thing} se trouve {place}",
            "{thing} se trouve {place} par {moment}",
            "{thing} {place}, {time}, par temps {weather}",
        ),
        "layout": (
            "{where}, {thing} se trouve {place}, et on voit {landmark} au loin",
            "{thing} se trouve {place}, {where} ; au loin, il y a {landmark}",
            "au loin, on voit {landmark}, et {where}, {thing} se trouve {place}",
        ),
        "beside": ("{place}, {first} se trouve {side} {of_second}", "{place}, il y a {first} {side} {of_second}"),
        "beside_at": ("{where}, {thing} se trouve {place}, et il y a {other} {near_it}",),
        "contrast": (
            "{the_thing} qui se trouve {place} est {so}, pas {not_so}",
            "{the_thing} qui se trouve {place} n'est pas {not_so}, mais {so}",
        ),
        "without_flyer": (
            "il n'y a pas {absent} au-dessus {of_thing} {place}",
            "{thing} se trouve {place}, et il n'y a pas {absent} dans le ciel",
        ),
        "without_companion": (
            "{thing} se trouve {place}, mais il n'y a pas {absent}",
            "{place}, on voit {thing}, mais pas {absent}",
        ),
    }

    def phrase(self, noun: str, *adjectives: str, definite: bool = False) -> str:
        """A noun with its article; "petit" and "grand" stand before it, all other adjectives behind."""
        word = self.nouns[noun]
        before = [name for name in adjectives if name in ("small", "large")]
        behind = [name for name in adjectives if name not in before]
        text = " ".join([*self.agreeing(noun, *before), word.word, *self.agreeing(noun, *behind)])
        if definite and _begins_with_vowel(text):
            return f"l'{text}"
        return f"{(('un', 'une'), ('le', 'la'))[definite][word.kind == 'f']} {text}"

    @staticmethod
    def of_text(text: str) -> str:
        """ "de" before a noun phrase or a plural."""
        if text.startswith("le "):
            return f"du {text.removeprefix('le ')}"
        return f"d'{text}" if _begins_with_vowel(text) else f"de {text}"

    words: ClassVar = {
        **Romance.words,
        "whole": lambda grammar, scene: grammar.whole(scene),
        "weather": lambda grammar, scene: grammar.adjectives[scene.weather][0],
    }

    def whole(self, scene: Scene) -> str:
        """The subject with all that can be seen of it."""
        looks = (scene.size, scene.colour, scene.pattern)
        if scene.size == "medium":  # "de taille moyenne" comes last: it is not a part of the colour
            looks = (scene.colour, scene.pattern, scene.size)
        return self.phrase(scene.subject, *looks)

    def absent(self, noun: str, kind: str) -> str:
        return self.of_text(self.nouns[noun].plural if kind == "without_flyer" else self.nouns[noun].word)


def _begins_with_vowel(text: str) -> bool:
    return text[0].lower() in "aeéèêiouy"


class Spanish(Romance):
    """Spanish."""

    code = "es"
    title = "Spanish"
    column = 2
    adjectives: ClassVar = {
        "red": ("rojo", "roja"), "orange": ("naranja", "naranja"), "yellow": ("amarillo", "amarilla"),
        "green": ("verde", "verde"), "blue": ("azul", "azul"), "purple": ("morado", "morada"), "pink": ("rosa", "rosa"),
        "white": ("blanco", "blanca"),
        "small": ("pequeño", "pequeña"), "medium": ("mediano", "mediana"), "large": ("grande", "grande"),
        "plain": ("de un solo color", "de un solo color"), "striped": ("a rayas", "a rayas"),
        "spotted": ("de lunares", "de lunares"), "checked": ("a cuadros", "a cuadros"),
        "clear": ("despejado", "despejada"), "cloudy": ("nublado", "nublada"), "rainy": ("lluvioso", "lluviosa"),
        "snowy": ("nevado", "nevada"), "foggy": ("brumoso", "brumosa"), "stormy": ("tormentoso", "tormentosa"),
    }  # fmt: skip
    places: ClassVar = {
        "beach": "en la playa", "meadow": "en un prado", "desert": "en el desierto",
        "street": "en una calle de la ciudad", "mountains": "en las montañas", "forest": "en el bosque",
        "lake": "junto a un lago", "farm": "en una granja",
    }  # fmt: skip
    relations: ClassVar = {
        "left of": "a la izquierda de", "right of": "a la derecha de", "in front of": "delante de", "on": "encima de",
    }  # fmt: skip
    sides: ClassVar = {"left": "a la izquierda", "right": "a la derecha"}
    skies: ClassVar = {
        "clear": "con cielo despejado", "cloudy": "con cielo nublado", "rainy": "con lluvia", "snowy": "con nieve",
        "foggy": "con niebla", "stormy": "con tormenta",
    }  # fmt: skip
    flight: ClassVar = {"": ("vuela", "vuelan"), "balloon": ("flota", "flotan"), "paper plane": ("planea", "planean")}
    numbers: ClassVar = {2: "dos", 3: "tres", 4: "cuatro", 5: "cinco"}
    single = ("un solo", "una sola")
    times: ClassVar = {"day": "de día", "sunset": "al atardecer", "night": "de noche"}
    positions: ClassVar = {
        "left": "a la izquierda de la imagen", "middle": "en el centro de la imagen",
        "right": "a la derecha de la imagen",
    }  # fmt: skip
    ways: ClassVar = {
        "looks": ("{place} hay {whole}", "se ve {whole} {place}", "la imagen muestra {whole} {place}"),
        "company": ("{place} hay {other} {near}", "{other} está {near} {place}", "se ve {other} {near} {place}"),
        "above": (
            "{flyers} {fly} por encima {of_thing} {place}",
            "{place} hay {thing} debajo de {flyers}",
            "{place}, {flyers} {fly} en el cielo sobre {thing}",
        ),
        "weather": (
            "en {moment}, {thing} está {place}",
            "{thing} está {place} en {moment}",
            "{thing} {place}, {time} y {sky}",
        ),
        "layout": (
            "{where}, {thing} está {place}, y a lo lejos se ve {landmark}",
            "{thing} está {place}, {where}; a lo lejos hay {landmark}",
            "a lo lejos se ve {landmark}, y {where}, {thing} está {place}",
        ),
        "beside": ("{place}, {first} está {side} {of_second}", "{place} hay {first} {side} {of_second}"),
        "beside_at": ("{where}, {thing} está {place}, y hay {other} {near_it}",),
        "contrast": (
            "{the_thing} que está {place} es {so}, no {not_so}",
            "{the_thing} que está {place} no es {not_so}, sino {so}",
        ),
        "without_flyer": (
            "no hay {absent} por encima {of_thing} {place}",
            "{thing} está {place}, y no hay {absent} en el cielo",
        ),
        "without_companion": (
            "{place} hay {thing}, pero no hay {absent}",
            "se ve {thing} {place}, pero {absent}",
        ),
    }

    def phrase(self, noun: str, *adjectives: str, definite: bool = False) -> str:
        """A noun with its article; adjectives stand behind it, the last two joined by "y"."""
        word, words = self.nouns[noun], self.agreeing(noun, *adjectives)
        behind = f"{', '.join(words[:-1])} y {words[-1]}" if len(words) > 1 else " ".join(words)
        return f"{(('un', 'una'), ('el', 'la'))[definite][word.kind == 'f']} {word.word} {behind}".strip()

    @staticmethod
    def of_text(text: str) -> str:
        """ "de" before a noun phrase."""
        return f"del {text.removeprefix('el ')}" if text.startswith("el ") else f"de {text}"

    words: ClassVar = {
        **Romance.words,
        "whole": lambda grammar, scene: grammar.phrase(scene.subject, scene.size, scene.colour, scene.pattern),
        "sky": lambda grammar, scene: grammar.skies[scene.weather],
    }

    def absent(self, noun: str, kind: str) -> str:
        if kind == "without_flyer":
            return self.nouns[noun].plural
        return f"{'ninguna' if self.nouns[noun].kind == 'f' else 'ningún'} {self.nouns[noun].word}"


class Chinese(Grammar):
    """Chinese (Mandarin, simplified characters): no endings, but a measure word between a number and its noun."""

    code = "zh"
    title = "Chinese"
    column = 3
    colours: ClassVar = {
        "red": "红色", "orange": "橙色", "yellow": "黄色", "green": "绿色", "blue": "蓝色", "purple": "紫色",
        "pink": "粉色", "white": "白色",
    }  # fmt: skip
    sizes: ClassVar = {"small": "很小", "medium": "不大不小", "large": "很大"}
    patterns: ClassVar = {"plain": "没有花纹", "striped": "带条纹", "spotted": "带圆点", "checked": "带格子"}
    places: ClassVar = {
        "beach": "沙滩上", "meadow": "草地上", "desert": "沙漠里", "street": "城市的街道上", "mountains": "山里",
        "forest": "森林里", "lake": "湖边", "farm": "农场里",
    }  # fmt: skip
    relations: ClassVar = {"left of": "左边", "right of": "右边", "in front of": "前面", "on": "上面"}
    sides: ClassVar = {"left": "左边", "right": "右边"}
    numbers: ClassVar = {1: "一", 2: "两", 3: "三", 4: "四", 5: "五"}
    weather: ClassVar = {
        "clear": "晴朗",
        "cloudy": "多云",
        "rainy": "下雨",
        "snowy": "下雪",
        "foggy": "有雾",
        "stormy": "雷雨",
    }
    times: ClassVar = {"day": "白天", "sunset": "傍晚", "night": "夜晚"}
    positions: ClassVar = {"left": "画面左侧", "middle": "画面中间", "right": "画面右侧"}
    ways: ClassVar = {
        "looks": (
            "{place}有{thing}，它{size}，而且{pattern}",
            "图中{place}有{thing}，{size}，{pattern}",
            "{thing}在{place}，{size}，{pattern}",
        ),
        "company": (
            "{place}有{thing}，它的{relation}有{other}",
            "{place}，{other}在{thing}的{relation}",
            "{thing}在{place}，{other}在它的{relation}",
        ),
        "above": (
            "{place}，{flyers}在{thing}的上方{fly}",
            "{thing}在{place}，天上有{flyers}",
            "{place}有{thing}，它的上方有{flyers}在{fly}",
        ),
        "weather": ("在一个{when}，{thing}在{place}", "{when}，{place}有{thing}", "{place}有{thing}，这是一个{when}"),
        "layout": (
            "{where}，{thing}在{place}，远处有{landmark}",
            "{place}，{thing}在{where}，远处可以看到{landmark}",
            "远处有{landmark}，{where}有{thing}在{place}",
        ),
        "beside": ("{place}，{first}在{of_second}{side}", "{place}，{of_second}{side}有{first}"),
        "beside_at": ("{where}，{thing}在{place}，它的{relation}有{other}",),
        "contrast": (
            "{place}的{the_thing}是{so}的，不是{not_so}的",
            "{place}的{the_thing}不是{not_so}的，而是{so}的",
        ),
        "without_flyer": ("{place}有{thing}，它的上方没有{absent}", "{thing}在{place}，天上没有{absent}"),
        "without_companion": ("{place}有{thing}，但是没有{absent}", "{thing}在{place}，图中没有{absent}"),
    }

    def finish(self, text: str) -> str:
        return f"{text}。"

    def phrase(self, noun: str, *adjectives: str, number: int = 1) -> str:
        """A noun with its number, measure word and colours."""
        colours = "".join(f"{self.colours[name]}的" for name in adjectives)
        return f"{self.numbers[number]}{self.nouns[noun].kind}{colours}{self.nouns[noun].word}"

    def of(self, noun: str, *adjectives: str) -> str:
        return f"{self.phrase(noun, *adjectives)}的"

    words: ClassVar = {
        **_USUAL,
        "the_thing": lambda grammar, scene: grammar.nouns[scene.subject].word,
        "size": lambda grammar, scene: grammar.sizes[scene.size],
        "pattern": lambda grammar, scene: grammar.patterns[scene.pattern],
        "relation": lambda grammar, scene: grammar.relations[scene.relation],
        "flyers": lambda grammar, scene: grammar.phrase(scene.flyer, number=scene.flyers),
        "fly": lambda grammar, scene: "飘" if scene.flyer == "balloon" else "飞",
        "when": lambda grammar, scene: f"{grammar.weather[scene.weather]}的{grammar.times[scene.time]}",
    }

    def quality(self, colour: str, noun: str) -> str:
        return self.colours[colour]

    def absent(self, noun: str, kind: str) -> str:
        return self.nouns[noun].word


GRAMMARS: dict[str, Grammar] = {
    grammar.code: grammar for grammar in (English(), German(), French(), Spanish(), Chinese())
}
"""By language code."""
