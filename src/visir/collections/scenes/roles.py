"""Captions that tell whichever facts they are to tell: roles that rotate, and a world in which every fact is shared.

In the usual captions the role of a fact is fixed: the subject is always shared, the horizon always irrelevant. So what
a model learns of shared facts cannot be told from what it learns of subjects. Here the facts change places:

- "0" to "5": the roles of `facts`, moved on by three facts each time. Over the six every fact is shared once,
  irrelevant once or twice, and told by one caption alone otherwise. "0" has the usual roles.
- "shared": all five captions tell every fact, those that are usually irrelevant among them.

A caption is a list of plain clauses, one for each fact, in any order. A clause names no other fact.
"""

from __future__ import annotations

from functools import cache

from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, FACTS, Scene
from visir.collections.scenes.language import Caption, article, plural, sentence, ways_to_say

SHARED = "shared"
STEP = 3
"""By how many facts the roles move on: as many as are shared."""
ROLES = (*(str(rotation) for rotation in range(len(FACTS) // STEP)), SHARED)
_PURPOSE = 80  # of draws; caption k has 80 + k


@cache
def facts_by_caption(roles: str) -> tuple[frozenset[str], ...]:
    """The facts that caption 0–4 tells."""
    if roles == SHARED:
        return (frozenset(fact.name for fact in FACTS),) * CAPTIONS_PER_SCENE
    first = STEP * int(roles)
    return tuple(
        frozenset(
            FACTS[(place + first) % len(FACTS)].name for place, fact in enumerate(FACTS) if caption in fact.tellers
        )
        for caption in range(CAPTIONS_PER_SCENE)
    )


def plain_captions(scene: Scene, roles: str) -> tuple[Caption, ...]:
    """Five captions of a scene, each with a clause for every fact that it tells."""
    return tuple(_caption(scene, names, number) for number, names in enumerate(facts_by_caption(roles)))


def _caption(scene: Scene, names: frozenset[str], number: int) -> Caption:
    draws = Draws(scene, _PURPOSE + number)
    clauses = [
        _clause(name, scene, draws) for name in draws.shuffled([fact.name for fact in FACTS if fact.name in names])
    ]
    return Caption(sentence(", ".join(clauses)), names)


def _clause(name: str, scene: Scene, draws: Draws) -> str:
    value = getattr(scene, name)
    words = draws.one_of(ways_to_say(name, value))
    match name:
        case "subject":
            return f"the main thing is {article(words)}"
        case "colour" | "size" | "pattern":
            return f"the main thing is {words}"
        case "place":
            return f"the scene is {words}"
        case "companion":
            return f"the other thing is {article(words)}"
        case "companion_colour":
            return f"the other thing is {words}"
        case "relation":
            return f"the other thing is {words} the main one"
        case "flyer":
            return f"{plural(str(value))} are in the air"
        case "flyers":
            return f"{words} of a kind {'is' if value == 1 else 'are'} in the air"
        case "weather":
            return f"the weather is {words}"
        case "time":
            return f"the time is {words}"
        case "position":
            return f"the main thing is {words} of the picture"
        case "landmark":
            return f"{article(words)} stands in the distance"
        case "facing":
            return f"the main thing faces {words}"
        case "sun_side":
            return f"the sun or the moon is on the {words}"
        case "horizon":
            return f"the horizon is {words}"
        case _:
            return f"{words} lie on the ground"
