"""Captions of other lengths and roles, and edits, in English: `short`, `long`, `plain` and `edits` of `en.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Literal

from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, FACTS, Draws, Scene, fact_names
from visir.collections.scenes.languages import ENGLISH, GRAMMARS, KINDS, TELLS, Caption, Slot, ways_to_say

Length = Literal["usual", "short", "long"]
LONG_TELLS = frozenset({*fact_names("shared"), *fact_names("specific"), "ground"})
SHORT_TELLS = tuple(tells - {"place"} for tells in TELLS)

SHARED = "shared"
STEP = 3
"""By how many facts the roles move on: as many as are shared."""
ROLES = (*(str(rotation) for rotation in range(len(FACTS) // STEP)), SHARED)

_LONG, _SHORT, _PLAIN = 70, 71, 80
"""The purposes of draws; plain caption k has 80 + k."""


def written_captions(
    scene: Scene, languages: Sequence[str], length: Length, roles: str = "usual"
) -> list[tuple[str, str, str, Caption]]:
    """The captions of a scene: the ending of each id, language, kind, and the caption."""
    if roles != "usual":
        return [(f"#{k}", "en", f"plain {k}", caption) for k, caption in enumerate(plain_captions(scene, roles))]
    if length == "long":
        return [("#long", "en", "long", long_caption(scene))]
    if length == "short":
        return [(f"#short{k}", "en", KINDS[k], caption) for k, caption in enumerate(short_captions(scene))]
    return [
        (f"#{'' if code == 'en' else code}{k}", code, KINDS[k], caption)
        for code in languages
        for k, caption in enumerate(GRAMMARS[code].describe(scene))
    ]


def _drawn(scene: Scene, draws: Draws, facts: Sequence[str]) -> dict[str, str]:
    """One way to say each of these facts, in their order."""
    return {fact: draws.one_of(ways_to_say(fact, getattr(scene, fact))) for fact in facts}


@cache
def _ways(length: Length) -> list[list[list[Slot]]]:
    """Groups of sentences, each as the ways to say it."""
    table = ENGLISH.table[length]
    groups = [[table["opening"]], *table["groups"]] if length == "long" else [[[way]] for way in table["ways"]]
    return [[[ENGLISH.compiled(way) for way in ways] for ways in group] for group in groups]


def long_caption(scene: Scene) -> Caption:
    """One caption of 100 to 250 words that tells every fact in `LONG_TELLS`."""
    draws, facts, sentence = Draws(scene, _LONG), scene.__dict__, ENGLISH.sentence
    known = _drawn(scene, draws, ("place", "relation", "position"))
    known["flyers"] = ways_to_say("flyers", scene.flyers)[0]

    def choose(name: str, ways: Sequence[str]) -> str:
        return known.get(name) or draws.one_of(ways)

    opening, *groups = [
        [sentence((draws.one_of(ways) if len(ways) > 1 else ways[0])(facts, choose)) for ways in group]
        for group in _ways("long")
    ]
    return Caption(" ".join([*opening, *chain.from_iterable(draws.shuffled(groups))]), LONG_TELLS)


def short_captions(scene: Scene) -> tuple[Caption, ...]:
    """Five captions of a few words. Each tells what caption 0–4 tells, but for the place."""
    known = _drawn(scene, Draws(scene, _SHORT), ("size", "pattern", "relation", "flyers", "weather", "position"))
    facts, captions = scene.__dict__, []

    def choose(name: str, ways: Sequence[str]) -> str:
        return known.get(name) or ways[0]

    for tells, [[say]] in zip(SHORT_TELLS, _ways("short"), strict=True):
        text = say(facts, choose)
        captions.append(Caption(f"{text[0].upper()}{text[1:]}", tells))
    return tuple(captions)


# Captions that tell whichever facts they are to tell: roles that rotate, and a world in which every fact is shared.


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
    captions = []
    for number, names in enumerate(facts_by_caption(roles)):
        draws = Draws(scene, _PLAIN + number)
        known = _drawn(scene, draws, draws.shuffled([fact.name for fact in FACTS if fact.name in names]))
        clauses = [
            ENGLISH.fill(ENGLISH.table["plain"][name], vars(scene), lambda fact, ways: known[fact])  # noqa: B023
            for name in known
        ]
        captions.append(Caption(ENGLISH.sentence(", ".join(clauses)), names))
    return tuple(captions)


def describe_edit(scene: Scene, changed: Scene, wording: int) -> str:
    """What turns one scene into another, in words: "the same, but at night"."""
    table: Mapping[str, Any] = ENGLISH.table["edits"]
    opening = table["openings"][wording % len(table["openings"])]
    way = wording // len(table["openings"]) % 2
    parts = [
        ENGLISH.fill(table[name][way], {**vars(changed), "old": getattr(scene, name)})
        for name in scene.differences(changed)
    ]
    return f"{opening} {', and '.join(parts)}".strip()
