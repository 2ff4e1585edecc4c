"""Spanish: two genders, and adjectives that agree."""

from __future__ import annotations

from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import SIDES, GenderedNoun, SentenceGrammar, Side, Thing

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
_RELATIONS = {"left of": "a la izquierda de", "right of": "a la derecha de", "in front of": "delante de",
              "on": "encima de"}  # fmt: skip
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


def agreeing(name: str, noun: GenderedNoun) -> str:
    """An adjective in the gender of a noun."""
    return _ADJECTIVES[name][noun.gender == "f"]


def phrase(noun: GenderedNoun, *adjectives: str, definite: bool = False) -> str:
    """A noun with its article; adjectives stand behind it, the last two joined by "y".

    Example:
        >>> phrase(NOUNS["turtle"], "large", "red", "striped"), phrase(NOUNS["dog"], definite=True)
        ('una tortuga grande, roja y a rayas', 'el perro')
    """
    female = noun.gender == "f"
    article = ("la" if female else "el") if definite else ("una" if female else "un")
    words = [agreeing(name, noun) for name in adjectives]
    behind = f"{', '.join(words[:-1])} y {words[-1]}" if len(words) > 1 else " ".join(words)
    return f"{article} {noun.word} {behind}".strip()


def of(text: str) -> str:
    """ "de" before a noun phrase.

    Example:
        >>> of("el perro"), of("un perro")
        ('del perro', 'de un perro')
    """
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

    def looks(self, scene: Scene, draws: Draws) -> str:
        thing = phrase(NOUNS[scene.subject], scene.size, scene.colour, scene.pattern)
        place = _PLACES[scene.place]
        return draws.one_of((f"{place} hay {thing}", f"se ve {thing} {place}", f"la imagen muestra {thing} {place}"))

    def company(self, scene: Scene, draws: Draws) -> str:
        place, other = _PLACES[scene.place], _companion(scene)
        near = f"{_RELATIONS[scene.relation].removesuffix(' de')} {of(_subject(scene))}"
        return draws.one_of(
            (f"{place} hay {other} {near}", f"{other} está {near} {place}", f"se ve {other} {near} {place}")
        )

    def above(self, scene: Scene, draws: Draws) -> str:
        place, thing, flyers = _PLACES[scene.place], _subject(scene), counted(scene)
        flies = _FLIGHT.get(scene.flyer, ("vuela", "vuelan"))[scene.flyers > 1]
        return draws.one_of(
            (
                f"{flyers} {flies} por encima {of(thing)} {place}",
                f"{place} hay {thing} debajo de {flyers}",
                f"{place}, {flyers} {flies} en el cielo sobre {thing}",
            )
        )

    def weather(self, scene: Scene, draws: Draws) -> str:
        place, thing, moment = _PLACES[scene.place], _subject(scene), _MOMENTS[scene.time]
        when = f"en {phrase(moment, scene.weather)}"
        return draws.one_of(
            (
                f"{when}, {thing} está {place}",
                f"{thing} está {place} {when}",
                f"{thing} {place}, {_TIMES[scene.time]} y {_SKIES[scene.weather]}",
            )
        )

    def layout(self, scene: Scene, draws: Draws) -> str:
        place, thing, where = _PLACES[scene.place], _subject(scene), _POSITIONS[scene.position]
        landmark = phrase(NOUNS[scene.landmark])
        return draws.one_of(
            (
                f"{where}, {thing} está {place}, y a lo lejos se ve {landmark}",
                f"{thing} está {place}, {where}; a lo lejos hay {landmark}",
                f"a lo lejos se ve {landmark}, y {where}, {thing} está {place}",
            )
        )

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        thing, other = (_subject(scene), _companion(scene))
        if first == "companion":
            thing, other = other, thing
        near, place = f"a la {_SIDE_WORDS[side]} {of(other)}", _PLACES[scene.place]
        return self.finish(draws.one_of((f"{place}, {thing} está {near}", f"{place} hay {thing} {near}")))

    def beside_at(self, scene: Scene) -> str:
        near = f"a la {_SIDE_WORDS[SIDES[scene.relation]]} {of(phrase(NOUNS[scene.subject], definite=True))}"
        thing, where = _subject(scene), _POSITIONS[scene.position]
        return self.finish(f"{where}, {thing} está {_PLACES[scene.place]}, y hay {_companion(scene)} {near}")

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        noun, place = NOUNS[scene.subject], _PLACES[scene.place]
        thing, so, not_so = phrase(noun, definite=True), agreeing(colour, noun), agreeing(other, noun)
        return self.finish(
            draws.one_of(
                (
                    f"{thing} que está {place} es {so}, no {not_so}",
                    f"{thing} que está {place} no es {not_so}, sino {so}",
                )
            )
        )

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        place, thing, flyers = _PLACES[scene.place], _subject(scene), NOUNS[flyer].plural
        return self.finish(
            draws.one_of(
                (
                    f"no hay {flyers} por encima {of(thing)} {place}",
                    f"{thing} está {place}, y no hay {flyers} en el cielo",
                )
            )
        )

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        place, thing, noun = _PLACES[scene.place], _subject(scene), NOUNS[companion]
        absent = f"{'ninguna' if noun.gender == 'f' else 'ningún'} {noun.word}"
        return self.finish(
            draws.one_of((f"{place} hay {thing}, pero no hay {absent}", f"se ve {thing} {place}, pero {absent}"))
        )


_SIDE_WORDS: dict[Side, str] = {"left": "izquierda", "right": "derecha"}


def _subject(scene: Scene) -> str:
    return phrase(NOUNS[scene.subject], scene.colour)


def _companion(scene: Scene) -> str:
    return phrase(NOUNS[scene.companion], scene.companion_colour)
