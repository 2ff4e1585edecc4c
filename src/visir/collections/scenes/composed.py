"""Composed queries of generated scenes: a picture and a change in words, and every picture that fits both.

Each query has a reference picture and an edit ("the same, but at night"). Its pictures are drawn for it:

- *targets*: every fact that a caption could tell is that of the reference, with the edit. One to three of them; they
  differ in what no caption tells (which way the subject faces, …);
- *text distractors* fit the words and not the picture: the edit is made, and one more fact is another one;
- *picture distractors* fit the picture and not the words: the reference again, the reference with another edit of the
  same fact, and with an edit of another fact.

The pictures of all queries are one gallery. Judgements come from the facts, over the whole gallery: a picture is
relevant exactly when it shows the edited scene.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from visir.collections.draft import TaskDraft
from visir.collections.scenes.captions import describe_edit
from visir.collections.scenes.facts import BY_NAME, Draws, Scene, clearly_differ, fact_names, sample_scene
from visir.collections.scenes.generate import SPLITS, check_arguments, location, split_names
from visir.records import IMAGE, TaskFile

Changes = Mapping[str, str | int]

TOLD = (*fact_names("shared"), *fact_names("specific"))
_UNTOLD = fact_names("irrelevant")
_GROUPS = (
    {"subject", "colour", "size", "pattern", "position", "relation"},
    {"companion", "companion_colour", "relation"},
    {"flyer", "flyers"},
)
"""Facts of one thing: an edit changes at most one of them, so that "the red one" means one thing."""
_TWO_EDITS = 4
"""One query in so many changes two facts."""


@dataclass(frozen=True)
class ComposedQuery:
    """One composed query and the pictures that are drawn for it.

    Args:
        reference: The scene of the picture that is given.
        edit: What is to change: facts and their new values.
        text: The edit in words.
        targets: Changes of the reference that give a right answer.
        text_distractors: Changes that fit the words and not the picture.
        picture_distractors: Changes that fit the picture and not the words.
    """

    reference: Scene
    edit: Changes
    text: str
    targets: tuple[Changes, ...]
    text_distractors: tuple[Changes, ...]
    picture_distractors: tuple[Changes, ...]

    def fits(self, scene: Scene) -> bool:
        """Whether a picture is a right answer: every fact that captions tell is that of the edited reference."""
        return not {*self.reference.with_facts(self.edit).differences(scene)} & {*TOLD}

    def fits_text(self, scene: Scene) -> bool:
        """Whether a picture shows what the words ask for."""
        return all(getattr(scene, name) == value for name, value in self.edit.items())


def compose(reference: Scene) -> ComposedQuery:
    """Make the composed query of a scene; the same scene gives the same query.

    Example:
        >>> query = compose(sample_scene(0, 36))
        >>> query.text, query.edit
        ('the same, but in the snow', {'weather': 'snowy'})
        >>> [query.fits(query.reference.with_facts(changes)) for changes in query.targets + query.picture_distractors]
        [True, False, False, False]
    """
    draws = Draws(reference, 0)
    edit = _edited(reference, draws, ())
    if draws.below(_TWO_EDITS) == 0:
        blocked = {*edit}.union(*(group for group in _GROUPS if group & {*edit}))
        edit |= _edited(reference.with_facts(edit), draws, blocked)
    edit = {name: edit[name] for name in TOLD if name in edit}
    changed = reference.with_facts(edit)
    count = math.prod(len(BY_NAME[name].values) for name in _UNTOLD)
    nuisances = draws.shuffled([_nuisance(number) for number in range(count)])
    own = {name: getattr(reference, name) for name in _UNTOLD}
    others = (nuisance for nuisance in nuisances if nuisance != own)
    targets = [{**edit, **nuisance} for nuisance in nuisances[: 1 + draws.below(3)]]
    text_distractors = [{**edit, **_edited(changed, draws, edit), **next(others)} for _ in range(2)]
    name = draws.one_of(list(edit))
    picture_distractors = [next(others), {**_value(reference, name, draws, edit[name]), **next(others)}]
    picture_distractors.append({**_edited(reference, draws, edit), **next(others)})
    return ComposedQuery(
        reference,
        edit,
        describe_edit(reference, changed, draws.below(1000)),
        tuple(targets),
        tuple(text_distractors),
        tuple(picture_distractors),
    )


def composed_scenes(n: int, *, seed: int = 0, size: int = 128, splits: Mapping[str, float] = SPLITS) -> TaskFile:
    """Make a task of composed retrieval from generated scenes: a query for each of n reference pictures.

    Queries have a picture and a text, documents are pictures. The label "category" names the fact that changes
    ("time", "colour+place"), the label "image" the reference. References and targets of different splits are different
    pictures; all of them are documents of every split.

    Args:
        n: How many queries, from 1.
        seed: A whole number from 0.
        size: The pictures are `size` × `size` pixels, 64 to 224.
        splits: The share of each split.

    Raises:
        CollectionError: Listing everything that is wrong with the arguments.

    Example:
        >>> task = composed_scenes(20, size=64)
        >>> task.tasks, len(task.queries), len(task.documents) > 100, task.splits
        (('it2i',), 20, True, ('test', 'train', 'val'))
    """
    check_arguments(n, seed, size, 0.0, splits)
    references = [f"scene-{seed}-{index:06d}" for index in range(n)]
    queries = [compose(sample_scene(seed, index)) for index in range(n)]
    documents: dict[str, tuple[str, Scene]] = {}
    for index, (reference, query) in enumerate(zip(references, queries, strict=True)):
        documents[reference] = (location(seed, index, size), query.reference)
        drawn = [*query.targets, *query.text_distractors, *query.picture_distractors]
        order = Draws(query.reference, 1).shuffled(drawn)  # ids tell nothing, not even where scores are equal
        for number, changes in enumerate(order):
            scene = query.reference.with_facts(changes)
            documents[f"{reference}.{number}"] = (
                location(
                    seed,
                    index,
                    size,
                    ({name: value for name, value in changes.items() if getattr(query.reference, name) != value}),
                ),
                scene,
            )
    showing: dict[tuple[str | int, ...], list[str]] = {}
    for name, (_, scene) in documents.items():
        showing.setdefault(_told(scene), []).append(name)
    task = TaskDraft("scenes, composed", Path(), f"generated scenes, seed {seed}, {size} px")
    task.documents.title, task.labels = "images", {"category": {}, IMAGE: {}}
    for name, (place, _) in documents.items():
        task.add_item("documents", name, None, cell=(place, None))
    splits_of = split_names([False] * n, splits)
    for reference, query, split in zip(references, queries, splits_of, strict=True):
        name = f"{reference}/edit"
        task.add_item("queries", name, query.text, cell=(documents[reference][0], None))
        task.labels["category"][name], task.labels[IMAGE][name] = "+".join(query.edit), reference
        for document in showing[_told(query.reference.with_facts(query.edit))]:
            task.judgements[split, name, document] = 1.0
    return task.build()


def _told(scene: Scene) -> tuple[str | int, ...]:
    return tuple(getattr(scene, name) for name in TOLD)


def _edited(
    scene: Scene, draws: Draws, without: Mapping[str, object] | set[str] | tuple[str, ...]
) -> dict[str, str | int]:
    """One more fact of a scene changed, clearly, and not one of those."""
    while True:
        change = _value(scene, draws.one_of([name for name in TOLD if name not in without]), draws)
        if change:
            return change


def _value(scene: Scene, name: str, draws: Draws, without: str | int | None = None) -> dict[str, str | int]:
    """Another value of one fact, and not that one; nothing where no other value is clearly different."""
    values = [
        value
        for value in BY_NAME[name].values
        if value != without and value != getattr(scene, name) and clearly_differ(scene, scene.with_fact(name, value))
    ]
    return {name: draws.one_of(values)} if values else {}


def _nuisance(number: int) -> dict[str, str | int]:
    """What no caption tells, by number."""
    values: dict[str, str | int] = {}
    for name in _UNTOLD:
        number, place = divmod(number, len(BY_NAME[name].values))
        values[name] = BY_NAME[name].values[place]
    return values
