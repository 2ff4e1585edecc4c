"""Languages of captions: grammars that share one table of nouns and say a scene with tables of sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, partial
from string import Formatter
from typing import ClassVar, Literal, NamedTuple

from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, Scene
from visir.collections.scenes.language import (
    KINDS,
    TELLS,
    Caption,
    article,
    caption_of,
    plural,
    sentence,
    ways_to_say,
)
from visir.collections.scenes.palette import Draws
from visir.collections.scenes.render import FIGURES

__all__ = ["GRAMMARS", "Grammar"]

Thing = Literal["subject", "companion"]
Side = Literal["left", "right"]
SIDES: dict[str, Side] = {"left of": "left", "right of": "right"}
RELATIONS: dict[Side, str] = {"left": "left of", "right": "right of"}

_CAPTIONS = 60
"""Draws of captions have this purpose and the next four."""


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


class English(Grammar):
    """English. Its captions are those of `visir.collections.scenes.language`."""

    code = "en"
    title = "English"

    def caption(self, scene: Scene, number: int) -> Caption:
        return caption_of(scene, number)

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        things = {
            "subject": article(f"{scene.colour} {scene.subject}"),
            "companion": article(f"{scene.companion_colour} {scene.companion}"),
        }
        thing, other = things[first], things["companion" if first == "subject" else "subject"]
        place = draws.one_of(ways_to_say("place", scene.place))
        relation = draws.one_of((f"to the {side} of", f"on the {side} of"))
        return sentence(
            draws.one_of(
                (
                    f"{thing} is {relation} {other} {place}",
                    f"{place}, there is {thing} {relation} {other}",
                    f"there is {thing} {relation} {other} {place}",
                )
            )
        )

    def beside_at(self, scene: Scene) -> str:
        thing, other = article(f"{scene.colour} {scene.subject}"), f"{scene.companion_colour} {scene.companion}"
        verb, place = FIGURES[scene.subject].verbs[0], ways_to_say("place", scene.place)[0]
        where, side = f"on the {scene.position} side of the picture", SIDES[scene.relation]
        return sentence(f"{thing} {verb} {place} {where}, with {article(other)} to the {side} of the {scene.subject}")

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        place, thing = draws.one_of(ways_to_say("place", scene.place)), scene.subject
        return sentence(
            draws.one_of(
                (
                    f"the {thing} {place} is {colour}, not {other}",
                    f"{article(f'{colour} {thing}')}, not {article(f'{other} one')}, is {place}",
                    f"the {thing} that you can see {place} is not {other}, but {colour}",
                )
            )
        )

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        place, thing = draws.one_of(ways_to_say("place", scene.place)), f"{scene.colour} {scene.subject}"
        return sentence(
            draws.one_of(
                (
                    f"there are no {plural(flyer)} above the {thing} {place}",
                    f"{article(thing)} {place}, without any {plural(flyer)} in the sky",
                    f"{place} there is {article(thing)}, and no {flyer} is in the sky",
                )
            )
        )

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        place, thing = draws.one_of(ways_to_say("place", scene.place)), article(f"{scene.colour} {scene.subject}")
        return sentence(
            draws.one_of(
                (
                    f"there is {thing} {place}, but no {companion}",
                    f"{thing} {place}, without {article(companion)}",
                    f"{place} you can see {thing}, but not {article(companion)}",
                )
            )
        )


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


Words = dict[str, Callable[[], str]]
"""What makes each word of a sentence; it is asked for those that a sentence has."""


@cache
def _names_in(way: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(way) if name)


class SentenceGrammar(Grammar):
    """A language that is a table of sentences, and the words of a scene that are put into them."""

    # A sentence may begin with a small letter, and has no full stop; `finish` adds both.

    column: ClassVar[int]  # of the language in the table of nouns
    # The ways to say each kind of sentence: each of `KINDS`, and every other method of `Grammar` by its name.
    ways: ClassVar[dict[str, tuple[str, ...]]]
    sides: ClassVar[dict[Side, str]]  # "to the left", "to the right"
    places: ClassVar[dict[str, str]]
    positions: ClassVar[dict[str, str]]

    def __init__(self) -> None:
        self.nouns = {name: Noun(*row[self.column].split("/")) for name, row in _NOUNS.items()}

    @abstractmethod
    def phrase(self, noun: str, *adjectives: str) -> str:
        """A noun, by its name in English, with what stands before it and its adjectives: "a red dog"."""

    @abstractmethod
    def of(self, noun: str, *adjectives: str) -> str:
        """The same behind a side: "to the left of a red dog"."""

    @abstractmethod
    def words(self, scene: Scene) -> Words:
        """What the names in the sentences stand for besides `usual_words`, as it follows from the scene alone."""

    @abstractmethod
    def quality(self, colour: str, noun: str) -> str:
        """A colour as it is said of a noun: "it is red"."""

    @abstractmethod
    def absent(self, noun: str, kind: str) -> str:
        """What is not there, in sentences of a kind."""

    def usual_words(self, scene: Scene) -> Words:
        """The words that all languages have."""
        thing, other = (scene.subject, scene.colour), (scene.companion, scene.companion_colour)
        return {
            "thing": lambda: self.phrase(*thing),
            "of_thing": lambda: self.of(*thing),
            "other": lambda: self.phrase(*other),
            "of_other": lambda: self.of(*other),
            "place": lambda: self.places[scene.place],
            "where": lambda: self.positions[scene.position],
            "landmark": lambda: self.phrase(scene.landmark),
        }

    def say(self, kind: str, scene: Scene, draws: Draws, **words: str) -> str:
        """One of the ways of a kind, with the words of the scene and these."""
        way = draws.one_of(self.ways[kind])
        known = {**self.usual_words(scene), **self.words(scene)}
        return self.finish(way.format(**{name: known[name]() for name in _names_in(way) if name in known}, **words))

    def finish(self, text: str) -> str:
        """A sentence with its capital and its full stop."""
        return sentence(text)

    def caption(self, scene: Scene, number: int) -> Caption:
        return Caption(self.say(KINDS[number], scene, Draws(scene, _CAPTIONS + number)), TELLS[number])

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        words = self.usual_words(scene)
        named, second = ("thing", "of_other") if first == "subject" else ("other", "of_thing")
        return self.say("beside", scene, draws, first=words[named](), of_second=words[second](), side=self.sides[side])

    def beside_at(self, scene: Scene) -> str:
        return self.say("beside_at", scene, Draws(scene, 0))

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        so, not_so = (self.quality(name, scene.subject) for name in (colour, other))
        return self.say("contrast", scene, draws, so=so, not_so=not_so)

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        return self.say("without_flyer", scene, draws, absent=self.absent(flyer, "without_flyer"))

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        return self.say("without_companion", scene, draws, absent=self.absent(companion, "without_companion"))


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


class German(SentenceGrammar):
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

    def words(self, scene: Scene) -> Words:
        preposition = "in" if scene.time == "night" else "an"
        return {
            "to_thing": lambda: self.phrase(scene.subject, scene.colour, case="dative"),
            "the_thing": lambda: self.phrase(scene.subject, definite=True),
            "whole": lambda: self.phrase(scene.subject, scene.size, scene.pattern, scene.colour),
            "pronoun": lambda: "ihr" if self.nouns[scene.subject].kind == "f" else "ihm",
            "stands": lambda: self.verbs.get(scene.subject, "steht"),
            "relation": lambda: self.relations[scene.relation],
            "flyers": lambda: self.counted(scene, "nominative"),
            "to_flyers": lambda: self.counted(scene, "dative"),
            "fly": lambda: self.flight[scene.flyer][scene.flyers > 1],
            "are": lambda: "ist" if scene.flyers == 1 else "sind",
            "when": lambda: f"{preposition} {self.phrase(scene.time, scene.weather, case='dative')}",
            "time": lambda: self.times[scene.time],
            "weather": lambda: _GERMAN[scene.weather],
        }

    def quality(self, colour: str, noun: str) -> str:
        return _GERMAN[colour]

    def absent(self, noun: str, kind: str) -> str:
        return self.nouns[noun].plural if kind == "without_flyer" else self.phrase(noun, negated=True)


class Romance(SentenceGrammar):
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

    def words(self, scene: Scene) -> Words:
        definite = partial(self.phrase, scene.subject, definite=True)
        return {
            "the_thing": definite,
            "near": lambda: self.beside_text(scene.relation, self.phrase(scene.subject, scene.colour)),
            "near_it": lambda: self.beside_text(scene.relation, definite()),
            "flyers": lambda: self.counted(self.nouns[scene.flyer], scene.flyers),
            "fly": lambda: self.flight.get(scene.flyer, self.flight[""])[scene.flyers > 1],
            "moment": lambda: self.phrase(scene.time, scene.weather),
            "time": lambda: self.times[scene.time],
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

    def words(self, scene: Scene) -> Words:
        looks = (scene.size, scene.colour, scene.pattern)
        if scene.size == "medium":  # "de taille moyenne" comes last: it is not a part of the colour
            looks = (scene.colour, scene.pattern, scene.size)
        whole = partial(self.phrase, scene.subject, *looks)
        return {**super().words(scene), "whole": whole, "weather": lambda: self.adjectives[scene.weather][0]}

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

    def words(self, scene: Scene) -> Words:
        whole = partial(self.phrase, scene.subject, scene.size, scene.colour, scene.pattern)
        return {**super().words(scene), "whole": whole, "sky": lambda: self.skies[scene.weather]}

    def absent(self, noun: str, kind: str) -> str:
        if kind == "without_flyer":
            return self.nouns[noun].plural
        return f"{'ninguna' if self.nouns[noun].kind == 'f' else 'ningún'} {self.nouns[noun].word}"


class Chinese(SentenceGrammar):
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

    def words(self, scene: Scene) -> Words:
        return {
            "the_thing": lambda: self.nouns[scene.subject].word,
            "size": lambda: self.sizes[scene.size],
            "pattern": lambda: self.patterns[scene.pattern],
            "relation": lambda: self.relations[scene.relation],
            "flyers": lambda: self.phrase(scene.flyer, number=scene.flyers),
            "fly": lambda: "飘" if scene.flyer == "balloon" else "飞",
            "when": lambda: f"{self.weather[scene.weather]}的{self.times[scene.time]}",
        }

    def quality(self, colour: str, noun: str) -> str:
        return self.colours[colour]

    def absent(self, noun: str, kind: str) -> str:
        return self.nouns[noun].word


GRAMMARS: dict[str, Grammar] = {
    grammar.code: grammar for grammar in (English(), German(), French(), Spanish(), Chinese())
}
"""By language code."""
