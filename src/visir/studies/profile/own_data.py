"""The tasks of any source: what can be measured on a collection, on a task, on pictures with classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from visir.errors import CollectionError
from visir.evaluation.classification.truth import CAPTION, FOLDER, find_truth
from visir.evaluation.measures import base_of
from visir.records import Collection, Task
from visir.studies.profile.class_task import PROBE, ZERO_SHOT, ClassTask
from visir.studies.profile.search_task import SearchTask
from visir.studies.profile.skill import Skill
from visir.studies.profile.task import ProfileTask

SPLITS = ("test", "val")
"""The split that is measured: the first that a source has, otherwise everything."""
_NAMES = {"t2i": "text-to-image", "i2t": "image-to-text", "t2t": "text-to-text", "i2i": "image-to-image",
          "it2i": "composed"}  # fmt: skip
_TITLES = {
    "t2i": "a text finds its picture",
    "i2t": "a picture finds its text",
    "t2t": "a text finds its text",
    "i2i": "a picture finds its picture",
    "it2i": "a picture and a text find a picture",
}


def tasks_of(name: str, source: Any, blind_model: str = "") -> list[ProfileTask]:
    """The tasks of a source."""
    split = next((split for split in SPLITS if split in source.splits), None)
    if not isinstance(source, Collection):
        return [_search(name, source, split, _skills_of_tasks(source, split), blind_model)]
    made: list[ProfileTask] = []
    labelled = find_truth(source)
    has_captions = source.captions.num_rows > 0
    if labelled is not None and not (has_captions and labelled.where == "folders"):
        made += _class_tasks(name, source, split, labelled.where)
    if has_captions and (labelled is None or labelled.where != "captions"):
        made += _caption_tasks(name, source, split)
    if not made:
        raise CollectionError(
            f"{name}: neither captions nor classes; there is nothing to measure by.",
            hint="a folder for each class, a table of images and captions, or a task with judgements",
            code="neither-captions-nor-classes",
        )
    return made


def _caption_tasks(name: str, source: Collection, split: str | None) -> list[ProfileTask]:
    skills = tuple(Skill(_NAMES[task], _TITLES[task], "retrieval", task) for task in ("t2i", "i2t"))
    if len(source.languages) < 2:
        return [_search(name, source, split, skills)]
    return [
        SearchTask(
            source=name,
            skills=(Skill(code, f"{_TITLES['t2i']}, in {code}", "language", "t2i"),),
            open=_kept(source, code),
            split=split,
        )
        for code in source.languages
    ]


def _kept(source: Collection, code: str) -> Callable[[], Any]:
    return lambda: source.keep_languages(code)


def _class_tasks(name: str, source: Collection, split: str | None, where: str) -> list[ProfileTask]:
    kinds = {"folders": FOLDER, "captions": CAPTION}
    truth = kinds.get(where, where.removeprefix("column "))
    skills = [Skill("classes", "names the class of a picture", "classification", ZERO_SHOT, "top-1")]
    if split is not None and "train" in source.splits:
        skills.append(Skill("probe", "the class, by a linear probe", "classification", PROBE, "top-1"))
    return [ClassTask(source=name, skills=tuple(skills), open=lambda: source, truth=truth, split=split or "all")]


def _skills_of_tasks(source: Any, split: str | None) -> tuple[Skill, ...]:
    part = source.split(split)
    tasks = {name: part.task(name) for name in part.tasks}
    skills: list[Skill] = []
    for name, task in tasks.items():
        skills += _skills_of_task(name, task, alone=len(tasks) == 1)
    joined = [task for task in tasks.values() if "group_score" in task.measures]
    if len(joined) > 1:
        skills.append(Skill("group", "all choices of an item at once", "composition", joined[0].name, "group_score"))
    return tuple(skills)


def _skills_of_task(name: str, task: Task, alone: bool) -> list[Skill]:
    title = _TITLES.get(name, name)
    if task.pools is not None and "all_first" in task.measures:
        measure = "item_score" if "group_score" in task.measures else "all_first"
        short = "choice" if alone else f"choice-{_NAMES.get(name, name)}"
        return [Skill(short, f"{title}, of a few", "composition", name, measure)]
    composed = "text+image" in task.queries.kinds
    measure = next((measure for measure in task.measures if base_of(measure) == "hit"), "hit@1")
    return [Skill(_NAMES.get(name, name), title, "composition" if composed else "retrieval", name, measure)]


def _search(name: str, source: Any, split: str | None, skills: tuple[Skill, ...], blind_model: str = "") -> ProfileTask:
    return SearchTask(source=name, skills=skills, open=lambda: source, split=split, blind_model=blind_model)
