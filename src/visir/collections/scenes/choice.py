"""Choice tasks of generated scenes: which of a few captions is true of a picture, or of which picture a caption is.

- `choice_scenes`: one picture, one right caption and one wrong one (as in SugarCrepe, ARO, VALSE).
- `winoground_scenes`: two pictures and two captions of the same words; both directions (as in Winoground).
- `paraphrase_scenes`: one picture, two right captions in different words, and a wrong one that is worded like the first
  (as in SugarCrepe++); by picture, and by text alone.

What is right and wrong follows from the facts, see `contrasts`. Equal scores count against the system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from visir.collections.scenes.contrasts import Contrast, contrasts, paraphrase
from visir.collections.scenes.facts import Scene, sample_scene
from visir.collections.scenes.generate import SPLITS, check_arguments, location, split_names
from visir.collections.scenes.languages import GRAMMARS
from visir.collections.scenes.palette import Draws
from visir.collections.task_draft import Side, TaskDraft
from visir.records import TaskFile, TaskSet

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
    for name, content in candidates.items():
        if name not in task.documents.known:
            _add_item(task, "documents", name, content, task.task[2])
    _add_item(task, "queries", *query, task.task[0])
    task.add_choice(split, query[0], candidates, right, labels)


def _add_item(task: TaskDraft, side: Side, name: str, content: str, letter: str) -> None:
    if letter == "i":
        task.add_item(side, name, None, cell=(content, None))
    else:
        task.add_item(side, name, content)


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
    split_of = split_names([False] * n, splits)
    for code in languages:
        counts: dict[str, int] = {}
        for index in range(n):
            scene = sample_scene(seed, index)
            made = _rarest(contrasts(scene, GRAMMARS[code]), counts)
            image = f"scene-{seed}-{index:06d}"
            query = f"{image}.{code}"
            first, second = Draws(scene, _ORDER).shuffled((f"{query}#0", f"{query}#1"))
            _add(
                task,
                split_of[index],
                (query, location(seed, index, size)),
                {first: made.right.text},
                {second: made.wrong.text},
                {"category": made.category, "fact": made.fact, "language": code, "image": image},
            )
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
    for code in languages:
        groups = list(_groups(n, seed, code))
        split_of = split_names([False] * (groups[-1][0] + 1), splits)
        for index, scene, made in groups:
            image = f"scene-{seed}-{index:06d}"
            group = f"{image}.{code}"
            changes = {name: getattr(made.other, name) for name in scene.differences(made.other)}
            images = {
                f"{group}/0": location(seed, index, size),
                f"{group}/1": location(seed, index, size, changes),
            }
            texts = {f"{group}#0": made.right.text, f"{group}#1": made.wrong.text}
            labels = {"category": made.category, "language": code, "group": group, "image": image}
            for task, queries, documents in ((of_images, images, texts), (of_texts, texts, images)):
                for query, right in zip(queries.items(), documents, strict=True):
                    wrong = {name: content for name, content in documents.items() if name != right}
                    _add(task, split_of[index], query, {right: documents[right]}, wrong, labels)
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
    split_of = split_names([False] * n, splits)
    for code in languages:
        counts: dict[str, int] = {}
        for index in range(n):
            scene, image = sample_scene(seed, index), f"scene-{seed}-{index:06d}"
            made = _rarest([pair for pair in contrasts(scene, GRAMMARS[code]) if pair.caption is not None], counts)
            assert made.caption is not None
            item = f"{image}.{code}"
            first, second, wrong = Draws(scene, _ORDER).shuffled([f"{item}#{number}" for number in range(3)])
            right = {first: made.right.text, second: paraphrase(scene, made.caption, GRAMMARS[code])}
            labels = {"category": made.category, "fact": made.fact, "language": code, "image": image}
            against = {wrong: made.wrong.text}
            _add(of_images, split_of[index], (item, location(seed, index, size)), right, against, labels)
            labels["group"] = item
            for query, answer in ((first, second), (second, first)):
                _add(of_texts, split_of[index], (query, right[query]), {answer: right[answer]}, against, labels)
    return TaskSet(of_images.name, {"i2t": of_images.build(), "t2t": of_texts.build()}, source)


def _rarest(made: Sequence[Contrast], counts: dict[str, int]) -> Contrast:
    """The contrast whose category was chosen least often so far."""
    chosen = min(made, key=lambda pair: counts.get(pair.category, 0))
    counts[chosen.category] = counts.get(chosen.category, 0) + 1
    return chosen


def _groups(n: int, seed: int, code: str) -> Iterator[tuple[int, Scene, Contrast]]:
    """The first n scenes that have a pair of captions of the same words, with the pair."""
    counts: dict[str, int] = {}
    index = made_so_far = 0
    while made_so_far < n:
        scene = sample_scene(seed, index)
        made = [pair for pair in contrasts(scene, GRAMMARS[code]) if pair.has_same_words]
        if made:
            yield index, scene, _rarest(made, counts)
            made_so_far += 1
        index += 1


def _checked(n: int, seed: int, size: int, language: str, splits: Mapping[str, float]) -> tuple[list[str], str]:
    """The languages, and where the task comes from; `CollectionError` lists everything that is wrong."""
    languages = language.split("+")
    check_arguments(n, seed, size, 0.0, splits, languages)
    titles = ", ".join(GRAMMARS[code].title for code in languages)
    return languages, f"generated scenes, seed {seed}, {size} px, {titles}"
