"""The class names and templates of CLIP (Radford et al., 2021), by the name of the data set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from visir.errors import ConfigurationError, nearest
from visir.files import read_json

PREFIX = "clip/"
_FILE = Path(__file__).with_name("clip_prompts.json")
_OTHER_NAMES = {
    "dtd": "describabletextures",
    "fer2013": "facialemotionrecognition2013",
    "pcam": "patchcamelyon",
    "pets": "oxfordpets",
    "oxfordiiitpet": "oxfordpets",
    "renderedsst2": "sst2",
    "aircraft": "fgvcaircraft",
    "cars": "stanfordcars",
    "voc2007": "pascalvoc2007",
    "imagenet1k": "imagenet",
    "clevrclassification": "clevrcounts",
}
"""Other names of the same data sets, those of torchvision among them."""


@dataclass(frozen=True)
class ClipPrompts:
    """What CLIP used for one data set."""

    name: str  # as it is called here: "clip/food101"
    # The names of each class, in the order of the data set; a few classes have several names.
    classes: tuple[tuple[str, ...], ...]
    templates: tuple[str, ...]  # the templates, with {} where the class name stands


def clip_names() -> list[str]:
    """The names of all lists: "clip/birdsnap", …"""
    return [PREFIX + name for name in _lists()]


def clip_prompts(name: str) -> ClipPrompts:
    """The lists of a data set."""
    own = list_name(name.removeprefix(PREFIX))
    if own is None:
        raise ConfigurationError(
            f"unknown list {name!r} of class names and templates",
            hint=f"{nearest(name, clip_names())}; known: {', '.join(clip_names())}",
        )
    return _lists()[own]


def list_name(data_set: str) -> str | None:
    """The name of the list for a data set: "OxfordIIITPet" → "oxfordpets"; None where CLIP has none."""
    lists = _lists()
    if data_set.lower() in lists:
        return data_set.lower()
    plain = "".join(character for character in data_set.lower() if character.isalnum())
    plain = {"imagenet7": "imagenet-7"}.get(plain, plain)
    plain = _OTHER_NAMES.get(plain, plain)
    return plain if plain in lists else None


@lru_cache(maxsize=1)
def _lists() -> dict[str, ClipPrompts]:
    content = read_json(_FILE)
    lists = {}
    for name, entry in content.items():
        classes = entry["classes"] or content["imagenet"]["classes"]
        names = tuple((names,) if isinstance(names, str) else tuple(names) for names in classes)
        lists[name] = ClipPrompts(PREFIX + name, names, tuple(entry["templates"]))
    return lists
