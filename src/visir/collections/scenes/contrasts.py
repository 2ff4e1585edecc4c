"""Pairs of captions, one right and one wrong, and the scene for which it is the other way round.

| category | what is wrong in the wrong caption |
|---|---|
| swap_attribute | two things have exchanged their colours |
| swap_object | two things have exchanged their places |
| swap_direction | left and right are exchanged, twice |
| replace_object | a thing is another thing |
| replace_attribute | a colour, size, texture, weather or time of day is another one |
| replace_relation | the second thing is on another side; or the first is in another part of the picture |
| replace_count | there are more, or fewer |
| replace_place | it is somewhere else |
| negation | something is denied that is so, and stated that is not so |

Every wrong caption is the right caption of another scene (`Contrast.other`), worded in the same way, and each of the
two scenes is as likely as the other. So captions alone tell nothing: a model without eyes is right half the time.
(SugarCrepe's "add" categories are left out for that reason: there, the longer caption is the wrong one.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from visir.collections.scenes.facts import BY_NAME, Claim, Scene, claims_of, clearly_differ
from visir.collections.scenes.language import TELLS
from visir.collections.scenes.languages import RELATIONS, SIDES, Grammar, Side, Thing
from visir.collections.scenes.palette import Draws

Maker = Callable[[Scene, Draws, Grammar], "Contrast | None"]
SHARED = ("colour", "place", "subject")
_VARIATIONS = 9_000
"""The first of the salts of `Scene.chance` that give other wordings."""
_MOST_TRIES = 100
"""Every caption has at least three wordings, so that a hundred equal ones in a row do not happen."""


@dataclass(frozen=True)
class Statement:
    """A sentence, and what it says as facts."""

    text: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Contrast:
    """A caption that is right of a scene, and one that is wrong."""

    category: str  # what kind of difference it is
    fact: str  # the fact, or facts joined by "+", on which it depends
    right: Statement  # true of the scene, and wrong of `other`
    wrong: Statement  # true of `other`, and wrong of the scene
    other: Scene  # the scene for which the captions change their roles
    # The number of the caption (0–4) of the two scenes that the sentences are; None for other sentences.
    caption: int | None = None

    @property
    def has_same_words(self) -> bool:
        """Whether both captions have the same words, in another order (in languages without agreement)."""
        return self.category.startswith("swap_") or (self.category, self.fact) == ("negation", "colour")


def contrast(scene: Scene, category: str, grammar: Grammar) -> Contrast | None:
    """Make the contrast of a category for a scene."""
    draws = Draws(scene, 2 + list(CATEGORIES).index(category))
    return CATEGORIES[category](scene, draws, grammar)


def _as_captions(
    category: str, fact: str, scene: Scene, other: Scene, caption: int, grammar: Grammar
) -> Contrast | None:
    """The same caption of the two scenes, where they are clearly different."""
    if not clearly_differ(scene, other):
        return None
    right, wrong = (
        Statement(grammar.caption(shown, caption).text, claims_of(shown, TELLS[caption])) for shown in (scene, other)
    )
    return Contrast(category, fact, right, wrong, other, caption)


def _swap_attribute(scene: Scene, draws: Draws, grammar: Grammar) -> Contrast | None:
    other = scene.with_facts({"colour": scene.companion_colour, "companion_colour": scene.colour})
    return _as_captions("swap_attribute", "colour+companion_colour", scene, other, 1, grammar)


def _swap_object(scene: Scene, draws: Draws, grammar: Grammar) -> Contrast | None:
    """ "A ball is to the left of a dog" and "A dog is to the left of a ball"; either order is as often right."""
    if scene.relation not in SIDES:
        return None
    side: Side = draws.one_of(("left", "right"))
    first: Thing = "companion" if side == SIDES[scene.relation] else "subject"
    claims = claims_of(scene, ("colour", "companion", "companion_colour", "place", "relation", "subject"))
    other = scene.with_fact("relation", RELATIONS[_MIRRORED[SIDES[scene.relation]]])
    wording = draws.below(1 << 20)
    right, wrong = (
        Statement(grammar.beside(scene, thing, side, Draws(scene, 50 + wording % 50)), statements)
        for thing, statements in (
            (first, claims),
            (_OTHER_THING[first], claims_of(other, (claim.fact for claim in claims))),
        )
    )
    return Contrast("swap_object", "relation", right, wrong, other)


def _swap_direction(scene: Scene, draws: Draws, grammar: Grammar) -> Contrast | None:
    """ "On the left …, to the right of …" and "on the right …, to the left of …"."""
    side = SIDES.get(scene.relation)
    if side is None or scene.position != _MIRRORED[side]:
        return None
    other = scene.with_facts({"relation": RELATIONS[_MIRRORED[side]], "position": side})
    facts = ("colour", "companion", "companion_colour", "place", "position", "relation", "subject")
    right, wrong = (Statement(grammar.beside_at(shown), claims_of(shown, facts)) for shown in (scene, other))
    return Contrast("swap_direction", "position+relation", right, wrong, other)


def _replaced(category: str, captions: dict[str, tuple[int, ...]]) -> Maker:
    """One fact, drawn among those given with the captions that tell it, has another value."""

    def make(scene: Scene, draws: Draws, grammar: Grammar) -> Contrast | None:
        fact = draws.one_of(list(captions))
        values = [value for value in BY_NAME[fact].values if value != getattr(scene, fact)]
        other = scene.with_fact(fact, draws.one_of(values))  # among all: an unclear one gives none, see `truth`
        return _as_captions(category, fact, scene, other, draws.one_of(captions[fact]), grammar)

    return make


def _negation(scene: Scene, draws: Draws, grammar: Grammar) -> Contrast | None:
    fact = draws.one_of(("colour", "flyer", "companion"))
    other = scene.with_fact(fact, draws.one_of([v for v in BY_NAME[fact].values if v != getattr(scene, fact)]))
    if not clearly_differ(scene, other):
        return None
    here, there, purpose = getattr(scene, fact), getattr(other, fact), 50 + draws.below(50)
    statements = []
    for shown, absent in ((here, there), (there, here)):
        wording = Draws(scene, purpose)
        if fact == "colour":
            text = grammar.contrast(scene, shown, absent, wording)
            claims = (*claims_of(scene, ("place", "subject")), Claim(fact, shown), Claim(fact, absent, negated=True))
        else:
            text = (grammar.without_flyer if fact == "flyer" else grammar.without_companion)(scene, absent, wording)
            claims = (*claims_of(scene, SHARED), Claim(fact, absent, negated=True))
        statements.append(Statement(text, claims))
    return Contrast("negation", fact, statements[0], statements[1], other)


_MIRRORED: dict[Side, Side] = {"left": "right", "right": "left"}
_OTHER_THING: dict[Thing, Thing] = {"subject": "companion", "companion": "subject"}
_ALL = (0, 1, 2, 3, 4)

CATEGORIES: dict[str, Maker] = {
    "swap_attribute": _swap_attribute,
    "swap_object": _swap_object,
    "swap_direction": _swap_direction,
    "replace_object": _replaced(
        "replace_object", {"subject": _ALL, "companion": (1,), "flyer": (2,), "landmark": (4,)}
    ),
    "replace_attribute": _replaced(
        "replace_attribute",
        {"colour": _ALL, "companion_colour": (1,), "size": (0,), "pattern": (0,), "weather": (3,), "time": (3,)},
    ),
    "replace_relation": _replaced("replace_relation", {"relation": (1,), "position": (4,)}),
    "replace_count": _replaced("replace_count", {"flyers": (2,)}),
    "replace_place": _replaced("replace_place", {"place": _ALL}),
    "negation": _negation,
}
"""What makes the contrast of each category. The order is fixed: the draws depend on it."""


def contrasts(scene: Scene, grammar: Grammar) -> list[Contrast]:
    """All contrasts of a scene, one for each category that it has."""
    return [made for category in CATEGORIES if (made := contrast(scene, category, grammar)) is not None]


def paraphrase(scene: Scene, caption: int, grammar: Grammar) -> str:
    """A caption of a scene in other words: of eight that differ, the one with the fewest words in common."""
    text = grammar.caption(scene, caption).text
    variations = (int(scene.chance(_VARIATIONS + number) * (1 << 32)) for number in range(_MOST_TRIES))
    wordings = (grammar.caption(replace(scene, variation=variation), caption).text for variation in variations)
    return min(islice((other for other in wordings if other != text), 8), key=lambda other: _common(text, other))


def _common(text: str, other: str) -> float:
    """The share of pairs of neighbouring words, or characters, that two texts have in common."""
    first, second = (
        {*pairwise(words if len(words) > 1 else entry)} for entry in (text, other) for words in [entry.split()]
    )
    return len(first & second) / max(1, len(first | second))
