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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from typing import NamedTuple

from visir.collections.draft import Side as TaskSide
from visir.collections.draft import TaskDraft
from visir.collections.scenes.facts import BY_NAME, Claim, Draws, Scene, claims_of, clearly_differ, sample_scene
from visir.collections.scenes.generate import SPLITS, check_arguments, location, split_names
from visir.collections.scenes.languages import GRAMMARS, TELLS, Grammar
from visir.records import TaskFile, TaskSet

Maker = Callable[[Scene, Draws, Grammar], "Contrast | None"]
SHARED = ("colour", "place", "subject")
SIDES = {"left of": "left", "right of": "right"}
_MIRRORED = {"left": "right", "right": "left"}
_OTHER = {"first": "second", "second": "first", "first_colour": "second_colour", "second_colour": "first_colour"}
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
    side = draws.one_of(("left", "right"))
    claims = claims_of(scene, (*SHARED, "companion", "companion_colour", "relation"))
    other = scene.with_fact("relation", f"{_MIRRORED[SIDES[scene.relation]]} of")
    wording = 50 + draws.below(1 << 20) % 50
    things = {"first": scene.companion, "first_colour": scene.companion_colour}
    things |= {"second": scene.subject, "second_colour": scene.colour}
    exchanged = {name: things[_OTHER[name]] for name in things}
    if side != SIDES[scene.relation]:
        things, exchanged = exchanged, things
    right, wrong = (
        Statement(grammar.say("beside", scene, Draws(scene, wording), side=side, **named), statements)
        for named, statements in ((things, claims), (exchanged, claims_of(other, (claim.fact for claim in claims))))
    )
    return Contrast("swap_object", "relation", right, wrong, other)


def _swap_direction(scene: Scene, draws: Draws, grammar: Grammar) -> Contrast | None:
    """ "On the left …, to the right of …" and "on the right …, to the left of …"."""
    side = SIDES.get(scene.relation)
    if side is None or scene.position != _MIRRORED[side]:
        return None
    other = scene.with_facts({"relation": f"{_MIRRORED[side]} of", "position": side})
    facts = (*SHARED, "companion", "companion_colour", "position", "relation")
    right, wrong = (
        Statement(grammar.say("beside_at", shown, Draws(shown, 0), side=SIDES[shown.relation]), claims_of(shown, facts))
        for shown in (scene, other)
    )
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
            text = grammar.say("contrast", scene, wording, so=shown, not_so=absent)
            claims = (*claims_of(scene, ("place", "subject")), Claim(fact, shown), Claim(fact, absent, negated=True))
        else:
            text = grammar.say(f"without_{fact}", scene, wording, absent=absent)
            claims = (*claims_of(scene, SHARED), Claim(fact, absent, negated=True))
        statements.append(Statement(text, claims))
    return Contrast("negation", fact, statements[0], statements[1], other)


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


# Choice tasks of generated scenes: which of a few captions is true of a picture, or of which picture a caption is.


_ORDER = 40
"""The purpose of draws that put candidates in order."""


def _task(kind: str, source: str, sides: str, measures: tuple[str, ...] = ("all_first",)) -> TaskDraft:
    """A task without any choices. `sides` says what queries and documents are: "i2t", "t2i" or "t2t"."""
    task = TaskDraft(f"scenes, {kind}", Path(), source, task=sides, measures=measures, ties="pessimistic")
    task.documents.title = {"i": "images", "t": "captions"}[sides[2]]
    return task


def _add(
    task: TaskDraft,
    split: str,
    query: tuple[str, str],
    right: Mapping[str, str],
    wrong: Mapping[str, str],
    labels: Mapping[str, str],
) -> None:
    """One query with its right and wrong candidates, all as ids and texts or places."""
    candidates = {**right, **wrong}
    new = [item for item in candidates.items() if item[0] not in task.documents.known]
    sides: tuple[tuple[TaskSide, str, list[tuple[str, str]]], ...] = (
        ("documents", task.task[2], new), ("queries", task.task[0], [query])
    )  # fmt: skip
    for side, letter, items in sides:
        for name, content in items:
            place = (content, None) if letter == "i" else None
            task.add_item(side, name, None if place else content, cell=place)
    task.add_choice(split, query[0], candidates, right, labels)


class _Made(NamedTuple):
    """A contrast of a scene, and what the tasks need to know of it."""

    contrast: Contrast
    scene: Scene
    number: int  # of the scene
    split: str
    item: str  # the id of the scene in a language
    labels: dict[str, str]


def _drawn(
    n: int, seed: int, code: str, splits: Mapping[str, float], suits: Callable[[Contrast], bool] = lambda made: True
) -> Iterator[_Made]:
    """The first n scenes that have a contrast that suits: of several the one of the rarest category so far."""
    counts: dict[str, int] = {}
    for index, split in enumerate(split_names(repeat(False), splits)):
        scene, image = sample_scene(seed, index), f"scene-{seed}-{index:06d}"
        suiting = [made for made in contrasts(scene, GRAMMARS[code]) if suits(made)]
        if suiting:
            made = min(suiting, key=lambda made: counts.get(made.category, 0))
            counts[made.category] = counts.get(made.category, 0) + 1
            labels = {"category": made.category, "fact": made.fact, "language": code, "image": image}
            yield _Made(made, scene, index, split, f"{image}.{code}", labels)
            if (n := n - 1) == 0:
                return


def choice_scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    language: str = "en",
    splits: Mapping[str, float] = SPLITS,
) -> TaskFile:
    """Make n choices between a right and a wrong caption, one for each of n pictures."""
    # Labels: "category" (`contrasts` lists them; all are about equally frequent), "fact" (what the captions differ in),
    # "image", and "language". With several languages, a picture has one choice in each.
    # size: The pictures are `size` × `size` pixels, 64 to 224.
    languages, source = _checked(n, seed, size, language, splits)
    task = _task("choice", source, "i2t")
    for made, scene, index, split, item, labels in chain.from_iterable(
        _drawn(n, seed, code, splits) for code in languages
    ):
        first, second = Draws(scene, _ORDER).shuffled((f"{item}#0", f"{item}#1"))
        query = item, location(seed, index, size)
        _add(task, split, query, {first: made.right.text}, {second: made.wrong.text}, labels)
    return task.build()


def winoground_scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    language: str = "en",
    splits: Mapping[str, float] = SPLITS,
) -> TaskSet:
    """Make n groups of two pictures and two captions: each caption is true of one picture and wrong of the other."""
    # In English both captions have the same words in another order; in languages with agreement the endings differ. The
    # label "group" joins the queries of a group, "category" says what is exchanged. Arguments as in `choice_scenes`.
    languages, source = _checked(n, seed, size, language, splits)
    kind, measures = "winoground", ("all_first", "item_score", "group_score")
    of_images, of_texts = (_task(kind, source, sides, measures) for sides in ("i2t", "t2i"))
    for made, scene, index, split, item, labels in chain.from_iterable(
        _drawn(n, seed, code, splits, lambda made: made.has_same_words) for code in languages
    ):
        changes = {name: getattr(made.other, name) for name in scene.differences(made.other)}
        images = {f"{item}/0": location(seed, index, size), f"{item}/1": location(seed, index, size, changes)}
        texts = {f"{item}#0": made.right.text, f"{item}#1": made.wrong.text}
        labels = {name: {**labels, "group": item}[name] for name in ("category", "language", "group", "image")}
        for task, queries, documents in ((of_images, images, texts), (of_texts, texts, images)):
            for query, right in zip(queries.items(), documents, strict=True):
                wrong = {name: content for name, content in documents.items() if name != right}
                _add(task, split, query, {right: documents[right]}, wrong, labels)
    return TaskSet(of_images.name, {"i2t": of_images.build(), "t2i": of_texts.build()}, source)


def paraphrase_scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    language: str = "en",
    splits: Mapping[str, float] = SPLITS,
) -> TaskSet:
    """Make n pictures with two right captions in different words, and a wrong one that is worded like the first."""
    # The task "i2t" asks for both right captions before the wrong one; "t2t" asks, for each right caption, for the
    # other one before the wrong one, and no picture is seen. Labels and arguments as in `choice_scenes`.
    languages, source = _checked(n, seed, size, language, splits)
    kind = "paraphrase"
    of_images, of_texts = _task(kind, source, "i2t"), _task(kind, source, "t2t", ("all_first", "item_score"))
    for code in languages:
        for made, scene, index, split, item, labels in _drawn(
            n, seed, code, splits, lambda made: made.caption is not None
        ):
            assert made.caption is not None
            first, second, wrong = Draws(scene, _ORDER).shuffled([f"{item}#{number}" for number in range(3)])
            right = {first: made.right.text, second: paraphrase(scene, made.caption, GRAMMARS[code])}
            against = {wrong: made.wrong.text}
            _add(of_images, split, (item, location(seed, index, size)), right, against, labels)
            for query, answer in ((first, second), (second, first)):
                group = {**labels, "group": item}
                _add(of_texts, split, (query, right[query]), {answer: right[answer]}, against, group)
    return TaskSet(of_images.name, {"i2t": of_images.build(), "t2t": of_texts.build()}, source)


def _checked(n: int, seed: int, size: int, language: str, splits: Mapping[str, float]) -> tuple[list[str], str]:
    """The languages, and where the task comes from; `CollectionError` lists everything that is wrong."""
    languages = language.split("+")
    check_arguments(n, seed, size, 0.0, splits, languages)
    titles = ", ".join(GRAMMARS[code].title for code in languages)
    return languages, f"generated scenes, seed {seed}, {size} px, {titles}"
