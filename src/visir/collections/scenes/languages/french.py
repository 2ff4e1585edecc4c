"""French: two genders, adjectives that agree, and words that lose a vowel before another one."""

from __future__ import annotations

from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import SIDES, GenderedNoun, SentenceGrammar, Side, Thing

NOUNS: dict[str, GenderedNoun] = {
    "dog": GenderedNoun("chien", "m"), "cat": GenderedNoun("chat", "m"), "rabbit": GenderedNoun("lapin", "m"),
    "pig": GenderedNoun("cochon", "m"), "elephant": GenderedNoun("éléphant", "m"),
    "sheep": GenderedNoun("mouton", "m"), "duck": GenderedNoun("canard", "m"), "turtle": GenderedNoun("tortue", "f"),
    "snail": GenderedNoun("escargot", "m"), "giraffe": GenderedNoun("girafe", "f"),
    "car": GenderedNoun("voiture", "f"), "bus": GenderedNoun("bus", "m"), "truck": GenderedNoun("camion", "m"),
    "tractor": GenderedNoun("tracteur", "m"), "train": GenderedNoun("train", "m"),
    "boat": GenderedNoun("bateau", "m"), "rocket": GenderedNoun("fusée", "f"), "tent": GenderedNoun("tente", "f"),
    "armchair": GenderedNoun("fauteuil", "m"), "teapot": GenderedNoun("théière", "f"),
    "robot": GenderedNoun("robot", "m"), "umbrella": GenderedNoun("parapluie", "m"),
    "ball": GenderedNoun("balle", "f"), "bucket": GenderedNoun("seau", "m"), "present": GenderedNoun("cadeau", "m"),
    "flowerpot": GenderedNoun("pot de fleurs", "m"), "mug": GenderedNoun("tasse", "f"),
    "lantern": GenderedNoun("lanterne", "f"), "hat": GenderedNoun("chapeau", "m"),
    "drum": GenderedNoun("tambour", "m"), "mushroom": GenderedNoun("champignon", "m"),
    "suitcase": GenderedNoun("valise", "f"), "house": GenderedNoun("maison", "f"),
    "church": GenderedNoun("église", "f"), "castle": GenderedNoun("château fort", "m"),
    "windmill": GenderedNoun("moulin à vent", "m"), "lighthouse": GenderedNoun("phare", "m"),
    "Ferris wheel": GenderedNoun("grande roue", "f"), "circus tent": GenderedNoun("chapiteau de cirque", "m"),
    "water tower": GenderedNoun("château d'eau", "m"), "bird": GenderedNoun("oiseau", "m", "oiseaux"),
    "butterfly": GenderedNoun("papillon", "m", "papillons"), "balloon": GenderedNoun("ballon", "m", "ballons"),
    "kite": GenderedNoun("cerf-volant", "m", "cerfs-volants"),
    "paper plane": GenderedNoun("avion en papier", "m", "avions en papier"),
    "bee": GenderedNoun("abeille", "f", "abeilles"),
}  # fmt: skip
_ADJECTIVES = {
    "red": ("rouge", "rouge"), "orange": ("orange", "orange"), "yellow": ("jaune", "jaune"),
    "green": ("vert", "verte"), "blue": ("bleu", "bleue"), "purple": ("violet", "violette"), "pink": ("rose", "rose"),
    "white": ("blanc", "blanche"),
    "small": ("petit", "petite"), "medium": ("de taille moyenne", "de taille moyenne"), "large": ("grand", "grande"),
    "plain": ("uni", "unie"), "striped": ("rayé", "rayée"), "spotted": ("à pois", "à pois"),
    "checked": ("à carreaux", "à carreaux"),
    "clear": ("clair", "claire"), "cloudy": ("nuageux", "nuageuse"), "rainy": ("pluvieux", "pluvieuse"),
    "snowy": ("neigeux", "neigeuse"), "foggy": ("brumeux", "brumeuse"), "stormy": ("orageux", "orageuse"),
}  # fmt: skip
_PLACES = {
    "beach": "sur la plage", "meadow": "dans un pré", "desert": "dans le désert", "street": "dans une rue de la ville",
    "mountains": "à la montagne", "forest": "dans la forêt", "lake": "au bord d'un lac", "farm": "à la ferme",
}  # fmt: skip
_RELATIONS = {"left of": "à gauche de", "right of": "à droite de", "in front of": "devant", "on": "sur"}
_FLIGHT = {"balloon": ("flotte", "flottent"), "paper plane": ("plane", "planent")}
_NUMBERS = {2: "deux", 3: "trois", 4: "quatre", 5: "cinq"}
_MOMENTS = {
    "day": GenderedNoun("journée", "f"),
    "sunset": GenderedNoun("soir", "m"),
    "night": GenderedNoun("nuit", "f"),
}
_TIMES = {"day": "en plein jour", "sunset": "au coucher du soleil", "night": "la nuit"}
_POSITIONS = {"left": "à gauche de l'image", "middle": "au milieu de l'image", "right": "à droite de l'image"}


def agreeing(name: str, noun: GenderedNoun) -> str:
    """An adjective in the gender of a noun."""
    return _ADJECTIVES[name][noun.gender == "f"]


def phrase(noun: GenderedNoun, *adjectives: str, definite: bool = False) -> str:
    """A noun with its article; "petit" and "grand" stand before it, all other adjectives behind.

    Example:
        >>> phrase(NOUNS["turtle"], "large", "green"), phrase(NOUNS["elephant"], definite=True)
        ('une grande tortue verte', "l'éléphant")
    """
    before = [agreeing(name, noun) for name in adjectives if name in ("small", "large")]
    behind = [agreeing(name, noun) for name in adjectives if name not in ("small", "large")]
    text = " ".join([*before, noun.word, *behind])
    if not definite:
        return f"{'une' if noun.gender == 'f' else 'un'} {text}"
    if _begins_with_vowel(text):
        return f"l'{text}"
    return f"{'la' if noun.gender == 'f' else 'le'} {text}"


def of(text: str) -> str:
    """ "de" before a noun phrase or a plural.

    Example:
        >>> of("le chien"), of("un chien"), of("la tortue"), of("oiseaux"), of("kiwis")
        ('du chien', "d'un chien", 'de la tortue', "d'oiseaux", 'de kiwis')
    """
    if text.startswith("le "):
        return f"du {text.removeprefix('le ')}"
    return f"d'{text}" if _begins_with_vowel(text) else f"de {text}"


def counted(scene: Scene) -> str:
    """What flies, with its number."""
    noun = NOUNS[scene.flyer]
    if scene.flyers == 1:
        return f"{'une seule' if noun.gender == 'f' else 'un seul'} {noun.word}"
    return f"{_NUMBERS[scene.flyers]} {noun.plural}"


def _begins_with_vowel(text: str) -> bool:
    return text[0].lower() in "aeéèêiouy"


class French(SentenceGrammar):
    """French."""

    code = "fr"
    title = "French"

    def looks(self, scene: Scene, draws: Draws) -> str:
        thing = phrase(NOUNS[scene.subject], scene.size, scene.colour, scene.pattern)
        if scene.size == "medium":  # said last, so that "de taille moyenne" is not taken for part of the colour
            thing = phrase(NOUNS[scene.subject], scene.colour, scene.pattern, scene.size)
        place = _PLACES[scene.place]
        return draws.one_of(
            (f"{thing} se trouve {place}", f"{place}, il y a {thing}", f"l'image montre {thing} {place}")
        )

    def company(self, scene: Scene, draws: Draws) -> str:
        place, other = _PLACES[scene.place], _companion(scene)
        near = _beside(_RELATIONS[scene.relation], _subject(scene))
        return draws.one_of(
            (
                f"{other} se trouve {near} {place}",
                f"{place}, il y a {other} {near}",
                f"on voit {other} {near} {place}",
            )
        )

    def above(self, scene: Scene, draws: Draws) -> str:
        place, thing, flyers = _PLACES[scene.place], _subject(scene), counted(scene)
        flies = _FLIGHT.get(scene.flyer, ("vole", "volent"))[scene.flyers > 1]
        return draws.one_of(
            (
                f"{flyers} {flies} au-dessus {of(thing)} {place}",
                f"{thing} se trouve {place}, sous {flyers}",
                f"{place}, {flyers} {flies} dans le ciel au-dessus {of(thing)}",
            )
        )

    def weather(self, scene: Scene, draws: Draws) -> str:
        place, thing, moment = _PLACES[scene.place], _subject(scene), _MOMENTS[scene.time]
        when = f"par {phrase(moment, scene.weather)}"
        return draws.one_of(
            (
                f"{when}, {thing} se trouve {place}",
                f"{thing} se trouve {place} {when}",
                f"{thing} {place}, {_TIMES[scene.time]}, par temps {_ADJECTIVES[scene.weather][0]}",
            )
        )

    def layout(self, scene: Scene, draws: Draws) -> str:
        place, thing, where = _PLACES[scene.place], _subject(scene), _POSITIONS[scene.position]
        landmark = phrase(NOUNS[scene.landmark])
        return draws.one_of(
            (
                f"{where}, {thing} se trouve {place}, et on voit {landmark} au loin",
                f"{thing} se trouve {place}, {where} ; au loin, il y a {landmark}",
                f"au loin, on voit {landmark}, et {where}, {thing} se trouve {place}",
            )
        )

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        thing, other = (_subject(scene), _companion(scene))
        if first == "companion":
            thing, other = other, thing
        near, place = _beside("à gauche de" if side == "left" else "à droite de", other), _PLACES[scene.place]
        return self.finish(draws.one_of((f"{place}, {thing} se trouve {near}", f"{place}, il y a {thing} {near}")))

    def beside_at(self, scene: Scene) -> str:
        side = "à gauche" if SIDES[scene.relation] == "left" else "à droite"
        return self.finish(
            f"{_POSITIONS[scene.position]}, {_subject(scene)} se trouve {_PLACES[scene.place]}, et il y a "
            f"{_companion(scene)} {side} {of(phrase(NOUNS[scene.subject], definite=True))}"
        )

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        noun, place = NOUNS[scene.subject], _PLACES[scene.place]
        thing, so, not_so = phrase(noun, definite=True), agreeing(colour, noun), agreeing(other, noun)
        return self.finish(
            draws.one_of(
                (
                    f"{thing} qui se trouve {place} est {so}, pas {not_so}",
                    f"{thing} qui se trouve {place} n'est pas {not_so}, mais {so}",
                )
            )
        )

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        place, thing, flyers = _PLACES[scene.place], _subject(scene), NOUNS[flyer].plural
        return self.finish(
            draws.one_of(
                (
                    f"il n'y a pas {of(flyers)} au-dessus {of(thing)} {place}",
                    f"{thing} se trouve {place}, et il n'y a pas {of(flyers)} dans le ciel",
                )
            )
        )

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        place, thing, absent = _PLACES[scene.place], _subject(scene), NOUNS[companion].word
        return self.finish(
            draws.one_of(
                (
                    f"{thing} se trouve {place}, mais il n'y a pas {of(absent)}",
                    f"{place}, on voit {thing}, mais pas {of(absent)}",
                )
            )
        )


def _subject(scene: Scene) -> str:
    return phrase(NOUNS[scene.subject], scene.colour)


def _companion(scene: Scene) -> str:
    return phrase(NOUNS[scene.companion], scene.companion_colour)


def _beside(relation: str, thing: str) -> str:
    """ "à gauche d'un chien", "devant un chien"."""
    return f"{relation.removesuffix(' de')} {of(thing)}" if relation.endswith(" de") else f"{relation} {thing}"
