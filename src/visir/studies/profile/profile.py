"""`visir.profile`: what a model can do, on generated scenes, on data at hand, and on your own data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np

import visir.stats as stats
from visir.collections import open_source
from visir.collections.scenes.generate import RELEVANCE, scenes
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.encoding import EncodeOptions
from visir.errors import CollectionError, ConfigurationError, VisirError, nearest, raise_faults
from visir.evaluation.classification.classify import classify
from visir.evaluation.classification.labelling import CAPTION, FOLDER, find_truth
from visir.evaluation.classification.result import Classification
from visir.evaluation.language import LanguageModel, language_model
from visir.evaluation.measures import base_of
from visir.evaluation.sources import check_open_options, open_tasks
from visir.files import data_directory
from visir.fingerprint import hash_json
from visir.progress import Progress
from visir.records import Collection, Task
from visir.robustness.corruptions import corrupt
from visir.robustness.perturb import order_choices, perturb
from visir.studies.profile.result import (
    ABILITIES,
    Floor,
    LeftOutTask,
    Measured,
    ModelProfile,
    ProfileTask,
    ScoreDifference,
    SearchTask,
    Skill,
    SkillScore,
    in_order,
    reason_of,
    unread,
)

# Tasks of a profile in which pictures are classified: by prompts, or by a probe on vectors.

ZERO_SHOT, PROBE = "zero-shot", "linear-probe"
"""The tasks that skills of classification name."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTask(ProfileTask):
    """Pictures with classes, in `visir.classify`. The `task` of its skills is "zero-shot" or "linear-probe"."""

    truth: str | None = None  # where the classes stand; None finds out
    templates: tuple[str, ...] | None = None  # the prompts; None takes CLIP's
    split: str | None = None  # the split that is measured; "all" is everything
    train: str = "train"  # the split that a probe learns from
    shots: int | str = 16  # how many pictures of each class a probe learns from; "all" for all

    def missing(self, data: Any, skill: Skill, encoder: Encoder) -> str:
        """A probe needs images, prompts need texts too."""
        return unread(["image"] if skill.task == PROBE else ["text", "image"], encoder)

    def measure(self, data: Any, skills: Sequence[Skill], encoder: Encoder, **encoding: Any) -> dict[str, Measured]:
        """Classify with all methods that are wanted."""
        measured = {}
        for skill in skills:
            probe = skill.task == PROBE
            result = classify(
                data,
                encoder,
                truth=self.truth,
                templates=list(self.templates) if self.templates else None,
                methods=skill.task,
                shots=self.shots if probe else 0,
                draws=1,
                split=self.split,
                train=self.train,
                **encoding,
            )
            if not isinstance(result, Classification):
                raise ConfigurationError(f"{self.source}: no picture has a class.", hint="name the column of classes")
            hits = result.predictions[result.key(skill.task)].ranks == 1
            measured[skill.name] = Measured(
                hits.mean(axis=0),
                None,
                result.chance,
                f"{len(result.classes):,}",
                tuple(result.protocol),
                result.notes,
                Floor(result.majority, "the most frequent class"),
            )
        return measured


# The tasks of generated scenes: they need no download, and what is right in them is known. A new one is a line here.

NAME = "scenes"
SEED = 1
BLIND = "scenes:1000?seed=2"
"""The captions of which the blind model of three words in a row is made."""
LANGUAGES = {"de": "German", "fr": "French", "es": "Spanish", "zh": "Chinese"}
DAMAGES = {"gaussian_blur": "blurred", "gaussian_noise": "noisy", "occlusion": "partly covered"}
ORDERS = ("shuffle_trigrams", "shuffle_within_trigrams")


def generated_tasks(n: int) -> list[ProfileTask]:
    """The tasks of generated scenes."""

    def search(options: str, *skills: Skill, relevance: str | None = None, count: int = n) -> SearchTask:
        spec = f"scenes:{count}?seed={SEED}{options}"
        return _generated_search(partial(open_source, spec), *skills, relevance=relevance)

    def changed(change: Callable[[Any], Any], *skills: Skill, relevance: str | None = RELEVANCE) -> SearchTask:
        return _generated_search(lambda: change(_plain(n)), *skills, relevance=relevance)

    return [
        search(
            "",
            _finds("text-to-image", "a caption", "retrieval"),
            Skill("image-to-text", "a picture finds its caption", "retrieval", "i2t"),
            relevance=RELEVANCE,
        ),
        search("&length=short", _finds("short-captions", "a caption of a few words", "retrieval"), relevance=RELEVANCE),
        search("&task=choice", Skill("choice", "the right caption of two", "composition", "i2t", "all_first")),
        search(
            "&task=winoground",
            Skill("winoground-text", "its caption of two with the same words", "composition", *_TEXT),
            Skill("winoground-image", "its picture of two, for such a caption", "composition", *_IMAGE),
            Skill("winoground-group", "all four choices of such a group", "composition", "i2t", "group_score"),
        ),
        search(
            "&task=paraphrase",
            Skill("paraphrase", "two right captions before a wrong one", "composition", "i2t", "all_first"),
            Skill(
                "paraphrase-text", "a paraphrase before a wrong caption, texts alone", "composition", "t2t", "all_first"
            ),
        ),
        changed(
            partial(order_choices, orders=ORDERS),
            Skill("word-order", "a caption before its words in another order", "composition", "i2t", "all_first"),
            relevance=None,
        ),
        search(
            "&task=composed",
            Skill("composed", "a picture and a change find the new picture", "composition", "it2i"),
            count=max(1, n // 2),
        ),
        *(
            search(f"&language={code}", _finds(code, f"a {title} caption", "language"), relevance=RELEVANCE)
            for code, title in LANGUAGES.items()
        ),
        search("&length=long", _finds("long-captions", "a text of 100 to 250 words", "language"), relevance=RELEVANCE),
        _classes(n, "subject", "what the picture is about", "a picture of a {}."),
        _classes(n, "colour", "which colour it has", "a picture of something {}."),
        _classes(n, "place", "where it is", "a picture of the {}."),
        _probe(n, "subject", "what the picture is about, by a linear probe"),
        _probe(n, "flyers", "how many things fly, by a linear probe"),
        changed(partial(perturb, name="nearby_char"), _finds("typos", "a caption with a typo", "robustness")),
        changed(
            partial(perturb, name="distraction_false"),
            _finds("distraction", "a caption with a false remark", "robustness"),
        ),
        *(
            changed(partial(corrupt, name=name), _captions(name.replace("_", "-"), title))
            for name, title in DAMAGES.items()
        ),
    ]


_TEXT = ("i2t", "item_score")
_IMAGE = ("t2i", "item_score")


def _finds(name: str, what: str, ability: str) -> Skill:
    return Skill(name, f"{what} finds its picture", ability, "t2i")


def _captions(name: str, how: str) -> Skill:
    return Skill(name, f"a {how} picture finds its caption", "robustness", "i2t")


def _plain(n: int) -> Any:
    return open_source(f"scenes:{n}?seed={SEED}")


def _generated_search(opens: Callable[[], Any], *skills: Skill, relevance: str | None) -> SearchTask:
    return SearchTask(source=NAME, skills=skills, open=opens, relevance=relevance, blind_model=BLIND)


def _classes(n: int, fact: str, title: str, template: str) -> ClassTask:
    skill = Skill(f"names-{fact}", title, "classification", ZERO_SHOT, "top-1")
    return ClassTask(
        source=NAME,
        skills=(skill,),
        open=partial(_plain, n),
        truth=fact,
        templates=(template,),
        split="all",
    )


def _probe(n: int, fact: str, title: str) -> ClassTask:
    """A probe learns from as many pictures as it is measured on."""
    skill = Skill(f"probe-{fact}", title, "classification", PROBE, "top-1")
    halves = {"train": 0.5, "test": 0.5}
    return ClassTask(
        source=NAME,
        skills=(skill,),
        open=partial(scenes, 2 * n, seed=SEED, splits=halves),
        truth=fact,
        split="test",
        shots="all",
    )


# The tasks of any source: what can be measured on a collection, on a task, on pictures with classes.

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
            open=partial(source.keep_languages, code),
            split=split,
        )
        for code in source.languages
    ]


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


# Known data sets under `VISIR_DATA`: those that are there take part in every profile. A new one is a line here.


@dataclass(frozen=True)
class DataAtHand:
    """A data set at its place under `VISIR_DATA`."""

    name: str  # what a profile calls it
    path: str  # where it is
    images: str = ""  # where its pictures are, when they are not beside it; without them it takes no part
    splits: str = ""  # where its division into splits is, when its own files do not say it; other pictures are left out
    ability: str = ""  # what its tasks show, where that is another ability than tasks of this kind usually show

    def is_there(self, folder: Path) -> bool:
        """Whether its files are in a folder."""
        return all((folder / place).exists() for place in (self.path, self.images, self.splits) if place)

    def open(self, folder: Path) -> Any:
        """Open it."""
        images = str(folder / self.images) if self.images else None
        options: dict[str, Any] = {"splits": folder / self.splits, "unlisted": "drop"} if self.splits else {}
        return open_source(str(folder / self.path), images=images, **options)


_FLICKR8K = "flickr8k/images_test_224.zip"
_COCO = "coco/images_154_256.zip"
CAPTIONS = "flickr8k/Flickr8k.token.txt.xz"
"""Captions of which the language model of the blind baseline is made."""

DATA_SETS = (
    DataAtHand("flickr8k", "flickr8k/dataset_flickr8k.karpathy_schema.json.xz", _FLICKR8K),
    DataAtHand("sugarcrepe-pp", "choice/sugarcrepe_pp", _COCO),
    DataAtHand("valse", "choice/valse", _COCO),
    DataAtHand("flickr8k-cn", "multilingual/flickr8k-cn", _FLICKR8K, splits="flickr8k", ability="language"),
    DataAtHand("mnist", "mnist"),
)


# Which tasks of a profile are asked for: by ability, by source, or by name.


def select(tasks: Iterable[ProfileTask], names: Sequence[str], sources: Sequence[str] = ()) -> list[ProfileTask]:
    """The tasks with the skills that are asked for."""
    given = list(tasks)
    if not names:
        return given
    read = dict.fromkeys(task.source for task in given)
    unread = [source for source in sources if source not in read]
    single = [f"{task.source}/{skill.name}" for task in given for skill in task.skills]
    known = [*ABILITIES, *read, *unread, *single]
    faults = [
        f"unknown task {name!r} ({nearest(name, known)})"
        for name in names
        if name not in known and name.partition("/")[0] not in unread
    ]
    about = f"abilities: {', '.join(ABILITIES)}; data: {', '.join([*read, *unread])}"
    about += f"; one task: {single[0]}" if single else ""
    raise_faults(ConfigurationError, "tasks", faults, hint=about)
    chosen = []
    for task in given:
        skills = tuple(
            skill for skill in task.skills if {skill.ability, task.source, f"{task.source}/{skill.name}"} & {*names}
        )
        if skills:
            chosen.append(replace(task, skills=skills))
    return chosen


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
        reference: A model that stands beside: "colours" knows colour words alone; "none". The model itself is none.
        tasks: Which tasks: an ability ("retrieval", "composition", "language", "classification", "robustness"), a
            source ("scenes"), or one task ("scenes/typos"); several as a list. None takes all.
        scenes: How many generated pictures a task has; 0 for none.
        at_hand: Known data sets under VISIR_DATA too.
        blind: A language model that chooses without looking, beside choices of known data sets and your own: a
            collection of captions to learn from, or "gpt2". Default: captions under VISIR_DATA. Of captions an n-gram
            model is made.
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
    listed = [tasks] if isinstance(tasks, str) else list(tasks or ())
    names = tuple(name.strip() for part in listed for name in part.split(",") if name.strip())
    encoder = load(model, device=device, dtype=dtype)
    folder = data_directory()
    if blind is None:
        blind = str(folder / CAPTIONS) if at_hand and (folder / CAPTIONS).is_file() else ""
    every = [*(generated_tasks(scenes) if scenes else []), *_own_tasks(data, blind)]
    left_out: list[LeftOutTask] = []
    known = [data_set for data_set in DATA_SETS if at_hand and data_set.is_there(folder)]
    every += _tasks_at_hand(known, folder, names, left_out, blind)
    chosen = select(every, names, [data_set.name for data_set in known])
    if not chosen and not left_out:
        raise ConfigurationError(
            "there is no task to measure.", hint="give data, or scenes=200 (--scenes 200)", code="no-task-measure"
        )
    other, notes = None, []
    if reference not in (None, "none"):  # a model without weights takes neither a device nor an arithmetic
        other = load(reference) if reference == REFERENCE else load(reference, device=device, dtype=dtype)
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
    data_sets: Iterable[DataAtHand], folder: Path, names: Sequence[str], left_out: list[LeftOutTask], blind: str
) -> list[ProfileTask]:
    """The tasks of known data sets that may be asked for; one that cannot be read is left out with the reason."""
    every: list[ProfileTask] = []
    for known in data_sets:
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


SHARES = (0.0, 1.0)
"""Between which values a score lies for every query."""


def _score(
    task: ProfileTask, skill: Skill, own: Measured, beside: Measured | str | None, floor: Floor | None, key: str
) -> SkillScore:
    score = stats.estimate(own.values, own.clusters, bounds=SHARES)
    reason, other, difference = (beside, None, None) if isinstance(beside, str) else ("", beside, None)
    if other is not None and len(other.values) == len(own.values):
        apart = stats.difference(own.values, other.values, own.clusters, bounds=SHARES)
        difference = ScoreDifference(apart.value, apart.low, apart.high)
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
        score.value,
        score.low,
        score.high,
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
