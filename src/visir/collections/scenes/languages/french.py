"""French: two genders, adjectives that agree, and words that lose a vowel before another one."""

from __future__ import annotations

from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import GenderedNoun, SentenceGrammar, Side
from visir.collections.scenes.palette import Draws

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
_SIDES: dict[Side, str] = {"left": "à gauche", "right": "à droite"}
_FLIGHT = {"balloon": ("flotte", "flottent"), "paper plane": ("plane", "planent")}
_NUMBERS = {2: "deux", 3: "trois", 4: "quatre", 5: "cinq"}
_MOMENTS = {
    "day": GenderedNoun("journée", "f"),
    "sunset": GenderedNoun("soir", "m"),
    "night": GenderedNoun("nuit", "f"),
}
_TIMES = {"day": "en plein jour", "sunset": "au coucher du soleil", "night": "la nuit"}
_POSITIONS = {"left": "à gauche de l'image", "middle": "au milieu de l'image", "right": "à droite de l'image"}
_WAYS = {
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
        "{when}, {thing} se trouve {place}",
        "{thing} se trouve {place} {when}",
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
        "il n'y a pas {of_absent} au-dessus {of_thing} {place}",
        "{thing} se trouve {place}, et il n'y a pas {of_absent} dans le ciel",
    ),
    "without_companion": (
        "{thing} se trouve {place}, mais il n'y a pas {of_absent}",
        "{place}, on voit {thing}, mais pas {of_absent}",
    ),
}


def phrase(noun: GenderedNoun, *adjectives: str, definite: bool = False) -> str:
    """A noun with its article; "petit" and "grand" stand before it, all other adjectives behind."""
    before = [noun.agreeing(_ADJECTIVES[name]) for name in adjectives if name in ("small", "large")]
    behind = [noun.agreeing(_ADJECTIVES[name]) for name in adjectives if name not in ("small", "large")]
    text = " ".join([*before, noun.word, *behind])
    if not definite:
        return f"{'une' if noun.gender == 'f' else 'un'} {text}"
    if _begins_with_vowel(text):
        return f"l'{text}"
    return f"{'la' if noun.gender == 'f' else 'le'} {text}"


def of(text: str) -> str:
    """ "de" before a noun phrase or a plural."""
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
    ways = _WAYS
    sides = _SIDES

    def words(self, scene: Scene) -> dict[str, str]:
        noun, colour = NOUNS[scene.subject], scene.colour
        thing, the_thing = phrase(noun, colour), phrase(noun, definite=True)
        other = phrase(NOUNS[scene.companion], scene.companion_colour)
        looks = (colour, scene.pattern, scene.size) if scene.size == "medium" else (scene.size, colour, scene.pattern)
        return {
            "thing": thing,
            "of_thing": of(thing),
            "the_thing": the_thing,
            "whole": phrase(noun, *looks),  # "de taille moyenne" comes last: it is not a part of the colour
            "place": _PLACES[scene.place],
            "other": other,
            "of_other": of(other),
            "near": _beside(_RELATIONS[scene.relation], thing),
            "near_it": _beside(_RELATIONS[scene.relation], the_thing),
            "flyers": counted(scene),
            "fly": _FLIGHT.get(scene.flyer, ("vole", "volent"))[scene.flyers > 1],
            "when": f"par {phrase(_MOMENTS[scene.time], scene.weather)}",
            "time": _TIMES[scene.time],
            "weather": _ADJECTIVES[scene.weather][0],
            "where": _POSITIONS[scene.position],
            "landmark": phrase(NOUNS[scene.landmark]),
        }

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        so, not_so = (NOUNS[scene.subject].agreeing(_ADJECTIVES[name]) for name in (colour, other))
        return self.say("contrast", scene, draws, so=so, not_so=not_so)

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        return self.say("without_flyer", scene, draws, of_absent=of(NOUNS[flyer].plural))

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        return self.say("without_companion", scene, draws, of_absent=of(NOUNS[companion].word))


def _beside(relation: str, thing: str) -> str:
    """ "à gauche d'un chien", "devant un chien"."""
    return f"{relation.removesuffix(' de')} {of(thing)}" if relation.endswith(" de") else f"{relation} {thing}"
