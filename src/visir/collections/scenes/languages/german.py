"""German: three genders, four cases, and adjectives that end as their article does not."""

from __future__ import annotations

from typing import Literal, NamedTuple

from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import SentenceGrammar, Side
from visir.collections.scenes.palette import Draws

Case = Literal["nominative", "accusative", "dative"]


class GermanNoun(NamedTuple):
    """A noun with its gender; `oblique` is its form in the accusative and dative where that is another one."""

    word: str
    gender: Literal["m", "f", "n"]
    plural: str = ""
    oblique: str = ""


NOUNS: dict[str, GermanNoun] = {
    "dog": GermanNoun("Hund", "m"), "cat": GermanNoun("Katze", "f"), "rabbit": GermanNoun("Kaninchen", "n"),
    "pig": GermanNoun("Schwein", "n"), "elephant": GermanNoun("Elefant", "m", oblique="Elefanten"),
    "sheep": GermanNoun("Schaf", "n"), "duck": GermanNoun("Ente", "f"), "turtle": GermanNoun("Schildkröte", "f"),
    "snail": GermanNoun("Schnecke", "f"), "giraffe": GermanNoun("Giraffe", "f"), "car": GermanNoun("Auto", "n"),
    "bus": GermanNoun("Bus", "m"), "truck": GermanNoun("Lastwagen", "m"), "tractor": GermanNoun("Traktor", "m"),
    "train": GermanNoun("Zug", "m"), "boat": GermanNoun("Boot", "n"), "rocket": GermanNoun("Rakete", "f"),
    "tent": GermanNoun("Zelt", "n"), "armchair": GermanNoun("Sessel", "m"), "teapot": GermanNoun("Teekanne", "f"),
    "robot": GermanNoun("Roboter", "m"), "umbrella": GermanNoun("Schirm", "m"), "ball": GermanNoun("Ball", "m"),
    "bucket": GermanNoun("Eimer", "m"), "present": GermanNoun("Geschenk", "n"),
    "flowerpot": GermanNoun("Blumentopf", "m"), "mug": GermanNoun("Tasse", "f"),
    "lantern": GermanNoun("Laterne", "f"), "hat": GermanNoun("Hut", "m"), "drum": GermanNoun("Trommel", "f"),
    "mushroom": GermanNoun("Pilz", "m"), "suitcase": GermanNoun("Koffer", "m"), "house": GermanNoun("Haus", "n"),
    "church": GermanNoun("Kirche", "f"), "castle": GermanNoun("Burg", "f"), "windmill": GermanNoun("Windmühle", "f"),
    "lighthouse": GermanNoun("Leuchtturm", "m"), "Ferris wheel": GermanNoun("Riesenrad", "n"),
    "circus tent": GermanNoun("Zirkuszelt", "n"), "water tower": GermanNoun("Wasserturm", "m"),
    "bird": GermanNoun("Vogel", "m", "Vögel"), "butterfly": GermanNoun("Schmetterling", "m", "Schmetterlinge"),
    "balloon": GermanNoun("Luftballon", "m", "Luftballons"), "kite": GermanNoun("Drachen", "m", "Drachen"),
    "paper plane": GermanNoun("Papierflieger", "m", "Papierflieger"), "bee": GermanNoun("Biene", "f", "Bienen"),
}  # fmt: skip
_ADJECTIVES = {
    "red": "rot", "orange": "orangefarben", "yellow": "gelb", "green": "grün", "blue": "blau", "purple": "violett",
    "pink": "rosafarben", "white": "weiß",
    "small": "klein", "medium": "mittelgroß", "large": "groß",
    "plain": "einfarbig", "striped": "gestreift", "spotted": "gepunktet", "checked": "kariert",
    "clear": "klar", "cloudy": "bewölkt", "rainy": "regnerisch", "snowy": "verschneit", "foggy": "neblig",
    "stormy": "gewittrig",
}  # fmt: skip
_PLACES = {
    "beach": "am Strand", "meadow": "auf einer Wiese", "desert": "in der Wüste", "street": "auf einer Straße der Stadt",
    "mountains": "in den Bergen", "forest": "im Wald", "lake": "an einem See", "farm": "auf einem Bauernhof",
}  # fmt: skip
_VERBS = {"cat": "sitzt", "rabbit": "sitzt", "turtle": "sitzt", "snail": "sitzt", "boat": "liegt"}
_RELATIONS = {"left of": "links von", "right of": "rechts von", "in front of": "vor", "on": "auf"}
_SIDES: dict[Side, str] = {"left": "links", "right": "rechts"}
_FLIGHT = {
    "bird": ("fliegt", "fliegen"), "butterfly": ("flattert", "flattern"), "balloon": ("schwebt", "schweben"),
    "kite": ("fliegt", "fliegen"), "paper plane": ("gleitet", "gleiten"), "bee": ("fliegt", "fliegen"),
}  # fmt: skip
_NUMBERS = {2: "zwei", 3: "drei", 4: "vier", 5: "fünf"}
_MOMENTS = {"day": GermanNoun("Tag", "m"), "sunset": GermanNoun("Abend", "m"), "night": GermanNoun("Nacht", "f")}
_TIMES = {"day": "tagsüber", "sunset": "am Abend", "night": "nachts"}
_POSITIONS = {"left": "links im Bild", "middle": "in der Mitte des Bildes", "right": "rechts im Bild"}

_EIN = {"nominative": ("ein", "eine", "ein"), "accusative": ("einen", "eine", "ein"),
        "dative": ("einem", "einer", "einem")}  # fmt: skip
_DER = {"nominative": ("der", "die", "das"), "accusative": ("den", "die", "das"), "dative": ("dem", "der", "dem")}
_BEHIND_EIN = {"nominative": ("er", "e", "es"), "accusative": ("en", "e", "es"), "dative": ("en", "en", "en")}
_BEHIND_DER = {"nominative": ("e", "e", "e"), "accusative": ("en", "e", "e"), "dative": ("en", "en", "en")}
_WAYS = {
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


def phrase(noun: GermanNoun, case: Case, *adjectives: str, definite: bool = False, negated: bool = False) -> str:
    """A noun with its article and adjectives in a case."""
    column = "mfn".index(noun.gender)
    article = (_DER if definite else _EIN)[case][column]
    ending = (_BEHIND_DER if definite else _BEHIND_EIN)[case][column]
    word = noun.word if case == "nominative" else noun.oblique or noun.word
    return " ".join(
        [f"k{article}" if negated else article, *(f"{_ADJECTIVES[name]}{ending}" for name in adjectives), word]
    )


def counted(scene: Scene, case: Case) -> str:
    """What flies, with its number: "ein einzelner Vogel", "unter drei Vögeln"."""
    noun = NOUNS[scene.flyer]
    if scene.flyers == 1:
        column = "mfn".index(noun.gender)
        return f"{_EIN[case][column]} einzeln{_BEHIND_EIN[case][column]} {noun.word}"
    return f"{_NUMBERS[scene.flyers]} {_in_dative(noun.plural) if case == 'dative' else noun.plural}"


def _in_dative(plural: str) -> str:
    return plural if plural.endswith(("n", "s")) else f"{plural}n"


class German(SentenceGrammar):
    """German."""

    code = "de"
    title = "German"
    ways = _WAYS
    sides = _SIDES

    def words(self, scene: Scene) -> dict[str, str]:
        noun, companion = NOUNS[scene.subject], NOUNS[scene.companion]
        to_thing, moment = phrase(noun, "dative", scene.colour), _MOMENTS[scene.time]
        return {
            "thing": phrase(noun, "nominative", scene.colour),
            "to_thing": to_thing,
            "of_thing": f"von {to_thing}",
            "the_thing": phrase(noun, "nominative", definite=True),
            "whole": phrase(noun, "nominative", scene.size, scene.pattern, scene.colour),
            "pronoun": "ihr" if noun.gender == "f" else "ihm",
            "stands": _VERBS.get(scene.subject, "steht"),
            "place": _PLACES[scene.place],
            "other": phrase(companion, "nominative", scene.companion_colour),
            "of_other": f"von {phrase(companion, 'dative', scene.companion_colour)}",
            "relation": _RELATIONS[scene.relation],
            "flyers": counted(scene, "nominative"),
            "to_flyers": counted(scene, "dative"),
            "fly": _FLIGHT[scene.flyer][scene.flyers > 1],
            "are": "ist" if scene.flyers == 1 else "sind",
            "when": f"{'in' if moment.gender == 'f' else 'an'} {phrase(moment, 'dative', scene.weather)}",
            "time": _TIMES[scene.time],
            "weather": _ADJECTIVES[scene.weather],
            "where": _POSITIONS[scene.position],
            "landmark": phrase(NOUNS[scene.landmark], "nominative"),
        }

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        return self.say("contrast", scene, draws, so=_ADJECTIVES[colour], not_so=_ADJECTIVES[other])

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        return self.say("without_flyer", scene, draws, absent=NOUNS[flyer].plural)

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        absent = phrase(NOUNS[companion], "nominative", negated=True)
        return self.say("without_companion", scene, draws, absent=absent)
