"""German: three genders, four cases, and adjectives that end as their article does not."""

from __future__ import annotations

from typing import Literal, NamedTuple

from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import SIDES, SentenceGrammar, Side, Thing

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


def phrase(noun: GermanNoun, case: Case, *adjectives: str, definite: bool = False, negated: bool = False) -> str:
    """A noun with its article and adjectives in a case.

    Example:
        >>> phrase(NOUNS["dog"], "dative", "small", "red"), phrase(NOUNS["cat"], "nominative", "red", definite=True)
        ('einem kleinen roten Hund', 'die rote Katze')
    """
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

    def looks(self, scene: Scene, draws: Draws) -> str:
        thing = phrase(NOUNS[scene.subject], "nominative", scene.size, scene.pattern, scene.colour)
        place, verb = _PLACES[scene.place], _verb(scene)
        return draws.one_of(
            (
                f"{thing} {verb} {place}",
                f"{place} {verb} {thing}",
                f"auf dem Bild ist {thing} {place} zu sehen",
            )
        )

    def company(self, scene: Scene, draws: Draws) -> str:
        thing, other, place = _subject(scene, "dative"), _companion(scene, "nominative"), _PLACES[scene.place]
        relation, pronoun = _RELATIONS[scene.relation], "ihr" if NOUNS[scene.subject].gender == "f" else "ihm"
        return draws.one_of(
            (
                f"{relation} {thing} {place} ist {other} zu sehen",
                f"{other} befindet sich {relation} {thing} {place}",
                f"{place} {_verb(scene)} {_subject(scene, 'nominative')}, und {relation} {pronoun} ist {other}",
            )
        )

    def above(self, scene: Scene, draws: Draws) -> str:
        place, thing = _PLACES[scene.place], _subject(scene, "dative")
        flies, are = (_FLIGHT[scene.flyer][scene.flyers > 1], "ist" if scene.flyers == 1 else "sind")
        return draws.one_of(
            (
                f"{counted(scene, 'nominative')} {flies} über {thing} {place}",
                f"{place} {_verb(scene)} {_subject(scene, 'nominative')} unter {counted(scene, 'dative')}",
                f"über {thing} {place} {are} {counted(scene, 'nominative')} am Himmel zu sehen",
            )
        )

    def weather(self, scene: Scene, draws: Draws) -> str:
        thing, place, moment = _subject(scene, "nominative"), _PLACES[scene.place], _MOMENTS[scene.time]
        when = f"{'in' if moment.gender == 'f' else 'an'} {phrase(moment, 'dative', scene.weather)}"
        return draws.one_of(
            (
                f"{when} {_verb(scene)} {thing} {place}",
                f"{thing} {_verb(scene)} {when} {place}",
                f"{thing} {place}, {_TIMES[scene.time]} bei {_ADJECTIVES[scene.weather]}em Wetter",
            )
        )

    def layout(self, scene: Scene, draws: Draws) -> str:
        thing, place, where = _subject(scene, "nominative"), _PLACES[scene.place], _POSITIONS[scene.position]
        landmark = phrase(NOUNS[scene.landmark], "nominative")
        return draws.one_of(
            (
                f"{where} {_verb(scene)} {thing} {place}, und in der Ferne ist {landmark} zu sehen",
                f"{thing} {_verb(scene)} {where} {place}; weit dahinter ist {landmark}",
                f"in der Ferne ist {landmark}, und {where} {_verb(scene)} {thing} {place}",
            )
        )

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        make, to = (_subject, _companion) if first == "subject" else (_companion, _subject)
        relation, place = "links von" if side == "left" else "rechts von", _PLACES[scene.place]
        return self.finish(
            draws.one_of(
                (
                    f"{place} ist {make(scene, 'nominative')} {relation} {to(scene, 'dative')}",
                    f"{place} befindet sich {relation} {to(scene, 'dative')} {make(scene, 'nominative')}",
                )
            )
        )

    def beside_at(self, scene: Scene) -> str:
        relation = "links von" if SIDES[scene.relation] == "left" else "rechts von"
        pronoun = "ihr" if NOUNS[scene.subject].gender == "f" else "ihm"
        return self.finish(
            f"{_POSITIONS[scene.position]} {_verb(scene)} {_subject(scene, 'nominative')} {_PLACES[scene.place]}, "
            f"und {relation} {pronoun} ist {_companion(scene, 'nominative')}"
        )

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        noun, place, (so, not_so) = (
            NOUNS[scene.subject],
            _PLACES[scene.place],
            (_ADJECTIVES[colour], _ADJECTIVES[other]),
        )
        thing = phrase(noun, "nominative", definite=True)
        return self.finish(
            draws.one_of(
                (f"{thing} {place} ist {so}, nicht {not_so}", f"{thing} {place} ist nicht {not_so}, sondern {so}")
            )
        )

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        place, plural = _PLACES[scene.place], NOUNS[flyer].plural
        return self.finish(
            draws.one_of(
                (
                    f"über {_subject(scene, 'dative')} {place} sind keine {plural} zu sehen",
                    f"{place} {_verb(scene)} {_subject(scene, 'nominative')}, und am Himmel sind keine {plural}",
                )
            )
        )

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        place, absent = _PLACES[scene.place], phrase(NOUNS[companion], "nominative", negated=True)
        return self.finish(
            draws.one_of(
                (
                    f"{place} {_verb(scene)} {_subject(scene, 'nominative')}, aber {absent}",
                    f"{_subject(scene, 'nominative')} {_verb(scene)} {place}, und es ist {absent} zu sehen",
                )
            )
        )


def _verb(scene: Scene) -> str:
    return _VERBS.get(scene.subject, "steht")


def _subject(scene: Scene, case: Case) -> str:
    return phrase(NOUNS[scene.subject], case, scene.colour)


def _companion(scene: Scene, case: Case) -> str:
    return phrase(NOUNS[scene.companion], case, scene.companion_colour)
