"""`visir.profile`: what a model can do, on generated scenes, on data at hand, and on your own data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np

from visir.collections import open_source
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.encoding import EncodeOptions
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.intervals import difference_interval, interval_of
from visir.evaluation.language import LanguageModel, language_model
from visir.evaluation.sources import check_open_options, open_tasks
from visir.fingerprint import hash_json
from visir.progress import Progress
from visir.studies.profile.at_hand import DataAtHand, captions_at_hand, data_at_hand
from visir.studies.profile.generated import generated_tasks
from visir.studies.profile.own_data import tasks_of
from visir.studies.profile.result import LeftOutTask, ModelProfile, ScoreDifference, SkillScore, in_order
from visir.studies.profile.selection import select, wanted_names
from visir.studies.profile.skill import ABILITIES, Floor, Measured, Skill
from visir.studies.profile.task import ProfileTask, reason_of

REFERENCE = "colours"
"""The usual reference: it knows colours and the words for them, and nothing else."""
SCENES = 200
"""How many pictures each task of generated scenes has, where nobody says."""


def profile(
    model: Any,
    data: Any = None,
    *,
    reference: Any = REFERENCE,
    tasks: Sequence[str] | str | None = None,
    scenes: int = SCENES,
    at_hand: bool = True,
    blind: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    **encoding: Any,
) -> ModelProfile:
    """Measure what a model can do: every task that data is at hand for, by strength, with chance and a reference.

    Generated scenes are always there: retrieval, choices, composed queries, five languages, short and long captions,
    classes, damaged captions and pictures. Known data sets under VISIR_DATA take part where they are there, and your
    own data where you give it. A task that the model cannot take is listed with the reason.

    The strength of a task is where the score stands between chance (0) and perfect (1). The same input gives the same
    profile. Vectors are kept in the store, so a profile that was stopped goes on where it was.

    Args:
        model: A model or its name.
        data: Your own data: whatever `visir.open` takes, a list of such names, or {name: source}. Measured is its split
            "test", or "val" where there is no such split, or everything ("photos.csv?split=train" names another).
        reference: A model that stands beside; None or "none" for none. The model itself is none.
        tasks: Which tasks: an ability ("retrieval", "composition", "language", "classification", "robustness"), a
            source ("scenes"), or one task ("scenes/typos"); several as a list. None takes all.
        scenes: How many pictures each task of generated scenes has; 0 leaves them out.
        at_hand: Whether data sets under VISIR_DATA take part.
        blind: A language model that chooses among texts without looking, beside the choices of known data sets and of
            your own: a collection of captions, of which an n-gram model is made, or "gpt2". None takes the captions
            under VISIR_DATA, where they are there and `at_hand` is not False.
        device: Where models that are named are run.
        dtype: Their arithmetic.
        **encoding: Options of `visir.encode` (`store`, `batch_size`, `workers`).

    Returns:
        The scores, what was left out, and the protocols; `save("profile.html")` writes a page.

    Raises:
        ConfigurationError: A task is unknown, or no task is left.
        CollectionError: Your own data cannot be opened.
        VisirError: No task could be measured; the reason of the first.

    Example:
        >>> import visir
        >>> mine = visir.profile("colours", scenes=20, at_hand=False, reference=None, tasks="scenes/choice")
        >>> [(row.name, row.queries, row.chance) for row in mine.scores]
        [('scenes/choice', 20, 0.5)]
    """
    check_open_options(encoding, "profile")
    if scenes < 0:
        raise ConfigurationError(f"scenes = {scenes}: a number of pictures, or 0 for none.")
    names = wanted_names(tasks)
    encoder = load(model, device=device, dtype=dtype)
    blind = (captions_at_hand() if at_hand else "") if blind is None else blind
    every = [*(generated_tasks(scenes) if scenes else []), *_own_tasks(data, blind)]
    left_out: list[LeftOutTask] = []
    known = data_at_hand() if at_hand else []
    every += _tasks_at_hand(known, names, left_out, blind)
    chosen = select(every, names, [data_set.name for data_set, _ in known])
    if not chosen and not left_out:
        raise ConfigurationError(
            "there is no task to measure.", hint="give data, or scenes=200 (--scenes 200)", code="no-task-measure"
        )
    other = _reference(reference, device, dtype)
    notes = []
    if other is not None and other.card.fingerprint == encoder.card.fingerprint:
        notes.append(f"no reference: {other.card.name} is the model itself; another one: reference=MODEL (--reference)")
        other = None
    scores: list[SkillScore] = []
    protocols: dict[str, tuple[tuple[str, str], ...]] = {}
    language_models = cache(language_model)  # several tasks have the same
    with Progress("measuring tasks", sum(len(task.skills) for task in chosen), "tasks") as advance:
        for task in chosen:
            for row in _measured(task, encoder, other, language_models, protocols, cast(EncodeOptions, encoding)):
                if isinstance(row, SkillScore):
                    scores.append(row)
                else:
                    left_out.append(row)
            advance(len(task.skills))
    if not scores:
        reasons = list(dict.fromkeys(row.reason for row in left_out))
        raise VisirError(f"{encoder.card.name}: no task could be measured: {reasons[0]}", hint="; ".join(reasons[1:4]))
    shown = "" if other is None else other.card.name
    return ModelProfile(encoder.card.name, shown, in_order(scores), tuple(left_out), protocols, tuple(notes))


def _reference(reference: Any, device: str | None, dtype: str) -> Encoder | None:
    """The reference; a model without weights takes neither a device nor an arithmetic."""
    if reference is None or reference == "none":
        return None
    return load(reference) if reference == REFERENCE else load(reference, device=device, dtype=dtype)


def _own_tasks(data: Any, blind: str) -> list[ProfileTask]:
    """The tasks of the sources that somebody gives, under names of their own."""
    if data is None:
        return []
    named: list[tuple[str, Any]]
    if isinstance(data, Mapping) and all(isinstance(name, str) for name in data) and not _is_one_source(data):
        named = list(data.items())
    elif isinstance(data, (list, tuple)) and data and all(isinstance(place, (str, PathLike)) for place in data):
        named = [("", place) for place in data]
    else:
        named = [("", data)]
    every: list[ProfileTask] = []
    used: dict[str, int] = {}
    for given, source in named:
        opened = open_tasks(source) if not isinstance(source, (str, PathLike)) else open_source(fspath(source))
        name = given or _short_name(source, opened)
        used[name] = used.get(name, 0) + 1
        every += tasks_of(f"{name}-{used[name]}" if used[name] > 1 else name, opened, blind)
    return every


def _is_one_source(data: Mapping[str, Any]) -> bool:
    """Whether a dictionary is one source by itself: {image: caption}, or queries, documents and judgements."""
    return "queries" in data or all(isinstance(value, (str, list, tuple)) and _is_picture(key) for key, value in
                                    data.items())  # fmt: skip


def _is_picture(name: str) -> bool:
    return Path(name).suffix.lower() in (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def _short_name(source: Any, opened: Any) -> str:
    """The name of a source without a slash, a comma or a space: `--tasks` has to be able to say it."""
    name = str(getattr(opened, "name", "") or "")
    if isinstance(source, (str, PathLike)) and not name:
        name = Path(fspath(source).partition("?")[0]).stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-") or "mine"


def _tasks_at_hand(
    data_sets: Iterable[tuple[DataAtHand, Path]], names: Sequence[str], left_out: list[LeftOutTask], blind: str
) -> list[ProfileTask]:
    """The tasks of known data sets that may be asked for; one that cannot be read is left out with the reason."""
    every: list[ProfileTask] = []
    for known, folder in data_sets:
        if names and not {known.name, *ABILITIES} & {name.partition("/")[0] for name in names}:
            continue
        try:
            made = tasks_of(known.name, known.open(folder), blind)
        except VisirError as fault:
            left_out.append(LeftOutTask(known.name, "all", known.name, known.ability or "retrieval", reason_of(fault)))
            continue
        for task in made:
            skills = tuple(replace(skill, ability=known.ability or skill.ability) for skill in task.skills)
            every.append(replace(task, skills=skills))
    return every


def _measured(
    task: ProfileTask,
    encoder: Encoder,
    other: Encoder | None,
    language_model: Callable[[str], LanguageModel],
    protocols: dict[str, tuple[tuple[str, str], ...]],
    encoding: EncodeOptions,
) -> Iterable[SkillScore | LeftOutTask]:
    """The rows of one task. What cannot be measured is a row with the reason, and the other tasks go on."""
    try:
        data = task.prepare()
        lacking = {skill.name: task.missing(data, skill, encoder) for skill in task.skills}
        able = [skill for skill in task.skills if not lacking[skill.name]]
        own = task.measure(data, able, encoder, **encoding) if able else {}
    except VisirError as fault:
        return [_left_out(task, skill, reason_of(fault)) for skill in task.skills]
    floors = task.floors(data, able, language_model) if able else {}
    beside = {} if other is None else _of_reference(task, data, able, other, encoding)
    rows: list[SkillScore | LeftOutTask] = []
    for skill in task.skills:
        if lacking[skill.name]:
            rows.append(_left_out(task, skill, lacking[skill.name]))
            continue
        measured = own[skill.name]
        key = hash_json({"protocol": measured.protocol})[:12]
        protocols[key] = measured.protocol
        rows.append(_score(task, skill, measured, beside.get(skill.name), floors.get(skill.name), key))
    return rows


def _of_reference(
    task: ProfileTask, data: Any, skills: Sequence[Skill], other: Encoder, encoding: EncodeOptions
) -> Mapping[str, Measured | str]:
    """The reference on the tasks that it can take; on the others the reason."""
    lacking = {skill.name: task.missing(data, skill, other) for skill in skills}
    able = [skill for skill in skills if not lacking[skill.name]]
    reasons = {name: reason for name, reason in lacking.items() if reason}
    try:
        return {**reasons, **(task.measure(data, able, other, **encoding) if able else {})}
    except VisirError as fault:  # the profile is of the model: it goes on
        return {**reasons, **{skill.name: reason_of(fault) for skill in able}}


def _score(
    task: ProfileTask, skill: Skill, own: Measured, beside: Measured | str | None, floor: Floor | None, key: str
) -> SkillScore:
    low, high = interval_of(own.values, own.clusters)
    reason, other, difference = (beside, None, None) if isinstance(beside, str) else ("", beside, None)
    if other is not None and len(other.values) == len(own.values):
        apart = own.values - other.values
        ends = difference_interval(own.values, other.values, own.clusters)
        difference = ScoreDifference(float(apart.mean()), *ends)
    elif other is not None:
        reason = f"no difference: it answered {len(other.values):,} queries, the model {len(own.values):,}"
    floor = floor or own.floor or Floor(None)
    return SkillScore(
        task.source,
        skill.name,
        skill.title,
        skill.ability,
        skill.measure,
        len(own.values),
        own.candidates,
        float(np.mean(own.values)),
        low,
        high,
        own.chance,
        floor.value,
        None if other is None else float(np.mean(other.values)),
        difference,
        key,
        own.notes,
        floor.by,
        floor.reason,
        reason,
    )


def _left_out(task: ProfileTask, skill: Skill, reason: str) -> LeftOutTask:
    return LeftOutTask(task.source, skill.name, skill.title, skill.ability, reason)
