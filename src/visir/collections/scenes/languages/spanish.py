"""Spanish: two genders, and adjectives that agree."""

from __future__ import annotations

from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import GenderedNoun, SentenceGrammar, Side
from visir.collections.scenes.palette import Draws

NOUNS: dict[str, GenderedNoun] = {
    "dog": GenderedNoun("perro", "m"), "cat": GenderedNoun("gato", "m"), "rabbit": GenderedNoun("conejo", "m"),
    "pig": GenderedNoun("cerdo", "m"), "elephant": GenderedNoun("elefante", "m"), "sheep": GenderedNoun("oveja", "f"),
    "duck": GenderedNoun("pato", "m"), "turtle": GenderedNoun("tortuga", "f"), "snail": GenderedNoun("caracol", "m"),
    "giraffe": GenderedNoun("jirafa", "f"), "car": GenderedNoun("coche", "m"), "bus": GenderedNoun("autobús", "m"),
    "truck": GenderedNoun("camión", "m"), "tractor": GenderedNoun("tractor", "m"), "train": GenderedNoun("tren", "m"),
    "boat": GenderedNoun("barco", "m"), "rocket": GenderedNoun("cohete", "m"),
    "tent": GenderedNoun("tienda de campaña", "f"), "armchair": GenderedNoun("sillón", "m"),
    "teapot": GenderedNoun("tetera", "f"), "robot": GenderedNoun("robot", "m"),
    "umbrella": GenderedNoun("paraguas", "m"), "ball": GenderedNoun("pelota", "f"),
    "bucket": GenderedNoun("cubo", "m"), "present": GenderedNoun("regalo", "m"),
    "flowerpot": GenderedNoun("maceta", "f"), "mug": GenderedNoun("taza", "f"), "lantern": GenderedNoun("farol", "m"),
    "hat": GenderedNoun("sombrero", "m"), "drum": GenderedNoun("tambor", "m"), "mushroom": GenderedNoun("seta", "f"),
    "suitcase": GenderedNoun("maleta", "f"), "house": GenderedNoun("casa", "f"),
    "church": GenderedNoun("iglesia", "f"), "castle": GenderedNoun("castillo", "m"),
    "windmill": GenderedNoun("molino de viento", "m"), "lighthouse": GenderedNoun("faro", "m"),
    "Ferris wheel": GenderedNoun("noria", "f"), "circus tent": GenderedNoun("carpa de circo", "f"),
    "water tower": GenderedNoun("torre de agua", "f"), "bird": GenderedNoun("pájaro", "m", "pájaros"),
    "butterfly": GenderedNoun("mariposa", "f", "mariposas"), "balloon": GenderedNoun("globo", "m", "globos"),
    "kite": GenderedNoun("cometa", "f", "cometas"),
    "paper plane": GenderedNoun("avión de papel", "m", "aviones de papel"),
    "bee": GenderedNoun("abeja", "f", "abejas"),
}  # fmt: skip
_ADJECTIVES = {
    "red": ("rojo", "roja"), "orange": ("naranja", "naranja"), "yellow": ("amarillo", "amarilla"),
    "green": ("verde", "verde"), "blue": ("azul", "azul"), "purple": ("morado", "morada"), "pink": ("rosa", "rosa"),
    "white": ("blanco", "blanca"),
    "small": ("pequeño", "pequeña"), "medium": ("mediano", "mediana"), "large": ("grande", "grande"),
    "plain": ("de un solo color", "de un solo color"), "striped": ("a rayas", "a rayas"),
    "spotted": ("de lunares", "de lunares"), "checked": ("a cuadros", "a cuadros"),
    "clear": ("despejado", "despejada"), "cloudy": ("nublado", "nublada"), "rainy": ("lluvioso", "lluviosa"),
    "snowy": ("nevado", "nevada"), "foggy": ("brumoso", "brumosa"), "stormy": ("tormentoso", "tormentosa"),
}  # fmt: skip
_PLACES = {
    "beach": "en la playa", "meadow": "en un prado", "desert": "en el desierto", "street": "en una calle de la ciudad",
    "mountains": "en las montañas", "forest": "en el bosque", "lake": "junto a un lago", "farm": "en una granja",
}  # fmt: skip
_RELATIONS = {"left of": "a la izquierda", "right of": "a la derecha", "in front of": "delante", "on": "encima"}
_SIDES: dict[Side, str] = {"left": "a la izquierda", "right": "a la derecha"}
_SKIES = {"clear": "con cielo despejado", "cloudy": "con cielo nublado", "rainy": "con lluvia", "snowy": "con nieve",
          "foggy": "con niebla", "stormy": "con tormenta"}  # fmt: skip
_FLIGHT = {"balloon": ("flota", "flotan"), "paper plane": ("planea", "planean")}
_NUMBERS = {2: "dos", 3: "tres", 4: "cuatro", 5: "cinco"}
_MOMENTS = {
    "day": GenderedNoun("día", "m"),
    "sunset": GenderedNoun("atardecer", "m"),
    "night": GenderedNoun("noche", "f"),
}
_TIMES = {"day": "de día", "sunset": "al atardecer", "night": "de noche"}
_POSITIONS = {"left": "a la izquierda de la imagen", "middle": "en el centro de la imagen",
              "right": "a la derecha de la imagen"}  # fmt: skip
_WAYS = {
    "looks": ("{place} hay {whole}", "se ve {whole} {place}", "la imagen muestra {whole} {place}"),
    "company": ("{place} hay {other} {near}", "{other} está {near} {place}", "se ve {other} {near} {place}"),
    "above": (
        "{flyers} {fly} por encima {of_thing} {place}",
        "{place} hay {thing} debajo de {flyers}",
        "{place}, {flyers} {fly} en el cielo sobre {thing}",
    ),
    "weather": (
        "{when}, {thing} está {place}",
        "{thing} está {place} {when}",
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


def phrase(noun: GenderedNoun, *adjectives: str, definite: bool = False) -> str:
    """A noun with its article; adjectives stand behind it, the last two joined by "y"."""
    female = noun.gender == "f"
    article = ("la" if female else "el") if definite else ("una" if female else "un")
    words = [noun.agreeing(_ADJECTIVES[name]) for name in adjectives]
    behind = f"{', '.join(words[:-1])} y {words[-1]}" if len(words) > 1 else " ".join(words)
    return f"{article} {noun.word} {behind}".strip()


def of(text: str) -> str:
    """ "de" before a noun phrase."""
    return f"del {text.removeprefix('el ')}" if text.startswith("el ") else f"de {text}"


def counted(scene: Scene) -> str:
    """What flies, with its number."""
    noun = NOUNS[scene.flyer]
    if scene.flyers == 1:
        return f"{'una sola' if noun.gender == 'f' else 'un solo'} {noun.word}"
    return f"{_NUMBERS[scene.flyers]} {noun.plural}"


class Spanish(SentenceGrammar):
    """Spanish."""

    code = "es"
    title = "Spanish"
    ways = _WAYS
    sides = _SIDES

    def words(self, scene: Scene) -> dict[str, str]:
        noun, colour = NOUNS[scene.subject], scene.colour
        thing, the_thing = phrase(noun, colour), phrase(noun, definite=True)
        other = phrase(NOUNS[scene.companion], scene.companion_colour)
        relation = _RELATIONS[scene.relation]
        return {
            "thing": thing,
            "of_thing": of(thing),
            "the_thing": the_thing,
            "whole": phrase(noun, scene.size, colour, scene.pattern),
            "place": _PLACES[scene.place],
            "other": other,
            "of_other": of(other),
            "near": f"{relation} {of(thing)}",
            "near_it": f"{relation} {of(the_thing)}",
            "flyers": counted(scene),
            "fly": _FLIGHT.get(scene.flyer, ("vuela", "vuelan"))[scene.flyers > 1],
            "when": f"en {phrase(_MOMENTS[scene.time], scene.weather)}",
            "time": _TIMES[scene.time],
            "sky": _SKIES[scene.weather],
            "where": _POSITIONS[scene.position],
            "landmark": phrase(NOUNS[scene.landmark]),
        }

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        so, not_so = (NOUNS[scene.subject].agreeing(_ADJECTIVES[name]) for name in (colour, other))
        return self.say("contrast", scene, draws, so=so, not_so=not_so)

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        return self.say("without_flyer", scene, draws, absent=NOUNS[flyer].plural)

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        noun = NOUNS[companion]
        absent = f"{'ninguna' if noun.gender == 'f' else 'ningún'} {noun.word}"
        return self.say("without_companion", scene, draws, absent=absent)
