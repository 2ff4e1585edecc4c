"""Which models there are, and which one to begin with: data for people, hints, completion and the documents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from visir.encoders.families import FAMILIES, every_family
from visir.files import data_directory

Language = Literal["english", "any"]
_HUB = "transformers"


@dataclass(frozen=True)
class KnownModel:
    """A name that `visir.load` takes.

    Attributes:
        name: The name; words in capitals stand for something of yours ("onnx:FILE").
        family: Its family.
        title: What it is, in words.
        takes: What it encodes: "image", "text".
        megabytes: The size of its download; 0 without one.
        installed: Whether the packages that it needs are installed.
        here: Whether it loads without a download.
    """

    name: str
    family: str
    title: str
    takes: tuple[str, ...]
    megabytes: int
    installed: bool
    here: bool


_BEGIN: dict[Language, tuple[str, str, int]] = {
    "english": ("openai/clip-vit-base-patch32", "CLIP: English texts; quick on a CPU", 605),
    "any": ("google/siglip2-base-patch16-224", "SigLIP 2: texts in many languages; finds more than CLIP", 1500),
}
"""The model to begin with, by the language of the texts: name, title, megabytes."""


def recommended(language: Language = "english") -> KnownModel:
    """The model to begin with, for pictures and texts: a small one of the Hugging Face hub.

    Where another one of the list is on this machine already and this one is not, it is that one.

    Args:
        language: "english", or "any" for texts in other languages.

    Example:
        >>> import visir
        >>> visir.encoders.recommended("any").takes
        ('image', 'text')
    """
    models = [_of_hub(*_BEGIN[language]), *(_of_hub(*entry) for key, entry in _BEGIN.items() if key != language)]
    wanted = models[:1] if language == "any" else models  # a model of English is no answer for other languages
    return next((model for model in wanted if model.here), models[0])


def models() -> tuple[KnownModel, ...]:
    """The models that can be loaded by name: those to begin with, and one example or form of each family.

    Example:
        >>> import visir
        >>> [model.name for model in visir.models() if model.here and not model.megabytes][:2]
        ['pixels', 'bow']
    """
    first = tuple(_of_hub(*entry) for entry in _BEGIN.values())
    return first + tuple(
        KnownModel(
            family.name if family.name in family.prefixes else _form(family.form),
            family.name,
            family.title,
            family.takes,
            0,
            all(find_spec(package) is not None for package in family.packages),
            _is_here(family.name),
        )
        for family in every_family()
    )


def where_to_begin() -> str:
    """A hint for people who look for a model that answers texts: with a hub, and without one."""
    first, other = (_of_hub(*entry) for entry in _BEGIN.values())
    here = [model.name for model in (first, other) if model.here]
    if here:
        return f"a model of pictures and texts that is on this machine: {', '.join(here)}"
    return (
        f"begin with {first.name} ({first.title}; {first.megabytes} MB from the hub) or {other.name} ({other.title}; "
        f"{other.megabytes:,} MB). Without the hub no model here answers texts: copy a model's folder here and name "
        "its path, or train one: visir train scenes-heads --out heads (a small one; visir train --list has more)"
    )


def _of_hub(name: str, title: str, megabytes: int) -> KnownModel:
    family = FAMILIES.get(_HUB)
    installed = all(find_spec(package) is not None for package in family.packages)
    return KnownModel(name, family.name, title, ("image", "text"), megabytes, installed, _in_cache(name))


def _form(form: str) -> str:
    """The part of a family's form that completes a name: "onnx:FILE" of "onnx:FILE[?option=value&…]"."""
    return form.partition(" or ")[0].partition(",")[0].partition("[")[0]


def _is_here(family: str) -> bool:
    if family == "mobilenet":
        return (data_directory() / "mobilenet_v2").is_dir()
    return family in ("pixels", "bag-of-words")


def _in_cache(name: str) -> bool:
    """Whether the hub's cache on this machine has the model, without asking the network or importing its package."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    folder = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    return any(folder.glob("*/config.json"))
