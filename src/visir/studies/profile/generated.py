"""The tasks of generated scenes: they need no download, and what is right in them is known. A new one is a line here.

All are of scenes that no recipe trains on, because their seed is another one. Under the relevance "facts" every picture
of which a caption is true is a right answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from visir.collections import open_source
from visir.collections.scenes.generate import RELEVANCE, scenes
from visir.robustness.corruptions import corrupt
from visir.robustness.order_choices import order_choices
from visir.robustness.perturb import perturb
from visir.studies.profile.class_task import PROBE, ZERO_SHOT, ClassTask
from visir.studies.profile.search_task import SearchTask
from visir.studies.profile.skill import Skill
from visir.studies.profile.task import ProfileTask

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
        return _search(partial(open_source, spec), *skills, relevance=relevance)

    def changed(change: Callable[[Any], Any], *skills: Skill, relevance: str | None = RELEVANCE) -> SearchTask:
        return _search(lambda: change(_plain(n)), *skills, relevance=relevance)

    return [
        search("", *_both_ways(), relevance=RELEVANCE),
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


def _both_ways() -> tuple[Skill, ...]:
    return (
        _finds("text-to-image", "a caption", "retrieval"),
        Skill("image-to-text", "a picture finds its caption", "retrieval", "i2t"),
    )


def _finds(name: str, what: str, ability: str) -> Skill:
    return Skill(name, f"{what} finds its picture", ability, "t2i")


def _captions(name: str, how: str) -> Skill:
    return Skill(name, f"a {how} picture finds its caption", "robustness", "i2t")


def _plain(n: int) -> Any:
    return open_source(f"scenes:{n}?seed={SEED}")


def _search(opens: Callable[[], Any], *skills: Skill, relevance: str | None) -> SearchTask:
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
